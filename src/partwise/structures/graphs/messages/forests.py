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
from partwise.core.arrays import offsets

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
def _grow_forest(n_vertices, slot, vertex, waiting, touching_ptr, touching, order, parent):  # type: ignore
    """Take the factors of `waiting` that fit, one after another. Returns their number."""
    component, seen = np.arange(n_vertices), np.zeros(n_vertices, np.int64)
    taken, n_taken = np.empty(waiting.size, np.int64), 0
    for k in range(waiting.size):
        f = waiting[k]
        if slot[f + 1] - slot[f] < 8:
            fits = _fits(component, vertex, slot[f], slot[f + 1])
        else:
            fits = _fits_large(component, vertex, slot[f], slot[f + 1], seen, k + 1)
        if fits:
            taken[n_taken] = f
            n_taken += 1
    _rooted(n_vertices, slot, vertex, taken, n_taken, touching_ptr, touching, order, parent)
    return n_taken


def grow_forests(
    n_vertices: int, slot: np.ndarray, vertex: np.ndarray, hard: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
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
    n = slot.size - 1
    touching_ptr = offsets(np.bincount(vertex, minlength=n_vertices))
    touching = np.repeat(np.arange(n), np.diff(slot))[np.argsort(vertex, kind="stable")]
    covered, order, parent = (np.zeros(n, np.int64) for _ in range(3))
    orders, parents, took_hard_first = [], [], []
    is_hard_first = bool(hard.any())
    while True:
        last = (hard == 0) * (covered.max(initial=0) + 1) if is_hard_first else 0
        waiting = np.argsort(covered + last, kind="stable")  # the least covered first
        n_taken = _grow_forest(n_vertices, slot, vertex, waiting, touching_ptr, touching, order, parent)
        orders.append(order[:n_taken].copy())
        parents.append(parent[:n_taken].copy())
        took_hard_first.append(is_hard_first)
        covered[orders[-1]] += 1
        if n_taken == n:
            break
        n_hard_first = sum(took_hard_first)
        is_hard_first = bool(hard.any()) and (bool((covered[hard == 1] == 0).any()) or n_hard_first < 2)
        if covered.all() and not is_hard_first and len(orders) - n_hard_first >= _FEWEST:
            break
    n_rounds = np.bincount(took_hard_first, minlength=2)
    times = [n_rounds[1 - own] if n_rounds.all() else 1 for own in np.array(took_hard_first, np.int64)]
    forest = offsets([len(each) for each in orders])
    return forest, np.array(times, np.int64), np.concatenate(orders), np.concatenate(parents)
