"""Training on partially observed labels: the loss sums over the unobserved, one convex step after another.

    ℓ_i(w) = (1/β) log Σ_y exp β(s(y) + γ e(y)) − (1/β) log Σ_{y consistent} exp β s(y)

is a difference of convex functions. Bounding the second term from below at the current weights, by
q·s + H(q)/β with q the model restricted to consistent labellings, leaves the ordinary convex problem with
expected instead of observed parts as the true label (CCCP, Yuille and Rangarajan 2003; EM for β = 1, γ = 0).
Each round solves it; none may raise ℓ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from partwise.core.arrays import offsets
from partwise.core.problem import Problem
from partwise.core.randomness import random_generator
from partwise.errors import InputError
from partwise.estimators.base import n_threads
from partwise.estimators.model import Excluded, LinearModel
from partwise.solvers import Solution, Solver, StopReason, WarmStart, solver_for
from partwise.solvers.dual.potentials import GOLD_POTENTIAL, EGState, refresh
from partwise.structures.contract import PartLists

MAX_ROUNDS = 100
SOLVERS_THAT_CAN = ("eg", "eg-cyclic", "eg-permuted", "eg-gap", "eg-batch", "eg-primal", "lbfgs", "cg", "sgd")
DONE = (
    "converged: the objective, summed over unobserved labels, no longer decreases (a local optimum; "
    "the duality gap is that of the last convex step)"
)
MAX_ROUNDS_REACHED = (
    "stopped after the most rounds allowed on unobserved labels: fit again with warm_start=True"
)


@dataclass
class MarginalisedFit:
    """Outcome of all rounds: the last convex problem with its solution, and the objective that counts.

    Attributes
    ----------
    objective : float
        Regularised loss, summed over unobserved labels, at `weights`.
    dual_objective : float
        Dual value of the last convex problem, on the scale of `objective`.
    history : list of dict
        Certificates of all rounds, with `round` and that round's `objective`.
    """

    problem: Problem
    solver: Solver
    solution: Solution
    weights: np.ndarray
    objective: float
    dual_objective: float
    converged: bool
    stop_reason: str
    passes: float
    history: list[dict[str, float]]


def fit_marginalised(estimator: Any, problem: Problem, codes: np.ndarray) -> MarginalisedFit:
    """Alternate between expected parts and the convex problem they make, until the objective stays.

    Parameters
    ----------
    estimator : DualEstimator
    problem : Problem
        With any labels that fit in place of the unobserved ones.
    codes : int64 array, shape (n_positions,)
        Labels; −1 where not observed.
    """
    solver = solver_for(problem, estimator.solver, estimator.tol)
    solver = getattr(solver, "online", solver)  # what `auto` is where true labels are expectations
    _refuse(problem, solver)
    problem = _without_costs_of_unknown(problem, codes)
    current = _Marginal(problem, codes, n_threads(estimator.n_jobs))
    weights = np.zeros(problem.n_weights)
    objective = current.objective(weights)
    best: MarginalisedFit | None = None
    history: list[dict[str, float]] = []
    passes, seconds, cpu_seconds = 0.0, 0.0, 0.0
    for round_ in range(1, MAX_ROUNDS + 1):
        soft, constant = current.convex(weights)
        state = _start(soft, solver, None if best is None else best.solution.state, estimator)
        try:
            _, solution = estimator._solve(soft, WarmStart(soft, state))
        except KeyboardInterrupt:
            if best is None:
                raise
            best.stop_reason, best.passes = str(StopReason.INTERRUPTED.value), passes
            return _undisturbed(best)
        value = current.objective(solution.weights)
        for record in solution.history:
            moved = {"passes": passes, "seconds": seconds, "cpu_seconds": cpu_seconds}
            entry = record.as_dict()
            entry |= {key: entry[key] + before for key, before in moved.items()}
            history.append({**entry, "round": float(round_), "objective": value})
        passes, seconds, cpu_seconds = (history[-1][key] for key in ("passes", "seconds", "cpu_seconds"))
        gain = objective - value
        if best is not None and gain < 0:
            best.converged, best.stop_reason, best.passes = True, DONE, passes
            return _undisturbed(best)
        dual = solution.certificate.dual - constant
        best = MarginalisedFit(
            soft, solver, solution, solution.weights, value, dual, False, MAX_ROUNDS_REACHED, passes, history
        )
        weights, objective = solution.weights, value
        if not solution.converged:
            best.stop_reason = solution.why
            return best
        if passes >= estimator.max_passes:
            best.stop_reason = str(StopReason.MAX_PASSES.value)
            return best
        if gain <= estimator.tol * abs(value):
            best.converged, best.stop_reason = True, DONE
            return best
    assert best is not None
    return best


def _undisturbed(fit: MarginalisedFit) -> MarginalisedFit:
    """A fit whose state moved on in place with a later round, repaired."""
    if isinstance(fit.solution.state, EGState):
        _refreshed(fit.problem, fit.solution.state)
    return fit


def _refuse(problem: Problem, solver: Solver) -> None:
    if problem.loss.is_hard:
        raise InputError(
            f"y has unobserved labels (None), and loss={problem.loss.name!r} has beta = inf: summing over "
            "them needs a finite beta: 'log', 'softmax_margin' or Loss(beta, gamma)"
        )
    if solver.name not in SOLVERS_THAT_CAN:
        raise InputError(
            f"y has unobserved labels (None), which solver {solver.name!r} cannot train on; "
            f"those that can are {', '.join(SOLVERS_THAT_CAN)}"
        )


def _without_costs_of_unknown(problem: Problem, codes: np.ndarray) -> Problem:
    """No label costs anything where none was observed."""
    width, position_ptr = problem.structure.kinds[0].width, offsets(problem.lengths)
    if problem.cost.size == 0:
        return problem
    cost = problem.cost.copy()
    unknown = np.flatnonzero(codes < 0)
    example = np.searchsorted(position_ptr, unknown, side="right") - 1
    first = problem.batch.part_ptr[example] + (unknown - position_ptr[example]) * width
    cost[first[:, None] + np.arange(width)] = 0.0
    return replace(problem, cost=cost)


@dataclass
class _Marginal:
    """The objective summed over unobserved labels, and its convex bounds."""

    problem: Problem
    codes: np.ndarray
    n_jobs: int

    def objective(self, weights: np.ndarray) -> float:
        problem, loss = self.problem, self.problem.loss
        model = self._model(weights)
        scorer, beta, n_jobs = problem.scorer, loss.beta, self.n_jobs
        cost = (beta * loss.gamma * problem.cost).astype(np.float32)
        _, free = model.counts(scorer, beta, cost, what="nothing", n_jobs=n_jobs)
        _, held = model.counts(scorer, beta, excluded=self._excluded(), what="nothing", n_jobs=n_jobs)
        losses = (free - held) / loss.beta
        return float(problem.batch.example_weight @ losses) + problem.penalty(weights)

    def convex(self, weights: np.ndarray) -> tuple[Problem, float]:
        """The convex problem that touches the objective at `weights`, and how far above it lies there."""
        problem, beta = self.problem, self.problem.loss.beta
        batch, model = problem.batch, self._model(weights)
        counts, log_totals = model.counts(
            problem.scorer, beta, excluded=self._excluded(), what="all", n_jobs=self.n_jobs
        )
        parts = np.flatnonzero(counts)
        example = np.searchsorted(batch.part_ptr, parts, side="right") - 1
        gold_ptr = offsets(np.bincount(example, minlength=problem.n_examples))
        soft = PartLists(gold_ptr, parts - batch.part_ptr[example], counts[parts])
        scores = problem.scorer.scores(weights, self.n_jobs)
        expected = np.bincount(example, counts[parts] * scores[parts], minlength=problem.n_examples)
        constant = float(batch.example_weight @ (log_totals / beta - expected))
        return problem.with_gold(soft), constant

    def _model(self, weights: np.ndarray) -> LinearModel:
        problem = self.problem
        return LinearModel(problem.structure, problem.scorer.maps, weights)

    def _excluded(self) -> Excluded:
        problem = self.problem
        return Excluded.all_but(self.codes, problem.lengths, problem.structure.kinds[0].width)


def _start(problem: Problem, solver: Solver, state: Any, estimator: Any) -> Any:
    """A state for the new problem: dual variables kept where the solver has them, else a fresh one."""
    if isinstance(state, EGState):
        return _refreshed(problem, state)
    state = solver.init(problem, random_generator(estimator.random_state))
    if not isinstance(state, EGState):
        return state
    # The usual start, at the true label itself, is no distribution of the kind that potentials describe here.
    batch = problem.batch
    state.theta[:] = 0.0
    parts = problem.gold_places()
    is_row = parts < np.repeat(batch.part_ptr[1:] - batch.n_tied, np.diff(batch.gold_ptr))
    state.theta[parts[is_row]] = GOLD_POTENTIAL * batch.gold_amount[is_row]
    state.visited[:] = 1
    return _refreshed(problem, state)


def _refreshed(problem: Problem, state: EGState) -> EGState:
    point = state.point()
    refresh(problem, point)
    state.average[:] = point.v
    return state
