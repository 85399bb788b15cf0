"""Entities of sequence and segment models: probabilities against all labellings, decoding, taggers, wrong requests."""

from __future__ import annotations

import pickle
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest

import partwise
from partwise import CRF, InputError, KernelSequenceLabeler, SegmentLabeler, SequenceLabeler
from partwise.estimators.expected_f1 import best_spans
from partwise.metrics import chunk_scores, chunks
from partwise.structures.span_table import SpanTable

WORDS = ["Ada", "Bo", "in", "Oslo", "at", "Acme", "Inc", "saw"]
KINDS = {"Ada": "PER", "Bo": "PER", "Oslo": "LOC", "Acme": "ORG", "Inc": "ORG"}
SCHEMES = ("IOB2", "IOB1", "IOBES", "BILOU", "plain")
PREFIXES = {"IOB2": "BIIB", "IOBES": "BIES", "BILOU": "BILU", "IOB1": "IIII"}


def sentences(n: int = 60, seed: int = 0, longest: int = 5) -> list[list[str]]:
    random = np.random.default_rng(seed)
    return [
        [WORDS[k] for k in random.integers(len(WORDS), size=random.integers(1, longest + 1))]
        for _ in range(n)
    ]


def labels_of(words: list[str], scheme: str = "IOB2", noise: Any = None) -> list[str]:
    """Neighbouring words of one type are one entity."""
    kinds = [KINDS.get(word, "O") for word in words]
    if noise is not None:
        kinds = [kind if noise.random() < 0.8 else str(noise.choice(["O", "PER", "LOC"])) for kind in kinds]
    if scheme == "plain":
        return kinds
    found = []
    for t, kind in enumerate(kinds):
        starts, ends = t == 0 or kinds[t - 1] != kind, t + 1 == len(kinds) or kinds[t + 1] != kind
        place = 3 if starts and ends else 0 if starts else 2 if ends else 1
        found.append("O" if kind == "O" else f"{PREFIXES[scheme][place]}-{kind}")
    return found


def data(scheme: str = "IOB2", n: int = 60, seed: int = 0) -> tuple[list[list[list[str]]], list[list[str]]]:
    random, X = np.random.default_rng(seed + 1), sentences(n, seed)
    y = [labels_of(x, scheme, random) for x in X]
    return [[[f"w={word}"] for word in x] for x in X], y


def fitted(scheme: str = "IOB2", kind: Any = SequenceLabeler, **parameters: Any) -> Any:
    X, y = data(scheme)
    return kind(max_passes=30, tol=1e-2, **parameters).fit(X, y)


def entities_of(labels: list[str], scheme: str) -> list[tuple[int, int, str]]:
    if scheme != "plain":
        return [(first, end - 1, kind) for kind, first, end in chunks(labels)]
    return entities_of([f"I-{label}" if label != "O" else "O" for label in labels], "IOB1")


def from_all_labellings(model: Any, x: Any, scheme: str) -> dict[Any, float]:
    """Probability of every entity, from the list of all labellings."""
    found: dict[Any, float] = {}
    for labels, p in model.predict_kbest([x], k=100_000)[0]:
        for entity in entities_of(labels, scheme) if scheme != "segments" else labels:
            found[entity] = found.get(entity, 0.0) + p
    return found


MODELS = {
    **{scheme: (scheme, SequenceLabeler, {}) for scheme in SCHEMES},
    "masks": ("IOBES", SequenceLabeler, {"scheme": "IOBES"}),
    "order 2": ("IOB2", SequenceLabeler, {"order": 2}),
    "CRF": ("IOB2", CRF, {}),
    "segments": ("segments", SegmentLabeler, {"max_length": 3}),
}


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    made = {}
    for name, (scheme, kind, parameters) in MODELS.items():
        X, y = data("IOB2" if scheme == "segments" else scheme)
        settings = {"max_iterations": 30} if kind is CRF else {"max_passes": 30}
        made[name] = kind(tol=1e-2, **settings, **parameters).fit(X, y)
    return made


def short(n: int = 12) -> list[Any]:
    return [[[f"w={word}"] for word in x] for x in sentences(n, 9, 3)]


@pytest.mark.parametrize("name", MODELS)
def test_probabilities_agree_with_all_labellings(name: str, models: Any) -> None:
    model, scheme, X = models[name], MODELS[name][0], short()
    every, counts = model.predict_entities(X, threshold=1e-9), model.predict_entity_counts(X)
    best, probable = model.predict_entities(X), model.predict_entities(X, threshold=0.2)
    for i, (x, labels) in enumerate(zip(X, model.predict(X), strict=True)):
        expected = from_all_labellings(model, x, scheme)
        assert {each[:3]: pytest.approx(each.probability, abs=1e-7) for each in every[i]} == {
            span: p for span, p in expected.items() if p >= 1e-9
        }
        assert [each[:3] for each in probable[i]] == sorted(s for s, p in expected.items() if p >= 0.2)
        wanted = labels if scheme == "segments" else entities_of(list(labels), scheme)
        assert [each[:3] for each in best[i]] == list(wanted)
        assert [each.probability for each in best[i]] == pytest.approx(
            [expected[s] for s in wanted], abs=1e-7
        )
        for kind, count in counts[i].items():
            assert count == pytest.approx(sum(p for s, p in expected.items() if s[2] == kind), abs=1e-7)


@pytest.mark.parametrize("name", MODELS)
def test_taggers_copies_and_files_give_the_same(name: str, models: Any, tmp_path: Any) -> None:
    model, X = models[name], short()
    expected = model.predict_entities(X, threshold=0.1)
    tagger = model.tagger()
    for x, own, best in zip(X, expected, model.predict_entities(X), strict=True):
        for found, wanted in ((tagger.entities(x, 0.1), own), (tagger.entities(x), best)):
            assert [each[:3] for each in found] == [each[:3] for each in wanted]
            assert [e.probability for e in found] == pytest.approx([e.probability for e in wanted], rel=1e-9)
    model.save(tmp_path / "m.pw")
    assert partwise.load(tmp_path / "m.pw").predict_entities(X, threshold=0.1) == expected
    assert pickle.loads(pickle.dumps(model)).predict_entities(X, threshold=0.1) == expected


def test_kernel_models_have_entities() -> None:
    X = [np.eye(3)[[0, 1, 2]], np.eye(3)[[2, 2]]] * 5
    model = KernelSequenceLabeler(loss="log", l2=0.1).fit(X, [["B-A", "I-A", "O"], ["O", "O"]] * 5)
    [[entity], []] = model.predict_entities(X[:2])
    assert entity[:3] == (0, 1, "A") and 0.5 < entity.probability < 1.0


def test_temperature_and_constraints_count(models: Any) -> None:
    model, X = pickle.loads(pickle.dumps(models["IOB2"])), short()
    fixed = [["B-LOC", *[None] * (len(x) - 1)] for x in X]
    for own in model.predict_entities(X, 0.01, fixed=fixed):
        assert sum(each.probability for each in own if each.first == 0) == pytest.approx(1.0, abs=0.02)
        assert all(each.type == "LOC" for each in own if each.first == 0)
    model.temperature_ = 50.0
    flat = model.predict_entities(X)
    assert max(each.probability for own in flat for each in own) < 0.4


def test_sequences_in_pieces_and_without_positions(models: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model, X = models["IOB2"], [[], *short(), []]
    expected, best = model.predict_entities(X, 0.05), model.predict(X, decode="mbr")
    assert expected[0] == expected[-1] == [] == best[0]
    monkeypatch.setattr("partwise.tasks.sequences.entities._MOST_PAIRS", 200)
    for a, b in zip(model.predict_entities(X, 0.05), expected, strict=True):
        assert [each[:3] for each in a] == [each[:3] for each in b]
    assert model.predict(X, decode="mbr") == best
    assert model.predict_entities([]) == [] == model.predict_entity_counts([])


# -- decoding for a goal ------------------------------------------------------------------------------


def test_best_spans_maximise_the_ratio() -> None:
    random = np.random.default_rng(0)
    for _ in range(60):
        n = int(random.integers(1, 9))
        example, first = np.sort(random.integers(0, 2, n)), random.integers(0, 5, n)
        last, kind = first + random.integers(0, 3, n), random.integers(0, 2, n)
        spans = SpanTable.of(example, first, last, kind, random.random(n))
        expected, follow = float(random.random() * 4), random.random((2, 2)) < 0.7
        ratios = {(): 0.0}
        for size in range(1, n + 1):
            for chosen in combinations(range(n), size):
                own = sorted((spans.example[k], spans.first[k], spans.last[k], spans.kind[k]) for k in chosen)
                pairs = [(a, b) for a, b in pairwise(own) if a[0] == b[0]]
                if all(b[1] > a[2] + 1 or (b[1] == a[2] + 1 and follow[a[3], b[3]]) for a, b in pairs):
                    ratios[chosen] = 2 * spans.probability[list(chosen)].sum() / (size + expected)
        found = np.flatnonzero(best_spans(spans, expected, follow)).tolist()
        assert ratios[tuple(found)] == pytest.approx(max(ratios.values()), rel=1e-12)


@pytest.mark.parametrize("name", ["IOB2", "IOB1", "IOBES", "BILOU", "plain", "masks", "order 2", "CRF"])
def test_labels_of_the_best_expected_f1(name: str, models: Any) -> None:
    model, X = models[name], [[[f"w={word}"] for word in x] for x in sentences(80, 3)]
    labels, entities = model.predict(X, decode="mbr"), model.predict_entities(X, decode="mbr")
    for own, wanted in zip(labels, entities, strict=True):
        assert entities_of(own, MODELS[name][0]) == [each[:3] for each in wanted]
    assert any(a != b for a, b in zip(labels, model.predict(X), strict=True))


def test_decoding_does_what_it_is_for(models: Any) -> None:
    """On the model's own distribution, each way is at least as good as the others at its goal."""
    model, X = models["IOB2"], [[[f"w={word}"] for word in x] for x in sentences(150, 4)]
    drawn = model.sample(X, 25, random_state=0)
    f1, accuracy = {}, {}
    for decode in ("viterbi", "marginal", "mbr"):
        found = model.predict(X, decode=decode)
        truths = [[own[k] for own in drawn] for k in range(25)]
        scores = [chunk_scores(true, found) for true in truths]
        f1[decode] = np.mean([each.f1 for each in scores])
        accuracy[decode] = np.mean([each.accuracy for each in scores])
    assert max(f1, key=f1.__getitem__) == "mbr" and max(accuracy, key=accuracy.__getitem__) == "marginal"
    found = model.predict_entities(X, decode="marginal")
    assert [[e[:3] for e in own] for own in found] == [
        entities_of(y, "IOB2") for y in model.predict(X, decode="marginal")
    ]


# -- wrong requests -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"threshold": 0.0}, "threshold must be a probability above 0"),
        ({"threshold": 1.5}, "threshold must be a probability"),
        ({"threshold": "high"}, "threshold must be a probability"),
        ({"threshold": float("nan")}, "threshold must be a probability"),
        ({"decode": "beam"}, "decode must be 'viterbi' or 'marginal' or 'mbr'"),
        ({"decode": "mbr", "threshold": 0.5}, "leave one out"),
        ({"fixed": [["O"]]}, "fixed has 1 sequences, but X has 12"),
    ],
)
def test_wrong_requests(request_: dict[str, Any], words: str, models: Any) -> None:
    with pytest.raises(InputError, match=words):
        models["IOB2"].predict_entities(short(), **request_)


def test_models_without_entities_or_probabilities() -> None:
    X = short()
    hard = SequenceLabeler(loss="hinge", max_passes=5, tol=0.5).fit(*data())
    with pytest.raises(InputError, match="no probabilities"):
        hard.predict_entities(X)
    tags = [["N" if word[0][2].isupper() else "V" for word in x] for x in X]
    with pytest.raises(InputError, match="mark no entities"):
        SequenceLabeler(max_passes=5, tol=0.5).fit(X, tags).predict_entities(X)
    segments = SegmentLabeler(max_length=3, max_passes=5, tol=0.5).fit(*data())
    with pytest.raises(InputError, match="use 'viterbi' or 'mbr'"):
        segments.predict_entities(X, decode="marginal")
    with pytest.raises(Exception, match="not fitted"):
        SequenceLabeler().predict_entities(X)
