# mypy: ignore-errors
"""Directions of past steps, each with its difference of features.

A direction is a run of positions with two labellings, `off` and `to`. A step along it needs d = φ(to) − φ(off), a short
list of weights. If this list is kept, another step is as cheap as a coordinate step of a linear classifier.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from partwise.compiled.boundary import load_record, record_address, row_address
from partwise.compiled.dispatch import fragment, inner
from partwise.compiled.examples import length_of
from partwise.compiled.rows import FIRST_PART, FIRST_ROW, KIND, N_ROWS, KindRows, Rows
from partwise.solvers.dual.chain_cd_point import edge_part
from partwise.solvers.dual.chain_cd_space import squared_length

# Columns of `head` and of `number`. The head of a direction is one cache line.
EXAMPLE, FIRST, N_PAIRS, PATH, ENTRY, N_ENTRIES, OLDER = range(7)
SQUARED, COST, GAIN = range(3)


class DirectionStore(NamedTuple):
    """Directions in arrays that are longer than needed.

    Attributes
    ----------
    used : ndarray (3,) of int64
        Numbers of directions, of pairs in paths, and of entries.
    head : ndarray (n_directions, 8) of int64
        Example, position of the first pair among all positions, number of pairs that change, first place in `path`,
        first entry, number of entries, and the previous direction of the same example or −1.
    number : ndarray (n_directions, 3)
        ‖d‖², the difference of costs, and the gain of the dual by the last step.
    path : ndarray of int32
        For each direction the pairs that lose mass, then as many pairs that gain it.
    entry, value : ndarray of int32, ndarray
        Weights in which d is not zero, and its values.
    newest : ndarray (n_examples,) of int32
        The last direction of each example, or −1.
    """

    used: np.ndarray
    head: np.ndarray
    number: np.ndarray
    path: np.ndarray
    entry: np.ndarray
    value: np.ndarray
    newest: np.ndarray


@inner
def list_entries(kind, row, label, sign, entry, value, at):  # type: ignore
    """Write sign · φ(row, label) from `at` on, as weights and values; returns the place behind it."""
    base, masked = kind.first_weight, kind.mask.size > 0
    for d in range(kind.dense_start.size):
        w = kind.dense_start[d] + label
        if not masked or kind.mask[w] > 0.0:
            entry[at], value[at] = base + w, sign * kind.dense[row, d]
            at += 1
    for k in range(kind.wide_ptr[row], kind.wide_ptr[row + 1]):
        w = kind.wide_start[k] + label
        if not masked or kind.mask[w] > 0.0:
            entry[at] = base + w
            value[at] = sign * (kind.wide_value[k] if kind.wide_value.size > 0 else 1.0)
            at += 1
    for k in range(kind.narrow_ptr[row], kind.narrow_ptr[row + 1]):
        start = kind.narrow_start[k]
        for w in range(start, start + kind.narrow_count[k]):
            if kind.narrow_label[w - kind.narrow_first] == label:
                entry[at] = base + w
                value[at] = sign * (kind.narrow_value[k] if kind.narrow_value.size > 0 else 1.0)
                at += 1
                break
    return at


@fragment
def most_entries(kind, row):  # type: ignore
    """The most weights that one label of the row has."""
    n_sparse = kind.wide_ptr[row + 1] - kind.wide_ptr[row] + kind.narrow_ptr[row + 1] - kind.narrow_ptr[row]
    return n_sparse + kind.dense_start.size


@inner
def list_part(batch, i, part, sign, entry, value, at):  # type: ignore
    """Write sign · φ(x_i, part) from `at` on, as weights and values; returns the place behind it."""
    table = load_record(Rows, record_address(batch.rows))
    for r in range(table.run_ptr[i], table.run_ptr[i + 1]):
        run = table.runs[r]
        kind = load_record(KindRows, row_address(table.kinds, run[KIND]))
        within = part - run[FIRST_PART]
        if 0 <= within < run[N_ROWS] * kind.width:
            row = run[FIRST_ROW] + within // kind.width
            return list_entries(kind, row, within % kind.width, sign, entry, value, at)
    return at


@inner
def fits(batch, i, store):  # type: ignore
    """Whether the arrays are long enough for a visit of the example."""
    length, n_entries = length_of(batch, i), 0
    table = load_record(Rows, record_address(batch.rows))
    for r in range(table.run_ptr[i], table.run_ptr[i + 1]):
        run = table.runs[r]
        kind = load_record(KindRows, row_address(table.kinds, run[KIND]))
        # Each side has one label of a row, and a pair changes in two directions; a tied row serves all pairs.
        times = 4 * length if r + 1 == table.run_ptr[i + 1] and batch.n_tied > 0 else 4
        for row in range(run[FIRST_ROW], run[FIRST_ROW] + run[N_ROWS]):
            n_entries += times * most_entries(kind, row)
    return (
        store.used[0] + length < len(store.head)
        and store.used[1] + 4 * length < store.path.size
        and store.used[2] + n_entries < store.entry.size
    )


@inner
def _is_same(store, k, first, n_pairs, at):  # type: ignore
    """Whether direction k has the paths at path[at:], in this order or swapped."""
    forward = store.head[k, FIRST] == first and store.head[k, N_PAIRS] == n_pairs
    backward = forward
    start, j = store.head[k, PATH], 0
    while j < n_pairs and (forward or backward):
        off, to = store.path[start + j], store.path[start + n_pairs + j]
        new_off, new_to = store.path[at + j], store.path[at + n_pairs + j]
        forward = forward and off == new_off and to == new_to
        backward = backward and off == new_to and to == new_off
        j += 1
    return forward or backward


@inner
def _add_up(store, start, end, tally):  # type: ignore
    """Merge entries of the same weight; returns the new end."""
    entry, value = store.entry, store.value
    for k in range(start, end):
        tally[entry[k]] += value[k]
    at = start
    for k in range(start, end):
        w = entry[k]
        if tally[w] != 0.0:
            entry[at], value[at] = w, tally[w]
            tally[w] = 0.0
            at += 1
    return at


@inner
def _write_difference(batch, i, chain, store, first, n_pairs, space):  # type: ignore
    """Append d of the direction whose paths come last; returns ‖d‖², the cost and the end of the entries."""
    t0, n_labels, part = first - chain.position_ptr[i], chain.n_labels, batch.part_ptr[i]
    at, cost = store.used[2], 0.0
    off_path = store.used[1]
    to_path = off_path + n_pairs
    for side in range(2):
        sign, path = (-1.0, off_path) if side == 0 else (1.0, to_path)
        for j in range(n_pairs):
            t, pair = t0 + j, store.path[path + j]
            label = pair % n_labels
            if store.path[off_path + j] % n_labels != store.path[to_path + j] % n_labels:
                at = list_part(batch, i, t * n_labels + label, sign, store.entry, store.value, at)
                if batch.cost.size > 0:
                    cost += sign * batch.cost[part + t * n_labels + label]
            if t > 0:
                edge = edge_part(batch, i, chain, t, pair)
                at = list_part(batch, i, edge, sign, store.entry, store.value, at)
                if batch.cost.size > 0:
                    cost += sign * batch.cost[part + edge]
    end = _add_up(store, store.used[2], at, space.tally)
    return squared_length(space, store.entry, store.value, store.used[2], end), cost, end


@inner
def remember(batch, i, chain, store, first, n_pairs, space):  # type: ignore
    """The number of the direction whose paths come last: one that the example has already, or a new one."""
    at, k = store.used[1], store.newest[i]
    while k >= 0 and not _is_same(store, k, first, n_pairs, at):
        k = store.head[k, OLDER]
    if k < 0:
        k, start = store.used[0], store.used[2]
        squared, cost, end = _write_difference(batch, i, chain, store, first, n_pairs, space)
        head = store.head[k]
        head[EXAMPLE], head[FIRST], head[N_PAIRS], head[PATH] = i, first, n_pairs, at
        head[ENTRY], head[N_ENTRIES], head[OLDER] = start, end - start, store.newest[i]
        store.number[k, SQUARED], store.number[k, COST], store.number[k, GAIN] = squared, cost, 0.0
        store.newest[i] = k
        store.used[0], store.used[1], store.used[2] = k + 1, at + 2 * n_pairs, end
    return k


def make_store(
    n_examples: int, n_directions: int, n_pairs: int, n_entries: int, dtype: Any
) -> DirectionStore:
    """An empty store for so many directions, pairs in paths, and entries of type `dtype`."""
    return DirectionStore(
        used=np.zeros(3, np.int64),
        head=np.zeros((n_directions, 8), np.int64),
        number=np.zeros((n_directions, 3)),
        path=np.zeros(n_pairs, np.int32),
        entry=np.zeros(n_entries, np.int32),
        value=np.zeros(n_entries, dtype),
        newest=np.full(n_examples, -1, np.int32),
    )


def enlarged(store: DirectionStore) -> DirectionStore:
    """The same directions in arrays that are 1.5 times as long; pages not written yet need no memory."""
    n_directions, n_pairs, n_entries = (int(count) for count in store.used)
    used = {
        "head": n_directions,
        "number": n_directions,
        "path": n_pairs,
        "entry": n_entries,
        "value": n_entries,
    }
    larger = {}
    for name, n in used.items():
        array = getattr(store, name)
        larger[name] = np.zeros((len(array) + len(array) // 2 + 1, *array.shape[1:]), array.dtype)
        larger[name][:n] = array[:n]
    return store._replace(**larger)
