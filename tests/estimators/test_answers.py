"""What estimators answer commands and pages, and what a callback is told before training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from partwise import (
    Classifier,
    ConstituencyParser,
    DependencyParser,
    GraphLabeler,
    KernelClassifier,
    KernelSequenceLabeler,
    MultilabelClassifier,
    SegmentLabeler,
    SequenceLabeler,
)
from partwise.storage.model_file import ESTIMATORS
from partwise.tasks import TASKS
from partwise.tasks.dependencies.data import as_corpus, with_trees

WORDS = [["the", "dog", "barks"], ["a", "cat", "sleeps"], ["dogs", "bark"]] * 2
TAGS = [["D", "N", "V"], ["D", "N", "V"], ["N", "V"]] * 2
TREES = [[2, 3, 0], [2, 3, 0], [2, 0]] * 2
CONSTITUENTS = [
    "(S (NP (D the) (N dog)) (V barks))",
    "(S (NP (D a) (N cat)) (V sleeps))",
    "(S (N dogs) (V bark))",
] * 2
POINTS = np.random.default_rng(0).normal(size=(12, 2))
CLASSES = ["a", "b", "c"] * 4
VECTORS = [[[0.0], [1.0]], [[1.0], [0.0], [0.0]]]

FITTED: dict[str, tuple[Any, Any, Any]] = {
    "SequenceLabeler": (SequenceLabeler(), [[[word] for word in each] for each in WORDS], TAGS),
    "Classifier": (Classifier(), POINTS, CLASSES),
    "DependencyParser": (DependencyParser(), WORDS, TREES),
    "ConstituencyParser": (ConstituencyParser(), WORDS, CONSTITUENTS),
    "KernelSequenceLabeler": (KernelSequenceLabeler(tol=0.1), VECTORS, [["a", "b"], ["b", "a", "a"]]),
    "KernelClassifier": (KernelClassifier(), POINTS, CLASSES),
    "GraphLabeler": (
        GraphLabeler(),
        [(vectors, [(0, 1)]) for vectors in VECTORS],
        [["a", "b"], ["b", "a", "a"]],
    ),
    "SegmentLabeler": (SegmentLabeler(template="pos"), WORDS, [[(0, 1, "NP")]] * 6),
    "MultilabelClassifier": (MultilabelClassifier(), POINTS, POINTS > 0),
}


class Watcher:
    """A callback that scores data at every step."""

    def __init__(self, estimator: Any, X: Any, y: Any):
        self.estimator, self.data = estimator, (X, y)
        self.begun = 0
        self.scores: list[float] = []

    def begin(self, problem: Any, encoder: Any) -> None:
        self.begun += 1
        self.score = self.estimator.scorer_during_fit(problem, encoder, *self.data)

    def __call__(self, progress: Any) -> None:
        if progress.weights is not None and self.score is not None:
            self.scores.append(self.score(progress.weights))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_answers(name: str) -> None:
    estimator, X, y = FITTED[name]
    estimator.fit(X, y)
    assert estimator.task is None or estimator.task in TASKS
    assert estimator.has_weights == hasattr(estimator, "top_features")
    assert all(isinstance(size, (int, float)) for size in estimator.shown_sizes().values())
    assert isinstance(estimator.shown_settings(), dict) and isinstance(estimator.known_labels(), list)
    assert isinstance(estimator.shown_transitions(3), list)
    assert isinstance(estimator.training_facts(), dict) and isinstance(estimator.training_notes(), list)


def test_a_callback_can_score_sequences_while_they_are_learnt() -> None:
    estimator, X, y = FITTED["SequenceLabeler"]
    watcher = Watcher(estimator, X, y)
    estimator.set_params(callback=watcher, tol=1e-6, certificate_every=1.0).fit(X, y)
    estimator.set_params(callback=None, certificate_every=None)
    assert watcher.begun == 1 and len(watcher.scores) > 1
    assert watcher.scores[-1] == estimator.score(X, y) == 1.0


def test_a_callback_can_score_graphs_while_they_are_learnt() -> None:
    estimator, X, y = FITTED["GraphLabeler"]
    watcher = Watcher(estimator, X, y)
    estimator.set_params(callback=watcher, tol=1e-6).fit(X, y)
    estimator.set_params(callback=None)
    assert watcher.begun == 1 and watcher.scores[-1] == estimator.score(X, y)


def test_a_callback_can_score_constituents_while_they_are_learnt() -> None:
    estimator, X, y = FITTED["ConstituencyParser"]
    watcher = Watcher(estimator, X, y)
    estimator.set_params(callback=watcher, tol=1e-6).fit(X, y)
    estimator.set_params(callback=None)
    assert watcher.begun == 1 and watcher.scores[-1] == estimator.score(X, y) == 1.0


def test_a_callback_can_score_trees_while_they_are_learnt() -> None:
    estimator, X, y = FITTED["DependencyParser"]
    corpus = with_trees(as_corpus(X), y)
    watcher = Watcher(estimator, corpus, None)
    estimator.set_params(callback=watcher, tol=1e-6).fit(corpus)
    estimator.set_params(callback=None)
    assert watcher.begun == 1 and watcher.scores[-1] == estimator.score(corpus) == 1.0
