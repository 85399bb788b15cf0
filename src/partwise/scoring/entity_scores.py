"""How good probabilities of entities are: calibration error, and precision and recall by threshold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from partwise.scoring.reliability import Reliability, reliability

_THRESHOLDS = (0.05, *np.arange(0.1, 0.95, 0.1).round(1).tolist(), 0.95, 0.99)


class ThresholdScores(NamedTuple):
    """Precision and recall of the entities with at least some probability."""

    threshold: float
    precision: float
    recall: float
    f1: float
    n_predicted: int


@dataclass(frozen=True)
class EntityScores:
    """Probabilities of entities beside the truth.

    Attributes
    ----------
    predicted, candidates : (probability, is_true)
        Of the entities of the best labellings, and of all entities with a probability of at least 0.01. Two arrays
        each, (n,).
    n_true : int
        True entities.
    expected : float
        Expected number of true entities under the model.
    """

    predicted: tuple[np.ndarray, np.ndarray]
    candidates: tuple[np.ndarray, np.ndarray]
    n_true: int
    expected: float

    def reliability(self, of: str = "predicted", n_bins: int = 15, equal: str = "width") -> Reliability:
        """Entities in bins by their probability, for a reliability diagram and its calibration error.

        Parameters
        ----------
        of : {"predicted", "candidates"}
        n_bins, equal
            As for ``partwise.metrics.reliability``.
        """
        return reliability(*(self.candidates if of == "candidates" else self.predicted), n_bins, equal)

    @property
    def expected_error(self) -> float:
        """Expected calibration error of the entities of the best labellings."""
        return self.reliability().expected_error

    def by_threshold(self, thresholds: Any = _THRESHOLDS) -> list[ThresholdScores]:
        """Precision and recall of all entities with at least each of some probabilities from 0.01 on."""
        p, is_true = self.candidates
        rows = []
        for threshold in map(float, thresholds):
            chosen = p >= threshold
            n, right = int(chosen.sum()), int(is_true[chosen].sum())
            precision, recall = right / n if n else 0.0, right / self.n_true if self.n_true else 0.0
            either = n + self.n_true
            rows.append(
                ThresholdScores(threshold, precision, recall, 2 * right / either if either else 0.0, n)
            )
        return rows

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "n_true": self.n_true,
            "expected": self.expected,
            "predicted": self.reliability().as_dict(),
            "candidates": self.reliability("candidates").as_dict(),
            "thresholds": [row._asdict() for row in self.by_threshold()],
        }
