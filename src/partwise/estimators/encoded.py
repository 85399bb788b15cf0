"""What every encoder makes of X: rows of attributes, flat over all sequences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from partwise.core.maps import FeatureMap
from partwise.core.rows import AttributeRows, RowData
from partwise.structures.contract import Shapes, Structure


class Encoded(NamedTuple):
    """Rows of some sequences.

    Attributes
    ----------
    lengths : int64 array, shape (n_sequences,)
    node_rows, edge_rows : AttributeRows or None
        Of the structure's first kind of rows and of its second.
    node_dense : float32 array, shape (n_positions, n_dense), or None
    shapes : Shapes or None
        Of sequences of which more is known than their length, all of which have positions.
    """

    lengths: np.ndarray
    node_rows: AttributeRows | None = None
    node_dense: np.ndarray | None = None
    edge_rows: AttributeRows | None = None
    shapes: Shapes | None = None

    def shapes_for(self, structure: Structure) -> Shapes:
        """Shapes of the sequences that have positions."""
        return structure.shapes(self.lengths[self.lengths > 0]) if self.shapes is None else self.shapes

    def rows(self, structure: Structure, maps: Mapping[str, FeatureMap]) -> dict[str, RowData]:
        """The rows by the name of their kind, with where their weights lie."""
        own = [kind.name for kind in structure.kinds if not kind.tied]
        data = [(self.node_rows, self.node_dense), (self.edge_rows, None)]
        return {name: RowData(maps[name], *each) for name, each in zip(own, data, strict=False)}
