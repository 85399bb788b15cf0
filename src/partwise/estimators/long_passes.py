"""Passes that take long: an estimate beforehand, and progress within them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from partwise.compiled.examples import Scratch
from partwise.core.problem import Problem, Visit
from partwise.core.streamed import StreamedProblem
from partwise.solvers import Progress

LONG = 30.0  # seconds from which a pass is worth a word before it begins
_SECONDS_A_CELL = (
    6e-9  # of a chain's table, or of a weight read; measured at 1,200 labels on a busy two-core machine
)
_PIECES = 50  # parts of a pass between which progress can be reported, and training interrupted
_SHORTEST_WAIT = 10.0  # seconds between two reports


def estimated_seconds(problem: Problem) -> float:
    """About how long a pass over the data takes on one thread."""
    cells = float(problem.n_touched) + problem.structure.table_cells(problem.scorer.shapes)
    return _SECONDS_A_CELL * cells


def warn_if_long(problem: Problem, stacklevel: int) -> bool:
    """Say in one line that a pass will take long, and why; returns whether it will."""
    seconds = estimated_seconds(problem)
    if seconds < LONG:
        return False
    size = f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} seconds"
    why, faster = problem.structure.why_slow(problem.scorer.shapes)
    warnings.warn(
        f"one pass over the data will take about {size} ({why}): verbose=1 shows progress, time_limit ends training "
        f"also within a pass, {faster} are faster",
        stacklevel=stacklevel + 1,
    )
    return True


Callback = Callable[[Progress], bool | None]


def watched(
    problem: Problem, callback: Callback | None, max_passes: float, verbose: bool
) -> tuple[Problem, Callback | None]:
    """The problem, and the callback for its solver, such that `callback` also hears from within passes.

    It is called there at most every ten seconds; when it asks to stop, training ends after the step. With `verbose`
    a line is printed each time.
    """
    if callback is not None and isinstance(problem, StreamedProblem):
        streaming = _Watcher(callback, max_passes, problem.n_examples, verbose)
        return replace(problem, note=streaming.within_step), streaming.after_step
    if callback is None or type(problem) is not Problem:  # kernel problems visit in blocks of their own
        return problem, callback
    watcher = _Watcher(callback, max_passes, problem.n_examples, verbose)
    return _PiecewiseProblem.of(problem, watcher.within_step), watcher.after_step


class _Watcher:
    """Hands on what a solver reports after its steps, and how many examples were visited within one."""

    def __init__(self, callback: Callback, max_passes: float, n_examples: int, verbose: bool):
        self.callback, self.max_passes, self.n_examples = callback, max_passes, n_examples
        self.verbose = verbose
        self.begun = self.reported = time.monotonic()
        self.passes, self.n_visits, self.stop = 0.0, 0, False

    def after_step(self, progress: Progress) -> bool:
        self.passes, self.n_visits, self.reported = progress.passes, 0, time.monotonic()
        return bool(self.callback(progress)) or self.stop

    def within_step(self, n_visits: int) -> None:
        self.n_visits += n_visits
        now = time.monotonic()
        if now > self.reported + _SHORTEST_WAIT:
            self.reported = now
            share = min(self.n_visits / self.n_examples, 1.0)  # a certificate visits all examples again
            nothing = float("nan")
            progress = Progress(self.passes + share, self.max_passes, now - self.begun, nothing, nothing)
            if self.verbose:
                print(f"pass {progress.passes:7.2f}  {progress.seconds:8.2f} s", flush=True)
            self.stop = bool(self.callback(progress)) or self.stop


@dataclass
class _PiecewiseProblem(Problem):
    """A problem whose passes run in pieces, between which `note` hears how many examples were visited."""

    note: Callable[[int], None] = lambda n_visits: None

    @classmethod
    def of(cls, problem: Problem, note: Callable[[int], None]) -> _PiecewiseProblem:
        found = cls(*problem._parts())
        found.note = note
        return found

    def visits(
        self,
        order: np.ndarray,
        v: np.ndarray,
        run: Visit,
        asks: tuple[str, ...] | None = None,
        thread: int = 0,
    ) -> list[Any]:
        results, step = [], max(1, self.n_examples // _PIECES)
        for first in range(0, len(order), step):
            piece = order[first : first + step]
            results += super().visits(piece, v, run, asks, thread)
            self.note(len(piece))
        return results

    def visited(self, n_visits: int) -> None:
        self.note(n_visits)

    def over_examples(
        self,
        dtype: Any,
        work: Callable[[int, int, Scratch, np.ndarray], None],
        asks: tuple[str, ...] | None = None,
    ) -> np.ndarray:
        step = max(1, self.n_examples // _PIECES)

        def in_pieces(first: int, last: int, scratch: Scratch, v: np.ndarray) -> None:
            for begin in range(first, last, step):
                end = min(begin + step, last)
                work(begin, end, scratch, v)
                self.note(end - begin)

        return super().over_examples(dtype, in_pieces, asks)
