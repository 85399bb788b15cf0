# mypy: ignore-errors
"""Rows of features in compiled code: scores of an example's parts, and the scatter that undoes it.

A row (a token, a pair of neighbours, an arc, an instance) is of some *kind*, has attributes, and feeds `width`
consecutive parts. An example is a list of *runs*: so many rows of a kind from some row on, feeding the parts from some
part on. Weights of an attribute lie in one of two ways: *wide*, a padded row with one entry per label (a mask keeps
pairs that were never observed at zero), or *narrow*, a short list of observed labels. Frequent attributes are wide
and go through vector loops; rare ones, most of the vocabulary, stay compact.

Score and scatter are called by address, so that rows known through a kernel function (`mercer/block.py`) can take
their place. Passes over many examples have the scores of dense attributes computed beforehand, by a product of matrices
for a chunk of rows, and those attributes' weights changed afterwards; the growth that scatter returns leaves them out.
Where the regulariser has an l1 term, visits keep v = l2·w before it is shrunk: scores then are those of
shrink(v, l1) = v − clip(v, −l1, l1), and growth is that of ‖shrink(v, l1)‖². With `l1` None, a type and so another
compiled function, nothing is shrunk.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from partwise.compiled.boundary import (
    Addressed,
    IntegerMatrix,
    Integers,
    RealMatrix,
    ShortIntegers,
    SingleMatrix,
    Singles,
    array_at,
    load_record,
    pack,
    row_address,
    stack_packed,
)
from partwise.compiled.dispatch import fragment, inner
from partwise.compiled.simd import (
    fetch_ahead,
    gather_rows,
    gather_scaled_rows,
    growth,
    scatter_masked_rows,
    scatter_rows,
    scatter_scaled_masked_rows,
    scatter_scaled_rows,
    shrunk,
)
from partwise.compiled.simd_dense import ROWS_AT_ONCE, scatter_dense, score_dense

KIND, FIRST_ROW, N_ROWS, FIRST_PART = range(4)  # columns of `runs`
_MOST_AHEAD = 1024  # entries of a run that are asked for before they are read


class Rows(NamedTuple):
    """The rows of all examples.

    Attributes
    ----------
    kinds : ndarray (n_kinds, …)
        The packed :class:`KindRows` (or what else score and scatter read) of every kind.
    run_ptr : ndarray (n_examples + 1,) of int64
        The runs of each example.
    runs : ndarray (n_runs, 4) of int64
        Kind, first row among those of the kind, number of rows, first part within the example.
    l1 : float
        By how much weights are shrunk where they are.
    """

    kinds: IntegerMatrix
    run_ptr: Integers
    runs: IntegerMatrix
    l1: float = 0.0


class KindRows(NamedTuple):
    """The rows of one kind; weight indices count from `first_weight`.

    Attributes
    ----------
    width, stride : int
        Parts a row feeds, and the same padded to whole vectors; a width of 1 is not padded.
    first_weight, n_weights : int
        The kind's slice of the weight vector.
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
        Where they begin; empty where products of matrices take their place, see ``core/products.py``.
    place : ndarray (n_rows,) of int32
        Of each row in the two tables below; empty where there are no products.
    given, change : ndarray (n_places, width) of float64
        The scores of the rows' dense attributes, and the sum of what was scattered through them.
    """

    width: int
    stride: int
    first_weight: int
    n_weights: int
    wide_ptr: Integers
    wide_start: ShortIntegers
    wide_value: Singles
    narrow_ptr: Integers
    narrow_start: ShortIntegers
    narrow_count: ShortIntegers
    narrow_value: Singles
    narrow_first: int
    narrow_label: ShortIntegers
    mask: Singles
    dense: SingleMatrix
    dense_start: ShortIntegers
    place: ShortIntegers
    given: RealMatrix
    change: RealMatrix


@fragment
def _score_dense_part(kind, row, weights, out, l1):  # type: ignore
    """Sum of the weights of the row's dense attributes by label into the padded row `out`."""
    for j in range(kind.stride):
        out[j] = 0
    n_dense = kind.dense_start.size
    if n_dense > 0:
        gather_scaled_rows(out, kind.dense_start, kind.dense[row], 0, n_dense, weights, kind.stride, l1)
    elif kind.place.size > 0:
        at = kind.place[row]
        for j in range(kind.width):
            out[j] = kind.given[at, j]


@fragment
def _score_row(kind, row, weights, out, l1):  # type: ignore
    """Add the weights of the row's other attributes."""
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
    """The score of a row that feeds one part: its attributes have one weight each, all of them wide."""
    total = 0.0
    for d in range(kind.dense_start.size):
        total += kind.dense[row, d] * shrunk(weights[kind.dense_start[d]], l1)
    if kind.place.size > 0:
        total += kind.given[kind.place[row], 0]
    first, last = kind.wide_ptr[row], kind.wide_ptr[row + 1]
    if kind.wide_value.size > 0:
        for k in range(first, last):
            total += kind.wide_value[k] * shrunk(weights[kind.wide_start[k]], l1)
    else:
        for k in range(first, last):
            total += shrunk(weights[kind.wide_start[k]], l1)
    return total


@fragment
def _is_plain(kind):  # type: ignore
    """Whether a row that has one attribute is just that attribute's weights."""
    return (
        kind.dense_start.size == 0
        and kind.place.size == 0
        and kind.narrow_label.size == 0
        and kind.wide_value.size == 0
        and kind.mask.size == 0
    )


@inner
def _score_blocks(kind, first_row, n_rows, weights, scale, scores, part, l1, row_work):  # type: ignore
    """As `score_run`, for rows with dense attributes."""
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
    """Write scale · (scores of some rows of a kind) from `part` on."""
    own = weights[kind.first_weight : kind.first_weight + kind.n_weights]
    if kind.stride == 1:
        for row in range(first_row, first_row + n_rows):
            scores[part] = scale * _score_single(kind, row, own, l1)
            part += 1
        return
    if n_rows > 1 and kind.dense_start.size > 0:
        _score_blocks(kind, first_row, n_rows, own, scale, scores, part, l1, row_work)
        return
    plain = _is_plain(kind)
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


@fragment
def _scatter_dense_part(kind, row, weights, delta, l1):  # type: ignore
    """Add the padded row `delta` to the weights of dense attributes; returns the growth of ‖weights‖²."""
    total, n_dense = 0.0, kind.dense_start.size
    if n_dense > 0:
        total += scatter_scaled_rows(
            weights, kind.dense_start, kind.dense[row], 0, n_dense, delta, kind.mask, kind.stride, l1
        )
    elif kind.place.size > 0:
        change, at = kind.change, kind.place[row]
        for j in range(kind.width):
            change[at, j] += delta[j]
    return total


@fragment
def _scatter_row(kind, row, weights, delta, l1):  # type: ignore
    """The same for all other attributes."""
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
        # A sum beside a store is added up in vectors or one by one, depending on what lies behind the arrays.
        for w in range(start_of_list, start_of_list + kind.narrow_count[k]):
            change = value_here * delta[kind.narrow_label[w - kind.narrow_first]]
            total += growth(weights[w], change, l1)
        for w in range(start_of_list, start_of_list + kind.narrow_count[k]):
            weights[w] += value_here * delta[kind.narrow_label[w - kind.narrow_first]]
    return total


@fragment
def _scatter_single(kind, row, weights, delta, l1):  # type: ignore
    """Add `delta` to the one weight of every attribute of a row; returns the growth of ‖weights‖²."""
    total = 0.0
    for d in range(kind.dense_start.size):
        old, change = weights[kind.dense_start[d]], kind.dense[row, d] * delta
        weights[kind.dense_start[d]] = old + change
        total += growth(old, change, l1)
    if kind.place.size > 0:
        sums, at = kind.change, kind.place[row]
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
    """As `scatter_run`, for rows with dense attributes."""
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
    """Add scale · delta through some rows of a kind; returns the growth of ‖weights‖²."""
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
    plain = _is_plain(kind)
    for row in range(first_row, first_row + n_rows):
        largest = 0.0
        for j in range(kind.width):
            largest = max(largest, abs(delta[part + j]))
        first = kind.wide_ptr[row]
        if largest <= threshold:
            for j in range(kind.width):
                delta[part + j] = 0.0
        elif plain and kind.wide_ptr[row + 1] - first == 1:
            start = kind.wide_start[first]  # sums apart from stores, as above
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


@inner
def _fetch_run(kind, first_row, n_rows):  # type: ignore
    """Ask for the features of some rows of a kind."""
    last_row, n_dense = first_row + n_rows, kind.dense_start.size
    first, last = kind.wide_ptr[first_row], kind.wide_ptr[last_row]
    last = min(last, first + _MOST_AHEAD)
    fetch_ahead(kind.wide_start, first, last)
    if kind.wide_value.size > 0:
        fetch_ahead(kind.wide_value, first, last)
    if kind.narrow_start.size > 0:
        first, last = kind.narrow_ptr[first_row], kind.narrow_ptr[last_row]
        last = min(last, first + _MOST_AHEAD)
        fetch_ahead(kind.narrow_start, first, last)
        fetch_ahead(kind.narrow_count, first, last)
    if n_dense > 0:
        first = first_row * n_dense
        fetch_ahead(kind.dense, first, min(last_row * n_dense, first + _MOST_AHEAD))


@fragment
def _score(table, example, weights, scale, scores, l1, row_work, following):  # type: ignore
    if following >= 0:  # visits in random order would wait for memory most of their time
        for r in range(table.run_ptr[following], table.run_ptr[following + 1]):
            run = table.runs[r]
            kind = load_record(KindRows, row_address(table.kinds, run[KIND]))
            _fetch_run(kind, run[FIRST_ROW], run[N_ROWS])
    for r in range(table.run_ptr[example], table.run_ptr[example + 1]):
        run = table.runs[r]
        kind = load_record(KindRows, row_address(table.kinds, run[KIND]))
        score_run(kind, run[FIRST_ROW], run[N_ROWS], weights, scale, scores, run[FIRST_PART], l1, row_work)
    return 0.0


@fragment
def _scatter(table, example, weights, scale, delta, threshold, l1, row_work):  # type: ignore
    total = 0.0
    for r in range(table.run_ptr[example], table.run_ptr[example + 1]):
        run = table.runs[r]
        kind = load_record(KindRows, row_address(table.kinds, run[KIND]))
        total += scatter_run(
            kind, run[FIRST_ROW], run[N_ROWS], weights, scale, delta, run[FIRST_PART], threshold, l1, row_work
        )
    return total


def score_single_precision(  # type: ignore
    rows, example, weights, n_weights, scale, scores, n_parts, row_work, stride, following
):
    w, row = array_at(np.float32, weights, n_weights), array_at(np.float32, row_work, stride)
    own_scores = array_at(np.float64, scores, n_parts)
    return _score(load_record(Rows, rows), example, w, scale, own_scores, None, row, following)


def score_double_precision(  # type: ignore
    rows, example, weights, n_weights, scale, scores, n_parts, row_work, stride, following
):
    w, row = array_at(np.float64, weights, n_weights), array_at(np.float64, row_work, stride)
    own_scores = array_at(np.float64, scores, n_parts)
    return _score(load_record(Rows, rows), example, w, scale, own_scores, None, row, following)


def score_single_shrunk(  # type: ignore
    rows, example, weights, n_weights, scale, scores, n_parts, row_work, stride, following
):
    w, row = array_at(np.float32, weights, n_weights), array_at(np.float32, row_work, stride)
    own_scores, table = array_at(np.float64, scores, n_parts), load_record(Rows, rows)
    return _score(table, example, w, scale, own_scores, table.l1, row, following)


def score_double_shrunk(  # type: ignore
    rows, example, weights, n_weights, scale, scores, n_parts, row_work, stride, following
):
    w, row = array_at(np.float64, weights, n_weights), array_at(np.float64, row_work, stride)
    own_scores, table = array_at(np.float64, scores, n_parts), load_record(Rows, rows)
    return _score(table, example, w, scale, own_scores, table.l1, row, following)


def scatter_single_precision(  # type: ignore
    rows, example, weights, n_weights, scale, delta, n_parts, threshold, row_work, stride
):
    w, row = array_at(np.float32, weights, n_weights), array_at(np.float32, row_work, stride)
    own_delta = array_at(np.float64, delta, n_parts)
    return _scatter(load_record(Rows, rows), example, w, scale, own_delta, threshold, None, row)


def scatter_double_precision(  # type: ignore
    rows, example, weights, n_weights, scale, delta, n_parts, threshold, row_work, stride
):
    w, row = array_at(np.float64, weights, n_weights), array_at(np.float64, row_work, stride)
    own_delta = array_at(np.float64, delta, n_parts)
    return _scatter(load_record(Rows, rows), example, w, scale, own_delta, threshold, None, row)


def scatter_single_shrunk(  # type: ignore
    rows, example, weights, n_weights, scale, delta, n_parts, threshold, row_work, stride
):
    w, row = array_at(np.float32, weights, n_weights), array_at(np.float32, row_work, stride)
    own_delta, table = array_at(np.float64, delta, n_parts), load_record(Rows, rows)
    return _scatter(table, example, w, scale, own_delta, threshold, table.l1, row)


def scatter_double_shrunk(  # type: ignore
    rows, example, weights, n_weights, scale, delta, n_parts, threshold, row_work, stride
):
    w, row = array_at(np.float64, weights, n_weights), array_at(np.float64, row_work, stride)
    own_delta, table = array_at(np.float64, delta, n_parts), load_record(Rows, rows)
    return _scatter(table, example, w, scale, own_delta, threshold, table.l1, row)


SCORE_ARGUMENTS, SCATTER_ARGUMENTS = "iiiidiiiii", "iiiidiidii"


_ENTRIES = {
    "score-single": (score_single_precision, SCORE_ARGUMENTS),
    "scatter-single": (scatter_single_precision, SCATTER_ARGUMENTS),
    "score-double": (score_double_precision, SCORE_ARGUMENTS),
    "scatter-double": (scatter_double_precision, SCATTER_ARGUMENTS),
    "score-single-shrunk": (score_single_shrunk, SCORE_ARGUMENTS),
    "scatter-single-shrunk": (scatter_single_shrunk, SCATTER_ARGUMENTS),
    "score-double-shrunk": (score_double_shrunk, SCORE_ARGUMENTS),
    "scatter-double-shrunk": (scatter_double_shrunk, SCATTER_ARGUMENTS),
}


def row_entry(name: str) -> Addressed:
    """Score or scatter, for weights of single or double precision, to be compiled."""
    return Addressed(*_ENTRIES[name])


def row_tasks(precision: str, shrunk: bool = False) -> list[str]:
    """Task names of score and scatter for weights of "single" or "double" precision, shrunk by l1 or not."""
    suffix = f"{precision}-shrunk" if shrunk else precision
    return [f"{__name__}:row_entry:{what}-{suffix}" for what in ("score", "scatter")]


def packed_rows(kinds: list[Any], run_ptr: np.ndarray, runs: np.ndarray, l1: float = 0.0) -> tuple[Any, Any]:
    """Rows and runs packed as score and scatter read them, and what must be held while they are."""
    table = Rows(
        stack_packed([pack(kind) for kind in kinds]),
        np.ascontiguousarray(run_ptr, np.int64),
        np.ascontiguousarray(runs, np.int64),
        l1,
    )
    return pack(table), (table, kinds)
