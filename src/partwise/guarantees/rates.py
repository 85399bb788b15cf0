"""How many passes the papers' theorems allow a solver to need, for the problem at hand.

All start from the uniform distribution over labellings, for which KL(α* ‖ α¹) ≤ Σ_i log |Y_i|, and take one step
size from the data. They bound D* − D(α), the distance of the dual to its optimum; the gap that training stops by is
larger, since the primal is some way above too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from partwise.core.bounds import bartlett_batch_step, dual_smoothness, log_counts_of
from partwise.core.checks import check_positive
from partwise.core.losses import Loss
from partwise.core.problem import Problem
from partwise.errors import InputError

if TYPE_CHECKING:
    from partwise.solvers.base import Solution

# Passes over the data of an iteration of the excessive gap method. Its start, which makes k = 1, takes as many.
_PASSES_OF_ITERATION = 2.0
_CLOSE = 1e-3  # Relative to the primal: how close a dual point must be to stand for the optimum.


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
    offset : float
        Added to the bound: how far the point that stands for the optimum may be from it.
    """

    solver: str
    source: str
    step: float
    constant: float
    decay: float = 0.0
    is_quadratic: bool = False
    in_expectation: bool = False
    offset: float = 0.0

    def bound(self, passes: float) -> float:
        """The upper bound of D* − D(α) after so many passes."""
        if not passes >= 0.0:
            raise InputError(f"passes must be 0 or more, not {passes!r:.40}")
        if self.is_quadratic:
            k = passes / _PASSES_OF_ITERATION
            return self.offset + self.constant / ((k + 1.0) * (k + 2.0))
        slow = self.constant / passes if passes > 0 else math.inf
        fast = self.constant * math.exp(-self.decay * passes) if self.decay > 0.0 else math.inf
        return self.offset + min(slow, fast)

    def passes(self, tolerance: float) -> float:
        """How many passes are enough for D* − D(α) ≤ `tolerance`."""
        check_positive("tolerance", tolerance)
        if tolerance <= self.offset:
            return math.inf
        ratio = self.constant / (tolerance - self.offset)
        if self.is_quadratic:  # (k + 1)(k + 2) = ratio
            return _PASSES_OF_ITERATION * max((math.sqrt(1.0 + 4.0 * ratio) - 3.0) / 2.0, 0.0)
        return min(ratio, max(math.log(ratio) / self.decay, 0.0)) if self.decay > 0.0 else ratio


def predicted_rates(problem: Problem, at_optimum: bool = False) -> list[Rate]:
    """All theorems that apply to a problem's loss.

    Parameters
    ----------
    at_optimum : bool
        Whether to solve the problem, so that the divergence of the optimum from the uniform distribution takes the
        place of its largest value, Σ log |Y_i|, in the theorems on EG and on the excessive gap method (Zhang et al.
        2011, eq. 16).

    Notes
    -----

    - Collins et al. (2008), Theorem 1, eqs. 14 and 15: batch EG, η = 1/(1/β + n|A|∞). For finite β both hold, eq. 15
      with η/β in the exponent by the same proof, and the smaller one counts.
    - The same, Theorem 2, eqs. 16 and 17: randomized online EG, η = 1/(1/β + |A|∞), in expectation. Table 1 has these
      four as numbers of visits.
    - Bartlett et al. (2004), Theorem 1, for β = ∞: batch EG with η = 0.4/(B + λ), where λ, the largest eigenvalue of
      the quadratic form over all labellings, is bounded by its trace; beyond plain classes that says little.
    - Zhang et al. (2011), eq. 22, for β = ∞: the excessive gap method with rule "fixed". An iteration takes two passes.
      L is `bounds.dual_smoothness`, as in that rule, which is at most a quarter of the paper's. With `at_optimum`,
      it is eq. 16.
    - Cutting planes with one bundle, BMRM: 2G² / (l2 (t + 3)) after t iterations, with G = Σ_i c_i max ‖φ(y) − φ(y')‖.
      The dual rises by max_η η δ − η²G² / (2 l2) if it is δ below its optimum, since the step from the old multipliers
      to the new plane is one that may be taken. It is the order of Zhang's Table 1 with a constant.

    |A|∞ and L come from upper bounds on how far the features of two labellings lie apart.
    """
    importance = problem.batch.example_weight
    spread, log_counts = problem.squared_radii(), log_counts_of(problem)
    quadratic = float((spread * importance).max(initial=0.0)) / problem.l2  # |A|∞
    distance, start, offset = float(importance @ log_counts), _start(problem), 0.0
    near = ""
    if at_optimum:
        distance, offset = _divergence_of_optimum(problem, distance)
        near = ", at the optimum"
    n, soft = problem.n_examples, problem.loss.inverse_beta
    batch_step = 1.0 / max(soft + n * quadratic, 1e-300)
    step = 1.0 / max(soft + quadratic, 1e-300)
    batch = Rate("eg-batch", f"Collins et al. 2008, Theorem 1{near}", batch_step, distance / batch_step)
    online = Rate(
        "eg", f"Collins et al. 2008, Theorem 2{near}", step, distance / step + start, in_expectation=True
    )
    batch, online = replace(batch, offset=offset), replace(online, offset=offset)
    if soft > 0.0:
        return [replace(batch, decay=batch_step * soft), replace(online, decay=step * soft), _bmrm(problem)]
    constant, equation = 6.0 * dual_smoothness(problem) * distance, "16" if at_optimum else "22"
    gap = Rate("excessive-gap", f"Zhang et al. 2011, eq. {equation}", math.nan, constant, is_quadratic=True)
    bartlett = replace(_bartlett(problem, distance, start, near), offset=offset)
    return [batch, online, bartlett, replace(gap, offset=offset), _bmrm(problem)]


def _bartlett(problem: Problem, distance: float, start: float, near: str) -> Rate:
    step, constant = bartlett_batch_step(problem), 1.5 * start
    return Rate("eg-batch", f"Bartlett et al. 2004, Theorem 1{near}", step, distance / step + constant)


def _bmrm(problem: Problem) -> Rate:
    reach = float(problem.batch.example_weight @ np.sqrt(problem.squared_radii()))
    return Rate("bmrm", "Zhang et al. 2011, Table 1 (BMRM)", math.nan, 2.0 * reach**2 / problem.l2)


def _divergence_of_optimum(problem: Problem, largest: float) -> tuple[float, float]:
    """KL(α ‖ α¹) of a dual point α near the optimum, and how far D(α) may be below it.

    For β = ∞, α is the optimum of a finite β, the smallest power of two for which D(α) is within a thousandth of P. The
    theorems' proofs compare with any point of the dual, so that this one may stand for the optimum.
    """
    from partwise.solvers import LBFGS, solve

    importance, loss = problem.batch.example_weight, problem.loss
    beta, best = 1.0 if loss.is_hard else loss.beta, (largest, math.inf)
    for _ in range(30 if loss.is_hard else 1):
        soft = replace(problem, loss=Loss(beta, loss.gamma))
        weights = solve(soft, LBFGS(), tol=1e-4, max_passes=1000).weights
        point = soft.at_weights(weights, beta, beta * loss.gamma)
        linear = float(importance @ (loss.inverse_beta * point.entropy + loss.gamma * point.cost))
        primal = problem.primal(weights)
        offset = max(primal - linear + problem.inner(point.v, point.v) / (2.0 * problem.l2), 0.0)
        if offset < best[1]:
            best = max(largest - float(importance @ point.entropy), 0.0), offset
        if offset <= _CLOSE * abs(primal):
            break
        beta *= 2.0
    return best


def _start(problem: Problem) -> float:
    """An upper bound on D* − D(α¹), α¹ uniform: P(0) is above D*."""
    uniform = problem.at_potentials(
        np.zeros(problem.n_parts, np.float32), np.ones(problem.n_examples, np.int8)
    )
    return max(problem.primal(np.zeros(problem.n_weights)) - problem.dual(uniform), 0.0)


class Order(NamedTuple):
    """A row of Zhang et al. (2011), Table 1: a rate without its constant.

    Attributes
    ----------
    solver : str
    formula : str
        ε is the tolerance and λ = l2 / n, of the objective divided by n. G bounds how far the features of two
        labellings lie apart. |Y| is the largest number of labellings of an example.
    iterations : float
        Its value, of which only ratios mean something; nan if the table has none for the loss.
    """

    solver: str
    formula: str
    iterations: float


def orders_of_convergence(problem: Problem, tolerance: float = 1e-3) -> list[Order]:
    """The rates of Zhang et al. (2011), Table 1, at a problem: CRFs for finite β, max-margin networks for β = ∞.

    Parameters
    ----------
    tolerance : float
        Relative to the objective of zero weights.
    """
    check_positive("tolerance", tolerance)
    n = float(problem.batch.example_weight.sum())
    accuracy, strength = tolerance * problem.primal(np.zeros(problem.n_weights)) / n, problem.l2 / n
    size = float(problem.squared_radii().max(initial=0.0))  # G²
    log_count = float(log_counts_of(problem).max(initial=0.0))
    if not problem.loss.is_hard:
        linear = math.log(1.0 / accuracy) / strength if accuracy < 1.0 else 0.0
        rows = {"bmrm": linear, "extragradient": math.nan, "eg": linear, "smo": math.nan}
        return [Order(name, "1/λ log 1/ε", value) for name, value in rows.items()]
    with np.errstate(over="ignore"):
        count = float(np.exp(log_count))
    return [
        Order("bmrm", "G² / (λε)", size / (strength * accuracy)),
        Order("svm-struct", "G² / (λε²)", size / (strength * accuracy**2)),
        Order("extragradient", "log|Y| / ε", log_count / accuracy),
        Order("eg", "G² log|Y| / (λε)", size * log_count / (strength * accuracy)),
        Order("smo", "n|Y| / (λε)", n * count / (strength * accuracy)),
        Order("excessive-gap", "G √(log|Y| / (λε))", math.sqrt(size * log_count / (strength * accuracy))),
    ]


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
