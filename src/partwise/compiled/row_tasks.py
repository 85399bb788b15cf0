# mypy: ignore-errors
"""Score and scatter as passes call them by address, and their names as background compile tasks.

Rows known only through a kernel function have their own score and scatter (`mercer/block.py`). If the regulariser has
an l1 term, visits keep v = l2·w before shrinking. The shrinking entries then score with
shrink(v, l1) = v − clip(v, −l1, l1) and return the growth of ‖shrink(v, l1)‖². For all others l1 is None, a type of its
own, so that nothing is compiled for shrinking.
"""

from __future__ import annotations

import numpy as np

from partwise.compiled.boundary import array_at, load_record
from partwise.compiled.kernels import Addressed
from partwise.compiled.row_scatter import scatter_rows_of
from partwise.compiled.row_scores import score_rows
from partwise.compiled.rows import Rows

# Types of the arguments, as :class:`~partwise.compiled.boundary.Addressed` reads them.
SCORE_ARGUMENTS, SCATTER_ARGUMENTS = "iiiidiiiii", "iiiidiidii"


def score_single_precision(  # type: ignore
    rows, example, weights, n_weights, scale, scores, n_parts, row_work, stride, following
):
    w, row = array_at(np.float32, weights, n_weights), array_at(np.float32, row_work, stride)
    own_scores = array_at(np.float64, scores, n_parts)
    return score_rows(load_record(Rows, rows), example, w, scale, own_scores, None, row, following)


def score_double_precision(  # type: ignore
    rows, example, weights, n_weights, scale, scores, n_parts, row_work, stride, following
):
    w, row = array_at(np.float64, weights, n_weights), array_at(np.float64, row_work, stride)
    own_scores = array_at(np.float64, scores, n_parts)
    return score_rows(load_record(Rows, rows), example, w, scale, own_scores, None, row, following)


def score_single_shrunk(  # type: ignore
    rows, example, weights, n_weights, scale, scores, n_parts, row_work, stride, following
):
    w, row = array_at(np.float32, weights, n_weights), array_at(np.float32, row_work, stride)
    own_scores, table = array_at(np.float64, scores, n_parts), load_record(Rows, rows)
    return score_rows(table, example, w, scale, own_scores, table.l1, row, following)


def score_double_shrunk(  # type: ignore
    rows, example, weights, n_weights, scale, scores, n_parts, row_work, stride, following
):
    w, row = array_at(np.float64, weights, n_weights), array_at(np.float64, row_work, stride)
    own_scores, table = array_at(np.float64, scores, n_parts), load_record(Rows, rows)
    return score_rows(table, example, w, scale, own_scores, table.l1, row, following)


def scatter_single_precision(  # type: ignore
    rows, example, weights, n_weights, scale, delta, n_parts, threshold, row_work, stride
):
    w, row = array_at(np.float32, weights, n_weights), array_at(np.float32, row_work, stride)
    own_delta = array_at(np.float64, delta, n_parts)
    return scatter_rows_of(load_record(Rows, rows), example, w, scale, own_delta, threshold, None, row)


def scatter_double_precision(  # type: ignore
    rows, example, weights, n_weights, scale, delta, n_parts, threshold, row_work, stride
):
    w, row = array_at(np.float64, weights, n_weights), array_at(np.float64, row_work, stride)
    own_delta = array_at(np.float64, delta, n_parts)
    return scatter_rows_of(load_record(Rows, rows), example, w, scale, own_delta, threshold, None, row)


def scatter_single_shrunk(  # type: ignore
    rows, example, weights, n_weights, scale, delta, n_parts, threshold, row_work, stride
):
    w, row = array_at(np.float32, weights, n_weights), array_at(np.float32, row_work, stride)
    own_delta, table = array_at(np.float64, delta, n_parts), load_record(Rows, rows)
    return scatter_rows_of(table, example, w, scale, own_delta, threshold, table.l1, row)


def scatter_double_shrunk(  # type: ignore
    rows, example, weights, n_weights, scale, delta, n_parts, threshold, row_work, stride
):
    w, row = array_at(np.float64, weights, n_weights), array_at(np.float64, row_work, stride)
    own_delta, table = array_at(np.float64, delta, n_parts), load_record(Rows, rows)
    return scatter_rows_of(table, example, w, scale, own_delta, threshold, table.l1, row)


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
    """Score or scatter by its task name, not compiled yet."""
    return Addressed(*_ENTRIES[name])


def row_tasks(precision: str, shrunk: bool = False) -> list[str]:
    """Task names of score and scatter for weights of "single" or "double" precision, shrunk by l1 or not."""
    suffix = f"{precision}-shrunk" if shrunk else precision
    return [f"{__name__}:row_entry:{what}-{suffix}" for what in ("score", "scatter")]
