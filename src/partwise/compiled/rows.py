# mypy: ignore-errors
"""The feature map in compiled code: scores of an example's rows, and the scatter that undoes it.

Both are generic over the group of rows: explicit attributes here, kernel functions in `gram_group.py`.

A row (a token, an edge, an instance) has attributes; each feeds `width` consecutive score entries.
Weights of an attribute lie in one of two ways: *wide*, a padded row with one entry per label (a mask
keeps pairs that were never observed at zero), or *narrow*, a short list of observed labels. Frequent
attributes are wide and go through vector loops; rare ones, most of the vocabulary, stay compact.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from partwise.compiled.dispatch import fragment, kernel, structure_kernel
from partwise.compiled.simd import (
    combine_rows,
    gather_rows,
    gather_scaled_rows,
    scatter_masked_rows,
    scatter_rows,
    scatter_scaled_masked_rows,
    scatter_scaled_rows,
)


class RowGroup(NamedTuple):
    """Rows that feed blocks of one width; weight indices count from `first_weight`.

    Attributes
    ----------
    width, stride : int
        Score entries a row feeds, and the same padded to whole vectors; a width of 1 is not padded.
    first_weight, n_weights : int
        The group's slice of the weight vector.
    row_ptr : ndarray (n_examples + 1,) of int64
        The rows of each example.
    wide_ptr, narrow_ptr : ndarray (n_rows + 1,) of int64
        The entries of each row in the arrays below.
    wide_start, narrow_start, narrow_count : ndarray of int32
        Where an attribute's weights begin, and how many a narrow one has.
    wide_value, narrow_value : ndarray of float32
        Feature values; empty when all are one.
    narrow_label : ndarray of int32
        Label of each narrow weight, counted from `narrow_first`.
    mask : ndarray of float32
        1 where a wide weight exists, 0 where it must stay zero; empty when all exist.
    dense : ndarray (n_rows, n_dense) of float32
        Attributes every row has; their wide weights come first.
    dense_start : ndarray (n_dense,) of int32
        Where they begin.
    """

    width: int
    stride: int
    first_weight: int
    n_weights: int
    row_ptr: np.ndarray
    wide_ptr: np.ndarray
    wide_start: np.ndarray
    wide_value: np.ndarray
    narrow_ptr: np.ndarray
    narrow_start: np.ndarray
    narrow_count: np.ndarray
    narrow_value: np.ndarray
    narrow_first: int
    narrow_label: np.ndarray
    mask: np.ndarray
    dense: np.ndarray
    dense_start: np.ndarray


@structure_kernel
def score_group(
    group: Any,
    example: int,
    weights: np.ndarray,
    scale: float,
    scores: np.ndarray,
    offset: int,
    row_work: np.ndarray,
) -> int:
    """Write the scores of the example's rows from `offset` on; returns the entry behind them."""
    raise TypeError


@structure_kernel
def scatter_group(
    group: Any,
    example: int,
    weights: np.ndarray,
    scale: float,
    delta: np.ndarray,
    offset: int,
    threshold: float,
    row_work: np.ndarray,
) -> tuple[float, int]:
    """Add scale · delta through the example's rows; returns the growth of ‖weights‖² and the next entry.

    Rows that moved less than `threshold` are left out and their part of `delta` set to zero, so that
    the caller keeps their old marginals and the movement is not lost but waits.
    """
    raise TypeError


@fragment
def _score_row(group, row, weights, out):  # type: ignore
    """Sum of the row's weights by label into the padded row `out`."""
    n_dense = group.dense_start.size
    if n_dense > 0:
        combine_rows(out, 0, group.dense[row], 0, 1, n_dense, weights, 0, group.stride)
    else:
        for j in range(group.stride):
            out[j] = 0
    first, last = group.wide_ptr[row], group.wide_ptr[row + 1]
    if group.wide_value.size > 0:
        gather_scaled_rows(out, group.wide_start, group.wide_value, first, last, weights, group.stride)
    else:
        gather_rows(out, group.wide_start, group.wide_value, first, last, weights, group.stride)
    scaled = group.narrow_value.size > 0
    for k in range(group.narrow_ptr[row], group.narrow_ptr[row + 1]):
        start = group.narrow_start[k]
        value = group.narrow_value[k] if scaled else np.float32(1.0)
        for w in range(start, start + group.narrow_count[k]):
            out[group.narrow_label[w - group.narrow_first]] += value * weights[w]


@fragment
def _score_single(group, row, weights):  # type: ignore
    """The score of a row that feeds one entry: its attributes have one weight each, all of them wide."""
    total = 0.0
    for d in range(group.dense_start.size):
        total += group.dense[row, d] * weights[group.dense_start[d]]
    first, last = group.wide_ptr[row], group.wide_ptr[row + 1]
    if group.wide_value.size > 0:
        for k in range(first, last):
            total += group.wide_value[k] * weights[group.wide_start[k]]
    else:
        for k in range(first, last):
            total += weights[group.wide_start[k]]
    return total


@score_group.register(RowGroup)
@kernel
def score_rows(group, example, weights, scale, scores, offset, row_work):  # type: ignore
    own = weights[group.first_weight : group.first_weight + group.n_weights]
    if group.stride == 1:
        for row in range(group.row_ptr[example], group.row_ptr[example + 1]):
            scores[offset] = scale * _score_single(group, row, own)
            offset += 1
        return offset
    for row in range(group.row_ptr[example], group.row_ptr[example + 1]):
        _score_row(group, row, own, row_work)
        for j in range(group.width):
            scores[offset + j] = scale * row_work[j]
        offset += group.width
    return offset


@fragment
def _scatter_row(group, row, weights, delta):  # type: ignore
    """Add the padded row `delta` to the weights of every attribute; returns the growth of ‖weights‖²."""
    growth = 0.0
    stride, mask = group.stride, group.mask
    if group.dense_start.size > 0:
        growth += scatter_scaled_rows(
            weights, group.dense_start, group.dense[row], 0, group.dense_start.size, delta, mask, stride
        )
    start, value = group.wide_start, group.wide_value
    first, last = group.wide_ptr[row], group.wide_ptr[row + 1]
    if mask.size > 0:
        if value.size > 0:
            growth += scatter_scaled_masked_rows(weights, start, value, first, last, delta, mask, stride)
        else:
            growth += scatter_masked_rows(weights, start, value, first, last, delta, mask, stride)
    elif value.size > 0:
        growth += scatter_scaled_rows(weights, start, value, first, last, delta, mask, stride)
    else:
        growth += scatter_rows(weights, start, value, first, last, delta, mask, stride)
    scaled = group.narrow_value.size > 0
    for k in range(group.narrow_ptr[row], group.narrow_ptr[row + 1]):
        start_of_list = group.narrow_start[k]
        value_here = group.narrow_value[k] if scaled else np.float32(1.0)
        for w in range(start_of_list, start_of_list + group.narrow_count[k]):
            change = value_here * delta[group.narrow_label[w - group.narrow_first]]
            old = weights[w]
            weights[w] = old + change
            growth += change * (old + old + change)
    return growth


@fragment
def _scatter_single(group, row, weights, delta):  # type: ignore
    """Add `delta` to the one weight of every attribute of a row; returns the growth of ‖weights‖²."""
    growth = 0.0
    for d in range(group.dense_start.size):
        old, change = weights[group.dense_start[d]], group.dense[row, d] * delta
        weights[group.dense_start[d]] = old + change
        growth += change * (old + old + change)
    scaled = group.wide_value.size > 0
    for k in range(group.wide_ptr[row], group.wide_ptr[row + 1]):
        old, change = weights[group.wide_start[k]], delta
        if scaled:
            change = group.wide_value[k] * delta
        weights[group.wide_start[k]] = old + change
        growth += change * (old + old + change)
    return growth


@scatter_group.register(RowGroup)
@kernel
def scatter_through_rows(group, example, weights, scale, delta, offset, threshold, row_work):  # type: ignore
    own = weights[group.first_weight : group.first_weight + group.n_weights]
    growth = 0.0
    if group.stride == 1:
        for row in range(group.row_ptr[example], group.row_ptr[example + 1]):
            if abs(delta[offset]) > threshold:
                growth += _scatter_single(group, row, own, scale * delta[offset])
            else:
                delta[offset] = 0.0
            offset += 1
        return growth, offset
    for row in range(group.row_ptr[example], group.row_ptr[example + 1]):
        largest = 0.0
        for j in range(group.width):
            largest = max(largest, abs(delta[offset + j]))
        if largest > threshold:
            for j in range(group.width):
                row_work[j] = scale * delta[offset + j]
            for j in range(group.width, group.stride):
                row_work[j] = 0
            growth += _scatter_row(group, row, own, row_work)
        else:
            for j in range(group.width):
                delta[offset + j] = 0.0
        offset += group.width
    return growth, offset
