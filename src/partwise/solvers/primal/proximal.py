"""Quasi-Newton steps with an l1 term: to the minimum of l1 ‖w‖₁ plus a quadratic model (Lee, Sun, Saunders 2014).

The model's matrix is that of L-BFGS in compact form (Byrd, Nocedal, Schnabel 1994), from what `kronecker.py` has found:

    B = B₀ + U M Uᵀ,   U = [B₀ S, Y],   M = −[[Sᵀ B₀ S, L], [Lᵀ, −D]]⁻¹,   L + D + R = Sᵀ Y

Coordinate descent finds its minimum. Weights that are correlated or on different scales move together, which steps
within an orthant (Andrew and Gao 2007) cannot.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from partwise.core.problem import Problem
from partwise.solvers.primal.kronecker import Piece
from partwise.solvers.primal.line_search import Point, pseudo_gradient
from partwise.solvers.primal.proximal_pass import sweep

_MOST_SWEEPS = 300  # sweeps of coordinate descent over the model
_OF_FALL = 1e-2  # a sweep that gains less than this share of all sweeps is the last
_SWEEPS_OF_ACTIVE = 4  # sweeps over weights that are not zero, between two sweeps over all
_ROUNDING = 1e-10


def proximal_direction(
    problem: Problem, point: Point, moves: np.ndarray, changes: np.ndarray, shape: list[Piece] | None
) -> np.ndarray:
    """From `point` to the minimum of the model there, (n_weights,).

    Parameters
    ----------
    moves, changes : ndarray (n_pairs, n_weights)
        The last moves, the oldest first, and the changes of the gradient along them.
    shape : list of Piece or None
        B₀ but for a factor; None for the identity.
    """
    pieces = _scaled(problem, point, moves, changes, shape)
    shared, middle = _pairs(pieces, moves, changes)
    model = [_Model.at(piece, point, shared, middle) for piece in pieces]
    _minimise(model, len(middle), problem.l1)
    direction = np.zeros_like(point.weights)
    for part in model:
        direction[part.piece.at] = part.weights - point.weights[part.piece.at]
    return direction


def _scaled(
    problem: Problem, point: Point, moves: np.ndarray, changes: np.ndarray, shape: list[Piece] | None
) -> list[Piece]:
    """B₀, scaled by the last pair."""
    if shape is not None:
        if not len(moves):
            return shape
        along = sum(float(np.sum(moves[-1][each.at] * each.image(moves[-1:])[:, :, 0])) for each in shape)
        factor = float(moves[-1] @ changes[-1]) / along
        return [each.times(factor) for each in shape]
    if len(moves):
        factor = float(changes[-1] @ changes[-1]) / float(moves[-1] @ changes[-1])
    else:  # the first move has a length of about one
        slope = pseudo_gradient(point, problem.l1)
        factor = max(math.sqrt(float(slope @ slope)), 1e-300)
    return [Piece.diagonal(np.arange(problem.n_weights), np.full(problem.n_weights, factor))]


class _Model(NamedTuple):
    """The arrays of :func:`sweep` for one piece of the weights."""

    piece: Piece
    bend: np.ndarray
    whole: np.ndarray
    weights: np.ndarray
    slope: np.ndarray
    workspace: np.ndarray
    shared: np.ndarray
    turned: np.ndarray

    @classmethod
    def at(cls, piece: Piece, point: Point, shared: np.ndarray, middle: np.ndarray) -> _Model:
        own = shared[piece.at]
        turned = own @ middle
        bend, whole = piece.bend(), piece.whole()
        # The pairs keep the matrix positive definite, but rounding might not.
        added, least = np.einsum("jkr,jkr->jk", own, turned), _ROUNDING * bend
        bend = np.maximum(bend + added, least)
        if piece.gram.size:  # the labels of an attribute move together
            together = np.einsum("jr,jr->j", own.sum(axis=1), turned.sum(axis=1))
            whole = np.maximum(whole + together, least.sum(axis=1))
        workspace = np.zeros((2, piece.at.shape[1]))
        return cls(
            piece, bend, whole, point.weights[piece.at], point.gradient[piece.at], workspace, own, turned
        )

    def sweep(self, along: np.ndarray, l1: float, only_active: bool) -> float:
        return sweep(*self.piece[1:], *self[1:], along, l1, only_active)

    def active(self) -> tuple[_Model, np.ndarray | None]:
        """The model of the attributes whose weights are not zero, and their numbers; the whole one if they interact.

        Most weights are zero, and to pass over them takes longer than to move the others.
        """
        if self.piece.gram.size:
            return self, None
        rows = np.flatnonzero(self.weights[:, 0])  # a diagonal piece has one weight in each row
        piece = self.piece._replace(at=self.piece.at[rows], ridge=self.piece.ridge[rows])
        own = {
            name: getattr(self, name)[rows]
            for name in ("bend", "whole", "weights", "slope", "shared", "turned")
        }
        return self._replace(piece=piece, **own), rows

    def take(self, part: _Model, rows: np.ndarray | None) -> None:
        """Take over what sweeps over the part have changed."""
        if rows is not None:
            self.weights[rows], self.slope[rows] = part.weights, part.slope


def _pairs(pieces: list[Piece], moves: np.ndarray, changes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """U (n_weights, 2 m) and M (2 m, 2 m)."""
    m, n_weights = moves.shape
    shared = np.empty((n_weights, 2 * m))
    if not m:
        return shared, np.zeros((0, 0))
    for piece in pieces:
        shared[piece.at, :m] = piece.image(moves)
    shared[:, m:] = changes.T
    products = moves @ changes.T
    lower, diagonal = np.tril(products, -1), np.diag(np.diag(products))
    # Columns are scaled to about the same size before the matrix is inverted.
    size = np.tile(1.0 / np.sqrt(np.diag(products)), 2)
    middle = np.block([[moves @ shared[:, :m], lower], [lower.T, -diagonal]]) * size * size[:, None]
    return shared, -np.linalg.pinv(middle, hermitian=True) * size * size[:, None]


def _minimise(model: list[_Model], rank: int, l1: float) -> None:
    """Sweeps over all weights, with several sweeps over non-zero weights between two of them."""
    along, fallen = np.zeros(rank), 0.0
    for _ in range(_MOST_SWEEPS // (_SWEEPS_OF_ACTIVE + 1)):
        fall = sum(part.sweep(along, l1, False) for part in model)
        fallen += fall
        if fall <= _OF_FALL * fallen:
            break
        active = [part.active() for part in model]
        for _ in range(_SWEEPS_OF_ACTIVE):
            fallen += sum(part.sweep(along, l1, True) for part, _ in active)
        for whole, (part, rows) in zip(model, active, strict=True):
            whole.take(part, rows)
