"""A time limit of a run: when passes end, which certificate can still be afforded, and what to return without one.

Steps end at the time limit. Certificates may take half of the limit more. If the next one would take longer, a run
ends with its best certificate so far. If there is none, the objective is estimated from a sample of the examples.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from partwise.compiled.clock import working_time
from partwise.core.problem import Problem
from partwise.core.time_limit import Deadline, OutOfTimeError, until
from partwise.solvers.base import Certificate
from partwise.solvers.work_model import evaluation_work, online_pass_work

_A_PIECE = 1e8  # work between two looks at the clock, in nanoseconds of the work model
_GRACE = 0.5  # share of the time limit that certificates may take beyond it


class Timing:
    """The clock of a run with a time limit, and its best certificate so far.

    Parameters
    ----------
    problem : Problem
    seconds : float
        The time limit.
    """

    def __init__(self, problem: Problem, seconds: float):
        self.problem, self.seconds = problem, seconds
        work = max(online_pass_work(problem), evaluation_work(problem))
        at_once = int(problem.n_examples * min(_A_PIECE / work, 1.0))
        self.deadline = Deadline(math.inf, max(at_once, 1))
        self.certificate_seconds = math.nan
        self.steps_seconds = 0.0
        self.best: Certificate | None = None

    def begin(self, spent: float) -> None:
        """A run begins, or goes on after `spent` seconds."""
        self.deadline.ends = working_time()[0] + self.seconds - spent

    @property
    def is_over(self) -> bool:
        return self.deadline.is_over

    def step(self, step: Callable[[], Any]) -> tuple[Any, bool, float]:
        """The result of a step, or None if its sums were given up; whether it was cut short; the passes it took."""
        done, begun = self.deadline.n_done, working_time()[0]
        self.deadline.is_cut = False
        try:
            with until(self.deadline):
                result = step()
        except OutOfTimeError:
            result = None
        self.steps_seconds += working_time()[0] - begun
        passes = (self.deadline.n_done - done) / self.problem.n_examples
        return result, result is None or self.deadline.is_cut, passes

    def certificate(self, make: Callable[[], tuple[Any, Certificate]]) -> tuple[Any, Certificate] | None:
        """The result of `make` within the time left; None if it takes too long, or is expected to.

        If a pass is a single piece of work, there is always time for a certificate.
        """
        latest, soft = self.deadline.ends + _GRACE * self.seconds, self.deadline.ends
        begun = working_time()[0]
        if self.deadline.at_once >= self.problem.n_examples:
            latest = math.inf
        if begun + self._expected() > latest:
            return None
        self.deadline.ends = latest
        try:
            with until(self.deadline):
                state, found = make()
        except OutOfTimeError:
            return None
        finally:
            self.deadline.ends = soft
        self.certificate_seconds = working_time()[0] - begun
        self._keep(found)
        return state, found

    def _expected(self) -> float:
        """Seconds of the next certificate: of the last one, or of a pass at the speed of the steps; 0 if unknown."""
        if self.certificate_seconds >= 0.0:
            return self.certificate_seconds
        passes = self.deadline.n_done / self.problem.n_examples
        return self.steps_seconds / passes if passes > 0.0 else 0.0

    def _keep(self, found: Certificate) -> None:
        """Every dual bounds the optimum, whatever weights it was found with."""
        best = found if self.best is None or found.primal < self.best.primal else self.best
        dual = found.dual if self.best is None else max(found.dual, self.best.dual)
        self.best = replace(best, dual=dual)

    def sampled(self, weights: np.ndarray) -> Certificate:
        """P(weights), estimated from as many examples as there is time for, at least one piece, drawn at random."""
        problem, latest = self.problem, self.deadline.ends + _GRACE * self.seconds
        order, weight = np.random.default_rng(0).permutation(problem.n_examples), problem.example_weight
        loss, seen = 0.0, 0
        while seen < len(order) and (seen == 0 or working_time()[0] < latest):
            here = np.sort(order[seen : seen + self.deadline.at_once])
            losses, _ = problem.shard(here).losses(weights)
            loss, seen = loss + float(weight[here] @ losses), seen + len(here)
        share = float(weight[order[:seen]].sum()) / float(weight.sum())
        # No loss is negative unless sums are approximate or labels are missing: then 0 is a bound.
        dual = 0.0 if problem.certified in ("exact", "relaxation") else -math.inf
        primal = loss / share if share > 0.0 else loss
        return Certificate(primal + problem.penalty(weights), dual, weights, kind="sampled")
