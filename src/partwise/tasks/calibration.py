"""How sharp probabilities should be: one temperature for all scores, chosen by labelled data (Guo et al. 2017)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from partwise.errors import InputError
from partwise.scoring.reliability import reliability
from partwise.tasks.page import Parts, explorer_of

_LEAST = 1e-7  # what a part that the model held for impossible costs at most
_RANGE = (-4.0, 4.0)  # of the logarithm of the temperature
_GOLDEN = (5**0.5 - 1.0) / 2.0
_PRECISION = 1e-3


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
    """Set the estimator's `temperature_` and `calibration_`; what it was stays where data are refused."""
    if hasattr(X, "__len__") and hasattr(y, "__len__") and len(X) != len(y):
        raise InputError(f"X has {len(X)} examples, y has {len(y)}")
    explorer, start = explorer_of(estimator), estimator.temperature_

    def parts(log_temperature: float) -> Parts:
        estimator.temperature_ = float(np.exp(log_temperature))
        every = explorer.evidence(X, y).every
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


def log_score(probability: Any, is_true: Any) -> float:
    """Mean of −log p of true parts and −log(1 − p) of others."""
    p = np.clip(np.asarray(probability, float), _LEAST, 1.0 - _LEAST)
    return float(-np.mean(np.log(np.where(np.asarray(is_true, bool), p, 1.0 - p))))


def _smallest(value: Any) -> float:
    """Where a function with one valley is smallest, by golden sections."""
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
