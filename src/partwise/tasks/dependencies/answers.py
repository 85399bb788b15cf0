"""What commands and pages ask a parser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from partwise.core.arcs import all_arcs
from partwise.core.problem import Problem
from partwise.data.dependency_checks import ProjectiveCount
from partwise.errors import InputError
from partwise.estimators.answers import Answers
from partwise.estimators.base import n_threads
from partwise.estimators.model import LinearModel
from partwise.tasks.dependencies.arc_encoder import ArcEncoder
from partwise.tasks.dependencies.arc_pruning import ArcPruner, PruningRecord
from partwise.tasks.dependencies.data import as_corpus, with_trees


class ParsingAnswers(Answers):
    """Answers of an estimator that has `_encoder`, `_pruner`, `_model`, `relations_` and `single_root_`."""

    _task = "dependencies"
    _encoder: ArcEncoder
    _pruner: ArcPruner | None
    relations_: list[str]
    single_root_: bool
    pruning_: PruningRecord | None
    skipped_: ProjectiveCount | None
    structure: Any
    order: Any
    cost: Any
    n_jobs: int | None

    def _known_labels(self) -> list[Any]:
        return list(self.relations_)

    def _shown_settings(self) -> dict[str, Any]:
        return {
            "structure": self.structure,
            "order": self.order,
            "single root": self.single_root_,
            "cost": self.cost,
            "heads left by pruning": None if self._pruner is None else self._pruner.n_heads,
        }

    def _shown_sizes(self) -> dict[str, Any]:
        sizes: dict[str, Any] = {"relations": len(self.relations_)}
        for name, features in self._encoder.named().items():
            sizes[f"{name} features"] = features.n_attributes
        if self.pruning_ is not None:
            sizes["pruning recall"] = self.pruning_.recall
        return sizes | {"non-zero weights": int(np.count_nonzero(self.coef_))}

    def _scorer_during_fit(
        self, problem: Problem, encoder: ArcEncoder, X: Any, y: Any
    ) -> Callable[[np.ndarray], float]:
        """LAS, or UAS without relations, punctuation included; y is None where X has the true trees."""
        jobs, X = n_threads(self.n_jobs), with_trees(as_corpus(X), y)
        true = X.heads.astype(np.int64)
        if problem.structure.labelled:  # type: ignore[attr-defined]
            true = true * len(self.relations_) + self._numbers(X.relations)
        structure: Any = problem.structure
        arcs = all_arcs(X.lengths) if self._pruner is None else self._pruner.prune(X, n_jobs=jobs)[0]
        encoded = encoder.transform(structure, X, arcs)
        scorer: Any = None

        def score(weights: np.ndarray) -> float:
            nonlocal scorer
            model = LinearModel(structure, problem.scorer.maps, np.ascontiguousarray(weights))
            scorer = model.scorer(encoded) if scorer is None else scorer
            codes, _ = model.best(scorer, None, jobs)
            return float(np.mean(codes == true))

        return score

    def _numbers(self, relations: list[str] | None) -> np.ndarray:
        """Of relations; those that training has not seen get one that makes no tree equal."""
        if relations is None:
            raise InputError(
                "dev data need relations, since the parser learns them: give them, or labelled=False"
            )
        numbers = {name: k for k, name in enumerate(self.relations_)}
        return np.array([numbers.get(name, -(2**40)) for name in relations], np.int64)

    @property
    def _score_name(self) -> str:
        return "LAS" if self.relations_ else "UAS"

    def _training_facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {}
        if self.pruning_ is not None:
            facts["pruning"] = self.pruning_.as_dict()
        if self.skipped_ is not None:
            facts["skipped_sentences"] = self.skipped_.n_skipped
        return facts

    def _training_notes(self) -> list[str]:
        return [str(each) for each in (self.skipped_, self.pruning_) if each is not None]
