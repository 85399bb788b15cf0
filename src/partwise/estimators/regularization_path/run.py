"""The loop along a path: values one after another, lanes side by side, points kept, the end found."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from partwise.compiled.clock import working_time
from partwise.estimators.regularization_path.folds import Lane, Score
from partwise.estimators.regularization_path.values import best_of, has_turned
from partwise.solvers import Solution, Solver, StopReason

_CUT_SHORT = (StopReason.INTERRUPTED, StopReason.CALLBACK)


@dataclass(frozen=True)
class Point:
    """One value of l2: its solution on all examples, without the dual variables, and its scores.

    Attributes
    ----------
    solver : Solver
    solution : Solution
        Weights are rounded to single precision, as models have them.
    scores : tuple of float
        By fold, or one for dev data; empty where nothing is scored.
    train_score : float or None
    seconds, cpu_seconds : float
        Of all that was done at this value; compiling does not count.
    solving_cpu_seconds : float
        Of training on all examples, its warm start and certificates included, without scores.
    """

    solver: Solver
    solution: Solution
    scores: tuple[float, ...] = ()
    train_score: float | None = None
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    solving_cpu_seconds: float = 0.0

    @property
    def l2(self) -> float:
        return self.solution.problem.l2

    @property
    def score(self) -> float | None:
        return float(np.mean(self.scores)) if self.scores else None

    def record(self) -> dict[str, Any]:
        """The point as plain values."""
        certificate = self.solution.certificate
        return {
            "l2": self.l2,
            "objective": certificate.primal,
            "dual_objective": certificate.dual,
            "gap": certificate.relative_gap,
            "converged": self.solution.converged,
            "passes": self.solution.passes,
            "seconds": self.seconds,
            "cpu_seconds": self.cpu_seconds,
            "solving_cpu_seconds": self.solving_cpu_seconds,
            "train_score": self.train_score,
            "dev_score": self.score,
            "scores": list(self.scores),
            "active_weights": int(np.count_nonzero(self.solution.weights)),
        }


@dataclass
class PathRun:
    """A path being followed.

    Attributes
    ----------
    lanes : list of Lane
        The first is the problem on all examples, whose solutions are kept.
    values : list of float
        From large to small.
    n_examples : int
        Of the dev data, for the noise of their score.
    n_threads : int
        Lanes that go on at the same time.
    points : list of Point
    ended : str
        Why the path ended; empty while it has not.
    """

    lanes: list[Lane]
    values: list[float]
    patience: int = 3
    n_examples: int = 1
    n_threads: int = 1
    time_limit: float | None = None
    train_score: Score | None = None
    tell: Callable[[PathRun], object] | None = None
    keep: Callable[[PathRun], object] | None = None
    points: list[Point] = field(default_factory=list)
    ended: str = ""
    stopping: bool = False

    def scores(self) -> np.ndarray:
        """By point and fold, (n_points, n_folds)."""
        return np.array([point.scores for point in self.points], float).reshape(len(self.points), -1)

    def best(self) -> int:
        """The number of the best point; the last where nothing is scored."""
        return best_of(self.scores()) if self.points[-1].scores else len(self.points) - 1

    def follow(self) -> None:
        """Go on to the end of the path."""
        started = working_time()[0]
        while not self.ended and len(self.points) < len(self.values):
            if self.time_limit is not None:
                left = self.time_limit - (working_time()[0] - started)
                for lane in self.lanes:
                    lane.estimator.time_limit = max(left, 1e-3)
            try:
                point = self._next_point()
            except KeyboardInterrupt:
                self.stopping, point = True, None
            if point is None:
                self.ended = f"interrupted at l2 = {self.values[len(self.points)]:g}"
                return
            self.points.append(point)
            self.ended = self._reason(working_time()[0] - started)
            if self.keep is not None:
                self.keep(self)
            if self.tell is not None:
                self.tell(self)

    def _reason(self, seconds: float) -> str:
        """Why the path ends here; empty where it goes on."""
        scores = self.scores()
        if scores.shape[1] and has_turned(scores, self.n_examples, self.patience):
            best = self.points[best_of(scores)]
            return (
                f"stopped at l2 = {self.points[-1].l2:g}: the last {self.patience} scores are clearly below the "
                f"best one, at l2 = {best.l2:g}"
            )
        if len(self.points) == len(self.values):
            return f"all {len(self.values)} values tried" + self._at_an_end()
        if self.time_limit is not None and seconds >= self.time_limit:
            return f"stopped at the time limit, after {len(self.points)} of {len(self.values)} values"
        return ""

    def _at_an_end(self) -> str:
        """What to add where the best value has only one neighbour."""
        if not self.points[-1].scores:
            return ""
        best = self.best()
        if best == len(self.points) - 1:
            return "; the best is the smallest of them, so that a smaller one may be better still"
        return (
            "; the best is the largest of them, so that a larger one may be better still" if best == 0 else ""
        )

    def _next_point(self) -> Point | None:
        """The next value on all lanes; None where it was cut short."""
        l2 = self.values[len(self.points)]
        wall, cpu = working_time()
        first = self.lanes[0]
        # What has to be compiled is, by the first two lanes, before several threads ask for it.
        alone = 0 if self.points else 2
        if self.n_threads == 1 or len(self.lanes) == 1:
            alone = len(self.lanes)
        done = [self._advance(lane, l2) for lane in self.lanes[:alone] if not self.stopping]
        if len(done) < len(self.lanes) and not self.stopping:
            done += self._side_by_side(self.lanes[alone:], l2)
        if self.stopping:
            return None
        solver, solution, score = done[0]
        weights = solution.weights.astype(np.float32).astype(np.float64)
        scores = [score for _, _, score in done[1:]] if first.score is None else [score]
        certificate = replace(solution.certificate, weights=weights)
        train_score = None if self.train_score is None else float(self.train_score(solver, solution))
        wall_now, cpu_now = working_time()
        return Point(
            solver,
            replace(solution, state=None, weights=weights, certificate=certificate),
            tuple(scores),
            train_score,
            wall_now - wall,
            cpu_now - cpu,
            first.cpu_seconds,
        )

    def _advance(self, lane: Lane, l2: float) -> tuple[Solver, Solution, float]:
        """One lane to the next value; all stop where one was cut short."""
        result = lane.advance(l2)
        self.stopping = self.stopping or result[1].stop_reason in _CUT_SHORT
        return result

    def _side_by_side(self, lanes: list[Lane], l2: float) -> list[tuple[Solver, Solution, float]]:
        with ThreadPoolExecutor(self.n_threads) as pool:
            waiting = [pool.submit(self._advance, lane, l2) for lane in lanes]
            try:
                return [each.result() for each in waiting]
            except BaseException:
                self.stopping = True  # seen by the lanes' callbacks after their next step
                for each in waiting:
                    each.cancel()
                raise
