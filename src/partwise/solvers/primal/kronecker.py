"""An approximate Hessian of P with the covariance of labels, for steps with an l1 term.

A row with attributes x and the marginals μ of its parts adds x xᵀ ⊗ (diag(μ) − μ μᵀ) to the Hessian. Moving the weights
of all labels together changes no distribution. If l2 is weak, it changes little in P except the l1 term. Blocks of
single labels (`curvature.py`) do not represent this. So each kind of rows has a Kronecker product of the means of both
factors. The matrix is not inverted: steps need it only on weights that are not zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.compiled.rows import KindRows
from partwise.core.problem import Problem
from partwise.solvers.primal.curvature import (
    MOST_COLUMNS,
    SAMPLE,
    chosen_rows,
    columns_of,
    diagonal_of,
    expected_counts,
    sampled,
    tied_block,
    uses,
    variances,
    weighted_gram,
    written_out,
)


class Piece(NamedTuple):
    """A piece of the matrix: gram ⊗ mix + diag(ridge), or diag(ridge) if gram is empty.

    Attributes
    ----------
    at : int64 array, shape (n, width)
        Indices of the weights of n attributes.
    gram, mix, ridge : ndarrays (n, n), (width, width) and (n, width)
    """

    at: np.ndarray
    gram: np.ndarray
    mix: np.ndarray
    ridge: np.ndarray

    @classmethod
    def diagonal(cls, at: np.ndarray, ridge: np.ndarray) -> Piece:
        return cls(at[:, None], np.zeros((0, 0)), np.ones((1, 1)), ridge[:, None])

    def times(self, factor: float) -> Piece:
        return self._replace(mix=factor * self.mix, ridge=factor * self.ridge)

    def bend(self) -> np.ndarray:
        """The diagonal, (n, width)."""
        return self.ridge + np.outer(np.diag(self.gram), np.diag(self.mix)) if self.gram.size else self.ridge

    def whole(self) -> np.ndarray:
        """The sum over all pairs of labels of an attribute, (n,)."""
        ridge = self.ridge.sum(axis=1)
        return ridge + max(float(self.mix.sum()), 0.0) * np.diag(self.gram) if self.gram.size else ridge

    def image(self, vectors: np.ndarray) -> np.ndarray:
        """The matrix times vectors of all weights (m, n_weights), as (n, width, m)."""
        own = vectors[:, self.at]
        result = self.ridge * own
        if self.gram.size:
            result += self.gram @ own @ self.mix
        return np.moveaxis(result, 0, 2)


def pieces_at(problem: Problem, weights: np.ndarray) -> list[Piece]:
    """The matrix at some weights."""
    sample, scale = sampled(problem)
    counts = expected_counts(sample, weights)
    scale *= problem.loss.beta
    pieces = []
    for number, kind in enumerate(problem.structure.kinds):
        rows = problem.scorer.kinds[number]
        columns = columns_of(rows)
        if columns:
            pieces.append(_product(sample, number, columns, counts, scale))
        elif kind.tied and kind.width <= MOST_COLUMNS and weights.any():
            block = tied_block(sample, number, counts, scale / problem.loss.beta, problem.l2)
            at = rows.first_weight + np.arange(kind.width)[:, None]
            pieces.append(Piece(at, block, np.ones((1, 1)), np.zeros(at.shape)))
    rest = np.ones(problem.n_weights, bool)
    for piece in pieces:
        rest[piece.at] = False
    ridge = problem.l2 + diagonal_of(sample, scale * variances(sample, counts))
    return [*pieces, Piece.diagonal(np.flatnonzero(rest), ridge[rest])]


def _product(problem: Problem, number: int, columns: int, counts: np.ndarray, scale: float) -> Piece:
    """The piece of the first attributes of a kind."""
    rows: KindRows = problem.scorer.kinds[number]
    row, part = uses(problem, number)
    weight = scale * np.repeat(problem.example_weight, np.diff(problem.batch.part_ptr))[part]
    own = counts[part[:, None] + np.arange(rows.width)]
    # If a labelling has several parts of a row, assume that they exclude each other as far as possible.
    together = own / np.sqrt(np.maximum(own.sum(axis=1), 1.0))[:, None]
    mix = np.diag(weight @ own) - (together * weight[:, None]).T @ together
    of_row = weight * np.maximum(own.sum(axis=1) - np.square(together).sum(axis=1), 0.0)
    at, times = chosen_rows(of_row, max(SAMPLE, 3 * columns))
    gram = weighted_gram(written_out(rows, row[at], columns), times)
    at = rows.first_weight + rows.stride * np.arange(columns)[:, None] + np.arange(rows.width)
    total = max(float(of_row.sum()), 1e-300)
    return Piece(at, gram, np.ascontiguousarray(mix) / total, np.full(at.shape, problem.l2))
