"""Guarantees by simulation: coverage of conformal sets, also in clusters and by type; risk of entities returned."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from test_entities import data, fitted

import partwise
from partwise import Classifier, InputError, SegmentLabeler, SequenceLabeler
from partwise.estimators.conformal import conformal_quantile
from partwise.estimators.risk import controlled


@pytest.mark.parametrize(("n", "coverage"), [(9, 0.9), (19, 0.9), (50, 0.8), (200, 0.95)])
def test_quantiles_cover_as_often_as_they_say(n: int, coverage: float) -> None:
    """Of uniform scores the coverage is the quantile itself: from `coverage` to 1 / (n + 1) more, on average."""
    random = np.random.default_rng(0)
    found = [min(conformal_quantile(random.random(n), np.arange(n), coverage), 1.0) for _ in range(4000)]
    error = 4 * np.sqrt(coverage * (1 - coverage) / (n + 1) / 4000)
    assert coverage - error <= np.mean(found) <= coverage + 1 / (n + 1) + error


def test_quantiles_of_clusters_cover_an_entity_of_a_new_sentence() -> None:
    """Scores of a sentence share a part, and long sentences are harder: pooled quantiles would not cover."""
    random = np.random.default_rng(1)

    def sentences(n: int) -> tuple[np.ndarray, np.ndarray]:
        sizes = random.choice([1, 12], n, p=[0.8, 0.2])
        example = np.repeat(np.arange(n), sizes)
        shared = random.random(n) + (sizes == 1)
        return shared[example] + 0.2 * random.random(len(example)), example

    covered, pooled = [], []
    for _ in range(600):
        score, example = sentences(40)
        new, of_new = sentences(200)
        weight = 1.0 / np.bincount(of_new)[of_new] / 200
        covered.append(weight @ (new <= conformal_quantile(score, example, 0.9)))
        pooled.append(weight @ (new <= conformal_quantile(score, np.arange(len(score)), 0.9)))
    error = 4 * np.std(covered) / np.sqrt(600)
    assert 0.9 - error <= np.mean(covered) <= 0.9 + 1 / 41 + error
    assert np.mean(pooled) < 0.85


@pytest.mark.parametrize("risk", [0.1, 0.25])
def test_risks_are_kept_as_often_as_they_say(risk: float) -> None:
    """Entities of a sentence are right or wrong together; those of probability p are right with p ** 1.3."""
    random, thresholds, n = np.random.default_rng(2), [], 1500
    draws = random.random(100_000) ** 0.3
    for _ in range(60):
        example = np.repeat(np.arange(n), random.integers(0, 4, n))
        p = (random.random(n) ** 0.3)[example]
        is_true = random.random(n)[example] < p**1.3
        try:
            thresholds.append(controlled(p, is_true, example, n, risk, 0.2).threshold)
        except InputError:
            thresholds.append(1.0)
    true_risk = np.array([1 - np.mean(draws[draws >= t] ** 1.3) if t < 1 else 0.0 for t in thresholds])
    broken = int((true_risk > risk).sum())
    assert broken <= 60 * 0.2 + 4 * np.sqrt(60 * 0.16)
    answered = np.array(thresholds) < 1.0
    assert answered.mean() > 3 * risk and true_risk[answered].mean() > 0.4 * risk


def test_more_than_a_few_entities_of_a_sentence_count_as_three() -> None:
    """One long sentence that is all wrong among many right ones is not enough to refuse a threshold."""
    example = np.concatenate([np.repeat(np.arange(300), 2), np.full(200, 300)])
    is_true = example < 300
    assert controlled(np.full(800, 0.995), is_true, example, 301, 0.1, 0.1).threshold < 0.99
    with pytest.raises(InputError, match="no threshold keeps the share of wrong entities below"):
        controlled(np.full(800, 0.995), is_true, example, 301, 0.001, 0.1)


# -- models -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sequences() -> dict[str, Any]:
    """A model, and more data from the same source."""
    X, y = data("IOB2", 900, 5)
    return {"model": fitted(), "segments": fitted(kind=SegmentLabeler, max_length=3), "X": X, "y": y}


def halves(found: dict[str, Any], n: int = 400) -> tuple[Any, ...]:
    return found["X"][:n], found["y"][:n], found["X"][n:], found["y"][n:]


SETS: list[dict[str, Any]] = [
    {"on": "entities"},
    {"on": "entities", "coverage": 0.8, "each": "sentence"},
    {"on": "entities", "coverage": 0.85, "by_type": True},
    {"on": "labellings", "coverage": 0.85},
]


@pytest.mark.parametrize("kind", ["model", "segments"])
@pytest.mark.parametrize("request_", SETS)
def test_sets_of_sequences(request_: dict[str, Any], kind: str, sequences: Any, tmp_path: Any) -> None:
    model, coverage = pickle.loads(pickle.dumps(sequences[kind])), request_.get("coverage", 0.9)
    X_cal, y_cal, X, y = halves(sequences)
    assert model.conformal(X_cal, y_cal, **request_) is model
    scores, sets = model.evaluate_sets(X, y), model.predict_sets(X)
    smallest = min([*model.conformal_.n_examples, 500])
    slack = 4 * np.sqrt(coverage * (1 - coverage) * (1 / smallest + 1 / 500))
    assert scores.coverage >= coverage - slack
    if request_.get("by_type"):
        assert set(scores.by_type) == {"LOC", "ORG", "PER"}
        assert all(value >= coverage - 2 * slack for value, _ in scores.by_type.values())
    assert np.mean([len(own) for own in sets]) == scores.mean_size > 0.0
    if request_["on"] == "labellings":
        truth = model._true_labellings(X, y)
        inside = [t in [labels for labels, _ in own] for t, own in zip(truth, sets, strict=True)]
        assert np.mean(inside) == pytest.approx(scores.coverage)
        assert [own[0][0] for own in sets] == list(model.predict(X))
    else:
        true = model._true_spans(X, y)
        table = {(i, e.first, e.last, e.type) for i, own in enumerate(sets) for e in own}
        names = model._entity_types()
        rows = zip(*(each.tolist() for each in true[:4]), strict=True)
        inside = np.array([(i, a, b, names[k]) in table for i, a, b, k in rows])
        by_sentence = [inside[true.example == i] for i in np.unique(true.example)]
        share = [own.all() if request_.get("each") == "sentence" else own.mean() for own in by_sentence]
        assert np.mean(share) == pytest.approx(scores.coverage)
    model.save(tmp_path / "m.pw")
    again = partwise.load(tmp_path / "m.pw")
    assert again.conformal_ == model.conformal_ and again.predict_sets(X[:20]) == sets[:20]
    assert model.fit(X_cal[:5], y_cal[:5]).conformal_ is None


def test_rare_types_share_a_group(sequences: Any) -> None:
    model, X_cal, y_cal = sequences["model"], *halves(sequences, 30)[:2]
    y_cal = [["O" if label.endswith("ORG") else label for label in own] for own in y_cal]
    y_cal[0][0] = "B-ORG"
    found = pickle.loads(pickle.dumps(model)).conformal(X_cal, y_cal, coverage=0.8, by_type=True).conformal_
    names = dict(zip(model._entity_types(), found.groups, strict=True))
    assert list(names.values()).count(names["ORG"]) == 2 and len(found.quantiles) == 2


def test_sets_of_classes() -> None:
    random = np.random.default_rng(0)
    y = random.choice(["a", "b", "c"], 1200, p=[0.6, 0.3, 0.1])
    X = np.eye(3)[np.searchsorted(["a", "b", "c"], y)] + 0.9 * random.normal(size=(1200, 3))
    model = Classifier().fit(X[:200], y[:200])
    for by_type in (False, True):
        model.conformal(X[200:700], y[200:700], coverage=0.9, by_type=by_type)
        scores, sets = model.evaluate_sets(X[700:], y[700:]), model.predict_sets(X[700:])
        inside = [t in dict(own) for t, own in zip(y[700:].tolist(), sets, strict=True)]
        assert np.mean(inside) == pytest.approx(scores.coverage) and min(map(len, sets)) >= (not by_type)
        assert scores.coverage >= 0.9 - 4 * np.sqrt(0.09 * (1 / 500 + 1 / 500))
    worst = min(value for value, _ in scores.by_type.values())
    assert worst >= 0.9 - 4 * np.sqrt(0.09 * (1 / 40 + 1 / 40)) and len(model.conformal_.quantiles) == 3


@pytest.mark.parametrize("kind", ["model", "segments"])
def test_entities_returned_at_a_risk(kind: str, sequences: Any, tmp_path: Any) -> None:
    model, (X_cal, y_cal, X, y) = pickle.loads(pickle.dumps(sequences[kind])), halves(sequences)
    model.control_risk(X_cal, y_cal, risk=0.3).control_risk(X_cal, y_cal, risk=0.4, delta=0.05)
    best, found = model.predict_entities(X), model.predict_entities(X, risk=0.3)
    least = model.risk_controls_[0.3].threshold
    assert found == [[e for e in own if e.probability >= least] for own in best] != best
    assert model.risk_controls_[0.4].threshold < least
    names, true = model._entity_types(), model._true_spans(X, y)
    truth = set(zip(true.example, true.first, true.last, [names[k] for k in true.kind], strict=True))
    right = [(i, *e[:3]) in truth for i, own in enumerate(found) for e in own]
    assert len(right) > 100 and 1 - np.mean(right) <= 0.3 + 4 * np.sqrt(0.21 / len(right))
    model.save(tmp_path / "m.pw")
    again = partwise.load(tmp_path / "m.pw")
    assert again.risk_controls_ == model.risk_controls_
    assert again.predict_entities(X[:20], risk=0.4) == model.predict_entities(X[:20], risk=0.4)
    assert not again.calibrate(X_cal, y_cal, on="entities").risk_controls_


def test_wrong_requests(sequences: Any) -> None:
    model, X, y = pickle.loads(pickle.dumps(sequences["model"])), sequences["X"][:40], sequences["y"][:40]
    requests: list[tuple[dict[str, Any], str]] = [
        ({"coverage": 1.0}, "coverage must be a number between 0 and 1"),
        ({"coverage": "high"}, "coverage must be"),
        ({"on": "classes"}, "on must be 'entities' or 'labellings'"),
        ({"on": "labellings", "by_type": True}, "a labelling has no type"),
        ({"each": "token"}, "each must be"),
        ({"on": "labellings", "k": 0}, "k must be"),
        ({"on": "labellings", "k": 1, "coverage": 0.95}, "out of reach: the k best labellings hold"),
        ({"coverage": 0.99}, "needs at least 99 calibration examples, there are"),
    ]
    for settings, words in requests:
        with pytest.raises(InputError, match=words):
            model.conformal(X, y, **settings)
    with pytest.raises(InputError, match="call conformal"):
        model.predict_sets(X)
    with pytest.raises(InputError, match="y has 39 sequences, but X has 40"):
        model.conformal(X, y[:-1])
    with pytest.raises(InputError, match="risk must be a number between"):
        model.control_risk(X, y, risk=2)
    with pytest.raises(InputError, match=r"risk=0.1: call control_risk.*none yet"):
        model.predict_entities(X, risk=0.1)
    with pytest.raises(InputError, match="no probabilities"):
        SequenceLabeler(loss="hinge", max_passes=5, tol=0.5).fit(X, y).conformal(X, y)


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({"conformal": {"on": "entities"}}, "conformal sets"),
        ({"conformal": 3}, "conformal sets"),
        ({"risks": [{"risk": "x"}]}, "risk control"),
        ({"risks": {"a": 1}}, "risk control"),
        ({"entity_map": {"p": [0, 1], "q": [0.5, 0.4]}}, "calibration of entities"),
        ({"entity_map": {"p": [0, "x"]}}, "calibration of entities"),
    ],
)
def test_damaged_records(record: dict[str, Any], words: str, sequences: Any) -> None:
    with pytest.raises(InputError, match=words):
        pickle.loads(pickle.dumps(sequences["model"]))._set_guarantees(record)
