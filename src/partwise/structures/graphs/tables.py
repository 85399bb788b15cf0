# mypy: ignore-errors
"""Products and sums of tables in a buffer, as the steps of ``programme.py`` say.

A step has a list of axes, outermost first, with a size and a stride for every table; a stride of zero repeats an
entry (in a product) or sums over the axis. The two inner axes are loops, the others are counted through.
"""

from __future__ import annotations

from partwise.compiled.dispatch import inner

# Places in a PRODUCT step.
OUT, A, B, RANGE_A, RANGE_B, N_AXES, AXES = range(1, 8)
# Places in a MESSAGE step.
TABLE, SUM, OWN, SHARED, RANGE, N_OWN, N_SHARED, VERTICES = range(1, 9)


@inner
def multiply_run(out, o, a, i, b, k, n):  # type: ignore
    """out[o:][:n] = a[i:][:n] · b[k:][:n], four at a time: loads before stores need no proof that nothing overlaps."""
    whole = n - n % 4
    for j in range(0, whole, 4):
        x0, x1, x2, x3 = (
            a[i + j] * b[k + j],
            a[i + j + 1] * b[k + j + 1],
            a[i + j + 2] * b[k + j + 2],
            a[i + j + 3] * b[k + j + 3],
        )
        out[o + j] = x0
        out[o + j + 1] = x1
        out[o + j + 2] = x2
        out[o + j + 3] = x3
    for j in range(whole, n):
        out[o + j] = a[i + j] * b[k + j]


@inner
def scale_run(out, o, a, i, factor, n):  # type: ignore
    """out[o:][:n] = a[i:][:n] · factor."""
    whole = n - n % 4
    for j in range(0, whole, 4):
        x0, x1 = a[i + j] * factor, a[i + j + 1] * factor
        x2, x3 = a[i + j + 2] * factor, a[i + j + 3] * factor
        out[o + j] = x0
        out[o + j + 1] = x1
        out[o + j + 2] = x2
        out[o + j + 3] = x3
    for j in range(whole, n):
        out[o + j] = a[i + j] * factor


@inner
def add_run(out, o, a, i, n):  # type: ignore
    """out[o:][:n] += a[i:][:n]."""
    whole = n - n % 4
    for j in range(0, whole, 4):
        x0, x1 = out[o + j] + a[i + j], out[o + j + 1] + a[i + j + 1]
        x2, x3 = out[o + j + 2] + a[i + j + 2], out[o + j + 3] + a[i + j + 3]
        out[o + j] = x0
        out[o + j + 1] = x1
        out[o + j + 2] = x2
        out[o + j + 3] = x3
    for j in range(whole, n):
        out[o + j] += a[i + j]


@inner
def _blocks(shape, sizes, n_axes):  # type: ignore
    """How often the two inner loops run."""
    blocks = 1
    for axis in range(n_axes - 2):
        blocks *= shape[sizes + axis]
    return blocks


@inner
def _place(shape, sizes, strides, n_axes, block):  # type: ignore
    """Where a table is when the outer axes stand at `block`."""
    place, rest = 0, block
    for axis in range(n_axes - 3, -1, -1):
        size = shape[sizes + axis]
        place += rest % size * shape[strides + axis]
        rest //= size
    return place


@inner
def multiply_tables(shape, step, tables):  # type: ignore
    """out(x, y, z) = a(x, y) · b(y, z)."""
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
                multiply_run(tables, out, tables, a, tables, b, n)
                out, a, b = out + n, a + ma, b + mb
        elif da == 1 and db == 0:
            for _ in range(m):
                scale_run(tables, out, tables, a, tables[b], n)
                out, a, b = out + n, a + ma, b + mb
        elif da == 0 and db == 1:
            for _ in range(m):
                scale_run(tables, out, tables, b, tables[a], n)
                out, a, b = out + n, a + ma, b + mb
        else:
            for _ in range(m):
                for j in range(n):
                    tables[out + j] = tables[a + j * da] * tables[b + j * db]
                out, a, b = out + n, a + ma, b + mb


@inner
def add_tables(shape, step, tables):  # type: ignore
    """The product on logarithms: out(x, y, z) = a(x, y) + b(y, z)."""
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
        for _ in range(m):
            for j in range(n):
                tables[out + j] = tables[a + j * da] + tables[b + j * db]
            out += n
            a += ma
            b += mb


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
                total = 0.0
                for j in range(n):
                    total += source[at + j]
                target[out] += total
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
