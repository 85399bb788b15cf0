"""Bounds computed from the data: how long a step may be and still improve the dual."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from partwise.compiled.rows import RowGroup
from partwise.core.problem import Problem
from partwise.mercer.problem import KernelProblem
from partwise.structures.contract import Layouts


def feature_spread(problem: Problem) -> np.ndarray:
    """Upper bound on max_y ‖φ(x_i, y_i) − φ(x_i, y)‖² for every example.

    For one attribute a, Σ_labels (Σ_t x_ta d_t)² ≤ 2 (Σ_t |x_ta|)², where d_t is the difference of two
    label indicators, so that ‖d_t‖² ≤ 2; tied parts differ by at most one count per position on either side.
    Where rows are alternatives (the arcs to one word), each side uses one of them, and the sum over rows is at most
    Σ_words 2 max_t |x_ta|.

    Returns
    -------
    ndarray (n_examples,)
    """
    batch = problem.batch
    if isinstance(problem, KernelProblem):
        return _kernel_spread(problem)
    choices = problem.structure.row_choices(Layouts(batch.layout_ptr, batch.layout))
    spread = _squared_row_sums(batch.node, choices)
    if batch.edge.width:
        spread += _squared_row_sums(batch.edge, choices)
    if batch.tied_size:
        spread += 2.0 * batch.length.astype(float) ** 2
    return spread


def _kernel_spread(problem: KernelProblem) -> np.ndarray:
    """The same from k(x, x) alone: Σ_labels ‖Σ_t d_t φ(x_t)‖² ≤ 2 (Σ_t √k(x_t, x_t))²."""
    batch = problem.batch
    spread = 2.0 * float(bool(batch.tied_size)) * batch.length.astype(float) ** 2
    for group, lengths in zip((batch.node, batch.edge), problem.squared_lengths(), strict=True):
        if lengths is not None:
            sums = np.concatenate([[0.0], np.cumsum(np.sqrt(np.maximum(lengths, 0.0)))])
            spread += 2.0 * (sums[group.row_ptr[1:]] - sums[group.row_ptr[:-1]]) ** 2
    return spread


def _squared_row_sums(group: RowGroup, choices: np.ndarray | None) -> np.ndarray:
    """The bound Σ_a 2 (Σ_rows |x_a|)² for every example, or with alternatives a smaller one for each a."""
    n_rows = int(group.row_ptr[-1])
    result = np.zeros(len(group.row_ptr) - 1)
    member = sparse.csr_matrix(
        (np.ones(n_rows), np.arange(n_rows), group.row_ptr), shape=(len(group.row_ptr) - 1, n_rows)
    )
    for ptr, start, value in (
        (group.wide_ptr, group.wide_start, group.wide_value),
        (group.narrow_ptr, group.narrow_start, group.narrow_value),
    ):
        values = np.abs(value).astype(float) if value.size else np.ones(len(start))
        rows = sparse.csr_matrix((values, start, ptr), shape=(n_rows, group.n_weights + 1))
        result += _bound(member, rows, choices)
    if group.dense.shape[1]:
        result += _bound(member, sparse.csr_matrix(np.abs(group.dense).astype(float)), choices)
    return result


def _bound(member: sparse.csr_matrix, rows: sparse.csr_matrix, choices: np.ndarray | None) -> np.ndarray:
    """Σ over columns for every example; `rows` holds absolute values, `member` says whose rows they are."""
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


def safe_steps(problem: Problem) -> np.ndarray:
    """η_i ≤ 1 / (1/β + |A|_∞): every online EG step of this size improves the dual (Collins et al. §5).

    |A|_∞ is taken per example, since a step touches one block only.
    """
    spread = feature_spread(problem) * problem.batch.example_weight / problem.l2
    return 1.0 / np.maximum(problem.loss.inverse_beta + spread, 1e-300)


def safe_batch_step(problem: Problem) -> float:
    """η ≤ 1 / (1/β + n |A|_∞): the same when all examples move at once."""
    spread = feature_spread(problem) * problem.batch.example_weight / problem.l2
    return float(1.0 / (problem.loss.inverse_beta + problem.n_examples * spread.max()))


def dual_smoothness(problem: Problem) -> float:
    """L with D(α′) ≥ D(α) + ⟨∇D(α), α′ − α⟩ − (L/2) Σ_i c_i ‖α′_i − α_i‖₁², c_i the weights of the examples.

    Σ_y δ_y φ(y) with Σ_y δ_y = 0 is ‖δ‖₁/2 times the difference of two means of features, hence at most
    ‖δ‖₁ diam/2 long; Cauchy–Schwarz over the examples gives L = Σ_i c_i diam_i² / (4 l2). Zhang et al. (2011)
    have Σ_i c_i max_i,y ‖φ(true) − φ(y)‖² / l2, the same but for the 4 and a maximum in place of the mean.
    """
    return max(float(problem.batch.example_weight @ feature_spread(problem)) / (4.0 * problem.l2), 1e-300)
