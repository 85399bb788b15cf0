"""What every encoder makes of X: rows of attributes of each kind, flat over all examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from partwise.core.maps import FeatureMap
from partwise.core.rows import AttributeRows, RowData
from partwise.structures.contract import Shapes, Structure


class KindSize(NamedTuple):
    """How many attributes an encoder has for one kind of rows; dense ones are numbered first."""

    n_dense: int
    n_sparse: int


class OwnRows(NamedTuple):
    """The rows of one kind.

    Attributes
    ----------
    sparse : AttributeRows or None
    dense : float32 array, shape (n_rows, n_dense), or None
    """

    sparse: AttributeRows | None = None
    dense: np.ndarray | None = None


class Encoded(NamedTuple):
    """Rows of some examples.

    Attributes
    ----------
    lengths : int64 array, shape (n_examples,)
    own : tuple of OwnRows
        Of each of the structure's kinds that are not tied, in their order.
    shapes : Shapes or None
        Of examples of which more is known than their length, all of which have positions.
    """

    lengths: np.ndarray
    own: tuple[OwnRows, ...]
    shapes: Shapes | None = None

    def shapes_for(self, structure: Structure) -> Shapes:
        """Shapes of the examples that have positions."""
        return structure.shapes(self.lengths[self.lengths > 0]) if self.shapes is None else self.shapes

    def rows(self, structure: Structure, maps: Mapping[str, FeatureMap]) -> dict[str, RowData]:
        """The rows by the name of their kind, with where their weights lie."""
        names = [kind.name for kind in structure.kinds if not kind.tied]
        return {name: RowData(maps[name], *own) for name, own in zip(names, self.own, strict=False)}


class ListedNames:
    """An encoder that has the names of all attributes of a kind as a list, made once."""

    names: Any

    def named(self, kind: str, ids: list[int]) -> list[str]:
        """Names of some attributes of a kind of rows, dense ones numbered first."""
        made = self.__dict__.setdefault("_names_made", {})
        if kind not in made:
            made[kind] = self.names(kind)
        return [made[kind][k] for k in ids]
