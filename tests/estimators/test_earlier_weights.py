"""With `warm_start`, training goes on from the weights of a model that was loaded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from toy_sequences import X, Y, sequences

import partwise
from partwise import CRF, SequenceLabeler, read_crfsuite

WORDS = [["a", "b", "a", "c"], ["b", "c"], ["c", "a", "b"]] * 8
TAGS = [["x", "y", "x", "z"], ["y", "z"], ["z", "x", "x"]] * 8


def passes(model: SequenceLabeler, X: list, y: list) -> float:
    model.fit(X, y)
    assert model.converged_
    return model.n_passes_


def test_training_goes_on_from_a_model_of_crfsuite(tmp_path: Path) -> None:
    pycrfsuite = pytest.importorskip("pycrfsuite")
    trainer = pycrfsuite.Trainer("lbfgs", {"c2": 0.05, "feature.possible_transitions": 1}, verbose=False)
    for x, y in zip(X, Y, strict=True):
        trainer.append(x, y)
    trainer.train(str(tmp_path / "m"))
    cold = CRF(c2=0.05).fit(X, Y)
    warm = read_crfsuite(tmp_path / "m").set_params(c2=0.05, warm_start=True)
    start = warm.predict_marginals_array(X[:1])[0]
    assert passes(warm, X, Y) < 0.5 * cold.n_passes_
    assert warm.objective_ == pytest.approx(cold.objective_, rel=2e-3)
    assert warm.classes_.tolist() == sorted(warm.classes_.tolist()) and start.shape[1] == len(warm.classes_)
    # With mostly new data, a new attribute and a new label, the true labels are the better start.
    more_X, more_Y = sequences(60, seed=5)
    more_X[0][0], more_Y[0][0] = {"new": 1.0}, "new"
    warm = read_crfsuite(tmp_path / "m").set_params(c2=0.05, warm_start=True)
    afresh = CRF(c2=0.05).fit([*X, *more_X], [*Y, *more_Y])
    assert passes(warm, [*X, *more_X], [*Y, *more_Y]) <= afresh.n_passes_
    assert "new" in warm.classes_


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"solver": "lbfgs"},
        {"l1": 0.2, "solver": "lbfgs"},
        {"solver": "eg-gap"},
        {"loss": "softmax_margin"},
    ],
)
def test_training_goes_on_from_a_file_of_partwise(settings: dict, tmp_path: Path) -> None:
    cold = SequenceLabeler(l2=0.1, tol=1e-4, **settings).fit(X, Y)
    cold.save(tmp_path / "m")
    warm = partwise.load(tmp_path / "m").set_params(warm_start=True)
    assert passes(warm, X, Y) < 0.6 * cold.n_passes_
    assert warm.objective_ == pytest.approx(cold.objective_, rel=2e-4)


@pytest.mark.parametrize(
    "settings",
    [
        {"template": "word[0]\nedge: word[0]"},
        {"template": "word[-1..1]"},
        {"template": "word[-1..1]", "hash_size": 64},
        {"template": "word[0]", "order": 2},
    ],
)
def test_weights_of_all_kinds_are_found_again(settings: dict, tmp_path: Path) -> None:
    """The start is the model's own weights: training on the same data with the same settings ends at once."""
    model = SequenceLabeler(l2=0.1, tol=1e-3, solver="lbfgs", **settings).fit(WORDS, TAGS)
    model.save(tmp_path / "m")
    starts = []
    warm = partwise.load(tmp_path / "m").set_params(warm_start=True)
    find = warm._earlier_weights()
    problem, encoder = warm._problem_for(WORDS, TAGS)
    starts.append(find(problem, encoder, warm.classes_.tolist()))
    assert np.allclose(starts[0], model._training.weights, atol=1e-6)


def test_without_a_common_name_training_starts_anew(tmp_path: Path) -> None:
    SequenceLabeler(template="word[0]", l2=0.1).fit(WORDS, TAGS).save(tmp_path / "m")
    other = {"template": "word[0]", "order": 2, "l2": 0.1}
    warm = partwise.load(tmp_path / "m").set_params(warm_start=True, **other).fit(WORDS, TAGS)
    assert warm.n_passes_ == SequenceLabeler(**other).fit(WORDS, TAGS).n_passes_
