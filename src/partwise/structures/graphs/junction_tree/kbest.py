# mypy: ignore-errors
"""The k best labellings of a graph, and samples, from the tables of its junction tree."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.compiled.boundary import IntegerMatrix, Integers, Reals, ShortIntegers
from partwise.compiled.dispatch import entry, inner
from partwise.structures.graphs.junction_tree.programme import MESSAGE, N_STEPS, N_TABLES, TABLES
from partwise.structures.graphs.junction_tree.recursion import (
    choose_labels,
    collect_scores,
    shared_entry,
    write_own,
)
from partwise.structures.graphs.junction_tree.tables import OWN, SHARED, TABLE
from partwise.structures.graphs.layout import REST
from partwise.structures.lawler import best_of_set, rank_labellings, write_labelling
from partwise.structures.semirings import LINEAR, LOGS, MAXIMA, Drawn


@inner
def _cliques(shape, cliques):  # type: ignore
    """Fill `cliques` with the MESSAGE steps, from the roots on. Returns their number."""
    first = shape[REST]
    starts = first + TABLES + 3 * shape[first + N_TABLES]
    found = 0
    for k in range(shape[first + N_STEPS] - 1, -1, -1):
        step = first + shape[starts + k]
        if shape[step] == MESSAGE:
            cliques[found] = step
            found += 1
    return found


@inner
def _next_entry(shape, step, tables, labels, after):  # type: ignore
    """The next best entry of a clique's own vertices after entry `after` (−1: the best of all), or −1.

    The order is by score, then by number.
    """
    n_shared = shape[step + SHARED]
    at = shape[step + TABLE] + shared_entry(shape, step, labels)
    bound = np.inf if after < 0 else tables[at + after * n_shared]
    found, top = -1, -np.inf
    for r in range(shape[step + OWN]):
        x = tables[at + r * n_shared]
        if x > top and (x < bound or (x == bound and r > after)):
            found, top = r, x
    return found


class _CliqueSets(NamedTuple):
    """Sets of the labellings of a graph. Places are cliques, from the roots on; a code is an entry of its own vertices.

    For fixed labels of the cliques before it, a clique's table has the best scores of everything below it (Nilsson
    1998). So if a labelling differs from another first at some clique, its best score is lower by the difference of two
    entries.

    Attributes
    ----------
    total : float
        The best score of all labellings.
    cliques : ndarray of int64 (n_cliques,)
        Their steps.
    entries : ndarray of int64 (sets,)
        The entry of every set's best labelling at the first clique that is not fixed; −1 if it is the best of all.
    labels : ndarray of int64 (k, V)
        Labels of the vertices of the labellings found.
    """

    shape: ShortIntegers
    tables: Reals
    total: float
    cliques: Integers
    entries: Integers
    labels: IntegerMatrix


@best_of_set.register(_CliqueSets)
@inner
def _best_labelling(graph, labellings, rank, place, banned, value, candidate):  # type: ignore
    if banned.size == 0:
        return graph.total
    # Entries go from best to worst: the banned ones are this labelling's own and those before it.
    shape, tables, step, labels = graph.shape, graph.tables, graph.cliques[place], graph.labels[rank]
    own = labellings[rank, place]
    other = _next_entry(shape, step, tables, labels, own)
    if other < 0:
        return -np.inf
    graph.entries[candidate] = other
    at, n_shared = shape[step + TABLE] + shared_entry(shape, step, labels), shape[step + SHARED]
    return value - (tables[at + own * n_shared] - tables[at + other * n_shared])


@write_labelling.register(_CliqueSets)
@inner
def _write_labelling(graph, labellings, rank, place, candidate):  # type: ignore
    # A literal −1 would be another type and compile `_next_entry` twice.
    shape, labels, none = graph.shape, graph.labels[rank], np.int64(-1)
    for k in range(graph.cliques.size):
        step = graph.cliques[k]
        if k >= place:
            entry = graph.entries[candidate] if k == place else none
            if entry < 0:
                entry = _next_entry(shape, step, graph.tables, labels, none)
            labellings[rank, k] = entry
        write_own(shape, step, labellings[rank, k], labels)


@entry(allocates=True)
def best_labellings(shape, scores, work, labels, values):  # type: ignore
    """Fill `labels` (k, V) and `values` (k,), best first. Returns their number."""
    total = collect_scores(MAXIMA, shape, scores, work)
    cliques = np.empty(labels.shape[1], np.int64)
    n = _cliques(shape, cliques)
    entries = np.empty(1 + (values.size - 1) * n, np.int64)
    entries[0] = -1
    sets = _CliqueSets(shape, work.tables, total, cliques[:n], entries, labels)
    return rank_labellings(sets, np.empty((values.size, n), np.int64), values)


@entry
def sample_labellings(shape, scores, work, uniforms, labels):  # type: ignore
    """Fill `labels` (n, V) from `uniforms` (n, cliques) in [0, 1). Returns the log-partition."""
    log_total = collect_scores(LOGS, shape, scores, work)
    if log_total > -np.inf:
        for i in range(labels.shape[0]):
            choose_labels(LINEAR, Drawn(uniforms[i]), shape, labels[i], work.marginals, work.tables)
    return log_total
