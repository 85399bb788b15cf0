"""Selections, a structure whose labellings have different numbers of parts: its contract, and solvers on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contract_structures import Case, StructureContract, checks, score_makers
from hypothesis import given
from hypothesis import strategies as st

from partwise.errors import InputError
from partwise.structures import Selection, Structure


class TestSelection(StructureContract):
    def case(self, draw: Any) -> Case:
        n, make = draw(st.integers(1, 6)), draw(score_makers())
        return Case(Selection(), n, (make(n), make(n - 1), make()), {})

    def decode(self, structure: Structure, parts: np.ndarray, length: int) -> Any:
        return Selection().decode(parts, length)

    @checks
    @given(st.data())
    def test_nothing_possible(self, data: Any) -> None:
        """Something always is: to select nothing."""
        case = self.case(data.draw)
        scores = (np.full_like(case.scores[0], -np.inf), *case.scores[1:])
        assert case.structure.log_partition(*scores) == 0.0
        assert case.structure.entropy(*scores) == 0.0
        assert not case.structure.argmax(*scores).any()

    @checks
    @given(st.data())
    def test_batch_equals_one_by_one(self, data: Any) -> None:
        structure, make = Selection(), data.draw(score_makers())
        lengths = data.draw(st.lists(st.integers(1, 6), max_size=4))
        items, pairs = [make(n) for n in lengths], [make(n - 1) for n in lengths]
        each = [float(make()) for _ in lengths]
        for shared in (each, 0.5):
            numbers = each if shared is each else [0.5] * len(lengths)
            one_by_one = list(zip(items, pairs, numbers, strict=True))
            for method in ("log_partition", "entropy", "argmax", "marginals", "kbest"):
                ours = getattr(structure, method)(items, pairs, shared)
                assert len(ours) == len(lengths)
                for result, scores in zip(ours, one_by_one, strict=True):
                    expected = getattr(structure, method)(*scores)
                    assert np.array_equal(_flat(result), _flat(expected))
            gold = [np.arange(n) % 2 for n in lengths]
            augmented = structure.loss_augmented_argmax(items, pairs, shared, y=gold, cost=2.0)
            for result, scores, y in zip(augmented, one_by_one, gold, strict=True):
                np.testing.assert_array_equal(result, structure.loss_augmented_argmax(*scores, y=y, cost=2.0))
        assert [s.shape for s in structure.sample(items, pairs, each, 3, 0)] == [(3, n) for n in lengths]

    def test_refusals(self) -> None:
        structure = Selection()
        for scores, message in (
            (([], []), r"item_scores has 0 sequences, pair_scores 0, selected_score 2"),
            (([1.0], [1.0]), r"pair_scores has shape \(1,\), expected \(0,\)"),
            (([[1.0], [1.0, 2.0]], [[], []]), r"pair_scores\[1\] has shape \(0,\), expected \(1,\)"),
            ((np.zeros(0), []), "no items"),
            ((1.0, []), "item_scores"),
        ):
            shared = [0.0, 0.0] if message.endswith("2") else 0.0
            with pytest.raises(InputError, match=message):
                structure.argmax(*scores, shared)
        with pytest.raises(InputError, match="labels run from 0 to 1"):
            structure.encode([0, 2])
        with pytest.raises(InputError, match=r"example 1, position 0 has label 2"):
            structure.encode_all([0, 2], structure.shapes([1, 1]))
        with pytest.raises(InputError, match="length must be given"):
            structure.decode([])
        with pytest.raises(InputError, match="as many labels"):
            structure.loss_augmented_argmax([1.0, 2.0], [0.0], y=[1])


def _flat(result: Any) -> np.ndarray:
    """Everything in a nested answer, as one array."""
    if isinstance(result, list | tuple):
        return np.concatenate([np.zeros(0), *map(_flat, result)])
    return np.ravel(result).astype(float)
