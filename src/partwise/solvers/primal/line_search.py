"""Line searches on the primal for smooth losses, also with an l1 term."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from partwise.core.problem import Problem
from partwise.solvers.base import evaluate_model, model_primal

_SUFFICIENT_DECREASE = 1e-4
_MAX_HALVINGS = 40


class Point(NamedTuple):
    """Weights with their evaluation; the gradient is that of P without its l1 term."""

    weights: np.ndarray
    gradient: np.ndarray
    value: float
    dual: float


class LineSearch:
    """P along w + t·direction. The last point is kept, since it is the one that a search accepts."""

    def __init__(self, problem: Problem, start: Point, direction: np.ndarray):
        self.problem, self.start, self.direction = problem, start, direction
        self.slope = problem.inner(start.gradient, direction)
        self.evaluations = 0
        self._last_distance, self._last = 0.0, start

    def point(self, distance: float) -> Point:
        if distance != self._last_distance:
            weights = self.start.weights + distance * self.direction
            self._last_distance, self._last = distance, evaluate(self.problem, weights)
            self.evaluations += 1
        return self._last

    def search(self, curvature: float, previous_value: float | None) -> Point | None:
        """A point with enough decrease, by SciPy's strong Wolfe search or else by halving; or None.

        Most searches accept their first point. It is tried before SciPy, which takes longer than a small problem.
        """
        if self._ends_at_once(curvature, previous_value):
            return self._last
        from scipy.optimize import line_search  # takes 20 MB, and most runs do not need it

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its warning of failure is handled here
            distance, _, _, _, _, slope = line_search(
                lambda t: self.point(float(t[0])).value,
                lambda t: np.array([self.problem.inner(self.point(float(t[0])).gradient, self.direction)]),
                np.zeros(1), np.ones(1), np.array([self.slope]), self.start.value, previous_value,
                c1=_SUFFICIENT_DECREASE, c2=curvature, maxiter=20,
            )  # fmt: skip
        if distance is not None and slope is not None:
            return self.point(float(distance))
        distance = 1.0
        for _ in range(_MAX_HALVINGS):
            found = self.point(distance)
            if found.value < self.start.value + _SUFFICIENT_DECREASE * distance * self.slope:
                return found
            distance *= 0.5
        return None

    def _ends_at_once(self, curvature: float, previous_value: float | None) -> bool:
        """Whether the first distance, 1 or one that would gain as much as last time, meets the Wolfe conditions."""
        distance = 1.0
        if previous_value is not None and self.slope != 0.0:
            distance = min(1.0, 2.02 * (self.start.value - previous_value) / self.slope)
        if not distance > 0.0:
            return False
        found = self.point(distance)
        slope = self.problem.inner(found.gradient, self.direction)
        is_lower = found.value <= self.start.value + _SUFFICIENT_DECREASE * distance * self.slope
        return is_lower and abs(slope) <= -curvature * self.slope


def evaluate(problem: Problem, weights: np.ndarray) -> Point:
    model = evaluate_model(problem, weights)
    gradient = problem.l2 * weights - model.v
    return Point(weights, gradient, model_primal(problem, weights, model), problem.dual(model))


class SparseLineSearch(LineSearch):
    """P with an l1 term along w + t·direction; the full step ends at weights with the intended zeros."""

    def search(self, curvature: float, previous_value: float | None) -> Point | None:
        """The first of 1, 1/2, 1/4, … with enough decrease."""
        start, l1 = self.start, self.problem.l1
        grown = float(np.abs(start.weights + self.direction).sum() - np.abs(start.weights).sum())
        promised = self.slope + l1 * grown
        distance = 1.0
        for _ in range(_MAX_HALVINGS):
            found = self.point(distance)
            if found.value <= start.value + _SUFFICIENT_DECREASE * distance * promised:
                return found
            distance *= 0.5
        return None


def pseudo_gradient(point: Point, l1: float) -> np.ndarray:
    """The subgradient of P with the smallest norm."""
    at_zero = point.gradient - np.clip(point.gradient, -l1, l1)
    return np.where(point.weights != 0.0, point.gradient + l1 * np.sign(point.weights), at_zero)
