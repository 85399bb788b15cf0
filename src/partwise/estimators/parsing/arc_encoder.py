"""Candidate arcs as rows of a parser's structure: an arc row each, and a relation row where relations are joint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from partwise.core.arcs import Arcs
from partwise.data import DependencyCorpus
from partwise.errors import InputError
from partwise.estimators.encoded import Encoded, KindSize, OwnRows
from partwise.features.arcs import ArcFeatures
from partwise.storage.checks import expect_array, expect_number, expect_text, expect_texts


class ArcEncoder:
    """Features of heads and, where trees are labelled jointly, of relations.

    Attributes
    ----------
    arcs, relations : ArcFeatures
        `relations` is None for trees without.
    """

    def __init__(self, arcs: ArcFeatures, relations: ArcFeatures | None = None):
        self.arcs, self.relations = arcs, relations

    @property
    def n_attributes(self) -> int:
        return self.arcs.n_attributes

    @property
    def sizes(self) -> tuple[KindSize, ...]:
        return tuple(KindSize(0, features.n_attributes) for features in self._features())

    def _features(self) -> list[ArcFeatures]:
        """Of every kind of rows."""
        return [self.arcs] if self.relations is None else [self.arcs, self.relations]

    def transform(self, structure: Any, corpus: DependencyCorpus, arcs: Arcs) -> Encoded:
        """Rows and shapes of candidate arcs."""
        own = tuple(OwnRows(features.transform(corpus, arcs)) for features in self._features())
        return Encoded(corpus.lengths, own, structure.arc_shapes(corpus.lengths, *arcs))

    def keep(self, used: list[np.ndarray]) -> tuple[ArcEncoder, list[np.ndarray]]:
        """The same without the features that have no weight."""
        kept = [features.keep(ids) for features, ids in zip(self._features(), used, strict=True)]
        return ArcEncoder(*kept), used

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        header, arrays = features_state(self.arcs, "arcs")
        if self.relations is not None:
            more, more_arrays = features_state(self.relations, "relations")
            header, arrays = header | more, arrays | more_arrays
        return header, arrays

    @classmethod
    def from_state(
        cls, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], labelled: bool
    ) -> ArcEncoder:
        arcs = features_from_state(header, arrays, "arcs")
        return cls(arcs, features_from_state(header, arrays, "relations") if labelled else None)


def features_state(features: ArcFeatures, name: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header entry and array of one set of features in a model file."""
    state = features.state()
    keys = state.pop("keys")
    return {name: state}, {f"{name}.keys": keys}


def features_from_state(
    header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], name: str
) -> ArcFeatures:
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
    return ArcFeatures.from_state({**stored, "keys": keys})
