"""Step sizes that always improve the dual, computed from the data."""

from __future__ import annotations

import numpy as np

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


def dual_smoothness(problem: Problem) -> float:
    """L with D(α′) ≥ D(α) + ⟨∇D(α), α′ − α⟩ − (L/2) Σ_i c_i ‖α′_i − α_i‖₁², for example weights c_i.

    If Σ_y δ_y = 0, then Σ_y δ_y φ(y) is ‖δ‖₁/2 times the difference of two means of features, so its length is at most
    ‖δ‖₁ diam/2. Cauchy–Schwarz over the examples gives L = Σ_i c_i diam_i² / (4 l2). Zhang et al. (2011) have
    Σ_i c_i max_i,y ‖φ(true) − φ(y)‖² / l2, without the 4 and with a maximum in place of the mean.
    """
    return max(float(problem.batch.example_weight @ problem.squared_radii()) / (4.0 * problem.l2), 1e-300)
