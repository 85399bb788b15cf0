"""Which (attribute, label) pairs have a weight, and its index in the weight vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from partwise.compiled.rows import KindRows
from partwise.compiled.simd import padded
from partwise.core.arrays import offsets
from partwise.core.rows import AttributeRows
from partwise.errors import InputError

Pairs = Literal["observed", "all"]


def row_stride(width: int) -> int:
    """Weights that an attribute takes in memory: whole vectors, or one weight if rows feed one part."""
    return 1 if width == 1 else padded(width)


@dataclass(frozen=True)
class FeatureMap:
    """Indices of the weights of one kind of rows.

    Attributes
    ----------
    width : int
        Parts that a row feeds (labels, or label pairs).
    n_dense : int
        Number of dense attributes. Their weights come first.
    start, count : int32 array (n_attributes,)
        The first weight of each sparse attribute, and its number of weights: 0 if it is wide, −1 if it has none.
    narrow_first : int
        The first narrow weight.
    narrow_label : int32 array (n_weights − narrow_first,)
        The label of each narrow weight.
    mask : float32 array (narrow_first,)
        1 for wide weights that exist; empty if all exist.
    n_weights : int
        Number of weights, padding included.
    """

    width: int
    n_dense: int
    start: np.ndarray
    count: np.ndarray
    narrow_first: int
    narrow_label: np.ndarray
    mask: np.ndarray
    n_weights: int

    @property
    def stride(self) -> int:
        return row_stride(self.width)

    @classmethod
    def build(
        cls,
        width: int,
        n_attributes: int = 0,
        n_dense: int = 0,
        rows: AttributeRows | None = None,
        row_labels: np.ndarray | None = None,
        pairs: Pairs = "all",
    ) -> FeatureMap:
        """Place weights for all pairs, or for the (attribute, label) pairs seen in `rows`.

        Parameters
        ----------
        rows : AttributeRows
            Sparse attributes of the training rows, needed for ``pairs="observed"``.
        row_labels : int array (n_rows,)
            The true label of each row, 0 … width − 1; −1 if it is unknown.
        """
        if pairs not in ("observed", "all"):
            raise InputError(f"pairs must be 'observed' or 'all', not {pairs!r}")
        stride = row_stride(width)
        if pairs == "all" or rows is None or row_labels is None:
            start = (n_dense + np.arange(n_attributes, dtype=np.int64)) * stride
            n_weights = (n_dense + n_attributes) * stride
            _check_size(n_weights)
            empty = np.zeros(0, np.int32)
            count = np.zeros(n_attributes, np.int32)
            no_mask = np.zeros(0, np.float32)
            return cls(width, n_dense, start.astype(np.int32), count, n_weights, empty, no_mask, n_weights)
        return cls._observed(width, n_attributes, n_dense, rows, row_labels)

    @classmethod
    def _observed(
        cls, width: int, n_attributes: int, n_dense: int, rows: AttributeRows, labels: np.ndarray
    ) -> FeatureMap:
        return cls.of_pairs(
            width, n_attributes, n_dense, _distinct(pairs_in(rows, labels, width), n_attributes * width)
        )

    @classmethod
    def of_pairs(cls, width: int, n_attributes: int, n_dense: int, pair: np.ndarray) -> FeatureMap:
        """Place weights for the pairs ``attribute * width + label``, which are distinct and ascend."""
        stride = row_stride(width)
        attribute, label = pair // width, pair % width
        n_pairs = np.bincount(attribute, minlength=n_attributes)
        # A wide row costs stride / LANES steps, a narrow list one step per label.
        wide = n_pairs > stride // 4
        n_wide = int(wide.sum())
        narrow_first = (n_dense + n_wide) * stride
        start = np.zeros(n_attributes, np.int64)
        start[wide] = (n_dense + np.arange(n_wide)) * stride
        narrow_counts = np.where(wide, 0, n_pairs)
        start[~wide] = narrow_first + offsets(narrow_counts)[:-1][~wide]
        n_weights = narrow_first + int(narrow_counts.sum())
        _check_size(n_weights)
        count = np.where(wide, 0, np.where(n_pairs == 0, -1, n_pairs)).astype(np.int32)
        mask = np.zeros(narrow_first, np.float32)
        mask.reshape(-1, stride)[:n_dense, :width] = 1.0
        in_wide = wide[attribute]
        mask[start[attribute[in_wide]] + label[in_wide]] = 1.0
        if mask.all():
            mask = mask[:0]
        narrow_label = label[~in_wide].astype(np.int32)
        return cls(width, n_dense, start.astype(np.int32), count, narrow_first, narrow_label, mask, n_weights)

    def bind(
        self, rows: AttributeRows | None, n_rows: int, first_weight: int = 0, dense: np.ndarray | None = None
    ) -> KindRows:
        """The rows as compiled code reads them. Their weights start at `first_weight`."""
        if rows is None:
            rows = AttributeRows(np.zeros(n_rows + 1, np.int64), np.zeros(0, np.int32), None)
        if dense is None:
            dense = np.zeros((n_rows, 0), np.float32)
        return KindRows(
            width=self.width,
            stride=self.stride,
            first_weight=first_weight,
            n_weights=self.n_weights,
            **self.entries(rows),
            narrow_first=self.narrow_first,
            narrow_label=self.narrow_label,
            mask=self.mask,
            dense=np.ascontiguousarray(dense, np.float32),
            dense_start=(np.arange(self.n_dense) * self.stride).astype(np.int32),
            table_row=np.zeros(0, np.int32),
            table_scores=np.zeros((0, self.width)),
            table_changes=np.zeros((0, self.width)),
        )

    def entries(self, rows: AttributeRows) -> dict[str, np.ndarray]:
        """The arrays of :class:`KindRows` that grow with the rows."""
        return self._split(rows) if self.count.any() else self._all_wide(rows)

    def _split(self, rows: AttributeRows) -> dict[str, np.ndarray]:
        """Entries of wide attributes and of narrow attributes."""
        count = self.count[rows.ids]
        wide, narrow = count == 0, count > 0
        values = None if rows.values is None else np.asarray(rows.values, np.float32)
        start = self.start[rows.ids]
        no_values = np.zeros(0, np.float32)
        return {
            "wide_ptr": offsets(wide)[rows.row_ptr],
            "wide_start": start[wide],
            "wide_value": no_values if values is None else values[wide],
            "narrow_ptr": offsets(narrow)[rows.row_ptr],
            "narrow_start": start[narrow],
            "narrow_count": count[narrow],
            "narrow_value": no_values if values is None else values[narrow],
        }

    def _all_wide(self, rows: AttributeRows) -> dict[str, np.ndarray]:
        """As `_split` if no attribute is narrow. If each attribute has one weight of the same index, nothing is
        copied."""
        numbered = self.stride == 1 and self.n_dense == 0
        none, no_values = np.zeros(0, np.int32), np.zeros(0, np.float32)
        return {
            "wide_ptr": np.ascontiguousarray(rows.row_ptr, np.int64),
            "wide_start": np.ascontiguousarray(rows.ids if numbered else self.start[rows.ids], np.int32),
            "wide_value": no_values if rows.values is None else np.asarray(rows.values, np.float32),
            "narrow_ptr": np.zeros(len(rows.row_ptr), np.int64),
            "narrow_start": none,
            "narrow_count": none,
            "narrow_value": no_values,
        }

    def pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All weights that exist as (attribute, label, index); dense attributes come first.

        Returns
        -------
        attribute, label, weight : ndarray (n_pairs,) of int64
            Sparse attribute a has the number ``n_dense + a``.
        """
        attributes = np.concatenate([np.zeros(self.n_dense, np.int64), self.count.astype(np.int64)])
        start = np.concatenate([np.arange(self.n_dense) * self.stride, self.start.astype(np.int64)])
        wide = np.flatnonzero(attributes == 0)
        label = np.tile(np.arange(self.width), len(wide))
        attribute = np.repeat(wide, self.width)
        weight = start[attribute] + label
        if self.mask.size:
            exists = self.mask[weight] > 0
            attribute, label, weight = attribute[exists], label[exists], weight[exists]
        narrow = np.flatnonzero(attributes > 0)
        narrow_attribute = np.repeat(narrow, attributes[narrow])
        narrow_weight = np.arange(self.narrow_first, self.n_weights)
        return (
            np.concatenate([attribute, narrow_attribute]),
            np.concatenate([label, self.narrow_label]).astype(np.int64),
            np.concatenate([weight, narrow_weight]),
        )


def pairs_in(rows: AttributeRows, labels: np.ndarray, width: int) -> np.ndarray:
    """``attribute * width + label`` of all entries whose label is known, int64."""
    label_of_entry = np.repeat(labels.astype(np.int64), np.diff(rows.row_ptr))
    known = label_of_entry >= 0
    return rows.ids[known].astype(np.int64) * width + label_of_entry[known]


def _distinct(keys: np.ndarray, n_keys: int) -> np.ndarray:
    """Sorted distinct keys. A bitmap is faster than sorting unless it is much larger than the data."""
    if n_keys <= 64 * max(len(keys), 1_000_000):
        seen = np.zeros(n_keys, bool)
        seen[keys] = True
        return np.flatnonzero(seen)
    return np.unique(keys)


def _check_size(n_weights: int) -> None:
    if n_weights >= 2**31:
        raise InputError(
            f"{n_weights} weights are more than 2^31: use pairs='observed', a higher min_count, or hashing"
        )
