"""Matrix products for dense rows in passes over many examples.

A chunk of rows X has the scores X W, one product. The pass reads these scores and stores what it scatters, one row of
changes Δ per row of X. Then the weights change by Xᵀ Δ, a second product. Both are in double precision. Equal rows
(`distinct_rows.py`) share one row of X W and of Δ, for all examples at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from partwise.compiled.examples import Batch
from partwise.compiled.rows import FIRST_ROW, KIND, N_ROWS, KindRows, packed_rows
from partwise.core.arrays import ranges
from partwise.core.distinct_rows import DistinctRows, distinct_rows_of

if TYPE_CHECKING:
    from partwise.core.scorer import Scorer

# Dense attributes from which products pay: with fewer, loops over single rows are as fast.
_FEWEST_COLUMNS = 4
_CHUNK = 1 << 18  # Numbers of a chunk of rows: they stay in the processor's cache.
_FEWEST_ROWS, _MOST_ROWS = 128, 2048  # Rows of a chunk: fewer waste the product, more gain nothing.
_MOST_SHARED = 1 << 24  # Numbers of a table of distinct rows, which bounds its memory to 128 MiB.


def with_products(
    scorer: Scorer, batch: Batch, first: int, last: int, weights: np.ndarray | None, v: np.ndarray | None
) -> Iterator[tuple[Batch, int, int]]:
    """Pieces of a range of examples, each (batch, first, last) for a pass; one piece if no row is dense.

    Parameters
    ----------
    weights : float64 array, shape (n_weights,), or None
        The weights from which the pass computes scores, if it does.
    v : float64 array, shape (n_weights,), or None
        The vector to which the pass adds, if it does.
    """
    tabled = _tabled(scorer)
    if not tabled or first == last:
        yield batch, first, last
        return
    known = {k: found for k in tabled if (found := _distinct_rows(scorer, k)) is not None}
    cuts, most_rows = _cuts(scorer, [k for k in tabled if k not in known], first, last)
    tables: list[_Table | _SharedTable] = []
    for k in tabled:
        if k in known:
            tables.append(_SharedTable(scorer, k, known[k], (first, last), weights, v))
        else:
            tables.append(_Table(scorer, k, most_rows, weights, v))
    kinds = list(scorer.kinds)
    for table in tables:
        kinds[table.number] = table.kind
    rows, held = packed_rows(kinds, scorer.run_ptr, scorer.runs)
    for begin, end in pairwise(cuts):
        for table in tables:
            table.open(begin, end)
        yield batch._replace(rows=rows), begin, end
        for table in tables:
            table.close()
    for table in tables:
        table.hand_over()
    del held


class _Products:
    """The dense attributes of one kind of rows, with tables of scores and changes for `n_table_rows` rows."""

    def __init__(
        self,
        kind: KindRows,
        most_rows: int,
        n_table_rows: int,
        weights: np.ndarray | None,
        v: np.ndarray | None,
    ):
        self.dense, self.v = kind.dense, v
        width, n_dense = kind.width, kind.dense_start.size
        own = slice(kind.first_weight, kind.first_weight + n_dense * kind.stride)
        self.own_weights = own, (n_dense, kind.stride), width
        self.weights = None if weights is None else np.ascontiguousarray(self._matrix(weights))
        self.gradient = None if v is None else np.zeros((n_dense, width))
        self.workspace = np.empty((most_rows, n_dense))
        self.kind = kind._replace(
            dense_start=kind.dense_start[:0],
            table_row=np.zeros(len(kind.dense), np.int32),
            table_scores=np.zeros((n_table_rows if weights is not None else 0, width)),
            table_changes=np.zeros((n_table_rows if v is not None else 0, width)),
        )

    def _matrix(self, vector: np.ndarray) -> np.ndarray:
        """The weights of the dense attributes, (n_dense, width), as a view of a weight vector."""
        own, shape, width = self.own_weights
        return vector[own].reshape(shape)[:, :width]

    def add_to_weights(self) -> None:
        if self.v is not None:
            self._matrix(self.v)[...] += self.gradient


class _Table(_Products):
    """Products for one chunk of rows at a time."""

    def __init__(
        self, scorer: Scorer, number: int, most_rows: int, weights: np.ndarray | None, v: np.ndarray | None
    ):
        super().__init__(scorer.kinds[number], most_rows, most_rows, weights, v)
        self.scorer, self.number, self.n_rows = scorer, number, 0

    def open(self, first: int, last: int) -> None:
        """Compute the scores of the rows of the examples first … last − 1."""
        rows, n_rows = _rows_of(self.scorer, self.number, first, last)
        self.n_rows = n_rows
        self.kind.table_row[rows] = np.arange(n_rows, dtype=np.int32)
        self.workspace[:n_rows] = self.dense[rows]
        if self.weights is not None:
            np.matmul(self.workspace[:n_rows], self.weights, out=self.kind.table_scores[:n_rows])
        if self.gradient is not None:
            self.kind.table_changes[:n_rows] = 0.0

    def close(self) -> None:
        """Add what the pass scattered through these rows."""
        if self.gradient is not None:
            self.gradient += self.workspace[: self.n_rows].T @ self.kind.table_changes[: self.n_rows]

    def hand_over(self) -> None:
        self.add_to_weights()


class _SharedTable(_Products):
    """Products for the distinct rows of all examples at once."""

    def __init__(
        self, scorer: Scorer, number: int, distinct: DistinctRows, examples: tuple[int, int],
        weights: np.ndarray | None, v: np.ndarray | None,
    ):  # fmt: skip
        own, _ = _rows_of(scorer, number, *examples)
        is_used = np.zeros(len(distinct.row), bool)
        is_used[distinct.group[own]] = True
        self.rows = distinct.row[is_used]
        super().__init__(scorer.kinds[number], _MOST_ROWS, len(self.rows), weights, v)
        self.number = number
        self.kind.table_row[own] = (np.cumsum(is_used, dtype=np.int32) - 1)[distinct.group[own]]
        for here, values in self._chunks():
            if self.weights is not None:
                np.matmul(values, self.weights, out=self.kind.table_scores[here])

    def _chunks(self) -> Iterator[tuple[slice, np.ndarray]]:
        for first in range(0, len(self.rows), len(self.workspace)):
            here = slice(first, min(first + len(self.workspace), len(self.rows)))
            values = self.workspace[: here.stop - first]
            values[...] = self.dense[self.rows[here]]
            yield here, values

    def open(self, first: int, last: int) -> None:
        """Nothing to do: all scores are computed."""

    def close(self) -> None:
        """Nothing to do: changes add up until the last example."""

    def hand_over(self) -> None:
        if self.gradient is not None:
            for here, values in self._chunks():
                self.gradient += values.T @ self.kind.table_changes[here]
        self.add_to_weights()


def _cuts(scorer: Scorer, tabled: list[int], first: int, last: int) -> tuple[list[int], int]:
    """First examples of the chunks of a range, its end, and the largest number of rows of a kind in a chunk."""
    kinds = [scorer.kinds[k] for k in tabled]
    if not kinds:
        return [first, last], 1
    size = max(max(kind.dense_start.size, kind.width) for kind in kinds)
    limit = min(max(_CHUNK // size, _FEWEST_ROWS), _MOST_ROWS)
    run_ptr = scorer.run_ptr[first : last + 1]
    runs = scorer.runs[run_ptr[0] : run_ptr[-1]]
    n_rows = np.where(np.isin(runs[:, KIND], tabled), runs[:, N_ROWS], 0)
    so_far = np.concatenate([[0], np.cumsum(n_rows)])[run_ptr - run_ptr[0]]
    wanted = np.arange(limit, max(so_far[-1], limit) + limit, limit)
    cuts = np.unique(np.append(np.searchsorted(so_far, wanted, "right") - 1, [0, last - first]))
    most = int(np.diff(so_far[cuts]).max(initial=1))
    return [first + int(cut) for cut in cuts], max(most, 1)


def _rows_of(scorer: Scorer, number: int, first: int, last: int) -> tuple[Any, int]:
    """The rows of a kind that the examples first … last − 1 have, as a slice if they are consecutive; their number."""
    runs = scorer.runs[scorer.run_ptr[first] : scorer.run_ptr[last]]
    runs = runs[runs[:, KIND] == number]
    if not len(runs):
        return slice(0, 0), 0
    begin, count = runs[:, FIRST_ROW], runs[:, N_ROWS]
    if (begin[1:] == begin[:-1] + count[:-1]).all():
        n_rows = int(count.sum())
        return slice(int(begin[0]), int(begin[0]) + n_rows), n_rows
    rows = np.unique(ranges(begin, count))
    return rows, len(rows)


def _tabled(scorer: Scorer) -> list[int]:
    """Kinds of rows with enough dense attributes for products."""
    return [k for k, kind in enumerate(scorer.kinds) if kind.dense_start.size >= _FEWEST_COLUMNS]


def n_distinct(scorer: Scorer, number: int) -> int:
    """The number of rows of a kind that enter the products of a pass over all examples."""
    if number not in _tabled(scorer):
        return len(scorer.kinds[number].dense)
    scorer.distinct_rows.setdefault(number, None)
    found = _distinct_rows(scorer, number)
    return len(scorer.kinds[number].dense) if found is None else len(found.row)


def _distinct_rows(scorer: Scorer, number: int) -> DistinctRows | None:
    """The distinct rows of a kind if they pay. The second request searches for them: a single pass would end first."""
    kind: KindRows = scorer.kinds[number]
    if number not in scorer.distinct_rows:
        scorer.distinct_rows[number] = None
        return None
    if scorer.distinct_rows[number] is None:
        scorer.distinct_rows[number] = distinct_rows_of(kind.dense) or NONE_EQUAL
    found = scorer.distinct_rows[number]
    if found is None or not 0 < len(found.row) * kind.width <= _MOST_SHARED:
        return None
    return found


NONE_EQUAL = DistinctRows(np.zeros(0, np.int64), np.zeros(0, np.int32))


@cache
def _thread_pools() -> Any:
    """What limits the threads of products; None if it is not installed, which prediction does without."""
    try:
        from threadpoolctl import ThreadpoolController
    except ModuleNotFoundError:
        return None
    return ThreadpoolController()


def one_thread(scorer: Scorer) -> AbstractContextManager[Any]:
    """:func:`on_own_thread` if passes over these examples need products, else nothing."""
    return on_own_thread() if _tabled(scorer) else nullcontext()


def on_own_thread() -> AbstractContextManager[Any]:
    """A context in which each product runs on the thread that calls it, so that `n_jobs` bounds the threads."""
    pools = _thread_pools()
    return nullcontext() if pools is None else pools.limit(limits=1, user_api="blas")
