"""Dense rows in passes over many examples: their scores and their gradient by products of matrices.

A chunk of rows X has the scores X W, one product; the pass reads them as given and leaves behind what it scatters, one
row of changes Δ for each of X; then the weights change by Xᵀ Δ, a second product. All in double precision. Rows that
are equal (`distinct_rows.py`) share one row of X W and of Δ, for all examples at once.
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

_FEWEST_COLUMNS = 4  # below, the loops over single rows are as fast
_CHUNK = 1 << 18  # numbers of a chunk of rows: what stays near the processor
_FEWEST_ROWS, _MOST_ROWS = 128, 2048
_MOST_SHARED = 1 << 24  # numbers of a table of distinct rows


def with_products(
    scorer: Scorer, batch: Batch, first: int, last: int, weights: np.ndarray | None, v: np.ndarray | None
) -> Iterator[tuple[Batch, int, int]]:
    """Pieces of a range of examples, each as (batch, first, last) for a pass; where rows are sparse, one.

    Parameters
    ----------
    weights : float64 array, shape (n_weights,), or None
        What the pass reads scores from, if it does.
    v : float64 array, shape (n_weights,), or None
        What it adds to, if it does.
    """
    tabled = _tabled(scorer)
    if not tabled or first == last:
        yield batch, first, last
        return
    known = {k: repeats for k in tabled if (repeats := _repeats(scorer, k)) is not None}
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
    """The dense attributes of one kind of rows, with room for so many scores and changes."""

    def __init__(
        self, kind: KindRows, most_rows: int, n_places: int, weights: np.ndarray | None, v: np.ndarray | None
    ):
        self.dense, self.v = kind.dense, v
        width, n_dense = kind.width, kind.dense_start.size
        own = slice(kind.first_weight, kind.first_weight + n_dense * kind.stride)
        self.place_of_weights = own, (n_dense, kind.stride), width
        self.weights = None if weights is None else np.ascontiguousarray(self._matrix(weights))
        self.gradient = None if v is None else np.zeros((n_dense, width))
        self.room = np.empty((most_rows, n_dense))
        self.kind = kind._replace(
            dense_start=kind.dense_start[:0],
            table_row=np.zeros(len(kind.dense), np.int32),
            table_scores=np.zeros((n_places if weights is not None else 0, width)),
            table_changes=np.zeros((n_places if v is not None else 0, width)),
        )

    def _matrix(self, vector: np.ndarray) -> np.ndarray:
        """The part of a vector of weights that belongs to dense attributes, (n_dense, width); a view."""
        own, shape, width = self.place_of_weights
        return vector[own].reshape(shape)[:, :width]

    def add_to_weights(self) -> None:
        if self.v is not None:
            self._matrix(self.v)[...] += self.gradient


class _Table(_Products):
    """A chunk of rows at a time."""

    def __init__(
        self, scorer: Scorer, number: int, most_rows: int, weights: np.ndarray | None, v: np.ndarray | None
    ):
        super().__init__(scorer.kinds[number], most_rows, most_rows, weights, v)
        self.scorer, self.number, self.n_rows = scorer, number, 0

    def open(self, first: int, last: int) -> None:
        """Scores of the rows of some examples."""
        rows, n_rows = _rows_of(self.scorer, self.number, first, last)
        self.n_rows = n_rows
        self.kind.table_row[rows] = np.arange(n_rows, dtype=np.int32)
        self.room[:n_rows] = self.dense[rows]
        if self.weights is not None:
            np.matmul(self.room[:n_rows], self.weights, out=self.kind.table_scores[:n_rows])
        if self.gradient is not None:
            self.kind.table_changes[:n_rows] = 0.0

    def close(self) -> None:
        """Add what the pass has scattered through them."""
        if self.gradient is not None:
            self.gradient += self.room[: self.n_rows].T @ self.kind.table_changes[: self.n_rows]

    def hand_over(self) -> None:
        self.add_to_weights()


class _SharedTable(_Products):
    """The distinct rows of a range of examples, all at once."""

    def __init__(
        self, scorer: Scorer, number: int, repeats: DistinctRows, examples: tuple[int, int], weights: np.ndarray | None,
        v: np.ndarray | None,
    ):  # fmt: skip
        own, _ = _rows_of(scorer, number, *examples)
        is_used = np.zeros(len(repeats.row), bool)
        is_used[repeats.place[own]] = True
        self.rows = repeats.row[is_used]
        super().__init__(scorer.kinds[number], _MOST_ROWS, len(self.rows), weights, v)
        self.number = number
        self.kind.table_row[own] = (np.cumsum(is_used, dtype=np.int32) - 1)[repeats.place[own]]
        for here, values in self._chunks():
            if self.weights is not None:
                np.matmul(values, self.weights, out=self.kind.table_scores[here])

    def _chunks(self) -> Iterator[tuple[slice, np.ndarray]]:
        for first in range(0, len(self.rows), len(self.room)):
            here = slice(first, min(first + len(self.room), len(self.rows)))
            values = self.room[: here.stop - first]
            values[...] = self.dense[self.rows[here]]
            yield here, values

    def open(self, first: int, last: int) -> None:
        """Everything is there."""

    def close(self) -> None:
        """Changes are added up until the last example."""

    def hand_over(self) -> None:
        if self.gradient is not None:
            for here, values in self._chunks():
                self.gradient += values.T @ self.kind.table_changes[here]
        self.add_to_weights()


def _cuts(scorer: Scorer, tabled: list[int], first: int, last: int) -> tuple[list[int], int]:
    """Where to cut a range of examples into chunks, and the most rows that a kind has in any."""
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
    """The distinct rows of a kind that some examples have, as a slice where they follow each other; how many."""
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
    """How many rows of a kind a pass over all examples makes products of."""
    if number not in _tabled(scorer):
        return len(scorer.kinds[number].dense)
    scorer.distinct_rows.setdefault(number, None)
    found = _repeats(scorer, number)
    return len(scorer.kinds[number].dense) if found is None else len(found.row)


def _repeats(scorer: Scorer, number: int) -> DistinctRows | None:
    """The distinct rows of a kind, looked for when its products are asked for again, and where they pay."""
    kind: KindRows = scorer.kinds[number]
    if number not in scorer.distinct_rows:
        scorer.distinct_rows[number] = None  # a single pass is over before they are found
        return None
    if scorer.distinct_rows[number] is None:
        scorer.distinct_rows[number] = distinct_rows_of(kind.dense) or NO_REPEATS
    found = scorer.distinct_rows[number]
    if found is None or not 0 < len(found.row) * kind.width <= _MOST_SHARED:
        return None
    return found


NO_REPEATS = DistinctRows(np.zeros(0, np.int64), np.zeros(0, np.int32))


@cache
def _thread_pools() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def one_thread(scorer: Scorer) -> AbstractContextManager[Any]:
    """For passes over these examples: nothing where they need no products."""
    return on_own_thread() if _tabled(scorer) else nullcontext()


def on_own_thread() -> AbstractContextManager[Any]:
    """Within it, products run on the thread that asks for them: how many of those there are, `n_jobs` says."""
    limit: AbstractContextManager[Any] = _thread_pools().limit(limits=1, user_api="blas")
    return limit
