"""Rows of features before they are bound to weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from partwise.errors import InputError

if TYPE_CHECKING:
    from partwise.core.maps import FeatureMap


class AttributeRows(NamedTuple):
    """Rows of sparse attributes. No row has an attribute twice.

    Attributes
    ----------
    row_ptr : int64 array, shape (n_rows + 1,)
    ids : int32 array, shape (row_ptr[-1],)
    values : float64 array, shape (row_ptr[-1],), or None if all are 1
    """

    row_ptr: np.ndarray
    ids: np.ndarray
    values: np.ndarray | None = None


class RowData(NamedTuple):
    """The rows of one kind, and where the weights of their attributes lie.

    Attributes
    ----------
    feature_map : FeatureMap
    sparse : AttributeRows or None
    dense : array, shape (n_rows, n_dense), or None
    """

    feature_map: FeatureMap
    sparse: AttributeRows | None = None
    dense: np.ndarray | None = None

    def check(self, name: str, width: int, n_rows: int) -> None:
        """Raise :class:`InputError` unless compiled code, which checks nothing, can read these rows safely."""
        sparse, dense, n_attributes = self.sparse, self.dense, len(self.feature_map.count)
        if self.feature_map.width != width:
            raise InputError(f"{name} rows feed {width} parts; their map has width {self.feature_map.width}")
        if sparse is not None:
            if len(sparse.row_ptr) != n_rows + 1:
                raise InputError(
                    f"there are {len(sparse.row_ptr) - 1} {name} rows; the examples need {n_rows}"
                )
            if sparse.ids.size and not 0 <= sparse.ids.min() <= sparse.ids.max() < n_attributes:
                raise InputError(
                    f"{name} rows name attribute {sparse.ids.max()}; their map has {n_attributes}"
                )
            if sparse.values is not None and not np.isfinite(sparse.values).all():
                raise InputError(f"values of {name} rows contain NaN or infinity")
        shape = (n_rows, self.feature_map.n_dense)
        if dense is None and shape[1]:
            raise InputError(
                f"dense values of {name} rows are missing: their map has {shape[1]} dense attributes"
            )
        if dense is not None and np.shape(dense) != shape:
            raise InputError(f"dense values of {name} rows have shape {np.shape(dense)}, expected {shape}")
        if dense is not None and not np.isfinite(dense).all():
            raise InputError(f"dense values of {name} rows contain NaN or infinity")


def shared_row() -> AttributeRows:
    """The single row of a tied kind: attribute 0, always present."""
    return AttributeRows(np.array([0, 1]), np.zeros(1, np.int32))


def own_numbers(n: int) -> AttributeRows:
    """n rows whose only attribute is their own index. The weights are then a table of the rows' scores."""
    return AttributeRows(np.arange(n + 1), np.arange(n, dtype=np.int32))
