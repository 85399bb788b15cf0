# mypy: ignore-errors
"""The dual variables of chains: the pair marginals that are not zero.

At an optimum for β = ∞ most positions have one pair of labels (y_{t-1}, y_t) with mass, few have more than three. Each
position keeps a short list of such pairs. Consistent marginals of a chain that are not negative are always those of
a distribution. So mass can move between two labellings of a run of positions that have the same labels on both sides of
the run, whatever the rest of the sentence is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.compiled.dispatch import entry, fragment, inner
from partwise.compiled.examples import length_of

_DUST = 1e-13  # a mass below this is rounding error, and its pair is dropped


class PairPoint(NamedTuple):
    """Arrays are changed in place.

    Attributes
    ----------
    pair : ndarray (n_positions, n_slots) of int32
        Pairs in use at each position, y_{t-1} · n_labels + y_t, where y_{-1} = 0; then −1.
    mass : ndarray (n_positions, n_slots)
        Their marginals, then 0.
    v : ndarray (n_weights,)
    cost, gap : ndarray (n_examples,)
        Expected cost, and g_i as of the last visit.
    norm : ndarray (1,)
        ‖v‖², kept up incrementally.
    """

    pair: np.ndarray
    mass: np.ndarray
    v: np.ndarray
    cost: np.ndarray
    gap: np.ndarray
    norm: np.ndarray


class ChainView(NamedTuple):
    """Sizes of chains; classes are chains of length 1.

    Attributes
    ----------
    n_labels : int
    position_ptr : ndarray (n_examples + 1,) of int64
        The positions of each example, counted over all.
    """

    n_labels: int
    position_ptr: np.ndarray


class PathWorkspace(NamedTuple):
    """Workspace for the labellings of one example.

    Attributes
    ----------
    value : ndarray (longest, n_slots)
    back : ndarray (longest, n_slots) of int32
    worst, top : ndarray (longest,) of int64
        The worst labelling in use, and the best of all.
    """

    value: np.ndarray
    back: np.ndarray
    worst: np.ndarray
    top: np.ndarray


@fragment
def slot_of(point, position, pair):  # type: ignore
    """Where the pair stands in its position's list, or the first free slot; n_slots when it is full."""
    slot, n_slots = 0, point.pair.shape[1]
    while slot < n_slots and point.pair[position, slot] != pair and point.pair[position, slot] >= 0:
        slot += 1
    return slot


@inner
def mass_along(point, first, path, start, n_pairs):  # type: ignore
    """The least mass among n_pairs pairs from path[start] on, which stand from position `first` on."""
    least, k, n_slots = np.inf, 0, point.pair.shape[1]
    while k < n_pairs and least > 0.0:
        slot = slot_of(point, first + k, path[start + k])
        least = min(least, point.mass[first + k, slot]) if slot < n_slots else 0.0
        k += 1
    return least


@fragment
def has_slots_for(point, first, path, start, n_pairs):  # type: ignore
    """Whether every pair of the path has a slot or could get one."""
    k, n_slots = 0, point.pair.shape[1]
    while k < n_pairs and slot_of(point, first + k, path[start + k]) < n_slots:
        k += 1
    return k == n_pairs


@inner
def add_mass(point, first, path, start, n_pairs, amount):  # type: ignore
    """Give every pair of the path `amount` more; a pair left without mass is dropped from its list."""
    pair, mass = point.pair, point.mass
    for k in range(n_pairs):
        p = first + k
        slot = slot_of(point, p, path[start + k])
        pair[p, slot] = path[start + k]
        mass[p, slot] += amount
        if mass[p, slot] < _DUST:
            last = slot
            while last + 1 < pair.shape[1] and pair[p, last + 1] >= 0:
                last += 1
            pair[p, slot], mass[p, slot] = pair[p, last], mass[p, last]
            pair[p, last], mass[p, last] = -1, 0.0


@fragment
def edge_part(batch, i, chain, t, pair):  # type: ignore
    """Where the edge into position t > 0 stands among the example's parts."""
    block = 0 if batch.n_tied > 0 else (t - 1) * chain.n_labels
    return (length_of(batch, i) + block) * chain.n_labels + pair


@inner
def worst_in_use(batch, i, chain, point, potentials, workspace):  # type: ignore
    """The labelling of least score all of whose pairs have mass into `worst`; its score, and the mean under μ.

    The score is inf where rounding has left no whole labelling.
    """
    first, length, n_labels = chain.position_ptr[i], length_of(batch, i), chain.n_labels
    n_slots, mean, total, end = point.pair.shape[1], 0.0, np.inf, 0
    for t in range(length):
        slot = 0
        while slot < n_slots and point.pair[first + t, slot] >= 0:
            pair = point.pair[first + t, slot]
            before = pair // n_labels
            own = potentials[t * n_labels + pair - before * n_labels]
            least, back = 0.0, 0
            if t > 0:
                own += potentials[edge_part(batch, i, chain, t, pair)]
                least, k = np.inf, 0
                while k < n_slots and point.pair[first + t - 1, k] >= 0:
                    if (
                        point.pair[first + t - 1, k] % n_labels == before
                        and workspace.value[t - 1, k] < least
                    ):
                        least, back = workspace.value[t - 1, k], k
                    k += 1
            mean += point.mass[first + t, slot] * own
            workspace.value[t, slot] = own + least
            workspace.back[t, slot] = back
            if t == length - 1 and own + least < total:
                end, total = slot, own + least
            slot += 1
    for t in range(length - 1, -1, -1):
        workspace.worst[t] = point.pair[first + t, end] % n_labels
        end = workspace.back[t, end]
    return total, mean


@entry
def pair_counts(batch, first, last, chain, point, mu):  # type: ignore
    """Expected part counts, in double precision."""
    n_labels = chain.n_labels
    for i in range(first, last):
        start = batch.part_ptr[i]
        for t in range(length_of(batch, i)):
            p = chain.position_ptr[i] + t
            for slot in range(point.pair.shape[1]):
                pair, mass = point.pair[p, slot], point.mass[p, slot]
                if pair >= 0:
                    mu[start + t * n_labels + pair % n_labels] += mass
                    if t > 0:
                        mu[start + edge_part(batch, i, chain, t, pair)] += mass
