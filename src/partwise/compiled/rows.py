# mypy: ignore-errors
"""Rows of features, as the compiled score and scatter read them.

A row (a token, a pair of neighbours, an arc) has a *kind* and some attributes. It feeds `width` consecutive parts of
its example. An example is a list of *runs*: consecutive rows of one kind that feed consecutive parts.

The weights of an attribute are *wide* or *narrow*. Wide weights are a padded row with one entry per label; a mask keeps
pairs that were never observed at zero. Narrow weights are a short list of the observed labels. Frequent attributes are
wide, because vector loops read them fast. Rare attributes, most of the vocabulary, are narrow to save memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from partwise.compiled.boundary import (
    IntegerMatrix,
    Integers,
    RealMatrix,
    ShortIntegers,
    SingleMatrix,
    Singles,
    pack,
    stack_packed,
)
from partwise.compiled.dispatch import fragment

KIND, FIRST_ROW, N_ROWS, FIRST_PART = range(4)  # columns of `Rows.runs`


class Rows(NamedTuple):
    """The rows of all examples.

    Attributes
    ----------
    kinds : int64 array (n_kinds, n_words)
        One packed record per kind, by default a :class:`KindRows`.
    run_ptr : int64 array (n_examples + 1,)
        Offsets of each example's runs.
    runs : int64 array (n_runs, 4)
        Kind, first row of that kind, number of rows, first part within the example.
    l1 : float
        The shrinkage of weights; only the shrinking entries read it.
    """

    kinds: IntegerMatrix
    run_ptr: Integers
    runs: IntegerMatrix
    l1: float = 0.0


class KindRows(NamedTuple):
    """The rows of one kind. Indices of weights count from `first_weight`.

    Attributes
    ----------
    width, stride : int
        Parts that a row feeds, and the same padded to whole vectors. A width of 1 is not padded.
    first_weight, n_weights : int
        The kind's slice of the weight vector.
    wide_ptr, narrow_ptr : int64 array (n_rows + 1,)
        Offsets of each row's wide and narrow attributes in the arrays below.
    wide_start, narrow_start : int32 array
        The first weight of each attribute.
    narrow_count : int32 array
        The number of weights of each narrow attribute.
    wide_value, narrow_value : float32 array
        Feature values; empty if all are one.
    narrow_label : int32 array
        The label of each narrow weight, counted from `narrow_first`.
    mask : float32 array
        1 for a wide weight that exists, 0 for one that stays zero; empty if all exist.
    dense : float32 array (n_rows, n_dense)
        Values of the attributes that every row has. Their wide weights come first.
    dense_start : int32 array (n_dense,)
        The first weight of each dense attribute; empty if matrix products replace them (``core/products.py``).
    table_row : int32 array (n_rows,)
        The row of the two tables below that belongs to each row; empty without matrix products.
    table_scores, table_changes : float64 array (n_table_rows, width)
        Scores by the dense attributes of the rows, and the sum of what was scattered through them.
    """

    width: int
    stride: int
    first_weight: int
    n_weights: int
    wide_ptr: Integers
    wide_start: ShortIntegers
    wide_value: Singles
    narrow_ptr: Integers
    narrow_start: ShortIntegers
    narrow_count: ShortIntegers
    narrow_value: Singles
    narrow_first: int
    narrow_label: ShortIntegers
    mask: Singles
    dense: SingleMatrix
    dense_start: ShortIntegers
    table_row: ShortIntegers
    table_scores: RealMatrix
    table_changes: RealMatrix


@fragment
def is_plain(kind):  # type: ignore
    """Whether the scores of a row with one attribute are that attribute's weights, unchanged."""
    return (
        kind.dense_start.size == 0
        and kind.table_row.size == 0
        and kind.narrow_label.size == 0
        and kind.wide_value.size == 0
        and kind.mask.size == 0
    )


def packed_rows(kinds: list[Any], run_ptr: np.ndarray, runs: np.ndarray, l1: float = 0.0) -> tuple[Any, Any]:
    """Rows and runs as score and scatter read them, and the objects that must stay alive meanwhile."""
    table = Rows(
        stack_packed([pack(kind) for kind in kinds]),
        np.ascontiguousarray(run_ptr, np.int64),
        np.ascontiguousarray(runs, np.int64),
        l1,
    )
    return pack(table), (table, kinds)
