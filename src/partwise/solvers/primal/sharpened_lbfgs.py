"""L-BFGS on sharper and sharper losses, for β = ∞: `lbfgs-sharpened`.

Coordinate ascent takes more passes the further a visit moves the scores of its example, Σ ‖x‖² / l2. L-BFGS knows the
curvature and does not suffer, but it needs a finite β. At a finite β the loss exceeds that of β = ∞ by at most H(α) /
β. So a few values of β, each from the weights of the one before, end within the tolerance. The α_i = p_i(w) of its
points, and their mixtures, are points of the dual for β = ∞ too:

    D(Σ_k a_k α_k) = Σ_k a_k γ cost(α_k) − ‖Σ_k a_k v(α_k)‖² / (2 l2).

If nearly all margins can be kept, few examples bend P, and no quadratic model holds for long: it gives way then.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from partwise.core.evaluation import Evaluation
from partwise.core.losses import Loss
from partwise.core.problem import Problem
from partwise.solvers.base import Certificate, Memory, Solver, StepInfo, vectors_bytes
from partwise.solvers.needs import Needs
from partwise.solvers.primal.lbfgs import LBFGS, LBFGSState
from partwise.solvers.primal.mixture_bound import mixture_bound
from partwise.solvers.work_model import evaluations_of_sharpened

_FIRST_BETA = 4.0  # the first β, divided by γ, for costs of about one
_OF_GAP = 0.05  # share of the gap at this β that the next step may gain at least
_SHARPENING, _LEAST_SHARPENING = 8.0, 1.5  # the most and the least that β grows at a time
_DONE = 0.1  # β grows if the next step may gain less than this share of H / β
# Shares of the tolerance that H / β is to take in the end, and takes at most.
_SMOOTHING, _MOST_SMOOTHING = 0.5, 0.6
_WORTH_A_BOUND = 0.3  # a bound is looked for if the next step may gain less than this share of the tolerance,
_FALL = 0.7  # and again if it may gain less than this share of what it might have gained then
_N_KEPT = 15  # points whose mixtures are bounds
# If P is below this share of P(0), nearly all margins can be kept. It may then need 20 times the evaluations: 10,000
# separable rows of 200 columns take 16 s, and 0.8 s by coordinate ascent.
_SEPARABLE, _OF_SEPARABLE = 0.1, 20.0

_make: Any = namedtuple
_OWN = ("beta", "smoothing", "gain", "images", "costs", "n_kept", "bound", "promised")


class SharpenedState(_make("_Fields", (*_OWN, *LBFGSState._fields))):  # type: ignore[misc]
    """The state of L-BFGS at the current `beta`, and what bounds are made of.

    `smoothing` is H / β, and `gain` is what the next step may gain at this β. `images` (15, n_weights) and `costs` are
    v and the expected cost of the last points, of which there were `n_kept`. `bound` is the best D.
    `promised` is the gain that the next step promised when a bound was looked for last at this β.
    """

    __slots__ = ()

    def smooth(self) -> LBFGSState:
        return LBFGSState(*(getattr(self, name) for name in LBFGSState._fields))

    def with_smooth(self, state: LBFGSState) -> SharpenedState:
        with_it: SharpenedState = self._replace(**state._asdict())
        return with_it


class _Smoothed(Problem):
    """The problem at a finite β; it keeps the weights of its last evaluation, with the cost and the entropy there."""

    last: tuple[np.ndarray, float, float] | None = None

    @classmethod
    def of(cls, problem: Problem, beta: float) -> _Smoothed:
        scorer, gold, cost, weight, loss, l2, l1 = problem._parts()
        made = cls(scorer, gold, cost, weight, Loss(beta, loss.gamma), l2, l1, _kept=problem._kept)
        made.batch = problem.batch
        return made

    def at_weights(self, weights: np.ndarray, *scales: Any, **options: Any) -> Evaluation:
        found = super().at_weights(weights, *scales, **options)
        cost, entropy = (float(self.example_weight @ each) for each in (found.cost, found.entropy))
        self.last = weights, self.loss.gamma * cost, entropy
        return found


@dataclass(frozen=True)
class SharpenedLBFGS(Solver):
    """L-BFGS on a β that grows until the rest of the smoothing is a share of the tolerance.

    Parameters
    ----------
    memory : int
        Number of pairs kept; each takes two vectors of weights.
    tol : float
        The relative gap to reach; set by the driver.
    """

    memory: int = 10
    tol: float = field(default=1e-3, repr=False)
    name = "lbfgs-sharpened"
    needs = Needs(loss="hard", features=True, whole_labels=True, exact=True, ridge=True)

    @property
    def _smooth(self) -> LBFGS:
        return LBFGS(self.memory)

    def check(self, problem: Problem) -> None:
        self._smooth.check(problem)

    def memory_needed(self, problem: Problem) -> Memory:
        return Memory(weights=vectors_bytes(problem, 2 * self.memory + _N_KEPT))

    def passes_expected(self, problem: Problem) -> float:
        return evaluations_of_sharpened(problem)

    def gives_way(self, problem: Problem, state: SharpenedState) -> float:
        """Above 1 if P, which is no larger than P at this β, is so small that nearly all margins can be kept."""
        zero = np.zeros(problem.n_weights)
        at_zero = problem.kept(f"P at zero, {problem.loss.gamma}", lambda: problem.primal(zero))
        return _OF_SEPARABLE if state.value[0] < _SEPARABLE * at_zero else 1.0

    def init(self, problem: Problem, random: np.random.Generator) -> SharpenedState:
        return SharpenedState(
            np.full(1, _FIRST_BETA / (problem.loss.gamma or 1.0)), np.full(1, np.inf), np.full(1, np.inf),
            np.zeros((_N_KEPT, problem.n_weights)), np.zeros(_N_KEPT), np.zeros(1, np.int64), np.zeros(1),
            np.full(1, np.inf), *self._smooth.init(problem, random),
        )  # fmt: skip

    def carry_over(self, problem: Problem, state: SharpenedState, changed: Set[str]) -> SharpenedState:
        """The weights stay, and β is smaller."""
        fresh = self.from_weights(problem, state.weights, np.random.default_rng(0))
        fresh.beta[0] = max(float(fresh.beta[0]), float(state.beta[0]) / _SHARPENING)
        return fresh

    def from_weights(
        self,
        problem: Problem,
        weights: np.ndarray,
        random: np.random.Generator,
        before: SharpenedState | None = None,
    ) -> SharpenedState:
        """β starts again, unless the state before had these weights."""
        if before is not None and np.array_equal(before.weights, weights):
            return before
        return self.init(problem, random)._replace(weights=weights.copy())

    # -- steps ------------------------------------------------------------------------------------

    def step(
        self, problem: Problem, state: SharpenedState, random: np.random.Generator
    ) -> tuple[SharpenedState, StepInfo]:
        if self._is_done(state):
            state = self._sharpened(problem, state)
        smoothed = _Smoothed.of(problem, float(state.beta[0]))
        smooth, info = self._smooth.step(smoothed, state.smooth(), random)
        state = state.with_smooth(smooth)
        assert smoothed.last is not None
        weights, cost, entropy = smoothed.last
        if weights is smooth.weights:
            self._keep(problem, state, cost)
        state.smoothing[0], state.gain[0] = entropy / smoothed.loss.beta, info.estimated_gap
        if self._is_done(state):  # as far as the model of L-BFGS tells; bounds at this β tell surely
            _, at_beta = self._smooth.certificate(smoothed, state.smooth())
            state.gain[0] = max(info.estimated_gap, _OF_GAP * at_beta.gap)
        value, gain = float(smooth.value[0]), info.estimated_gap  # P at this β, which is at least P
        is_near = gain < min(_WORTH_A_BOUND * self.tol * value, _FALL * float(state.promised[0]))
        if is_near and not self._is_blunt(state):
            state.promised[0] = gain
            self._look(problem, state)
        has_looked = state.promised[0] < np.inf
        gap = value - float(state.bound[0]) if has_looked else gain + float(state.smoothing[0])
        return state, StepInfo(info.passes, value - gap, gap)

    def _is_blunt(self, state: SharpenedState) -> bool:
        """Whether H / β is too large for the tolerance."""
        return bool(state.smoothing[0] > _MOST_SMOOTHING * self.tol * state.value[0])

    def _is_done(self, state: SharpenedState) -> bool:
        """Whether the next step may gain little beside such a H / β."""
        return self._is_blunt(state) and bool(state.gain[0] < _DONE * state.smoothing[0])

    def _sharpened(self, problem: Problem, state: SharpenedState) -> SharpenedState:
        """The same weights with a larger β."""
        wanted = float(state.smoothing[0] / (_SMOOTHING * self.tol * state.value[0]))
        state.beta[0] *= min(max(wanted, _LEAST_SHARPENING), _SHARPENING)
        state.smoothing[0] = state.gain[0] = state.promised[0] = np.inf
        fresh = self._smooth.init(problem, np.random.default_rng(0))
        return state.with_smooth(fresh._replace(weights=state.weights))

    def _keep(self, problem: Problem, state: SharpenedState, cost: float) -> None:
        row = int(state.n_kept[0]) % _N_KEPT
        state.images[row] = problem.l2 * state.weights - state.gradient
        state.costs[row] = cost
        state.n_kept[0] += 1

    def _look(self, problem: Problem, state: SharpenedState) -> None:
        """Look for the best bound of mixtures of the last points."""
        n = int(state.n_kept[0])
        rows = [k % _N_KEPT for k in range(max(0, n - _N_KEPT), n)]
        images, costs, gap = state.images[rows], state.costs[rows], float(state.value[0] - state.bound[0])
        if rows and np.isfinite(np.dot(costs, costs) + gap + np.vdot(images, images) / problem.l2):
            found = mixture_bound(problem, images, costs, gap)
            state.bound[0] = max(float(state.bound[0]), found)

    # -- certificate ------------------------------------------------------------------------------

    def certificate(self, problem: Problem, state: SharpenedState) -> tuple[SharpenedState, Certificate]:
        """P at β = ∞, and the best D of mixtures of the last points; the true labels have a D of 0."""
        if not math.isnan(state.value[0]):
            self._look(problem, state)
        # Without a cost no weights are better than zero.
        weights = state.weights.copy() if problem.loss.gamma else np.zeros(problem.n_weights)
        return state, Certificate(problem.primal(weights), float(state.bound[0]), weights)
