# mypy: ignore-errors
"""The k best labellings of a graph, and samples, from the tables of its junction tree."""

from __future__ import annotations

import numpy as np

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
from partwise.structures.semirings import LOGS, MAXIMA, Drawn


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


@entry(allocates=True)
def best_labellings(shape, scores, work, labels, values):  # type: ignore
    """Fill `labels` (k, V) and `values` (k,), best first. Returns their number.

    For fixed labels of the cliques before it, a clique's table has the best scores of everything below it (Nilsson
    1998). So if a labelling differs from another first at some clique, its best score is lower by the difference of two
    entries. For every labelling found, the candidates differ from it first at some clique, at or after the clique where
    the labelling differs from its own predecessor (Lawler 1972).
    """
    capacity, tables = labels.shape[0], work.tables
    total = collect_scores(MAXIMA, shape, scores, work)
    if total == -np.inf:
        return 0
    cliques = np.empty(max(labels.shape[1], 1), np.int64)
    n = _cliques(shape, cliques)
    chosen = np.zeros((capacity, n), np.int64)
    value = np.full(capacity * (n + 1), -np.inf)
    origin, where, what = np.zeros((3, capacity * (n + 1)), np.int64)
    n_candidates, left_at = 0, 0
    for rank in range(capacity):
        if rank == 0:
            values[0] = total
            c = -1
        else:
            c = 0
            for candidate in range(n_candidates):
                if value[candidate] > value[c]:
                    c = candidate
            if n_candidates == 0 or value[c] == -np.inf:
                return rank
            values[rank] = value[c]
            left_at = where[c]
        for k in range(n):
            if c >= 0 and k < left_at:
                chosen[rank, k] = chosen[origin[c], k]
            elif c >= 0 and k == left_at:
                chosen[rank, k] = what[c]
            else:
                chosen[rank, k] = _next_entry(shape, cliques[k], tables, labels[rank], -1)
            write_own(shape, cliques[k], chosen[rank, k], labels[rank])
        if c >= 0:
            value[c] = -np.inf
        for k in range(left_at, n):
            step = cliques[k]
            other = _next_entry(shape, step, tables, labels[rank], chosen[rank, k])
            if other < 0:
                continue
            at = shape[step + TABLE] + shared_entry(shape, step, labels[rank])
            n_shared = shape[step + SHARED]
            loss = tables[at + chosen[rank, k] * n_shared] - tables[at + other * n_shared]
            value[n_candidates] = values[rank] - loss
            origin[n_candidates], where[n_candidates], what[n_candidates] = rank, k, other
            n_candidates += 1
    return capacity


@entry
def sample_labellings(shape, scores, work, uniforms, labels):  # type: ignore
    """Fill `labels` (n, V) from `uniforms` (n, cliques) in [0, 1). Returns the log-partition."""
    log_total = collect_scores(LOGS, shape, scores, work)
    if log_total > -np.inf:
        for i in range(labels.shape[0]):
            choose_labels(LOGS, Drawn(uniforms[i]), shape, labels[i], work)
    return log_total
