"""Second-order trees: the contract, enumeration with pruned arcs, first order as a special case, extreme scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from contract_structures import Case, StructureContract, score_makers
from hypothesis import strategies as st

from partwise.structures import SecondOrderProjective


class SecondOrderCase(Case):
    @property
    def entropy_tolerance(self) -> float:
        finite = [np.abs(a[np.isfinite(a)]).max(initial=0.0) for a in self.scores]
        return self.tolerance * (20 + max(finite) * self.length)


class SecondOrderContract(StructureContract):
    kind: Any

    def case(self, draw: Any) -> Case:
        n_relations = draw(st.sampled_from([1, 1, 2]))
        length = draw(st.integers(1, 4 if n_relations == 1 else 3))
        structure = self.kind(single_root=draw(st.booleans()), n_relations=n_relations)
        make, size = draw(score_makers()), length + 1
        scores = [make(size, size), make(size, size, size), make(size, size, size)]
        if n_relations > 1:
            scores.append(make(size, size, n_relations))
        return SecondOrderCase(structure, length, tuple(scores), {})

    def flat_labels(self, structure: Any, y: Any) -> np.ndarray:
        return structure.codes(y)

    def decode(self, structure: Any, parts: np.ndarray, length: int) -> Any:
        return structure.decode(parts, length)


class TestSecondOrderProjective(SecondOrderContract):
    kind = SecondOrderProjective
