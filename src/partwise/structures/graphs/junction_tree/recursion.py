# mypy: ignore-errors
"""The recursion of a junction tree over any semiring: messages to the root, then marginals or labels from the root on.

See `programme.py` for the steps. With T the table of a clique, r the labels of its own vertices and s the labels of the
vertices that it shares with its parent,

    m(s) = Σ_r T(r, s);    p(r, s) = p(s) T(r, s) / m(s).

``LINEAR``: the largest entry of every table is one, and every message is divided by its sum. The smallest non-zero
entry of each is also kept. If the product of these over the tables of a clique is at least `_SMALLEST`, nothing can
underflow, and all zeros come from −inf. ``LOGS``: the exponentials exp(T(r, s) − max_r T(r, s)) of a clique's table are
kept in the second buffer, which later has its marginals.
"""

from __future__ import annotations

import math

import numpy as np

from partwise.compiled.dispatch import chosen_by_type, fragment, inner
from partwise.compiled.simd import LANES, exponential_row
from partwise.structures.graphs.junction_tree.programme import MESSAGE, N_STEPS, N_TABLES, PRODUCT, TABLES
from partwise.structures.graphs.junction_tree.tables import (
    AXES,
    N_AXES,
    N_OWN,
    N_SHARED,
    OUT,
    OWN,
    RANGE,
    RANGE_A,
    RANGE_B,
    SHARED,
    SUM,
    TABLE,
    VERTICES,
    A,
    B,
    add_run,
    divide_run,
    larger_run,
    least_run,
    multiply_tables,
    sum_run,
    sum_table,
    times_number,
    times_run,
    zero_run,
)
from partwise.structures.graphs.layout import HEAD, N_PARTS, N_VERTICES, REST
from partwise.structures.semirings import LINEAR, Linear, Logs, Maxima, choose

# Products of smallest entries below this might underflow: the smallest normal number is 2e-308.
_SMALLEST = 1e-280


# -- to the root --------------------------------------------------------------------------------------


@inner
def collect(semiring, shape, work):  # type: ignore
    """Send messages to the root, from the tables of parts. Returns the log of the result (NaN if it underflowed)."""
    first, tables = shape[REST], work.tables
    starts = first + TABLES + 3 * shape[first + N_TABLES]
    result, smallest = 0.0, 1.0
    tables[shape[N_PARTS]] = semiring.one
    for k in range(shape[first + N_STEPS]):
        step = first + shape[starts + k]
        if shape[step] == PRODUCT:
            smallest *= _least_product(semiring, shape, step, work)
            multiply_tables(semiring, shape, step, tables)
            continue
        if not smallest > _SMALLEST:
            return np.nan
        own = _message(semiring, shape, step, work)
        if own == -np.inf:
            return own
        result += own
        smallest = 1.0
    return result


@inner
def collect_scores(semiring, shape, scores, work):  # type: ignore
    """As :func:`collect`, on logarithms: from scores."""
    tables = work.tables
    for part in range(shape[N_PARTS]):
        tables[part] = scores[part]
    return collect(semiring, shape, work)


@chosen_by_type
def _least_product(semiring, shape, step, work):
    """The smallest entry that a product may have, relative to its table."""


@chosen_by_type
def _message(semiring, shape, step, work):
    """Fill the message m(s). Returns its contribution to the log of the result: divisors, or the message of a root."""


@_least_product.register(Linear)
@inner
def _least_of_weights(semiring, shape, step, work):  # type: ignore
    least = 1.0
    for side in (RANGE_A, RANGE_B):
        if shape[step + side] >= 0:
            least *= work.smallest[shape[step + side]]
    return least


@_least_product.register(Logs)
@_least_product.register(Maxima)
@fragment
def _least_of_logs(semiring, shape, step, work):  # type: ignore
    return 1.0


@_message.register(Linear)
@inner
def _message_of_sums(semiring, shape, step, work):  # type: ignore
    tables, table, message = work.tables, shape[step + TABLE], shape[step + SUM]
    n_shared = shape[step + SHARED]
    zero_run(tables, message, n_shared)
    for r in range(shape[step + OWN]):
        add_run(tables, message, tables, table + r * n_shared, n_shared)
    total = sum_run(tables, message, n_shared)
    if not total > 0.0:
        return -np.inf
    times_number(LINEAR, tables, message, tables, message, 1.0 / total, n_shared)
    work.smallest[shape[step + RANGE]] = least_run(tables, message, n_shared)
    work.divided[shape[step + RANGE]] = total
    return math.log(total)


@_message.register(Logs)
@inner
def _message_of_logs(semiring, shape, step, work):  # type: ignore
    # m(s) = max_r T(r, s) + log Σ_r exp(T(r, s) − max_r T(r, s))
    tables, powers = work.tables, work.marginals
    table, message = np.int64(shape[step + TABLE]), np.int64(shape[step + SUM])
    n_own, n_shared = np.int64(shape[step + OWN]), np.int64(shape[step + SHARED])
    for s in range(n_shared):
        tables[message + s] = -np.inf
    for r in range(n_own):
        larger_run(tables, message, tables, table + r * n_shared, n_shared)
    for r in range(n_own):
        _above(powers, table + r * n_shared, tables, message, tables, n_shared)
    size = n_own * n_shared
    exponential_row(powers, table, powers, table, size, (size + LANES - 1) // LANES * LANES, 0.0)
    _sum_powers(powers, table, message, n_own, n_shared)
    for s in range(n_shared):
        total = powers[message + s]
        tables[message + s] = tables[message + s] + math.log(total) if total > 0.0 else -np.inf
    return tables[message] if shape[step + N_SHARED] == 0 else 0.0


@_message.register(Maxima)
@inner
def _message_of_maxima(semiring, shape, step, work):  # type: ignore
    tables, table, message, n_shared = (
        work.tables,
        shape[step + TABLE],
        shape[step + SUM],
        shape[step + SHARED],
    )
    for s in range(n_shared):
        tables[message + s] = -np.inf
    for r in range(shape[step + OWN]):
        larger_run(tables, message, tables, table + r * n_shared, n_shared)
    return tables[message] if shape[step + N_SHARED] == 0 else 0.0


@inner
def _above(out, o, top, t, a, n):  # type: ignore
    """out[o:][:n] = a[o:][:n] − top[t:][:n], with −inf − (−inf) = −inf."""
    o, t = np.uint64(o), np.uint64(t)
    for j in range(np.uint64(n)):
        out[o + j] = a[o + j] - (top[t + j] if top[t + j] > -np.inf else 0.0)


@inner
def _sum_powers(powers, table, message, n_own, n_shared):  # type: ignore
    zero_run(powers, message, n_shared)
    for r in range(n_own):
        add_run(powers, message, powers, table + r * n_shared, n_shared)


# -- from the root: marginals --------------------------------------------------------------------------


@inner
def distribute(semiring, shape, counts, work):  # type: ignore
    """Compute marginals from the root to the leaves, and write those of the parts to `counts`."""
    first = shape[REST]
    n_parts, n_tables, n_steps = shape[N_PARTS], shape[first + N_TABLES], shape[first + N_STEPS]
    starts = first + TABLES + 3 * n_tables
    marginals = work.marginals
    zero_run(marginals, 0, n_parts)
    for k in range(n_steps - 1, -1, -1):
        step = first + shape[starts + k]
        if shape[step] == MESSAGE:
            if shape[step + N_SHARED] == 0:
                marginals[shape[step + SUM]] = 1.0
            _probabilities(semiring, shape, step, work)
            continue
        n_axes, out = shape[step + N_AXES], shape[step + OUT]
        for side in (A, B):
            target = shape[step + side]
            if target in (out, n_parts):  # computed in place, or the number one
                continue
            strides = step + AXES + (side - A + 1) * n_axes
            if target >= n_parts:
                zero_run(marginals, target, 1 + _reach(shape, step, strides))
            sum_table(shape, step, strides, marginals, out, marginals, target)
    for part in range(n_parts):
        counts[part] = marginals[part]


@chosen_by_type
def _probabilities(semiring, shape, step, work):
    """p(r, s) = p(s) T(r, s) / m(s)."""


@_probabilities.register(Linear)
@inner
def _probabilities_of_sums(semiring, shape, step, work):  # type: ignore
    # p(s) is replaced by p(s) / m(s).
    tables, marginals = work.tables, work.marginals
    table, message, n_shared = shape[step + TABLE], shape[step + SUM], shape[step + SHARED]
    divide_run(marginals, message, tables, message, n_shared, work.divided[shape[step + RANGE]])
    for r in range(shape[step + OWN]):
        row = table + r * n_shared
        times_run(LINEAR, marginals, row, tables, row, marginals, message, n_shared)


@_probabilities.register(Logs)
@inner
def _probabilities_of_logs(semiring, shape, step, work):  # type: ignore
    # p(r, s) = p(s) exp T(r, s) / Σ_r exp T(r, s), which adds up to p(s) even if large scores were rounded.
    tables, marginals = work.tables, work.marginals
    table, message, n_shared = shape[step + TABLE], shape[step + SUM], shape[step + SHARED]
    for s in range(n_shared):  # The message is no longer needed.
        tables[message + s] = marginals[message + s]
    _sum_powers(marginals, table, message, shape[step + OWN], n_shared)
    for s in range(n_shared):
        total = marginals[message + s]
        marginals[message + s] = tables[message + s] / total if total > 0.0 else 0.0
    for r in range(shape[step + OWN]):
        row = table + r * n_shared
        times_run(LINEAR, marginals, row, marginals, row, marginals, message, n_shared)


@inner
def _reach(shape, step, strides):  # type: ignore
    """The last entry of a table with these strides."""
    reach = 0
    for axis in range(shape[step + N_AXES]):
        reach += (shape[step + AXES + axis] - 1) * shape[strides + axis]
    return reach


# -- from the root: labels -----------------------------------------------------------------------------


@inner
def choose_labels(semiring, how, shape, labels, tables, room):  # type: ignore
    """Fill `labels` (V,): the own labels of each clique for fixed labels of the vertices that it shares.

    After ``MAXIMA``, `tables` is the first buffer of the workspace. After ``LOGS``, draws are from the exponentials in
    the second one, which are ``LINEAR``. `room` is the other buffer.
    """
    first, used = shape[REST], 0
    starts = first + TABLES + 3 * shape[first + N_TABLES]
    for k in range(shape[first + N_STEPS] - 1, -1, -1):
        step = first + shape[starts + k]
        if shape[step] != MESSAGE:
            continue
        n_own, n_shared = shape[step + OWN], shape[step + SHARED]
        at, row = shape[step + TABLE] + shared_entry(shape, step, labels), room[shape[step + TABLE] :]
        for r in range(n_own):
            row[r] = tables[at + r * n_shared]
        write_own(shape, step, choose(how, semiring, row, n_own, used), labels)
        used += 1


@inner
def shared_entry(shape, step, labels):  # type: ignore
    """The entry of a clique's message for the labels of its shared vertices."""
    vertices = step + VERTICES + shape[step + N_OWN]
    sizes = HEAD + shape[N_VERTICES]
    entry = 0
    for k in range(shape[step + N_SHARED]):
        v = shape[vertices + k]
        entry = entry * shape[sizes + v] + labels[v]
    return entry


@inner
def write_own(shape, step, entry, labels):  # type: ignore
    """Write the labels of a clique's own vertices for `entry`."""
    sizes = HEAD + shape[N_VERTICES]
    for k in range(shape[step + N_OWN] - 1, -1, -1):
        v = shape[step + VERTICES + k]
        labels[v] = entry % shape[sizes + v]
        entry //= shape[sizes + v]
