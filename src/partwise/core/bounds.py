"""Step sizes that always improve the dual, computed from the data."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from partwise.core.losses import Loss
from partwise.core.problem import Problem


def safe_steps(problem: Problem) -> np.ndarray:
    """η_i ≤ 1 / (1/β + |A|_∞): every online EG step of this size improves the dual (Collins et al. §5).

    |A|_∞ is computed per example, because a step changes one block only.
    """
    radii = problem.squared_radii() * problem.batch.example_weight / problem.l2
    return 1.0 / np.maximum(problem.loss.inverse_beta + radii, 1e-300)


def safe_batch_step(problem: Problem) -> float:
    """η ≤ 1 / (1/β + n |A|_∞): the safe step if all examples move at once."""
    radii = problem.squared_radii() * problem.batch.example_weight / problem.l2
    return float(1.0 / (problem.loss.inverse_beta + problem.n_examples * radii.max()))


def bartlett_batch_step(problem: Problem) -> float:
    """η = 0.4 / (B + λ): the step of Bartlett et al. (2004), Theorem 1, if all examples move at once and β = ∞.

    B bounds the range of an example's gradient: 2 (n |A|_∞ + γ largest cost). λ, the largest eigenvalue of the
    quadratic form over all labellings, is bounded by its trace. So the step is very small if labellings are many.
    """
    radii = problem.squared_radii() * problem.batch.example_weight / problem.l2
    with np.errstate(over="ignore"):
        trace = float(np.exp(log_counts_of(problem)) @ radii)
    largest_cost = 0.0
    if problem.cost.size:
        hard = replace(problem, loss=Loss(math.inf, 1.0))
        largest_cost = float(hard.losses(np.zeros(problem.n_weights))[0].max(initial=0.0))
    span = 2.0 * (problem.n_examples * float(radii.max(initial=0.0)) + problem.loss.gamma * largest_cost)
    return 0.4 / max(span + trace, 1e-300)


def log_counts_of(problem: Problem) -> np.ndarray:
    """log |Y_i|, (n_examples,): the log loss of weights that are zero."""
    plain = replace(problem, loss=Loss(1.0, 0.0), cost=problem.cost[:0])
    return plain.losses(np.zeros(problem.n_weights))[0]


def dual_smoothness(problem: Problem) -> float:
    """L with D(α′) ≥ D(α) + ⟨∇D(α), α′ − α⟩ − (L/2) Σ_i c_i ‖α′_i − α_i‖₁², for example weights c_i.

    If Σ_y δ_y = 0, then Σ_y δ_y φ(y) is ‖δ‖₁/2 times the difference of two means of features, so its length is at most
    ‖δ‖₁ diam/2. Cauchy–Schwarz over the examples gives L = Σ_i c_i diam_i² / (4 l2). Zhang et al. (2011) have
    Σ_i c_i max_i,y ‖φ(true) − φ(y)‖² / l2, without the 4 and with a maximum in place of the mean.
    """
    return max(float(problem.batch.example_weight @ problem.squared_radii()) / (4.0 * problem.l2), 1e-300)
