"""What a solver is, what it returns, and the certificate all of them print."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Protocol

import numpy as np

from partwise.core.problem import Evaluation, Problem
from partwise.errors import InputError


class StopReason(Enum):
    """Why training ended; the value tells the user what to do next."""

    CONVERGED = "converged: the duality gap proves the objective is within tol of the optimum"
    MAX_PASSES = "stopped at max_passes before the gap reached tol: raise max_passes, raise l2, or accept the gap shown"
    TIME_LIMIT = (
        "stopped at the time limit before the gap reached tol: the gap shown tells how far the optimum can be"
    )
    INTERRUPTED = (
        "interrupted by the user: the weights are the best so far, and the gap shown still holds for them"
    )
    CALLBACK = "stopped by the callback: the gap shown holds for the weights returned"
    STALLED = (
        "stopped because the dual no longer moves at this precision: use precision='double', or a larger tol"
    )


@dataclass(frozen=True)
class Certificate:
    """Primal and dual values that bracket the optimum.

    Attributes
    ----------
    primal, dual : float
        P(w) for the weights returned and D(α); the optimum lies between them.
    weights : ndarray (n_weights,)
        The w of `primal`.
    drift : float
        |dual kept incrementally − dual recomputed|, repaired when the certificate was made.
    """

    primal: float
    dual: float
    weights: np.ndarray = field(repr=False)
    drift: float = 0.0

    @property
    def gap(self) -> float:
        """P(w) − D(α), never negative but for rounding."""
        return self.primal - self.dual

    @property
    def relative_gap(self) -> float:
        return self.gap / max(abs(self.primal), 1e-12)


@dataclass(frozen=True)
class Record:
    """One line of the history: a certified point, and what it took to get there."""

    passes: float
    seconds: float
    cpu_seconds: float
    primal: float
    dual: float
    gap: float
    relative_gap: float
    drift: float

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


class StepInfo(NamedTuple):
    """What one step tells the driver.

    Attributes
    ----------
    passes : float
        Effective iterations it took: example visits / n, counting every step size tried.
    dual : float
        The dual as kept incrementally (nan if the solver keeps none).
    estimated_gap : float
        A cheap guess of the gap, to time certificates with (nan if there is none).
    """

    passes: float
    dual: float = float("nan")
    estimated_gap: float = float("nan")


class Solver(Protocol):
    """A frozen dataclass of settings. States are NamedTuples of arrays, changed in place or replaced."""

    @property
    def name(self) -> str:
        """What users call it."""

    def check(self, problem: Problem) -> None:
        """Raise InputError, naming what is missing, if this solver cannot work on `problem`."""

    def init(self, problem: Problem, random: np.random.Generator) -> Any:
        """The starting state."""

    def step(self, problem: Problem, state: Any, random: np.random.Generator) -> tuple[Any, StepInfo]:
        """About one pass over the data."""

    def certificate(self, problem: Problem, state: Any) -> tuple[Any, Certificate]:
        """Primal and dual of the state, in double precision; the state may be repaired on the way."""


@dataclass(frozen=True)
class Solution:
    """What training returns.

    Attributes
    ----------
    weights : ndarray (n_weights,)
    state : NamedTuple
        The solver's state, to go on from.
    certificate : Certificate
    history : list of Record
    stop_reason : StopReason
    passes : float
        Effective iterations.
    """

    weights: np.ndarray
    state: Any
    certificate: Certificate
    history: list[Record]
    stop_reason: StopReason
    passes: float

    @property
    def converged(self) -> bool:
        return self.stop_reason is StopReason.CONVERGED


def require_finite_beta(problem: Problem, name: str) -> None:
    """For solvers that need gradients."""
    if problem.loss.is_hard:
        raise InputError(
            f"solver {name!r} needs a smooth loss (finite beta) and loss={problem.loss.name!r} has beta = inf: "
            "use an 'eg' solver, 'sgd', or Loss(beta, gamma) with a large beta"
        )


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
    return float(problem.batch.example_weight @ loss + 0.5 * problem.l2 * (weights @ weights))
