"""What commands and pages ask a labeler of segments."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from partwise.core.arrays import offsets
from partwise.core.problem import Problem
from partwise.estimators.answers import Answers
from partwise.estimators.base import n_threads
from partwise.estimators.model import LinearModel
from partwise.tasks.segments.data import read_segments
from partwise.tasks.segments.encoder import SegmentEncoder


class SegmentAnswers(Answers):
    """Answers of an estimator that has `_encoder`, `_model`, `classes_` and `top_transitions`."""

    _task = "segments"
    _encoder: SegmentEncoder
    template: Any
    segment_template: Any
    outside: str
    pairs: Any
    max_length_: int
    n_cut_: int
    top_transitions: Any
    n_jobs: int | None
    _named: Callable[[np.ndarray], list[Any]]

    def _shown_settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {"longest segment": self.max_length_, "pairs": self.pairs}
        if self._encoder.kind == "columns":
            template = self.template or self._encoder.tokens.template.path or "given as text"
            settings["template"] = str(template)
        return settings | {"segment template": str(self.segment_template)}

    def _shown_sizes(self) -> dict[str, Any]:
        segments, tokens = self._encoder.sizes
        return {
            "labels": len(self.classes_),
            "features of segments": segments.n_sparse,
            "features of positions": tokens.n_dense + tokens.n_sparse,
            "non-zero weights": int(np.count_nonzero(self.coef_)),
        }

    def _shown_transitions(self, n: int, label: Any = None) -> list[tuple[Any, Any, float]]:
        found = self.top_transitions(len(self.classes_) ** 2)
        return [each for each in found if label is None or label in each[:2]][:n]

    def _scorer_during_fit(
        self, problem: Problem, encoder: SegmentEncoder, X: Any, y: Any
    ) -> Callable[[np.ndarray], float]:
        """F1 of segments."""
        encoded = encoder.transform(X)
        bounds = list(pairwise(offsets(encoded.lengths).tolist()))
        true = [set(each) for each in read_segments(y, encoded.lengths)]
        scorer: Any = None

        def score(weights: np.ndarray) -> float:
            nonlocal scorer
            model = LinearModel(problem.structure, problem.scorer.maps, np.ascontiguousarray(weights))
            scorer = model.scorer(encoded) if scorer is None else scorer
            tags, _ = model.best(scorer, None, n_threads(self.n_jobs))
            return _f1(true, [set(self._named(tags[a:b])) for a, b in bounds])

        return score

    _score_name = "F1"  # type: ignore[assignment]

    def _score_of_labels(self, problem: Problem, true: np.ndarray, predicted: np.ndarray) -> float:
        bounds = list(pairwise(offsets(problem.lengths).tolist()))
        return _f1(*([set(self._named(tags[a:b])) for a, b in bounds] for tags in (true, predicted)))

    def _training_facts(self) -> dict[str, Any]:
        return {"max_length": self.max_length_, "cut_segments": self.n_cut_}

    def _training_notes(self) -> list[str]:
        if not self.n_cut_:
            return []
        return [f"{self.n_cut_:,} training segments were longer than {self.max_length_} positions and cut"]


def _f1(true: list[set[Any]], predicted: list[set[Any]]) -> float:
    """2 · both / (true + predicted)."""
    both = sum(len(a & b) for a, b in zip(true, predicted, strict=True))
    either = sum(len(a) + len(b) for a, b in zip(true, predicted, strict=True))
    return 2.0 * both / either if either else 1.0
