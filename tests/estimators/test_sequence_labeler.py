"""SequenceLabeler: every kind of input, every prediction against enumeration, and life with scikit-learn."""

from __future__ import annotations

import itertools
import math
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import joblib
import numpy as np
import pytest
from data_paths import SHARED, needs_shared
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import validate_data
from toy_sequences import LABELS, TEMPLATE, X, Y, as_matrices, as_rows, as_strings, sequences

import partwise
from partwise import InputError, Loss, SequenceLabeler
from partwise.data import read
from partwise.data.conll import parse_conll
from partwise.estimators.encoders import AttributeEncoder

TIGHT = {"tol": 1e-7, "solver": "lbfgs"}


@pytest.fixture(scope="module")
def fitted() -> SequenceLabeler:
    return SequenceLabeler(tol=1e-4).fit(X, Y)


# -- input -----------------------------------------------------------------------------------------


def test_every_kind_of_input_gives_the_same_optimum() -> None:
    settings = {**TIGHT, "pairs": "all"}
    matrices = as_matrices(X)
    variants = [
        X,
        (x for x in X),
        matrices,
        [sparse.csr_matrix(m) for m in matrices],
        [m.tolist() for m in matrices],
    ]
    values = [SequenceLabeler(**settings).fit(each, Y).objective_ for each in variants]
    np.testing.assert_allclose(values, values[0], rtol=1e-6)
    generators = SequenceLabeler(**settings).fit((iter(x) for x in X), (iter(y) for y in Y))
    assert generators.objective_ == pytest.approx(values[0], rel=1e-6)


def test_mostly_zero_matrices_are_stored_sparse_and_full_ones_dense() -> None:
    full = [np.abs(m) + 1.0 for m in as_matrices(X)]
    for storage, matrices in (("dense", full), ("sparse", [np.where(m > 1.9, m, 0.0) for m in full])):
        model = SequenceLabeler(tol=1e-2).fit(matrices, Y)
        assert model._encoder.storage == storage
        assert model.n_features_in_ == 5
        as_sparse = [sparse.csr_matrix(m) for m in matrices]
        assert model.predict(as_sparse) == model.predict(matrices)


def test_labels_of_any_kind_come_back_as_they_were() -> None:
    for names in ([0, 1, 2], [2.5, 1.0, 7.0], [("x", 1), ("y", 2), ("z", 3)], [True, False, "maybe"]):
        y = [[names[LABELS.index(label)] for label in each] for each in Y]
        model = SequenceLabeler(tol=1e-2).fit(X, y)
        predicted = model.predict(X)
        assert set(itertools.chain.from_iterable(predicted)) <= set(names)
        assert {type(each) for row in predicted for each in row} <= {type(name) for name in names}
        assert model.score(X, y) > 0.7


def test_sequences_without_positions_are_left_out_and_come_back_empty(fitted: SequenceLabeler) -> None:
    model = SequenceLabeler(tol=1e-4).fit([[], *X, []], [[], *Y, []], sample_weight=np.ones(len(X) + 2))
    assert model.objective_ == fitted.objective_
    tagged = [[], X[0], [], X[1]]
    assert model.predict(tagged) == [[], fitted.predict([X[0]])[0], [], fitted.predict([X[1]])[0]]
    assert [len(each) for each in model.predict_marginals(tagged)] == [0, len(X[0]), 0, len(X[1])]
    assert [len(each) for each in model.predict_kbest(tagged, 2)][::2] == [0, 0]
    assert model.sample(tagged, 2)[0] == [[], []]
    assert model.predict_edge_marginals(tagged)[2].shape == (0, 3, 3)
    assert model.predict_log_proba_of(tagged, [[], Y[0], [], Y[1]])[0] == 0.0
    assert model.predict([]) == [] and model.predict([[]]) == [[]]


def test_min_count_and_hashing() -> None:
    rare = [[{**token, "id": str(k)} for token in x] for k, x in enumerate(X)]
    all_of_them = SequenceLabeler(tol=1e-2).fit(rare, Y)
    frequent = SequenceLabeler(tol=1e-2, min_count=10).fit(rare, Y)
    assert not any(name.startswith("id:") for name, *_ in frequent.top_features(1000))
    assert any(name.startswith("id:") for name, *_ in all_of_them.top_features(1000))
    hashed = SequenceLabeler(tol=1e-2, hash_size=64).fit(rare, Y)
    assert hashed.score(rare, Y) > 0.7


def test_lookup_reads_tokens_as_the_vocabulary_does() -> None:
    random = np.random.default_rng(0)
    values = [
        "x",
        "y",
        True,
        False,
        1.0,
        0.0,
        0.5,
        2,
        np.float64(1.5),
        np.float32(0.25),
        np.bool_(True),
        "0",
        -3.0,
    ]
    tokens = [
        {str(random.choice(list("abcde"))): values[random.integers(len(values))] for _ in range(4)}
        for _ in range(2000)
    ]
    tokens += [["a:x", "b", "b", "unknown"], {}, [], ("c:y",)]
    encoder = AttributeEncoder()
    encoder.fit_transform([tokens[:1000]])
    fast, slow = encoder.transform([tokens]).own[0].sparse, encoder.vocabulary.transform([tokens])
    assert np.array_equal(fast.row_ptr, slow.row_ptr)
    for a, b in itertools.pairwise(fast.row_ptr):
        ours, theirs = (dict(zip(r.ids[a:b], r.values[a:b], strict=True)) for r in (fast, slow))
        assert ours == theirs
    nested = [[{"a": {"b": 1.0, "c": "d"}, "e": ["f", "g"]}]]
    assert len(encoder.transform(nested).lengths) == 1
    many = [[{f"key{k}": 1.0, f"other{k}": True} for k in range(3000)]]
    assert len(encoder.transform(many).own[0].sparse.row_ptr) == 3001


@pytest.mark.parametrize("pairs", ["observed", "all"])
def test_templates_with_edge_attributes(tmp_path: Path, pairs: str) -> None:
    rows = as_rows(X)
    model = SequenceLabeler(template=TEMPLATE, pairs=pairs, tol=1e-4).fit(rows, Y)
    plain = SequenceLabeler(template=TEMPLATE.replace("B01:%x[0,1]\n", ""), pairs=pairs, tol=1e-4).fit(
        rows, Y
    )
    assert not model._model.structure.tied and plain._model.structure.tied
    assert model.objective_ < plain.objective_
    assert np.all(model.transition_coef_ != 0.0)
    path = tmp_path / "template"
    path.write_text(TEMPLATE)
    from_file = SequenceLabeler(template=path, pairs=pairs, tol=1e-4).fit(rows, Y)
    assert from_file.objective_ == model.objective_
    model.save(tmp_path / "model")
    loaded = partwise.load(tmp_path / "model")
    assert loaded.predict(rows) == model.predict(rows)
    assert np.array_equal(loaded.coef_, model.coef_)
    assert_matches_enumeration(model, rows[:6])


def test_a_crfpp_template_without_b_has_no_transitions(tmp_path: Path) -> None:
    rows = as_rows(X)
    model = SequenceLabeler(template="U00:%x[0,0]\n", tol=1e-4).fit(rows, Y)
    assert not model.transition_coef_.any()
    model.save(tmp_path / "model")
    assert partwise.load(tmp_path / "model").predict(rows) == model.predict(rows)


# -- predictions against enumeration -----------------------------------------------------------------


def assert_matches_enumeration(model: SequenceLabeler, X: list) -> None:
    """All answers about `X` follow from the scores of single labellings, term by term from `explain`."""
    beta, labels = Loss.of(model.loss).beta, model.classes_.tolist()
    marginals, edges = model.predict_marginals(X), model.predict_edge_marginals(X)
    best, kbest = model.predict(X), model.predict_kbest(X, k=4)
    for i, x in enumerate(X):
        labellings = [list(y) for y in itertools.product(labels, repeat=len(x))]
        scores = np.array([model.explain(x, y).score for y in labellings])
        scores[
            [not model._model.structure.is_allowed([labels.index(v) for v in y]) for y in labellings]
        ] = -np.inf
        probabilities = np.exp(beta * (scores - scores.max()))
        probabilities /= probabilities.sum()
        ranked = np.argsort(-scores, kind="stable")
        assert scores[labellings.index(best[i])] == pytest.approx(scores.max())
        np.testing.assert_allclose([p for _, p in kbest[i]], probabilities[ranked[:4]], rtol=1e-6)
        given = model.predict_log_proba_of([x] * len(labellings), labellings)
        np.testing.assert_allclose(np.exp(given), probabilities, rtol=1e-6, atol=1e-12)
        for t, label in itertools.product(range(len(x)), labels):
            expected = sum(p for y, p in zip(labellings, probabilities, strict=True) if y[t] == label)
            assert marginals[i][t][label] == pytest.approx(expected, abs=1e-8)
        for t, a, b in itertools.product(range(len(x) - 1), range(len(labels)), range(len(labels))):
            pair = [labels[a], labels[b]]
            expected = sum(p for y, p in zip(labellings, probabilities, strict=True) if y[t : t + 2] == pair)
            assert edges[i][t, a, b] == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("loss", ["log", "softmax_margin", Loss(3.0, 0.5)])
def test_predictions_match_enumeration(loss: str | Loss) -> None:
    model = SequenceLabeler(loss, tol=1e-3).fit(X, Y)
    assert_matches_enumeration(model, [x for x in X if len(x) <= 4][:4])


def test_samples_have_the_probabilities_of_the_model(fitted: SequenceLabeler) -> None:
    x = next(x for x in X if len(x) == 2)
    drawn = fitted.sample([x], n_samples=4000, random_state=0)[0]
    for labels, probability in fitted.predict_kbest([x], 9)[0]:
        assert drawn.count(labels) / 4000 == pytest.approx(probability, abs=0.03)
    assert fitted.sample([x], 3, random_state=1) == fitted.sample([x], 3, random_state=1)


def test_probability_with_unobserved_positions_is_a_sum(fitted: SequenceLabeler) -> None:
    x = next(x for x in X if len(x) == 3)
    [partial] = fitted.predict_log_proba_of([x], [["A", None, "C"]])
    whole = fitted.predict_log_proba_of([x] * 3, [["A", label, "C"] for label in LABELS])
    assert partial == pytest.approx(np.logaddexp.reduce(whole))


def test_fixed_labels_and_forbidden_transitions(fitted: SequenceLabeler) -> None:
    fixed = [["B"] + [None] * (len(x) - 1) for x in X]
    forbid = [("A", "B"), ("B", "C")]
    for labels in fitted.predict(X, fixed=fixed, forbid=forbid):
        assert labels[0] == "B"
        assert not set(itertools.pairwise(labels)) & set(forbid)
    for paths in fitted.predict_kbest(X, 3, fixed=fixed, forbid=forbid):
        for labels, _ in paths:
            assert labels[0] == "B" and not set(itertools.pairwise(labels)) & set(forbid)
    marginals = fitted.predict_marginals_array(X, fixed=fixed, forbid=forbid)
    edges = fitted.predict_edge_marginals(X, fixed=fixed, forbid=forbid)
    for node, edge in zip(marginals, edges, strict=True):
        np.testing.assert_allclose(node[0], [0, 1, 0], atol=1e-12)
        assert not edge[:, 0, 1].any() and not edge[:, 1, 2].any()
    assert all(y[0] == "B" for draws in fitted.sample(X, 2, fixed=fixed) for y in draws)
    with pytest.raises(InputError, match="sequence 0: no labelling"):
        everything = list(itertools.product(LABELS, LABELS))
        fitted.predict([x for x in X if len(x) > 1], forbid=everything)


def test_order_two_looks_two_labels_back(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    X2 = [[{"t": "x"} for _ in range(8)] for _ in range(60)]
    y2 = []
    for _ in X2:
        labels = list(random.integers(2, size=2))
        while len(labels) < 8:
            labels.append(labels[-2])  # what comes next depends on the label before the last only
        y2.append([int(label) for label in labels])
    fixed = [[*labels[:2], *[None] * 6] for labels in y2]
    accuracy = []
    for order in (1, 2):
        model = SequenceLabeler(order=order, l2=0.1, tol=1e-4).fit(X2, y2)
        accuracy.append(np.mean(np.array(model.predict(X2, fixed=fixed)) == np.array(y2)))
    assert accuracy[0] < 0.95 and accuracy[1] == 1.0
    model.save(tmp_path / "model")
    assert partwise.load(tmp_path / "model").predict(X2, fixed=fixed) == model.predict(X2, fixed=fixed)
    assert model.transition_coef_.shape == (3, 3, 2)
    with pytest.raises(InputError, match="order"):
        model.predict_edge_marginals(X2)


def test_schemes_and_observed_transitions_are_obeyed() -> None:
    names = {"A": "O", "B": "B-X", "C": "I-X"}
    y = [[names[label] for label in labels] for labels in Y]
    for labels in y:
        for t, label in enumerate(labels):
            if label == "I-X" and (t == 0 or labels[t - 1] == "O"):
                labels[t] = "B-X"
    model = SequenceLabeler(scheme="IOB2", tol=1e-3).fit(X, y)
    for labels in model.predict(X):
        assert all(b != "I-X" or a != "O" for a, b in itertools.pairwise(["O", *labels]))
    assert_matches_enumeration(model, [x for x in X if len(x) <= 3][:2])
    with pytest.raises(InputError, match=r"sequence 0, position 1: 'I-X' after 'O' .* scheme='IOB2'"):
        SequenceLabeler(scheme="IOB2").fit(X[:1] * 2, [["O", "I-X", *["O"] * 9][: len(X[0])]] * 2)
    circle = [[LABELS[(LABELS.index(labels[0]) + t) % 3] for t in range(len(labels))] for labels in Y]
    only = SequenceLabeler(transitions="observed", tol=1e-3).fit(X, circle)
    seen = {pair for labels in circle for pair in itertools.pairwise(labels)}
    assert all(set(itertools.pairwise(labels)) <= seen for labels in only.predict(X))


def test_hinge_has_scores_but_no_probabilities() -> None:
    model = SequenceLabeler("hinge", tol=1e-2).fit(X, Y)
    scores = [value for _, value in model.predict_kbest(X[:1], 3)[0]]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == pytest.approx(model.explain(X[0]).score)
    for call in (model.predict_marginals, model.sample, model.predict_edge_marginals):
        with pytest.raises(InputError, match="no probabilities"):
            call(X)


def test_score_counts_observed_positions_and_names_unknown_labels(fitted: SequenceLabeler) -> None:
    predicted = fitted.predict(X)
    assert fitted.score(X, predicted) == 1.0
    partly = [[None, *labels[1:]] for labels in predicted]
    assert fitted.score(X, partly) == 1.0
    weights = np.zeros(len(X))
    weights[0] = 1.0
    wrong = [["A" if label != "A" else "B" for label in predicted[0]], *predicted[1:]]
    assert fitted.score(X, wrong, sample_weight=weights) == 0.0
    with pytest.warns(UserWarning, match="not in training.*'Z'"):
        assert fitted.score(X, [["Z"] * len(x) for x in X]) == 0.0


# -- training -----------------------------------------------------------------------------------------


def test_certificate_and_history(fitted: SequenceLabeler) -> None:
    assert fitted.converged_ and fitted.stop_reason_.startswith("converged")
    assert fitted.dual_objective_ <= fitted.objective_
    gap = (fitted.objective_ - fitted.dual_objective_) / fitted.objective_
    assert fitted.duality_gap_ == pytest.approx(gap) and gap <= fitted.tol
    assert {"passes", "seconds", "primal", "dual", "gap"} <= set(fitted.history_[-1])
    assert fitted.history_[-1]["passes"] == fitted.n_passes_


def test_the_optimum_is_crfsuites(tmp_path: Path) -> None:
    pycrfsuite = pytest.importorskip("pycrfsuite")
    trainer = pycrfsuite.Trainer("lbfgs", verbose=False)
    trainer.set_params({"c2": 0.5, "feature.possible_transitions": True, "epsilon": 1e-9, "delta": 1e-12})
    for x, y in zip(X, Y, strict=True):
        trainer.append(x, y)
    trainer.train(str(tmp_path / "crfsuite"))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "crfsuite"))
    model = SequenceLabeler(l2=1.0, **TIGHT).fit(X, Y)
    ours = model.state_features_
    for name, weight in tagger.info().state_features.items():
        assert ours[name] == pytest.approx(weight, abs=2e-3)
    for name, weight in tagger.info().transitions.items():
        assert model.transition_features_[name] == pytest.approx(weight, abs=2e-3)


def test_sample_weight_is_repetition() -> None:
    weights = np.arange(len(X)) % 3
    repeated = [i for i, weight in enumerate(weights) for _ in range(weight)]
    weighted = SequenceLabeler(**TIGHT, pairs="all").fit(X, Y, sample_weight=weights)
    expanded = SequenceLabeler(**TIGHT, pairs="all").fit([X[i] for i in repeated], [Y[i] for i in repeated])
    assert weighted.objective_ == pytest.approx(expanded.objective_, rel=1e-6)


def test_warm_start_keeps_the_dual_state() -> None:
    model = SequenceLabeler(tol=1e-4, warm_start=True).fit(X, Y)
    cold = model.n_passes_
    assert model.fit(X, Y).n_passes_ <= 2 < cold
    warm = model.set_params(l2=0.9).fit(X, Y)
    fresh = SequenceLabeler(tol=1e-4, l2=0.9).fit(X, Y)
    assert warm.n_passes_ < fresh.n_passes_
    assert warm.objective_ == pytest.approx(fresh.objective_, rel=2e-4)
    assert model.set_params(solver="lbfgs").fit(X, Y).objective_ == pytest.approx(fresh.objective_, rel=2e-4)
    assert model.fit(X, Y).n_passes_ <= 2
    assert model.fit(*sequences(10, seed=3)).converged_


def test_partial_fit_reaches_the_optimum_of_all_the_data(fitted: SequenceLabeler) -> None:
    model = SequenceLabeler(tol=1e-4)
    for first in range(0, len(X), 20):
        model.partial_fit(X[first : first + 20], Y[first : first + 20], classes=LABELS)
    assert model.objective_ == pytest.approx(fitted.objective_, rel=2e-4)
    assert model.partial_fit(X[:1], Y[:1]).objective_ > fitted.objective_
    with pytest.raises(InputError, match="'D' was not in training"):
        model.partial_fit(X[:1], [["D"] * len(X[0])])
    with pytest.raises(InputError, match="without its training data"):
        pickle.loads(pickle.dumps(model)).partial_fit(X, Y)


def test_a_stop_before_convergence_warns_with_the_reason() -> None:
    with pytest.warns(ConvergenceWarning, match="max_passes"):
        model = SequenceLabeler(max_passes=1, tol=1e-9).fit(X, Y)
    assert not model.converged_ and "max_passes" in model.stop_reason_
    with pytest.warns(ConvergenceWarning, match="callback"):
        SequenceLabeler(tol=1e-9, callback=lambda progress: progress.passes > 2).fit(X, Y)
    with pytest.warns(ConvergenceWarning, match="time limit"):
        SequenceLabeler(tol=1e-15, time_limit=1e-6, max_passes=1e6).fit(X, Y)


def test_verbose_prints_a_line_per_certificate(capsys: pytest.CaptureFixture[str]) -> None:
    model = SequenceLabeler(verbose=1, certificate_every=1, tol=1e-2).fit(X, Y)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("memory: about") and len(lines) == 1 + len(model.history_)
    assert all("relative gap" in line for line in lines[1:])


def test_seeds_of_all_kinds_and_threads() -> None:
    seeds = [None, 3, np.random.RandomState(3), np.random.default_rng(3)]
    assert all(SequenceLabeler(random_state=seed, tol=1e-2).fit(X, Y).converged_ for seed in seeds)
    one, two = (SequenceLabeler(random_state=5, n_jobs=n).fit(X, Y) for n in (1, 2))
    assert one.objective_ == pytest.approx(two.objective_, rel=1e-3)
    for n, model in ((1, one), (2, two)):
        again = SequenceLabeler(random_state=5, n_jobs=n).fit(X, Y)
        assert np.array_equal(model.coef_, again.coef_)


BAD_INPUT = [
    ({"loss": "huber"}, X, Y, "loss must be one of"),
    ({"l2": 0}, X, Y, "l2 must be"),
    ({"solver": "newton"}, X, Y, "unknown solver 'newton'"),
    ({"random_state": "x"}, X, Y, "random_state"),
    ({"n_jobs": 0}, X, Y, "n_jobs"),
    ({"pairs": "some"}, X, Y, "pairs must be"),
    ({"transitions": "some"}, X, Y, "transitions must be"),
    ({"template": "nosuch"}, X, Y, "nosuch"),
    ({"template": "chunking"}, X, Y, "sequence 0, position 0: with a template a token is a row"),
    ({"min_count": 0}, X, Y, "min_count"),
    ({"order": 2, "template": TEMPLATE}, as_rows(X), Y, "order must be 1"),
    ({}, X, None, "requires y"),
    ({}, X, Y[1:], "y has 39 sequences, but X has 40"),
    ({}, X, [Y[0][1:], *Y[1:]], r"y\[0\] has \d labels, but X\[0\] has \d positions"),
    ({}, X, ["".join(y) for y in Y], r"y\[0\] is .* must be a list of labels"),
    ({}, X, [[[label] for label in y] for y in Y], "sequence 0, position 0: the label .* is not hashable"),
    ({}, X, [[math.nan for _ in y] for y in Y], "sequence 0, position 0: the label is nan"),
    ({}, X, [[None for _ in y] for y in Y], "no labels at all"),
    ({}, [[]], [[]], "no positions"),
    ({}, [], [], "no positions"),
    ({}, "text", Y, "X is str"),
    ({}, 7, Y, "X is int"),
    ({}, ["text"], Y, r"X\[0\] is 'text'"),
    ({}, [[{"w": math.nan}]], [["A"]], "sequence 0, position 0"),
    ({}, [[{"w": object()}]], [["A"]], "sequence 0, position 0"),
    ({}, [["word"]], [["A"]], "sequence 0, position 0"),
    ({}, np.ones((4, 3)), [["A"]] * 4, r"X has shape \(4, 3\)"),
    ({}, [np.ones((2, 3)), np.ones((2, 4))], [["A", "B"]] * 2, "4 columns"),
    ({}, [np.full((2, 3), np.inf)], [["A", "B"]], "NaN or infinity"),
    ({}, [np.full((2, 3), 1e200)], [["A", "B"]], "too large"),
    ({"min_count": 2}, [np.ones((2, 3))], [["A", "B"]], "min_count"),
]


@pytest.mark.parametrize(("settings", "sequences", "labels", "message"), BAD_INPUT)
def test_bad_input_is_named(settings: dict, sequences: object, labels: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        SequenceLabeler(**settings).fit(sequences, labels)


def test_bad_weights_and_constraints_are_named(fitted: SequenceLabeler) -> None:
    for weights, message in (
        (np.ones(3), "40 sequences"),
        (-np.ones(40), r"sample_weight\[0\]"),
        (np.zeros(40), "zero"),
    ):
        with pytest.raises(InputError, match=message):
            SequenceLabeler().fit(X, Y, sample_weight=weights)
    with pytest.raises(InputError, match=r"fixed\[0\] has 1 labels"):
        fitted.predict([X[0] * 2], fixed=[["A"]])
    with pytest.raises(InputError, match="fixed: sequence 0, position 0: the label 'Z'"):
        fitted.predict([X[0]], fixed=[["Z"] * len(X[0])])
    with pytest.raises(InputError, match=r"forbid\[0\]"):
        fitted.predict(X, forbid=[("A", "Z")])
    with pytest.raises(NotFittedError):
        SequenceLabeler().predict(X)
    with pytest.raises(NotFittedError):
        SequenceLabeler().save("nowhere")
    dense = SequenceLabeler(tol=1e-2).fit(as_matrices(X), Y)
    with pytest.raises(InputError, match="7 features"):
        dense.predict([np.ones((2, 7))])


# -- files, pickles, scikit-learn ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "settings"),
    [
        (X, {}),
        (X, {"loss": "hinge", "tol": 1e-2}),
        (X, {"hash_size": 50}),
        (as_matrices(X), {"loss": Loss(2.0, 1.0), "cost": 1.0 - np.eye(3)}),
        (as_rows(X), {"template": "word[0]\nword[-1]|word[0]\npos[0]\n"}),
    ],
)
def test_a_loaded_model_is_the_saved_one(tmp_path: Path, data: list, settings: dict) -> None:
    model = SequenceLabeler(random_state=np.random.RandomState(0), **settings).fit(data, Y)
    model.save(tmp_path / "model")
    loaded = partwise.load(tmp_path / "model")
    assert isinstance(loaded, SequenceLabeler)
    assert loaded.predict(data) == model.predict(data)
    assert np.array_equal(loaded.coef_, model.coef_)
    assert loaded.classes_.tolist() == model.classes_.tolist()
    assert loaded.history_ == model.history_ and loaded.stop_reason_ == model.stop_reason_
    assert Loss.of(loaded.loss) == Loss.of(model.loss)
    assert loaded.top_features(5) == model.top_features(5)
    if not Loss.of(model.loss).is_hard:
        for ours, theirs in zip(*(m.predict_marginals_array(data) for m in (model, loaded)), strict=True):
            assert np.array_equal(ours, theirs)
    copy = pickle.loads(pickle.dumps(model))
    assert copy.predict(data) == model.predict(data) and not hasattr(copy, "_training")


def test_labels_that_json_cannot_hold_are_refused_when_saving(tmp_path: Path) -> None:
    model = SequenceLabeler(tol=1e-2).fit(X, [[(label, 1) for label in y] for y in Y])
    with pytest.raises(InputError, match="strings or numbers"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_grid_search_pipeline_clone_and_joblib() -> None:
    search = GridSearchCV(
        SequenceLabeler(tol=1e-2), {"l2": [0.1, 10.0], "loss": ["log", Loss(1.0, 1.0)]}, cv=2
    )
    search.fit(X, Y)
    assert search.best_score_ > 0.6
    pipeline = Pipeline([("strings", FunctionTransformer(as_strings)), ("chain", SequenceLabeler(tol=1e-2))])
    pipeline.fit(X, Y, chain__sample_weight=np.ones(len(X)))
    assert pipeline.score(X, Y) > 0.7
    copy = clone(pipeline.set_params(chain__l2=3.0))
    assert copy.get_params()["chain__l2"] == 3.0 and not hasattr(copy[-1], "classes_")
    predicted = joblib.Parallel(n_jobs=2, prefer="threads")(
        joblib.delayed(search.best_estimator_.predict)(X) for _ in range(4)
    )
    assert all(each == predicted[0] for each in predicted)


class TableLabeler(SequenceLabeler):
    """A table as scikit-learn's checks feed it: every row a sequence of one position."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags

    def fit(self, X, y=None, sample_weight=None):
        X, y = validate_data(self, X, y, dtype=np.float64)
        return super().fit([row[None] for row in X], [[label] for label in y], sample_weight)

    partial_fit = property()

    def predict(self, X):
        self._require_fitted()
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return np.array([labels[0] for labels in super().predict([row[None] for row in X])])

    def predict_proba(self, X):
        self._require_fitted()
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return np.array([own[0] for own in super().predict_proba([row[None] for row in X])])

    def score(self, X, y):
        return float(np.mean(self.predict(X) == np.asarray(y)))


_RAGGED = (
    "feeds a table of numbers, (n, d); X here is a list of sequences, each with its own number of positions"
)
_TABLES = """
    all_zero_sample_weights_error complex_data dict_unchanged dont_overwrite_parameters dtype_object
    estimator_sparse_array estimator_sparse_matrix estimator_sparse_tag estimators_dtypes
    estimators_empty_data_messages estimators_fit_returns_self estimators_nan_inf
    estimators_overwrite_params estimators_pickle estimators_partial_fit_n_features
    f_contiguous_array_estimator fit2d_1feature fit2d_1sample fit2d_predict1d fit_check_is_fitted
    fit_idempotent fit_score_takes_y methods_sample_order_invariance methods_subset_invariance
    n_features_in n_features_in_after_fitting pipeline_consistency positive_only_tag_during_fit
    readonly_memmap_input sample_weight_equivalence_on_dense_data
    sample_weight_equivalence_on_sparse_data sample_weights_list sample_weights_not_an_array
    sample_weights_not_overwritten sample_weights_pandas_series sample_weights_shape
"""
EXPECTED = {
    "SequenceLabeler": {f"check_{name}": _RAGGED for name in _TABLES.split()},
    "TableLabeler": {},
}


@parametrize_with_checks(
    [SequenceLabeler(), TableLabeler()], expected_failed_checks=lambda each: EXPECTED[type(each).__name__]
)
def test_scikit_learns_checks(estimator: object, check: object) -> None:
    check(estimator)  # type: ignore[operator]


def test_a_higher_order_tells_what_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    model = SequenceLabeler(template="pos", order=2, verbose=1, max_passes=1, tol=0.9)
    model.fit([["a", "b", "c"]], [["A", "B", "A"]])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("order 2 with 2 labels: a pass takes about 0.0 s") and lines[1].startswith(
        "memory:"
    )
    SequenceLabeler(template="pos", verbose=1, tol=0.9).fit([["a", "b"]], [["A", "B"]])
    assert "order" not in capsys.readouterr().out


# -- real data, and the price of importing -------------------------------------------------------------


@needs_shared
def test_chunking_from_raw_columns(tmp_path: Path) -> None:
    text = (SHARED / "conll2000" / "test.txt").read_text().split("\n\n")
    (tmp_path / "train.txt").write_text("\n\n".join(text[:400]))
    (tmp_path / "test.txt").write_text("\n\n".join(text[400:500]))
    train, test = read(tmp_path / "train.txt"), read(tmp_path / "test.txt")
    model = SequenceLabeler(template="chunking", l2=2.0).fit(train)
    assert model.converged_
    with pytest.warns(UserWarning, match="not in training"):
        labels = [["B-NOVELTY", *y[1:]] for y in test.label_sequences()]
        model.score(test, labels)
    assert token_accuracy_of(model, test) > 0.9
    rows = test.row_sequences()
    assert model.predict(rows) == model.predict(test)
    model.save(tmp_path / "model")
    assert partwise.load(tmp_path / "model").predict(test) == model.predict(test)
    dicts = [[{"word": word, "pos": pos} for word, pos in row] for row in train.row_sequences()]
    assert SequenceLabeler(tol=1e-2).fit(dicts, train.label_sequences()).converged_


def token_accuracy_of(model: SequenceLabeler, columns) -> float:
    pairs = zip(itertools.chain.from_iterable(model.predict(columns)), columns.labels, strict=True)
    return float(np.mean([a == b for a, b in pairs]))


def test_importing_partwise_loads_nothing_heavy() -> None:
    script = (
        "import sys; import partwise\n"
        "heavy = [m for m in ('numba', 'sklearn', 'scipy') if m in sys.modules]\n"
        "print(heavy, partwise.__version__)\n"
        "print(partwise.SequenceLabeler.__name__, partwise.Classifier.__name__, partwise.Loss(1, 0).name, "
        "partwise.load.__name__, partwise.simplex_qp.__name__, partwise.CRF.__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    first, second = done.stdout.splitlines()
    assert first == f"[] {partwise.__version__}"
    assert second == "SequenceLabeler Classifier log load simplex_qp CRF"
    with pytest.raises(AttributeError):
        partwise.nothing  # noqa: B018


def test_nothing_to_predict_with_a_template() -> None:
    model = SequenceLabeler(template="word[0]").fit(
        [[["a"], ["b"]], [["b"], ["a"]]], [["x", "y"], ["y", "x"]]
    )
    assert list(model.predict([])) == []
    assert [list(labels) for labels in model.predict([[], [["a"]]])] == [[], ["x"]]


def test_labels_that_columns_carry_stay_flat(monkeypatch):
    columns = parse_conll("the D\ndog N\n\ncats N\nsleep V\n\n")
    given = SequenceLabeler(template="pos").fit(columns, columns.label_sequences())
    monkeypatch.setattr(type(columns), "label_sequences", None)
    carried = SequenceLabeler(template="pos").fit(columns)
    assert carried.classes_.tolist() == given.classes_.tolist() and carried.objective_ == given.objective_
    with pytest.raises(InputError, match="3 labels for 4 tokens"):
        SequenceLabeler(template="pos").fit(replace(columns, labels=["D", "N", "V"]))
    with pytest.raises(InputError, match="without a label column"):
        SequenceLabeler(template="pos").fit(replace(columns, labels=None))
