"""Classifier: scikit-learn's checks in full, agreement with its optimum, dicts, weights, files."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import partwise
from partwise import Classifier, InputError, Loss

X, Y = load_iris(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
DIGITS, DIGIT = load_digits(return_X_y=True)
DIGITS, DIGIT = DIGITS[:500] / 16.0, DIGIT[:500]


@parametrize_with_checks([Classifier(), Classifier(solver="lbfgs")])
def test_scikit_learns_checks(estimator: object, check: object) -> None:
    check(estimator)  # type: ignore[operator]


@pytest.mark.parametrize("solver", ["auto", "lbfgs"])
def test_the_optimum_is_scikit_learns(solver: str) -> None:
    ours = Classifier(l2=0.5, fit_intercept=False, tol=1e-8, solver=solver, max_passes=2000).fit(X, Y)
    theirs = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-10, max_iter=5000).fit(X, Y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-3)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=2e-3)


def test_the_intercept_is_a_regularised_weight() -> None:
    ours = Classifier(tol=1e-8, solver="lbfgs").fit(X, Y)
    column = Classifier(tol=1e-8, solver="lbfgs", fit_intercept=False).fit(
        np.column_stack([X, np.ones(len(X))]), Y
    )
    assert ours.objective_ == pytest.approx(column.objective_, rel=1e-7)
    np.testing.assert_allclose(ours.intercept_, column.coef_[:, -1], atol=1e-3)
    assert not column.intercept_.any()


@pytest.mark.parametrize("loss", ["log", "hinge", "softmax_margin", Loss(5.0, 1.0)])
def test_all_losses_learn_dense_and_sparse(loss: str | Loss) -> None:
    dense = Classifier(loss, tol=1e-3).fit(DIGITS, DIGIT)
    assert dense.score(DIGITS, DIGIT) > 0.95
    compressed = Classifier(loss, tol=1e-3).fit(sparse.csr_matrix(DIGITS), DIGIT)
    assert compressed.objective_ == pytest.approx(dense.objective_, rel=1e-3)
    assert max(dense.dual_objective_, compressed.dual_objective_) <= min(
        dense.objective_, compressed.objective_
    )
    assert dense.predict(sparse.csr_matrix(DIGITS)).tolist() == dense.predict(DIGITS).tolist()
    assert hasattr(dense, "predict_proba") == (not Loss.of(loss).is_hard)


def test_hinge_says_why_it_has_no_probabilities() -> None:
    model = Classifier("hinge", tol=1e-2).fit(X, Y)
    with pytest.raises(AttributeError) as caught:
        model.predict_proba(X)
    assert "no probabilities" in str(caught.value)


def test_probabilities_are_the_softmax_of_beta_times_the_scores() -> None:
    model = Classifier(Loss(2.0, 0.0), tol=1e-2).fit(X, Y)
    scores = np.exp(2.0 * model.decision_function(X))
    np.testing.assert_allclose(model.predict_proba(X), scores / scores.sum(axis=1, keepdims=True), rtol=1e-9)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), model.predict_proba(X))


def test_two_classes_keep_two_rows_and_one_decision() -> None:
    two = Y < 2
    model = Classifier().fit(X[two], Y[two])
    assert model.coef_.shape == (2, 4)
    decision = model.decision_function(X[two])
    assert decision.shape == (two.sum(),)
    assert np.array_equal(model.predict(X[two]), (decision > 0).astype(int))


def test_dicts_and_lists_of_strings(tmp_path: Path) -> None:
    dicts = [
        {"kind": "long" if row[2] > 0 else "short", "width": float(row[3]), "wide": row[1] > 0} for row in X
    ]
    model = Classifier().fit(dicts, Y)
    assert model.score(dicts, Y) > 0.8
    assert {name for name, _, _ in model.top_features(20)} <= {"kind:long", "kind:short", "width", "wide"}
    model.save(tmp_path / "model")
    assert np.array_equal(
        partwise.load(tmp_path / "model").decision_function(dicts), model.decision_function(dicts)
    )
    words = [[f"a{int(row[2] > 0)}", f"b{int(row[3] > 0.5)}"] for row in X]
    assert Classifier(min_count=2).fit(words, Y).score(words, Y) > 0.7
    assert Classifier(hash_size=16).fit(words, Y).score(words, Y) > 0.7
    with pytest.raises(InputError, match="as in training"):
        model.predict(X)


@pytest.mark.parametrize(
    ("data", "labels", "settings"),
    [
        (X, Y, {}),
        (sparse.csr_matrix(np.where(X > 0.8, X, 0.0)), np.array(["a", "b", "c"])[Y], {"loss": "hinge"}),
        (X, Y, {"class_weight": {0: 2.0, 1: 1.0, 2: 0.5}, "loss": Loss(3.0, 1.0), "fit_intercept": False}),
    ],
)
def test_a_loaded_model_is_the_saved_one(
    tmp_path: Path, data: object, labels: object, settings: dict
) -> None:
    model = Classifier(tol=1e-2, **settings).fit(data, labels)
    model.save(tmp_path / "model")
    loaded = partwise.load(tmp_path / "model")
    assert np.array_equal(loaded.decision_function(data), model.decision_function(data))
    assert np.array_equal(loaded.classes_, model.classes_) and loaded.classes_.dtype == model.classes_.dtype
    assert loaded.history_ == model.history_ and loaded.class_weight == model.class_weight
    assert np.array_equal(pickle.loads(pickle.dumps(model)).coef_, model.coef_)


def test_class_and_sample_weights_are_repetition() -> None:
    tight = {"tol": 1e-8, "solver": "lbfgs"}
    weights = {0: 1.0, 1: 2.0, 2: 3.0}
    by_class = Classifier(class_weight=weights, **tight).fit(X, Y)
    by_sample = Classifier(**tight).fit(X, Y, sample_weight=[weights[k] for k in Y])
    repeated = np.repeat(np.arange(len(Y)), Y + 1)
    expanded = Classifier(**tight).fit(X[repeated], Y[repeated])
    assert by_class.objective_ == pytest.approx(by_sample.objective_)
    assert by_class.objective_ == pytest.approx(expanded.objective_)
    few = np.flatnonzero((Y != 2) | (np.arange(len(Y)) % 10 == 0))
    balanced = Classifier(class_weight="balanced").fit(X[few], Y[few])
    plain = Classifier().fit(X[few], Y[few])
    assert (balanced.predict(X) == 2).sum() >= (plain.predict(X) == 2).sum()


def test_the_order_of_the_data_does_not_matter() -> None:
    order = np.random.default_rng(0).permutation(len(Y))
    assert np.array_equal(Classifier().fit(X, Y).coef_, Classifier().fit(X[order], Y[order]).coef_)


def test_warm_start_and_partial_fit() -> None:
    model = Classifier(tol=1e-4, warm_start=True).fit(X, Y)
    cold = model.n_passes_
    assert model.fit(X, Y).n_passes_ <= 2 < cold
    grown = Classifier(tol=1e-4)
    for first in (0, 1, 2):
        grown.partial_fit(X[first::3], Y[first::3], classes=[0, 1, 2])
    assert grown.objective_ == pytest.approx(model.objective_, rel=2e-4)
    grown.partial_fit(sparse.csr_matrix(X[:3]), Y[:3])
    with pytest.raises(InputError, match="classes"):
        grown.partial_fit(X[:1], [7])


def test_observed_pairs_are_fewer() -> None:
    words = [[f"word{k % 50}"] for k in range(100)]
    y = [k % 50 % 3 for k in range(100)]
    model = Classifier(pairs="observed", fit_intercept=False).fit(words, y)
    assert np.count_nonzero(model.coef_) == 50
    assert model.score(words, y) == 1.0


def test_pipelines_grid_search_and_names() -> None:
    pandas = pytest.importorskip("pandas")
    search = GridSearchCV(
        make_pipeline(StandardScaler(), Classifier()), {"classifier__l2": [0.01, 1.0]}, cv=3
    )
    assert search.fit(X, Y).best_score_ > 0.9
    frame = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    model = Classifier().fit(frame, Y)
    assert list(model.feature_names_in_) == ["a", "b", "c", "d"]
    assert model.top_features(1)[0][0] in "abcd"


def test_certificate_and_warning() -> None:
    model = Classifier(tol=1e-4).fit(X, Y)
    assert model.converged_ and 0 <= model.duality_gap_ <= 1e-4
    assert model.dual_objective_ <= model.objective_
    with pytest.warns(ConvergenceWarning, match="max_passes"):
        Classifier(tol=1e-12, max_passes=1).fit(X, Y)


def test_one_class_and_bad_input() -> None:
    assert Classifier().fit(X, np.zeros(len(X))).predict(X[:2]).tolist() == [0.0, 0.0]
    for settings, message in (
        ({"l2": -1}, "l2"),
        ({"loss": "x"}, "loss must be"),
        ({"cost": np.ones((2, 2))}, "cost"),
    ):
        with pytest.raises(InputError, match=message):
            Classifier(**settings).fit(X, Y)
    with pytest.raises(ValueError, match="too large"):
        Classifier().fit(X * 1e200, Y)
    with pytest.raises(ValueError, match="non-zero"):
        Classifier().fit(X, Y, sample_weight=np.zeros(len(Y)))
    with pytest.raises(NotFittedError):
        Classifier().predict(X)
