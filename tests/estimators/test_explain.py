"""Explanations: contributions that add up exactly, and the shares of training sequences in a score."""

from __future__ import annotations

import json
import math
import pickle

import numpy as np
import pytest
from test_answers import FITTED
from toy_sequences import TEMPLATE, X, Y, as_matrices, as_rows

from partwise import InputError, SequenceLabeler

KINDS = {
    "dicts": (X, {}),
    "matrices": (as_matrices(X), {}),
    "template": (as_rows(X), {"template": TEMPLATE}),
    "order 2": (X, {"order": 2}),
    "hinge": (X, {"loss": "hinge", "tol": 1e-2}),
}


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> tuple[SequenceLabeler, list]:
    data, settings = KINDS[request.param]
    return SequenceLabeler(**{"tol": 1e-4, **settings}).fit(data, Y), data


def test_contributions_add_up_to_the_score_of_compiled_code(kind: tuple[SequenceLabeler, list]) -> None:
    model, data = kind
    for i in range(8):
        explanation = model.explain(data[i])
        [labels] = model.predict([data[i]])
        [query] = model._queries([data[i]])
        _, scores = query.best()
        assert explanation.labels == labels
        assert explanation.score == pytest.approx(float(scores[0]), abs=1e-9)
        assert explanation.score == math.fsum(each.contribution for each in explanation.contributions)
        assert all(each.contribution == each.weight * each.value for each in explanation.contributions)


def test_differences_to_the_runner_up(kind: tuple[SequenceLabeler, list]) -> None:
    model, data = kind
    x = next(x for x in data if len(x) > 2)
    difference = model.explain(x, against="runner-up")
    assert difference.against is not None and difference.against != difference.labels
    expected = model.explain(x).score - model.explain(x, difference.against).score
    assert difference.score == pytest.approx(expected, abs=1e-9) and difference.score >= 0
    given = model.explain(x, y=difference.against, against=difference.labels)
    assert given.score == pytest.approx(-difference.score, abs=1e-9)


def test_explanations_read_well_and_go_to_json(kind: tuple[SequenceLabeler, list]) -> None:
    model, data = kind
    explanation = model.explain(data[0], against="runner-up")
    text = str(explanation)
    assert text.startswith("score +") and "above" in text and "→" in text
    assert json.loads(json.dumps(explanation.as_dict()))["score"] == explanation.score
    sizes = [abs(each.contribution) for each in explanation.top(3)]
    assert sizes == sorted(sizes, reverse=True)


def test_largest_weights_and_transitions() -> None:
    model = SequenceLabeler(tol=1e-4).fit(X, Y)
    sizes = [abs(weight) for _, _, weight in model.top_features(3)]
    assert len(sizes) == 3 and sizes == sorted(sizes, reverse=True)
    for k, label in enumerate("ABC"):
        name, of, _ = max(model.top_features(99, label), key=lambda each: each[2])
        assert (name, of) == (f"w:{k}", label)
    assert [label for _, label, _ in model.top_features(2, label="B")] == ["B", "B"]
    assert {(a, b) for a, b, weight in model.top_transitions(9) if weight > 0} == {
        ("A", "B"),
        ("B", "C"),
        ("C", "A"),
    }
    assert len(model.state_features_) == np.count_nonzero(model.coef_) - 9
    with pytest.raises(InputError, match="'Z'"):
        model.top_features(label="Z")


@pytest.mark.parametrize(
    "settings",
    [
        {"solver": "eg"},
        {"solver": "lbfgs"},
        {"loss": "softmax_margin"},
        {"loss": "hinge"},
        {"loss": "hinge", "solver": "bcfw"},
    ],
    ids=str,
)
def test_shares_of_training_sequences_add_up_to_the_score(settings: dict) -> None:
    model = SequenceLabeler(tol=1e-7, **settings).fit([[], *X], [[], *Y])
    for x, y in ((X[0], None), (X[3], Y[3])):
        shares = model.influential_examples(x, y, n=None)
        assert len(shares) == len(X) and 0 not in {each.index for each in shares}
        total = math.fsum(each.contribution for each in shares)
        assert total == pytest.approx(model.explain(x, y).score, abs=0.02)
    largest = model.influential_examples(X[0], n=3)
    assert largest == model.influential_examples(X[0], n=None)[:3]


def test_shares_with_edge_attributes_and_weights() -> None:
    rows, weights = as_rows(X), np.linspace(0.5, 2.0, len(X))
    model = SequenceLabeler(template=TEMPLATE, tol=1e-7).fit(rows, Y, sample_weight=weights)
    total = math.fsum(each.contribution for each in model.influential_examples(rows[0], n=None))
    assert total == pytest.approx(model.explain(rows[0]).score, abs=0.02)


def test_a_sequence_taught_only_once_carries_itself() -> None:
    odd = [[{"w": "odd"}, {"w": "odder"}]]
    model = SequenceLabeler(tol=1e-5).fit(X + odd, [*Y, ["C", "B"]])
    assert model.influential_examples(odd[0], ["C", "B"], n=1)[0].index == len(X)


def test_what_cannot_be_explained_is_said() -> None:
    model = SequenceLabeler(tol=1e-2).fit(X, Y)
    with pytest.raises(InputError, match="dual state"):
        pickle.loads(pickle.dumps(model)).influential_examples(X[0])
    with pytest.raises(InputError, match="against must be"):
        model.explain(X[0], against="second")
    with pytest.raises(InputError, match="labels, but x has"):
        model.explain(X[0], ["A"] * 20)
    with pytest.raises(InputError, match="label at every position"):
        model.explain(X[0], [None] * len(X[0]))
    one = SequenceLabeler().fit([[{"a": 1.0}]], [["only"]])
    with pytest.raises(InputError, match="no other labelling"):
        one.explain([{"a": 1.0}], against="runner-up")


@pytest.mark.parametrize("name", [name for name, (model, _, _) in FITTED.items() if model._has_weights])
def test_every_linear_model_is_explained_by_the_same_walk(name: str) -> None:
    model, data, truth = FITTED[name]
    model.fit(data, truth)
    for x in data[:3]:
        whole = model.explain(x)
        terms = getattr(whole, "contributions", None) or whole.terms
        assert whole.score == math.fsum(term.contribution for term in terms)
        if name == "Classifier":
            best = model.coef_ @ x + model.intercept_
        else:
            [query] = model._queries([x])
            _, best = query.best()
        assert whole.score == pytest.approx(float(np.max(best)), abs=1e-6)
        if name == "ConstituencyParser":  # these sentences have one tree each
            with pytest.raises(InputError, match="no other tree"):
                model.explain(x, against="runner-up")
        else:
            lead = model.explain(x, against="runner-up")
            assert 0 <= lead.score == math.fsum(term.contribution for term in lead.contributions)
    sizes = [abs(weight) for _, _, weight in model.top_features(3)]
    assert sizes == sorted(sizes, reverse=True)
    with pytest.raises(InputError, match="was not in training"):
        model.top_features(label="no such label")
