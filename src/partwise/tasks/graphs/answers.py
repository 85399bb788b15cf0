"""What commands and pages ask a labeler of graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from partwise.core.problem import Problem
from partwise.estimators.answers import Answers
from partwise.estimators.base import n_threads
from partwise.estimators.encoded import Encoded
from partwise.estimators.model import LinearModel
from partwise.tasks.graphs.encoder import GraphEncoder
from partwise.tasks.graphs.given import flat_labels
from partwise.tasks.graphs.labels import NodeLabels
from partwise.tasks.graphs.predictions import own_labels
from partwise.tasks.graphs.structures import graph_shapes


class GraphAnswers(Answers):
    """Answers of an estimator that has `_encoder`, `_model`, `_labels`, `inference_` and `_why_inference`."""

    _task = "graphs"
    _encoder: GraphEncoder
    _labels: NodeLabels
    _corpus: Any
    inference_: str
    _why_inference: str
    edges: str
    pairs: Any
    n_jobs: int | None

    def _known_labels(self) -> list[Any]:
        return self._labels.every()

    def _shown_settings(self) -> dict[str, Any]:
        return {"inference": self.inference_, "edges": self.edges, "pairs": self.pairs}

    def _shown_sizes(self) -> dict[str, Any]:
        sizes: dict[str, Any] = {}
        for name, own in self._labels.classes.items():
            sizes[f"labels of {name}"] = len(own)
        for name, own in self._encoder.own.items():
            sizes[f"attributes of {name}"] = sum(map(sum, own.sizes))
        for kind in self._encoder.factors:
            if kind.tied:
                sizes[f"attributes of {kind.name}"] = 0
        return sizes | {"non-zero weights": int(np.count_nonzero(self.coef_))}

    def _scorer_during_fit(
        self, problem: Problem, encoder: GraphEncoder, X: Any, y: Any
    ) -> Callable[[np.ndarray], float] | None:
        """Share of nodes labelled right; None where the graphs are too wide for the structure that is trained."""
        corpus = self._corpus(X)
        flat = flat_labels(own_labels(X, y), corpus.lengths)
        structure: Any = problem.structure
        try:
            shapes = structure.shapes_of(graph_shapes(encoder, corpus))
        except ValueError:
            return None
        encoded = Encoded(corpus.lengths, encoder.transform(corpus), shapes)
        scorer: Any = None

        def score(weights: np.ndarray) -> float:
            nonlocal scorer
            model = LinearModel(structure, problem.scorer.maps, np.ascontiguousarray(weights))
            scorer = model.scorer(encoded) if scorer is None else scorer
            codes, _ = model.best(scorer, None, n_threads(self.n_jobs))
            found = np.concatenate(self._labels.named(codes, corpus)).tolist()
            return float(np.mean([a == b for a, b in zip(flat, found, strict=True)]))

        return score

    def _training_facts(self) -> dict[str, Any]:
        return {"inference": self.inference_, "why": self._why_inference} if self._why_inference else {}

    def _training_notes(self) -> list[str]:
        if not self._why_inference:
            return []
        return [f"{self.inference_} inference, as exact inference does not fit: {self._why_inference}"]
