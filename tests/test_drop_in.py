"""A script written for sklearn_crfsuite.CRF runs after changing the import."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import RandomizedSearchCV, cross_val_predict
from test_sequence_labeler import X, Y, sequences

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
    theirs, ours = run("from sklearn_crfsuite import CRF"), run("from partwise import CRF")
    assert ours["labels"] == sorted(theirs["labels"])
    agreement = [
        a == b
        for p, q in zip(ours["y_pred"], theirs["y_pred"], strict=True)
        for a, b in zip(p, q, strict=True)
    ]
    assert np.mean(agreement) > 0.97
    assert ours["accuracy"] == pytest.approx(theirs["accuracy"], abs=0.03)
    assert ours["one"] == list(ours["y_pred"][0]) and ours["one_marginals"] == ours["marginals"][0]
    for p, q in zip(ours["marginals"], theirs["marginals"], strict=True):
        for a, b in zip(p, q, strict=True):
            assert a == pytest.approx(b, abs=0.06)
    assert ours["likely"][0][0] == theirs["likely"][0][0]
    assert {name for name, _ in ours["strongest"]} == {name for name, _ in theirs["strongest"]}


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
    with pytest.raises(InputError, match="no L1"):
        CRF(c1=0.1).fit(X, Y)
    with pytest.raises(InputError, match="algorithm must be"):
        CRF(algorithm="adam").fit(X, Y)
    with pytest.raises(InputError, match="c2 must be above 0"):
        CRF(c2=0.0).fit(X, Y)
    with pytest.warns(UserWarning, match="algorithm='ap', num_memories"):
        CRF(algorithm="ap", num_memories=6).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CRF(c1=0, c2=1, min_freq=2, all_possible_states=True, all_possible_transitions=True).fit(X, Y)
    with pytest.warns(ConvergenceWarning):
        CRF(max_iterations=1, tol=1e-9).fit(X, Y)


def test_models_save_as_sequence_labelers(tmp_path: Path) -> None:
    crf = CRF(c2=0.5).fit(X, Y)
    crf.save(tmp_path / "model")
    loaded = partwise.load(tmp_path / "model")
    assert type(loaded) is SequenceLabeler and loaded.l2 == 1.0
    assert loaded.predict(X) == list(crf.predict(X))
