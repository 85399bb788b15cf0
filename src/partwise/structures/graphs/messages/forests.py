# mypy: ignore-errors
"""Forests of factors, which tree-reweighted bounds average over.

A forest is a set of factors without cycles. Its entropy Σ_v H_v − Σ_f I_f bounds the entropy of any distribution with
the same marginals. So does the mean over forests, Σ_v H_v − Σ_f ρ_f I_f, with ρ_f the share of the forests that contain
f (Wainwright, Jaakkola and Willsky 2005, for pairs). Forests are grown one after another. Factors in the fewest
forests come first. If a graph has no cycles, one forest contains all factors. If there are rules, forests that take
rules first have half of the weight: a rule over many vertices leaves little space for other factors.
"""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import entry, inner

# If a graph has cycles, at least this many forests are grown: more forests give more even shares.
_FEWEST = 8


@inner
def _root(component, v):  # type: ignore
    while component[v] != v:
        component[v] = component[component[v]]
        v = component[v]
    return v


@inner
def _fits(component, vertex, first, last):  # type: ignore
    """Connect the vertices of a factor, unless two of them are connected already."""
    for s in range(first, last):
        own = _root(component, vertex[s])
        for r in range(first, s):
            if _root(component, vertex[r]) == own:
                return False
    for s in range(first + 1, last):
        component[_root(component, vertex[s])] = _root(component, vertex[first])
    return True


@inner
def _fits_large(component, vertex, first, last, seen, stamp):  # type: ignore
    """As :func:`_fits`, in one round over the vertices. `seen` has the last stamp of each component."""
    for s in range(first, last):
        own = _root(component, vertex[s])
        if seen[own] == stamp:
            return False
        seen[own] = stamp
    for s in range(first + 1, last):
        component[_root(component, vertex[s])] = _root(component, vertex[first])
    return True


@inner(allocates=True)
def _by_coverage(covered, hard, hard_first, waiting):  # type: ignore
    """Fill `waiting` with the factors, the least covered first. Rules come before all others if `hard_first`."""
    n, most = covered.size, 0
    for f in range(n):
        most = max(most, covered[f])
    starts = np.zeros(2 * (most + 1) + 1, np.int64)
    for f in range(n):
        starts[covered[f] + (most + 1 if hard_first and hard[f] == 0 else 0) + 1] += 1
    for k in range(1, starts.size):
        starts[k] += starts[k - 1]
    for f in range(n):
        k = covered[f] + (most + 1 if hard_first and hard[f] == 0 else 0)
        waiting[starts[k]] = f
        starts[k] += 1


@inner(allocates=True)
def _rooted(n_vertices, slot, vertex, taken, n_taken, touching_ptr, touching, order, parent):  # type: ignore
    """Fill `order` with the taken factors, leaves first, and `parent` with the slot of each towards its root."""
    is_taken = np.zeros(slot.size - 1, np.int64)
    for k in range(n_taken):
        is_taken[taken[k]] = 1
    reached, queue, found = np.zeros(n_vertices, np.int64), np.empty(n_vertices, np.int64), n_taken
    for root in range(n_vertices):
        if reached[root]:
            continue
        reached[root], queue[0], begin, end = 1, root, 0, 1
        while begin < end:
            v = queue[begin]
            begin += 1
            for k in range(touching_ptr[v], touching_ptr[v + 1]):
                f = touching[k]
                if is_taken[f] != 1:
                    continue
                is_taken[f] = 2
                found -= 1
                order[found] = f
                for s in range(slot[f], slot[f + 1]):
                    if vertex[s] == v:
                        parent[found] = s
                    else:
                        reached[vertex[s]] = 1
                        queue[end] = vertex[s]
                        end += 1


@entry(allocates=True)
def grow_forests(n_vertices, slot, vertex, hard):  # type: ignore
    """Grow forests that together contain every factor.

    Parameters
    ----------
    slot, vertex : ndarray of int64 (F + 1,), (slots,)
        Vertices of each factor.
    hard : ndarray of int64 (F,)

    Returns
    -------
    forest, times, order, parent : ndarray of int64
        First entry of each forest, its weight, its factors from the leaves on, their slots towards the root.
    """
    n, any_hard = slot.size - 1, hard.sum() > 0
    touching_ptr, touching = np.zeros(n_vertices + 2, np.int64), np.empty(vertex.size, np.int64)
    for s in range(vertex.size):
        touching_ptr[vertex[s] + 2] += 1
    for v in range(2, n_vertices + 2):
        touching_ptr[v] += touching_ptr[v - 1]
    for f in range(n):
        for s in range(slot[f], slot[f + 1]):
            touching[touching_ptr[vertex[s] + 1]] = f
            touching_ptr[vertex[s] + 1] += 1
    covered, waiting, taken = np.zeros(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    component, seen = np.empty(n_vertices, np.int64), np.zeros(n_vertices, np.int64)
    pieces, parents, kinds = [covered[:0]], [covered[:0]], [np.int64(0)]
    left, stamp, rounds, is_hard_first = n, 0, np.zeros(2, np.int64), any_hard
    while True:
        _by_coverage(covered, hard, is_hard_first, waiting)
        for v in range(n_vertices):
            component[v] = v
        n_taken = 0
        for k in range(n):
            f, stamp = waiting[k], stamp + 1
            if slot[f + 1] - slot[f] < 8:
                fits = _fits(component, vertex, slot[f], slot[f + 1])
            else:
                fits = _fits_large(component, vertex, slot[f], slot[f + 1], seen, stamp)
            if fits:
                taken[n_taken] = f
                n_taken += 1
                left -= covered[f] == 0
                covered[f] += 1
        order, parent = np.empty(n_taken, np.int64), np.empty(n_taken, np.int64)
        _rooted(n_vertices, slot, vertex, taken, n_taken, touching_ptr, touching, order, parent)
        pieces.append(order)
        parents.append(parent)
        kinds.append(np.int64(is_hard_first))
        rounds[np.int64(is_hard_first)] += 1
        if n_taken == n:
            break
        hard_left = 0
        for f in range(n):
            hard_left += hard[f] == 1 and covered[f] == 0
        is_hard_first = any_hard and (hard_left > 0 or rounds[1] < 2)
        if left == 0 and not is_hard_first and rounds[0] >= _FEWEST:
            break
    n_forests = len(pieces) - 1
    forest, times = np.zeros(n_forests + 1, np.int64), np.ones(n_forests, np.int64)
    for t in range(n_forests):
        forest[t + 1] = forest[t] + pieces[t + 1].size
        if rounds[0] > 0 and rounds[1] > 0:
            times[t] = rounds[1 - kinds[t + 1]]
    all_orders, all_parents = np.empty(forest[n_forests], np.int64), np.empty(forest[n_forests], np.int64)
    for t in range(n_forests):
        for k in range(pieces[t + 1].size):
            all_orders[forest[t] + k] = pieces[t + 1][k]
            all_parents[forest[t] + k] = parents[t + 1][k]
    return forest, times, all_orders, all_parents
