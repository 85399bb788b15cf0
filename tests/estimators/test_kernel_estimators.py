"""KernelClassifier and KernelSequenceLabeler: scikit-learn's checks and SVM, explicit features, support, files."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import partwise
from partwise import (
    Classifier,
    InputError,
    KernelClassifier,
    KernelSequenceLabeler,
    PerPosition,
    SequenceLabeler,
)

X, Y = load_iris(return_X_y=True)
X = ((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32).astype(np.float64)
DIGITS, DIGIT = load_digits(return_X_y=True)
DIGITS = DIGITS / 16.0


def words(n: int = 60, seed: int = 0) -> tuple[list[np.ndarray], list[list[str]]]:
    """Runs of digits that count upwards, as sequences of images."""
    random = np.random.default_rng(seed)
    inputs, labels = [], []
    for _ in range(n):
        run = (random.integers(10) + np.arange(random.integers(1, 6))) % 10
        chosen = [random.choice(np.flatnonzero(DIGIT[:800] == digit)) for digit in run]
        inputs.append(DIGITS[chosen])
        labels.append([f"d{digit}" for digit in run])
    return inputs, labels


SEQUENCES, LABELS = words()


@parametrize_with_checks([KernelClassifier(), KernelClassifier("log", kernel="poly", coef0=1.0, l2=0.1)])
def test_scikit_learns_checks(estimator: object, check: object) -> None:
    check(estimator)  # type: ignore[operator]


@pytest.mark.parametrize(("kernel", "degree"), [("rbf", 3), ("linear", 3), ("poly", 3)])
@pytest.mark.parametrize("C", [0.5, 20.0])
@pytest.mark.parametrize("solver", ["bcfw", "excessive-gap"])
def test_two_classes_are_scikit_learns_svm(kernel: str, degree: int, C: float, solver: str) -> None:
    """Data that change sign with their class: SVC's unregularised intercept is then zero; C = 2 / l2."""
    random = np.random.default_rng(0)
    half = random.normal(size=(40, 3)) + 0.7
    points, classes = np.concatenate([half, -half]), np.repeat([1, -1], 40)
    shared = {"kernel": kernel, "degree": degree, "gamma": 0.3}
    theirs = SVC(C=C, tol=1e-7, **shared).fit(points, classes)
    assert abs(theirs.intercept_[0]) < 1e-4
    passes = 20_000 if solver == "excessive-gap" else 5_000
    ours = KernelClassifier(l2=2 / C, solver=solver, tol=1e-5, max_passes=passes, support_tol=0, **shared)
    ours.fit(points, classes)
    new = random.normal(size=(50, 3))
    size = np.abs(theirs.decision_function(new)).max()
    assert ours.decision_function(new) == pytest.approx(theirs.decision_function(new), abs=0.02 * size)
    # ½‖u‖² + C Σ hinge, from SVC's own coefficients; our objective is l2/2 times it.
    rows = theirs.dual_coef_[0]
    value = theirs.decision_function(points)
    norm = rows @ theirs.decision_function(theirs.support_vectors_)
    svm = 0.5 * norm + C * np.maximum(0, 1 - classes * value).sum()
    assert ours.objective_ == pytest.approx(svm / C, rel=1e-3)


@pytest.mark.parametrize("loss", ["log", "hinge"])
def test_linear_kernel_is_the_linear_classifier(loss: str) -> None:
    settings = {"loss": loss, "tol": 1e-6, "max_passes": 5000}
    ours = KernelClassifier(kernel="linear", support_tol=0, **settings).fit(X, Y)
    theirs = Classifier(fit_intercept=False, **settings).fit(X, Y)
    assert ours.objective_ == pytest.approx(theirs.objective_, rel=1e-5)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=5e-3)
    np.testing.assert_allclose((ours.support_vectors_.T @ ours.dual_coef_).T, theirs.coef_, atol=2e-3)


@pytest.mark.parametrize("loss", ["log", "hinge"])
def test_linear_kernel_is_the_linear_sequence_labeler(loss: str) -> None:
    settings: dict[str, Any] = {"loss": loss, "tol": 1e-5, "max_passes": 3000, "l2": 0.5}
    if loss == "hinge":
        settings |= {"tol": 1e-3, "solver": "bcfw"}
    ours = KernelSequenceLabeler(kernel="linear", support_tol=0, **settings).fit(SEQUENCES, LABELS)
    theirs = SequenceLabeler(pairs="all", **settings).fit(SEQUENCES, LABELS)
    assert ours.converged_ and theirs.converged_
    assert ours.objective_ == pytest.approx(theirs.objective_, rel=settings["tol"])
    np.testing.assert_allclose(ours.transition_coef_, theirs.transition_coef_, atol=5e-3)
    new, _ = words(20, 1)
    assert ours.predict(new) == theirs.predict(new)
    if loss == "log":
        for a, b in zip(ours.predict_marginals_array(new), theirs.predict_marginals_array(new), strict=True):
            np.testing.assert_allclose(a, b, atol=5e-3)


@pytest.mark.parametrize(
    "solver", ["eg", "eg-cyclic", "eg-permuted", "eg-gap", "eg-batch", "excessive-gap", "bcfw"]
)
def test_every_solver_proves_the_same_optimum(solver: str) -> None:
    few, labels = SEQUENCES[:15], LABELS[:15]
    settings = {"l2": 0.5, "gamma": 0.05}
    best = KernelSequenceLabeler(tol=1e-4, max_passes=5000, **settings).fit(few, labels)
    found = KernelSequenceLabeler(solver=solver, tol=0.03, max_passes=5000, **settings).fit(few, labels)
    assert found.converged_
    assert found.dual_objective_ <= best.objective_ * (1 + 1e-9)
    assert best.dual_objective_ <= found.objective_ <= best.objective_ * 1.031


def test_kernels_by_name_by_function_and_precomputed_agree() -> None:
    settings = {"l2": 0.2, "tol": 1e-5, "solver": "bcfw", "max_passes": 2000, "support_tol": 0}
    named = KernelClassifier(kernel="rbf", gamma=0.5, **settings).fit(X, Y)
    function = KernelClassifier(kernel=lambda A, B: rbf_kernel(A, B, gamma=0.5), **settings).fit(X, Y)
    values = rbf_kernel(X, X, gamma=0.5)
    given = KernelClassifier(kernel="precomputed", **settings).fit(values, Y)
    for other, points in ((function, X), (given, values)):
        assert other.objective_ == pytest.approx(named.objective_, rel=2e-5)
        np.testing.assert_allclose(other.decision_function(points), named.decision_function(X), atol=1e-3)
    with pytest.raises(AttributeError, match="support_"):
        _ = given.support_vectors_
    np.testing.assert_allclose(
        given.decision_function(values), values[:, given.support_] @ given.dual_coef_, atol=1e-12
    )


def test_precomputed_kernel_with_weights_of_zero() -> None:
    values = polynomial_kernel(X, X, degree=2, coef0=1.0)
    weights = np.ones(len(X))
    weights[::3] = 0.0
    settings = {"tol": 1e-4, "max_passes": 5000, "support_tol": 0}
    ours = KernelClassifier(kernel="precomputed", **settings).fit(values, Y, sample_weight=weights)
    used = weights > 0
    theirs = KernelClassifier(kernel="precomputed", **settings).fit(values[np.ix_(used, used)], Y[used])
    assert ours.objective_ == pytest.approx(theirs.objective_, rel=1e-9)
    np.testing.assert_allclose(ours.decision_function(values), theirs.decision_function(values[:, used]))
    assert weights[ours.support_].all()


def test_precomputed_kernel_of_sequences() -> None:
    flat, cuts = np.concatenate(SEQUENCES), np.cumsum([len(x) for x in SEQUENCES])[:-1]
    values = np.split(rbf_kernel(flat, flat, gamma=0.05), cuts)
    settings = {"l2": 0.5, "tol": 1e-3}
    given = KernelSequenceLabeler(kernel="precomputed", **settings).fit(values, LABELS)
    named = KernelSequenceLabeler(gamma=0.05, **settings).fit(SEQUENCES, LABELS)
    assert given.objective_ == pytest.approx(named.objective_, rel=2e-3)
    new, _ = words(10, 2)
    assert given.predict([rbf_kernel(x, flat, gamma=0.05) for x in new]) == named.predict(new)


def test_gamma_is_scikit_learns() -> None:
    for gamma, value in (("scale", 1 / (X.shape[1] * X.var())), ("auto", 1 / X.shape[1])):
        model = KernelClassifier(gamma=gamma, tol=1e-2).fit(X, Y)
        assert model._support.function.settings["gamma"] == pytest.approx(value)


def edge_scores_by_hand(model: KernelSequenceLabeler, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    support = model._support
    values = rbf_kernel(x, support.points, gamma=0.05)
    assert support.second is not None and support.edge is not None
    edges = []
    for t in range(1, len(x)):
        total = np.zeros(support.edge.shape[1])
        for coefficient, second in zip(support.edge, support.second, strict=True):
            total += coefficient * (1 + values[t - 1, second - 1] * values[t, second])
        edges.append(total)
    return values @ support.node, np.array(edges).reshape(-1, len(model.classes_), len(model.classes_))


def test_kernelised_edges() -> None:
    settings = {"l2": 0.5, "gamma": 0.05, "tol": 1e-2, "max_passes": 3000}
    model = KernelSequenceLabeler(edges="kernel", **settings).fit(SEQUENCES[:20], LABELS[:20])
    new, _ = words(6, 3)
    from partwise.structures import Chain

    chain = Chain(len(model.classes_), tied=False)
    for x, labels in zip(new, model.predict(new), strict=True):
        nodes, edges = edge_scores_by_hand(model, x)
        assert labels == model.classes_[chain.argmax(nodes, edges)].tolist()
    tied = KernelSequenceLabeler(**settings).fit(SEQUENCES[:20], LABELS[:20])
    # The constant 1 makes every tied model one with kernelised edges of the same norm.
    assert model.dual_objective_ <= tied.objective_
    with pytest.raises(AttributeError, match="transitions"):
        _ = model.transition_coef_


def test_explicit_features_of_kernelised_edges() -> None:
    """The optimum of the linear kernel with edge attributes 1 and x_before ⊗ x_here, written out."""
    random = np.random.default_rng(0)
    inputs = [random.normal(size=(length, 2)).astype(np.float32).astype(float) for length in (3, 2, 4, 3)]
    labels = [random.choice(["a", "b"], len(x)).tolist() for x in inputs]
    ours = KernelSequenceLabeler("log", 0.5, kernel="linear", edges="kernel", tol=1e-7).fit(inputs, labels)
    from partwise.core.maps import FeatureMap
    from partwise.core.problem import Problem
    from partwise.core.rows import AttributeRows, RowData
    from partwise.solvers import LBFGS, solve
    from partwise.structures import Chain

    pairs = [np.append(1.0, np.outer(x[t - 1], x[t])) for x in inputs for t in range(1, len(x))]
    edge_rows = AttributeRows(
        np.arange(len(pairs) + 1) * 5,
        np.tile(np.arange(5, dtype=np.int32), len(pairs)),
        np.concatenate(pairs),
    )
    codes = np.array([label == "b" for each in labels for label in each], np.int64)
    rows = {
        "node": RowData(FeatureMap.build(2, 0, 2), None, np.concatenate(inputs).astype(np.float32)),
        "edge": RowData(FeatureMap.build(4, 5), edge_rows),
    }
    lengths = np.array([len(x) for x in inputs])
    explicit = Problem.build(Chain(2, tied=False), codes, lengths, rows, loss="log", l2=0.5)
    theirs = solve(explicit, LBFGS(), tol=1e-9)
    assert ours.objective_ == pytest.approx(theirs.certificate.primal, rel=1e-6)


@pytest.mark.parametrize("edges", ["tied", "kernel"])
def test_what_is_dropped_changes_scores_within_the_bound(edges: Any) -> None:
    few, labels = SEQUENCES[:25], LABELS[:25]
    settings = {"l2": 0.5, "gamma": 0.05, "tol": 1e-2, "edges": edges, "solver": "eg-gap", "loss": "log"}
    whole = KernelSequenceLabeler(support_tol=0.0, **settings).fit(few, labels)
    assert whole.score_error_ == 0.0
    new, _ = words(30, 4)
    matrix, lengths = np.concatenate(new), np.array([len(x) for x in new])
    expected = whole._support.scores(matrix, lengths)
    sizes = []
    for tolerance in (1e-3, 0.3, 3.0):
        model = KernelSequenceLabeler(support_tol=tolerance, **settings).fit(few, labels)
        assert model.objective_ == whole.objective_
        assert model.score_error_ <= tolerance
        for ours, theirs in zip(model._support.scores(matrix, lengths), expected, strict=True):
            if theirs is not None:
                assert np.abs(ours - theirs).max() <= model.score_error_ + 1e-9
        sizes.append(len(model.dual_coef_))
    assert sizes[0] <= len(whole.dual_coef_)
    assert sizes == sorted(sizes, reverse=True)
    if edges == "tied":  # with edges a point may serve many pairs
        assert sizes[-1] < sizes[0]


def test_hinge_solutions_are_sparse() -> None:
    model = KernelClassifier(gamma=0.05, l2=0.1, tol=1e-3).fit(DIGITS[:500], DIGIT[:500])
    assert len(model.dual_coef_) < 400
    assert model.score(DIGITS[500:1000], DIGIT[500:1000]) > 0.9


@pytest.mark.parametrize("precision", ["single", "double"])
def test_small_budgets_change_nothing(precision: str) -> None:
    settings = {
        "gamma": 0.05,
        "tol": 1e-3,
        "precision": precision,
        "solver": "excessive-gap",
        "max_passes": 2000,
    }
    whole = KernelClassifier(**settings).fit(DIGITS[:200], DIGIT[:200])
    partly = KernelClassifier(cache_mb=0.05, **settings).fit(DIGITS[:200], DIGIT[:200])
    gram = partly._training.problem.grams["node"]
    assert gram.n_kept < 200 and gram._kept.nbytes <= 0.05 * 2**20
    assert partly.objective_ == pytest.approx(whole.objective_, rel=1e-3)
    assert (partly.predict(DIGITS[200:500]) == whole.predict(DIGITS[200:500])).all()


@pytest.mark.parametrize("kind", ["classes", "sequences", "edges"])
def test_saved_models_predict_the_same(kind: str, tmp_path: Path) -> None:
    model: Any
    if kind == "classes":
        model, inputs = KernelClassifier("log", gamma=0.3, tol=1e-2).fit(X, Y.astype(str)), X
    else:
        edges: Any = "kernel" if kind == "edges" else "tied"
        model = KernelSequenceLabeler("log", gamma=0.05, tol=1e-1, edges=edges, precision="single")
        inputs, _ = words(10, 5)
        model.fit(SEQUENCES[:10], LABELS[:10])
    model.save(tmp_path / "model")
    for again in (partwise.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert type(again) is type(model)
        assert list(map(list, again.predict(inputs))) == list(map(list, model.predict(inputs)))
        np.testing.assert_array_equal(again.support_vectors_, model.support_vectors_)
        assert again.score_error_ == model.score_error_
        assert again.get_params().keys() == model.get_params().keys()
        assert again.objective_ == model.objective_
        assert not hasattr(again, "_training")
    if kind != "classes":
        assert again.predict_kbest(inputs, 2) == model.predict_kbest(inputs, 2)


def test_functions_cannot_be_saved(tmp_path: Path) -> None:
    model = KernelClassifier(kernel=lambda A, B: A @ B.T, tol=0.1).fit(X, Y)
    with pytest.raises(InputError, match="hold no code"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": "unheard"}, "kernel must be a function or one of"),
        ({"kernel": lambda A, B: -A @ B.T}, "eigenvalue"),
        ({"kernel": lambda A, B: np.full((len(A), len(B)), np.nan)}, "NaN"),
        ({"kernel": lambda A, B: A @ B.T[:, :1]}, "returned shape"),
        ({"kernel": "precomputed"}, "must be square"),
        ({"kernel": "sigmoid", "coef0": -5.0}, "positive semidefinite"),
        ({"solver": "sgd"}, "needs features; with a kernel there are auto, eg,"),
        ({"gamma": "wide"}, "gamma must be"),
        ({"gamma": -1.0}, "gamma must be"),
        ({"degree": "three", "kernel": "poly"}, "degree must be"),
        ({"precision": "half"}, "precision must be"),
        ({"cache_mb": 0}, "cache_mb must be"),
        ({"support_tol": -1}, "support_tol must be"),
        ({"kernel_params": 3}, "kernel_params must be"),
        ({"loss": "log", "solver": "excessive-gap"}, "beta = inf"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        KernelClassifier(**settings).fit(X, Y)


@pytest.mark.parametrize(
    ("inputs", "labels", "settings", "message"),
    [
        ([["a"], ["b"]], [["x"], ["y"]], {}, "vectors"),
        ([[[1.0], [2.0]]], [["x", None]], {}, "needs every label"),
        ([[[1.0], [2.0]]], [["x"]], {}, "labels"),
        ([[[1.0], [np.nan]]], [["x", "y"]], {}, "NaN"),
        ([[[1.0], [2.0]]], [["x", "y"]], {"edges": "none"}, "edges must be"),
        ([[[1.0], [2.0]]], [["x", "y"]], {"kernel": "precomputed"}, "square"),
    ],
)
def test_bad_sequences_are_refused(inputs: Any, labels: Any, settings: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        KernelSequenceLabeler(**settings).fit(inputs, labels)


def test_edges_of_prediction() -> None:
    model = KernelSequenceLabeler(gamma=0.05, tol=0.1, edges="kernel").fit(SEQUENCES[:10], LABELS[:10])
    assert model.predict([]) == []
    assert model.predict([np.zeros((0, 64)), SEQUENCES[0]])[0] == []
    with pytest.raises(InputError, match="features"):
        model.predict([np.zeros((2, 3))])
    with pytest.raises(NotFittedError):
        KernelSequenceLabeler().predict(SEQUENCES)
    ones = KernelSequenceLabeler(gamma=0.05, tol=0.1, edges="kernel").fit(
        [x[:1] for x in SEQUENCES], [y[:1] for y in LABELS]
    )
    assert len(ones.predict(SEQUENCES)[0]) == len(SEQUENCES[0])
    compressed = [sparse.csr_matrix(x) for x in SEQUENCES[:3]]
    assert model.predict(compressed) == model.predict(SEQUENCES[:3])


def test_clones_and_searches() -> None:
    model = KernelSequenceLabeler("log", 0.3, kernel="poly", edges="kernel")
    assert clone(model).get_params() == model.get_params()
    search = GridSearchCV(KernelClassifier(tol=0.1), {"gamma": [1e-4, 0.3]}, cv=3).fit(X, Y)
    assert search.best_params_ == {"gamma": 0.3}
    values = rbf_kernel(X, X, gamma=0.3)
    given = GridSearchCV(KernelClassifier(kernel="precomputed", tol=0.1), {"l2": [0.1, 1.0]}, cv=3).fit(
        values, Y
    )
    assert given.best_score_ > 0.9


def test_weights_count_like_repetition() -> None:
    weights = np.array([2.0, 1.0, 3.0])
    settings = {"gamma": 0.05, "tol": 1e-5, "max_passes": 3000, "loss": "log"}
    ours = KernelSequenceLabeler(**settings).fit(SEQUENCES[:3], LABELS[:3], sample_weight=weights)
    repeated = [i for i, weight in enumerate(weights) for _ in range(int(weight))]
    theirs = KernelSequenceLabeler(**settings).fit(
        [SEQUENCES[i] for i in repeated], [LABELS[i] for i in repeated]
    )
    assert ours.objective_ == pytest.approx(theirs.objective_, rel=2e-5)


def test_stopping_short_is_told() -> None:
    with pytest.warns(ConvergenceWarning, match="max_passes"):
        KernelClassifier(max_passes=1, tol=1e-6).fit(X, Y)


def test_nystroem_features_are_the_way_out() -> None:
    features = Nystroem(gamma=0.05, n_components=40, random_state=0)
    pipeline = make_pipeline(PerPosition(features), SequenceLabeler("hinge", l2=0.5, tol=1e-2, pairs="all"))
    pipeline.fit(SEQUENCES, LABELS)
    exact = KernelSequenceLabeler(gamma=0.05, l2=0.5, tol=1e-2).fit(SEQUENCES, LABELS)
    new, truth = words(40, 6)
    assert pipeline.score(new, truth) > exact.score(new, truth) - 0.1
    np.testing.assert_allclose(
        np.concatenate(pipeline[0].transform(new)), pipeline[0].transformer_.transform(np.concatenate(new))
    )
    with pytest.raises(NotFittedError):
        PerPosition(features).transform(new)


def test_the_command_line_reads_class_models_and_refuses_sequences_of_vectors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from partwise.cli import main

    table, classes, sequences = (str(tmp_path / name) for name in ("table.csv", "classes", "sequences"))
    Path(table).write_text("".join(f"{a},{b},{c},{d},{k}\n" for (a, b, c, d), k in zip(X, Y, strict=True)))
    KernelClassifier(tol=0.1).fit(X, Y).save(classes)
    KernelSequenceLabeler(tol=0.1).fit(SEQUENCES[:5], LABELS[:5]).save(sequences)
    for command, code, text in (
        (["inspect", classes], 0, "support points"),
        (["inspect", sequences], 0, "support points"),
        (["predict", sequences, table], 2, "from Python"),
        (["evaluate", sequences, table], 2, "from Python"),
    ):
        with pytest.raises(SystemExit) as end:
            main(command)
        assert (end.value.code or 0) == code
        captured = capsys.readouterr()
        assert text in captured.out + captured.err
