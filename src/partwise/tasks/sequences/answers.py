"""What commands and pages ask a labeler of sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from partwise.core.problem import Problem
from partwise.estimators.answers import Answers
from partwise.estimators.base import n_threads
from partwise.estimators.labels import split
from partwise.estimators.model import LinearModel
from partwise.scoring.labelling import looks_like_chunks
from partwise.scoring.metrics import chunk_scores, token_accuracy


class SequenceAnswers(Answers):
    """Answers of an estimator that has `_encoder`, `_model`, `classes_` and `top_transitions`."""

    _task = "sequences"
    _encoder: Any
    order: int
    scheme: str | None
    pairs: Any
    template: Any
    transition_coef_: Any
    top_transitions: Any
    n_jobs: int | None
    solver: Any
    tol: float

    def _shown_settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {"order": self.order, "scheme": self.scheme, "pairs": self.pairs}
        template = getattr(self._encoder, "template", None)
        if template is not None:
            settings["template"] = str(self.template or template.path or "given as text")
        return settings

    def _shown_sizes(self) -> dict[str, Any]:
        return {
            "labels": len(self.classes_),
            "attributes": int(self._encoder.n_dense + self._encoder.n_attributes),
            "non-zero weights": int(np.count_nonzero(self.coef_)),
        }

    def _shown_transitions(self, n: int, label: Any = None) -> list[tuple[Any, Any, float]]:
        if self.transition_coef_.ndim > 2:
            return []
        found = self.top_transitions(len(self.classes_) ** 2)
        return [each for each in found if label is None or label in each[:2]][:n]

    def _before_training(self, problem: Problem, solver: Any) -> list[str]:
        """What a higher order takes: tables of labels to its power, in time and in memory."""
        told = super()._before_training(problem, solver)
        if self.order == 1:
            return told
        from partwise.estimators.long_passes import estimated_seconds
        from partwise.report.progress import duration

        seconds = duration(estimated_seconds(problem))
        return [f"order {self.order} with {len(self.classes_)} labels: a pass takes about {seconds}", *told]

    def _scorer_during_fit(
        self, problem: Problem, encoder: Any, X: Any, y: Any
    ) -> Callable[[np.ndarray], float]:
        """Chunk F1 where labels look like chunks, else accuracy."""
        encoded = encoder.transform(X)
        lengths = encoded.lengths[encoded.lengths > 0]
        true = [labels for labels in y if len(labels)]
        names = np.array(self.classes_.tolist(), object)
        scorer: Any = None

        def score(weights: np.ndarray) -> float:
            nonlocal scorer
            model = LinearModel(problem.structure, problem.scorer.maps, np.ascontiguousarray(weights))
            scorer = model.scorer(encoded) if scorer is None else scorer
            labels, _ = model.best(scorer, None, n_threads(self.n_jobs))
            predicted = split(names[labels].tolist(), lengths)
            return self._score_of_names(true, predicted)

        return score

    @property
    def _score_name(self) -> str:
        return "F1" if looks_like_chunks(self.classes_.tolist()) else "accuracy"

    def _score_of_labels(self, problem: Problem, true: np.ndarray, predicted: np.ndarray) -> float:
        names = np.array(self.classes_.tolist(), object)
        both = (split(names[codes].tolist(), problem.lengths) for codes in (true, predicted))
        return self._score_of_names(*both)

    def _score_of_names(self, true: list[list[Any]], predicted: list[list[Any]]) -> float:
        in_chunks = looks_like_chunks(self.classes_.tolist())
        return chunk_scores(true, predicted).f1 if in_chunks else token_accuracy(true, predicted)
