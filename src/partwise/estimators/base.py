"""What all estimators share: checked parameters, training with a certificate, fitted attributes, saving."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from partwise.core.losses import Loss
from partwise.core.problem import Problem, check_positive
from partwise.errors import InputError
from partwise.solvers import SOLVERS, Progress, Solution, Solver, WarmStart, solve, solver_for
from partwise.solvers.base import CERTIFICATE_KINDS
from partwise.storage.checks import expect_number, expect_text

_RECORD = ("objective", "dual_objective", "duality_gap", "converged", "stop_reason", "n_passes", "history")


@dataclass
class Training:
    """What stays in memory after a fit, for warm starts and explanations; never saved or pickled.

    Attributes
    ----------
    problem : Problem
    solver : Solver
    state : NamedTuple
        The solver's, with the dual variables where it keeps them.
    weights : ndarray (n_weights,)
        In the layout of `problem`.
    source : object
        What the estimator needs to go on: encoded or raw data.
    """

    problem: Problem
    solver: Solver
    state: Any
    weights: np.ndarray
    source: Any = None


class DualEstimator(BaseEstimator):
    """Base of the estimators; subclasses list their parameters and build the problem."""

    loss: str | Loss
    l2: float
    solver: str | Solver
    tol: float
    max_passes: float
    random_state: Any
    n_jobs: int | None
    verbose: int
    time_limit: float | None
    callback: Callable[[Progress], bool | None] | None
    certificate_every: float | None
    warm_start: bool

    def _check_parameters(self) -> Loss:
        """Refuse what cannot be, before any work; returns the loss."""
        loss = Loss.of(self.loss)
        for name in ("l2", "tol", "max_passes"):
            check_positive(name, getattr(self, name))
        for name in ("time_limit", "certificate_every"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))
        if self.callback is not None and not callable(self.callback):
            raise InputError(f"callback must be callable or None, not {self.callback!r}")
        if isinstance(self.solver, str) and self.solver not in ("auto", *SOLVERS):
            raise InputError(f"unknown solver {self.solver!r}; there are auto, {', '.join(SOLVERS)}")
        random_generator(self.random_state)
        n_threads(self.n_jobs)
        return loss

    def _solve(self, problem: Problem, warm_start: WarmStart | None = None) -> tuple[Solver, Solution]:
        """Train, from an earlier state of the same solver if there is one."""
        solver = solver_for(problem, self.solver, self.tol)
        solution = solve(
            problem,
            solver,
            tol=self.tol,
            max_passes=self.max_passes,
            random_state=random_generator(self.random_state),
            callback=self._callback(),
            time_limit=self.time_limit,
            certificate_every=self.certificate_every,
            warm_start=warm_start,
        )
        return solver, solution

    def _callback(self) -> Callable[[Progress], bool | None] | None:
        if not self.verbose:
            return self.callback

        def report(progress: Progress) -> bool | None:
            if progress.record is not None:
                record = progress.record
                print(
                    f"pass {record.passes:7.1f}  {record.seconds:8.2f} s  primal {record.primal:.6g}  "
                    f"dual {record.dual:.6g}  relative gap {record.relative_gap:.2e}{record.note}"
                )
            return self.callback(progress) if self.callback is not None else None

        return report

    def _set_certificate(self, solution: Solution) -> None:
        """The fitted attributes that tell how training went."""
        certificate = solution.certificate
        self.objective_ = float(certificate.primal)
        self.dual_objective_ = float(certificate.dual)
        self.duality_gap_ = max(float(certificate.relative_gap), 0.0)
        self.converged_ = bool(solution.converged)
        self.stop_reason_ = solution.why
        self.certificate_kind_ = certificate.kind
        self.n_passes_ = float(solution.passes)
        self.history_ = [record.as_dict() for record in solution.history]

    def _warn_unless_converged(self) -> None:
        if not self.converged_:
            message = f"{self.stop_reason_} (relative gap {self.duality_gap_:.2g}, tol {self.tol:g})"
            warnings.warn(message, ConvergenceWarning, stacklevel=4)

    def _require_fitted(self) -> None:
        if not hasattr(self, "objective_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "objective_")

    def __getstate__(self) -> dict[str, Any]:
        """The dual state, as large as the training data, stays behind."""
        state = dict(super().__getstate__())
        state.pop("_training", None)
        return state

    # -- model files ----------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file that `partwise.load` reads; the dual state is not in it.

        Parameters
        ----------
        path : path
        """
        from partwise.storage.model_file import save_model

        self._require_fitted()
        save_model(path, *self._state())

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """All that a model file holds: JSON values, and arrays."""
        raise NotImplementedError

    def _record_state(self) -> dict[str, Any]:
        return {name: getattr(self, f"{name}_") for name in (*_RECORD, "certificate_kind")}

    def _set_record(self, record: Mapping[str, Any]) -> None:
        for name in ("objective", "dual_objective", "duality_gap", "n_passes"):
            expect_number(record, name)
        if not isinstance(record.get("history"), list):
            raise InputError("the training record has no history")
        for name in _RECORD:
            setattr(self, f"{name}_", record[name])
        # Files from before there were other kinds do not say it.
        kind = {"certificate_kind": "exact"} | dict(record)
        self.certificate_kind_ = expect_text(kind, "certificate_kind", CERTIFICATE_KINDS)

    def _parameters_state(self, names: list[str]) -> dict[str, Any]:
        """Parameters as JSON values; callbacks and generators are left out, solver objects named."""
        parameters = {name: getattr(self, name) for name in names}
        loss = Loss.of(parameters["loss"])
        beta: Any = "inf" if loss.is_hard else loss.beta
        parameters["loss"] = {"beta": beta, "gamma": loss.gamma}
        parameters["callback"], parameters["verbose"] = None, int(parameters["verbose"])
        if not isinstance(parameters["solver"], str):
            parameters["solver"] = str(parameters["solver"].name)
        if not isinstance(parameters["random_state"], int):
            parameters["random_state"] = None
        for name, value in parameters.items():
            if isinstance(value, np.ndarray):
                parameters[name] = value.tolist()
            elif isinstance(value, os.PathLike):
                parameters[name] = os.fspath(value)
            elif name == "class_weight" and isinstance(value, dict):
                parameters[name] = [[_plain(label), float(weight)] for label, weight in value.items()]
        return parameters

    @classmethod
    def _with_parameters(cls, stored: Mapping[str, Any]) -> Any:
        """An unfitted estimator from what `_parameters_state` gave."""
        parameters = {name: stored[name] for name in cls._get_param_names() if name in stored}
        loss = stored.get("loss")
        if not isinstance(loss, Mapping):
            raise InputError("the loss is missing")
        beta = math.inf if loss.get("beta") == "inf" else expect_number(loss, "beta")
        parameters["loss"] = named_loss(Loss(beta, expect_number(loss, "gamma")))
        if isinstance(parameters.get("class_weight"), list):
            parameters["class_weight"] = {label: float(w) for label, w in parameters["class_weight"]}
        return cls(**parameters)


def named_loss(loss: Loss) -> str | Loss:
    """The name of a loss that has one."""
    return loss.name if "(" not in loss.name else loss


def sharpness(loss: Loss) -> float:
    """β of a loss that has probabilities."""
    if loss.is_hard:
        raise InputError(
            f"loss={loss.name!r} has beta = inf and so no probabilities: use predict_kbest for "
            "scores, or train with 'log', 'softmax_margin' or Loss(beta, gamma) with a finite beta"
        )
    return loss.beta


def random_generator(random_state: Any) -> np.random.Generator:
    """A generator from None, a seed, a RandomState or a Generator."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1, size=4))
    if random_state is np.random:
        return np.random.default_rng(np.random.randint(2**31 - 1, size=4))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        message = "random_state must be None, an integer >= 0, a RandomState or a Generator"
        raise InputError(f"{message}, not {random_state!r:.60}") from None


def n_threads(n_jobs: int | None) -> int:
    """Threads to use: None is 1, negative counts back from the number of processors."""
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0:
        raise InputError(f"n_jobs must be None or an integer other than 0, not {n_jobs!r}")
    return int(n_jobs) if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + int(n_jobs))


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
