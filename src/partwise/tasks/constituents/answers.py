"""What commands and pages ask a constituency parser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from partwise.core.problem import Problem
from partwise.estimators.answers import Answers
from partwise.estimators.base import n_threads
from partwise.estimators.model import LinearModel
from partwise.scoring.brackets import bracket_scores
from partwise.tasks.constituents.data import as_sentences, as_trees, by_sentence
from partwise.tasks.constituents.derivations import Derivations
from partwise.tasks.constituents.encoder import SpanEncoder


class ConstituencyAnswers(Answers):
    """Answers of an estimator that has `_encoder`, `_model`, `_derivations` and what training found."""

    _task = "constituents"
    _encoder: SpanEncoder
    _derivations: Derivations
    labels_: list[str]
    outer_: str | None
    has_tags_: bool
    fixed_tags_: bool
    direction: Any
    horizontal: Any
    vertical: Any
    cost: Any
    solver: Any
    tol: float
    n_jobs: int | None

    def _known_labels(self) -> list[Any]:
        return list(self.labels_)

    def _shown_settings(self) -> dict[str, Any]:
        siblings = "all" if self.horizontal is None else self.horizontal
        return {
            "binary form": f"{self.direction}, {siblings} siblings, {self.vertical} labels deep",
            "tags": "of the input" if self.has_tags_ else "part of the parse",
            "cost": self.cost,
        }

    def _shown_sizes(self) -> dict[str, Any]:
        names = {"word": "word features", "span": "span features", "split": "split features"}
        features = self._encoder.features.items()
        return {
            "labels": len(self.labels_),
            "symbols": len(self._derivations.symbols),
            "rules": len(self._derivations.rules) + len(self._derivations.unaries),
            **{names[kind]: own.n_attributes for kind, own in features},
            "non-zero weights": int(np.count_nonzero(self.coef_)),
        }

    def _before_training(self, problem: Problem, solver: Any) -> list[str]:
        structure: Any = problem.structure
        size = f"{structure.n_symbols:,} symbols, {structure.n_rules:,} rules, {problem.n_weights:,} weights"
        return [f"{problem.n_examples:,} sentences, {size}", *super()._before_training(problem, solver)]

    def _scorer_during_fit(
        self, problem: Problem, encoder: SpanEncoder, X: Any, y: Any
    ) -> Callable[[np.ndarray], float]:
        """F1 of constituents; words outside the grammar's reach count as flat."""
        jobs, structure = n_threads(self.n_jobs), problem.structure
        trees = as_trees(y).trees
        sentences = as_sentences(trees if X is None else X, self.has_tags_)
        encoded = encoder.transform(structure, sentences, structure.shapes(sentences.lengths))  # type: ignore[arg-type]
        words, scorer = by_sentence(sentences, sentences.forms), None

        def score(weights: np.ndarray) -> float:
            nonlocal scorer
            model = LinearModel(structure, problem.scorer.maps, np.ascontiguousarray(weights))
            scorer = model.scorer(encoded) if scorer is None else scorer
            nodes, _ = model.best(scorer, None, jobs)
            if nodes is None:
                return float("nan")
            return bracket_scores(trees, self._derivations.trees_of(nodes, words, self.outer_)).f1

        return score

    _score_name = "F1"  # type: ignore[assignment]

    def _score_of_labels(self, problem: Problem, true: np.ndarray, predicted: np.ndarray) -> float:
        words = [["word"] * int(length) for length in problem.lengths]
        gold, found = (self._derivations.trees_of(nodes, words, self.outer_) for nodes in (true, predicted))
        return bracket_scores(gold, found).f1
