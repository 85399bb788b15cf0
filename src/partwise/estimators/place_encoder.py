"""Encoders of places in sentences (words, spans, arcs): a set of features for each kind of rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from partwise.errors import InputError
from partwise.estimators.encoded import KindSize
from partwise.storage.checks import expect_array, expect_number, expect_texts


class PlaceEncoder:
    """Features by kind of rows.

    Attributes
    ----------
    features : dict of PlaceFeatures
        By kind, in the order of the structure's kinds.
    """

    _in_files: ClassVar[str] = "{}"  # what features of a kind are called in model files

    def __init__(self, features: Mapping[str, Any]):
        self.features = dict(features)

    @property
    def sizes(self) -> tuple[KindSize, ...]:
        return tuple(KindSize(0, own.n_attributes) for own in self.features.values())

    def keep(self, used: list[np.ndarray]) -> tuple[Any, list[np.ndarray]]:
        """The same without the features that have no weight."""
        kept = {kind: own.keep(ids) for (kind, own), ids in zip(self.features.items(), used, strict=True)}
        return type(self)(kept), used

    def named(self, kind: str, ids: list[int]) -> list[str]:
        """Names of some features of a kind."""
        return self.features[kind].names(ids)

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Header and arrays of a model file."""
        header, arrays = {}, {}
        for kind, own in self.features.items():
            name, state = self._in_files.format(kind), own.state()
            arrays[f"{name}.keys"] = state.pop("keys")
            header[name] = state
        return header, arrays

    @classmethod
    def _stored(cls, header: Any, arrays: Mapping[str, np.ndarray], kind: str) -> dict[str, Any]:
        """What `state` returned of one kind, everything in it checked."""
        name = cls._in_files.format(kind)
        stored = header.get(name) if isinstance(header, Mapping) else None
        if not isinstance(stored, dict):
            raise InputError(f"the features of {name} are missing")
        expect_texts(stored, "templates", distinct=True)
        expect_number(stored, "min_count", 1, whole=True)
        sources, strings = expect_texts(stored, "sources", distinct=True), stored.get("strings")
        if not isinstance(strings, list) or len(strings) != len(sources):
            raise InputError(f"the values of the features of {name} are missing")
        for own in strings:
            expect_texts({"strings": own}, "strings", distinct=True)
        keys = expect_array(arrays, f"{name}.keys", np.int64, low=0)
        if len(np.unique(keys)) != len(keys):
            raise InputError(f"array '{name}.keys' holds a key twice")
        return {**stored, "keys": keys}
