# mypy: ignore-errors
"""Rows known only through a kernel function: scores from a table, the scatter through the kernel matrix.

A vector of weights is Σ_t Σ_j b_{t,j} φ(x_t) ⊗ (label j), the sum over all training rows t; its score of row q
is Σ_t k(x_q, x_t) b_{t,j}. While a block of rows is visited, the table of their scores stands in for the weights:
a change of b in one row changes the scores of all rows of the block.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.compiled.dispatch import kernel
from partwise.compiled.rows import scatter_group, score_group


class GramGroup(NamedTuple):
    """Attributes
    ----------
    width, stride : int
        Score entries a row feeds, and the same padded to whole vectors.
    first_weight, n_weights : int
        Where the block's table of scores lies: one padded row for every row of the block.
    row_ptr : ndarray (n_examples + 1,) of int64
        The rows of each example.
    place : ndarray (n_rows,) of int64
        The row of the table that belongs to a row; −1 outside the block.
    gram : ndarray (n_block, n_block)
        k(x_q, x_t) within the block.
    coefficient : ndarray (n_rows · stride,)
        All b, kept up to date.
    """

    width: int
    stride: int
    first_weight: int
    n_weights: int
    row_ptr: np.ndarray
    place: np.ndarray
    gram: np.ndarray
    coefficient: np.ndarray


@score_group.register(GramGroup)
@kernel
def score_from_table(group, example, weights, scale, scores, offset, row_work):  # type: ignore
    for row in range(group.row_ptr[example], group.row_ptr[example + 1]):
        start = group.first_weight + group.place[row] * group.stride
        for j in range(group.width):
            scores[offset + j] = scale * weights[start + j]
        offset += group.width
    return offset


@scatter_group.register(GramGroup)
@kernel
def scatter_through_gram(group, example, weights, scale, delta, offset, threshold, row_work):  # type: ignore
    """‖w + Δ‖² − ‖w‖² = Σ_t Δ_t·(2 s_t + k_tt Δ_t), one row after another, s being up to date."""
    stride, width, gram = group.stride, group.width, group.gram
    growth = 0.0
    for row in range(group.row_ptr[example], group.row_ptr[example + 1]):
        largest = 0.0
        for j in range(width):
            largest = max(largest, abs(delta[offset + j]))
        if largest > threshold:
            place, first = group.place[row], row * stride
            start = group.first_weight + place * stride
            own = gram[place, place]
            for j in range(width):
                change = scale * delta[offset + j]
                row_work[j] = change
                group.coefficient[first + j] += change
                growth += change * (2.0 * weights[start + j] + own * change)
            for q in range(gram.shape[0]):
                similarity, start = gram[place, q], group.first_weight + q * stride
                for j in range(width):
                    weights[start + j] += similarity * row_work[j]
        else:
            for j in range(width):
                delta[offset + j] = 0.0
        offset += width
    return growth, offset
