"""`exact-mira`: dual coordinate ascent whose every step is solved exactly (Martins et al. 2010, eq. 11)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from partwise.core.problem import Problem
from partwise.errors import InputError
from partwise.solvers.needs import Needs
from partwise.solvers.primal.exact_mira_pass import LocalBundle, exact_mira_pass
from partwise.solvers.primal.mira import OnlineState, _Averaged


@dataclass(frozen=True)
class ExactMIRA(_Averaged):
    """w ← argmin (l2/2) ‖w' − w‖² + c_i ℓ_i(w') on one example after another, for every loss; returns the average.

    `mira` stops at the half-space that is tight at w, and `kbest-mira` takes the k best labels there. This solver adds
    the half-space that is tight at the point so far, for finite β with the entropy of the expected counts (eq. 17).

    Parameters
    ----------
    k : int
        The most half-spaces of a visit. One is `mira`.
    tolerance : float
        A visit ends when ℓ_i is this close to its minimum's lower bound, relative to ℓ_i before the step.
    """

    k: int = 50
    tolerance: float = 1e-6
    name = "exact-mira"
    needs = Needs(features=True, exact=True, ridge=True)

    def check(self, problem: Problem) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int) or self.k < 1:
            raise InputError(f"k must be an integer of at least 1, not {self.k!r}")
        if not 0.0 <= self.tolerance < 1.0:
            raise InputError(f"tolerance must be from 0 to below 1, not {self.tolerance!r:.40}")

    def _visit(self, problem: Problem, state: OnlineState, order: np.ndarray, v: np.ndarray) -> float:
        loss, scratch = problem.loss, problem.scorer.scratch(np.float64, asks=problem.asks)
        size, rows = len(scratch.delta), self.k + 1
        (delta, image), (level, slope, share) = np.zeros((2, rows, size)), np.zeros((3, rows))
        vector, base, gram = np.zeros(problem.n_weights), np.zeros(size), np.zeros((rows, rows))
        bundle = LocalBundle(vector, base, delta, image, gram, level, slope, share)
        return float(
            exact_mira_pass(
                problem.batch, order, state.weights, state.moments, int(state.n_visits[0]), 1.0 / problem.l2,
                1.0 if loss.is_hard else loss.beta, loss.gamma, loss.is_hard, float(self.tolerance), v, bundle,
                scratch,
            )
        )  # fmt: skip
