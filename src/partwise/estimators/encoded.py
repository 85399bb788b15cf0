"""What every encoder makes of X: rows of attributes, flat over all sequences."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.features.vocabulary import AttributeRows
from partwise.structures.contract import Layouts


class Encoded(NamedTuple):
    """Rows of some sequences.

    Attributes
    ----------
    lengths : int64 array, shape (n_sequences,)
    node_rows, edge_rows : AttributeRows or None
    node_dense : float32 array, shape (n_positions, n_dense), or None
    layouts : Layouts or None
        Of sequences whose shape depends on more than their length, all of which have positions.
    """

    lengths: np.ndarray
    node_rows: AttributeRows | None = None
    node_dense: np.ndarray | None = None
    edge_rows: AttributeRows | None = None
    layouts: Layouts | None = None
