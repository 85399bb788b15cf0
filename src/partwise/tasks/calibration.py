"""Temperature scaling: one number divides all scores, chosen by held-out labelled data (Guo et al. 2017)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from partwise.errors import InputError
from partwise.scoring.reliability import reliability
from partwise.tasks import task_of
from partwise.tasks.page import Parts

# Probabilities are clipped at this distance from 0 and 1, so that one part alone cannot decide on the temperature.
_LEAST = 1e-7
# The logarithm of the temperature is searched in this range, to this precision: 1e-3 changes no fourth decimal.
_RANGE, _PRECISION = (-4.0, 4.0), 1e-3
_GOLDEN = (5**0.5 - 1.0) / 2.0


class Calibration(NamedTuple):
    """Quality of probabilities on the data of :meth:`calibrate`, before and after.

    Attributes
    ----------
    error_before, error_after : float
        Expected calibration error of all parts.
    log_score_before, log_score_after : float
        Mean of −log(probability of what is true) over all parts, each taken by itself.
    n_parts : int
    """

    error_before: float
    error_after: float
    log_score_before: float
    log_score_after: float
    n_parts: int


def calibrate(estimator: Any, X: Any, y: Any) -> Any:
    """Set the estimator's `temperature_` and `calibration_`. If the data raise an error, nothing changes."""
    sizes = [each.shape[0] if hasattr(each, "shape") else len(each) for each in (X, y) if _has_size(each)]
    if len(sizes) == 2 and sizes[0] != sizes[1]:
        raise InputError(f"X has {sizes[0]} examples, y has {sizes[1]}")
    task, start = task_of(estimator)(estimator), estimator.temperature_
    if y is None and not hasattr(X, "n_words"):
        raise InputError("calibrate needs y, the true labels of X")

    def parts(log_temperature: float) -> Parts:
        estimator.temperature_ = float(np.exp(log_temperature))
        every = task.evidence(X, y).every
        if every is None or not np.asarray(every[1]).any():
            raise InputError("X and y have no parts that the model knows: nothing to calibrate by")
        return every

    try:
        before = parts(np.log(start))
        best = _smallest(lambda t: log_score(*parts(t)))
        after = parts(best)
    except BaseException:
        estimator.temperature_ = start
        raise
    if log_score(*after) > log_score(*before):
        estimator.temperature_, after = start, before
    estimator.calibration_ = Calibration(
        reliability(*before).expected_error,
        reliability(*after).expected_error,
        log_score(*before),
        log_score(*after),
        len(before[0]),
    )
    return estimator


def _has_size(values: Any) -> bool:
    return hasattr(values, "shape") or hasattr(values, "__len__")


def log_score(probability: Any, is_true: Any) -> float:
    """Mean of −log p of true parts and −log(1 − p) of others."""
    p = np.clip(np.asarray(probability, float), _LEAST, 1.0 - _LEAST)
    return float(-np.mean(np.log(np.where(np.asarray(is_true, bool), p, 1.0 - p))))


def _smallest(value: Any) -> float:
    """The minimiser of a function with one local minimum, by golden-section search."""
    low, high = _RANGE
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = value(left), value(right)
    while high - low > _PRECISION:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = value(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = value(right)
    return (low + high) / 2.0
