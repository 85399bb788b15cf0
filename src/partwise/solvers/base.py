"""The contract of solvers: settings, states, steps, certificates, and the solution of a run."""

from __future__ import annotations

import math
from abc import ABC, ABCMeta, abstractmethod
from collections.abc import Set
from copy import copy
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any, ClassVar, Literal, NamedTuple, cast

import numpy as np

from partwise.core.evaluation import Evaluation
from partwise.core.problem import Problem
from partwise.errors import InputError
from partwise.solvers.needs import Needs
from partwise.solvers.work_model import evaluation_work, online_pass_work

# A dual above the primal by this share of the larger bound is rounding of sums in double precision.
_ROUNDING = 1e-9


PRECISIONS = ("auto", "single", "double")
CHUNK = 4096  # examples that are visited between two chances to interrupt training


def state_type(precision: str) -> Any:
    """The type of a state's arrays; "auto", which the driver settles before training, counts as single."""
    return np.float64 if precision == "double" else np.float32


def check_precision(precision: str) -> None:
    """Raise InputError unless `precision` is one of the three words."""
    if precision not in PRECISIONS:
        raise InputError(f"precision must be one of {', '.join(PRECISIONS)}, not {precision!r}")


class StopReason(Enum):
    """Why training ended; the value tells the user what to do next."""

    CONVERGED = "converged: the duality gap proves the objective is within tol of the optimum"
    MAX_PASSES = "stopped at max_passes before the gap reached tol: raise max_passes, raise l2, or accept the gap shown"
    TIME_LIMIT = (
        "stopped at the time limit before the gap reached tol: the gap shown tells how far the optimum can be"
    )
    TIME_LIMIT_EARLIER = (
        "stopped at the time limit with the weights of the last certificate: a new certificate would have taken too "
        "long, and the gap shown holds for the weights returned"
    )
    TIME_LIMIT_SAMPLED = (
        "stopped at the time limit before all examples could be scored: the objective is an estimate from some of the "
        "examples, and nothing is proved; raise time_limit"
    )
    INTERRUPTED = (
        "interrupted by the user: the weights are the best so far, and the gap shown still holds for them"
    )
    CALLBACK = "stopped by the callback: the gap shown holds for the weights returned"
    STALLED = (
        "stopped because neither bound moves any more at this precision: use a larger tol, or precision='double' "
        "where it was fixed to 'single'"
    )
    UNSOUND = (
        "stopped because a bound is not finite or the dual lies above the primal, so that they prove nothing: l2, "
        "costs, sample weights or features are too large or too small for this precision; rescale them"
    )
    ROUNDING = (
        "stopped because rounding prevents a tighter proof; the bounds shown allow for it: scale the data or sample "
        "weights down, raise l2, or use a larger tol"
    )


@dataclass(frozen=True)
class Certificate:
    """Primal and dual values that bracket the optimum.

    Attributes
    ----------
    primal, dual : float
        P(w) for the weights returned and D(α); the optimum lies between them.
    kind : {"exact", "relaxation", "approximate", "local", "sampled"}
        What the bounds are of. "exact": the problem itself. "relaxation": its relaxation, whose objective is never
        below the exact one. "approximate": nothing is certified, and `dual` is −inf. "local": labels are known in
        part, and the weights are nearly stationary (see `core/partial.py`). "sampled": the time limit left no time to
        score all examples. `primal` is an estimate, and `dual` is a bound that needs no pass: 0, or −inf.
    weights : ndarray (n_weights,)
        The weights that `primal` belongs to.
    drift : float
        |dual kept incrementally − dual recomputed|; the certificate repairs it.
    negative_losses : int
        Examples with a loss below zero. Only approximate sums give such losses: a log-partition below the score of the
        true label (Martins et al. 2010, footnote 9).
    rounding : float
        Largest rounding error of the gap of these weights; the bounds allow for it.
    noise : float
        Largest rounding error of the gap in the solver's own passes, in which small losses cancel.
    """

    primal: float
    dual: float
    weights: np.ndarray = field(repr=False)
    drift: float = 0.0
    kind: str = "exact"
    negative_losses: int = 0
    rounding: float = 0.0
    noise: float = 0.0

    @property
    def gap(self) -> float:
        """P(w) − D(α), rounding included."""
        return self.primal - self.dual

    def is_limited_by_rounding(self, tol: float) -> bool:
        """Whether the gap misses `tol` because of its rounding, and further steps cannot help."""
        wanted = tol * abs(self.primal)
        is_large = self.rounding > 0.5 * wanted
        return is_large and wanted < self.gap <= self.rounding + max(wanted, self.rounding)

    def is_drowned(self, tol: float) -> bool:
        """Whether rounding in the solver's own passes hides what is left of the gap."""
        return tol * abs(self.primal) < self.gap <= 2.0 * self.noise

    @property
    def relative_gap(self) -> float:
        """gap / |primal|; inf if a bound is not finite, or if the primal is zero and the dual is not."""
        if not (math.isfinite(self.primal) and math.isfinite(self.dual)):
            return math.inf
        if self.primal == 0.0:
            return 0.0 if self.dual == 0.0 else math.inf
        return self.gap / abs(self.primal)

    @property
    def is_sound(self) -> bool:
        """Whether the bounds are possible: finite, and in order except for rounding. Approximate sums claim no dual."""
        if self.kind in ("approximate", "sampled"):
            return math.isfinite(self.primal)
        size = max(abs(self.primal), abs(self.dual))
        return math.isfinite(size) and self.gap >= -_ROUNDING * size


@dataclass(frozen=True)
class Record:
    """One line of the history: a certified point with its passes and its time."""

    passes: float
    seconds: float
    cpu_seconds: float
    primal: float
    dual: float
    gap: float
    relative_gap: float
    drift: float
    kind: str = "exact"
    negative_losses: int = 0

    def proves(self, tol: float) -> bool:
        """Whether the bounds are finite and within `tol` of each other, relative to the primal."""
        return abs(self.relative_gap) <= tol < math.inf

    @property
    def note(self) -> str:
        """Text for a line that shows the record: the kind if it is not exact, and the number of negative losses."""
        negative = f", {self.negative_losses} negative losses" if self.negative_losses else ""
        return "" if self.kind == "exact" else f"  ({self.kind}{negative})"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class StepInfo(NamedTuple):
    """What a step reports to the driver.

    Attributes
    ----------
    passes : float
        Effective iterations of the step: visits of examples / n, where every step size tried counts.
    dual : float
        The dual as kept incrementally, or P − `estimated_gap`; nan if the solver knows neither.
    estimated_gap : float
        A cheap estimate of the gap, by which the driver times certificates; nan if there is none.
    """

    passes: float
    dual: float = float("nan")
    estimated_gap: float = float("nan")


class Memory(NamedTuple):
    """Bytes that a solver needs for a problem, beside the data and what every solver needs.

    Attributes
    ----------
    parts : int
        Of dual variables or labellings of all examples.
    weights : int
        Of vectors as long as the weights, and of feature values that visits read instead of those of the rows.
    seldom : int
        Of vectors that only some runs need.
    """

    parts: int = 0
    weights: int = 0
    seldom: int = 0


class Solver(ABC):
    """A frozen dataclass of settings. States are NamedTuples of arrays, changed in place or replaced.

    Attributes
    ----------
    minimises : bool
        Whether it converges to the minimum of the objective.
    shards : {"", "dual", "sums"}
        How it works on shards of the examples (``engine=``): not at all; each shard climbs its part of the
        dual, as in :class:`BlockAscent`; or shards answer its sums over all examples, all that it asks for.
    runs_on_gpu : bool
        Whether it can train on a problem whose sums over all examples are computed on a GPU.
    """

    minimises: ClassVar[bool] = True
    shards: ClassVar[Literal["", "dual", "sums"]] = ""
    runs_on_gpu: ClassVar[bool] = False

    @property
    @abstractmethod
    def name(self) -> str:
        """The name that users call it by."""

    @property
    @abstractmethod
    def needs(self) -> Needs:
        """What a problem must have; the driver refuses others."""

    @abstractmethod
    def init(self, problem: Problem, random: np.random.Generator) -> Any:
        """The starting state."""

    @abstractmethod
    def step(self, problem: Problem, state: Any, random: np.random.Generator) -> tuple[Any, StepInfo]:
        """About one pass over the data."""

    @abstractmethod
    def carry_over(self, problem: Problem, state: Any, changed: Set[str]) -> Any:
        """A state for `problem` from one of another problem of the same structure and sizes.

        `changed` names what differs: "features", "true labels", "cost", "sample_weight", "loss", "l2".
        Whatever followed from that is computed again or forgotten.
        """

    @abstractmethod
    def certificate(self, problem: Problem, state: Any) -> tuple[Any, Certificate]:
        """Primal and dual of the state, in double precision; the state may be repaired on the way."""

    # A solver may leave these as they are.

    def check(self, problem: Problem) -> None:  # noqa: B027
        """Raise InputError, naming the setting, if a setting is invalid."""

    def memory_needed(self, problem: Problem) -> Memory:
        """The memory of the state; the default is that of a few vectors of weights in double precision."""
        return Memory(weights=vectors_bytes(problem))

    def leaner(self, problem: Problem) -> Solver | None:
        """The same solver with a state as small as possible; None if it has no such form for the problem."""
        return None

    def for_partial_labels(self) -> Solver:
        """The solver to use instead if labels are known in part."""
        return self

    def on_shards(self, problem: Problem) -> Solver | None:
        """The solver to use instead on shards of the examples; None if it cannot work on shards."""
        return self if self.shards else None

    def grown(self, problem: Problem, old: Problem, state: Any, random: np.random.Generator) -> Any:
        """A state for `problem`, which begins with the examples of `old`, from the state there; None to start again."""
        return None

    def keep(self, state: Any) -> bool:
        """Save what belongs to the state but lies elsewhere; whether a run can go on from here."""
        return True

    def template(self, problem: Problem, arrays: Set[str]) -> Any:
        """A state into which one with arrays of these names can be read; ValueError if there is none."""
        return self.init(problem, np.random.default_rng(0))

    def catches_up(self, state: Any) -> bool:
        """Whether bounds that do not move are those of an earlier point, which the present one has yet to reach."""
        return False

    def weights(self, problem: Problem, state: Any) -> np.ndarray | None:
        """The weights of a state without a pass, if a time limit leaves no time for a certificate; None if unknown.

        The default is those of its arrays `weights`, `average` or `v`.
        """
        if hasattr(state, "weights"):
            return np.array(state.weights, np.float64)
        v = state.average if np.any(getattr(state, "average", 0.0)) else getattr(state, "v", None)
        if v is None or len(v) < problem.n_weights or not problem.has_features:
            return None
        return problem.weights_at(np.array(v[: problem.n_weights], np.float64))

    # What a race asks of its candidates, see `race.py`.

    def from_weights(
        self, problem: Problem, weights: np.ndarray, random: np.random.Generator, before: Any = None
    ) -> Any:
        """A state from weights that another solver found; `before` is the own state when it was last at work.

        The default, for solvers that cannot start from weights, goes on from `before` or from the start.
        """
        return self.init(problem, random) if before is None else before

    def from_other_data(self, problem: Problem, weights: np.ndarray, random: np.random.Generator) -> Any:
        """A first state from weights that may have been trained on other examples; the default is `from_weights`."""
        return self.from_weights(problem, weights, random)

    def pass_work(self, problem: Problem, state: Any = None) -> float:
        """The work of a pass in nanoseconds, roughly: of the last one if there is a `state`, else of a usual one.

        The default is the work of an evaluation of all examples.
        """
        return evaluation_work(problem)

    def passes_expected(self, problem: Problem) -> float:
        """Passes to a relative gap of 1e-3, as far as sizes can tell; the default is more than most solvers take."""
        return 100.0

    def gives_way(self, problem: Problem, state: Any) -> float:
        """By how much this run needs more work than was forecast, if the state shows that.

        If it is more than 1, another candidate begins from its own start.
        """
        return 1.0


class BlockAscent(Solver):
    """Block-coordinate ascent on the dual, which can work on shards: it visits examples one after another.

    Its states have `v`, `norm`, and for each example `cost`, `gap`, `seen` and `waited`; and `clock`.
    """

    shards = "dual"

    def pass_work(self, problem: Problem, state: Any = None) -> float:
        return online_pass_work(problem)

    def linear_part(self, problem: Problem, state: Any) -> float:
        """Σ_i weight_i (H(α_i)/β + γ expected cost), as visits keep it; the default is for β = ∞."""
        return float(problem.batch.example_weight @ (problem.loss.gamma * state.cost))

    @abstractmethod
    def exact_v(self, problem: Problem, state: Any) -> np.ndarray:
        """v of α in double precision, (n_weights,); costs and entropies become exact too."""

    @abstractmethod
    def exact_losses(self, problem: Problem, state: Any, weights: np.ndarray) -> float:
        """Σ_i weight_i ℓ_i at `weights`; gaps are computed anew, and are true if the weights are those of α."""


STATE_VECTORS = 4  # vectors as long as the weights that a state holds


def vectors_bytes(problem: Problem, n_more: int = 0, itemsize: int = 8) -> int:
    """Bytes of the vectors of weights in a state, and of `n_more` in double precision."""
    return (STATE_VECTORS * itemsize + 8 * n_more) * problem.n_weights


def with_defaults(solver: Any) -> Solver:
    """The solver; if its class does not inherit from :class:`Solver`, a copy whose class also does."""
    kind = type(solver)
    if isinstance(solver, Solver):
        return solver
    if kind not in _completed:
        own = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
        _completed[kind] = ABCMeta(kind.__name__, (kind, Solver), own)
    found = copy(solver)
    object.__setattr__(found, "__class__", _completed[kind])
    return cast(Solver, found)


_completed: dict[type, type] = {}


class WarmStart(NamedTuple):
    """The state of a solver and the problem that it belongs to."""

    problem: Problem
    state: Any


@dataclass(frozen=True)
class Solution:
    """The result of training.

    Attributes
    ----------
    problem : Problem
        The problem solved.
    weights : ndarray (n_weights,)
    state : NamedTuple
        The final state of the solver, for warm starts.
    certificate : Certificate
    history : list of Record
    stop_reason : StopReason
    passes : float
        Effective iterations.
    """

    problem: Problem = field(repr=False)
    weights: np.ndarray
    state: Any = field(repr=False)
    certificate: Certificate
    history: list[Record]
    stop_reason: StopReason
    passes: float

    @property
    def converged(self) -> bool:
        return self.stop_reason is StopReason.CONVERGED

    @property
    def why(self) -> str:
        """The reason in words, with a note if the certificate is not of the problem itself."""
        reason = str(self.stop_reason.value)
        if self.converged and self.certificate.kind == "local":
            reason = _STATIONARY
        negative, n = self.certificate.negative_losses, self.problem.n_examples
        words = f" (the loss of {negative} of {n} examples is negative)" if negative else ""
        return reason + _WHAT_WAS_CERTIFIED[self.certificate.kind] + words


_STATIONARY = "converged: the objective, summed over unobserved labels, is within tol of stationary"
_WHAT_WAS_CERTIFIED = {
    "exact": "",
    "relaxation": " (relaxation: both bounds are those of the relaxed problem)",
    "approximate": " (approximate: sums over labellings are not exact, so there is no dual bound and no certificate)",
    "sampled": "",
    "local": " (labels are missing: the gap is to a stationary point, not to the best of them)",
}


def primal_certificate(problem: Problem, weights: np.ndarray, point: Evaluation) -> Certificate:
    """Certificate of a primal solver: α_i is the loss-augmented model's own distribution at `weights`.

    `point` is ``evaluate_model(problem, weights)``; its dual value costs nothing more.
    """
    return Certificate(model_primal(problem, weights, point), problem.dual(point), weights)


def evaluate_model(problem: Problem, weights: np.ndarray) -> Evaluation:
    """Expected features under the loss-augmented model p ∝ exp β(s + γ e), or its mode for β = ∞."""
    beta = 1.0 if problem.loss.is_hard else problem.loss.beta
    return problem.at_weights(weights, beta, beta * problem.loss.gamma, hard=problem.loss.is_hard)


def model_primal(problem: Problem, weights: np.ndarray, point: Evaluation) -> float:
    """P(w) from the evaluation of the model at w."""
    beta = 1.0 if problem.loss.is_hard else problem.loss.beta
    loss = (point.log_total - point.gold) / beta
    return float(problem.batch.example_weight @ loss) + problem.penalty(weights)
