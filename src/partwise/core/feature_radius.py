"""Bounds on the distance between the features of two labellings of an example."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from partwise.compiled.rows import FIRST_ROW, KIND, N_ROWS, KindRows
from partwise.core.arrays import block_of, ranges
from partwise.core.scorer import Scorer


def squared_radii(scorer: Scorer) -> np.ndarray:
    """Upper bound on max_y ‖φ(x_i, y_i) − φ(x_i, y)‖² for every example, (n_examples,).

    For one attribute a, Σ_labels (Σ_t x_ta d_t)² ≤ 2 (Σ_t |x_ta|)². Here d_t is the difference of two label
    indicators, so ‖d_t‖² ≤ 2. A tied row is used at most `most_tied` times by each labelling. If a labelling uses m
    parts of a row, the bound is m times as large. If rows are alternatives (the arcs to one word), each labelling uses
    one of them, and the sum over rows is at most Σ_words 2 max_t |x_ta|.
    """
    choices = scorer.structure.row_choices(scorer.shapes)
    bound = np.zeros(scorer.n_examples)
    for k, (kind, rows) in enumerate(zip(scorer.structure.kinds, scorer.kinds, strict=True)):
        if kind.tied:
            bound += 2.0 * scorer.structure.most_tied(scorer.shapes).astype(float) ** 2
        else:
            own = _squared_row_sums(rows, membership(scorer, k), choices)
            bound += scorer.structure.most_of_row * own
    return bound


def membership(scorer: Scorer, k: int) -> sparse.csr_matrix:
    """Ones for the rows of kind k that belong to each example, (n_examples, n_rows)."""
    own = scorer.runs[:, KIND] == k
    runs, n_rows = scorer.runs[own], scorer.runs[own][:, N_ROWS]
    example, row = np.repeat(block_of(scorer.run_ptr)[own], n_rows), ranges(runs[:, FIRST_ROW], n_rows)
    shape = scorer.n_examples, len(scorer.kinds[k].wide_ptr) - 1
    return sparse.csr_matrix((np.ones(len(row)), (example, row)), shape=shape)


def _squared_row_sums(rows: KindRows, member: sparse.csr_matrix, choices: np.ndarray | None) -> np.ndarray:
    """The bound Σ_a 2 (Σ_rows |x_a|)² for every example, (n_examples,), or a smaller one if rows are alternatives."""
    result = np.zeros(member.shape[0])
    for ptr, start, value in (
        (rows.wide_ptr, rows.wide_start, rows.wide_value),
        (rows.narrow_ptr, rows.narrow_start, rows.narrow_value),
    ):
        values = np.abs(value).astype(float) if value.size else np.ones(len(start))
        entries = sparse.csr_matrix((values, start, ptr), shape=(member.shape[1], rows.n_weights + 1))
        result += _bound(member, entries, choices)
    if rows.dense.shape[1]:
        result += _bound(member, sparse.csr_matrix(np.abs(rows.dense).astype(float)), choices)
    return result


def _bound(member: sparse.csr_matrix, rows: sparse.csr_matrix, choices: np.ndarray | None) -> np.ndarray:
    """The bound summed over columns, (n_examples,), for absolute values `rows` of the examples in `member`."""
    sums = member @ rows
    bound = 2.0 * sums.power(2)
    if choices is not None and rows.nnz:
        entries = rows.tocoo()
        key = choices[entries.row] * rows.shape[1] + entries.col
        order = np.lexsort((entries.data, key))
        last = np.append(np.diff(key[order]) > 0, True)  # the largest of each word and attribute
        at = order[last]
        largest = sparse.csr_matrix((entries.data[at], (entries.row[at], entries.col[at])), shape=rows.shape)
        bound = bound.minimum((2.0 * (member @ largest)).power(2))
    return np.asarray(bound.sum(axis=1)).ravel()
