# mypy: ignore-errors
"""What a recursion keeps for each of its cells: a log-sum, or the k best.

A cell is made from alternatives. Alternative a has a score of its own and goes on in cell ``first + a · step``, which
was made before. The text of a recursion is written once, on :func:`join`; Numba compiles it for the kind of items that
it is given. A kind is a NamedTuple, and its functions are chosen by this type.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from partwise.compiled.boundary import Integers, Reals
from partwise.compiled.dispatch import chosen_by_type, inner
from partwise.compiled.simd import LANES, exponential_row, maximum
from partwise.compiled.simd_rows import sum_row


class LogSums(NamedTuple):
    """Log-sums: for expected counts and samples.

    Attributes
    ----------
    values : ndarray (n_cells,)
        log Σ exp(score) over all that a cell can become.
    weights : ndarray (widest + 2 · LANES,)
        Room for the alternatives of a cell; :func:`share` leaves their probabilities here.
    """

    values: Reals
    weights: Reals


class Ranked(NamedTuple):
    """The k best, for lists of labellings.

    Ties go to the earlier alternative, then to the better rank: a shorter list is always the beginning of a longer one.

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
def log_sums(n_cells, widest):  # type: ignore
    """Items that hold nothing yet."""
    return LogSums(np.full(n_cells, -np.inf), np.zeros(widest + 2 * LANES))


@inner(allocates=True)
def ranked(n_cells, k):  # type: ignore
    """Items that hold nothing yet."""
    n = n_cells * k
    return Ranked(k, np.full(n, -np.inf), np.full(n_cells, -np.inf), np.zeros(n, np.int64))


# Indices without sign: one that may be negative counts from the end, which would keep vectors out of these loops.


@inner
def copy_run(out, o, a, i, n):  # type: ignore
    """out[o:][:n] = a[i:][:n]."""
    o, i = np.uint64(o), np.uint64(i)
    for j in range(np.uint64(n)):
        out[o + j] = a[i + j]


@inner
def add_runs(out, a, i, b, k, n):  # type: ignore
    """out[:n] = a[i:][:n] + b[k:][:n]."""
    i, k = np.uint64(i), np.uint64(k)
    for j in range(np.uint64(n)):
        out[j] = a[i + j] + b[k + j]


@chosen_by_type
def end(items, cell, score):  # type: ignore
    """Make a cell where labellings end."""


@chosen_by_type
def join(items, cell, scores, n, first, step):  # type: ignore
    """Make a cell from `n` alternatives with `scores`; number a goes on in cell first + a · step."""


@end.register(LogSums)
@inner
def _end_sum(items, cell, score):  # type: ignore
    items.values[cell] = score


@join.register(LogSums)
@inner
def _join_sums(items, cell, scores, n, first, step):  # type: ignore
    top = _largest(items, scores, n, first, step)
    items.values[cell] = top if top == -np.inf else top + math.log(_exponentials(items.weights, n, top))


@inner
def _largest(items, scores, n, first, step):  # type: ignore
    """Fill ``items.weights`` with the log weights of alternatives; returns the largest."""
    if step == 1:
        add_runs(items.weights, scores, 0, items.values, first, n)
    else:
        for a in range(n):
            items.weights[a] = scores[a] + items.values[first + a * step]
    return maximum(items.weights, 0, n)


@inner
def _exponentials(weights, n, top):  # type: ignore
    """Replace log weights by weights; returns their sum."""
    exponential_row(weights, 0, weights, 0, n, (n + LANES - 1) & ~(LANES - 1), top)
    total = 0.0
    for a in range(n):
        total += weights[a]
    return total


@inner
def share(items, scores, n, first, step):  # type: ignore
    """Fill ``items.weights`` with the probabilities of a cell's alternatives, some of which must be possible.

    They add up to one whatever rounding did to the log-sums. Counts that are pushed along them are those of one
    distribution, so that even huge scores times counts give an entropy.
    """
    weights = items.weights
    total = _exponentials(weights, n, _largest(items, scores, n, first, step))
    for a in range(n):
        weights[a] /= total


@inner
def draw(weights, n, uniform):  # type: ignore
    """The alternative at which the sum of weights passes `uniform` times the total; the last takes rounding."""
    whole, chosen = n & ~(LANES - 1), -1
    left = sum_row(weights, 0, whole)
    for a in range(whole, n):
        left += weights[a]
    left *= uniform
    for a in range(n):
        if weights[a] > 0.0:
            if chosen >= 0 and left < 0.0:
                break
            chosen = a
            left -= weights[a]
    return chosen


@end.register(Ranked)
@inner
def _end_list(items, cell, score):  # type: ignore
    items.values[cell * items.k] = score
    items.best[cell] = score


@join.register(Ranked)
@inner
def _join_lists(items, cell, scores, n, first, step):  # type: ignore
    k, values, sources, worst = np.uint64(items.k), items.values, items.sources, -np.inf
    here, last = (
        np.uint64(cell) * k,
        np.uint64(cell + 1) * k - np.uint64(1),
    )
    after, step = np.uint64(first), np.uint64(step)
    for a in range(np.uint64(n)):
        score, begin = scores[a], after * k
        top = score + items.best[after]
        after += step
        if not top > worst:
            continue
        for source in range(begin, begin + k):
            value = score + values[source]
            if not value > worst:
                break
            at = last
            while at > here and value > values[at - np.uint64(1)]:
                values[at] = values[at - np.uint64(1)]
                sources[at] = sources[at - np.uint64(1)]
                at -= np.uint64(1)
            values[at], sources[at] = value, source
            worst = values[last]
    items.best[cell] = values[here]
