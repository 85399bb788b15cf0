"""The solver `auto` for β = ∞ if attributes are few and l2 is weak: L-BFGS on a β that grows.

It is for classes, and for chains with dense attributes.

Coordinate ascent takes more passes the further a visit moves the scores of its example, Σ ‖x‖² / l2. L-BFGS knows the
curvature and does not suffer, but it needs a finite β. At a finite β the loss exceeds that of β = ∞ by at most H(α) /
β. So a few values of β, each from the weights of the one before, end within the tolerance. The α_i = p_i(w) of its
points, and their mixtures, are points of the dual for β = ∞ too:

    D(Σ_k a_k α_k) = Σ_k a_k γ cost(α_k) − ‖Σ_k a_k v(α_k)‖² / (2 l2).

If nearly all margins can be kept, few examples bend P and no quadratic model holds for long. Then coordinate ascent
takes over, and also if L-BFGS takes longer than expected.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Set
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from partwise.core.evaluation import Evaluation
from partwise.core.losses import Loss
from partwise.core.problem import Problem
from partwise.solvers.base import Certificate, Memory, Solver, StepInfo, check_precision
from partwise.solvers.dual.chain_cd import ChainCoordinateAscent, ChainState
from partwise.solvers.dual.crammer_singer import ClassState, CrammerSinger
from partwise.solvers.effort import (
    evaluation_effort,
    is_mostly_dense,
    online_pass_effort,
    pull_of_an_example,
)
from partwise.solvers.needs import Needs
from partwise.solvers.primal.curvature import columns_of, has_whole_blocks, is_worthwhile
from partwise.solvers.primal.lbfgs import LBFGS, LBFGSState
from partwise.solvers.primal.mixture_bound import mixture_bound

SMOOTH, ONLINE = 0, 1
_FIRST_BETA = 4.0  # the first β, divided by γ, for costs of about one
_SHARPENING, _LEAST_SHARPENING = 8.0, 1.5  # the most and the least that β grows at a time
_DONE = 0.1  # β grows if the next step may gain less than this share of H / β
# Shares of the tolerance that H / β is to take in the end, and takes at most.
_SMOOTHING, _MOST_SMOOTHING = 0.5, 0.6
_WORTH_A_BOUND = 0.3  # a bound is looked for if the next step may gain less than this share of the tolerance,
_FALL = 0.7  # and again if it may gain less than this share of what it might have gained then
_N_KEPT = 15  # points whose mixtures are bounds
_SEPARABLE = 0.1  # share of P(0) below which nearly all margins can be kept
# Passes that coordinate ascent takes if they cannot, for each unit of the pull of an example.
_PASSES_BY_PULL = 5.0
_EVALUATIONS = 50.0  # evaluations that L-BFGS takes over all values of β
_MOST_COLUMNS = 300  # attributes: more were not measured, and L-BFGS needs more evaluations for more of them
_PATIENCE = 2.0  # L-BFGS gives up after this many times the effort expected of coordinate ascent
STRONG_PULL = 150.0  # pull of a chain with dense attributes above which visits undo each other
_MOST_PASSES = 1000.0  # evaluations after which L-BFGS gives up

_PRIMAL = tuple(f"primal_{name}" for name in LBFGSState._fields)
_OWN = ("mode", "beta", "passes", "images", "costs", "n_kept", "bound", "looked")
_make: Any = namedtuple


def _fields_with(dual: Any) -> Any:
    return _make("_Fields", (*_OWN, *_PRIMAL, *(f"dual_{name}" for name in dual._fields)))


class _Both:
    """The states of both solvers; the state of L-BFGS belongs to the current β.

    `mode` is the solver at work, and `passes` are the evaluations of L-BFGS so far. `images` (…, n_weights) and `costs`
    are v and the expected cost of its last points, of which there were `n_kept`. `bound` is the best D. `looked` is
    the gain that the next step promised when a bound was looked for last.
    """

    __slots__ = ()
    of_dual: ClassVar[Any]
    ascent: ClassVar[str]

    def primal(self: Any) -> LBFGSState:
        return LBFGSState(*(getattr(self, name) for name in _PRIMAL))

    def dual(self: Any) -> Any:
        return self.of_dual(*(getattr(self, f"dual_{name}") for name in self.of_dual._fields))

    def with_primal(self: Any, state: LBFGSState) -> Any:
        return self._replace(**dict(zip(_PRIMAL, state, strict=True)))

    def with_dual(self: Any, state: Any) -> Any:
        return self._replace(**{f"dual_{name}": each for name, each in state._asdict().items()})

    def at_work(self: Any) -> str:
        """The name of the solver that is at work."""
        return ("lbfgs", self.ascent)[int(self.mode[0])]


class HardAutoState(_Both, _fields_with(ClassState)):  # type: ignore[misc]
    """The state for classes."""

    __slots__ = ()
    of_dual, ascent = ClassState, "crammer-singer"


class HardChainState(_Both, _fields_with(ChainState)):  # type: ignore[misc]
    """The state for chains."""

    __slots__ = ()
    of_dual, ascent = ChainState, "chain-cd"

    def growing(self) -> tuple[str, ...]:
        """Names of the arrays that grow during a run."""
        return tuple(f"dual_{name}" for name in self.dual().growing())

    def is_sound(self) -> bool:
        """Whether all indices read from a file are within their arrays."""
        return bool(self.dual().is_sound())


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


def prefers_smoothing(problem: Problem) -> bool:
    """Whether L-BFGS is expected to be faster than coordinate ascent for β = ∞, unless margins can be kept."""
    is_able = type(problem) is Problem and problem.structure.is_first_order and not problem.l1
    if not is_able or problem.loss.gamma == 0.0 or not _is_told_all(problem):
        return False
    if not problem.structure.n_classes:
        return is_mostly_dense(problem) and pull_of_an_example(problem) > STRONG_PULL
    return _effort_of_ascent(problem) > _EVALUATIONS * evaluation_effort(problem)


def _is_told_all(problem: Problem) -> bool:
    """Whether L-BFGS knows the curvature of all attributes, and they are few."""
    if not is_worthwhile(problem) or not has_whole_blocks(problem):
        return False
    return all(columns_of(rows) <= _MOST_COLUMNS for rows in problem.scorer.kinds)


def _effort_of_ascent(problem: Problem) -> float:
    """The effort expected of coordinate ascent if margins cannot be kept."""
    pull = float(problem.example_weight.mean()) * pull_of_an_example(problem)
    return _PASSES_BY_PULL * pull * online_pass_effort(problem)


@dataclass(frozen=True)
class HardAuto(Solver):
    """L-BFGS on a β that grows, or exact coordinate ascent; for classes or chains and β = ∞.

    Parameters
    ----------
    parts : {"classes", "chains"}
        The parts of the problem.
    precision : {"auto", "single", "double"}
        Precision of the state of coordinate ascent.
    tol : float
        The relative gap to reach; set by the driver.
    """

    parts: Literal["classes", "chains"] = "classes"
    precision: Literal["auto", "single", "double"] = "auto"
    tol: float = field(default=1e-3, repr=False)
    name = "auto"

    @classmethod
    def of(cls, problem: Problem) -> HardAuto:
        """The solver for the parts of the problem."""
        return cls("classes" if problem.structure.n_classes else "chains")

    @property
    def needs(self) -> Needs:
        return Needs(
            loss="hard", features=True, classes=self.parts == "classes", first_order=True, ridge=True
        )

    @property
    def online(self) -> CrammerSinger | ChainCoordinateAscent:
        return (
            CrammerSinger(self.precision)
            if self.parts == "classes"
            else ChainCoordinateAscent(precision=self.precision)
        )

    def check(self, problem: Problem) -> None:
        check_precision(self.precision)

    def memory_needed(self, problem: Problem) -> Memory:
        needed = self.online.memory_needed(problem)
        vectors = 2 * LBFGS().memory + _N_KEPT
        return needed._replace(weights=needed.weights + 8 * vectors * problem.n_weights)

    def on_shards(self, problem: Problem) -> Solver:
        return self.online

    def init(self, problem: Problem, random: np.random.Generator) -> Any:
        own = (
            np.zeros(1, np.int64), np.full(1, _FIRST_BETA / max(problem.loss.gamma, 1e-300)), np.zeros(1),
            np.zeros((_N_KEPT, problem.n_weights)), np.zeros(_N_KEPT), np.zeros(1, np.int64), np.zeros(1),
            np.full(1, np.inf),
        )  # fmt: skip
        made = HardAutoState if self.parts == "classes" else HardChainState
        return made(*own, *LBFGS().init(problem, random), *self.online.init(problem, random))

    def carry_over(self, problem: Problem, state: Any, changed: Set[str]) -> Any:
        """Coordinate ascent keeps its distributions. L-BFGS keeps its weights, and β is smaller."""
        if state.mode[0] == ONLINE:
            state.bound[0] = 0.0
            return state.with_dual(self.online.carry_over(problem, state.dual(), changed))
        fresh = self.init(problem, np.random.default_rng(0))
        fresh.beta[0] = max(float(fresh.beta[0]), float(state.beta[0]) / _SHARPENING)
        return fresh._replace(primal_weights=state.primal_weights)

    # -- steps ------------------------------------------------------------------------------------

    def step(self, problem: Problem, state: Any, random: np.random.Generator) -> tuple[Any, StepInfo]:
        if state.mode[0] == ONLINE:
            dual, info = self.online.step(problem, state.dual(), random)
            return state.with_dual(dual), info
        smooth = _Smoothed.of(problem, float(state.beta[0]))
        primal, info = LBFGS().step(smooth, state.primal(), random)
        state = state.with_primal(primal)
        state.passes[0] += info.passes
        value, gain = float(primal.value[0]), info.estimated_gap
        assert smooth.last is not None
        weights, cost, entropy = smooth.last
        if weights is primal.weights:
            self._keep(problem, state, cost)
        smoothing = entropy / smooth.loss.beta
        if smoothing > _MOST_SMOOTHING * self.tol * value:
            if gain < _DONE * smoothing:
                state = self._sharpen(problem, state, smoothing)
        elif gain < _WORTH_A_BOUND * self.tol * value and gain < _FALL * float(state.looked[0]):
            state.looked[0] = gain
            self._look(problem, state)
        if self._is_slow(problem, state):
            state.mode[0] = ONLINE
        gap = value - float(state.bound[0])  # a bound for β = ∞ too, whose P is smaller
        return state, StepInfo(info.passes, value - gap, gap)

    def _keep(self, problem: Problem, state: Any, cost: float) -> None:
        row = int(state.n_kept[0]) % _N_KEPT
        state.images[row] = problem.l2 * state.primal_weights - state.primal_gradient
        state.costs[row] = cost
        state.n_kept[0] += 1

    def _look(self, problem: Problem, state: Any) -> None:
        """Look for the best bound of mixtures of the last points."""
        n = int(state.n_kept[0])
        rows = [k % _N_KEPT for k in range(max(0, n - _N_KEPT), n)]
        if rows:
            gap = float(state.primal_value[0] - state.bound[0])
            found = mixture_bound(problem, state.images[rows], state.costs[rows], gap)
            state.bound[0] = max(float(state.bound[0]), found)

    def _sharpen(self, problem: Problem, state: Any, smoothing: float) -> Any:
        """Go on with a larger β from the same weights, or with coordinate ascent if margins can be kept."""
        value = float(state.primal_value[0])
        if value < _SEPARABLE * problem.primal(np.zeros(problem.n_weights)):
            state.mode[0] = ONLINE
            return state
        wanted = smoothing / (_SMOOTHING * self.tol * value)
        state.beta[0] *= min(max(wanted, _LEAST_SHARPENING), _SHARPENING)
        state.looked[0] = np.inf
        fresh = LBFGS().init(problem, np.random.default_rng(0))
        return state.with_primal(fresh._replace(weights=state.primal_weights))

    def _is_slow(self, problem: Problem, state: Any) -> bool:
        spent = float(state.passes[0]) * evaluation_effort(problem)
        return spent > _PATIENCE * _effort_of_ascent(problem) or state.passes[0] > _MOST_PASSES

    # -- certificate ------------------------------------------------------------------------------

    def certificate(self, problem: Problem, state: Any) -> tuple[Any, Certificate]:
        """The certificate of the solver at work, with the best dual of both; the true labels have a dual of 0."""
        if state.mode[0] == ONLINE:
            dual, found = self.online.certificate(problem, state.dual())
            state = state.with_dual(dual)
            bound = max(float(state.bound[0]), found.dual)
            return state, Certificate(found.primal, bound, found.weights, found.drift)
        if not math.isnan(state.primal_value[0]):
            self._look(problem, state)
        weights = state.primal_weights.copy()
        return state, Certificate(problem.primal(weights), float(state.bound[0]), weights)
