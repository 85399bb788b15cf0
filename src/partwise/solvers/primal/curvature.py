"""An approximate Hessian of P: a matrix in blocks, whose inverse preconditions quasi-Newton steps.

The Hessian of P is l2·I + β Σ_i c_i Cov_i(φ). A row with attributes x adds about v_k x xᵀ to the block of label k, with
v_k = μ_k (1 − μ_k), the variance of its part. So the attributes of a label have the block Xᵀ diag(v) X. It is estimated
from a sample of rows, drawn in proportion to v. If there are too many attributes, sparse ones have only a diagonal. If
exactly one part of a row is always present, moving the weights of all its parts together changes only the l2 term. So
steps of single labels are balanced to have the sum zero. (The small part of a gradient that all labels share is not
treated apart, since quasi-Newton steps scale all of it alike.) Tied parts occur many times in an example. Their block
is the covariance over examples of (true − expected) counts, which is that of the Hessian if the model fits. If it does
not fit, its diagonal is too large, and the diagonal for rare parts is used instead.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from partwise.compiled.examples import Scratch
from partwise.compiled.rows import FIRST_PART, FIRST_ROW, KIND, N_ROWS, KindRows, packed_rows
from partwise.core.arrays import block_of, positions, ranges
from partwise.core.batch_pass import scatter_pass
from partwise.core.predict_pass import counts_pass
from partwise.core.problem import Problem

_FEWEST_COLUMNS, MOST_COLUMNS = 4, 4000  # columns of a block: fewer are not worth it, more are not factorised
# Rows for each sparse column: fewer are soon fitted, and then the curvature there is gone.
_ROWS_OF_SPARSE = 5
_MOST_PASSES = 30.0  # passes that factorising a block may cost
SAMPLE = 3000  # rows that a block is estimated from, or three for each column if that is more
_LABELS_APART = 6.0  # passes that a block for each label may cost; otherwise labels share one block
# The same if the curvature is above `_WEAK` times l2: about 10 evaluations, as measured.
_LABELS_APART_WEAK = 60.0
_WEAK = 100.0
_ALIKE = 0.01  # labels whose variances differ by less share a block, as they do at zero weights
_ROWS_AT_ONCE = 4096  # rows that are written out together
# If fewer sampled rows than the first number have an attribute, its whole diagonal is added; from the second, nothing.
_FEW_ROWS, _ENOUGH_ROWS = 10.0, 1000.0
_MOST_NUMBERS = 1 << 25  # numbers in the blocks of all labels together
_OF_ALL = 0.1  # share of the mean block in the block of a label, for columns that its sample lacks
# Share of its own diagonal that is added to the block of tied parts, which are seen once an example.
_RIDGE = 0.1
_ROUNDING = 1e-6  # share of its mean diagonal that is added to a block computed in single precision


def is_worthwhile(problem: Problem) -> bool:
    """Whether some kind of rows has attributes that are worth a block."""
    return problem.has_features and any(columns_of(rows) > 0 for rows in problem.scorer.kinds)


def has_whole_blocks(problem: Problem) -> bool:
    """Whether all attributes of all kinds of rows are in blocks."""
    return problem.has_features and all(
        kind.tied or columns_of(rows) * rows.stride == rows.n_weights
        for rows, kind in zip(problem.scorer.kinds, problem.structure.kinds, strict=True)
    )


def columns_of(rows: KindRows) -> int:
    """Attributes of a kind in a block: all of them, the dense ones, or none if a block would cost too much."""
    n_rows, n_dense = len(rows.wide_ptr) - 1, rows.dense_start.size
    all_wide = rows.narrow_label.size == 0 and rows.mask.size == 0
    for n in (rows.n_weights // rows.stride if all_wide else 0, n_dense):
        passes = 2.5 * n * n / max(n_rows * rows.width, 1)  # cost of finding eigenvectors
        enough = n_rows if n == n_dense else n_rows // _ROWS_OF_SPARSE
        if _FEWEST_COLUMNS <= n <= min(MOST_COLUMNS, enough) and passes <= _MOST_PASSES:
            return n
    return 0


class Curvature:
    """The matrix at some weights; calling it applies its inverse to a vector of weights."""

    def __init__(self, problem: Problem, weights: np.ndarray):
        sample, scale = sampled(problem)
        counts = expected_counts(sample, weights)
        variance = scale * problem.loss.beta * variances(sample, counts)
        self.diagonal = problem.l2 + diagonal_of(sample, variance)
        self.blocks: list[_Block] = []
        for number, kind in enumerate(problem.structure.kinds):
            n_columns = columns_of(problem.scorer.kinds[number])
            if n_columns:
                moments = _Moments(counts, variance, self.diagonal - problem.l2)
                self.blocks.append(_block(problem, sample, number, n_columns, moments))
            elif kind.tied and kind.width <= MOST_COLUMNS and weights.any():
                # at zero weights, differences to the truth say nothing about variances
                block = tied_block(sample, number, counts, scale, problem.l2)
                self.blocks.append(
                    _TiedBlock(problem.scorer.kinds[number].first_weight, np.linalg.inv(block))
                )

    def __call__(self, vector: np.ndarray) -> np.ndarray:
        result = vector / self.diagonal
        for block in self.blocks:
            block.apply(vector, result)
        return result


class _Block(Protocol):
    def apply(self, vector: np.ndarray, result: np.ndarray) -> None:
        """Write the block's part of the inverse times `vector` to `result`, both (n_weights,)."""


class _Columns(NamedTuple):
    """The positions of the weights of a block's attributes."""

    first: int
    shape: tuple[int, int]
    width: int

    def of(self, vector: np.ndarray) -> np.ndarray:
        """The view of a vector at these weights, (n_columns, width)."""
        n_columns, stride = self.shape
        return vector[self.first : self.first + n_columns * stride].reshape(self.shape)[:, : self.width]


class _LabelBlocks(NamedTuple):
    """A block for each label. `inverse` is (width, n_columns, n_columns), `together` their mean, and `balance` the
    inverse of their sum if steps are balanced."""

    columns: _Columns
    inverse: np.ndarray
    together: np.ndarray
    balance: np.ndarray | None

    def apply(self, vector: np.ndarray, result: np.ndarray) -> None:
        own = np.ascontiguousarray(self.columns.of(vector).T)
        if self.balance is None:
            self.columns.of(result)[...] = np.matmul(self.inverse, own[:, :, None])[:, :, 0].T
            return
        together = own.mean(axis=0)
        own = own - together
        step = np.matmul(self.inverse, own[:, :, None])[:, :, 0]
        own -= self.balance @ step.sum(axis=0)
        step = np.matmul(self.inverse, own[:, :, None])[:, :, 0]
        self.columns.of(result)[...] = (step - step.mean(axis=0) + self.together @ together).T


class _SharedBlock(NamedTuple):
    """One block with a factor for each label, as eigenvectors; `eigenvalue` is (n_columns, width)."""

    columns: _Columns
    eigenvector: np.ndarray
    eigenvalue: np.ndarray
    is_balanced: bool

    def apply(self, vector: np.ndarray, result: np.ndarray) -> None:
        along = self.eigenvector.T @ self.columns.of(vector)
        if self.is_balanced:
            together = along.mean(axis=1, keepdims=True)
            along -= together
            inverse = 1.0 / self.eigenvalue
            pull = (along * inverse).sum(axis=1) / inverse.sum(axis=1)
            step = (along - pull[:, None]) * inverse + together * inverse.mean(axis=1, keepdims=True)
        else:
            step = along / self.eigenvalue
        self.columns.of(result)[...] = self.eigenvector @ step


class _TiedBlock(NamedTuple):
    first: int
    inverse: np.ndarray

    def apply(self, vector: np.ndarray, result: np.ndarray) -> None:
        own = slice(self.first, self.first + len(self.inverse))
        result[own] = self.inverse @ vector[own]


# -- moments of parts ---------------------------------------------------------------------------------


def sampled(problem: Problem) -> tuple[Problem, float]:
    """A sample of the problem's examples, and how many examples each of them stands for."""
    n = problem.n_examples
    wanted = max(1, int(n * min(1.0, problem.looked_at / max(problem.n_parts, 1))))
    if wanted == n:
        return problem, 1.0
    chosen = np.random.default_rng(0).permutation(n)[:wanted]
    return problem.shard(np.sort(chosen)), n / wanted


def expected_counts(problem: Problem, weights: np.ndarray) -> np.ndarray:
    """Expected counts of all parts under the loss-augmented model, (n_parts,)."""
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


def variances(problem: Problem, counts: np.ndarray) -> np.ndarray:
    """Variance of every part times its example's weight, (n_parts,); tied parts count as rare."""
    part_ptr, n_tied = problem.batch.part_ptr, problem.batch.n_tied
    variance = np.maximum(counts * (1.0 - counts), 0.0)
    tied = (part_ptr[1:, None] - n_tied + np.arange(n_tied)).ravel()
    variance[tied] = counts[tied]
    return variance * np.repeat(problem.example_weight, np.diff(part_ptr))


def diagonal_of(problem: Problem, variance: np.ndarray) -> np.ndarray:
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


def uses(problem: Problem, number: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows of a kind in the order of their examples, and the first part of each."""
    scorer, part_ptr = problem.scorer, problem.batch.part_ptr
    mine = scorer.runs[:, KIND] == number
    runs, example = scorer.runs[mine], block_of(scorer.run_ptr)[mine]
    n_rows, width = runs[:, N_ROWS], scorer.kinds[number].width
    begin = np.repeat(part_ptr[example] + runs[:, FIRST_PART], n_rows)
    return ranges(runs[:, FIRST_ROW], n_rows), begin + width * positions(n_rows)


# -- blocks -------------------------------------------------------------------------------------------


class _Moments(NamedTuple):
    """Expected counts and variances of the parts of a sample, (n_parts,), and Σ variance · (value of the attribute)² of
    sparse attributes, (n_weights,)."""

    counts: np.ndarray
    variance: np.ndarray
    diagonal: np.ndarray


def _block(whole: Problem, sample: Problem, number: int, n_columns: int, moments: _Moments) -> _Block:
    """The block of the first attributes of a kind, from a sample of the examples."""
    rows: KindRows = sample.scorer.kinds[number]
    row, part = uses(sample, number)
    indices = part[:, None] + np.arange(rows.width)
    own = moments.variance[indices]
    is_balanced = rows.width > 1 and bool((np.abs(moments.counts[indices].sum(axis=1) - 1.0) < 1e-6).all())
    columns = _Columns(rows.first_weight, (n_columns, rows.stride), rows.width)
    size = max(SAMPLE, 3 * n_columns)
    chosen, weight = chosen_rows(own.sum(axis=1), size)
    values = written_out(rows, row[chosen], n_columns)
    scale = np.sqrt(np.mean(values**2, axis=0))
    scale[~(scale > 0.0)] = 1.0
    bend = _diagonal_of_columns(rows, row, own, columns, moments)
    of_all = weighted_gram(values / scale, weight)
    of_all[np.diag_indices(n_columns)] += _left_out(
        of_all.diagonal(), values, bend.sum(axis=1) / scale**2, len(row)
    )
    totals = own.sum(axis=0) / max(float(own.sum()), 1e-300)
    is_alike = np.ptp(totals) <= _ALIKE * totals.max()
    allowed = _LABELS_APART_WEAK if bend.mean() > _WEAK * whole.l2 else _LABELS_APART
    costly = n_columns * min(size, len(row)) > 2 * allowed * len(row)
    if is_alike or costly or rows.width * n_columns**2 > _MOST_NUMBERS:
        eigenvalue, eigenvector = np.linalg.eigh(of_all * scale * scale[:, None])
        bends = whole.l2 + np.maximum(eigenvalue, 0.0)[:, None] * totals
        return _SharedBlock(columns, eigenvector, bends, is_balanced)
    inverse = np.empty((rows.width, n_columns, n_columns))
    for label, share in enumerate(totals):
        chosen, weight = chosen_rows(own[:, label], size)
        rooted = written_out(rows, row[chosen], n_columns, np.float32)
        rooted /= scale.astype(np.float32)
        rooted *= np.sqrt((1.0 - _OF_ALL) * weight).astype(np.float32)[:, None]
        rest = _OF_ALL * share * of_all
        found = np.einsum("ij,ij->j", rooted, rooted) + rest.diagonal()
        rest[np.diag_indices(n_columns)] += whole.l2 / scale**2 + _ROUNDING * found.mean()
        rest[np.diag_indices(n_columns)] += _left_out(found, rooted, bend[:, label] / scale**2, len(row))
        inverse[label] = whole.inverse_of_gram(rooted, rest)
    inverse /= scale * scale[:, None]
    together = inverse.mean(axis=0)
    balance = np.linalg.inv(together) / rows.width if is_balanced else None
    return _LabelBlocks(columns, inverse, together, balance)


def _diagonal_of_columns(
    rows: KindRows, row: np.ndarray, own: np.ndarray, columns: _Columns, moments: _Moments
) -> np.ndarray:
    """Σ variance · (value of the attribute)² over all rows, (n_columns, width)."""
    bend = columns.of(moments.diagonal).copy()
    n_dense = rows.dense_start.size
    for first in range(0, len(row) if n_dense else 0, _ROWS_AT_ONCE):
        here = slice(first, first + _ROWS_AT_ONCE)
        bend[:n_dense] += np.square(rows.dense[row[here]]).T @ own[here]
    return bend


def _left_out(found: np.ndarray, values: np.ndarray, bend: np.ndarray, n_rows: int) -> np.ndarray:
    """The correction of the diagonal `found` of a sample, which is `bend` over all rows. If few rows of the sample have
    an attribute, its estimate is too small."""
    if len(values) >= n_rows:
        return np.zeros(len(found))
    seen = np.maximum(np.count_nonzero(values, axis=0), 1)
    unsure = np.clip(_FEW_ROWS / seen - _FEW_ROWS / _ENOUGH_ROWS, 0.0, 1.0)
    missing: np.ndarray = np.maximum(bend - found, 0.0) * (unsure > 0.0) + unsure * bend
    return missing


def chosen_rows(weight: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """About `size` rows drawn in proportion to their weights, and the weights that make their sums unbiased."""
    if len(weight) <= 1.5 * size or not weight.any():
        return np.arange(len(weight)), weight
    so_far = np.cumsum(weight)
    at = np.searchsorted(so_far, (np.arange(size) + 0.5) / size * so_far[-1])
    at, often = np.unique(np.minimum(at, len(weight) - 1), return_counts=True)
    return at, often * (so_far[-1] / size)


def written_out(rows: KindRows, row: np.ndarray, n_columns: int, dtype: Any = np.float64) -> np.ndarray:
    """Some rows with their first attributes written out, (len(row), n_columns)."""
    n_dense = rows.dense_start.size
    result = np.zeros((len(row), n_columns), dtype)
    result[:, :n_dense] = rows.dense[row]
    if n_columns > n_dense:
        sizes = rows.wide_ptr[row + 1] - rows.wide_ptr[row]
        at = ranges(rows.wide_ptr[row], sizes)
        values = rows.wide_value[at] if rows.wide_value.size else 1.0
        result[np.repeat(np.arange(len(row)), sizes), rows.wide_start[at] // rows.stride] = values
    return result


def weighted_gram(values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Xᵀ diag(weight) X in double precision, from a product in the precision of X."""
    rooted = values * np.sqrt(weight)[:, None].astype(values.dtype)
    return (rooted.T @ rooted).astype(np.float64)


def tied_block(problem: Problem, number: int, counts: np.ndarray, scale: float, l2: float) -> np.ndarray:
    """The block of parts that all examples share, (width, width)."""
    rows: KindRows = problem.scorer.kinds[number]
    _, part = uses(problem, number)
    difference = -counts
    amount = problem.batch.gold_amount if problem.batch.gold_amount.size else 1.0
    np.add.at(difference, problem.gold_indices(), amount)
    own = difference[part[:, None] + np.arange(rows.width)]
    weight = problem.example_weight
    own -= weight @ own / max(float(weight.sum()), 1e-300)
    block = scale * problem.loss.beta * ((own * weight[:, None]).T @ own)
    at = np.arange(rows.width)
    as_if_rare = scale * problem.loss.beta * (weight @ counts[part[:, None] + at])
    shrink = np.sqrt(np.minimum(1.0, as_if_rare / np.maximum(block[at, at], 1e-300)))
    block *= shrink * shrink[:, None]
    block[at, at] += l2 + _RIDGE * block[at, at]
    return block
