"""The one loop that runs every solver: clock, certificates, stopping, callbacks, Ctrl-C, checkpoints."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from partwise.compiled.background_compile import finish
from partwise.compiled.clock import working_time
from partwise.core.checks import check_positive
from partwise.core.precompile import SMALLEST_TOL_OF_SINGLE
from partwise.core.problem import Problem
from partwise.core.products import on_own_thread
from partwise.core.randomness import random_generator
from partwise.core.time_limit import until
from partwise.errors import InputError
from partwise.solvers.base import (
    Certificate,
    Record,
    Solution,
    Solver,
    StepInfo,
    StopReason,
    WarmStart,
    with_defaults,
)
from partwise.solvers.checkpoint import load_checkpoint, save_checkpoint, state_like
from partwise.solvers.fingerprint import changes
from partwise.solvers.needs import check_solver
from partwise.solvers.rounding import with_rounding
from partwise.solvers.timing import Timing

# Products of vectors in passes that read or write more numbers wake all threads of the linear algebra library.
_LONG = 5_000_000
# A state does not fit another structure or other sizes, so that training starts again.
_START_AFRESH = {"structure", "n_examples", "n_parts", "n_weights"}

_FIRST_LOOK = 3.0  # passes before the first certificate of a solver that has no estimate of its gap
_PASSES_WAITED = 8.0  # most passes between two certificates of a run so short that the next number is smaller
# Most and fewest passes between two certificates, as shares of the run so far.
_LONGEST_WAIT, _SHORTEST_WAIT = 0.15, 0.05
_ROUNDING = 1e-3  # an estimate within this share of the gap is taken to be exact from then on


@dataclass(frozen=True)
class Progress:
    """The progress of a run, as a callback sees it after every step.

    Attributes
    ----------
    passes, max_passes, seconds : float
    dual, estimated_gap : float
        As the solver keeps them; nan if it does not.
    record : Record or None
        The certificate of this step, if one was made.
    weights : ndarray or None
        The weights of the certificate.
    """

    passes: float
    max_passes: float
    seconds: float
    dual: float
    estimated_gap: float
    record: Record | None = None
    weights: np.ndarray | None = None


@dataclass
class Schedule:
    """Chooses when to make a certificate, which costs up to a pass.

    If `every` is given, after every `every` passes. Otherwise a certificate is due in three cases. The solver's
    estimate of the gap, corrected by its last error, has reached the tolerance. The last two gaps, extrapolated
    exponentially, say so. Or a share `_LONGEST_WAIT` of the run has passed since the last one.
    """

    tol: float
    every: float | None
    last: float = 0.0
    next: float = _FIRST_LOOK
    log_gap: float = math.nan
    correction: float = 1.0

    def is_due(self, passes: float, info: StepInfo) -> bool:
        if self.every is not None:
            return passes >= self.last + self.every - 1e-9
        if not info.estimated_gap >= 0.0:
            return passes >= self.next
        is_exact = abs(self.correction - 1.0) < _ROUNDING
        if passes < (1.0 + _SHORTEST_WAIT) * self.last and not is_exact:
            return False
        primal = abs(info.dual + info.estimated_gap)
        is_reached = self.correction * info.estimated_gap <= self.tol * primal
        return is_reached or passes >= max(self.next, _PASSES_WAITED)

    def made(self, passes: float, info: StepInfo, certificate: Certificate) -> None:
        """Note a certificate, and when the next one is due."""
        wait = max(_LONGEST_WAIT * passes, _FIRST_LOOK if passes < _PASSES_WAITED else _PASSES_WAITED)
        if certificate.relative_gap > self.tol:
            log_gap = math.log(certificate.relative_gap / self.tol)
            fall = (self.log_gap - log_gap) / max(passes - self.last, 1e-9)
            if 0.0 < fall < math.inf:
                wait = max(min(wait, log_gap / fall), _SHORTEST_WAIT * passes)
            self.log_gap = log_gap
        if info.estimated_gap > 0 and certificate.gap > 0:
            self.correction = min(max(certificate.gap / info.estimated_gap, 0.2), 50.0)
        self.last, self.next = passes, passes + wait

    def learnt(self) -> list[float]:
        """The numbers that a checkpoint keeps."""
        return [self.last, self.next, self.log_gap, self.correction]


@dataclass
class Run:
    """Everything that changes during training, except the state of the solver."""

    schedule: Schedule
    passes: float = 0.0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    history: list[Record] = field(default_factory=list)

    @property
    def is_recorded(self) -> bool:
        return bool(self.history) and self.history[-1].passes == self.passes


def solve(
    problem: Problem,
    solver: Solver,
    *,
    tol: float = 1e-3,
    max_passes: float = 200,
    random_state: int | np.random.Generator | None = 0,
    callback: Callable[[Progress], bool | None] | None = None,
    time_limit: float | None = None,
    certificate_every: float | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    warm_start: Solution | WarmStart | np.ndarray | None = None,
) -> Solution:
    """Train until the duality gap proves the tolerance is met.

    Parameters
    ----------
    problem : Problem
    solver : Solver
    tol : float
        Relative duality gap to stop at.
    max_passes : float
        Most effective iterations.
    callback : callable
        Called with a :class:`Progress` after every step; return True to stop.
    time_limit : float
        Seconds of training after which to stop, also within a pass; compiling does not count. The last certificate may
        take half of the limit more (`timing.py`).
    certificate_every : float
        Passes between certificates; by default only as often as is worth their cost.
    checkpoint : path
        File that the run is saved to after every step, atomically. If parts of the state lie elsewhere, it is saved
        as often as these are.
    resume : bool
        Go on from `checkpoint` if it exists, exactly as if training had not been interrupted.
    warm_start : Solution, WarmStart or ndarray (n_weights,)
        Start from an earlier solution by the same solver. If the problem has changed, everything that followed from
        the old problem is computed again. If its structure or sizes have changed, training starts again. Of weights
        alone, solvers start that can (`from_other_data`).
    """
    check_positive("tol", tol)
    check_positive("max_passes", max_passes)
    solver = with_defaults(solver)
    check_solver(problem, solver)
    random = random_generator(random_state)
    run = Run(Schedule(tol, certificate_every))
    at_work = with_precision(solver, tol)
    if resume and checkpoint is None:
        raise InputError("resume=True needs checkpoint, the file to go on from")
    timing = None if time_limit is None else Timing(problem, time_limit)
    if resume and checkpoint is not None and os.path.exists(checkpoint):
        state = load_checkpoint(checkpoint, problem, solver, run, random, at_work.template)
    else:
        with _starting(run, timing):
            state = _start(problem, at_work, warm_start, random)
    saved_as = None if checkpoint is None else (checkpoint, solver)
    loop = _Loop(problem, at_work, run, random, tol, max_passes, timing, callback, saved_as)
    with _no_idle_threads(problem):
        return loop.run(state)


@contextmanager
def _starting(run: Run, timing: Timing | None) -> Iterator[None]:
    """Count the time of finding a first state. Its visits end at the time limit; its sums do not."""
    wall, cpu = working_time()
    if timing is not None:
        timing.begin(0.0)
    with until(None if timing is None else replace(timing.deadline, gives_up_sums=False)):
        yield
    now, cpu_now = working_time()
    run.seconds, run.cpu_seconds = run.seconds + now - wall, run.cpu_seconds + cpu_now - cpu


def _start(
    problem: Problem,
    solver: Solver,
    warm_start: Solution | WarmStart | np.ndarray | None,
    random: np.random.Generator,
) -> Any:
    if isinstance(warm_start, np.ndarray):
        return solver.from_other_data(problem, warm_start, random)
    if warm_start is not None:
        return _warm_state(problem, solver, warm_start, random)
    return solver.init(problem, random)


def _no_idle_threads(problem: Problem) -> AbstractContextManager[Any]:
    """Keep products of long vectors on this thread: other threads would wait for the next one and waste processors."""
    is_long = problem.n_touched + problem.n_parts > _LONG
    return on_own_thread() if is_long else nullcontext()


def with_precision(solver: Solver, tol: float) -> Solver:
    """The solver with precision "auto" settled, and with `tol` if it has such a field.

    A state in single precision ends at a relative gap of 1e-5 to 1e-4, so that a smaller `tol` needs double precision.
    """
    if hasattr(solver, "tol"):
        solver = replace(solver, tol=tol)  # type: ignore[type-var]
    if getattr(solver, "precision", None) != "auto":
        return solver
    precision = "single" if tol >= SMALLEST_TOL_OF_SINGLE else "double"
    return replace(solver, precision=precision)  # type: ignore[type-var]


def _warm_state(
    problem: Problem, solver: Solver, before: Solution | WarmStart, random: np.random.Generator
) -> Any:
    """The state to start from: the earlier one, carried over if the problem has changed, or a fresh one."""
    fresh = solver.init(problem, random)
    changed = changes(before.problem, problem)
    if type(before.state) is not type(fresh) or not changed.isdisjoint(_START_AFRESH):
        return fresh
    if before.problem.loss.is_hard != problem.loss.is_hard:
        return fresh
    try:
        # A copy: steps change states in place, and the earlier solution keeps its own.
        arrays = {name: array.copy() for name, array in before.state._asdict().items()}
        state = state_like(solver.template(problem, arrays.keys()), arrays)
    except (KeyError, ValueError):  # of other settings
        return fresh
    return solver.carry_over(problem, state, changed) if changed else state


@dataclass
class _Loop:
    problem: Problem
    solver: Solver
    run_: Run
    random: np.random.Generator
    tol: float
    max_passes: float
    timing: Timing | None
    callback: Callable[[Progress], bool | None] | None
    saved_as: tuple[str | os.PathLike[str], Solver] | None

    def run(self, state: Any) -> Solution:
        run, certificate = self.run_, None
        reason = self._reason_to_stay()
        if self.timing is not None:
            self.timing.begin(run.seconds)
        info = StepInfo(0.0)
        try:
            while reason is None:
                wall, cpu = working_time()
                state, info = self._step(state)
                run.passes += info.passes
                certificate, record = None, None
                last_step = run.passes >= self.max_passes or self._is_out_of_time()
                if last_step or run.schedule.is_due(run.passes, info):
                    state, certificate = self._certificate(state)
                now, cpu_now = working_time()
                run.seconds, run.cpu_seconds = run.seconds + now - wall, run.cpu_seconds + cpu_now - cpu
                if certificate is not None:
                    record = self._record(certificate)
                    run.schedule.made(run.passes, info, certificate)
                reason = self._reason(state, certificate, record)
                if self.saved_as is not None and self.solver.keep(state):
                    path, solver = self.saved_as
                    save_checkpoint(path, self.problem, solver, run, self.random, state)
                if self._report(info, record, certificate) and reason is None:
                    reason = StopReason.CALLBACK
        except KeyboardInterrupt:
            if run.passes == 0:
                raise  # nothing is trained yet, so there is nothing to return
            reason, certificate = StopReason.INTERRUPTED, None
        if certificate is None:
            state, certificate = self._certificate(state)
            if certificate is None and reason in (StopReason.INTERRUPTED, StopReason.CALLBACK):
                state, certificate = self._made(state)
            elif certificate is None:
                reason, certificate = self._without_certificate(state)
            if reason is not StopReason.TIME_LIMIT_EARLIER and not run.is_recorded:
                self._record(certificate)
        if not certificate.is_sound:
            reason = StopReason.UNSOUND
        assert reason is not None
        return Solution(
            self.problem, certificate.weights, state, certificate, run.history, reason, run.passes
        )

    def _reason_to_stay(self) -> StopReason | None:
        """The reason to stop before the first step: a resumed run may have ended already."""
        history = self.run_.history
        if self.run_.is_recorded and history[-1].proves(self.tol):
            return StopReason.CONVERGED
        return StopReason.MAX_PASSES if self.run_.passes >= self.max_passes else None

    def _step(self, state: Any) -> tuple[Any, StepInfo]:
        """A step of the solver. If a time limit ends it, the state has the visits that were made."""
        if self.timing is None:
            return self.solver.step(self.problem, state, self.random)
        found, is_cut, passes = self.timing.step(lambda: self.solver.step(self.problem, state, self.random))
        state, info = (state, StepInfo(0.0)) if found is None else found
        return state, StepInfo(min(info.passes, passes)) if is_cut else info

    def _certificate(self, state: Any) -> tuple[Any, Certificate | None]:
        """The state and its certificate; None if the time limit leaves no time for one."""
        finish()
        if self.timing is None:
            return self._made(state)
        return self.timing.certificate(lambda: self._made(state)) or (state, None)

    def _without_certificate(self, state: Any) -> tuple[StopReason, Certificate]:
        """The solution of a run that has no time for a last certificate."""
        assert self.timing is not None
        if self.timing.best is not None:
            return StopReason.TIME_LIMIT_EARLIER, self.timing.best
        weights = self.solver.weights(self.problem, state)
        if weights is None or not self.problem.is_in_memory:
            return StopReason.TIME_LIMIT, self._made(state)[1]
        return StopReason.TIME_LIMIT_SAMPLED, self.timing.sampled(weights)

    def _made(self, state: Any) -> tuple[Any, Certificate]:
        """The certificate of the solver with its kind; approximate sums claim no dual."""
        state, found = self.solver.certificate(self.problem, state)
        kind = self.problem.certified
        if kind != "approximate":
            return state, with_rounding(self.problem, replace(found, kind=kind), self.tol)
        losses, _ = self.problem.losses(found.weights)
        negative = int((losses < -1e-9 * (1.0 + np.abs(losses))).sum())
        return state, replace(found, kind=kind, dual=-math.inf, negative_losses=negative)

    def _is_out_of_time(self) -> bool:
        return self.timing is not None and self.timing.is_over

    def _record(self, certificate: Certificate) -> Record:
        run = self.run_
        record = Record(
            passes=run.passes,
            seconds=run.seconds,
            cpu_seconds=run.cpu_seconds,
            primal=certificate.primal,
            dual=certificate.dual,
            gap=certificate.gap,
            relative_gap=certificate.relative_gap,
            drift=certificate.drift,
            kind=certificate.kind,
            negative_losses=certificate.negative_losses,
        )
        run.history.append(record)
        return record

    def _reason(
        self, state: Any, certificate: Certificate | None, record: Record | None
    ) -> StopReason | None:
        if certificate is not None and not certificate.is_sound:
            return StopReason.UNSOUND
        if record is not None and record.proves(self.tol):
            return StopReason.CONVERGED
        if certificate is not None and certificate.is_limited_by_rounding(self.tol):
            return StopReason.ROUNDING
        if self.run_.passes >= self.max_passes:
            is_drowned = certificate is not None and certificate.is_drowned(self.tol)
            return StopReason.ROUNDING if is_drowned else StopReason.MAX_PASSES
        if self._is_out_of_time():
            return StopReason.TIME_LIMIT
        if certificate is not None and self._stalled() and not self.solver.catches_up(state):
            is_noise = certificate.noise > self.tol * abs(certificate.primal)
            return StopReason.ROUNDING if is_noise else StopReason.STALLED
        return None

    def _stalled(self) -> bool:
        """Whether neither bound has moved over three certificates."""
        recent = self.run_.history[-3:]
        if len(recent) < 3 or recent[-1].passes - recent[0].passes < 3:
            return False
        size = 1e-13 * abs(recent[-1].primal)
        duals = [r.dual for r in recent if math.isfinite(r.dual)] or [0.0]
        primals = [r.primal for r in recent]
        return max(duals) - min(duals) <= size and max(primals) - min(primals) <= size

    def _report(self, info: StepInfo, record: Record | None, certificate: Certificate | None) -> bool:
        if self.callback is None:
            return False
        progress = Progress(
            self.run_.passes,
            self.max_passes,
            self.run_.seconds,
            info.dual,
            info.estimated_gap,
            record,
            None if certificate is None else certificate.weights,
        )
        return bool(self.callback(progress))
