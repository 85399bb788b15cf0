# mypy: ignore-errors
"""Part scores of an example: weights of its rows' attributes, added up by label."""

from __future__ import annotations

import numpy as np

from partwise.compiled.boundary import load_record, row_address
from partwise.compiled.dispatch import fragment, inner
from partwise.compiled.rows import FIRST_PART, FIRST_ROW, KIND, N_ROWS, KindRows, is_plain
from partwise.compiled.simd import fetch_ahead, gather_rows, gather_scaled_rows, shrunk
from partwise.compiled.simd_dense import ROWS_AT_ONCE, score_dense

# Bounds the features that are prefetched per run, in entries: more would push other data out of the fast cache.
_MOST_FETCHED = 1024


@fragment
def _score_dense_part(kind, row, weights, out, l1):  # type: ignore
    """Set the padded row `out` to the scores by the row's dense attributes."""
    for j in range(kind.stride):
        out[j] = 0
    n_dense = kind.dense_start.size
    if n_dense > 0:
        gather_scaled_rows(out, kind.dense_start, kind.dense[row], 0, n_dense, weights, kind.stride, l1)
    elif kind.table_row.size > 0:
        at = kind.table_row[row]
        for j in range(kind.width):
            out[j] = kind.table_scores[at, j]


@fragment
def _score_row(kind, row, weights, out, l1):  # type: ignore
    """Add the scores by the row's other attributes to the padded row `out`."""
    stride = kind.stride
    first, last = kind.wide_ptr[row], kind.wide_ptr[row + 1]
    if kind.wide_value.size > 0:
        gather_scaled_rows(out, kind.wide_start, kind.wide_value, first, last, weights, stride, l1)
    else:
        gather_rows(out, kind.wide_start, kind.wide_value, first, last, weights, stride, l1)
    scaled = kind.narrow_value.size > 0
    for k in range(kind.narrow_ptr[row], kind.narrow_ptr[row + 1]):
        start = kind.narrow_start[k]
        value = kind.narrow_value[k] if scaled else np.float32(1.0)
        for w in range(start, start + kind.narrow_count[k]):
            out[kind.narrow_label[w - kind.narrow_first]] += value * shrunk(weights[w], l1)


@fragment
def _score_single(kind, row, weights, l1):  # type: ignore
    """The score of a row that feeds one part. Its attributes have one wide weight each."""
    total = 0.0
    for d in range(kind.dense_start.size):
        total += kind.dense[row, d] * shrunk(weights[kind.dense_start[d]], l1)
    if kind.table_row.size > 0:
        total += kind.table_scores[kind.table_row[row], 0]
    first, last = kind.wide_ptr[row], kind.wide_ptr[row + 1]
    if kind.wide_value.size > 0:
        for k in range(first, last):
            total += kind.wide_value[k] * shrunk(weights[kind.wide_start[k]], l1)
    else:
        for k in range(first, last):
            total += shrunk(weights[kind.wide_start[k]], l1)
    return total


@inner
def _score_blocks(kind, first_row, n_rows, weights, scale, scores, part, l1, row_work):  # type: ignore
    """As `score_run` for several rows with dense attributes: one load of a weight serves several rows."""
    end, stride, n_dense = first_row + n_rows, kind.stride, kind.dense_start.size
    for begin in range(first_row, end, ROWS_AT_ONCE):
        score_dense(row_work, kind.dense, begin, end - 1, n_dense, weights, stride, l1)
        for r in range(min(ROWS_AT_ONCE, end - begin)):
            out = row_work[r * stride : (r + 1) * stride]
            _score_row(kind, begin + r, weights, out, l1)
            for j in range(kind.width):
                scores[part + j] = scale * out[j]
            part += kind.width


@inner
def score_run(kind, first_row, n_rows, weights, scale, scores, part, l1, row_work):  # type: ignore
    """Write scale · (scores of `n_rows` rows of a kind) to `scores`, from entry `part` on."""
    own = weights[kind.first_weight : kind.first_weight + kind.n_weights]
    if kind.stride == 1:
        for row in range(first_row, first_row + n_rows):
            scores[part] = scale * _score_single(kind, row, own, l1)
            part += 1
        return
    if n_rows > 1 and kind.dense_start.size > 0:
        _score_blocks(kind, first_row, n_rows, own, scale, scores, part, l1, row_work)
        return
    plain = is_plain(kind)
    for row in range(first_row, first_row + n_rows):
        first = kind.wide_ptr[row]
        if plain and kind.wide_ptr[row + 1] - first == 1:
            start = kind.wide_start[first]
            for j in range(kind.width):
                scores[part + j] = scale * shrunk(own[start + j], l1)
        else:
            _score_dense_part(kind, row, own, row_work, l1)
            _score_row(kind, row, own, row_work, l1)
            for j in range(kind.width):
                scores[part + j] = scale * row_work[j]
        part += kind.width


@inner
def _fetch_run(kind, first_row, n_rows):  # type: ignore
    """Prefetch the features of `n_rows` rows of a kind."""
    last_row, n_dense = first_row + n_rows, kind.dense_start.size
    first, last = kind.wide_ptr[first_row], kind.wide_ptr[last_row]
    last = min(last, first + _MOST_FETCHED)
    fetch_ahead(kind.wide_start, first, last)
    if kind.wide_value.size > 0:
        fetch_ahead(kind.wide_value, first, last)
    if kind.narrow_start.size > 0:
        first, last = kind.narrow_ptr[first_row], kind.narrow_ptr[last_row]
        last = min(last, first + _MOST_FETCHED)
        fetch_ahead(kind.narrow_start, first, last)
        fetch_ahead(kind.narrow_count, first, last)
    if n_dense > 0:
        first = first_row * n_dense
        fetch_ahead(kind.dense, first, min(last_row * n_dense, first + _MOST_FETCHED))


@fragment
def score_rows(table, example, weights, scale, scores, l1, row_work, following):  # type: ignore
    """Write scale · (all part scores of an example), and prefetch the example `following` unless it is −1."""
    if following >= 0:  # in random order, most of the time would be spent waiting for memory
        for r in range(table.run_ptr[following], table.run_ptr[following + 1]):
            run = table.runs[r]
            kind = load_record(KindRows, row_address(table.kinds, run[KIND]))
            _fetch_run(kind, run[FIRST_ROW], run[N_ROWS])
    for r in range(table.run_ptr[example], table.run_ptr[example + 1]):
        run = table.runs[r]
        kind = load_record(KindRows, row_address(table.kinds, run[KIND]))
        score_run(kind, run[FIRST_ROW], run[N_ROWS], weights, scale, scores, run[FIRST_PART], l1, row_work)
    return 0.0
