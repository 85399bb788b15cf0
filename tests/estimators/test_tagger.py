"""Taggers: one example at a time gives what many give, in any number of threads, in memory that does not grow."""

from __future__ import annotations

import pickle
import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from partwise import CRF, InputError, SequenceLabeler
from partwise.core import one_example
from partwise.estimators import lookup
from partwise.features import one_sentence
from partwise.tasks import TASKS, task_class
from partwise.tasks.task import SmallProblem

PROBLEMS = {each.name: each for name in TASKS for each in task_class(name).small_problems()}
FIRST = [next(iter(task_class(name).small_problems())).name for name in TASKS]
KERNELS = ["kernel sequences", "kernel classes"]


def equal(a: Any, b: Any) -> bool:
    """Whether two answers are equal to the last bit."""
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    return np.array_equal(a, b) if isinstance(a, np.ndarray) else bool(a == b)


def numbers(answer: Any) -> list[float]:
    """The probabilities of an answer, in a list."""
    values = answer.values() if isinstance(answer, dict) else answer
    return [answer] if np.isscalar(answer) else [number for value in values for number in numbers(value)]


def fitted(problem: SmallProblem) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return problem.estimator(loss="log", max_passes=3, **problem.parameters).fit(problem.X, problem.y)


@pytest.mark.parametrize("name", [*FIRST, *(name for name in KERNELS if name in PROBLEMS)])
def test_every_task_answers_one_example_as_it_answers_many(name: str) -> None:
    model, X = fitted(PROBLEMS[name]), PROBLEMS[name].X
    tagger, best = model.tagger(), model.predict(X)
    p = getattr(model, "predict_marginals", None) or model.predict_proba
    assert all(equal(tagger.predict(x), expected) for x, expected in zip(X, best, strict=True))
    for x, expected in zip(X, p(X), strict=True):  # products of matrices round differently for one row
        assert numbers(tagger.probabilities(x)) == pytest.approx(numbers(expected), rel=1e-12)


# -- sequences ---------------------------------------------------------------------------------------

WORDS = ["the", "a", "dog", "cat", "barks", "sleeps", "on", "red"]
FORMS = {
    "dicts": lambda w: {"w": w, "suffix": w[-2:], "long": len(w) > 3, "bias": 1.0},
    "names": lambda w: [f"w={w}", f"suffix={w[-2:]}", "bias"],
    "numbers": lambda w: {"w": w, "letters": len(w) / 3, "half": 0.5, "none": 0},
    "groups": lambda w: {"w": w, "letters": list(w), "inner": {"first": w[0]}},
    "twice": lambda w: [f"w={w}", "bias", "bias"],
    "numbers twice": lambda w: {"a:b": 0.5, "a": "b", "w": w},
    "one key a name": lambda w: {f"w={w}": 1.0, "bias": True},
}  # fmt: skip
TEMPLATES = {
    "words": "word[-1]\nword[0]\nword[1]\nword[-1]|word[0]\nbias\nbegin\nend\n",
    "functions": "columns: word tag\nlower(word[0])\nsuffix(word[0], 1..3)\nshape(word[0])\ntag[-2]\ntag[2]\n",
    "symbols": "columns: word tag\nboundary: symbol\nword[-2..2]\n",
    "edges": "columns: word tag\nword[0]\nedge: tag[0]\nedge: tag[-1]|tag[0]\n",
    "bag": "U:%x[-1,0]\nU:%x[0,0]\nU:%x[1,0]\nB\n",
    "bias": "bias\n",
}


def sentences(n: int = 40, seed: int = 0) -> tuple[list[list[str]], list[list[str]]]:
    """Random words, and labels that depend on them."""
    random = np.random.default_rng(seed)
    X = [[WORDS[k] for k in random.integers(len(WORDS), size=random.integers(1, 9))] for _ in range(n)]
    return X, [["N" if w in ("dog", "cat") else "V" if w.endswith("s") else "O" for w in x] for x in X]


def check_equal(model: Any, X: list[Any]) -> None:
    """A tagger gives what the model gives for all sequences together."""
    tagger = model.tagger()
    labels, arrays = model.predict(X), model.predict_marginals_array(X)
    assert [tagger.tag(x) for x in X] == labels == [tagger.predict(x) for x in X]
    assert all(equal(tagger.marginals_array(x), array) for x, array in zip(X, arrays, strict=True))
    assert [tagger.marginals(x) for x in X[:5]] == model.predict_marginals(X[:5])


@pytest.mark.parametrize("form", FORMS)
def test_sequences_of_features(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words, y = sentences()
    X = [list(map(FORMS[form], x)) for x in words]
    model = SequenceLabeler(max_passes=20, tol=0.5).fit(X[:30], y[:30])
    check_equal(model, [*X, [], (*X[0],), list(map(FORMS[form], ["unknown", "words"]))])
    monkeypatch.setattr(lookup, "_MOST_REMEMBERED", 5)
    monkeypatch.setattr(lookup, "_MOST_PLANS", 1)
    check_equal(pickle.loads(pickle.dumps(model)), X)


@pytest.mark.parametrize("template", TEMPLATES)
def test_sequences_of_words(template: str) -> None:
    words, y = sentences()
    X: list[Any] = [[(word, word[:1]) for word in x] for x in words] if template != "words" else words
    model = SequenceLabeler(template=TEMPLATES[template], max_passes=20, tol=0.5).fit(X[:30], y[:30])
    assert model._encoder.codes(X[0])  # otherwise it would be read by the code for many
    unknown = [("unknown", "?")] * 3 if template != "words" else ["unknown", "words"]
    check_equal(model, [*X, [], unknown])


@pytest.mark.parametrize(
    "parameters",
    [{"order": 2}, {"scheme": "IOB2"}, {"hash_size": 50}, {"pairs": "all"}, {"transitions": "observed"}],
)
def test_models_of_all_kinds(parameters: dict[str, Any]) -> None:
    words, y = sentences()
    X = [list(map(FORMS["dicts"], x)) for x in words]
    y = [["B-N" if label == "N" else "O" for label in labels] for labels in y]
    check_equal(SequenceLabeler(max_passes=20, tol=0.5, **parameters).fit(X, y), X)


def test_many_attributes_that_are_named_again() -> None:
    """More names in a token than a mask of 64 bits tells apart, some of them twice."""
    random = np.random.default_rng(3)
    draw = (random.integers(150, size=random.integers(120)).tolist() for _ in range(60))
    X = [[[f"a{k}" for k in next(draw)] for _ in range(4)] for _ in range(15)]
    y = [[str(len(token) % 3) for token in x] for x in X]
    model = SequenceLabeler(tol=0.1).fit(X, y)
    check_equal(model, X)
    counted = [[{name: float(token.count(name)) for name in token} for token in x] for x in X]
    assert [model.tagger().tag(x) for x in counted] == model.predict(X)


@pytest.mark.parametrize("limit", [0, float("inf")])
def test_answers_do_not_depend_on_who_holds_the_lock(limit: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """All calls are long, or none is."""
    monkeypatch.setattr(one_example, "_LONG", limit)
    monkeypatch.setattr(one_sentence, "_LONG", limit)
    X, y = sentences()
    check_equal(SequenceLabeler(template=TEMPLATES["words"], tol=0.5).fit(X, y), X)


def test_long_sequences_are_answered_by_the_code_for_many(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = sentences(4)
    model = SequenceLabeler(template=TEMPLATES["words"]).fit(X, y)
    monkeypatch.setattr(one_example, "_LONGEST", 5)
    monkeypatch.setattr(one_example, "_MOST_FRAMES", 2)
    words = [word for x in X for word in x]
    check_equal(model, [words[:n] for n in (5, 6, 1, 2, 3, 4, 5)])


def test_probabilities_and_k_best_of_labels() -> None:
    X, y = sentences(5)
    model = SequenceLabeler(template=TEMPLATES["words"]).fit(X, y)
    tagger = model.tagger()
    assert tagger.labels == ["N", "O", "V"]
    best = tagger.kbest(X[0], 2)
    assert best == model.predict_kbest(X[:1], 2)[0]
    assert tagger.probability(X[0], best[0][0]) == pytest.approx(best[0][1], rel=1e-12)


def test_a_later_fit_does_not_change_a_tagger() -> None:
    X, y = sentences(10)
    model = SequenceLabeler(template=TEMPLATES["words"]).fit(X, y)
    tagger, before = model.tagger(), model.predict(X)
    model.fit(X, [["X"] * len(labels) for labels in y])
    assert [tagger.tag(x) for x in X] == before != model.predict(X)
    assert model.predict(X[:1]) == [["X"] * len(X[0])]


class Shouting(SequenceLabeler):
    """Reads words in capitals."""

    _task = None

    def _source(self, X: Any) -> Any:
        return [[word.upper() for word in x] for x in super()._source(X)]


def test_a_class_that_reads_in_its_own_way_is_asked() -> None:
    X, y = sentences(20)
    upper = [[word.upper() for word in x] for x in X]
    plain = SequenceLabeler(template=TEMPLATES["words"]).fit(upper, y)
    shouting = Shouting(template=TEMPLATES["words"]).fit(upper, y)
    assert [shouting.tagger().tag(x) for x in X] == plain.predict(upper) != plain.predict(X)


def test_drop_in_class_has_a_tagger() -> None:
    words, y = sentences(10)
    X = [list(map(FORMS["dicts"], x)) for x in words]
    crf = CRF(c2=0.1).fit(X, y)
    assert [crf.tagger().tag(x) for x in X] == crf.predict(X).tolist()


# -- services ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["dicts", "names", "words"])
def test_threads_share_a_tagger(form: str) -> None:
    words, y = sentences(60)
    X = words if form == "words" else [list(map(FORMS[form], x)) for x in words]
    template = TEMPLATES["words"] if form == "words" else None
    tagger = SequenceLabeler(template=template, max_passes=5, tol=0.5).fit(X, y).tagger()
    expected = [(tagger.tag(x), tagger.marginals(x)) for x in X]

    def answers(_: int) -> list[Any]:
        return [(tagger.tag(x), tagger.marginals(x)) for x in X]

    with ThreadPoolExecutor(8) as pool:
        assert all(found == expected for found in pool.map(answers, range(24)))


def test_memory_does_not_grow() -> None:
    words, y = sentences(60)
    tagger = SequenceLabeler(template=TEMPLATES["words"]).fit(words, y).tagger()
    features = SequenceLabeler().fit([list(map(FORMS["numbers"], x)) for x in words], y).tagger()

    def calls(n: int) -> None:
        for k in range(n):
            x = words[k % len(words)]
            tagger.tag(x)
            features.marginals_array([FORMS["numbers"](word) | {"new": k + 0.5} for word in x])

    calls(200)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        calls(10_000)
        assert tracemalloc.get_traced_memory()[0] - before < 20_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("x", "why"),
    [
        ([{"w": float("nan")}], "must be finite"),
        ([{"w": 1e300}], "at most"),
        ([{"w": object()}], "neither a number nor strings"),
        ([{3: "x"}, 7], "cannot read the token 7"),
        (["word"], "a token is a string"),
        ([["w=the", 3]], "3 is not a string"),
        (7, "must be a sequence"),
        ([{"v": 3e38, "u": 1}, {"v": 3e38, "u": {"": 1}} | {"v:": 1}, ["v"] * 3, {"v": 1e39}], "at most"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(x: Any, why: str) -> None:
    words, y = sentences(5)
    tagger = SequenceLabeler().fit([list(map(FORMS["dicts"], x)) for x in words], y).tagger()
    for answer in (tagger.tag, tagger.marginals):
        with pytest.raises(InputError, match=why) as caught:
            answer(x)
        assert "\n" not in str(caught.value)


def test_rows_of_words_that_are_wrong() -> None:
    X = [[("the", "D"), ("dog", "N")]] * 3
    tagger = SequenceLabeler(template=TEMPLATES["functions"]).fit(X, [["a", "b"]] * 3).tagger()
    for x, why in (([("the", "D"), ("dog",)], "as many as"), ([("the", 3)], "3"), ([("the",)], "1 columns")):
        with pytest.raises(InputError, match=why):
            tagger.tag(x)


def test_a_tagger_needs_a_fitted_model_and_a_loss_with_probabilities() -> None:
    with pytest.raises(Exception, match="not fitted"):
        SequenceLabeler().tagger()
    X, y = sentences(3)
    tagger = SequenceLabeler("hinge", template=TEMPLATES["words"]).fit(X, y).tagger()
    assert len(tagger.tag(X[0])) == len(X[0])
    for answer in (tagger.marginals, tagger.probabilities, tagger.marginals_array):
        with pytest.raises(InputError, match="no probabilities"):
            answer(X[0])
