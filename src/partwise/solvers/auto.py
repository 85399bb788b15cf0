"""What `auto` is for smooth losses: online dual steps or quasi-Newton ones, whichever will be there first.

Both have a pass of known effort (`effort.py`) and a gap that falls as seen so far. While the solver at work is
expected to need less than the other, it goes on; otherwise the other one takes over, from the same point: L-BFGS from
the mean of the weights, exponentiated gradient from the distributions of the model, α_i = p_i(w). A stretch is at
least twice as long as the one before, so that wrong guesses cost a bounded share of the run. The best lower bound
holds for both.
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
_FEWEST_PASSES = 6.0  # that online steps need to 1e-3 where they are fastest
_FEWEST_EVALUATIONS = 20.0  # the same of L-BFGS, from zero
_FEWEST_OF_EASY = 12.0  # of dense classes where l2 is strong, which it is up to a stiffness of
_EASY = 1e-3
_FEW = 25.0  # examples for which online steps take as many passes as L-BFGS takes evaluations; more go as √n
_SHORT = 20.0  # positions: longer chains count as several, since what lies far apart hardly competes
_FEW_DENSE = 225.0  # the same where it is told the curvature
_STIFF = 1.0  # from where on online steps on dense rows need many times as many passes
_DOMINANT = (
    0.9  # share of dense attributes in the squares from which on they decide how many passes there are
)
_TRIAL = 2  # steps of L-BFGS that tell whether dense classes overlap
_FITTED = (
    0.15  # of P(0), which P is below by then where they do not: few rows bend it, and not where others did
)
_FEWEST_STEPS = 4  # before a solver is judged: at first gaps say little
_SHARE = 0.4  # of what L-BFGS is expected to need, that online steps may take before they are judged
_LEAST_OF_SPARSE = 40.0  # passes that they take in any case without dense attributes: L-BFGS is seldom faster
_CLOSE = math.log(0.03)  # a relative gap from where on L-BFGS needs few evaluations
_LEAST_FROM_CLOSE = 20.0  # passes before that is asked: the acceleration of online steps has begun by then
_PATIENCE = 3.0  # times the evaluations expected, before L-BFGS is judged
_MOST_EXPECTED = 70.0  # evaluations, once L-BFGS is at work
_DOUBT = 2.0  # by how much online steps must look better for L-BFGS to give up
_MOST_WAITED = 10.0  # times the evaluations expected
_MOST_PASSES = 300.0  # that a solver without progress is taken to need
_TELLING = math.log(0.5)  # a relative gap below which weights are a better start than zero
_FAR_WEAKER = 0.05  # times the l2 that weights are of: the way from zero is no longer
_LONGEST = 64  # gaps of a stretch that are remembered

_DUAL = tuple(f"dual_{name}" for name in EGState._fields)
_PRIMAL = tuple(f"primal_{name}" for name in LBFGSState._fields)
_OWN = ("mode", "effort", "least", "rival", "bound", "trace", "n_traced")
_make: Any = namedtuple
_Fields: Any = _make("_Fields", (*_OWN, *_DUAL, *_PRIMAL))


class AutoState(_Fields):
    """The states of both solvers and what is known of their progress.

    `mode` says which is at work; `effort` (2,) is that of a pass of either; `least` how much effort the stretch takes
    before it is judged; `rival` what the other solver is expected to need; `bound` the best D; `trace` (…, 2) the
    effort and the logarithm of the relative gap after the last steps of the stretch, `n_traced` how many these were.
    """

    __slots__ = ()

    def dual(self) -> EGState:
        """The state of the online solver, its arrays not copied."""
        return EGState(*(getattr(self, name) for name in _DUAL))

    def primal(self) -> LBFGSState:
        return LBFGSState(*(getattr(self, name) for name in _PRIMAL))

    def at_work(self) -> str:
        """The name of the solver that is at work."""
        return ("eg-gap", "lbfgs")[int(self.mode[0])]

    @property
    def mu(self) -> np.ndarray | None:
        """μ of all parts where the online solver is at work, (n_parts,); empty where it keeps none."""
        return self.dual_mu if self.mode[0] == ONLINE else None

    def growing(self) -> tuple[str, ...]:
        """What is empty until L-BFGS begins."""
        return _PRIMAL

    def unbegun(self) -> AutoState:
        """The same before L-BFGS has begun, as which a run may have ended that this one is to go on from."""
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
    """Online exponentiated gradient and L-BFGS in turns, as the gap falls; for smooth losses.

    Parameters
    ----------
    precision : {"auto", "single", "double"}
        Of the online solver's state.
    lean : bool
        Its state as small as it gets, see :class:`ExponentiatedGradient`.
    tol : float
        The relative gap to be reached; the driver tells.
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
        """Both keep what they can; progress is judged anew, and L-BFGS takes over where it would begin.

        Where l2 is so different that the solver at work does without what it has, it is as at first.
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
        """Whether the other solver is expected to be done before the one at work; notes what this one will need."""
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
        """The effort to `tol` at the rate at which the gap fell over the second half of the stretch."""
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
                state.mode[0] = BATCH  # it goes on where it was
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
        """Potentials are the model's own scores; step sizes stay where there are any."""
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
        """The state of the online solver, made that of the weights first where L-BFGS is at work."""
        if state.mode[0] == BATCH and not np.isnan(state.primal_value[0]):
            self._begin_online(problem, state)
        return state.dual()

    # -- certificate ------------------------------------------------------------------------------

    def certificate(self, problem: Problem, state: AutoState) -> tuple[AutoState, Certificate]:
        """That of the solver at work, with the best dual of both, and the weights of the better one."""
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
    """Whether L-BFGS comes first: examples are few, l1 is far above l2, or it knows the curvature and online steps are
    slow or not much faster."""
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
        passes = _FEWEST_PASSES * max(stiff / _EASY, 1.0) ** 0.3  # as seen with columns of many scales
        return bool(passes * effort[ONLINE] > _FEWEST_EVALUATIONS * effort[BATCH])
    is_easy = is_dense and stiff < _EASY and problem.lengths.max(initial=1) == 1
    fewest = _FEWEST_OF_EASY if is_easy else _FEWEST_EVALUATIONS
    is_cheap = _FEWEST_PASSES * effort[ONLINE] > fewest * effort[BATCH]
    return bool(is_cheap or (is_dense and stiff > _STIFF))


def _tries_batch(problem: Problem, effort: np.ndarray) -> bool:
    """Whether it depends on how much classes overlap who is faster: much, and L-BFGS needs ten evaluations where online
    steps need thirty passes; hardly, and it needs three times as many as they do."""
    if problem.lengths.max(initial=1) > 1 or not is_mostly_dense(problem):
        return False
    return bool(effort[ONLINE] > effort[BATCH] and stiffness(problem) >= _EASY)


def _has_failed_trial(problem: Problem, state: AutoState) -> bool:
    """Whether L-BFGS has just been tried, and classes hardly overlap."""
    is_over = state.mode[0] == BATCH and len(state.primal_n_steps) and state.primal_n_steps[0] == _TRIAL
    if not is_over or state.dual_passes[0] > 0.0 or _begins_with_batch(problem, state.effort):
        return False
    return bool(state.primal_value[0] < _FITTED * problem.primal(np.zeros(problem.n_weights)))


def _least_online(problem: Problem, effort: np.ndarray) -> float:
    """Effort of online steps before they are judged."""
    least = _SHARE * evaluations_expected(problem) * effort[BATCH]
    is_sparse = not is_worthwhile(problem) and not is_mostly_dense(problem)
    return float(max(least, _LEAST_OF_SPARSE * effort[ONLINE]) if is_sparse else least)


class _Sizes:
    """A problem without weights, to see what L-BFGS keeps."""

    n_weights = 0
