# mypy: ignore-errors
"""Hill climbing on second-order trees, one arc at a time (McDonald and Pereira 2006)."""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import inner
from partwise.structures.second_order.tables import inner_siblings
from partwise.structures.trees.arc_tables import stride_of

# The largest number of rounds over all arcs: more rarely improve anything.
_MOST_ROUNDS = 20


@inner
def _arc_parts(m, n, n_slots, single_root, work):  # type: ignore
    """The arc into m in ``work.heads``, its sibling part, whether it is the last of its side, its head's slot."""
    heads, stride = work.heads, stride_of(n)
    h = heads[m]
    a, step = work.arc_at[m * stride + h], (1 if h < m else -1)
    inner, w = -1, m - step
    while w != h:
        if heads[w] == h:
            inner = w
            break
        w -= step
    is_last, w = True, m + step
    while 0 < w <= n:
        if heads[w] == h:
            is_last = False
            break
        w += step
    part = work.sibling_from[a]
    if inner >= 0:
        first, last = inner_siblings(a, single_root, work)
        if last == first:
            return a, np.int64(-1), is_last, np.int64(0)  # a second modifier of a single root
        part += 2 + work.out_place[work.arc_at[inner * stride + h]] - first
    slot = np.int64(0)
    if h > 0:
        slot = work.slot[work.arc_at[h * stride + heads[h]]]
    return a, part, is_last, slot


@inner
def _score(n, n_slots, single_root, share, work):  # type: ignore
    """The score of the tree in ``work.heads``. Scores of pairs are multiplied by `share`."""
    total, pairs = 0.0, 0.0
    for m in range(1, n + 1):
        a, part, is_last, slot = _arc_parts(m, n, n_slots, single_root, work)
        if part < 0:
            return -np.inf
        total += work.arc_score[a]
        pairs += work.sibling_score[part] + work.grand_score[a * n_slots + slot]
        if is_last:
            pairs += work.sibling_score[work.sibling_from[a] + 1]
    return total + share * pairs


@inner
def _is_below(word, other, heads):  # type: ignore
    """Whether `other` is `word` or one of its ancestors."""
    while word > 0 and word != other:
        word = heads[word]
    return word == other


@inner
def climb(specification, n, n_arcs, n_slots, share, base, counts, work):  # type: ignore
    """Improve the tree in ``work.heads`` until no new arc helps, and write counts of its parts."""
    single_root, heads, stride = specification.single_root, work.heads, stride_of(n)
    for j in range((n + 1) * stride):
        work.arc_at[j] = -1
    for a in range(n_arcs):
        work.arc_at[work.modifier[a] * stride + work.head[a]] = a
    value = _score(n, n_slots, single_root, share, work)
    for _ in range(_MOST_ROUNDS):
        before = value
        for a in range(n_arcs):
            m, h = work.modifier[a], work.head[a]
            old = heads[m]
            if h == old or (single_root and (h == 0 or old == 0)) or _is_below(h, m, heads):
                continue
            heads[m] = h
            tried = _score(n, n_slots, single_root, share, work)
            if tried > value:
                value = tried
            else:
                heads[m] = old
        if not value > before:
            break
    if value == -np.inf:
        return value
    for k in range(n_arcs * n_slots):
        work.grand_weight[k] = 0.0
    for m in range(1, n + 1):
        a, part, is_last, slot = _arc_parts(m, n, n_slots, single_root, work)
        counts[a] = 1.0
        counts[base + part] = 1.0
        if is_last:
            counts[base + work.sibling_from[a] + 1] = 1.0
        work.grand_weight[a * n_slots + slot] = 1.0
    return value
