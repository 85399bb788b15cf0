# mypy: ignore-errors
"""Changes of an example's parts, added to the weights of its rows' attributes: the transpose of `row_scores.py`."""

from __future__ import annotations

import numpy as np

from partwise.compiled.boundary import load_record, row_address
from partwise.compiled.dispatch import fragment, inner
from partwise.compiled.rows import FIRST_PART, FIRST_ROW, KIND, N_ROWS, KindRows, is_plain
from partwise.compiled.simd import (
    growth,
    scatter_masked_rows,
    scatter_rows,
    scatter_scaled_masked_rows,
    scatter_scaled_rows,
)
from partwise.compiled.simd_dense import ROWS_AT_ONCE, scatter_dense


@fragment
def _scatter_dense_part(kind, row, weights, delta, l1):  # type: ignore
    """Add the padded row `delta` to the weights of dense attributes. Returns the growth of ‖weights‖²."""
    total, n_dense = 0.0, kind.dense_start.size
    if n_dense > 0:
        total += scatter_scaled_rows(
            weights, kind.dense_start, kind.dense[row], 0, n_dense, delta, kind.mask, kind.stride, l1
        )
    elif kind.table_row.size > 0:
        change, at = kind.table_changes, kind.table_row[row]
        for j in range(kind.width):
            change[at, j] += delta[j]
    return total


@fragment
def _scatter_row(kind, row, weights, delta, l1):  # type: ignore
    """As `_scatter_dense_part`, for all other attributes."""
    total = 0.0
    stride, mask = kind.stride, kind.mask
    start, value = kind.wide_start, kind.wide_value
    first, last = kind.wide_ptr[row], kind.wide_ptr[row + 1]
    if mask.size > 0:
        if value.size > 0:
            total += scatter_scaled_masked_rows(weights, start, value, first, last, delta, mask, stride, l1)
        else:
            total += scatter_masked_rows(weights, start, value, first, last, delta, mask, stride, l1)
    elif value.size > 0:
        total += scatter_scaled_rows(weights, start, value, first, last, delta, mask, stride, l1)
    else:
        total += scatter_rows(weights, start, value, first, last, delta, mask, stride, l1)
    scaled = kind.narrow_value.size > 0
    for k in range(kind.narrow_ptr[row], kind.narrow_ptr[row + 1]):
        start_of_list = kind.narrow_start[k]
        value_here = kind.narrow_value[k] if scaled else np.float32(1.0)
        # Sum and store in loops of their own: one loop for both may add in another order from run to run.
        for w in range(start_of_list, start_of_list + kind.narrow_count[k]):
            change = value_here * delta[kind.narrow_label[w - kind.narrow_first]]
            total += growth(weights[w], change, l1)
        for w in range(start_of_list, start_of_list + kind.narrow_count[k]):
            weights[w] += value_here * delta[kind.narrow_label[w - kind.narrow_first]]
    return total


@fragment
def _scatter_single(kind, row, weights, delta, l1):  # type: ignore
    """Add `delta` to the only weight of each attribute of a row. Returns the growth of ‖weights‖²."""
    total = 0.0
    for d in range(kind.dense_start.size):
        old, change = weights[kind.dense_start[d]], kind.dense[row, d] * delta
        weights[kind.dense_start[d]] = old + change
        total += growth(old, change, l1)
    if kind.table_row.size > 0:
        sums, at = kind.table_changes, kind.table_row[row]
        sums[at, 0] += delta
    scaled = kind.wide_value.size > 0
    for k in range(kind.wide_ptr[row], kind.wide_ptr[row + 1]):
        old, change = weights[kind.wide_start[k]], delta
        if scaled:
            change = kind.wide_value[k] * delta
        weights[kind.wide_start[k]] = old + change
        total += growth(old, change, l1)
    return total


@inner
def _scatter_blocks(kind, first_row, n_rows, weights, scale, delta, part, threshold, l1, row_work):  # type: ignore
    """As `scatter_run` for several rows with dense attributes."""
    total, end, stride, n_dense = 0.0, first_row + n_rows, kind.stride, kind.dense_start.size
    for begin in range(first_row, end, ROWS_AT_ONCE):
        for j in range(ROWS_AT_ONCE * stride):
            row_work[j] = 0
        n_moved = 0
        for r in range(min(ROWS_AT_ONCE, end - begin)):
            largest = 0.0
            for j in range(kind.width):
                largest = max(largest, abs(delta[part + j]))
            if largest <= threshold:
                for j in range(kind.width):
                    delta[part + j] = 0.0
            else:
                n_moved += 1
                own = row_work[r * stride : (r + 1) * stride]
                for j in range(kind.width):
                    own[j] = scale * delta[part + j]
                total += _scatter_row(kind, begin + r, weights, own, l1)
            part += kind.width
        if n_moved > 0:
            total += scatter_dense(weights, kind.dense, begin, end - 1, n_dense, row_work, stride, l1)
    return total


@inner
def scatter_run(kind, first_row, n_rows, weights, scale, delta, part, threshold, l1, row_work):  # type: ignore
    """Add scale · delta to the weights of `n_rows` rows of a kind. Returns the growth of ‖weights‖²."""
    own = weights[kind.first_weight : kind.first_weight + kind.n_weights]
    total = 0.0
    if kind.stride == 1:
        for row in range(first_row, first_row + n_rows):
            if abs(delta[part]) > threshold:
                total += _scatter_single(kind, row, own, scale * delta[part], l1)
            else:
                delta[part] = 0.0
            part += 1
        return total
    if n_rows > 1 and kind.dense_start.size > 0:
        return _scatter_blocks(kind, first_row, n_rows, own, scale, delta, part, threshold, l1, row_work)
    plain = is_plain(kind)
    for row in range(first_row, first_row + n_rows):
        largest = 0.0
        for j in range(kind.width):
            largest = max(largest, abs(delta[part + j]))
        first = kind.wide_ptr[row]
        if largest <= threshold:
            for j in range(kind.width):
                delta[part + j] = 0.0
        elif plain and kind.wide_ptr[row + 1] - first == 1:
            start = kind.wide_start[first]  # sums and stores apart, as above
            for j in range(kind.width):
                total += growth(own[start + j], scale * delta[part + j], l1)
            for j in range(kind.width):
                own[start + j] += scale * delta[part + j]
        else:
            for j in range(kind.width):
                row_work[j] = scale * delta[part + j]
            for j in range(kind.width, kind.stride):
                row_work[j] = 0
            total += _scatter_dense_part(kind, row, own, row_work, l1)
            total += _scatter_row(kind, row, own, row_work, l1)
        part += kind.width
    return total


@fragment
def scatter_rows_of(table, example, weights, scale, delta, threshold, l1, row_work):  # type: ignore
    """Add scale · Σ_r delta_r φ(x, r) to the weights. Returns the growth of ‖weights‖²."""
    total = 0.0
    for r in range(table.run_ptr[example], table.run_ptr[example + 1]):
        run = table.runs[r]
        kind = load_record(KindRows, row_address(table.kinds, run[KIND]))
        total += scatter_run(
            kind, run[FIRST_ROW], run[N_ROWS], weights, scale, delta, run[FIRST_PART], threshold, l1, row_work
        )
    return total
