"""The solver `auto` for smooth losses: online dual steps or quasi-Newton steps, whichever is expected to end first.

The effort of a pass of either solver is known (`effort.py`), and the gap of the solver at work is watched. The solver
at work goes on while it is expected to need less effort than the other one. Otherwise the other solver takes over from
the same point: L-BFGS from the mean of the weights, exponentiated gradient from the distributions of the model, α_i =
p_i(w). Each turn is at least twice as long as the turn before, so that wrong guesses cost a bounded share of the run.
The best lower bound holds for both.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Set
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from partwise.core.problem import Problem
from partwise.solvers.base import Certificate, Memory, Solver, StepInfo, check_precision
from partwise.solvers.dual.coded import move_to_model
from partwise.solvers.dual.coded_pass import CodedPoint
from partwise.solvers.dual.exponentiated_gradient import ExponentiatedGradient
from partwise.solvers.dual.potentials import EGState, refresh
from partwise.solvers.effort import (
    dense_share,
    evaluation_effort,
    evaluations_expected,
    is_mostly_dense,
    is_steep,
    online_pass_effort,
    stiffness,
)
from partwise.solvers.needs import Needs
from partwise.solvers.primal.curvature import is_worthwhile
from partwise.solvers.primal.lbfgs import LBFGS, LBFGSState
from partwise.solvers.sampling import forget_gaps

ONLINE, BATCH = 0, 1
_FEWEST_PASSES = 6.0  # passes to a relative gap of 1e-3 that online steps take where they are fastest
_FEWEST_EVALUATIONS = 20.0  # evaluations that L-BFGS takes from zero where it is fastest
_FEWEST_OF_EASY = 12.0  # the same for dense classes of a stiffness below
_EASY = 1e-3
# Online steps take as many passes as L-BFGS takes evaluations if there are so many examples; with more examples they
# take fewer, like 1 / √n. The second number is for dense attributes, whose curvature L-BFGS knows.
_FEW, _FEW_DENSE = 25.0, 225.0
_SHORT = 20.0  # positions: longer chains count as several, since labels far apart hardly depend on each other
_STIFF = 1.0  # stiffness above which online steps on dense rows need many times as many passes
_DOMINANT = 0.9  # share of dense attributes in Σ ‖x‖² above which they decide how many passes there are
_TRIAL = 2  # steps of L-BFGS after which the overlap of dense classes is known
_FITTED = 0.15  # if P is below this share of P(0) after the trial, classes hardly overlap, and L-BFGS is slow
_FEWEST_STEPS = 4  # steps before a solver is judged: the first gaps say little
# Of the effort that L-BFGS is expected to need, which online steps may take before they are judged.
_SHARE = 0.4
# Passes that online steps take in any case without dense attributes: L-BFGS is seldom faster.
_LEAST_OF_SPARSE = 40.0
_CLOSE = math.log(0.03)  # logarithm of a relative gap below which L-BFGS needs few evaluations
# Passes before such a gap counts: the acceleration of online steps has begun by then.
_LEAST_FROM_CLOSE = 20.0
_PATIENCE = 3.0  # L-BFGS is judged after this many times the evaluations expected
_MOST_EXPECTED = 70.0  # evaluations that are expected at most once L-BFGS is at work
_DOUBT = 2.0  # L-BFGS gives up if online steps are expected to be this many times faster
_MOST_WAITED = 10.0  # turns of L-BFGS are at most this many times the evaluations expected
_MOST_PASSES = 300.0  # passes that a solver without progress is assumed to need
_TELLING = math.log(0.5)  # logarithm of a relative gap below which weights are a better start than zero
# Restart from zero if the new l2 is below this share of the old one: warm starts no longer help.
_FAR_WEAKER = 0.05
_LONGEST = 64  # gaps of a turn that are kept

_DUAL = tuple(f"dual_{name}" for name in EGState._fields)
_PRIMAL = tuple(f"primal_{name}" for name in LBFGSState._fields)
_OWN = ("mode", "effort", "least", "rival", "bound", "trace", "n_traced")
_make: Any = namedtuple
_Fields: Any = _make("_Fields", (*_OWN, *_DUAL, *_PRIMAL))


class AutoState(_Fields):
    """The states of both solvers and their progress.

    `mode` is the solver at work. `effort` (2,) is the effort of a pass of either. `least` is the effort of a turn
    before it is judged. `rival` is the effort that the other solver is expected to need. `bound` is the best D. `trace`
    (…, 2) holds the effort and the logarithm of the relative gap after the last steps of the turn, of which there were
    `n_traced`.
    """

    __slots__ = ()

    def dual(self) -> EGState:
        """The state of the online solver; arrays are not copied."""
        return EGState(*(getattr(self, name) for name in _DUAL))

    def primal(self) -> LBFGSState:
        return LBFGSState(*(getattr(self, name) for name in _PRIMAL))

    def at_work(self) -> str:
        """The name of the solver that is at work."""
        return ("eg-gap", "lbfgs")[int(self.mode[0])]

    @property
    def mu(self) -> np.ndarray | None:
        """μ of all parts, (n_parts,), empty if the online solver keeps none; None if L-BFGS is at work."""
        return self.dual_mu if self.mode[0] == ONLINE else None

    def growing(self) -> tuple[str, ...]:
        """Names of the arrays that are empty until L-BFGS begins."""
        return _PRIMAL

    def unbegun(self) -> AutoState:
        """The state before L-BFGS has begun: an earlier run, which this one goes on from, may have ended there."""
        empty = {name: np.zeros((0,) * each.ndim, each.dtype) for name, each in self._asdict().items()}
        return self._replace(**{name: empty[name] for name in _PRIMAL})

    def is_sound(self) -> bool:
        """Whether arrays read from a file fit together."""
        n_weights = len(self.dual_v)
        sizes = {len(self.primal_weights), len(self.primal_gradient), len(self.primal_anchor)}
        is_begun = sizes == {n_weights} and self.primal_moves.shape == self.primal_changes.shape
        return bool(
            self.mode[0] in (ONLINE, BATCH) and (is_begun or (sizes == {0} and self.mode[0] == ONLINE))
        )

    def with_primal(self, state: LBFGSState) -> AutoState:
        return self._replace(**dict(zip(_PRIMAL, state, strict=True)))


@dataclass(frozen=True)
class Auto(Solver):
    """Online exponentiated gradient and L-BFGS in turns, by how the gap falls; for smooth losses.

    Parameters
    ----------
    precision : {"auto", "single", "double"}
        Precision of the online solver's state.
    lean : bool
        Whether that state is lean, see :class:`ExponentiatedGradient`.
    tol : float
        The relative gap to reach; set by the driver.
    """

    precision: Literal["auto", "single", "double"] = "auto"
    lean: bool = False
    tol: float = field(default=1e-3, repr=False)
    name = "auto"
    needs = Needs(loss="smooth", features=True, exact=True, whole_labels=True)

    @property
    def online(self) -> ExponentiatedGradient:
        return ExponentiatedGradient("gap", "newton", precision=self.precision, lean=self.lean)

    def check(self, problem: Problem) -> None:
        check_precision(self.precision)

    def memory_needed(self, problem: Problem) -> Memory:
        """That of the online solver, and the pairs of L-BFGS, which only dense or few attributes are sure to need."""
        needed, pairs = self.online.memory_needed(problem), history_bytes(problem.n_weights)
        if is_worthwhile(problem):
            return needed._replace(weights=needed.weights + pairs)
        return needed._replace(seldom=pairs)

    def leaner(self, problem: Problem) -> Auto | None:
        return None if self.online.leaner(problem) is None else replace(self, lean=True)

    def on_shards(self, problem: Problem) -> Solver:
        """The solver that is likely to be the faster one: there is no change from one to the other on shards."""
        if is_worthwhile(problem):
            return LBFGS()
        return ExponentiatedGradient("gap", "newton", acceleration=None, precision=self.precision)

    def init(self, problem: Problem, random: np.random.Generator) -> AutoState:
        effort = np.array([online_pass_effort(problem), evaluation_effort(problem)])
        dual = self.online.init(problem, random)
        nothing = {
            name: np.zeros((0,) * array.ndim, array.dtype)
            for name, array in zip(_PRIMAL, LBFGS(1).init(_Sizes(), random), strict=True)  # type: ignore[arg-type]
        }
        state = AutoState(
            np.zeros(1, np.int64), effort, np.zeros(1), np.full(1, np.nan), np.full(1, -np.inf),
            np.zeros((_LONGEST, 2)), np.zeros(1, np.int64), *dual, **nothing,
        )  # fmt: skip
        if _begins_with_batch(problem, effort) or _tries_batch(problem, effort):
            return self._begin_batch(problem, state, np.zeros(problem.n_weights), random)
        state.least[0] = _least_online(problem, effort)
        return state

    def carry_over(self, problem: Problem, state: AutoState, changed: Set[str]) -> AutoState:
        """Both solvers keep what they can. Progress is judged anew, and L-BFGS takes over if a fresh fit would start
        with it.

        If l2 changed so much that the solver at work cannot reuse its state, the run starts again as in a first fit.
        """
        fresh = np.random.default_rng(0)
        shrinkage = problem.l2 / float(state.dual_step_l2[0])
        if state.mode[0] == ONLINE and self.online.is_behind(problem, state.dual(), changed):
            return self.init(problem, fresh)
        if state.mode[0] == BATCH and shrinkage < _FAR_WEAKER:
            return self.init(problem, fresh)
        state.bound[0], state.rival[0], state.n_traced[0] = -np.inf, np.nan, 0
        state.effort[:] = online_pass_effort(problem), evaluation_effort(problem)
        self.online.carry_over(problem, state.dual(), changed)
        if len(state.primal_weights):
            primal = LBFGS().carry_over(problem, state.primal(), changed)
            if state.mode[0] == BATCH and not primal.weights.any():
                return self.init(problem, fresh)
            state = state.with_primal(primal)
        if state.mode[0] == ONLINE and _begins_with_batch(problem, state.effort):
            weights = shrinkage * problem.weights_at(problem.settled(state.dual_v.astype(np.float64)))
            return self._begin_batch(problem, state, weights, fresh)
        return state

    def grown(
        self, problem: Problem, old: Problem, state: AutoState, random: np.random.Generator
    ) -> AutoState | None:
        """The online solver's potentials stay; L-BFGS starts at their weights if it comes first."""
        own, fresh = self.as_dual(old, state), self.init(problem, random)
        dual = fresh.dual()
        if not self.online.take_over(problem, dual, own):
            return None
        if len(fresh.primal_weights):
            fresh.primal_weights[:] = problem.weights_at(dual.v.astype(np.float64))
        return fresh

    # -- steps ------------------------------------------------------------------------------------

    def step(
        self, problem: Problem, state: AutoState, random: np.random.Generator
    ) -> tuple[AutoState, StepInfo]:
        if state.mode[0] == ONLINE:
            _, info = self.online.step(problem, state.dual(), random)
        else:
            primal, info = LBFGS().step(problem, state.primal(), random)
            state = state.with_primal(primal)
            state.bound[0] = max(float(state.bound[0]), float(primal.value[1]))
            value = float(primal.value[0])
            gap = min(info.estimated_gap, value - float(state.bound[0]))
            info = info._replace(dual=value - gap, estimated_gap=gap)
        self._trace(state, info)
        if _has_failed_trial(problem, state):
            state.mode[0], state.n_traced[0] = ONLINE, 0
            state.least[0] = _least_online(problem, state.effort)
        elif self._is_hopeless(problem, state):
            state = self._hand_over(problem, state, random)
        return state, info

    def _trace(self, state: AutoState, info: StepInfo) -> None:
        spent = info.passes * float(state.effort[state.mode[0]])
        n = int(state.n_traced[0])
        so_far = float(state.trace[(n - 1) % _LONGEST, 0]) if n else 0.0
        gap, size = info.estimated_gap, abs(info.dual + info.estimated_gap)
        is_known = 0.0 < gap < math.inf and size > 0.0
        log_gap = math.log(gap / size) if is_known else -math.inf if gap <= 0.0 else math.inf
        state.trace[n % _LONGEST] = so_far + spent, log_gap
        state.n_traced[0] += 1

    def _is_hopeless(self, problem: Problem, state: AutoState) -> bool:
        """Whether the other solver is expected to end before the one at work; if so, notes what this one would need."""
        n, is_online, rival = int(state.n_traced[0]), state.mode[0] == ONLINE, float(state.rival[0])
        spent, log_gap = state.trace[(n - 1) % _LONGEST]
        is_close = is_online and math.isnan(rival) and log_gap < _CLOSE
        least = min(state.least[0], _LEAST_FROM_CLOSE * state.effort[ONLINE] if is_close else math.inf)
        if n < _FEWEST_STEPS or spent < least:
            return False
        left = self._left(state)
        if math.isnan(rival):  # never tried
            times = evaluations_expected(problem, is_close)
            if not is_online:
                times = min(5.0 * _FEWEST_PASSES * max(stiffness(problem), 1.0), _MOST_PASSES)
            rival = times * float(state.effort[1 - state.mode[0]])
        if left <= rival * (1.0 if is_online else _DOUBT):
            return False
        state.rival[0] = min(left, _MOST_PASSES * float(state.effort[state.mode[0]]))
        return True

    def _left(self, state: AutoState) -> float:
        """The effort to reach `tol` at the rate at which the gap fell over the second half of the turn."""
        n = int(state.n_traced[0])
        kept = state.trace[[k % _LONGEST for k in range(max(0, n - _LONGEST), n)]]
        now, then = kept[-1], kept[len(kept) // 2 - 1]
        to_go = now[1] - math.log(self.tol)
        if not math.isfinite(now[1]) or to_go <= 0.0:
            return 0.0 if to_go <= 0.0 else math.inf
        fall = (then[1] - now[1]) / max(now[0] - then[0], 1.0)
        return to_go / fall if fall > 0.0 else math.inf

    # -- handing over -----------------------------------------------------------------------------

    def _hand_over(self, problem: Problem, state: AutoState, random: np.random.Generator) -> AutoState:
        spent = float(state.trace[(int(state.n_traced[0]) - 1) % _LONGEST, 0])
        if state.mode[0] == BATCH:
            self._begin_online(problem, state)
        else:
            weights = problem.weights_at(problem.settled(state.dual_average.astype(np.float64)))
            if state.trace[(int(state.n_traced[0]) - 1) % _LONGEST, 1] > _TELLING:
                weights = np.zeros(problem.n_weights)
            if len(state.primal_weights) and state.primal_value[0] <= problem.primal(weights):
                state.mode[0] = BATCH  # L-BFGS goes on at its own weights
            else:
                state = self._begin_batch(problem, state, weights, random)
        state.least[0] = max(float(state.least[0]), 2.0 * spent)
        state.n_traced[0] = 0
        return state

    def _begin_batch(
        self, problem: Problem, state: AutoState, weights: np.ndarray, random: np.random.Generator
    ) -> AutoState:
        state = state.with_primal(LBFGS().init(problem, random)._replace(weights=weights))
        state.mode[0] = BATCH
        expected = min(evaluations_expected(problem), _MOST_EXPECTED) * float(state.effort[BATCH])
        rival = 0.0 if math.isnan(state.rival[0]) else float(state.rival[0])
        state.least[0] = min(max(_PATIENCE * expected, rival), _MOST_WAITED * expected)
        return state

    def _begin_online(self, problem: Problem, state: AutoState) -> None:
        """Potentials become the model's own scores; step sizes stay."""
        dual, loss = state.dual(), problem.loss
        point = dual.point()
        if isinstance(point, CodedPoint):
            move_to_model(problem, point, state.primal_weights)
        else:
            dual.theta[:] = loss.beta * problem.scores(state.primal_weights)
            if problem.cost.size:
                dual.theta[:] += loss.beta * loss.gamma * problem.cost
        dual.visited[:] = 1
        dual.average[:] = refresh(problem, point)
        dual.n_averaged[0] = 0.0
        if self.online.acceleration is not None:
            self.online.acceleration.lead_from(dual, state.primal_weights)
        forget_gaps(dual.seen, dual.waited, dual.clock)
        state.mode[0] = ONLINE

    def as_dual(self, problem: Problem, state: AutoState) -> EGState:
        """The state of the online solver; if L-BFGS is at work, made from its weights first."""
        if state.mode[0] == BATCH and not np.isnan(state.primal_value[0]):
            self._begin_online(problem, state)
        return state.dual()

    # -- certificate ------------------------------------------------------------------------------

    def certificate(self, problem: Problem, state: AutoState) -> tuple[AutoState, Certificate]:
        """The certificate of the solver at work, with the best dual of both and the weights of the better one."""
        if state.mode[0] == BATCH:
            _, found = LBFGS().certificate(problem, state.primal())
        else:
            _, found = self.online.certificate(problem, state.dual())
        state.bound[0] = max(float(state.bound[0]), found.dual)
        primal, weights = found.primal, found.weights
        if state.mode[0] == ONLINE and len(state.primal_weights) and state.primal_value[0] < primal:
            primal, weights = float(state.primal_value[0]), state.primal_weights.copy()
        return state, Certificate(primal, float(state.bound[0]), weights, found.drift)


def history_bytes(n_weights: int) -> int:
    """Bytes of the pairs that L-BFGS keeps."""
    return 2 * 8 * LBFGS().memory * n_weights


def _begins_with_batch(problem: Problem, effort: np.ndarray) -> bool:
    """Whether L-BFGS comes first: if examples are few, if l1 is far above l2, or if it knows the curvature and online
    steps are slow or not much faster."""
    is_shaped = is_worthwhile(problem)
    is_dense = is_shaped and is_mostly_dense(problem)
    if is_steep(problem):
        return True
    few, n = _FEW_DENSE, float(problem.n_examples)
    if not is_dense:
        n_short = float(problem.lengths.sum()) / _SHORT if problem.structure.forgets_distance else 0.0
        few, n = _FEW, max(n, n_short)
    if math.sqrt(few / n) * effort[ONLINE] > effort[BATCH]:
        return True
    if not is_shaped:
        return False
    stiff = stiffness(problem)
    if not is_dense and dense_share(problem) > _DOMINANT:
        passes = _FEWEST_PASSES * max(stiff / _EASY, 1.0) ** 0.3  # measured on columns of many scales
        return bool(passes * effort[ONLINE] > _FEWEST_EVALUATIONS * effort[BATCH])
    is_easy = is_dense and stiff < _EASY and problem.lengths.max(initial=1) == 1
    fewest = _FEWEST_OF_EASY if is_easy else _FEWEST_EVALUATIONS
    is_cheap = _FEWEST_PASSES * effort[ONLINE] > fewest * effort[BATCH]
    return bool(is_cheap or (is_dense and stiff > _STIFF))


def _tries_batch(problem: Problem, effort: np.ndarray) -> bool:
    """Whether the overlap of classes decides which solver is faster, so that L-BFGS is tried first.

    If classes overlap much, L-BFGS needs ten evaluations and online steps thirty passes. If they hardly overlap, L-BFGS
    needs three times as many evaluations as online steps need passes.
    """
    if problem.lengths.max(initial=1) > 1 or not is_mostly_dense(problem):
        return False
    return bool(effort[ONLINE] > effort[BATCH] and stiffness(problem) >= _EASY)


def _has_failed_trial(problem: Problem, state: AutoState) -> bool:
    """Whether the trial of L-BFGS has just ended and classes hardly overlap."""
    is_over = state.mode[0] == BATCH and len(state.primal_n_steps) and state.primal_n_steps[0] == _TRIAL
    if not is_over or state.dual_passes[0] > 0.0 or _begins_with_batch(problem, state.effort):
        return False
    return bool(state.primal_value[0] < _FITTED * problem.primal(np.zeros(problem.n_weights)))


def _least_online(problem: Problem, effort: np.ndarray) -> float:
    """The effort of online steps before they are judged."""
    least = _SHARE * evaluations_expected(problem) * effort[BATCH]
    is_sparse = not is_worthwhile(problem) and not is_mostly_dense(problem)
    return float(max(least, _LEAST_OF_SPARSE * effort[ONLINE]) if is_sparse else least)


class _Sizes:
    """A problem without weights, for the shapes of the state of L-BFGS."""

    n_weights = 0
