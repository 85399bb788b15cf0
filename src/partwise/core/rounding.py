"""Bounds on the rounding of losses, and losses without cancellation where that rounding is too large."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from partwise.compiled.examples import Scratch
from partwise.compiled.rows import KindRows

if TYPE_CHECKING:
    from partwise.core.problem import Problem

EPS = float(np.finfo(float).eps)
_PER_SCORE = 4.0  # Units of rounding of a score, beyond those of sums: costs, the exponential, the logarithm.
_PER_PART = (
    16.0  # Units of rounding of a log-partition for each part of a labelling: sums over labels, scaling.
)
_ROWS_AT_ONCE = 4096  # dense rows whose absolute values are in memory together


class CarefulPoint(NamedTuple):
    """Losses at some weights and the dual point of their model, with bounds on the rounding of both sums.

    Attributes
    ----------
    loss, dual : float
        Σ_i weight_i ℓ_i, and D of the model's own distribution.
    loss_error, dual_error : float
    """

    loss: float
    loss_error: float
    dual: float
    dual_error: float


def score_size(problem: Problem, weights: np.ndarray) -> tuple[float, float]:
    """The largest Σ_a |w_a x_a| that a part's score may add up, and the most terms of such a sum."""
    rows = problem.kept("largest_rows", lambda: [_largest_row(kind) for kind in problem.scorer.kinds])
    size, most = 0.0, 1.0
    for kind, (row_size, n_terms) in zip(problem.scorer.kinds, rows, strict=True):
        own = weights[kind.first_weight : kind.first_weight + kind.n_weights]
        size = max(size, row_size * max(float(own.max(initial=0.0)), -float(own.min(initial=0.0))))
        most = max(most, n_terms)
    return size, most


def _largest_row(kind: KindRows) -> tuple[float, float]:
    """Upper bounds on Σ_a |x_a| over the rows, and on the number of their attributes."""
    size, n_terms = 0.0, float(kind.dense.shape[1])
    for ptr, value in ((kind.wide_ptr, kind.wide_value), (kind.narrow_ptr, kind.narrow_value)):
        count = float(np.diff(ptr).max(initial=0))
        largest = max(float(value.max()), -float(value.min())) if value.size else 1.0
        size, n_terms = size + count * largest, n_terms + count
    dense = 0.0
    for first in range(0, len(kind.dense) if n_terms else 0, _ROWS_AT_ONCE):
        rows = np.abs(kind.dense[first : first + _ROWS_AT_ONCE])
        dense = max(dense, float(rows.sum(axis=1, dtype=float).max(initial=0.0)))
    return size + dense, n_terms


def loss_errors(problem: Problem, weights: np.ndarray) -> np.ndarray:
    """Upper bounds on the rounding of every ℓ_i, (n_examples,).

    A labelling's score adds up at most so many parts, with their costs. The rounding of a log-partition or of a
    maximum is that of such a score, and some units for each part.
    """
    size, n_terms = problem.score_size(weights)
    most_parts = problem.kept("most_parts", lambda: np.diff(problem.labelling_ptr()).astype(float))
    cost = problem.cost
    largest_cost = problem.kept(
        "largest_cost", lambda: max(float(cost.max(initial=0.0)), -float(cost.min(initial=0.0)))
    )
    score = (_PER_SCORE + np.sqrt(n_terms) + np.sqrt(most_parts)) * (size + problem.loss.gamma * largest_cost)
    return EPS * (score + _PER_PART * problem.loss.inverse_beta) * most_parts


def careful_point(problem: Problem, weights: np.ndarray, allowed: float) -> CarefulPoint | None:
    """The losses, each with a rounding of at most `allowed` in the sum if that can be had.

    None if losses cancel by themselves (β = ∞) or sums over labellings are not exact.
    """
    from partwise.core.careful_pass import careful_pass  # compiled for problems with tiny losses only

    if problem.loss.is_hard or problem.certified != "exact" or problem.gold.amount.size:
        return None
    weight, n = problem.example_weight, problem.n_examples
    error = loss_errors(problem, weights)
    loss, value, slack = np.zeros((3, n))
    most = np.divide(allowed, weight, out=np.full(n, np.inf), where=weight > 0.0)
    scoring, beta, gamma = problem.scoring(weights), problem.loss.beta, problem.loss.gamma

    def work(first: int, last: int, scratch: Scratch, v: np.ndarray) -> None:
        for piece in problem.pieces(first, last, scoring, v):
            careful_pass(*piece, scoring, beta, gamma, most, v, loss, error, value, slack, scratch)

    v = problem.settled(problem.over_examples(np.float64, work, ("sums",)))
    total, quadratic = float(weight @ loss), problem.squared_norm(v) / (2.0 * problem.l2)
    gain, sums = float(weight @ value), summing_error(problem)
    return CarefulPoint(
        total,
        float(weight @ error) + sums * abs(total),
        gain - quadratic,
        float(weight @ slack) + sums * (abs(gain) + quadratic),
    )


def summing_error(problem: Problem) -> float:
    """Relative rounding of sums over examples and of inner products: √n units (Higham & Mary 2019)."""
    return EPS * (_PER_PART + float(np.sqrt(problem.n_examples) + np.sqrt(problem.n_weights)))
