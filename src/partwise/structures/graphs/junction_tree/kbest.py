# mypy: ignore-errors
"""The k best labellings of a graph, and samples, from the tables of its junction tree on logarithms."""

from __future__ import annotations

import math

import numpy as np

from partwise.compiled.dispatch import entry, inner
from partwise.structures.graphs.junction_tree.logs import collect_in_logs
from partwise.structures.graphs.junction_tree.maxima import collect_maxima, shared_entry, write_own
from partwise.structures.graphs.junction_tree.programme import MESSAGE, N_STEPS, N_TABLES, TABLES
from partwise.structures.graphs.junction_tree.tables import OWN, SHARED, TABLE
from partwise.structures.graphs.layout import REST


@inner
def _cliques(shape, cliques):  # type: ignore
    """The MESSAGE steps, from the roots on; returns how many there are."""
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
    """The best entry of a clique's own vertices behind entry `after` (−1: the best of all), −1 where there is none.

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
    """Fill `labels` (k, V) and `values` (k,), best first; returns how many there are.

    With the labels of the cliques before it given, a clique's table holds the best score of everything below it
    (Nilsson 1998). So a labelling that leaves another one at some clique, first there, scores less by the difference
    of two entries; of every labelling found, the ones that leave it at each clique behind the one where it left its own
    predecessor are candidates (Lawler 1972).
    """
    room, tables = labels.shape[0], work.tables
    total = collect_maxima(shape, scores, work)
    if total == -np.inf:
        return 0
    cliques = np.empty(max(labels.shape[1], 1), np.int64)
    n = _cliques(shape, cliques)
    chosen = np.zeros((room, n), np.int64)
    value = np.full(room * (n + 1), -np.inf)
    origin, where, what = np.zeros((3, room * (n + 1)), np.int64)
    n_candidates, left_at = 0, 0
    for rank in range(room):
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
    return room


@entry
def sample_labellings(shape, scores, work, cliques, uniforms, labels):  # type: ignore
    """Fill `labels` (n, V) from `uniforms` (n, cliques) in [0, 1); returns the log-partition."""
    tables = work.tables
    log_total = collect_in_logs(shape, scores, work)
    if log_total == -np.inf:
        return log_total
    n_cliques = _cliques(shape, cliques)
    for i in range(labels.shape[0]):
        for k in range(n_cliques):
            step = cliques[k]
            n_own, n_shared = shape[step + OWN], shape[step + SHARED]
            at = shape[step + TABLE] + shared_entry(shape, step, labels[i])
            top, total = -np.inf, 0.0
            for r in range(n_own):
                top = max(top, tables[at + r * n_shared])
            for r in range(n_own):
                total += math.exp(tables[at + r * n_shared] - top)
            left, chosen = uniforms[i, k] * total, -1
            for r in range(n_own):
                x = tables[at + r * n_shared]
                if x > -np.inf:
                    # The last possible entry takes what rounding leaves over.
                    if chosen >= 0 and left < 0.0:
                        break
                    chosen = r
                    left -= math.exp(x - top)
            write_own(shape, step, chosen, labels[i])
    return log_total
