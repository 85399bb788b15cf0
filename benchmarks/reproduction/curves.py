"""Curves and paths of solvers as the papers count them: every step size tried is a visit, the iterate is the last."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from common import certified_points

PASSES, CPU, PRIMAL, DUAL, SEEN = range(5)  # columns of a curve
Watch = Callable[[float, Any], "float | None"]


class AsPublished:
    """Online EG as Collins et al. ran it: judged at its last weights v(α) / l2, where ours returns the mean of a
    pass, and with each η kept where l2 changes, where ours shrinks it."""

    def __init__(self, solver: Any) -> None:
        self.solver = solver

    def __getattr__(self, name: str) -> Any:
        return getattr(self.solver, name)

    def certificate(self, problem: Any, state: Any) -> Any:
        return self.solver.certificate(problem, state._replace(passes=np.zeros(1)))

    def carry_over(self, problem: Any, state: Any, changed: set[str]) -> Any:
        steps = state.step.copy()
        state = self.solver.carry_over(problem, state, changed)
        state.step[:] = steps
        return state


def published_eg(order: str = "random", **settings: Any) -> AsPublished:
    from partwise.solvers import ExponentiatedGradient

    return AsPublished(ExponentiatedGradient(order, precision="double", **settings))  # type: ignore


def curve(
    problem: Any,
    solver: Any,
    max_passes: float,
    *,
    max_cpu: float = math.inf,
    gap: float = 0.0,
    spacing: float = 0.0,
    watch: Watch = lambda passes, weights: None,
    seed: int = 0,
) -> list[list[Any]]:
    """Points (passes, CPU seconds, primal, dual, what `watch` saw) until the relative gap is below `gap`."""
    points: list[list[Any]] = []
    for passes, cpu, primal, dual, _, seen in certified_points(
        problem, solver, max_passes, max_cpu, spacing, watch, seed
    ):
        points.append([passes, cpu, primal, dual, seen])
        if primal - dual <= gap * abs(primal):
            break
    return thinned(points)


def thinned(points: list[list[Any]], spacing: float = 0.03) -> list[list[Any]]:
    """Points at least 3 % apart in passes, and the last one."""
    kept = points[:1]
    for point in points[1:]:
        if point[PASSES] >= (1.0 + spacing) * kept[-1][PASSES] or point is points[-1]:
            kept.append(point)
    return kept


def passes_to(points: list[list[Any]], optimum: float, target: float, column: int = PASSES) -> float | None:
    """Passes (or CPU seconds) until the primal is within `target` of the optimum."""
    return next((p[column] for p in points if p[PRIMAL] - optimum <= target * abs(optimum)), None)


def bracket(curves: Iterable[list[list[Any]]]) -> tuple[float, float]:
    """The largest dual and the smallest primal of several curves: the optimum is between them."""
    points = [point for points in curves for point in points]
    return max(p[DUAL] for p in points), min(p[PRIMAL] for p in points)


def seen_at(points: list[list[Any]], passes: float) -> Any:
    """What was seen last by then, or first of all."""
    return [p[SEEN] for p in points if p[SEEN] is not None and (p[PASSES] <= passes or p is points[0])][-1]


def best_seen(points: list[list[Any]]) -> float:
    return max(point[SEEN] for point in points if point[SEEN] is not None)


def number(value: float | None, digits: int = 0) -> str:
    """For pages: a dash where a run did not get there."""
    return "–" if value is None else f"{value:.{digits}f}"


def best_gaps(points: list[list[Any]]) -> list[float]:
    """Relative gaps of the best primal and the best dual so far: bundle methods and last iterates go up and down."""
    primal = np.minimum.accumulate([p[PRIMAL] for p in points])
    gaps: list[float] = ((primal - np.maximum.accumulate([p[DUAL] for p in points])) / primal).tolist()
    return gaps


def first_below(points: list[list[Any]], target: float, column: int = PASSES) -> float | None:
    """Passes (or CPU seconds) to that gap."""
    return next((p[column] for p, gap in zip(points, best_gaps(points), strict=True) if gap <= target), None)
