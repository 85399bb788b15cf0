"""Calibration of entity probabilities: temperature and isotonic regression, scores by threshold."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from test_entities import data, fitted

import partwise
from partwise import InputError, SegmentLabeler
from partwise.estimators.isotonic import IsotonicMap


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    return {"model": fitted(), "segments": fitted(kind=SegmentLabeler, max_length=3)}


@pytest.mark.parametrize("kind", ["model", "segments"])
@pytest.mark.parametrize("method", ["temperature", "isotonic"])
def test_calibration_on_new_data(kind: str, method: str, models: Any, tmp_path: Any) -> None:
    model, (X, y), new = pickle.loads(pickle.dumps(models[kind])), data("IOB2", 400, 7), data("IOB2", 400, 8)
    model.temperature_ = 0.3  # far too sure
    before, best = model.entity_scores(*new), model.predict(new[0])
    assert model.calibrate(X, y, on="entities", method=method) is model
    after, found = model.entity_scores(*new), model.calibration_
    assert found.error_after < found.error_before
    if method == "temperature":
        assert found.log_score_after < found.log_score_before
    for of in ("predicted", "candidates"):
        assert after.reliability(of).expected_error < 0.6 * before.reliability(of).expected_error
    assert model.predict(new[0]) == best
    assert (model.temperature_ == 0.3) == (method == "isotonic") == (model.entity_map_ is not None)
    model.save(tmp_path / "m.pw")
    again = partwise.load(tmp_path / "m.pw")
    assert again.predict_entities(X[:30], 0.1) == model.predict_entities(X[:30], 0.1)
    if method == "isotonic":
        p = [e.probability for own in model.predict_entities(X, 0.1) for e in own]
        assert min(p) >= 0.1  # thresholds are of calibrated probabilities
        one = model.tagger().entities(X[0], 0.1)
        assert one == [pytest.approx(e) for e in model.predict_entities(X[:2], 0.1)[0]]
        model.fit(X[:5], y[:5])
        assert model.entity_map_ is None and model.temperature_ == 1.0


def test_scores_by_threshold(models: Any) -> None:
    X, y = data("IOB2", 200, 8)
    model, labels = models["model"], data("IOB2", 200, 8)[1]
    scores, true = model.entity_scores(X, labels), model._true_spans(X, y)
    assert scores.n_true == len(true.example)
    truth = set(zip(*(each.tolist() for each in true[:4]), strict=True))
    names = model._entity_types()
    for row in scores.by_threshold([0.05, 0.4, 0.6]):
        found = model.predict_entities(X, row.threshold)
        right = [(i, a, b, names.index(k)) in truth for i, own in enumerate(found) for a, b, k, _ in own]
        assert row.n_predicted == len(right) and row.precision == pytest.approx(np.mean(right))
        assert row.recall == pytest.approx(np.sum(right) / len(truth))
        assert row.f1 == pytest.approx(2 * np.sum(right) / (len(right) + len(truth)))
    assert scores.as_dict()["predicted"]["n_parts"] == sum(map(len, model.predict_entities(X)))
    assert scores.expected_error == scores.reliability().expected_error


def test_isotonic_regression() -> None:
    random = np.random.default_rng(0)
    p = random.random(4000)
    found = IsotonicMap.fit(p, random.random(4000) < p**2)
    grid = np.linspace(0.05, 0.95, 19)
    assert np.abs(found(grid) - grid**2).max() < 0.06 and (np.diff(found(np.linspace(0, 1, 200))) >= 0).all()
    for threshold in (0.1, 0.5, 0.8):
        least = found.least(threshold)
        assert found(np.array([least + 1e-9]))[0] >= threshold > found(np.array([least - 1e-6]))[0]
    assert found.least(1.1) > 1.0
    again = IsotonicMap.from_state(found.state())
    assert np.array_equal(again(grid), found(grid))
    pooled = IsotonicMap.fit(np.array([0.3, 0.6]), np.array([True, False]))(np.array([0.45]))
    assert pooled == pytest.approx((1 + 0.45) / 3)  # one of two, and one more as true as the model says


def test_wrong_requests(models: Any) -> None:
    model, (X, y) = pickle.loads(pickle.dumps(models["model"])), data("IOB2", 20, 7)
    for settings, words in (
        ({"on": "tokens"}, "on must be"),
        ({"method": "platt"}, "method must be"),
        ({"method": "isotonic"}, "method='isotonic' is for on='entities'"),
    ):
        with pytest.raises(InputError, match=words):
            model.calibrate(X, y, **settings)
    with pytest.raises(InputError, match="nothing to calibrate by"):
        model.calibrate(X, [["O"] * len(x) for x in X], on="entities")
    with pytest.raises(InputError, match="y must give a label at every position"):
        model.calibrate(X, [[None] * len(x) for x in X], on="entities")
    assert (
        model.temperature_ == 1.0 and "entity_map_" not in vars(model) and "calibration_" not in vars(model)
    )
