"""`StructuredEstimator`: parameters, and training with a certificate, of all estimators."""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from partwise.compiled.clock import is_told, telling
from partwise.core.checks import check_positive
from partwise.core.losses import Loss
from partwise.core.precompile import SMALLEST_TOL_OF_SINGLE, begin_compiling
from partwise.core.problem import Problem
from partwise.core.randomness import random_generator
from partwise.errors import InputError
from partwise.estimators.answers import Answers
from partwise.estimators.checks import check_cost
from partwise.estimators.docstrings import completed
from partwise.estimators.parameters import check_parameters
from partwise.estimators.pictures import Pictures
from partwise.estimators.probabilities import GUARANTEES
from partwise.estimators.protocol import Estimator, not_fitted
from partwise.estimators.saving import Saved
from partwise.report.compiling import CompilingLine

if TYPE_CHECKING:
    from typing_extensions import Self

    from partwise.compiled.oracles import Oracle
    from partwise.distributed import Engine
    from partwise.solvers import Progress, Solution, Solver, WarmStart


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
        In the order of `problem`'s feature maps.
    encoder : object
        As it numbered all features of the training data.
    data : object
        The training data as `_read` returned them.
    """

    problem: Problem
    solver: Solver
    state: Any
    weights: np.ndarray
    encoder: Any
    data: Any


class Fitted:
    """Attributes that training sets."""

    temperature_: float
    objective_: float
    dual_objective_: float
    duality_gap_: float
    converged_: bool
    stop_reason_: str
    certificate_kind_: str
    n_passes_: float
    history_: list[dict[str, Any]]
    l2_: float
    l2s_: np.ndarray
    scores_: np.ndarray
    _training: Training


@dataclass(eq=False, repr=False)
class StructuredEstimator(Fitted, Saved, Answers, Pictures, Estimator):
    """Base of all estimators: parameters, training with a certificate, model files.

    Solvers are imported when training begins: prediction does not need them.

    Parameters
    ----------
    loss : {"log", "hinge", "softmax_margin", "perceptron"} or Loss
        "log" is the conditional random field, "hinge" the max-margin Markov network.
    l2 : float or "cv"
        Strength of the regulariser (l2/2)‖w‖². "cv" chooses it by cross-validation.
    solver : str or Solver
        "auto", a name from ``partwise.solvers.SOLVERS``, or a solver object.
    tol : float
        Relative duality gap to stop at: the objective is proved to be that close to the optimum.
    max_passes : float
        Most passes over the data.
    random_state : None, int, RandomState or Generator
    n_jobs : int or None
        Threads for certificates and prediction; −1 for all processors.
    verbose : int
        1 prints an estimate of the memory before training, and a line per certificate.
    time_limit : float or None
        Seconds of training, also within a pass. The last certificate may take half as long again.
    memory_limit : float, str or None
        Bytes that the process may use, or a text such as "1.5GB". "auto" then chooses a solver that fits, and other
        solvers use their leaner form. None is half of the machine's memory.
    callback : callable or None
        Called with a ``partwise.solvers.Progress`` after every step, and every ten seconds within passes that are
        expected to take more than half a minute. Training stops after the step if it returns True. If the callback
        has a method `begin`, this is called before training with the problem and the encoder.
    certificate_every : float or None
        Passes between certificates. None computes them as often as is worth their cost.
    cv : int or splitter
        Folds for ``l2="cv"``, as in scikit-learn. They are trained in `n_jobs` threads.
    l2s : array_like or None
        Values that ``l2="cv"`` tries. None is nine from 100 to 0.1. Afterwards there are ``l2_``, ``l2s_`` and
        ``scores_`` (n_folds, n_values).

    Attributes
    ----------
    objective_, dual_objective_ : float
        P(w) and D(α); the optimum lies between them.
    duality_gap_ : float
        (P − D) / |P|, which is compared with `tol`.
    certificate_kind_ : {"exact", "relaxation", "approximate", "local", "sampled"}
        Which problem the certificate is of.
    converged_ : bool
    stop_reason_ : str
    n_passes_ : float
    history_ : list of dict
        passes, seconds, cpu_seconds, primal, dual, gap, relative_gap of every certificate.
    """

    loss: str | Loss = "log"
    l2: float | Literal["cv"] = 1.0
    solver: str | Solver = "auto"
    tol: float = 1e-3
    max_passes: float = 200
    random_state: Any = 0
    n_jobs: int | None = 1
    verbose: int = 0
    _: KW_ONLY
    time_limit: float | None = None
    memory_limit: float | str | None = None
    callback: Callable[[Progress], bool | None] | None = None
    certificate_every: float | None = None
    cv: Any = 5
    l2s: Any = None

    _keeps_training: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__doc__ = completed(cls, StructuredEstimator)

    def _check_parameters(self) -> Loss:
        """Refuse what cannot be, before any work; returns the loss."""

        loss = Loss.of(self.loss)
        if not self._chooses_l2:
            check_positive("l2", self.l2)  # type: ignore[arg-type]
        for name in ("tol", "max_passes"):
            check_positive(name, getattr(self, name))
        for name in ("time_limit", "certificate_every"):
            if getattr(self, name) is not None:
                check_positive(name, getattr(self, name))
        if self.callback is not None and not callable(self.callback):
            raise InputError(f"callback must be callable or None, not {self.callback!r}")
        from partwise.solvers.registry import check_known

        check_known(self.solver)
        if self.memory_limit is not None:
            from partwise.solvers.memory import bytes_of

            bytes_of(self.memory_limit)
        self._engine()
        check_cost(getattr(self, "cost", "hamming"))
        random_generator(self.random_state)
        n_threads(self.n_jobs)
        check_parameters(self, self._parameters_in_file())
        return loss

    def _engine(self) -> Engine | None:
        """Where to train, if not in this process."""
        return None

    def _begin_compiling(self, oracle: Oracle, asks: tuple[str, ...] = ()) -> None:
        """Before data are read: what the loss asks of structures of this kind, and `asks` besides."""
        is_hard = Loss.of(self.loss).is_hard
        asks = tuple(dict.fromkeys((*asks, "best" if is_hard else "sums")))
        begin_compiling(oracle, asks, "single" if self.tol >= SMALLEST_TOL_OF_SINGLE else "double", is_hard)

    @property
    def _chooses_l2(self) -> bool:
        """Whether l2 is chosen by cross-validation."""
        return isinstance(self.l2, str) and self.l2 == "cv"

    @property
    def _l2(self) -> float:
        """What a problem is built with; where l2 is still to be chosen, any."""
        return 1.0 if self._chooses_l2 else float(self.l2)

    @property
    def _is_followed(self) -> bool:
        """Whether several values of l2 are tried."""
        return self._chooses_l2 or "_follow" in self.__dict__

    @property
    def _has_folds(self) -> bool:
        """Whether examples must stay as they came, since folds count them."""
        return self._chooses_l2 or getattr(self.__dict__.get("_follow"), "by_folds", False)

    # -- training -------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train.

        Parameters
        ----------
        X, y
            As the task reads them.
        sample_weight : array_like (n_examples,), optional
        """
        return self._fit(lambda: self._read(X, y, sample_weight), self._previous())

    def _fit(self, read: Callable[[], Any], previous: Training | None) -> Self:
        """Read, build, solve, become: every fit.

        Parameters
        ----------
        read : callable
            Returns the training data.
        previous : Training or None
            An earlier fit to continue from.
        """
        earlier = self._earlier_weights() if previous is None else None
        with self._refitting():
            self._check_parameters()
            data = read()
            problem, encoder = self._build(data)
            solver = self._solver_for(problem)
            self._announce(problem, encoder, solver)
            if self._is_followed:
                from partwise.estimators.regularization_path.choice import choose_l2

                solver, solution = self.__dict__.get("_follow", choose_l2)(self, problem, encoder, data)
            else:
                warm_start: WarmStart | np.ndarray | None = None
                if previous is not None:
                    warm_start = self._carried_over(problem, solver, previous)
                if earlier is not None:
                    warm_start = earlier(problem, encoder, self._known_labels())
                solution = self._solve(problem, solver, warm_start)
            self._become(solver, solution, encoder, data)
        self._warn_unless_converged()
        return self

    def _read(self, X: Any, y: Any, sample_weight: Any) -> Any:
        """The training data of a task, checked."""
        raise NotImplementedError

    def _build(self, data: Any) -> tuple[Problem, Any]:
        """Training data encoded and bound to structure and loss; and the encoder. Sets attributes of the data."""
        raise NotImplementedError

    def _take_weights(self, solution: Solution, encoder: Any, data: Any) -> None:
        """Become the model of a solution's weights."""
        raise NotImplementedError

    def _problem_for(self, X: Any, y: Any = None, sample_weight: Any = None) -> tuple[Problem, Any]:
        """The problem that `fit` solves, and the encoder; for solvers called by hand.

        The estimator is not fitted afterwards, since its labels are those of the new data.
        """
        with self._refitting():
            self._check_parameters()
            return self._build(self._read(X, y, sample_weight))

    def _previous(self) -> Training | None:
        """The last fit, if this one is to continue from it."""
        return None

    def _earlier_weights(self) -> Callable[[Problem, Any, list[Any]], np.ndarray | None] | None:
        """The function that takes starting weights from a loaded model, if this fit continues from one; else None."""
        return None

    def _carried_over(self, problem: Problem, solver: Solver, previous: Training) -> WarmStart | None:
        """The state of an earlier fit as a start for this problem."""
        raise NotImplementedError

    def _become(self, solver: Solver, solution: Solution, encoder: Any, data: Any) -> None:
        """Take over a solution: its certificate, its weights, and its state if later fits may need that."""
        self._set_certificate(solution)
        if self._keeps_training:
            problem = solution.problem
            self._training = Training(problem, solver, solution.state, solution.weights, encoder, data)
        self._take_weights(solution, encoder, data)

    def _announce(self, problem: Problem, encoder: Any, solver: Solver) -> None:
        """Before training: call the callback's method `begin`; tell sizes to its method `say`, or print them.

        The memory that training takes is told if the estimator or the callback has `verbose`.
        """
        begin = getattr(self.callback, "begin", None)
        if begin is not None:
            from partwise.solvers.needs import check_solver

            check_solver(problem, solver)
            begin(problem, encoder)
        say = getattr(self.callback, "say", print)
        lines = self._before_training(problem, solver) if self.verbose or say is not print else []
        if self.verbose or getattr(self.callback, "verbose", False):
            from partwise.solvers.memory import memory_estimate

            lines.append(str(memory_estimate(problem, solver, self.tol, self.memory_limit)))
        for line in lines:
            say(line)

    def _solve(
        self, problem: Problem, solver: Solver, warm_start: WarmStart | np.ndarray | None = None
    ) -> Solution:
        """Train, from an earlier state of the same solver or from weights if there are any."""
        from partwise.distributed import at_work_on
        from partwise.estimators.long_passes import warn_if_long, watched
        from partwise.solvers import solve

        if not problem.n_weights:
            raise InputError(
                "there is not one feature to learn a weight of: lower min_count, or add features"
            )
        whole, callback = problem, self._callback()
        engine = self._engine()
        if engine is None and warn_if_long(problem, stacklevel=_frames_within()):
            problem, callback = watched(problem, callback, self.max_passes, bool(self.verbose))
        subject = f"{type(problem.structure).__name__.lower()} problems with {problem.loss.name} loss"
        try:
            tell = getattr(self.callback, "say", None)
            with (
                telling(self._compiling_line(), subject),
                at_work_on(engine, problem, solver, tell) as at_work,
            ):
                solution = solve(
                    at_work.problem,
                    at_work.solver,
                    **at_work.settings,
                    tol=self.tol,
                    max_passes=self.max_passes,
                    random_state=random_generator(self.random_state),
                    callback=callback,
                    time_limit=self.time_limit,
                    certificate_every=self.certificate_every,
                    warm_start=warm_start,
                )
        except MemoryError as error:
            parts = f"{problem.n_examples:,} examples have {problem.n_parts:,} parts"
            raise InputError(
                f"{parts}, too many for the memory: use fewer labels or a lower order ({error})"
            ) from None
        if not math.isfinite(solution.certificate.primal):
            raise InputError(
                f"the objective became {solution.certificate.primal}: feature values, cost, gamma, beta, "
                "sample_weight or 1 / l2 are too large for floating-point numbers: scale them down"
            )
        return replace(solution, problem=whole)

    def _solver_for(self, problem: Problem) -> Solver:
        """What `solver` stands for, within `memory_limit`."""
        from partwise.solvers.memory import solver_within

        return solver_within(problem, self.solver, self.tol, self.memory_limit)

    def _compiling_line(self) -> CompilingLine | None:
        """What says that code is compiled, where nobody else does and somebody looks."""
        stream = sys.stderr
        shown = stream is not None and (self.verbose or stream.isatty()) and not is_told()
        return CompilingLine(stream) if shown else None

    @contextmanager
    def _refitting(self) -> Iterator[None]:
        """Within, the estimator is not fitted; an exception leaves it as it was before, all of it."""
        before = dict(self.__dict__)
        for name in ("objective_", "coef_", "_model", "_support", "l2_", "l2s_", "scores_", *GUARANTEES):
            self.__dict__.pop(name, None)
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _callback(self) -> Callable[[Progress], bool | None] | None:
        if not self.verbose and self.callback is None:
            return None

        def report(progress: Progress) -> bool | None:
            if progress.weights is not None:  # what the callback does to them must not reach the model
                progress = replace(progress, weights=progress.weights.copy())
            if progress.record is not None and self.verbose:
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
        self.temperature_ = 1.0
        self.objective_ = float(certificate.primal)
        self.dual_objective_ = float(certificate.dual)
        self.duality_gap_ = float(certificate.relative_gap)
        self.converged_ = bool(solution.converged)
        self.stop_reason_ = solution.why
        self.certificate_kind_ = certificate.kind
        self.n_passes_ = float(solution.passes)
        self.history_ = [record.as_dict() for record in solution.history]

    def _warn_unless_converged(self) -> None:
        if not self.converged_:
            from sklearn.exceptions import ConvergenceWarning

            message = f"{self.stop_reason_} (relative gap {self.duality_gap_:.2g}, tol {self.tol:g})"
            warnings.warn(message, ConvergenceWarning, stacklevel=_frames_within())

    def _require_fitted(self) -> None:
        if not hasattr(self, "objective_"):
            raise not_fitted(self)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "objective_")

    def __getstate__(self) -> dict[str, Any]:
        """The dual state, as large as the training data, stays behind."""
        state = super().__getstate__()
        state.pop("_training", None)
        return state


def _frames_within() -> int:
    """How many calls up the first one is that does not come from this package: the line to warn of."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("partwise."):
        frame, depth = frame.f_back, depth + 1
    return depth


def n_threads(n_jobs: int | None) -> int:
    """Threads to use: None is 1, negative counts back from the number of processors."""
    if n_jobs is None:
        return 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0:
        raise InputError(f"n_jobs must be None or an integer other than 0, not {n_jobs!r}")
    return int(n_jobs) if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + int(n_jobs))
