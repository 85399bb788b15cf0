# mypy: ignore-errors
"""Products and sums of tables in a buffer: the steps of `programme.py`.

A step has a list of axes, outermost first, with a size and a stride for every table. A stride of zero repeats an entry
(in a product) or sums over the axis. The two innermost axes are loops. The others are enumerated.
"""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import inner
from partwise.structures.semirings import times

# Entries of a PRODUCT step.
OUT, A, B, RANGE_A, RANGE_B, N_AXES, AXES = range(1, 8)
# Entries of a MESSAGE step.
TABLE, SUM, OWN, SHARED, RANGE, N_OWN, N_SHARED, VERTICES = range(1, 9)


# Indices below are unsigned: loops over signed indices, which may count from the end, are not vectorised.


@inner
def times_run(semiring, out, o, a, i, b, k, n):  # type: ignore
    """out[o:][:n] = a[i:][:n] times b[k:][:n]."""
    o, i, k = np.uint64(o), np.uint64(i), np.uint64(k)
    for j in range(np.uint64(n)):
        out[o + j] = times(semiring, a[i + j], b[k + j])


@inner
def times_number(semiring, out, o, a, i, number, n):  # type: ignore
    """out[o:][:n] = a[i:][:n] times number."""
    o, i = np.uint64(o), np.uint64(i)
    for j in range(np.uint64(n)):
        out[o + j] = times(semiring, a[i + j], number)


@inner
def add_run(out, o, a, i, n):  # type: ignore
    """out[o:][:n] += a[i:][:n]."""
    o, i = np.uint64(o), np.uint64(i)
    for j in range(np.uint64(n)):
        out[o + j] += a[i + j]


@inner
def larger_run(out, o, a, i, n):  # type: ignore
    """out[o:][:n] = the larger of itself and a[i:][:n]."""
    o, i = np.uint64(o), np.uint64(i)
    for j in range(np.uint64(n)):
        out[o + j] = a[i + j] if a[i + j] > out[o + j] else out[o + j]


@inner
def zero_run(out, o, n):  # type: ignore
    """out[o:][:n] = 0."""
    o = np.uint64(o)
    for j in range(np.uint64(n)):
        out[o + j] = 0.0


@inner
def divide_run(out, o, a, i, n, factor):  # type: ignore
    """out[o:][:n] /= factor · a[i:][:n], with 0 / 0 = 0."""
    o, i = np.uint64(o), np.uint64(i)
    for j in range(np.uint64(n)):
        divisor = a[i + j] * factor
        out[o + j] = out[o + j] / divisor if divisor > 0.0 else 0.0


@inner
def least_run(a, i, n):  # type: ignore
    """The smallest positive entry of a[i:][:n], inf if there is none."""
    i, least = np.uint64(i), np.inf
    for j in range(np.uint64(n)):
        x = a[i + j]
        least = x if x > 0.0 and x < least else least
    return least


@inner
def sum_run(a, i, n):  # type: ignore
    """Σ a[i:][:n]."""
    i, total = np.uint64(i), 0.0
    for j in range(np.uint64(n)):
        total += a[i + j]
    return total


@inner
def _blocks(shape, sizes, n_axes):  # type: ignore
    """The number of blocks: products of the sizes of all axes but the two innermost."""
    blocks = 1
    for axis in range(n_axes - 2):
        blocks *= shape[sizes + axis]
    return blocks


@inner
def _place(shape, sizes, strides, n_axes, block):  # type: ignore
    """The first entry of `block` in a table."""
    place, rest = 0, block
    for axis in range(n_axes - 3, -1, -1):
        size = shape[sizes + axis]
        place += rest % size * shape[strides + axis]
        rest //= size
    return place


@inner
def multiply_tables(semiring, shape, step, tables):  # type: ignore
    """out(x, y, z) = a(x, y) times b(y, z)."""
    n_axes = shape[step + N_AXES]
    sizes, own, other = step + AXES, step + AXES + n_axes, step + AXES + 2 * n_axes
    last = n_axes - 1
    n, da, db = shape[sizes + last], shape[own + last], shape[other + last]
    m, ma, mb = 1, 0, 0
    if n_axes > 1:
        m, ma, mb = shape[sizes + last - 1], shape[own + last - 1], shape[other + last - 1]
    out = shape[step + OUT]
    for block in range(_blocks(shape, sizes, n_axes)):
        a = shape[step + A] + _place(shape, sizes, own, n_axes, block)
        b = shape[step + B] + _place(shape, sizes, other, n_axes, block)
        if da == 1 and db == 1:
            for _ in range(m):
                times_run(semiring, tables, out, tables, a, tables, b, n)
                out, a, b = out + n, a + ma, b + mb
        elif da == 1 and db == 0:
            for _ in range(m):
                times_number(semiring, tables, out, tables, a, tables[b], n)
                out, a, b = out + n, a + ma, b + mb
        elif da == 0 and db == 1:
            for _ in range(m):
                times_number(semiring, tables, out, tables, b, tables[a], n)
                out, a, b = out + n, a + ma, b + mb
        else:
            for _ in range(m):
                for j in range(n):
                    tables[out + j] = times(semiring, tables[a + j * da], tables[b + j * db])
                out, a, b = out + n, a + ma, b + mb


@inner
def sum_table(shape, step, strides, source, first, target, start):  # type: ignore
    """target(y) += Σ_x source(x, y), over the axes of a PRODUCT step whose `strides` in the target are zero."""
    n_axes = shape[step + N_AXES]
    sizes, last = step + AXES, n_axes - 1
    n, dn = shape[sizes + last], shape[strides + last]
    m, dm = 1, 0
    if n_axes > 1:
        m, dm = shape[sizes + last - 1], shape[strides + last - 1]
    at = first
    for block in range(_blocks(shape, sizes, n_axes)):
        out = start + _place(shape, sizes, strides, n_axes, block)
        if dn == 0:
            for _ in range(m):
                target[out] += sum_run(source, at, n)
                at, out = at + n, out + dm
        elif dn == 1:
            for _ in range(m):
                add_run(target, out, source, at, n)
                at, out = at + n, out + dm
        else:
            for _ in range(m):
                for j in range(n):
                    target[out + j * dn] += source[at + j]
                at, out = at + n, out + dm
