"""Costs of wrong labels, and of wrong parts of any kind.

Every kind of rows may have a table of costs [true, predicted]: pairs of labels of an edge, labels of a segment, arcs,
relations, symbols of a span. A labelling uses one of the parts that a row feeds, or none of them. So the table may have
a last row and column for "none". All of the papers have costs that are sums over parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from partwise.core.arrays import block_of, ranges
from partwise.errors import InputError

if TYPE_CHECKING:
    from partwise.structures.contract import PartLists, RowKind


class KindCosts(NamedTuple):
    """A table (width + 1, width + 1) for each kind of rows, or HAMMING; None for kinds without costs."""

    tables: tuple[np.ndarray | None, ...]


HAMMING = np.zeros(0)  # in place of a table: every part that is not true costs one


def read_tables(kinds: Sequence[RowKind], cost: Mapping[str, Any]) -> KindCosts:
    """The tables of a mapping of kinds of rows to "hamming" or a matrix. Kinds that it leaves out cost nothing.

    "hamming" counts the parts of this kind that the truth has not. A matrix [true, predicted] has a row and a column
    for each part of a row of features. It may have one more of each for "none", which it needs if a labelling may use
    no part of a row.
    """
    names = [kind.name for kind in kinds if not kind.tied]
    for name in cost:
        if name in names:
            continue
        if any(name == kind.name for kind in kinds):
            raise InputError(
                f"cost names {name!r}, whose parts all positions share: a count does not say where a part is used, so "
                f"that it cannot cost something in some places. Costs may be of {', '.join(names)}"
            )
        raise InputError(f"cost names {name!r}, which is not among the kinds of parts: {', '.join(names)}")
    return KindCosts(tuple(_table(kind, cost[kind.name]) if kind.name in cost else None for kind in kinds))


def _table(kind: RowKind, cost: Any) -> np.ndarray:
    """Costs (width + 1, width + 1) of a kind of rows."""
    width = kind.width
    if isinstance(cost, str):
        if cost != "hamming":
            raise InputError(
                f"cost of {kind.name!r} must be 'hamming' or a matrix [true, predicted], not {cost!r:.40}"
            )
        return HAMMING
    matrix = np.asarray(cost, np.float64)
    if matrix.shape not in ((width, width), (width + 1, width + 1)):
        raise InputError(
            f"cost of {kind.name!r} has shape {matrix.shape}; it needs ({width}, {width}), "
            f"or ({width + 1}, {width + 1}) with 'none' last"
        )
    if not np.isfinite(matrix).all() or (matrix < 0).any() or np.diag(matrix).any():
        raise InputError(f"cost of {kind.name!r} must be finite and non-negative, with zeros on the diagonal")
    table = np.full((width + 1, width + 1), np.nan)  # what a smaller matrix does not say
    table[: len(matrix), : len(matrix)] = matrix
    table[width, width] = 0.0
    return table


def costs_by_kind(
    kinds: Sequence[RowKind],
    runs: tuple[np.ndarray, np.ndarray],
    part_ptr: np.ndarray,
    gold: PartLists,
    cost: KindCosts,
) -> np.ndarray:
    """Cost of every part, float32 (part_ptr[n],), from the runs of rows and the true parts of n examples.

    The cost of a row is table[true, predicted] in all, with "none" for rows without a part. So a part that is used
    costs table[true, part] − table[true, none], and the true one −table[true, none].
    """
    is_true = np.zeros(int(part_ptr[-1]), bool)
    is_true[part_ptr[block_of(gold.ptr)] + gold.part] = True
    result = np.zeros(len(is_true), np.float32)
    run_ptr, table_of_runs = runs
    kind_of_run, n_rows = table_of_runs[:, 0], table_of_runs[:, 2]
    first_part = part_ptr[block_of(run_ptr)] + table_of_runs[:, 3]
    for k, (kind, table) in enumerate(zip(kinds, cost.tables, strict=True)):
        if table is None:
            continue
        own = kind_of_run == k
        parts = ranges(first_part[own], n_rows[own] * kind.width).reshape(-1, kind.width)
        result[parts] = ~is_true[parts] if table is HAMMING else _costs_of_rows(kind, table, is_true[parts])
    return result


def _costs_of_rows(kind: RowKind, table: np.ndarray, is_true: np.ndarray) -> np.ndarray:
    """Costs (n_rows, width) of the parts of each row, of which some are true."""
    n_true = is_true.sum(axis=1)
    if n_true.max(initial=0) > 1:
        raise InputError(
            f"cost of {kind.name!r}: a true labelling uses several parts of one row, which has one cost"
        )
    true = np.where(n_true > 0, is_true.argmax(axis=1), kind.width)
    found = table[true]
    if np.isnan(table).any():
        if (n_true == 0).any():
            raise InputError(
                f"cost of {kind.name!r} needs a matrix ({kind.width + 1}, {kind.width + 1}): labellings leave parts of "
                "this kind out, and the last row and column say what wrong and missing parts cost"
            )
        return found[:, :-1]  # every labelling uses a part of each row
    return found[:, :-1] - found[:, -1:]


def cost_matrix(cost: str | np.ndarray, n_labels: int) -> np.ndarray:
    """Cost of predicting label j if i is true.

    Parameters
    ----------
    cost : "hamming", "zero_one" or ndarray (n_labels, n_labels)
        Hamming counts wrong labels; for plain classes it is the 0-1 cost. A matrix [true, predicted]
        must be finite, non-negative, and zero on the diagonal.

    Returns
    -------
    ndarray (n_labels, n_labels) of float64
    """
    if isinstance(cost, str):
        if cost not in ("hamming", "zero_one"):
            raise InputError(
                f"cost must be 'hamming', 'zero_one' or a matrix [true, predicted], not {cost!r}"
            )
        return 1.0 - np.eye(n_labels)
    matrix = np.asarray(cost, np.float64)
    if matrix.shape != (n_labels, n_labels):
        raise InputError(f"cost has shape {matrix.shape}; {n_labels} labels need ({n_labels}, {n_labels})")
    if not np.isfinite(matrix).all() or (matrix < 0).any() or np.diag(matrix).any():
        raise InputError("cost must be finite and non-negative, with zeros on the diagonal")
    return matrix
