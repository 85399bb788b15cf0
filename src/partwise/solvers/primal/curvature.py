"""How P bends near some weights, roughly: a matrix in blocks, whose inverse gives quasi-Newton steps their shape.

The Hessian of P is l2·I + β Σ_i c_i Cov_i(φ). A row with attributes x adds about v_k x xᵀ to the block of label k,
where v_k = μ_k (1 − μ_k) is the variance of its part. So the dense attributes of a label have the block Xᵀ diag(v) X,
taken from some rows only, chosen in proportion to v. Sparse attributes have its diagonal. Tied parts, which an example
has many times over, have the covariance over examples of (true − expected) counts, which is the Hessian's where the
model fits.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from partwise.compiled.examples import Scratch
from partwise.compiled.rows import FIRST_PART, FIRST_ROW, KIND, N_ROWS, KindRows, packed_rows
from partwise.core.arrays import block_of, positions, ranges
from partwise.core.batch_pass import scatter_pass
from partwise.core.predict_pass import counts_pass
from partwise.core.problem import Problem
from partwise.core.products import one_thread

FEWEST_COLUMNS, MOST_COLUMNS = 4, 4000  # of a block that is worth it, and that is factorised
_SAMPLE = 3000  # rows that a block is estimated from; at least three for each column
_LABELS_APART = 6.0  # passes that blocks of all labels may cost before labels share one
_OF_ALL = 0.1  # share of all labels in the block of one, which makes up for a sample without some columns
_RIDGE = 0.1  # of its own diagonal that is added to the block of tied parts: they are seen once an example
_ROUNDING = 1e-6  # of the mean of its diagonal that is added to a block from products in single precision
_MOST_PARTS = 1 << 25  # beyond, some of the examples must do


def is_worthwhile(problem: Problem) -> bool:
    """Whether there are dense attributes, and not too many."""
    if not problem.has_features:
        return False
    n_dense = [rows.dense_start.size for rows in problem.scorer.kinds]
    return FEWEST_COLUMNS <= max(n_dense) <= MOST_COLUMNS


class Curvature:
    """The matrix at some weights; calling it applies its inverse to a vector of weights."""

    def __init__(self, problem: Problem, weights: np.ndarray):
        sample, scale = _sampled(problem)
        counts = _expected_counts(sample, weights)
        variance = scale * problem.loss.beta * _variances(sample, counts)
        self.diagonal = problem.l2 + _diagonal(sample, variance)
        self.blocks: list[_Block] = []
        with one_thread(problem.scorer):
            for number, kind in enumerate(problem.structure.kinds):
                rows = problem.scorer.kinds[number]
                if FEWEST_COLUMNS <= rows.dense_start.size <= MOST_COLUMNS:
                    self.blocks.append(_dense_block(sample, number, variance, problem.l2))
                elif kind.tied and kind.width <= MOST_COLUMNS and weights.any():
                    # at zero, differences to the truth say nothing of variances
                    self.blocks.append(_tied_block(sample, number, counts, scale, problem.l2))

    def __call__(self, vector: np.ndarray) -> np.ndarray:
        result = vector / self.diagonal
        for block in self.blocks:
            block.apply(vector, result)
        return result


class _Block(Protocol):
    def apply(self, vector: np.ndarray, result: np.ndarray) -> None:
        """Write the block's part of the inverse times `vector` to `result`, both (n_weights,)."""


class _Columns(NamedTuple):
    """Where the weights of dense attributes lie."""

    first: int
    shape: tuple[int, int]
    width: int

    def of(self, vector: np.ndarray) -> np.ndarray:
        """Their part of a vector, (n_dense, width); a view."""
        n_dense, stride = self.shape
        return vector[self.first : self.first + n_dense * stride].reshape(self.shape)[:, : self.width]


class _LabelBlocks(NamedTuple):
    """A block for each label; `inverse` is (width, n_dense, n_dense)."""

    columns: _Columns
    inverse: np.ndarray

    def apply(self, vector: np.ndarray, result: np.ndarray) -> None:
        own = self.columns.of(vector).T[:, :, None]
        self.columns.of(result)[...] = np.matmul(self.inverse, own)[:, :, 0].T


class _SharedBlock(NamedTuple):
    """One block but for a factor for each label, by its eigenvectors; `eigenvalue` is (n_dense, width)."""

    columns: _Columns
    eigenvector: np.ndarray
    eigenvalue: np.ndarray

    def apply(self, vector: np.ndarray, result: np.ndarray) -> None:
        along = self.eigenvector.T @ self.columns.of(vector)
        self.columns.of(result)[...] = self.eigenvector @ (along / self.eigenvalue)


class _TiedBlock(NamedTuple):
    first: int
    inverse: np.ndarray

    def apply(self, vector: np.ndarray, result: np.ndarray) -> None:
        own = slice(self.first, self.first + len(self.inverse))
        result[own] = self.inverse @ vector[own]


# -- moments of parts ---------------------------------------------------------------------------------


def _sampled(problem: Problem) -> tuple[Problem, float]:
    """The problem, or as many of its examples as are looked at, and how many each of them stands for."""
    n = problem.n_examples
    wanted = max(1, int(n * min(1.0, _MOST_PARTS / max(problem.n_parts, 1))))
    if wanted == n:
        return problem, 1.0
    chosen = np.random.default_rng(0).permutation(n)[:wanted]
    return problem.shard(np.sort(chosen)), n / wanted


def _expected_counts(problem: Problem, weights: np.ndarray) -> np.ndarray:
    """Of all parts under the loss-augmented model, (n_parts,)."""
    beta, no_parts = problem.loss.beta, np.zeros(0, np.int64)
    counts, log_total = np.zeros(problem.n_parts), np.zeros(problem.n_examples)

    def work(first: int, last: int, scratch: Scratch, thread: int) -> None:
        for piece in problem.pieces(first, last, weights):
            counts_pass(
                *piece, weights, beta, beta * problem.loss.gamma, no_parts, no_parts,
                problem.batch.part_ptr, counts, log_total, scratch,
            )  # fmt: skip

    problem.scorer.over_examples(np.float64, work, None, ("sums",))
    return counts


def _variances(problem: Problem, counts: np.ndarray) -> np.ndarray:
    """Variance of every part times its example's weight, (n_parts,); of tied parts as if they were rare."""
    part_ptr, n_tied = problem.batch.part_ptr, problem.batch.n_tied
    variance = np.maximum(counts * (1.0 - counts), 0.0)
    tied = (part_ptr[1:, None] - n_tied + np.arange(n_tied)).ravel()
    variance[tied] = counts[tied]
    return variance * np.repeat(problem.example_weight, np.diff(part_ptr))


def _diagonal(problem: Problem, variance: np.ndarray) -> np.ndarray:
    """Σ variance · (value of the attribute)², (n_weights,), for all attributes but dense ones."""
    squared = [
        rows._replace(
            wide_value=rows.wide_value**2, narrow_value=rows.narrow_value**2, dense_start=rows.dense_start[:0]
        )
        for rows in problem.scorer.kinds
    ]
    table, held = packed_rows(squared, problem.scorer.run_ptr, problem.scorer.runs)
    batch, result = problem.batch._replace(rows=table), np.zeros(problem.n_weights)
    scratch = problem.scorer.scratch(np.float64, 0, ())
    scatter_pass(batch, 0, problem.n_examples, variance, result, scratch)
    del held
    return result


def _uses(problem: Problem, number: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows of a kind in the order of the examples that have them, and each time where its parts begin."""
    scorer, part_ptr = problem.scorer, problem.batch.part_ptr
    mine = scorer.runs[:, KIND] == number
    runs, example = scorer.runs[mine], block_of(scorer.run_ptr)[mine]
    n_rows, width = runs[:, N_ROWS], scorer.kinds[number].width
    begin = np.repeat(part_ptr[example] + runs[:, FIRST_PART], n_rows)
    return ranges(runs[:, FIRST_ROW], n_rows), begin + width * positions(n_rows)


# -- blocks -------------------------------------------------------------------------------------------


def _dense_block(problem: Problem, number: int, variance: np.ndarray, l2: float) -> _Block:
    """Of the dense attributes of a kind."""
    rows: KindRows = problem.scorer.kinds[number]
    row, part = _uses(problem, number)
    own = variance[part[:, None] + np.arange(rows.width)]
    n_dense = rows.dense_start.size
    columns = _Columns(rows.first_weight, (n_dense, rows.stride), rows.width)
    size = max(_SAMPLE, 3 * n_dense)
    of_all, scale = _weighted_gram(rows.dense, row, own.sum(axis=1), size, None)
    totals = own.sum(axis=0)
    if n_dense * min(size, len(row)) > 2 * _LABELS_APART * len(row):
        eigenvalue, eigenvector = np.linalg.eigh(of_all * scale * scale[:, None])
        shared = np.maximum(eigenvalue, 0.0)[:, None] * (totals / max(float(totals.sum()), 1e-300))
        return _SharedBlock(columns, eigenvector, l2 + shared)
    inverse = np.empty((rows.width, n_dense, n_dense))
    for label, total in enumerate(totals / max(float(totals.sum()), 1e-300)):
        block, _ = _weighted_gram(rows.dense, row, own[:, label], size, scale)
        block = (1.0 - _OF_ALL) * block + _OF_ALL * total * of_all
        at = np.arange(n_dense)
        block[at, at] += l2 / scale**2 + _ROUNDING * np.trace(block) / n_dense
        inverse[label] = np.linalg.inv(block) / (scale * scale[:, None])
    return _LabelBlocks(columns, inverse)


def _weighted_gram(
    dense: np.ndarray, row: np.ndarray, weight: np.ndarray, size: int, scale: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Xᵀ diag(weight) X with columns over `scale`, from about `size` rows; the scale is found where it is None.

    Returns
    -------
    gram : float64 array, shape (n_dense, n_dense)
    scale : float64 array, shape (n_dense,)
    """
    if len(row) > 1.5 * size and weight.any():
        so_far = np.cumsum(weight)
        at = np.searchsorted(so_far, (np.arange(size) + 0.5) / size * so_far[-1])
        at, often = np.unique(np.minimum(at, len(row) - 1), return_counts=True)
        row, weight = row[at], often * (so_far[-1] / size)
    chosen = dense[row]
    if scale is None:
        scale = np.sqrt(np.einsum("ij,ij->j", chosen, chosen, dtype=np.float64) / max(len(chosen), 1))
        scale[~(scale > 0.0)] = 1.0
        chosen = chosen / scale
    else:
        chosen = chosen / scale.astype(np.float32)
    root = np.sqrt(weight)[:, None].astype(chosen.dtype)
    chosen *= root
    return (chosen.T @ chosen).astype(np.float64), scale


def _tied_block(problem: Problem, number: int, counts: np.ndarray, scale: float, l2: float) -> _Block:
    """Of parts that all examples share."""
    rows: KindRows = problem.scorer.kinds[number]
    _, part = _uses(problem, number)
    difference = -counts
    amount = problem.batch.gold_amount if problem.batch.gold_amount.size else 1.0
    np.add.at(difference, problem.gold_places(), amount)
    own = difference[part[:, None] + np.arange(rows.width)]
    weight = problem.example_weight
    own -= weight @ own / max(float(weight.sum()), 1e-300)
    block = scale * problem.loss.beta * ((own * weight[:, None]).T @ own)
    at = np.arange(rows.width)
    block[at, at] += l2 + _RIDGE * block[at, at]
    return _TiedBlock(rows.first_weight, np.linalg.inv(block))
