# mypy: ignore-errors
"""Lists of the k best: what a recursion keeps for each cell to rank labellings.

These are items for recursions in which every term goes on in one other cell, as in chains. The functions of
`semirings.py` on rows of cells work on them; an array of cells that these functions take is not used then.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.compiled.boundary import Integers, Reals
from partwise.compiled.dispatch import inner
from partwise.structures.semirings import finish_row, join_rows, multiply_row, offer_row, set_cell, start_row


class Ranked(NamedTuple):
    """The k best of every cell.

    Ties go to the term that came first, then to the better rank: a shorter list is always the beginning of a longer
    one.

    Attributes
    ----------
    k : int
    values : ndarray (n_cells · k,)
        Scores, best first; −inf behind the last.
    best : ndarray (n_cells,)
        The first of each list.
    sources : ndarray of int64 (n_cells · k,)
        The entry of `values` that each goes on with, k times its cell plus its rank.
    """

    k: int
    values: Reals
    best: Reals
    sources: Integers


@inner(allocates=True)
def ranked(n_cells, k):  # type: ignore
    """Items that hold nothing yet."""
    n = n_cells * k
    return Ranked(k, np.full(n, -np.inf), np.full(n_cells, -np.inf), np.zeros(n, np.int64))


@inner
def rank_cell(items, cell, source, score):  # type: ignore
    """Merge the list of cell `source`, plus `score`, into the list of `cell`."""
    # Indices without sign: one that may be negative counts from the end.
    k, values, sources = np.uint64(items.k), items.values, items.sources
    cell, source = np.uint64(cell), np.uint64(source)
    here = cell * k
    last = here + k - np.uint64(1)
    worst = values[last]
    if not score + items.best[source] > worst:
        return
    for entry in range(source * k, source * k + k):
        value = score + values[entry]
        if not value > worst:
            break
        at = last
        while at > here and value > values[at - np.uint64(1)]:
            values[at] = values[at - np.uint64(1)]
            sources[at] = sources[at - np.uint64(1)]
            at -= np.uint64(1)
        values[at], sources[at] = value, entry
        worst = values[last]
    items.best[cell] = values[here]


@set_cell.register(Ranked)
@inner
def _set_list(kind, out, cell, number):  # type: ignore
    kind.values[cell * kind.k] = number
    kind.best[cell] = number


@join_rows.register(Ranked)
@inner
def _join_lists(kind, out, cell, source, first, step, count, table, at, stride, width, room):  # type: ignore
    # Indices without sign, as in `rank_cell`. It would refuse the same terms, but most are refused: here it is faster.
    cell, first, step, count = np.uint64(cell), np.uint64(first), np.uint64(step), np.uint64(count)
    at, stride, k, one = np.uint64(at), np.uint64(stride), np.uint64(kind.k), np.uint64(1)
    top, best, values = -np.inf, kind.best, kind.values
    for a in range(count):
        top = max(top, best[first + a * step])
    for j in range(np.uint64(width) if top > -np.inf else np.uint64(0)):
        worst = -np.inf
        for a in range(count):
            term, score = first + a * step, table[at + a * stride + j]
            if score + best[term] > worst:
                rank_cell(kind, cell + j, term, score)
                worst = values[(cell + j + one) * k - one]


@multiply_row.register(Ranked)
@inner
def _add_to_lists(kind, out, cell, scores, at, width):  # type: ignore
    values, best = kind.values, kind.best
    k, cell, at = np.uint64(kind.k), np.uint64(cell), np.uint64(at)
    for j in range(np.uint64(width)):
        score, first = scores[at + j], (cell + j) * k
        best[cell + j] += score
        for rank in range(k):
            values[first + rank] += score


@start_row.register(Ranked)
@inner
def _start_lists(kind, out, cell, stride):  # type: ignore
    pass  # `ranked` did


@offer_row.register(Ranked)
@inner
def _offer_lists(kind, out, cell, a, source, first, table, at, stride, width, room):  # type: ignore
    for j in range(width):
        rank_cell(kind, cell + j, first + j, table[at + j])


@finish_row.register(Ranked)
@inner
def _finish_lists(kind, out, cell, count, stride, width, room):  # type: ignore
    pass
