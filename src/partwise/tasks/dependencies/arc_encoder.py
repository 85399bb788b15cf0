"""Candidate arcs as rows of a parser's structure: arcs, relations where these are joint, siblings and grandparents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from partwise.core.arcs import Arcs
from partwise.data import DependencyCorpus
from partwise.errors import InputError
from partwise.estimators.encoded import Encoded, OwnRows
from partwise.estimators.place_encoder import PlaceEncoder
from partwise.features.arcs import ArcFeatures, GrandparentFeatures, SiblingFeatures
from partwise.storage.checks import expect_text

FEATURES: dict[str, Any] = {
    "arc": ArcFeatures, "relation": ArcFeatures, "sibling": SiblingFeatures, "grandparent": GrandparentFeatures,
}  # fmt: skip


def arc_kinds(labelled: bool, order: int) -> list[str]:
    """The kinds of rows of trees: relations where these are joint, pairs of arcs in second order."""
    return ["arc", *["relation"] * labelled, *["sibling", "grandparent"] * (order == 2)]


class ArcEncoder(PlaceEncoder):
    """Features of heads; where trees are labelled jointly, of relations; in second order, of pairs of arcs."""

    _in_files = "{}s"

    @property
    def arcs(self) -> ArcFeatures:
        return self.features["arc"]

    def transform(self, structure: Any, corpus: DependencyCorpus, arcs: Arcs) -> Encoded:
        """Rows and shapes of candidate arcs."""
        candidates: list[Any] = [arcs] * sum(kind in self.features for kind in ("arc", "relation"))
        if "sibling" in self.features:
            candidates += structure.triples(arcs)
        own = tuple(
            OwnRows(features.transform(corpus, parts))
            for features, parts in zip(self.features.values(), candidates, strict=True)
        )
        return Encoded(corpus.lengths, own, structure.arc_shapes(corpus.lengths, *arcs))

    @classmethod
    def from_state(
        cls, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], labelled: bool, order: int = 1
    ) -> ArcEncoder:
        """From what a model file holds."""
        found = {}
        for kind in arc_kinds(labelled, order):
            stored = cls._stored(header, arrays, kind)
            expect_text(stored, "observed", ("gold", "all"))
            if not isinstance(stored.get("fine_tags"), bool):
                raise InputError(f"the features of {kind}s do not say which tags they use")
            found[kind] = FEATURES[kind].from_state(stored)
        return cls(found)
