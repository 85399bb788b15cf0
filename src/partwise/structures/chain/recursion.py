# mypy: ignore-errors
"""The recursion of a chain of any order on scores, written once for all that an item may keep.

A *group* is what a chain remembers of its labels, without the last one. Of order 1 there is one group; of order k a
group is the k − 1 labels before. From a cell of position t − 1, label y leads to the cell (t, g, y):

    d_t(g, y) = n_t(y) ⊗ ⊕_o d_{t-1}(o, g) ⊗ m(o, g, y)

Here o is what group g has forgotten: of order 1 the label before, of order k the oldest of k labels. With ``MAXIMA``
this is Viterbi's algorithm. ``LOGS`` gives sums if the scaled sums of `forward_backward.py` and `high_order.py`
underflow, and lists of items (`structures/ranked.py`) the k best. :func:`trace` goes back to one labelling, the best or
a sample, and :func:`expectations_in_logs` back to all. The two files of scaled sums also say where cells and edges of
their order lie.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.compiled.boundary import Reals
from partwise.compiled.dispatch import chosen_by_type, entry, inner
from partwise.compiled.simd import LANES
from partwise.structures.ranked import rank_cell, ranked
from partwise.structures.semirings import (
    BEST,
    LINEAR,
    LOGS,
    MAXIMA,
    SHARED,
    Drawn,
    choose,
    join_rows,
    multiply_row,
    share,
    sum_of,
    times,
)


class EdgeRows(NamedTuple):
    """The part of a workspace that lists of items need; the other arrays stay empty."""

    edges: Reals
    forward: Reals
    room: Reals


# -- where cells and edges lie ------------------------------------------------------------------------


@chosen_by_type
def layout_of(specification):  # type: ignore
    """Numbers of groups and of terms o, the step between the cells of two terms, and the first position with edges."""


@chosen_by_type
def first_term(specification, group):  # type: ignore
    """The cell of a group's first term, counted from the first cell of the position before."""


@chosen_by_type
def edges_at(specification, t, group):  # type: ignore
    """Where ``work.edges`` has the row of a group's first term at t."""


@chosen_by_type
def edge_row(specification, t, group, term):  # type: ignore
    """The row of edge parts, each `n_labels` long, that a term uses at t."""


@chosen_by_type
def n_edge_rows(specification, length):  # type: ignore
    """How many rows of edge parts there are."""


@chosen_by_type
def fill_edges(specification, length, scores, work):  # type: ignore
    """Fill ``work.edges`` with scores, −inf where masked and in the padding."""


@chosen_by_type
def begin(specification, kind, scores, work):  # type: ignore
    """Make the cells of the last position without edges."""


@chosen_by_type
def workspace_for(specification, length):  # type: ignore
    """A workspace of its class."""


@chosen_by_type
def scaled_sums(specification, length, scores, counts, work):  # type: ignore
    """Log-partition and counts from scaled products, NaN if they underflow."""


@inner
def mask_run(out, o, scores, i, allowed, m, n, stride):  # type: ignore
    """out[o:][:n] = scores[i:][:n], or −inf where allowed[m:][:n] is zero; −inf in the padding."""
    # Indices without sign: one that may be negative counts from the end, which would keep vectors out of the loop.
    o, i, m, n = np.uint64(o), np.uint64(i), np.uint64(m), np.uint64(n)
    for j in range(n):
        out[o + j] = scores[i + j] if allowed[m + j] > 0.0 else -np.inf
    for j in range(n, np.uint64(stride)):
        out[o + j] = -np.inf


@inner
def _first_cell(specification, t):  # type: ignore
    """The first cell of a position. If edges begin at position 0, the cells before the start come first."""
    n_groups, _, _, first = layout_of(specification)
    return (t + 1 - first) * n_groups * specification.stride


# -- from left to right -------------------------------------------------------------------------------


@inner
def forward(kind, specification, length, scores, work):  # type: ignore
    """Make all cells: those of ``MAXIMA`` and ``LOGS`` in ``work.forward``, lists in `kind`."""
    n_groups, n_terms, step, first = layout_of(specification)
    n_labels, stride = specification.n_labels, specification.stride
    fill_edges(specification, length, scores, work)
    begin(specification, kind, scores, work)
    for t in range(first, length):
        before, here = _first_cell(specification, t - 1), _first_cell(specification, t)
        for group in range(n_groups):
            cell = here + group * stride
            join_rows(
                kind, work.forward, cell, work.forward, before + first_term(specification, group), step, n_terms,
                work.edges, edges_at(specification, t, group), stride, n_labels, work.room,
            )  # fmt: skip
            multiply_row(kind, work.forward, cell, scores, t * n_labels, n_labels)


@inner
def _fill_last(semiring, specification, length, work, row):  # type: ignore
    """The cells of the last position, zero if their label may not stand last. Returns their number."""
    cell, stride, count = _first_cell(specification, length - 1), specification.stride, 0
    for _ in range(layout_of(specification)[0]):
        for j in range(stride):
            may_end = specification.allowed_end[j] > 0.0
            row[count] = work.forward[cell + count] if may_end else semiring.zero
            count += 1
    return count


@inner
def _fill_terms(semiring, specification, t, group, label, work, row):  # type: ignore
    """The terms of a cell of position t. Returns their number."""
    _, n_terms, step, _ = layout_of(specification)
    cell = _first_cell(specification, t - 1) + first_term(specification, group)
    edge, stride = edges_at(specification, t, group) + label, specification.stride
    for term in range(n_terms):
        row[term] = times(semiring, work.forward[cell + term * step], work.edges[edge + term * stride])
    return n_terms


# -- from right to left: one labelling ----------------------------------------------------------------


@inner
def _choose_last(how, semiring, specification, length, work):  # type: ignore
    """A cell of the last position, counted from its first."""
    count = _fill_last(semiring, specification, length, work, work.backward)
    return choose(how, semiring, work.backward, count, length - 1)


@inner
def trace(how, semiring, specification, length, cell, labels, counts, work):  # type: ignore
    """Fill `labels` (length,) with one labelling that ends in a cell, and add its parts to `counts`."""
    n_labels, row, (_, _, step, first) = specification.n_labels, work.backward, layout_of(specification)
    for t in range(length - 1, -1, -1):
        group, label = cell // specification.stride, cell % specification.stride
        labels[t] = label
        counts[t * n_labels + label] += 1.0
        if t < first:
            break
        n_terms = _fill_terms(semiring, specification, t, group, label, work, row)
        term = choose(how, semiring, row, n_terms, max(t - 1, 0))
        counts[(length + edge_row(specification, t, group, term)) * n_labels + label] += 1.0
        cell = first_term(specification, group) + term * step


@inner
def best_labelling(specification, length, scores, counts, work):  # type: ignore
    """The best score; writes the part counts of a labelling that has it, −inf and zeros if none is possible."""
    forward(MAXIMA, specification, length, scores, work)
    for k in range((length + n_edge_rows(specification, length)) * specification.n_labels):
        counts[k] = 0.0
    cell = _choose_last(BEST, MAXIMA, specification, length, work)
    value = work.backward[cell]
    if value > -np.inf:
        trace(BEST, MAXIMA, specification, length, cell, work.totals, counts, work)  # nobody reads the labels
    return value


@inner
def _draw(semiring, specification, length, uniforms, labels, counts, work):  # type: ignore
    for sample in range(len(labels)):
        how = Drawn(uniforms[sample])
        cell = _choose_last(how, semiring, specification, length, work)
        trace(how, semiring, specification, length, cell, labels[sample], counts, work)


@entry(allocates=True)
def sample_labellings(specification, length, scores, uniforms, labels):  # type: ignore
    """Fill `labels` (n, length) from `uniforms` (n, length) in [0, 1); returns the log-partition.

    Labels are drawn from right to left, each given those after it. `scores` has nothing behind its slack.
    """
    work, counts = workspace_for(specification, length), np.empty(scores.size)
    log_total = scaled_sums(specification, length, scores, counts, work)
    if log_total == log_total:
        _draw(LINEAR, specification, length, uniforms, labels, counts, work)
        return log_total
    forward(LOGS, specification, length, scores, work)
    count = _fill_last(LOGS, specification, length, work, work.backward)
    log_total = sum_of(LOGS, work.backward, count)
    if log_total > -np.inf:
        _draw(LOGS, specification, length, uniforms, labels, counts, work)
    return log_total


# -- from right to left: all labellings ---------------------------------------------------------------


@inner(allocates=True)
def expectations_in_logs(specification, layout, length, scores, counts, edge_counts, work):  # type: ignore
    """The log-partition of any scores; writes counts of nodes, and of edges as the specification `layout` has them.

    −inf if no labelling is possible, and zero counts.
    """
    n_labels, stride, first = specification.n_labels, specification.stride, layout_of(specification)[3]
    n_groups, _, step, _ = layout_of(specification)
    forward(LOGS, specification, length, scores, work)
    for k in range(length * n_labels):
        counts[k] = 0.0
    for k in range(edge_counts.size):
        edge_counts[k] = 0.0
    row, now, then = np.zeros((3, n_groups * stride + LANES))
    count = _fill_last(LOGS, specification, length, work, now)
    log_total = sum_of(LOGS, now, count)
    if log_total == -np.inf:
        return log_total
    share(SHARED, LOGS, now, count, 0)
    for t in range(length - 1, -1, -1):
        then[:] = 0.0
        for group in range(n_groups):
            for label in range(n_labels):
                probability = now[group * stride + label]
                if probability == 0.0:
                    continue
                counts[t * n_labels + label] += probability
                if t < first:
                    continue
                n_terms = _fill_terms(LOGS, specification, t, group, label, work, row)
                share(SHARED, LOGS, row, n_terms, 0)
                cell = first_term(specification, group)
                for term in range(n_terms):
                    own = probability * row[term]
                    then[cell + term * step] += own
                    if own > 0.0:
                        edge_counts[edge_row(layout, t, group, term) * n_labels + label] += own
        now, then = then, now
    return log_total


# -- the k best ---------------------------------------------------------------------------------------


@entry(allocates=True)
def best_labellings(specification, length, scores, labels, values):  # type: ignore
    """Fill `labels` (k, length) and `values` (k,), best first; returns how many there are."""
    k, found, stride = values.size, 0, specification.stride
    work = EdgeRows(np.empty(n_edge_rows(specification, length) * stride), np.empty(0), np.empty(0))
    whole = _first_cell(specification, length)
    lists = ranked(whole + 1, k)
    forward(lists, specification, length, scores, work)
    last = _first_cell(specification, length - 1)
    for cell in range(last, whole):
        if specification.allowed_end[cell % stride] > 0.0:
            rank_cell(lists, whole, cell, 0.0)
    while found < k and lists.values[whole * k + found] > -np.inf:
        values[found] = lists.values[whole * k + found]
        entry = whole * k + found
        for t in range(length - 1, -1, -1):
            entry = lists.sources[entry]
            labels[found, t] = entry // k % stride
        found += 1
    return found
