"""How many passes the papers' theorems allow a solver to need, for the problem at hand.

All start from the uniform distribution over labellings, for which KL(α* ‖ α¹) ≤ Σ_i log |Y_i|, and take one step
size from the data. They bound D* − D(α), the distance of the dual to its optimum; the gap that training stops by is
larger, since the primal is some way above too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from partwise.core.bounds import bartlett_batch_step, dual_smoothness, log_counts_of
from partwise.core.checks import check_positive
from partwise.core.problem import Problem
from partwise.errors import InputError

if TYPE_CHECKING:
    from partwise.solvers.base import Solution

# Passes over the data of an iteration of the excessive gap method. Its start, which makes k = 1, takes as many.
_PASSES_OF_ITERATION = 2.0


@dataclass(frozen=True)
class Rate:
    """A bound on D* − D(α) after so many passes.

    Attributes
    ----------
    solver : str
        The solver, by name, whose method the theorem is about.
    source : str
        Paper, theorem, equation.
    step : float
        The step size η of the theorem; nan if the method has none.
    constant, decay : float
        The bound is ``constant / passes``, or ``constant · exp(−decay · passes)`` if that is smaller and decay > 0. If
        `is_quadratic`, it is ``constant / ((k + 1)(k + 2))`` after k iterations.
    in_expectation : bool
        Over the random order of visits.
    """

    solver: str
    source: str
    step: float
    constant: float
    decay: float = 0.0
    is_quadratic: bool = False
    in_expectation: bool = False

    def bound(self, passes: float) -> float:
        """The upper bound of D* − D(α) after so many passes."""
        if not passes >= 0.0:
            raise InputError(f"passes must be 0 or more, not {passes!r:.40}")
        if self.is_quadratic:
            k = passes / _PASSES_OF_ITERATION
            return self.constant / ((k + 1.0) * (k + 2.0))
        slow = self.constant / passes if passes > 0 else math.inf
        return min(slow, self.constant * math.exp(-self.decay * passes)) if self.decay > 0.0 else slow

    def passes(self, tolerance: float) -> float:
        """How many passes are enough for D* − D(α) ≤ `tolerance`."""
        check_positive("tolerance", tolerance)
        ratio = self.constant / tolerance
        if self.is_quadratic:  # (k + 1)(k + 2) = ratio
            return _PASSES_OF_ITERATION * max((math.sqrt(1.0 + 4.0 * ratio) - 3.0) / 2.0, 0.0)
        return min(ratio, max(math.log(ratio) / self.decay, 0.0)) if self.decay > 0.0 else ratio


def predicted_rates(problem: Problem) -> list[Rate]:
    """All theorems that apply to a problem's loss.

    - Collins et al. (2008), Theorem 1, eqs. 14 and 15: batch EG, η = 1/(1/β + n|A|∞). For finite β both hold, eq. 15
      with η/β in the exponent by the same proof, and the smaller one counts.
    - The same, Theorem 2, eqs. 16 and 17: randomized online EG, η = 1/(1/β + |A|∞), in expectation. Table 1 has these
      four as numbers of visits.
    - Bartlett et al. (2004), Theorem 1, for β = ∞: batch EG with η = 0.4/(B + λ), where λ, the largest eigenvalue of
      the quadratic form over all labellings, is bounded by its trace; beyond plain classes that says little.
    - Zhang et al. (2011), eq. 22, for β = ∞: the excessive gap method with rule "fixed". An iteration takes two passes.
      L is `bounds.dual_smoothness`, as in that rule, which is at most a quarter of the paper's.

    |A|∞ and L come from upper bounds on how far the features of two labellings lie apart.
    """
    weights = problem.batch.example_weight
    spread, log_counts = problem.squared_radii(), log_counts_of(problem)
    quadratic = float((spread * weights).max(initial=0.0)) / problem.l2  # |A|∞
    distance, start = float(weights @ log_counts), _start(problem)
    n, soft = problem.n_examples, problem.loss.inverse_beta
    batch_step = 1.0 / max(soft + n * quadratic, 1e-300)
    step = 1.0 / max(soft + quadratic, 1e-300)
    batch = Rate("eg-batch", "Collins et al. 2008, Theorem 1", batch_step, distance / batch_step)
    online = Rate("eg", "Collins et al. 2008, Theorem 2", step, distance / step + start, in_expectation=True)
    if soft > 0.0:
        return [replace(batch, decay=batch_step * soft), replace(online, decay=step * soft)]
    constant = 6.0 * dual_smoothness(problem) * distance
    gap = Rate("excessive-gap", "Zhang et al. 2011, eq. 22", math.nan, constant, is_quadratic=True)
    return [batch, online, _bartlett(problem, distance, start), gap]


def _bartlett(problem: Problem, distance: float, start: float) -> Rate:
    step = bartlett_batch_step(problem)
    return Rate("eg-batch", "Bartlett et al. 2004, Theorem 1", step, distance / step + 1.5 * start)


def _start(problem: Problem) -> float:
    """An upper bound on D* − D(α¹), α¹ uniform: P(0) is above D*."""
    uniform = problem.at_potentials(
        np.zeros(problem.n_parts, np.float32), np.ones(problem.n_examples, np.int8)
    )
    return max(problem.primal(np.zeros(problem.n_weights)) - problem.dual(uniform), 0.0)


def beside_what_happened(problem: Problem, solutions: dict[str, Solution], tol: float = 1e-3) -> str:
    """A table: passes that the theorems allow, and that runs took, to a dual within `tol` of the optimum.

    Parameters
    ----------
    solutions : dict of Solution
        By the solver's name. The best primal of all stands for the optimum.
    tol : float
        Relative to that.
    """
    check_positive("tol", tol)
    if not solutions:
        raise InputError("solutions is empty: give a solution by its solver's name")
    best = min(s.certificate.primal for s in solutions.values())
    lines = [f"{'solver':<15} {'by':<32} {'step':>9} {'passes allowed':>15} {'passes taken':>13}"]
    rates = predicted_rates(problem)
    for name, solution in solutions.items():
        taken = next((r.passes for r in solution.history if best - r.dual <= tol * abs(best)), None)
        shown = "not reached" if taken is None else f"{taken:.1f}"
        own: list[Rate | None] = [rate for rate in rates if rate.solver == name]
        for rate in own or [None]:
            allowed = "" if rate is None else f"{rate.passes(tol * abs(best)):.3g}"
            step = "" if rate is None or math.isnan(rate.step) else f"{rate.step:.2g}"
            source = "no theorem" if rate is None else rate.source
            lines.append(f"{name:<15} {source:<32} {step:>9} {allowed:>15} {shown:>13}")
    return "\n".join(lines)
