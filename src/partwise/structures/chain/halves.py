# mypy: ignore-errors
"""A long chain of order 1 as two halves that meet in the middle, each on a thread of its own.

The first half runs forward from the start. The second half is a chain read backwards: it runs from the end, with
transposed edges. At the middle, positions M − 1 and M, the two forward rows f and g and the edges m between them give

    Z = Σ_ij f(i) m(i, j) g(j),    b(i) = Σ_j m(i, j) g(j) / Z,    c(j) = Σ_i f(i) m(i, j) / Z,

and each half goes back to its own end: the first from b, the second from c. That is as much work as one pass over the
whole sequence. Nothing is approximate. Best labellings take maxima in place of sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from partwise.compiled.dispatch import entry
from partwise.structures.chain.forward_backward import (
    ChainSpecification,
    anything_lost,
    chain_specification,
    chain_workspace,
    exponentials,
    row_at,
    scaled_backward,
    scaled_forward,
    sum_of_logs,
)
from partwise.structures.chain.recursion import _fill_terms, mask_run
from partwise.structures.scaling import LIFT, SMALLEST
from partwise.structures.semirings import BEST, MAXIMA, choose, join_rows, multiply_row, set_cell

# Pairs of labels at all positions from which a sequence is cut in two: about 2 ms of work. The number of threads does
# not matter, so that answers do not depend on it.
FEWEST_PAIRS = 2**23


# -- one half: positions are counted from its end of the sequence, which is behind if `backwards` -----


@entry
def sums_to_middle(specification, length, nodes, edges, backwards, row, work):  # type: ignore
    """Write the last forward row, which sums to one; returns the log of its scale, and whether labels may be lost."""
    shifts = exponentials(specification, length, nodes, edges, backwards, work)
    if not (shifts == shifts and scaled_forward(specification, length, work)):
        return np.nan, True
    first = (length - 1) * specification.stride
    for j in range(specification.n_labels):
        row[j] = work.forward[first + j]
    return shifts + sum_of_logs(work.totals, length), anything_lost(specification, length, work)


@entry
def counts_from_middle(specification, length, row, backwards, counts, edge_counts, work):  # type: ignore
    """Write expected counts, from the last backward row; returns the total of the first one."""
    for j in range(specification.stride):
        work.backward[j] = 0.0
    for j in range(specification.n_labels):
        work.backward[j] = row[j] * LIFT
    return scaled_backward(specification, length, backwards, counts, edge_counts, work)


@entry
def maxima_to_middle(specification, length, nodes, edges, backwards, row, work):  # type: ignore
    """Write the best score of every label of the last position."""
    n_labels, stride = specification.n_labels, specification.stride
    for k in range(edges.size // n_labels):
        mask = k % n_labels * stride
        mask_run(work.edges, k * stride, edges, k * n_labels, specification.allowed, mask, n_labels, stride)
    first = row_at(0, length, backwards, n_labels)
    for j in range(n_labels):
        may_start = specification.allowed_start[j] > 0.0
        set_cell(MAXIMA, work.forward, j, nodes[first + j] if may_start else -np.inf)
    for t in range(1, length):
        block = 0 if specification.tied else (t - 1) * n_labels * stride
        join_rows(
            MAXIMA, work.forward, t * stride, work.forward, (t - 1) * stride, 1, n_labels, work.edges, block, stride,
            n_labels, work.room,
        )  # fmt: skip
        at = row_at(t, length, backwards, n_labels)
        multiply_row(MAXIMA, work.forward, t * stride, nodes, at, n_labels)
    for j in range(n_labels):
        row[j] = work.forward[(length - 1) * stride + j]


@entry
def labels_from_middle(specification, length, label, backwards, labels, work):  # type: ignore
    """Write the best labels, given that of the last position."""
    for t in range(length - 1, 0, -1):
        labels[row_at(t, length, backwards, 1)] = label
        n_terms = _fill_terms(MAXIMA, specification, t, 0, label, work, work.backward)
        label = choose(BEST, MAXIMA, work.backward, n_terms, t - 1)
    labels[row_at(0, length, backwards, 1)] = label


@entry
def count_labels(specification, length, labels, counts):  # type: ignore
    """Write the part counts of a labelling."""
    n_labels = specification.n_labels
    for k in range(counts.size):
        counts[k] = 0.0
    for t in range(length):
        counts[t * n_labels + labels[t]] = 1.0
    for t in range(1, length):
        row = labels[t - 1] + (0 if specification.tied else (t - 1) * n_labels)
        counts[(length + row) * n_labels + labels[t]] += 1.0


class _Half:
    """One half of a sequence for compiled code.

    Parameters
    ----------
    specification : ChainSpecification
        Of the whole chain.
    nodes : float64 array (length · L,)
    edges : float64 array (1 or length − 1, L, L)
    backwards : bool
        Whether this is the second half, which runs from the end.
    """

    def __init__(self, specification: ChainSpecification, nodes: Any, edges: Any, backwards: bool):
        L, self.backwards = specification.n_labels, backwards
        allowed = specification.allowed.reshape(L, -1)[:, :L] > 0.0
        begin = specification.allowed_end if backwards else specification.allowed_start
        self.specification = chain_specification(
            L, specification.tied, allowed.T if backwards else allowed, begin[:L] > 0.0
        )
        self.nodes, self.edge_shape = nodes, edges.shape
        self.edges = self._turned(edges).ravel()
        self.length, self.row = len(nodes) // L, np.zeros(L)
        self.work = chain_workspace(self.specification, self.length)

    def _turned(self, edges: np.ndarray) -> np.ndarray:
        """Edges in this half's order, or back."""
        return edges[::-1].swapaxes(1, 2) if self.backwards else edges

    def sums(self) -> tuple[float, bool]:
        return sums_to_middle(
            self.specification, self.length, self.nodes, self.edges, self.backwards, self.row, self.work
        )

    def maxima(self) -> None:
        maxima_to_middle(
            self.specification, self.length, self.nodes, self.edges, self.backwards, self.row, self.work
        )

    def counts(self, row: np.ndarray, nodes: np.ndarray) -> float:
        """Write the counts of nodes, keep those of edges; returns a total that is 1 if nothing was lost."""
        # Edges are not read any more: their exponentials are in the workspace.
        self.edges = np.zeros(self.edges.size)
        return counts_from_middle(
            self.specification, self.length, row, self.backwards, nodes, self.edges, self.work
        )

    def edge_counts(self) -> np.ndarray:
        return self._turned(self.edges.reshape(self.edge_shape[0], *self.edge_shape[:0:-1]))

    def best(self, label: int, labels: np.ndarray) -> None:
        labels_from_middle(self.specification, self.length, label, self.backwards, labels, self.work)


class _Pair:
    """Calls a function for both halves, at the same time if there are two threads."""

    def __init__(self, n_threads: int):
        self.pool = ThreadPoolExecutor(1) if n_threads > 1 else None

    def __enter__(self) -> _Pair:
        return self

    def __exit__(self, *error: object) -> None:
        if self.pool is not None:
            self.pool.shutdown()

    def __call__(self, work: Callable[[int], Any]) -> list[Any]:
        if self.pool is None:
            return [work(0), work(1)]
        second = self.pool.submit(work, 1)
        return [work(0), second.result()]


# -- both halves --------------------------------------------------------------------------------------


def answer_in_halves(
    which: str,
    specification: ChainSpecification,
    length: int,
    scores: np.ndarray,
    counts: np.ndarray | None,
    n_threads: int = 1,
) -> float:
    """The value of "sums" or "best" of one sequence; writes `counts` unless it is None.

    NaN if scaled sums underflow: the sequence must then be summed on logarithms.
    """
    L, tied, middle = specification.n_labels, specification.tied, length // 2
    cut = middle * L
    edges = _edges(specification, length, scores)
    own = (edges, edges) if tied else (edges[: middle - 1], edges[middle:])
    may_cross = specification.allowed.reshape(L, -1)[:, :L] > 0.0
    between = np.where(may_cross, edges[0 if tied else middle - 1], -np.inf)
    nodes = scores[:cut], scores[cut : length * L]
    with _Pair(n_threads) as both:
        halves = both(lambda k: _Half(specification, nodes[k], own[k], backwards=k == 1))
        if which == "best":
            return _best(both, halves, between, length, counts)
        joint = _join(both, halves, between)
        if joint.log_total != joint.log_total or (counts is None and joint.is_lossless):
            return joint.log_total
        if counts is None:
            counts = np.empty(len(scores))
        shares = counts[:cut], counts[cut : length * L]
        totals = both(lambda k: halves[k].counts(joint.rows[k], shares[k]))
    found = _edges(specification, length, counts)
    if tied:
        found[0] = halves[0].edge_counts()[0] + halves[1].edge_counts()[0] + joint.pairs
    else:
        found[: middle - 1], found[middle:] = (each.edge_counts() for each in halves)
        found[middle - 1] = joint.pairs
    return joint.log_total if all(abs(each - 1.0) < 1e-9 for each in totals) else np.nan


def _edges(specification: ChainSpecification, length: int, vector: np.ndarray) -> np.ndarray:
    """The edges (1 or length − 1, L, L) in a vector of parts."""
    L, n_edges = specification.n_labels, 1 if specification.tied else length - 1
    return vector[length * L : (length + n_edges * L) * L].reshape(n_edges, L, L)


class _Joint(NamedTuple):
    """The sums at the middle.

    Attributes
    ----------
    log_total : float
        NaN if something underflowed.
    is_lossless : bool
        No label underflowed. If False, the backward rows tell whether it matters.
    pairs : ndarray (L, L)
        Probabilities of the two labels at the middle.
    rows : tuple of ndarray (L,)
        The last backward row of each half.
    """

    log_total: float
    is_lossless: bool
    pairs: np.ndarray
    rows: tuple[np.ndarray, np.ndarray]


def _join(both: _Pair, halves: list[_Half], between: np.ndarray) -> _Joint:
    (first, lost), (second, lost_too) = both(lambda k: halves[k].sums())
    f, g, shift = halves[0].row, halves[1].row, between.max()
    edges = np.exp(between - shift) if shift > -np.inf else np.zeros_like(between)
    total = float(f @ edges @ g)
    if not total > SMALLEST:
        return _Joint(np.nan, False, edges, (f, g))
    pairs = f[:, None] * edges * g / total
    log_total = first + second + shift + math.log(total)
    return _Joint(log_total, not (lost or lost_too), pairs, (edges @ g / total, f @ edges / total))


def _best(
    both: _Pair, halves: list[_Half], between: np.ndarray, length: int, counts: np.ndarray | None
) -> float:
    both(lambda k: halves[k].maxima())
    whole = halves[0].row[:, None] + between + halves[1].row
    ends, cut = divmod(int(whole.argmax()), len(whole)), halves[0].length
    if counts is not None and whole[ends] > -np.inf:
        labels = np.empty(length, np.int64)
        shares = labels[:cut], labels[cut:]
        both(lambda k: halves[k].best(ends[k], shares[k]))
        count_labels(halves[0].specification, length, labels, counts)
    elif counts is not None:
        counts[...] = 0.0
    return float(whole[ends])
