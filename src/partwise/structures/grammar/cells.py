# mypy: ignore-errors
"""Where the cells of charts and the parts of an example lie.

An example's shape is ``[n, m, first, last, first, last, …]``: n words, then the m spans of two or more words that may
be constituents, in order of length and first word. Its rows of kind "span" are the n words, then those m.

If anchored rules are parts, the shape goes on with the list of those that derivations may use: n + m + 1 offsets, by
row of kind "span", and two numbers for each anchored rule. The first is the rank of the rule: binary rules in the order
of ``by_parent``, then unary rules in the order of ``unary_by_parent``. The second is the last word of the left node; of
the only node for unary rules. The anchored rules of a row are in ascending order.
"""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import inner


@inner
def cell_of(n, i, j):  # type: ignore
    """The cell of the words i … j."""
    return i * n - (i * (i - 1)) // 2 + j - i


@inner
def span_width(s):  # type: ignore
    """Parts of a row of kind "span"."""
    return s.binary_symbol.size + s.unary_symbol.size


@inner
def span_part(s, n, row):  # type: ignore
    """The first part of a row of kind "span"."""
    return n * s.word_symbol.size + row * span_width(s)


@inner
def split_part(s, shape):  # type: ignore
    """The first part of kind "split"."""
    return span_part(s, np.int64(shape[0]), np.int64(shape[0]) + shape[1])


@inner
def first_split(s, shape, row):  # type: ignore
    """The first part of the splits of a row of kind "span" with two or more words."""
    at = split_part(s, shape)
    if s.has_splits:
        for k in range(row - shape[0]):
            at += shape[2 * k + 3] - shape[2 * k + 2]
    return at


@inner
def anchored_part(s, shape):  # type: ignore
    """The first part of the anchored rules."""
    return first_split(s, shape, np.int64(shape[0]) + shape[1])


@inner
def first_anchored(shape, row):  # type: ignore
    """The first anchored rule of a row of kind "span", in the order of the example's list."""
    return np.int64(shape[2 + 2 * np.int64(shape[1]) + row])


@inner
def n_anchored(s, shape):  # type: ignore
    """The number of anchored rules of an example."""
    return first_anchored(shape, np.int64(shape[0]) + shape[1]) if s.is_anchored else 0


@inner
def _anchored_at(shape, e):  # type: ignore
    return 3 + np.int64(shape[0]) + 3 * np.int64(shape[1]) + 2 * e


@inner
def rank_of(shape, e):  # type: ignore
    """The rank of the rule of an anchored rule."""
    return np.int64(shape[_anchored_at(shape, e)])


@inner
def cut_of(shape, e):  # type: ignore
    """The last word of the left node of an anchored rule."""
    return np.int64(shape[_anchored_at(shape, e) + 1])


@inner
def find_rank(shape, row, least):  # type: ignore
    """The first anchored rule of a row whose rank is at least `least`."""
    low, high = first_anchored(shape, row), first_anchored(shape, row + 1)
    while low < high:
        middle = (low + high) // 2
        if rank_of(shape, middle) < least:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def rule_part(s, shape):  # type: ignore
    """The first part of the rules."""
    return anchored_part(s, shape) + n_anchored(s, shape)


@inner
def find_rows(s, shape, work):  # type: ignore
    """Fill ``work.row_of``; returns the number of words."""
    n = np.int64(shape[0])
    for cell in range(n * (n + 1) // 2):
        work.row_of[cell] = -1
    for i in range(n):
        work.row_of[cell_of(n, i, i)] = i
    for k in range(shape[1]):
        work.row_of[cell_of(n, np.int64(shape[2 * k + 2]), np.int64(shape[2 * k + 3]))] = n + k
    return n
