"""What a careless or hostile user may hand to the estimators: one clear line, and nothing left half done."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

from partwise import (
    CRF,
    Classifier,
    DependencyParser,
    KernelClassifier,
    KernelSequenceLabeler,
    SegmentLabeler,
    SequenceLabeler,
    load,
)
from partwise.core.losses import Loss
from partwise.errors import InputError
from partwise.estimators import long_passes
from partwise.features.templates import parse_template
from partwise.scoring import metrics
from partwise.solvers import LBFGS, ExponentiatedGradient, Progress

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning"),
]

X = [[{"w": "a"}, {"w": "b"}], [{"w": "a"}, {"w": "c", "v": 2.5}]]
Y = [["x", "y"], ["x", "y"]]
MATRICES = [np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1.0, 0.5], [0.0, 1.0]])]
TABLE, CLASSES = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]]), ["a", "b", "b"]
SENTENCES, TREES = [["dogs", "bark"], ["cats", "purr"]], [([2, 0], ["s", "r"]), ([2, 0], ["s", "r"])]


def refused(call: Callable[[], Any], *words: str) -> str:
    """The one line with which a call is refused, after checking that it says `words`."""
    with pytest.raises(InputError) as caught:
        call()
    line = str(caught.value)
    assert "\n" not in line and len(line) < 500
    for word in words:
        assert word in line
    return line


def raising(progress: Progress) -> bool:
    raise RuntimeError("the callback fails")


@pytest.fixture(scope="module")
def labeler() -> SequenceLabeler:
    return SequenceLabeler().fit(X, Y)


@pytest.fixture(scope="module")
def matrix_labeler() -> SequenceLabeler:
    return SequenceLabeler().fit(MATRICES, Y)


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return Classifier().fit(TABLE, CLASSES)


# -- a fit that fails half-way --------------------------------------------------------------------

REFITS: list[tuple[Any, tuple[Any, Any], tuple[Any, Any]]] = [
    (SequenceLabeler(), (X, Y), (X + X, [["p", "q"]] * 4)),
    (SequenceLabeler(solver="lbfgs", warm_start=True), (X, Y), (X, Y)),
    (Classifier(), (TABLE, CLASSES), (TABLE[:, :1], [5, 6, 6])),
    (Classifier(solver="lbfgs", warm_start=True), (TABLE, CLASSES), (TABLE, CLASSES)),
    (KernelClassifier(), (TABLE, CLASSES), (TABLE[:, :1], [5, 6, 6])),
    (KernelSequenceLabeler(), (MATRICES, Y), (MATRICES, [["p", "q"]] * 2)),
    (SegmentLabeler(), (X, [[(0, 1, "p")]] * 2), (X + X, [[(0, 0, "q")]] * 4)),
    (
        DependencyParser(templates=["head.form + modifier.form"]),
        (SENTENCES, TREES),
        (SENTENCES, [([0, 1], ["n", "m"])] * 2),
    ),
]


@pytest.mark.parametrize(("model", "first", "second"), REFITS, ids=lambda each: type(each).__name__)
def test_a_refit_that_fails_leaves_the_model_as_it_was(model: Any, first: Any, second: Any) -> None:
    model.fit(*first)
    before, names = str(model.predict(first[0])), set(vars(model))
    state = model.__dict__.get("_training")
    arrays = [a.copy() for a in state.state if isinstance(a, np.ndarray)] if state else []
    model.set_params(callback=raising)
    with pytest.raises(RuntimeError, match="the callback fails"):
        model.fit(*second)
    assert str(model.predict(first[0])) == before
    assert set(vars(model)) == names
    if state:  # and a warm start from it would start from what it was
        assert model._training is state
        now = [a for a in state.state if isinstance(a, np.ndarray)]
        assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(now, arrays, strict=True))


def test_a_first_fit_that_fails_leaves_the_model_unfitted() -> None:
    model = SequenceLabeler(callback=raising)
    with pytest.raises(RuntimeError):
        model.fit(X, Y)
    assert not hasattr(model, "classes_")
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_within_a_refit_there_is_no_model_to_ask() -> None:
    model, asked = SequenceLabeler().fit(X, Y), []

    def ask(progress: Progress) -> None:
        with pytest.raises(NotFittedError):
            model.predict(X)
        asked.append(progress.passes)

    model.set_params(callback=ask).fit(X, [["p", "q"], ["p", "q"]])
    assert asked and model.predict(X) == [["p", "q"], ["p", "q"]]


def test_encoding_for_another_problem_unfits_a_parser() -> None:
    parser = DependencyParser(templates=["head.form + modifier.form"]).fit(SENTENCES, TREES)
    parser._problem_for(SENTENCES, [([0, 1], ["n", "m"])] * 2)
    with pytest.raises(NotFittedError):
        parser.predict(SENTENCES)


@pytest.mark.parametrize("solver", ["auto", "lbfgs", "sgd"])
def test_a_callback_cannot_change_the_weights(solver: str) -> None:
    def spoil(progress: Progress) -> None:
        if progress.weights is not None:
            progress.weights[:] = 99.0

    settings: dict[str, Any] = {"solver": solver, "certificate_every": 1, "max_passes": 5, "tol": 1e-9}
    spoilt = SequenceLabeler(**settings, callback=spoil).fit(X, Y)
    assert np.array_equal(spoilt.coef_, SequenceLabeler(**settings).fit(X, Y).coef_)


# -- parameters -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"solver": 5}, ["solver", "not 5"]),
        ({"solver": LBFGS}, ["solver", "LBFGS()"]),
        ({"min_count": None}, ["min_count must be a whole number, not None"]),
        ({"min_count": 1.5}, ["min_count must be a whole number, not 1.5"]),
        ({"hash_size": "x"}, ["hash_size must be a whole number or None, not 'x'"]),
        ({"hash_size": True}, ["hash_size must be a whole number or None, not True"]),
        ({"scheme": []}, ["scheme", "not []"]),
        ({"pairs": np.array(["all", "all"])}, ["pairs must be"]),
        ({"transitions": {}}, ["transitions must be"]),
        ({"order": 10**8}, ["order=100000000", "use a smaller order"]),
        ({"order": 30}, ["order=30", "use a smaller order"]),
        ({"order": 1.0}, ["order must be a whole number, not 1.0"]),
        ({"l2": 10**400}, ["l2 must be a finite number > 0"]),
        ({"tol": 10**400}, ["tol must be a finite number > 0"]),
        ({"cost": [[0, 1], [1]]}, ["cost", "array of real numbers"]),
        ({"cost": [["a", "b"], ["c", "d"]]}, ["cost", "array of real numbers"]),
        ({"cost": np.array([[0, 1j], [1j, 0]])}, ["cost", "array of real numbers"]),
        ({"cost": np.ma.array([[0, 1.0], [1, 0]], mask=[[0, 1], [0, 0]])}, ["cost has masked entries"]),
        ({"cost": [[0, 1e300], [1, 0]]}, ["cost[0, 1] has the size 1e+300"]),
    ],
    ids=lambda each: next(iter(each)) if isinstance(each, dict) else "",
)
def test_parameters_that_cannot_be(settings: dict[str, Any], words: list[str]) -> None:
    refused(lambda: SequenceLabeler(loss="hinge", **settings).fit(X, Y), *words)


def test_losses_take_numpy_scalars_and_refuse_sizes_that_overflow() -> None:
    assert Loss(np.float32(1), np.int64(0)) == Loss(1.0, 0.0)
    for beta, gamma in [(1e300, 1), (1e-300, 1), (10**400, 1), (1, 1e300), (1, 10**400), ("1", 1), (1, 1j)]:
        refused(lambda b=beta, g=gamma: Loss(b, g), "Loss")  # type: ignore[misc]


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1e300, 1], ["sample_weight[0] has the size 1e+300"]),
        ([-1, 1], ["sample_weight[0] is -1.0"]),
        (["a", 1], ["array of real numbers"]),
        ([1j, 1], ["array of real numbers"]),
        (np.ma.array([1.0, 1.0], mask=[0, 1]), ["masked"]),
        (5, ["shape ()"]),
    ],
)
def test_weights_that_cannot_be(weights: Any, words: list[str], labeler: SequenceLabeler) -> None:
    refused(lambda: SequenceLabeler().fit(X, Y, weights), *words)
    refused(lambda: labeler.score(X, Y, weights), *words)


def test_an_objective_that_overflows_is_refused() -> None:
    single = ExponentiatedGradient("gap", "newton", precision="single")
    refused(lambda: SequenceLabeler(l2=1e-300, solver=single).fit(X, Y), "the objective became", "scale")
    refused(lambda: Classifier(class_weight={"a": 1e300}).fit(TABLE, CLASSES), "class_weight[0] has the size")


@pytest.mark.parametrize(
    "fit",
    [
        lambda: SequenceLabeler(min_count=9, template="U:%x[0,0]").fit(
            [["a", "b"], ["c"]], [["x", "y"], ["x"]]
        ),
        lambda: Classifier(fit_intercept=False, min_count=9).fit([{"a": 1}, {"b": 1}], [0, 1]),
        lambda: Classifier(fit_intercept=False).fit([{}, {}], [0, 1]),
    ],
)
def test_no_weights_at_all(fit: Callable[[], Any]) -> None:
    refused(fit, "not one feature", "min_count")


@pytest.mark.parametrize(
    "line",
    [
        "word[-99..99]|word[-99..99]|word[-99..99]",
        "suffix(prefix(word[-99..99], 1..99), 1..99)",
        "|".join(["word[-1..1]"] * 30),
    ],
)
def test_templates_that_stand_for_too_much(line: str) -> None:
    assert ":1: " in refused(
        lambda: parse_template(line), "the template stands for more than 20,000 attributes"
    )


def test_lines_of_a_template_add_up() -> None:
    lines = [f"col{k}[-49..50]|word[-49..50]" for k in range(3)]
    assert ":3: " in refused(lambda: parse_template("\n".join(lines)), "more than 20,000 attributes")


# -- labels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (5, ["y is int"]),
        ("xy", ["y is str"]),
        ({0: ["x", "y"]}, ["y is dict"]),
        ([{"x", "y"}, {"x", "y"}], ["y[0] is set", "no order"]),
        ({("x", "y"), ("y", "x")}, ["y is set"]),
        ([{"x": 1, "y": 2}] * 2, ["y[0] is dict"]),
        ([np.array(5), ["x", "y"]], ["y[0] is ndarray"]),
        (np.ma.array([[1, 2], [1, 2]], mask=[[0, 1], [0, 0]]), ["y has masked entries"]),
        ([np.ma.array([1, 2], mask=[0, 1]), [1, 2]], ["y[0] has masked entries"]),
        ([[1.0, float("nan")], [1.0, 2.0]], ["sequence 0, position 1", "nan"]),
        ([[1.0, np.float32("nan")], [1.0, 2.0]], ["sequence 0, position 1", "nan"]),
        ([["a", np.datetime64("NaT")], ["a", "b"]], ["sequence 0, position 1", "NaT"]),
        ([[[], []], ["x", "y"]], ["not hashable"]),
    ],
)
def test_labels_that_cannot_be(y: Any, words: list[str]) -> None:
    refused(lambda: SequenceLabeler().fit(X, y), *words)


@pytest.mark.parametrize(
    "classes",
    [["x", "y", "x"], ["x", "y", None], [1, True], ["x", float("nan")], {"x", "y"}, "xy", 5, [], [[]]],
)
def test_classes_that_cannot_be(classes: Any) -> None:
    refused(lambda: SequenceLabeler().partial_fit(X, Y, classes=classes), "classes")
    refused(lambda: Classifier().partial_fit(TABLE, [0, 1, 1], classes=classes), "classes")


def test_classes_keep_their_type() -> None:
    days = np.array(["2020-01-01", "2020-01-02", "2020-01-02"], "M8[D]")
    model = Classifier().partial_fit(TABLE, days, classes=np.unique(days)).partial_fit(TABLE, days)
    assert model.predict(TABLE).dtype == days.dtype


@pytest.mark.parametrize(
    "y",
    [
        5,
        "abc",
        {"a", "b", "c"},
        ["a", None, "b"],
        np.array(["a", np.nan, "b"], object),
        np.ma.array([0, 1, 1], mask=[0, 0, 1]),
        [[], [], []],
    ],
)
def test_targets_that_cannot_be(y: Any) -> None:
    for x in (TABLE, [{"a": 1}, {"b": 1}, {"c": 1}]):
        with pytest.raises((ValueError, TypeError)):  # scikit-learn words some of these itself
            Classifier().fit(x, y)


# -- tokens ---------------------------------------------------------------------------------------

ITSELF: dict[str, Any] = {"a": 1}
ITSELF["again"] = ITSELF
TOKENS: list[tuple[Any, list[str]]] = [
    ({"v": 10**400}, ["'v' has the value", "3.403e+38"]),
    ({"v": -(10**400)}, ["'v' has the value", "3.403e+38"]),
    ({"v": 1e39}, ["'v' has the value 1e+39"]),
    ({"unseen": 1e39}, ["'unseen' has the value 1e+39"]),
    ({"v": np.float32("inf")}, ["'v' has the value inf"]),
    ({"v:a": 3e38, "v": {"a": 3e38}}, ["add up to more than 3.403e+38"]),
    ({"v": 1j}, ["neither a number nor strings"]),
    (ITSELF, ["contains itself"]),
    ({1: 2.0}, ["the attribute 1 is not a string"]),
    (["w:a", 1], ["the attribute 1 is not a string"]),
    ("word", ["a token is a string"]),
    (None, ["cannot read the token None"]),
]


@pytest.mark.parametrize(("token", "words"), TOKENS)
def test_fit_and_predict_refuse_the_same_tokens(token: Any, words: list[str]) -> None:
    model = SequenceLabeler().fit([[{"v:a": 2.0}, {"w": "b"}]] * 2, Y)
    for call in (SequenceLabeler().fit, lambda x, _: model.predict(x)):
        refused(lambda c=call: c([[token, {"w": "b"}]] * 2, Y), *words)  # type: ignore[misc]


@pytest.mark.parametrize(
    "x",
    [MATRICES, [m.tolist() for m in MATRICES], np.stack(MATRICES), [sparse.csr_matrix(m) for m in MATRICES]],
)
def test_a_model_of_dicts_refuses_matrices(x: Any, labeler: SequenceLabeler) -> None:
    refused(lambda: labeler.predict(x), "X holds numbers, but training was on tokens")


@pytest.mark.parametrize("x", [5, None, "ab", {"a": 1}, {("a",)}, [{"w": "a"}], [{("a",)}], ["ab"], [None]])
def test_what_is_no_list_of_sequences(x: Any, labeler: SequenceLabeler) -> None:
    refused(lambda: labeler.predict(x), "X")
    refused(lambda: SequenceLabeler().fit(x, Y), "X")


def test_arrays_of_lists_and_generators_are_sequences(labeler: SequenceLabeler) -> None:
    ragged = np.empty(2, object)
    ragged[:] = [X[0], X[0] + X[1]]
    assert [len(each) for each in labeler.predict(ragged)] == [2, 4]
    assert labeler.predict(iter(iter(each) for each in X)) == Y


# -- matrices -------------------------------------------------------------------------------------

BAD_MATRICES: list[tuple[Any, str]] = [
    (np.ma.array([[1, 2.0]], mask=[[0, 1]]), "masked"),
    (np.array([[1j, 2]]), "real numbers"),
    (sparse.csr_matrix(np.array([[1j, 2]])), "real numbers"),
    ([["1.5", "2"]], "real numbers"),
    (np.array([["1.5", 2]], object), "real numbers"),
    (np.array([[10**400, 2]], object), "real numbers"),
    (np.array([["2020-01-01", "2020-01-02"]], "M8[D]"), "real numbers"),
    (np.array([[1e39, 2]]), "too large"),
    (np.array([[np.nan, 2]]), "NaN"),
    (np.zeros((1, 3)), "3 features"),
]


@pytest.mark.parametrize(("matrix", "word"), BAD_MATRICES)
def test_matrices_that_cannot_be(matrix: Any, word: str, matrix_labeler: SequenceLabeler) -> None:
    refused(lambda: matrix_labeler.predict([matrix]), word)


def test_sequences_without_positions_have_no_labels(matrix_labeler: SequenceLabeler) -> None:
    assert matrix_labeler.predict([[], []]) == [[], []]
    assert matrix_labeler.predict([MATRICES[0], []])[1] == []


def _damaged(kind: str) -> Any:
    """A 3 × 2 matrix whose indices lead out of it."""
    matrix: Any = sparse.csr_matrix(TABLE)
    if kind == "coo":
        matrix = matrix.tocoo()
        matrix.col = np.full_like(matrix.col, 10**9)
        return matrix
    if kind == "csc":
        matrix = matrix.tocsc()
    if kind == "pointers":
        matrix.indptr = np.array([0, 10**6, 3, 4], np.int32)
    elif kind == "end":
        matrix.indptr = np.array([0, 1, 2, 10**6], np.int32)
    elif kind == "lil":
        matrix = matrix.tolil()
        matrix.rows[0] = [10**9]
    else:
        far = {"negative": -5, "far": 10**9, "csc": 10**9, "wide": 2**40}[kind]
        matrix.indices = np.full(len(matrix.indices), far, np.int64 if kind == "wide" else np.int32)
    return matrix


@pytest.mark.parametrize("kind", ["negative", "far", "wide", "pointers", "end", "csc", "coo", "lil"])
def test_damaged_sparse_matrices(kind: str, classifier: Classifier, matrix_labeler: SequenceLabeler) -> None:
    words = "X", "damaged sparse matrix"
    refused(lambda: Classifier().fit(_damaged(kind), CLASSES), *words)
    refused(lambda: KernelClassifier().fit(_damaged(kind), CLASSES), *words)
    for ask in (classifier.predict, classifier.predict_proba, classifier.decision_function):
        refused(lambda a=ask: a(_damaged(kind)), *words)  # type: ignore[misc]
    refused(lambda: matrix_labeler.predict([_damaged(kind)]), *words)


def test_sparse_matrices_are_read_right_whatever_they_claim() -> None:
    twice = sparse.csr_matrix(
        (np.array([1.0, 1.0, 2.0, 1.0]), np.array([1, 1, 0, 0]), np.array([0, 2, 3, 4])), shape=(3, 2)
    )
    twice.has_canonical_format = twice.has_sorted_indices = True
    plain = np.array([[0.0, 2.0], [2.0, 0.0], [1.0, 0.0]])
    expected = Classifier().fit(sparse.csr_matrix(plain), CLASSES)
    assert np.array_equal(Classifier().fit(twice, CLASSES).coef_, expected.coef_)
    unsorted = [sparse.csr_matrix(m)[:, ::-1][:, ::-1] for m in MATRICES]
    assert SequenceLabeler().fit(unsorted, Y).predict(MATRICES) == Y
    assert twice.nnz == 4  # and the user's own is left alone


@pytest.mark.parametrize(
    "x", [np.ma.array(TABLE, mask=TABLE == 2), sparse.csr_matrix(TABLE * 1j), TABLE * 1e39, TABLE * np.nan]
)
def test_a_classifier_predicts_from_what_it_would_train_on(x: Any, classifier: Classifier) -> None:
    for call in (lambda: Classifier().fit(x, CLASSES), lambda: classifier.predict(x)):
        with pytest.raises(ValueError, match=r"masked|real numbers|too large|NaN"):
            call()


def test_a_classifier_of_numbers_and_one_of_dicts_tell_each_other_apart(classifier: Classifier) -> None:
    dicts = [{"a": 1}, {"b": 2.0}, {"b": 1}]
    named = Classifier().fit(dicts, CLASSES)
    refused(lambda: classifier.predict(dicts), "must be a matrix of numbers")
    refused(lambda: named.predict(TABLE), "must be a list of dicts")
    expected = named.predict(dicts).tolist()
    assert named.predict(iter(dicts)).tolist() == named.predict(np.array(dicts, object)).tolist() == expected
    refused(lambda: Classifier().fit(np.array([["2020-01-01"]] * 3, "M8[D]"), CLASSES), "real numbers")
    refused(
        lambda: Classifier(min_count=None).fit(TABLE, CLASSES), "min_count must be a whole number, not None"
    )  # type: ignore[arg-type]
    refused(lambda: Classifier(class_weight={"a": 0, "b": 0}).fit(TABLE, CLASSES), "class_weight leaves")


def test_a_sparse_kernel_matrix_is_read() -> None:
    kernel = TABLE @ TABLE.T
    dense, from_sparse = (
        KernelClassifier(kernel="precomputed").fit(each, CLASSES)
        for each in (kernel, sparse.csr_matrix(kernel))
    )
    assert np.array_equal(dense.dual_coef_, from_sparse.dual_coef_)


@pytest.mark.parametrize(
    "settings",
    [{"c2": "a"}, {"c2": np.array([1, 2])}, {"min_freq": float("nan")}, {"c1": "a"}, {"min_freq": "a"}],
)
def test_settings_of_crfsuite_that_cannot_be(settings: dict[str, Any]) -> None:
    refused(lambda: CRF(**settings).fit(X, Y), next(iter(settings)))


# -- questions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["predict", "predict_marginals", "predict_marginals_single", "predict_kbest", "sample", "explain"]
)
def test_a_model_that_is_not_fitted_says_so(name: str) -> None:
    with pytest.raises(NotFittedError):
        getattr(SequenceLabeler(), name)(X)


def test_constraints_that_cannot_be(labeler: SequenceLabeler) -> None:
    for forbid in (5, "xy", [5], [([], "x")], [("x", "q")], {("x", "y")}):
        refused(lambda f=forbid: labeler.predict(X, forbid=f), "forbid")  # type: ignore[misc]
    for fixed in (5, "xy", [{"x"}, ["x", "y"]], [["q", "x"], ["x", "y"]]):
        refused(lambda f=fixed: labeler.predict(X, fixed=f), "fixed")  # type: ignore[misc]
    refused(lambda: labeler.score(X, 5), "y is int")
    refused(lambda: labeler.score(X, [[[], []], ["x", "y"]]), "not hashable")
    refused(lambda: labeler.explain(X[0], 5), "y is int")


def test_labels_may_be_any_text(tmp_path: Any) -> None:
    y = [["x\0", "\u202e\N{GRINNING FACE}"], ["", "a\nb"]]
    model = SequenceLabeler(l2=0.01).fit(
        [[{str(k): 1.0, "w": "\N{SNOWMAN}"}, {"z\0": 2}] for k in range(2)], y
    )
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").classes_.tolist() == model.classes_.tolist()


@pytest.mark.parametrize("name", ["token_accuracy", "chunk_scores", "confusion", "per_label_table"])
def test_scores_of_what_are_no_labels(name: str) -> None:
    score, good = getattr(metrics, name), [["O"], ["O"]]
    for bad in (
        5,
        None,
        "ab",
        {0: ["O"]},
        [["O"], 5],
        [["O"], "O"],
        [{"O"}, ["O"]],
        [["O"], [[]]],
        ["O", "O"],
    ):
        for pair in ((good, bad), (bad, good)):
            refused(lambda p=pair: score(*p), "y_")  # type: ignore[misc]
    refused(lambda: score(np.ma.array(good, mask=[[1], [0]]), good), "masked")
    assert str(score(iter(good), iter(good))) == str(score(good, good))


# -- trees ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"templates": 5}, ["templates must be a string or a list"]),
        ({"templates": {"direction"}}, ["templates must be a string or a list"]),
        ({"min_count": None}, ["min_count must be a whole number, not None"]),
        ({"min_count": 1.5}, ["min_count must be a whole number, not 1.5"]),
        ({"structure": []}, ["structure must be"]),
        ({"cost": np.eye(2)}, ["cost must be"]),
        ({"prune": []}, ["prune must be"]),
        ({"solver": 5}, ["solver"]),
    ],
)
def test_parser_settings_that_cannot_be(settings: dict[str, Any], words: list[str]) -> None:
    refused(lambda: DependencyParser(**settings).fit(SENTENCES, TREES), *words)


def test_trees_and_questions_that_cannot_be() -> None:
    def fit(x: Any, y: Any, weights: Any = None) -> DependencyParser:
        return DependencyParser(templates=["head.form + modifier.form"]).fit(x, y, weights)

    refused(lambda: fit([{"a", "b"}, ["c", "d"]], TREES), "X[0] is set")
    refused(lambda: fit(SENTENCES, 5), "y is int")
    refused(lambda: fit(SENTENCES, {(2, 0), (0, 1)}), "y is set")
    refused(lambda: fit(SENTENCES, [np.ma.array([2, 0], mask=[1, 0]), [2, 0]]), "y[0] has masked entries")
    refused(lambda: fit(SENTENCES, TREES, [0, 0]), "sample_weight is zero")
    refused(lambda: fit(SENTENCES, TREES, [1e300, 1]), "sample_weight[0] has the size")
    parser = fit(SENTENCES, TREES)
    refused(lambda: parser.top_features(label="zz"), "'zz' was not in training")
    refused(lambda: parser.score(SENTENCES, 5), "y is int")
    for heads in ([9, 9, 9, 9], [-1, 0, 2, 0], [0], "a", [[2, 0], [2, 0]]):
        refused(lambda h=heads: parser.arc_probabilities(SENTENCES, h), "heads")  # type: ignore[misc]


# -- passes that take long ------------------------------------------------------------------------


def test_a_long_pass_is_announced_and_reported_from_within(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = SequenceLabeler(max_passes=3, tol=1e-9).fit(X * 20, Y * 20)
    capsys.readouterr()
    monkeypatch.setattr(long_passes, "LONG", 0.0)
    monkeypatch.setattr(time, "monotonic", count(step=60).__next__)  # a minute from one look to the next
    seen: list[Progress] = []
    model = SequenceLabeler(max_passes=3, tol=1e-9, verbose=1, callback=seen.append)  # type: ignore[arg-type]
    with pytest.warns(
        UserWarning, match=r"one pass over the data will take about .*2 labels at 80 positions"
    ):
        model.fit(X * 20, Y * 20)
    assert [each.passes for each in seen[:40]] == pytest.approx([k / 40 for k in range(1, 41)])
    assert "pass    0.50" in capsys.readouterr().out
    assert np.array_equal(model.coef_, plain.coef_) and model.objective_ == plain.objective_


def test_the_estimate_of_a_pass_grows_with_labels_and_order() -> None:
    problems = {}
    for order in (1, 2):
        model = SequenceLabeler(order=order, max_passes=1).fit(X, Y)
        problems[order] = model._training.problem
    one, two = (long_passes.estimated_seconds(problems[order]) for order in (1, 2))
    assert 0 < one < two < 1e-3
    assert not long_passes.warn_if_long(problems[2], 1)
