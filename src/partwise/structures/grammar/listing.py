# mypy: ignore-errors
"""Which anchored rules the derivations of a sentence can use, given the symbols that may stand over each span."""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import entry, inner
from partwise.structures.grammar.cells import cell_of


@inner
def _fill_rows(shape, row_of):  # type: ignore
    n = np.int64(shape[0])
    for cell in range(n * (n + 1) // 2):
        row_of[cell] = -1
    for i in range(n):
        row_of[cell_of(n, i, i)] = i
    for k in range(shape[1]):
        row_of[cell_of(n, np.int64(shape[2 * k + 2]), np.int64(shape[2 * k + 3]))] = n + k
    return n


@inner
def _words_of_row(shape, n, row):  # type: ignore
    """The first and the last word of a row of kind "span"."""
    if row < n:
        return row, row
    return np.int64(shape[2 * (row - n) + 2]), np.int64(shape[2 * (row - n) + 3])


@inner
def _stands(s, built, unary, row, a):  # type: ignore
    """Whether a symbol may stand over a row, whatever builds it."""
    return row >= 0 and built[row * s.n_symbols + a] + unary[row * s.n_symbols + a] > 0


@inner
def _fits(s, n, k, i, m, j, built, unary, row_of):  # type: ignore
    """Whether both children of the binary rule of rank `k` may stand there."""
    p = s.pair_of[s.by_parent[k]]
    left, right = row_of[cell_of(n, i, m)], row_of[cell_of(n, m + 1, j)]
    return _stands(s, built, unary, left, s.pair_left[p]) and _stands(s, built, unary, right, s.pair_right[p])


@inner
def _can_be_built(s, n, a, i, j, built, unary, row_of):  # type: ignore
    for k in range(s.parent_ptr[a], s.parent_ptr[a + 1]):
        for m in range(i, j):
            if _fits(s, n, k, i, m, j, built, unary, row_of):
                return True
    return False


@inner
def _close_upwards(s, shape, n, n_rows, built, unary, row_of):  # type: ignore
    """Leave symbols that have a derivation of their own words."""
    for row in range(n_rows):
        i, j = _words_of_row(shape, n, row)
        at = row * s.n_symbols
        for a in range(s.n_symbols):
            if row >= n and built[at + a] != 0:
                built[at + a] = 1 if _can_be_built(s, n, a, i, j, built, unary, row_of) else 0
        for a in range(s.n_symbols):
            possible = False
            for k in range(s.unary_ptr[a], s.unary_ptr[a + 1]):
                possible = possible or built[at + s.unary_child[s.unary_by_parent[k]]] != 0
            if not possible:
                unary[at + a] = 0


@inner
def _need(s, row, a, built, unary, needs_built, needs_unary):  # type: ignore
    """Mark a symbol over a row as used by some derivation, in each way that it may be built."""
    at = row * s.n_symbols + a
    needs_built[at] |= built[at]
    needs_unary[at] |= unary[at]


@inner
def _close_downwards(s, shape, n, n_rows, built, unary, needs_built, needs_unary, row_of):  # type: ignore
    """Mark what derivations of the whole sentence use."""
    whole = row_of[cell_of(n, 0, n - 1)]
    if whole >= 0:
        _need(s, whole, s.root, built, unary, needs_built, needs_unary)
    for row in range(n_rows - 1, -1, -1):
        i, j = _words_of_row(shape, n, row)
        at = row * s.n_symbols
        for a in range(s.n_symbols):
            if needs_unary[at + a] != 0:
                for k in range(s.unary_ptr[a], s.unary_ptr[a + 1]):
                    b = at + s.unary_child[s.unary_by_parent[k]]
                    needs_built[b] |= built[b]
        for a in range(s.n_symbols):
            if row >= n and needs_built[at + a] != 0:
                for k in range(s.parent_ptr[a], s.parent_ptr[a + 1]):
                    p = s.pair_of[s.by_parent[k]]
                    for m in range(i, j):
                        if _fits(s, n, k, i, m, j, built, unary, row_of):
                            left, right = row_of[cell_of(n, i, m)], row_of[cell_of(n, m + 1, j)]
                            _need(s, left, s.pair_left[p], built, unary, needs_built, needs_unary)
                            _need(s, right, s.pair_right[p], built, unary, needs_built, needs_unary)


@inner
def _write(out, at, e, rank, cut):  # type: ignore
    if out.size > 0:
        out[at + 2 * e], out[at + 2 * e + 1] = rank, cut
    return e + 1


@entry
def list_rules(s, shape, built, unary, needs_built, needs_unary, row_of, out):  # type: ignore
    """The number of anchored rules that derivations use; they and the rows' offsets are written unless `out` is empty.

    `built` and `unary` (n_rows · n_symbols,) of uint8 say which symbols may stand over a row: without a unary rule on
    top, and built by one. `needs_built` and `needs_unary` are zero at the first call. All are changed.
    """
    n = _fill_rows(shape, row_of)
    n_rows, e = n + shape[1], 0
    if out.size == 0:
        _close_upwards(s, shape, n, n_rows, built, unary, row_of)
        _close_downwards(s, shape, n, n_rows, built, unary, needs_built, needs_unary, row_of)
    for row in range(n_rows):
        if out.size > 0:
            out[row] = e
        i, j = _words_of_row(shape, n, row)
        at = row * s.n_symbols
        for a in range(s.n_symbols):
            if row >= n and needs_built[at + a] != 0:
                for k in range(s.parent_ptr[a], s.parent_ptr[a + 1]):
                    for m in range(i, j):
                        if _fits(s, n, k, i, m, j, built, unary, row_of):
                            e = _write(out, n_rows + 1, e, k, m)
        for a in range(s.n_symbols):
            if needs_unary[at + a] != 0:
                for k in range(s.unary_ptr[a], s.unary_ptr[a + 1]):
                    if built[at + s.unary_child[s.unary_by_parent[k]]] != 0:
                        e = _write(out, n_rows + 1, e, s.rule.size + k, j)
    if out.size > 0:
        out[n_rows] = e
    return e
