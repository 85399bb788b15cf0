"""Online exponentiated gradient (Collins, Globerson, Koo, Carreras, Bartlett 2008): `eg`, its orders, and `sdca`."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from partwise.compiled.examples import Batch, Scratch
from partwise.core.bounds import safe_steps
from partwise.core.problem import Problem
from partwise.core.time_limit import is_out_of_time
from partwise.errors import InputError
from partwise.solvers.base import (
    CHUNK,
    PRECISIONS,
    BlockAscent,
    Certificate,
    Memory,
    StepInfo,
    state_type,
    vectors_bytes,
)  # fmt: skip
from partwise.solvers.dual.acceleration import Acceleration, unaccelerated
from partwise.solvers.dual.annealing import Annealing
from partwise.solvers.dual.coded import move_to_model, no_codes, recode, with_workspace
from partwise.solvers.dual.coded_pass import CodedPoint, CodedRule
from partwise.solvers.dual.mixtures import MixtureAscent
from partwise.solvers.dual.online_pass import (
    FIXED,
    HALVING,
    NEWTON,
    MixingRule,
    StepRule,
    online_pass,
)
from partwise.solvers.dual.potentials import (
    AnyPoint,
    EGState,
    certify,
    refresh,
    starting_coded_point,
    starting_point,
)
from partwise.solvers.dual.rescaled import n_scaled
from partwise.solvers.needs import Needs
from partwise.solvers.sampling import (
    PASSES_BEFORE_GAPS,
    expected_gap,
    forget_gaps,
    most_due,
    note_exact,
    note_visits,
    points_averaged,
)
from partwise.solvers.threads import Threads
from partwise.solvers.work_model import chunks_worthwhile, passes_expected

_LIFT = 2.0
_LARGEST_STEP = 1e4  # for β = ∞: steps grow whenever they succeed and would overflow
_SMALLEST_TRIAL = 2.0**-39  # of the first step that a search tries
_TRIAL_PASSES = 5  # over the sample of a search
_FIRST_BETA, _SHARPENING = 1.0, 1.3  # with `sharpen`: β of the first pass, and the factor by which it grows
_ACCELERATION = Acceleration()


@dataclass(frozen=True)
class ExponentiatedGradient(BlockAscent):
    """Block-coordinate ascent on the dual along exponentiated-gradient steps: `eg`, its orders, and `sdca`.

    Parameters
    ----------
    order : {"random", "cyclic", "permuted", "gap"}
        Order of visits: drawn with replacement; a fixed order; a new order every pass; examples first whose last
        visits promise the largest gap.
    step_rule : {"halving", "newton", "safe"}
        One η for each example: halved until the dual improves, then × 1.05 (Collins et al. §7); from the parabola that
        the visit before saw; or the bound that guarantees improvement.
    path : {"geometric", "arithmetic"}
        Exponentiated gradient, or dual coordinate ascent α ← (1 − t) α + t p for plain classes. If a labelling has
        several parts, potentials cannot describe a mixture, and steps go along the geometric path to the same target.
    initial_step : float or "search"
        The first η, in units of β if β is finite. "search" finds one whose passes over a tenth of the data
        improve the dual on 95 % of its examples: the largest one for β = ∞. Default: 0.5, and "search" for β = ∞.
    start : {"gold", "smoothed", "uniform"}
        α at the true labels, near them, or uniform.
    annealing : Annealing or None
        A larger l2 in the first passes.
    sharpen : bool
        For β = ∞: work with a finite β, which grows as soon as smoothing makes up most of the gap. The certificate is
        that of β = ∞.
    acceleration : Acceleration or None
        For order "gap", finite β and no l1 term: makes a weak l2 take fewer passes. The dual may fall meanwhile.
    precision : {"auto", "single", "double"}
        Precision of the state; "auto" follows `tol`. Certificates are always in double precision.
    lean : bool
        Keep one byte for each tied potential, and compute marginals again at every visit. Tied parts take an eighth of
        the memory, others half, in less than twice the time. For finite β only: for β = ∞ potentials grow without
        bound, and rounding errors with them.
    """

    order: Literal["random", "cyclic", "permuted", "gap"] = "random"
    step_rule: Literal["halving", "newton", "safe"] = "halving"
    path: Literal["geometric", "arithmetic"] = "geometric"
    initial_step: float | Literal["search"] | None = None
    start: Literal["gold", "smoothed", "uniform"] = "gold"
    annealing: Annealing | None = None
    sharpen: bool = False
    acceleration: Acceleration | None = _ACCELERATION
    precision: Literal["auto", "single", "double"] = "auto"
    lean: bool = False

    @property
    def name(self) -> str:
        if self.path == "arithmetic":
            return "sdca"
        return "eg" if self.order == "random" else f"eg-{self.order}"

    @property
    def needs(self) -> Needs:
        return Needs(loss="smooth" if self.path == "arithmetic" or self.lean else "any")

    def check(self, problem: Problem) -> None:
        for field, allowed in _CHOICES.items():
            if getattr(self, field) not in allowed:
                raise InputError(f"{field} must be one of {', '.join(allowed)}, not {getattr(self, field)!r}")
        if isinstance(self.initial_step, (int, float)) and not 0 < self.initial_step < np.inf:
            raise InputError(f"initial_step must be > 0 or 'search', not {self.initial_step!r}")
        if self.annealing is not None:
            self.annealing.check()
        if self.sharpen and self.step_rule == "safe":
            raise InputError(
                "sharpen=True climbs the dual of a finite beta, and step_rule='safe' promises that the dual of "
                "the loss itself never falls: use one of them"
            )

    def memory_needed(self, problem: Problem) -> Memory:
        size = np.dtype(state_type(self.precision)).itemsize
        weights = vectors_bytes(problem, itemsize=size)
        if not self.lean and not problem.loss.is_hard:
            weights += 4 * n_scaled(problem)
        if problem.keeps_state_on_disk:
            return Memory(weights=weights)
        if self._is_lean(problem):
            n_tied = problem.n_examples * problem.batch.n_tied
            return Memory(size * (problem.n_parts - n_tied) + n_tied, weights)
        return Memory(2 * size * problem.n_parts, weights)

    def _is_lean(self, problem: Problem) -> bool:
        return self.lean and problem.batch.n_tied > 0 and problem.has_features

    def leaner(self, problem: Problem) -> ExponentiatedGradient | None:
        """The lean form; None if it saves no memory, or if β = ∞."""
        lean = replace(self, lean=True)
        is_apt = not self.lean and not problem.loss.is_hard and not problem.keeps_state_on_disk
        return lean if is_apt and lean._is_lean(problem) else None

    def for_partial_labels(self) -> MixtureAscent:
        """Online EG has no dual to climb then."""
        return MixtureAscent(self.precision)

    def on_shards(self, problem: Problem) -> ExponentiatedGradient:
        return replace(self, acceleration=None)

    # -- start ----------------------------------------------------------------------------------

    def init(self, problem: Problem, random: np.random.Generator) -> EGState:
        dtype = state_type(self.precision)
        if self._is_lean(problem):
            point: AnyPoint = starting_coded_point(problem, self.start, dtype)
            kept = {**point._asdict(), "mu": np.zeros(0, dtype)}
            del kept["trial"], kept["trial_scale"]
        else:
            point = starting_point(problem, self.start, dtype)
            kept = {**point._asdict(), **no_codes()}
        if self.step_rule == "safe":
            point.step[:] = safe_steps(problem)
        else:
            point.step[:] = self._initial_step(problem, point, random)
        return EGState(
            **kept,
            seen=np.full(problem.n_examples, -1.0),
            waited=np.ones(problem.n_examples),
            clock=np.zeros(1),
            average=point.v.copy(),
            n_averaged=np.zeros(1),
            passes=np.zeros(1),
            step_l2=np.array([problem.l2]),
            beta=np.array([self._first_beta(problem)]),
            **unaccelerated(self._n_accelerated(problem), point.v.dtype),
        )

    def passes_expected(self, problem: Problem) -> float:
        return passes_expected(problem, "eg-gap")

    def from_weights(
        self, problem: Problem, weights: np.ndarray, random: np.random.Generator, before: Any = None
    ) -> EGState:
        """α_i = p_i(w): potentials become the model's own scores. Step sizes stay those of the state before."""
        state = self.init(problem, random) if before is None else before
        if np.isinf(state.beta[0]):  # no potentials are those of a best labelling
            return state
        point, loss = state.point(), problem.loss
        if isinstance(point, CodedPoint):
            move_to_model(problem, point, weights)
        else:
            scale = float(state.beta[0])
            state.theta[:] = scale * problem.scores(weights)
            if problem.cost.size:
                state.theta[:] += scale * loss.gamma * problem.cost
        return self._at(problem, state, weights)

    def from_other_data(self, problem: Problem, weights: np.ndarray, random: np.random.Generator) -> EGState:
        """As `from_weights`, unless the true labels, whose dual is 0, are a better start: on mostly new examples."""
        state = self.from_weights(problem, weights, random)
        is_behind = not np.isinf(state.beta[0]) and self._dual(problem, state.point()) < 0.0
        return self.init(problem, random) if is_behind else state

    def _at(self, problem: Problem, state: EGState, weights: np.ndarray) -> EGState:
        """The state after its potentials were replaced; `weights` are about those of its v."""
        state.visited[:] = 1
        state.average[:] = refresh(problem, state.point())
        state.n_averaged[0] = 0.0
        if self.acceleration is not None:
            self.acceleration.lead_from(state, weights)
        forget_gaps(state.seen, state.waited, state.clock)
        return state

    def _n_accelerated(self, problem: Problem) -> int:
        """Length of the two vectors of the acceleration; 0 without acceleration."""
        is_apt = self.order == "gap" and self.step_rule != "safe" and self.annealing is None
        is_apt = is_apt and problem.has_features and not problem.loss.is_hard and problem.l1 == 0.0
        return problem.n_weights if self.acceleration is not None and is_apt else 0

    def _initial_step(self, problem: Problem, point: AnyPoint, random: np.random.Generator) -> float:
        beta = self._first_beta(problem)
        scale = 1.0 if np.isinf(beta) else beta
        choice = self.initial_step
        if choice is None:
            choice = "search" if np.isinf(beta) else 0.5
        if choice == "search":
            return self._search_step(problem, point, random, scale)
        return float(choice) * scale

    def _search_step(
        self, problem: Problem, point: AnyPoint, random: np.random.Generator, first: float
    ) -> float:
        """The largest power of two, times `first`, that improves the dual monotonically on a tenth of the data.

        Larger steps than `first` are tried for β = ∞ only: for finite β, `first` is β, and the step ends at the target.
        """
        n_sample = max(1, problem.n_examples // 10)
        sample = random.permutation(problem.n_examples)[:n_sample]
        start = type(point)(*(array.copy() for array in point))
        start.visited[sample] = 1  # a trial measures steps, not the first move off the true label
        refresh(problem, start)
        step = first
        while not self._is_monotone(problem, start, sample, step) and step > first * _SMALLEST_TRIAL:
            if is_out_of_time():  # a visit that is left out gains nothing
                return first
            step *= 0.5
        if step == first and np.isinf(self._first_beta(problem)):
            while 2.0 * step <= _LARGEST_STEP and self._is_monotone(problem, start, sample, 2.0 * step):
                step *= 2.0
        return step

    def _is_monotone(self, problem: Problem, start: AnyPoint, sample: np.ndarray, step: float) -> bool:
        """Whether each of some passes over the sample improves the dual on 95 % of its examples.

        One pass does not tell: from the true labels almost any step improves the dual, and too large ones fail later.
        """
        rule = self._rule(problem, start)._replace(kind=FIXED, exact_gap=False)
        trial = type(start)(*(array.copy() for array in start))
        trial.step[:] = step
        with _threads(problem) as threads:
            visits = (
                _visit(threads, sample, trial, problem.loss.beta, problem.l2, rule)
                for _ in range(_TRIAL_PASSES)
            )
            return all(improved >= 0.95 * len(sample) for _, improved in visits)

    def _rule(self, problem: Problem, point: AnyPoint) -> Any:
        single = point.v.dtype == np.float32
        is_mixing = self.path == "arithmetic" and problem.structure.n_classes > 0
        kind: Any = MixingRule if is_mixing else StepRule
        return (CodedRule if isinstance(point, CodedPoint) else kind)(
            kind={"halving": HALVING, "newton": NEWTON, "safe": FIXED}[self.step_rule],
            growth=1.05 if self.step_rule == "halving" else 1.3,
            largest=min(problem.loss.beta, _LARGEST_STEP),
            threshold=2e-8 if single else 0.0,
            noise=1e-6 if single else 0.0,
            lift=_LIFT,
            exact_gap=self.order == "gap",
        )

    # -- passes ---------------------------------------------------------------------------------

    def step(self, problem: Problem, state: EGState, random: np.random.Generator) -> tuple[EGState, StepInfo]:
        point, n = state.point(), problem.n_examples
        rule = self._rule(problem, point)
        beta = self._sharpness(problem, state)
        rule = rule._replace(largest=min(beta, _LARGEST_STEP))
        pull = None if self.acceleration is None else self.acceleration.begin(problem, state)
        at_work, l2 = (problem, problem.l2) if pull is None else (pull.problem, pull.l2)
        l2 *= 1.0 if self.annealing is None else self.annealing.factor(float(state.passes[0]))
        tried = 0
        average_every = max(1, n // points_averaged(problem))
        next_average = average_every
        if not problem.loss.is_hard:
            state.n_averaged[0] = 0.0
        done = 0
        with _threads(at_work) as threads:
            for here in self._chunks(problem, state, random):
                chunk_tried, _ = _visit(threads, here, point, beta, l2, rule)
                note_visits(here, state.seen, state.waited, state.clock)
                tried, done = tried + chunk_tried, done + len(here)
                if done >= next_average or done >= n:
                    next_average += average_every
                    _average_in(state, problem.loss.is_hard)
        state.passes[0] += tried / n
        apart = self.acceleration.end(problem, state, pull) if self.acceleration and pull else 0.0
        gap = self._estimated_gap(problem, state, beta) + apart
        if self.acceleration is not None:
            self.acceleration.watch(problem, state, gap)
        return state, StepInfo(tried / n, self._dual(problem, point), gap)

    def carry_over(self, problem: Problem, state: EGState, changed: Set[str]) -> EGState:
        """Potentials stay. Gaps start again, and steps are scaled to the new curvature, which is ∝ 1/l2."""
        if self.is_behind(problem, state, changed):
            return self.init(problem, np.random.default_rng(0))
        weaker = min(problem.l2 / state.step_l2[0], 1.0)
        if self.sharpen and problem.loss.is_hard:  # there is more to gain again, so that more smoothing pays
            state.beta[0] = max(weaker * state.beta[0], _FIRST_BETA)
        else:
            state.beta[0] = problem.loss.beta
        if self.step_rule == "safe":
            state.step[:] = safe_steps(problem)
        else:
            state.step[:] = np.minimum(weaker * state.step, min(state.beta[0], _LARGEST_STEP))
        # The last certificate made v exact, and v does not depend on l2.
        state.average[:] = state.v if changed <= {"l2"} else refresh(problem, state.point())
        if self.acceleration is not None:
            self.acceleration.forget(state)
        state.n_averaged[0] = 0.0
        forget_gaps(state.seen, state.waited, state.clock)
        state.step_l2[0] = problem.l2
        return state

    def grown(
        self, problem: Problem, old: Problem, state: EGState, random: np.random.Generator
    ) -> EGState | None:
        found = self.init(problem, random)
        return found if self.take_over(problem, found, state) else None

    def take_over(self, problem: Problem, fresh: EGState, state: EGState) -> bool:
        """Give the first examples of a fresh state their potentials in `state`; False if only one of both is lean."""
        if fresh.code.shape[1:] != state.code.shape[1:]:
            return False
        for name in ("theta", "gap", "visited", "code", "scale", "share", "reference"):
            kept = getattr(state, name)
            getattr(fresh, name)[: len(kept)] = kept
        refresh(problem, fresh.point())
        fresh.average[:] = fresh.v
        return True

    def is_behind(self, problem: Problem, state: EGState, changed: Set[str]) -> bool:
        """Whether l2 has fallen so far that the true labels, whose dual is 0, are a better start."""
        return changed == {"l2"} and self._dual(problem, state.point()) < 0.0

    def _chunks(self, problem: Problem, state: EGState, random: np.random.Generator) -> Iterator[np.ndarray]:
        """About n visits, shard by shard, in chunks between which training can be interrupted."""
        by_gap = self.order == "gap" and state.clock[0] >= PASSES_BEFORE_GAPS and _all_seen(state)
        n_chunks = chunks_worthwhile(problem)
        for shard in problem.shards(random):
            n = len(shard)
            chunk = -(-n // n_chunks)  # gaps learnt in one chunk steer the next
            if by_gap:
                weight = problem.batch.example_weight[shard]
                for first in range(0, n, chunk):
                    times = state.seen[shard], state.waited[shard], float(state.clock[0])
                    expected = expected_gap(state.gap[shard], *times) * weight
                    yield shard[most_due(expected, min(chunk, n - first), random)]
                continue
            if self.order == "random":
                order = random.integers(n, size=n)
            else:
                order = np.arange(n) if self.order == "cyclic" else random.permutation(n)
            chunk = min(CHUNK, chunk)
            for first in range(0, n, chunk):
                yield shard[order[first : first + chunk]]

    def _dual(self, problem: Problem, point: AnyPoint) -> float:
        value = problem.loss.inverse_beta * point.entropy + problem.loss.gamma * point.cost
        return float(problem.batch.example_weight @ value - point.norm[0] / (2.0 * problem.l2))

    def _estimated_gap(self, problem: Problem, state: EGState, beta: float) -> float:
        if not _all_seen(state) or (np.isinf(beta) and self.order != "gap"):
            return float("nan")
        smoothing = state.entropy / beta if problem.loss.is_hard else 0.0
        gap = expected_gap(state.gap, state.seen, state.waited, float(state.clock[0]))
        return float(problem.batch.example_weight @ (gap + smoothing))

    def _first_beta(self, problem: Problem) -> float:
        return _FIRST_BETA if self.sharpen and problem.loss.is_hard else problem.loss.beta

    def _sharpness(self, problem: Problem, state: EGState) -> float:
        """β of the next pass; it grows if entropy / β exceeds the gain that is still expected."""
        if self.sharpen and problem.loss.is_hard and _all_seen(state):
            weight = problem.batch.example_weight
            gap = expected_gap(state.gap, state.seen, state.waited, float(state.clock[0]))
            if weight @ state.entropy / state.beta[0] > weight @ gap:
                state.beta[0] *= _SHARPENING
                state.step[:] *= _SHARPENING
        return float(state.beta[0])

    # -- certificate ----------------------------------------------------------------------------

    def linear_part(self, problem: Problem, state: EGState) -> float:
        value = problem.loss.gamma * state.cost + problem.loss.inverse_beta * state.entropy
        return float(problem.batch.example_weight @ value)

    def exact_v(self, problem: Problem, state: EGState) -> np.ndarray:
        return refresh(problem, state.point())

    def exact_losses(self, problem: Problem, state: EGState, weights: np.ndarray) -> float:
        found = certify(problem, state.point(), np.zeros(0), weights).primal - problem.penalty(weights)
        self._note_gaps(problem, state)
        return found

    def _note_gaps(self, problem: Problem, state: EGState) -> None:
        """All gaps were computed just now, for β = ∞; visits need those of the sharpened problem."""
        if problem.loss.is_hard and state.beta[0] < np.inf:
            state.gap[:] = np.maximum(state.gap - state.entropy / state.beta[0], 0.0)
        note_exact(state.seen, state.waited, state.clock)

    def certificate(self, problem: Problem, state: EGState) -> tuple[EGState, Certificate]:
        point = state.point()
        kept = self._dual(problem, point)
        if isinstance(point, CodedPoint):
            recode(problem, point)
        comes_with_losses = isinstance(point, CodedPoint) and state.passes[0] > 0
        v = state.v.astype(np.float64) if comes_with_losses else refresh(problem, point)
        # The mean has about half the suboptimality of the last iterate, and far less for β = ∞.
        weights = problem.weights_at(v)
        if state.passes[0] > 0:
            weights = problem.weights_at(problem.settled(state.average.astype(np.float64)))
        certificate = certify(problem, point, v, weights)
        self._note_gaps(problem, state)
        drift = abs(kept - certificate.dual)
        return state, Certificate(certificate.primal, certificate.dual, weights, drift)


_CHOICES: dict[str, tuple[str, ...]] = {
    "order": ("random", "cyclic", "permuted", "gap"),
    "step_rule": ("halving", "newton", "safe"),
    "path": ("geometric", "arithmetic"),
    "start": ("gold", "smoothed", "uniform"),
    "precision": PRECISIONS,
}


def _all_seen(state: EGState) -> bool:
    """Whether every gap is known."""
    return bool((state.seen >= 0.0).all())


def _threads(problem: Problem) -> Threads:
    return Threads(problem, ("sums", "best") if problem.loss.is_hard else None, may_share=True)


def _visit(
    threads: Threads, order: np.ndarray, point: AnyPoint, beta: float, l2: float, rule: Any
) -> tuple[int, int]:
    """EG steps on the examples of `order`; returns how many were tried and how many improved the dual."""
    gamma = threads.problem.loss.gamma

    def run(batch: Batch, here: np.ndarray, own: AnyPoint, scratch: Scratch) -> tuple[int, int]:
        if isinstance(own, CodedPoint):
            own = with_workspace(threads.problem, own)
        return online_pass(batch, here, own, beta, gamma, l2, rule, scratch)

    results = threads.visit(order, point, run)
    return sum(tried for tried, _ in results), sum(improved for _, improved in results)


def _average_in(state: EGState, hard: bool) -> None:
    """Add v to the mean. It is the plain mean of a pass. For β = ∞, it is over all passes, and later points weigh more:
    there the last iterates are far worse than their mean."""
    state.n_averaged[0] += 1.0
    k = state.n_averaged[0]
    share = 8.0 / (k + 7.0) if hard else 1.0 / k
    state.average[:] += (state.v - state.average) * np.float32(share)
