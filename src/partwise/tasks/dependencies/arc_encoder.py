"""Candidate arcs as rows of a parser's structure: arcs, relations where these are joint, siblings and grandparents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from partwise.core.arcs import Arcs
from partwise.data import DependencyCorpus
from partwise.errors import InputError
from partwise.estimators.encoded import Encoded, KindSize, OwnRows
from partwise.features.arcs import ArcFeatures, GrandparentFeatures, SiblingFeatures
from partwise.storage.checks import expect_array, expect_number, expect_text, expect_texts


class ArcEncoder:
    """Features of heads; where trees are labelled jointly, of relations; in second order, of pairs of arcs.

    Attributes
    ----------
    arcs, relations : ArcFeatures
        `relations` is None for trees without.
    siblings, grandparents : SiblingFeatures, GrandparentFeatures
        None in first order.
    """

    def __init__(
        self,
        arcs: ArcFeatures,
        relations: ArcFeatures | None = None,
        siblings: SiblingFeatures | None = None,
        grandparents: GrandparentFeatures | None = None,
    ):
        self.arcs, self.relations = arcs, relations
        self.siblings, self.grandparents = siblings, grandparents

    @property
    def n_attributes(self) -> int:
        return self.arcs.n_attributes

    @property
    def sizes(self) -> tuple[KindSize, ...]:
        return tuple(KindSize(0, features.n_attributes) for features in self._features())

    def named(self) -> dict[str, ArcFeatures]:
        """The features by kind of rows, in the order of the structure's kinds."""
        kinds = {
            "arc": self.arcs, "relation": self.relations,
            "sibling": self.siblings, "grandparent": self.grandparents,
        }  # fmt: skip
        return {name: features for name, features in kinds.items() if features is not None}

    def _features(self) -> list[ArcFeatures]:
        """Of every kind of rows."""
        return list(self.named().values())

    def transform(self, structure: Any, corpus: DependencyCorpus, arcs: Arcs) -> Encoded:
        """Rows and shapes of candidate arcs."""
        candidates: list[Any] = [arcs] if self.relations is None else [arcs, arcs]
        if self.siblings is not None:
            candidates += structure.triples(arcs)
        own = tuple(
            OwnRows(features.transform(corpus, parts))
            for features, parts in zip(self._features(), candidates, strict=True)
        )
        return Encoded(corpus.lengths, own, structure.arc_shapes(corpus.lengths, *arcs))

    def keep(self, used: list[np.ndarray]) -> tuple[ArcEncoder, list[np.ndarray]]:
        """The same without the features that have no weight."""
        kept: dict[str, Any] = {
            name: features.keep(ids) for (name, features), ids in zip(self.named().items(), used, strict=True)
        }
        return ArcEncoder(*map(kept.get, ("arc", "relation", "sibling", "grandparent"))), used  # type: ignore[arg-type]

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        header: dict[str, Any] = {}
        arrays: dict[str, np.ndarray] = {}
        for name, features in self.named().items():
            more, more_arrays = features_state(features, f"{name}s")
            header, arrays = header | more, arrays | more_arrays
        return header, arrays

    @classmethod
    def from_state(
        cls, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], labelled: bool, order: int = 1
    ) -> ArcEncoder:
        arcs = features_from_state(header, arrays, "arcs")
        relations = features_from_state(header, arrays, "relations") if labelled else None
        if order == 1:
            return cls(arcs, relations)
        siblings = features_from_state(header, arrays, "siblings", SiblingFeatures)
        return cls(
            arcs,
            relations,
            siblings,
            features_from_state(header, arrays, "grandparents", GrandparentFeatures),
        )


def features_state(features: ArcFeatures, name: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header entry and array of one set of features in a model file."""
    state = features.state()
    keys = state.pop("keys")
    return {name: state}, {f"{name}.keys": keys}


def features_from_state(
    header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], name: str, kind: type = ArcFeatures
) -> Any:
    """Features from what a model file holds, everything in it checked."""
    stored = header.get(name)
    if not isinstance(stored, dict):
        raise InputError(f"the features of {name} are missing")
    expect_texts(stored, "templates", distinct=True)
    expect_text(stored, "observed", ("gold", "all"))
    expect_number(stored, "min_count", 1, whole=True)
    sources = expect_texts(stored, "sources", distinct=True)
    strings = stored.get("strings")
    if not isinstance(strings, list) or len(strings) != len(sources):
        raise InputError(f"the values of the features of {name} are missing")
    for k in range(len(strings)):
        expect_texts({"strings": strings[k]}, "strings", distinct=True)
    if not isinstance(stored.get("fine_tags"), bool):
        raise InputError(f"the features of {name} do not say which tags they use")
    keys = expect_array(arrays, f"{name}.keys", np.int64, low=0)
    if len(np.unique(keys)) != len(keys):
        raise InputError(f"array '{name}.keys' holds a key twice")
    return kind.from_state({**stored, "keys": keys})  # type: ignore[attr-defined]
