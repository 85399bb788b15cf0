# mypy: ignore-errors
"""Messages of soft factors: sums over a table.

Let n_v be the incoming logarithms of the vertices of a factor, and θ its table divided by its weight. Then

    m_u(x_u) = log Σ_{x without x_u} exp( θ(x) + Σ_{v ≠ u} n_v(x_v) ),

each up to a constant. Pairs multiply exponentials of their table. If a sum is too small to be accurate, it is
computed again on logarithms.
"""

from __future__ import annotations

import math

import numpy as np

from partwise.compiled.boundary import load_record
from partwise.compiled.dispatch import inner
from partwise.compiled.simd import LANES, combine_rows, exponential_row
from partwise.compiled.simd_log import logarithm_row
from partwise.structures.graphs.messages.workspace import TABLE, FactorWorkspace, table_size

# If a sum is below this, terms that underflowed may matter, and the sum is computed again on logarithms.
_SMALLEST = 1e-250


@inner
def prepare_tables(address):  # type: ignore
    """Exponentials of the tables of pairs, also transposed, in padded rows. Tables of two by two are not padded."""
    work = load_record(FactorWorkspace, address)
    sizes, tables, logs = work.sizes, work.tables, work.logs
    for f in range(sizes[1]):
        s = work.slot[f]
        if work.code[f] != TABLE or work.slot[f + 1] - s != 2:
            continue
        rows, columns = work.message[s + 1] - work.message[s], work.message[s + 2] - work.message[s + 1]
        inverse, place, at, top = 1.0 / work.weight[f], work.place[f], work.exponential_at[f], -np.inf
        for j in range(rows * columns):
            top = max(top, logs[place + j])
        top = max(top, -1e300)  # If all entries are −inf, avoid −inf minus −inf.
        if rows == 2 and columns == 2:
            for j in range(4):
                tables[at + j] = math.exp((logs[place + j] - top) * inverse)
            continue
        wide, high = (columns + LANES - 1) & ~(LANES - 1), (rows + LANES - 1) & ~(LANES - 1)
        for j in range(rows * wide + columns * high):
            tables[at + j] = 0.0
        for x in range(rows):
            for y in range(columns):
                entry = math.exp((logs[place + x * columns + y] - top) * inverse)
                tables[at + x * wide + y] = entry
                tables[at + rows * wide + y * high + x] = entry


@inner
def pair_outgoing(  # type: ignore
    rows, columns, top, other, at, logs, place, inverse, tables, incoming, outgoing, exponents, sums
):
    """Fill outgoing[:rows] and outgoing[rows:][:columns] from the same entries of `incoming`.

    `top` and `other` are the largest entries of the two parts of `incoming`.
    """
    wide, high = (columns + LANES - 1) & ~(LANES - 1), (rows + LANES - 1) & ~(LANES - 1)
    exponential_row(exponents, 0, incoming, 0, rows, high, top)
    exponential_row(exponents, high, incoming, rows, columns, wide, other)
    combine_rows(sums, 0, exponents, high, 1, columns, tables, at + rows * wide, high)
    combine_rows(sums, high, exponents, 0, 1, rows, tables, at, wide)
    least = np.inf
    for x in range(rows):
        least = min(least, sums[x])
    for y in range(columns):
        least = min(least, sums[high + y])
    if least > _SMALLEST:
        logarithm_row(exponents, 0, sums, 0, high + wide)
        for x in range(rows):
            outgoing[x] = exponents[x]
        for y in range(columns):
            outgoing[rows + y] = exponents[high + y]
    else:
        pair_in_logs(rows, columns, logs, place, inverse, incoming, outgoing)


@inner
def visit_pair(  # type: ignore
    u, v, at_u, at_v, rows, columns, tables, at, logs, place, weight, step, beliefs, messages,
    incoming, outgoing, exponents, sums,
):  # fmt: skip
    """Update the messages and beliefs of a pair. Returns the largest change, inf if a state became impossible."""
    top, other = -np.inf, -np.inf
    for x in range(rows):
        value = beliefs[u + x] - messages[at_u + x]
        incoming[x] = value
        top = max(top, value)
    for y in range(columns):
        value = beliefs[v + y] - messages[at_v + y]
        incoming[rows + y] = value
        other = max(other, value)
    pair_outgoing(
        rows, columns, top, other, at, logs, place, 1.0 / weight, tables, incoming, outgoing, exponents, sums
    )
    change = renew_slot(u, at_u, rows, outgoing, 0, weight, step, beliefs, messages)
    return max(change, renew_slot(v, at_v, columns, outgoing, rows, weight, step, beliefs, messages))


@inner
def renew_slot(first, at, n, outgoing, out_at, weight, step, beliefs, messages):  # type: ignore
    """Move a message towards its new value. Returns the largest change, inf if a state became impossible."""
    top, change = -np.inf, 0.0
    for x in range(n):
        if beliefs[first + x] > -np.inf:
            top = max(top, outgoing[out_at + x])
    for x in range(n):
        belief, new = beliefs[first + x], outgoing[out_at + x] - top
        if belief == -np.inf:
            continue
        if new > -np.inf:
            wanted = new - messages[at + x]
            messages[at + x] += step * wanted
            beliefs[first + x] = belief + weight * step * wanted
            change = max(change, abs(wanted))
        else:
            beliefs[first + x] = -np.inf
            change = np.inf
    return change


@inner
def pair_in_logs(rows, columns, logs, place, inverse, incoming, outgoing):  # type: ignore
    """Fill `outgoing` as :func:`pair_outgoing` does, entry by entry on logarithms."""
    for x in range(rows):
        top, total, row = -np.inf, 0.0, place + x * columns
        for y in range(columns):
            top = max(top, logs[row + y] * inverse + incoming[rows + y])
        if top > -np.inf:
            for y in range(columns):
                total += math.exp(logs[row + y] * inverse + incoming[rows + y] - top)
            top += math.log(total)
        outgoing[x] = top
    for y in range(columns):
        top, total = -np.inf, 0.0
        for x in range(rows):
            top = max(top, logs[place + x * columns + y] * inverse + incoming[x])
        if top > -np.inf:
            for x in range(rows):
                total += math.exp(logs[place + x * columns + y] * inverse + incoming[x] - top)
            top += math.log(total)
        outgoing[rows + y] = top


@inner
def visit_square(u, v, at_u, at_v, tables, at, weight, step, beliefs, messages):  # type: ignore
    """Update a pair of vertices with two states each, with one exponential and one logarithm per message.

    Returns the largest change. Returns −1 and changes nothing if the numbers are too far apart for this.
    """
    a = (beliefs[u + 1] - messages[at_u + 1]) - (beliefs[u] - messages[at_u])
    b = (beliefs[v + 1] - messages[at_v + 1]) - (beliefs[v] - messages[at_v])
    e, g = math.exp(-abs(a)), math.exp(-abs(b))
    e0, e1 = (e, 1.0) if a > 0.0 else (1.0, e)
    g0, g1 = (g, 1.0) if b > 0.0 else (1.0, g)
    t00, t01, t10, t11 = tables[at], tables[at + 1], tables[at + 2], tables[at + 3]
    u0, u1 = t00 * g0 + t01 * g1, t10 * g0 + t11 * g1
    v0, v1 = t00 * e0 + t10 * e1, t01 * e0 + t11 * e1
    if not (min(min(u0, u1), min(v0, v1)) > _SMALLEST and abs(a) < np.inf and abs(b) < np.inf):
        return -1.0
    to_u, to_v = math.log(u1 / u0) - messages[at_u + 1], math.log(v1 / v0) - messages[at_v + 1]
    from_u, from_v = -messages[at_u], -messages[at_v]  # messages to the first state are 0
    messages[at_u] += step * from_u
    messages[at_u + 1] += step * to_u
    messages[at_v] += step * from_v
    messages[at_v + 1] += step * to_v
    beliefs[u] += weight * step * from_u
    beliefs[u + 1] += weight * step * to_u
    beliefs[v] += weight * step * from_v
    beliefs[v + 1] += weight * step * to_v
    return max(max(abs(to_u), abs(to_v)), max(abs(from_u), abs(from_v)))


@inner
def table_outgoing(f, slot, message, logs, place, inverse, incoming, outgoing, sums):  # type: ignore
    """Messages of any table, on logarithms: one round for the largest term of every state, one for the sum."""
    first, last = slot[f], slot[f + 1]
    base, width = message[first], message[last] - message[first]
    for j in range(width):
        outgoing[j], sums[j] = -np.inf, 0.0
    size = table_size(f, slot, message)
    for rounds in range(2):
        for entry in range(size):
            total, left = logs[place + entry] * inverse, entry
            for s in range(last - 1, first - 1, -1):
                n = message[s + 1] - message[s]
                total += incoming[message[s] - base + left % n]
                left //= n
            if total == -np.inf:
                continue
            left = entry
            for s in range(last - 1, first - 1, -1):
                n = message[s + 1] - message[s]
                j = message[s] - base + left % n
                left //= n
                if rounds == 0:
                    outgoing[j] = max(outgoing[j], total)
                else:
                    sums[j] += math.exp(total - outgoing[j])
    for j in range(width):
        # A message must not contain the incoming message of its own slot.
        outgoing[j] = outgoing[j] + math.log(sums[j]) - incoming[j] if outgoing[j] > -np.inf else -np.inf


@inner
def table_total(f, slot, message, logs, place, inverse, incoming):  # type: ignore
    """log Σ_x exp( θ(x) + Σ_v n_v(x_v) )."""
    first, last = slot[f], slot[f + 1]
    base, size, top, total = message[first], table_size(f, slot, message), -np.inf, 0.0
    for rounds in range(2):
        for entry in range(size):
            value, left = logs[place + entry] * inverse, entry
            for s in range(last - 1, first - 1, -1):
                n = message[s + 1] - message[s]
                value += incoming[message[s] - base + left % n]
                left //= n
            if rounds == 0:
                top = max(top, value)
            elif value > -np.inf:
                total += math.exp(value - top)
        if top == -np.inf:
            return top
    return top + math.log(total)


@inner
def belief_logs(f, values, address):  # type: ignore
    """Fill `values` with θ(x) + Σ_v n_v(x_v) of ``work.incoming``. Returns the number of entries."""
    work = load_record(FactorWorkspace, address)
    first, last, inverse, place = work.slot[f], work.slot[f + 1], 1.0 / work.weight[f], work.place[f]
    base, size = work.message[first], table_size(f, work.slot, work.message)
    for entry in range(size):
        value, left = work.logs[place + entry] * inverse, entry
        for s in range(last - 1, first - 1, -1):
            n = work.message[s + 1] - work.message[s]
            value += work.incoming[work.message[s] - base + left % n]
            left //= n
        values[entry] = value
    return size
