"""Estimators that can score dev data with the weights of the moment, while they train."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from partwise.estimators.parsing.parser import DependencyParser
from partwise.estimators.sequence.labeler import SequenceLabeler


class WatchedLabeler(SequenceLabeler):
    """A `SequenceLabeler` whose `dev` data, if there is some, can be scored at any weights.

    Attributes
    ----------
    dev : (X, y) or None
    dev_score : callable or None
        Weights, as training has them, to chunk F1 or accuracy; None before training has begun.
    """

    dev: tuple[Any, Any] | None = None
    dev_score: Callable[[np.ndarray], float] | None = None

    def _problem(self, structure: Any, encoder: Any, *rest: Any) -> Any:
        problem = super()._problem(structure, encoder, *rest)
        if self.dev is not None:
            self.dev_score = _sequence_scorer(self, problem, encoder, *self.dev)
        return problem


def _sequence_scorer(
    estimator: Any, problem: Any, encoder: Any, x: Any, y: list[list[Any]]
) -> Callable[[np.ndarray], float]:
    from partwise.cli.evaluate import looks_like_chunks
    from partwise.estimators.base import n_threads
    from partwise.estimators.labels import split
    from partwise.estimators.model import LinearModel
    from partwise.scoring.metrics import chunk_scores, token_accuracy

    encoded = encoder.transform(x)
    lengths = encoded.lengths[encoded.lengths > 0]
    true = [labels for labels in y if len(labels)]
    scorer: Any = None

    def score(weights: np.ndarray) -> float:
        nonlocal scorer
        names = np.array(estimator.classes_.tolist(), object)
        model = LinearModel(problem.structure, problem.scorer.maps, np.ascontiguousarray(weights))
        scorer = model.scorer(encoded) if scorer is None else scorer
        labels, _ = model.best(scorer, None, n_threads(estimator.n_jobs))
        predicted = split(names[labels].tolist(), lengths)
        if looks_like_chunks(names.tolist()):
            return chunk_scores(true, predicted).f1
        return token_accuracy(true, predicted)

    return score


class WatchedParser(DependencyParser):
    """A `DependencyParser` whose `dev` trees, if there are some, can be scored at any weights.

    Attributes
    ----------
    dev : (DependencyCorpus, None) or None
    dev_score : callable or None
        Weights, as training has them, to UAS; None before training has begun.
    """

    dev: tuple[Any, Any] | None = None
    dev_score: Callable[[np.ndarray], float] | None = None

    def _problem(self, structure: Any, encoder: Any, *rest: Any) -> Any:
        problem = super()._problem(structure, encoder, *rest)
        if self.dev is not None:
            self.dev_score = _tree_scorer(self, problem, encoder, self.dev[0])
        return problem


def _tree_scorer(parser: Any, problem: Any, encoder: Any, corpus: Any) -> Callable[[np.ndarray], float]:
    from partwise.core.arcs import all_arcs
    from partwise.estimators.base import n_threads
    from partwise.estimators.model import LinearModel

    jobs, structure = n_threads(parser.n_jobs), problem.structure
    pruner = parser._pruner
    arcs = all_arcs(corpus.lengths) if pruner is None else pruner.prune(corpus, n_jobs=jobs)[0]
    encoded = encoder.transform(structure, corpus, arcs)
    scorer: Any = None

    def score(weights: np.ndarray) -> float:
        nonlocal scorer
        model = LinearModel(structure, problem.scorer.maps, np.ascontiguousarray(weights))
        scorer = model.scorer(encoded) if scorer is None else scorer
        codes, _ = model.best(scorer, None, jobs)
        return float(np.mean(codes // structure.n_relations == corpus.heads))

    return score
