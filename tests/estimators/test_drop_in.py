"""A script written for sklearn_crfsuite.CRF runs after changing the import."""

from __future__ import annotations

import pickle
import warnings
from collections import Counter
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import make_scorer
from sklearn.model_selection import RandomizedSearchCV, cross_val_predict
from toy_sequences import X, Y, sequences

import partwise
from partwise import CRF, InputError, SequenceLabeler

SCRIPT = """
{imported}

crf = CRF(algorithm="lbfgs", c1=0.0, c2=0.1, max_iterations=100, all_possible_transitions=True)
crf.fit(X_train, y_train)
labels = list(crf.classes_)
labels.remove("A")
y_pred = crf.predict(X_test)
accuracy = crf.score(X_test, y_test)
marginals = crf.predict_marginals(X_test)
one, one_marginals = crf.predict_single(X_test[0]), crf.predict_marginals_single(X_test[0])
strongest = sorted(crf.state_features_.items(), key=lambda item: -item[1])[:5]
likely = sorted(crf.transition_features_.items(), key=lambda item: -item[1])[:5]
"""


def run(imported: str) -> dict:
    X_test, y_test = sequences(20, seed=1)
    names: dict = {"X_train": X, "y_train": Y, "X_test": X_test, "y_test": y_test}
    exec(SCRIPT.format(imported=imported), names)
    return names


def test_the_same_script_gives_the_same_answers() -> None:
    pytest.importorskip("sklearn_crfsuite")
    theirs = run("from sklearn_crfsuite import CRF")
    ours = run("from functools import partial\nfrom partwise import CRF\nCRF = partial(CRF, tol=1e-6)")
    assert ours["labels"] == sorted(theirs["labels"])
    best, other = (
        ours["crf"].predict_log_proba_of(ours["X_test"], [list(each) for each in side["y_pred"]])
        for side in (ours, theirs)
    )
    assert (other >= best - 0.15).all() and np.mean(
        other == best
    ) > 0.8  # both stop near the optimum, not at it
    assert ours["accuracy"] == pytest.approx(theirs["accuracy"], abs=0.03)
    assert ours["one"] == list(ours["y_pred"][0]) and ours["one_marginals"] == ours["marginals"][0]
    for p, q in zip(ours["marginals"], theirs["marginals"], strict=True):
        for a, b in zip(p, q, strict=True):
            assert a == pytest.approx(b, abs=0.06)
    assert ours["likely"][0][0] == theirs["likely"][0][0]
    assert {name for name, _ in ours["strongest"]} == {name for name, _ in theirs["strongest"]}


TUTORIAL = """
crf = crfsuite.CRF(algorithm="lbfgs", c1=0.1, c2=0.1, max_iterations=100, all_possible_transitions=True)
crf.fit(X_train, y_train)
labels = list(crf.classes_)
labels.remove("A")
y_pred = crf.predict(X_test)
f1 = metrics.flat_f1_score(y_test, y_pred, average="weighted", labels=labels)
sorted_labels = sorted(labels, key=lambda name: (name[1:], name[0]))
report = metrics.flat_classification_report(y_test, y_pred, labels=sorted_labels, digits=3)

crf = crfsuite.CRF(algorithm="lbfgs", max_iterations=100, all_possible_transitions=True)
params_space = {"c1": scipy.stats.expon(scale=0.5), "c2": scipy.stats.expon(scale=0.05)}
f1_scorer = make_scorer(metrics.flat_f1_score, average="weighted", labels=labels)
rs = RandomizedSearchCV(crf, params_space, cv=3, n_iter=3, scoring=f1_scorer, random_state=0)
rs.fit(X_train, y_train)
best, size = rs.best_params_, rs.best_estimator_.size_ / 1000000
crf = rs.best_estimator_
y_pred = crf.predict(X_test)
likely = Counter(crf.transition_features_).most_common(2)
features = Counter(crf.state_features_).most_common(3)
known, n_known = crf.attributes_, crf.num_attributes_
tagged, loss = crf.tagger_.tag(X_test[0]), crf.training_log_.last_iteration["loss"]
accuracies = scorers.flat_accuracy(crf, X_test, y_test), scorers.sequence_accuracy(crf, X_test, y_test)
parts = [
    metrics.flat_accuracy_score(y_test, y_pred),
    metrics.flat_precision_score(y_test, y_pred, average="macro"),
    metrics.flat_recall_score(y_test, y_pred, average="macro"),
    metrics.flat_fbeta_score(y_test, y_pred, beta=2, average="macro"),
    metrics.sequence_accuracy_score(y_test, y_pred),
]
"""


def test_the_tutorial_runs_with_the_import_changed() -> None:
    """Searches over c1 and c2, scorers, reports; the same objective where both were trained with the same."""
    theirs = pytest.importorskip("sklearn_crfsuite")
    import_module("sklearn_crfsuite.metrics"), import_module("sklearn_crfsuite.scorers")
    found = []
    for crfsuite in (partwise, theirs):
        X_test, y_test = sequences(20, seed=1)
        names = {
            "crfsuite": crfsuite, "metrics": crfsuite.metrics, "scorers": crfsuite.scorers, "scipy": scipy,
            "X_train": X, "y_train": Y, "X_test": X_test, "y_test": y_test, "make_scorer": make_scorer,
            "RandomizedSearchCV": RandomizedSearchCV, "Counter": Counter,
        }  # fmt: skip
        exec(TUTORIAL, names)
        found.append(names)
    ours, other = found
    assert ours["f1"] == pytest.approx(other["f1"], abs=0.05)
    assert ours["report"].split()[:5] == other["report"].split()[:5]
    assert ours["parts"] == pytest.approx(other["parts"], abs=0.08)
    assert ours["accuracies"] == pytest.approx(other["accuracies"], abs=0.08)
    assert ours["n_known"] == len(ours["known"]) and 0 < ours["size"] < 1
    assert ours["tagged"] == list(ours["y_pred"][0])
    if ours["best"] == other["best"]:
        assert ours["loss"] == pytest.approx(other["loss"], rel=2e-3)


def test_the_tagger_and_files_of_models(tmp_path: Path) -> None:
    crf = CRF(c1=0.1, c2=0.1, model_filename=str(tmp_path / "model")).fit(X, Y)
    tagger = crf.tagger_
    with pytest.raises(InputError, match="set"):
        tagger.probability(Y[0])
    tagger.set(X[0])
    assert tagger.tag() == list(crf.predict(X)[0]) and tagger.labels() == crf.classes_.tolist()
    assert tagger.marginal("A", 0) == crf.predict_marginals(X)[0][0]["A"]
    assert tagger.probability(Y[0]) == pytest.approx(np.exp(crf.predict_log_proba_of(X[:1], Y[:1])[0]))
    assert crf.modelfile.name == str(tmp_path / "model")
    assert (tmp_path / "model").stat().st_size == crf.size_
    loaded = partwise.load(tmp_path / "model")
    assert (loaded.l1, loaded.l2) == (0.1, 0.2)


def test_the_tagger_shows_all_weights() -> None:
    crf = CRF(c2=0.1).fit(X, Y)
    info = crf.tagger_.info()
    assert info.transitions == crf.transition_features_ and info.state_features == crf.state_features_
    assert list(info.labels) == crf.classes_.tolist() and list(info.attributes) == crf.attributes_
    assert info.header["num_attrs"] == str(crf.num_attributes_)


def test_training_that_stops_early_names_the_parameters_of_this_class() -> None:
    with pytest.warns(ConvergenceWarning, match="raise max_iterations, raise c2") as found:
        crf = CRF(c1=0.1, c2=0.001, max_iterations=1, tol=1e-9).fit(X, Y)
    assert "max_passes" not in crf.stop_reason_
    assert found[0].filename == __file__  # the line of the script, not one of this package


def test_without_c2_the_change_is_bounded() -> None:
    with pytest.warns(UserWarning, match=r"proved within [\d.]+% of its optimum"):
        crf = CRF(c1=1.0, c2=0.0, max_iterations=2000).fit(X, Y)
    assert crf.l2 == 0.01 and crf.converged_
    with pytest.warns(UserWarning, match="there may be no optimum"):
        CRF(c2=0.0, tol=0.1).fit(X, Y)


def test_searches_over_c2_and_cross_validation() -> None:
    crf = CRF(c2=0.1, tol=1e-2)
    search = RandomizedSearchCV(crf, {"c2": [0.01, 0.1, 1.0]}, n_iter=2, cv=2, random_state=0).fit(X, Y)
    assert search.best_params_["c2"] in (0.01, 0.1, 1.0)
    predicted = cross_val_predict(crf, X, Y, cv=2)
    assert [len(labels) for labels in predicted] == [len(labels) for labels in Y]
    assert clone(crf).get_params() == crf.get_params()


def test_c2_is_half_of_l2() -> None:
    crf = CRF(c2=0.5, tol=1e-4).fit(X, Y)
    assert crf.objective_ == pytest.approx(SequenceLabeler(l2=1.0, tol=1e-4).fit(X, Y).objective_, rel=1e-9)
    assert CRF().l2 == 2.0  # CRFsuite's own default is c2 = 1


def test_development_data_are_scored(capsys: pytest.CaptureFixture[str]) -> None:
    CRF(verbose=True).fit(X, Y, X_dev=X, y_dev=Y)
    assert "development accuracy 0." in capsys.readouterr().out


def test_what_cannot_be_translated_is_said() -> None:
    with pytest.raises(InputError, match="c1 must be a number >= 0"):
        CRF(c1=-0.1).fit(X, Y)
    with pytest.raises(InputError, match="algorithm must be"):
        CRF(algorithm="adam").fit(X, Y)
    with pytest.raises(InputError, match="c2 must be a number >= 0"):
        CRF(c2=-1.0).fit(X, Y)
    with pytest.warns(
        UserWarning,
        match="algorithm='ap' has no objective to optimise: a CRF is trained instead, with c1=0 and c2=1",
    ):
        CRF(algorithm="ap", num_memories=6).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CRF(c1=0, c2=1, min_freq=2, all_possible_states=True, all_possible_transitions=True).fit(X, Y)
    with pytest.warns(ConvergenceWarning):
        CRF(max_iterations=1, tol=1e-9).fit(X, Y)


def test_models_load_as_what_they_were(tmp_path: Path) -> None:
    crf = CRF(c1=0.1, c2=0.5, algorithm="lbfgs", min_freq=1, all_possible_states=True).fit(X, Y)
    crf.save(tmp_path / "model")
    loaded = partwise.load(tmp_path / "model")
    assert type(loaded) is CRF and loaded.get_params() == {**crf.get_params(), "verbose": 0}
    assert list(map(list, loaded.predict(X))) == list(map(list, crf.predict(X)))
    assert (loaded.attributes_, loaded.size_) == (crf.attributes_, crf.size_)
    assert loaded.training_log_.iterations == crf.training_log_.iterations
    assert loaded.tagger_.tag(X[0]) == list(crf.predict(X)[0])
    assert loaded.fit(X, Y).objective_ == crf.objective_


def test_the_tagger_is_one_object_until_the_next_fit(tmp_path: Path) -> None:
    crf = CRF(c2=0.5).fit(X, Y)
    crf.tagger_.set(X[0])
    assert 0 < crf.tagger_.probability(Y[0]) < 1
    before = crf.tagger_
    again = pickle.loads(pickle.dumps(crf))
    assert crf.fit(X, Y).tagger_ is not before
    with pytest.raises(InputError, match="set"):
        again.tagger_.probability(Y[0])
    crf.tagger_.dump(tmp_path / "dump")
    assert "STATE_FEATURES = {" in (tmp_path / "dump").read_text(encoding="utf-8")
