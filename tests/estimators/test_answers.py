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
from partwise.tasks import TASKS, estimator_names
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

EVERY = (
    "calibrate certificate_kind_ converged_ dual_objective_ duality_gap_ fit get_metadata_routing get_params history_ "
    "n_passes_ objective_ plot_confusion plot_convergence plot_reliability predict save score "
    "set_fit_request set_params set_score_request stop_reason_ tagger "
    "temperature_"
)
LABELLINGS = "classes_ predict_kbest predict_marginals predict_marginals_array sample"
SETS = "conformal conformal_ evaluate_sets predict_sets"
ENTITIES = (
    f"{SETS} control_risk entity_map_ entity_scores predict_entities predict_entity_counts risk_controls_"
)
SEQUENCES = f"""{LABELLINGS} {ENTITIES} predict_edge_marginals predict_log_proba_of predict_marginals_single
    predict_proba predict_single"""
PROBABLE = "classes_ decision_function n_features_in_ predict_log_proba predict_proba"
CLASSIFIERS = f"{PROBABLE} {SETS}"
KERNEL = "dual_coef_ n_features_in_ score_error_ support_ support_vectors_"
WEIGHTS = "coef_ explain top_features"
PUBLIC = {
    "SequenceLabeler": f"""{SEQUENCES} {WEIGHTS} influential_examples partial_fit state_features_ top_transitions
        transition_coef_ transition_features_""",
    "Classifier": f"{CLASSIFIERS} {WEIGHTS} intercept_ partial_fit",
    "DependencyParser": f"""{WEIGHTS} arc_probabilities parse lifted_ predict_kbest predict_marginals pruning_
        pruning_recall relations_ single_root_ skipped_""",
    "ConstituencyParser": f"""{WEIGHTS} fixed_tags_ has_tags_ labels_ outer_ parse predict_kbest
        predict_marginals""",
    "KernelSequenceLabeler": f"{SEQUENCES} {KERNEL} transition_coef_",
    "KernelClassifier": f"{CLASSIFIERS} {KERNEL}",
    "GraphLabeler": f"""{WEIGHTS} classes_ inference_ influential_examples predict_edge_marginals predict_kbest
        predict_marginals predict_marginals_array predict_single""",
    "SegmentLabeler": f"""{LABELLINGS} {ENTITIES} {WEIGHTS} duration_coef_ max_length_ n_cut_ position_labels
        predict_labels predict_position_marginals_array top_transitions transition_coef_""",
    "MultilabelClassifier": f"{PROBABLE} {WEIGHTS} inference_ intercept_ pair_coef_ pairs_",
}


class Watcher:
    """A callback that scores data at every step."""

    def __init__(self, estimator: Any, X: Any, y: Any):
        self.estimator, self.data = estimator, (X, y)
        self.begun = 0
        self.scores: list[float] = []

    def begin(self, problem: Any, encoder: Any) -> None:
        self.begun += 1
        self.score = self.estimator._scorer_during_fit(problem, encoder, *self.data)

    def __call__(self, progress: Any) -> None:
        if progress.weights is not None and self.score is not None:
            self.scores.append(self.score(progress.weights))


@pytest.mark.parametrize("name", estimator_names())
def test_every_estimator_answers(name: str) -> None:
    estimator, X, y = FITTED[name]
    estimator.fit(X, y)
    assert estimator._task is None or estimator._task in TASKS
    assert estimator._has_weights == hasattr(estimator, "top_features")
    assert all(isinstance(size, (int, float)) for size in estimator._shown_sizes().values())
    assert isinstance(estimator._shown_settings(), dict) and isinstance(estimator._known_labels(), list)
    assert isinstance(estimator._shown_transitions(3), list)
    assert isinstance(estimator._training_facts(), dict) and isinstance(estimator._training_notes(), list)


@pytest.mark.parametrize("name", estimator_names())
def test_tab_completion_shows_only_what_users_call(name: str) -> None:
    estimator, X, y = FITTED[name]
    shown = {each for each in dir(estimator.fit(X, y)) if not each.startswith("_")}
    assert shown - set(estimator.get_params()) == set(f"{EVERY} {PUBLIC[name]}".split())


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
