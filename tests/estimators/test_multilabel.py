"""MultilabelClassifier: scikit-learn's checks, logistic regressions where labels are apart, trees, files."""

from __future__ import annotations

import pickle
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import partwise
from partwise import InputError, MultilabelClassifier
from partwise.tasks.label_sets.structure import chow_liu, mutual_information

X, Y = make_multilabel_classification(80, 5, n_classes=4, random_state=0)
X = (X - X.mean(axis=0)) / X.std(axis=0)
RANDOM = np.random.default_rng(0)


@parametrize_with_checks([MultilabelClassifier(tol=1e-2)])
def test_scikit_learns_checks(estimator: object, check: object) -> None:
    check(estimator)  # type: ignore[operator]


def test_labels_apart_are_logistic_regressions() -> None:
    ours = MultilabelClassifier(graph="none", fit_intercept=False, tol=1e-7, solver="lbfgs").fit(X, Y)
    for label, row in enumerate(ours.coef_):
        theirs = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-9).fit(X, Y[:, label])
        np.testing.assert_allclose(row, theirs.coef_[0], atol=2e-3)
        np.testing.assert_allclose(ours.predict_proba(X)[:, label], theirs.predict_proba(X)[:, 1], atol=1e-3)


@pytest.mark.parametrize("graph", ["full", "tree", [(0, 3), (2, 1)]])
def test_answers_are_those_of_all_labellings(graph: Any, tmp_path: Path) -> None:
    model = MultilabelClassifier(graph=graph, tol=1e-2).fit(X, Y)
    every = np.array(list(product((0, 1), repeat=4)))
    scores = (X @ model.coef_.T + model.intercept_) @ every.T
    for (a, b), table in zip(model.pairs_, model.pair_coef_, strict=True):
        scores += table[every[:, a], every[:, b]]
    np.testing.assert_array_equal(model.predict(X), every[scores.argmax(axis=1)])
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    np.testing.assert_allclose(
        model.predict_proba(X), odds @ every / odds.sum(axis=1, keepdims=True), atol=1e-6
    )
    margins = [
        scores[:, every[:, k] == 1].max(axis=1) - scores[:, every[:, k] == 0].max(axis=1) for k in range(4)
    ]
    np.testing.assert_allclose(model.decision_function(X), np.stack(margins, axis=1), atol=1e-5)
    model.save(tmp_path / "model")
    for other in (partwise.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(other.predict_proba(X), model.predict_proba(X))
        assert other.pairs_ == model.pairs_ and np.array_equal(other.pair_coef_, model.pair_coef_)


def test_labels_that_exclude_each_other_are_learnt() -> None:
    """A feature that tells nothing of three labels, of which every example has exactly one."""
    y, x = np.eye(3, dtype=int)[np.arange(60) % 3], RANDOM.normal(size=(60, 1))
    together, apart = (MultilabelClassifier(l2=0.1, graph=graph).fit(x, y) for graph in ("full", "none"))
    assert (together.predict(x).sum(axis=1) == 1).all() and together.score(x, y) > apart.score(x, y)
    assert not apart.predict(x).any()
    assert all(weight < -1 for _, _, weight in together._shown_transitions(3))


def test_trees_of_chow_and_liu() -> None:
    first, third = RANDOM.integers(0, 2, (2, 500))
    y = np.stack(
        [first, first ^ (RANDOM.random(500) < 0.1), third, third ^ (RANDOM.random(500) < 0.2)], axis=1
    )
    assert set(chow_liu(y)) > {(0, 1), (2, 3)} and len(chow_liu(y)) == 3
    information = mutual_information(y)
    joint = np.array([[np.mean((y[:, 0] == a) & (y[:, 1] == b)) for b in (0, 1)] for a in (0, 1)])
    independent = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    assert information[0, 1] == pytest.approx(np.sum(joint * np.log(joint / independent)))
    assert chow_liu(np.zeros((3, 1), int)) == [] and len(chow_liu(np.zeros((3, 4), int))) == 3


def test_what_x_and_y_may_be() -> None:
    dense = MultilabelClassifier(tol=1e-4).fit(X, Y)
    for x, y in ((sparse.csr_matrix(X), sparse.csr_matrix(Y)), (X.tolist(), Y.tolist()), (X, Y.astype(bool))):
        other = MultilabelClassifier(tol=1e-4).fit(x, y)
        assert other.objective_ == pytest.approx(dense.objective_, rel=1e-4)
        assert np.mean(other.predict(x) == dense.predict(X)) > 0.95
    words = [["a"] if row[0] else {"b": 1.0} for row in Y]
    named = MultilabelClassifier("hinge", tol=1e-2).fit(words, Y)
    assert (named.predict(words)[:, 0] == Y[:, 0]).all()
    assert {name for name, _, _ in named.top_features(20)} == {"a", "b"}
    assert not hasattr(named, "predict_proba")
    one = MultilabelClassifier(tol=1e-2).fit(X, np.array(["no", "yes"])[Y[:, 0]])
    assert one.predict(X).shape == one.decision_function(X).shape == (80,)
    assert set(one.predict(X)) <= {"no", "yes"} and one.predict_proba(X).shape == (80, 2)
    search = GridSearchCV(MultilabelClassifier(tol=1e-1, graph="tree"), {"l2": [1.0, 10.0]}, cv=2).fit(X, Y)
    assert search.best_params_["l2"] in (1.0, 10.0)


@pytest.mark.parametrize(
    ("settings", "y", "message"),
    [
        ({"graph": "ring"}, Y, "graph must be 'full', 'tree', 'none' or a list of pairs"),
        ({"graph": [(0, 4)]}, Y, r"graph has the pair \(0, 4\)"),
        ({"graph": [(0, 1), (1, 0)]}, Y, "graph has a pair of labels twice"),
        ({"graph": [[1]]}, Y, "it must be a list of pairs"),
        ({"inference": "loopy"}, Y, "inference must be"),
        ({}, Y + 1, "y must be a matrix of 0 and 1"),
        ({}, Y[:5], "inconsistent numbers of samples"),
        ({}, Y.sum(axis=1), "Only binary classification is supported"),
        ({}, None, "requires y"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MultilabelClassifier(**settings).fit(X, y)


def test_many_labels_are_relaxed_and_it_is_said(capsys: Any) -> None:
    y = RANDOM.integers(0, 2, (6, 26))
    model = MultilabelClassifier(max_passes=1, tol=0.9, verbose=1).fit(RANDOM.normal(size=(6, 2)), y)
    assert model.inference_ == "tree-reweighted" and model.certificate_kind_ == "relaxation"
    assert model._training_notes()[0] in capsys.readouterr().out
    tree = MultilabelClassifier(graph="tree", tol=1e-1).fit(RANDOM.normal(size=(6, 2)), y)
    assert tree.inference_ == "exact" and len(tree.pairs_) == 25
    with pytest.raises(InputError, match="tree-width"):
        MultilabelClassifier(inference="exact").fit(RANDOM.normal(size=(6, 2)), y)
