# mypy: ignore-errors
"""Score and scatter of rows with a kernel function: scores from a table, changes through the kernel matrix.

A weight vector is Σ_t Σ_j b_{t,j} φ(x_t) ⊗ (label j), a sum over all training rows t. Its score of row q and label j
is Σ_t k(x_q, x_t) b_{t,j}. During visits to a block of rows, the table of their scores takes the place of the
weights: a change of b in one row changes the scores of all rows of the block. Tied weights come after the tables.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.compiled.boundary import (
    Integers,
    RealMatrix,
    array_at,
    load_record,
    row_address,
)
from partwise.compiled.dispatch import fragment, inner
from partwise.compiled.kernels import Addressed
from partwise.compiled.row_tasks import SCATTER_ARGUMENTS, SCORE_ARGUMENTS
from partwise.compiled.rows import FIRST_PART, FIRST_ROW, KIND, N_ROWS, Rows


class BlockRows(NamedTuple):
    """The rows of one kind in a block of examples.

    Attributes
    ----------
    width, stride : int
        Parts that a row feeds, and the same padded to whole vectors.
    first_weight : int
        The first entry of the table of scores, which has a padded row for every row of the block. For a tied kind, its
        first weight.
    tied : bool
    table_row : int64 array (n_rows,)
        The row of the table that belongs to each row; −1 outside the block.
    gram : float64 array (n_block, n_block)
        k(x_q, x_t) within the block.
    coefficient : int
        Address of all coefficients b of the kind, n_rows · stride numbers of the weights' type. Scatter updates them.
    n_coefficients : int
    """

    width: int
    stride: int
    first_weight: int
    tied: bool
    table_row: Integers
    gram: RealMatrix
    coefficient: int
    n_coefficients: int


@inner
def _score_block(kind, first_row, n_rows, weights, scale, scores, part):  # type: ignore
    for row in range(first_row, first_row + n_rows):
        table_row = 0 if kind.tied else kind.table_row[row]
        start = kind.first_weight + table_row * kind.stride
        for j in range(kind.width):
            scores[part + j] = scale * weights[start + j]
        part += kind.width


@fragment
def _scatter_tied(kind, weights, scale, delta, part):  # type: ignore
    growth = 0.0
    for j in range(kind.width):
        old, change = weights[kind.first_weight + j], scale * delta[part + j]
        growth += change * (old + old + change)
    for j in range(kind.width):
        weights[kind.first_weight + j] += scale * delta[part + j]
    return growth


@inner
def _scatter_block(kind, first_row, n_rows, weights, coefficient, scale, delta, part, threshold, row_work):  # type: ignore
    """Add a change Δ of the coefficients. Returns ‖w + Δ‖² − ‖w‖² = Σ_t Δ_t·(2 s_t + k_tt Δ_t), row after row."""
    if kind.tied:
        return _scatter_tied(kind, weights, scale, delta, part)
    stride, width, gram = kind.stride, kind.width, kind.gram
    growth = 0.0
    for row in range(first_row, first_row + n_rows):
        largest = 0.0
        for j in range(width):
            largest = max(largest, abs(delta[part + j]))
        if largest > threshold:
            table_row, first = kind.table_row[row], row * stride
            start = kind.first_weight + table_row * stride
            own = gram[table_row, table_row]
            for j in range(width):  # a loop of its own, so that equal runs add in the same order
                change = scale * delta[part + j]
                growth += change * (2.0 * weights[start + j] + own * change)
            for j in range(width):
                row_work[j] = scale * delta[part + j]
                coefficient[first + j] += scale * delta[part + j]
            for q in range(gram.shape[0]):
                similarity, start = gram[table_row, q], kind.first_weight + q * stride
                for j in range(width):
                    weights[start + j] += similarity * row_work[j]
        else:
            for j in range(width):
                delta[part + j] = 0.0
        part += width
    return growth


@fragment
def _score(rows, example, weights, scale, scores):  # type: ignore
    table = load_record(Rows, rows)
    for r in range(table.run_ptr[example], table.run_ptr[example + 1]):
        run = table.runs[r]
        kind = load_record(BlockRows, row_address(table.kinds, run[KIND]))
        _score_block(kind, run[FIRST_ROW], run[N_ROWS], weights, scale, scores, run[FIRST_PART])
    return 0.0


@fragment
def _scatter(rows, example, weights, scale, delta, threshold, row_work):  # type: ignore
    table = load_record(Rows, rows)
    growth = 0.0
    for r in range(table.run_ptr[example], table.run_ptr[example + 1]):
        run = table.runs[r]
        kind = load_record(BlockRows, row_address(table.kinds, run[KIND]))
        b = array_at(weights.dtype, kind.coefficient, kind.n_coefficients)
        growth += _scatter_block(
            kind, run[FIRST_ROW], run[N_ROWS], weights, b, scale, delta, run[FIRST_PART], threshold, row_work
        )
    return growth


def score_block_single(  # type: ignore
    rows, example, weights, n_weights, scale, scores, n_parts, row_work, stride, following
):
    w = array_at(np.float32, weights, n_weights)
    return _score(rows, example, w, scale, array_at(np.float64, scores, n_parts))


def score_block_double(  # type: ignore
    rows, example, weights, n_weights, scale, scores, n_parts, row_work, stride, following
):
    w = array_at(np.float64, weights, n_weights)
    return _score(rows, example, w, scale, array_at(np.float64, scores, n_parts))


def scatter_block_single(  # type: ignore
    rows, example, weights, n_weights, scale, delta, n_parts, threshold, row_work, stride
):
    w, row = array_at(np.float32, weights, n_weights), array_at(np.float32, row_work, stride)
    return _scatter(rows, example, w, scale, array_at(np.float64, delta, n_parts), threshold, row)


def scatter_block_double(  # type: ignore
    rows, example, weights, n_weights, scale, delta, n_parts, threshold, row_work, stride
):
    w, row = array_at(np.float64, weights, n_weights), array_at(np.float64, row_work, stride)
    return _scatter(rows, example, w, scale, array_at(np.float64, delta, n_parts), threshold, row)


_ENTRIES = {
    "score-single": (score_block_single, SCORE_ARGUMENTS),
    "scatter-single": (scatter_block_single, SCATTER_ARGUMENTS),
    "score-double": (score_block_double, SCORE_ARGUMENTS),
    "scatter-double": (scatter_block_double, SCATTER_ARGUMENTS),
}


def block_entry(name: str) -> Addressed:
    """Score or scatter by its task name, not compiled yet."""
    return Addressed(*_ENTRIES[name])


def block_tasks(precision: str) -> list[str]:
    """Task names of score and scatter for weights of "single" or "double" precision."""
    return [f"{__name__}:block_entry:{what}-{precision}" for what in ("score", "scatter")]
