"""Temperature scaling: one number divides all scores, chosen by held-out labelled data (Guo et al. 2017)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from partwise.errors import InputError
from partwise.estimators.entities import is_among
from partwise.estimators.isotonic import IsotonicMap
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
        Mean of −log(probability of what is true) over all parts, each taken by itself. For entities, the sum over all
        possible entities is divided by the number of true ones.
    n_parts : int
        For entities, those with a probability of at least 0.01.
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
    estimator.calibration_ = _quality(before, after)
    _forget_sets(estimator)
    return estimator


def calibrate_entities(estimator: Any, X: Any, y: Any, method: str) -> Any:
    """Set the estimator's `temperature_` or `entity_map_`, and `calibration_`. An error changes nothing."""
    true, start = estimator._true_spans(X, y), dict(estimator.__dict__)
    old_map = estimator.entity_map_

    def evidence(temperature: float) -> EntityEvidence:
        estimator.temperature_ = temperature
        found, of_true = estimator._entity_evidence(X, true)
        p = found.spans.probability
        # −log(1 − p) is p for the many spans below the threshold, and their p are what is left of the expected number.
        rest = max(float(found.expected.sum() - p.sum()), 0.0)
        return EntityEvidence(p, is_among(found.spans, true), of_true, rest)

    try:
        estimator.__dict__.pop("entity_map_", None)
        first = evidence(estimator.temperature_)
        if not len(true.example) or not len(first.p):
            raise InputError("X and y have no entities that the model knows: nothing to calibrate by")
        before = first if old_map is None else first.mapped(old_map)
        if method == "isotonic":
            estimator.entity_map_ = IsotonicMap.fit(first.p, first.is_true)
            after = first.mapped(estimator.entity_map_)
        else:
            best = _smallest(lambda t: evidence(float(np.exp(t))).log_score)
            after = evidence(float(np.exp(best)))
            if after.log_score > first.log_score:
                estimator.temperature_, after = start["temperature_"], first
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(start)
        raise
    errors = (reliability(each.p, each.is_true).expected_error for each in (before, after))
    error_before, error_after = errors
    estimator.calibration_ = Calibration(
        error_before, error_after, before.log_score, after.log_score, len(first.p)
    )
    _forget_sets(estimator)
    return estimator


class EntityEvidence(NamedTuple):
    """Probabilities of entities beside the truth.

    Attributes
    ----------
    p, is_true : arrays, shape (n_candidates,)
        Of all candidates.
    of_true : float64 array, shape (n_true,)
        Probability of each true entity.
    rest : float
        Expected number of entities that are no candidates.
    """

    p: np.ndarray
    is_true: np.ndarray
    of_true: np.ndarray
    rest: float

    @property
    def log_score(self) -> float:
        """−log likelihood of all possible spans, each taken by itself, for each true entity."""
        wrong = -np.log1p(-np.minimum(self.p[~self.is_true], 1.0 - _LEAST)).sum()
        right = -np.log(np.maximum(self.of_true, _LEAST)).sum()
        return float(self.rest + wrong + right) / max(len(self.of_true), 1)

    def mapped(self, calibrated: IsotonicMap) -> EntityEvidence:
        return self._replace(p=calibrated(self.p), of_true=calibrated(self.of_true))


def _quality(before: Parts, after: Parts) -> Calibration:
    return Calibration(
        reliability(*before).expected_error,
        reliability(*after).expected_error,
        log_score(*before),
        log_score(*after),
        len(before[0]),
    )


def _forget_sets(estimator: Any) -> None:
    """Sets and thresholds belong to the probabilities before."""
    for name in ("conformal_", "risk_controls_"):
        estimator.__dict__.pop(name, None)


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
