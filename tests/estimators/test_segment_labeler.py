"""`SegmentLabeler`: input forms, predictions, explanations, files, features of segments, the command line."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest
from commands import run  # noqa: F401

import partwise
from partwise import InputError, SegmentLabeler
from partwise.cli import main
from partwise.data.conll import parse_conll
from partwise.features.segments import (
    PRESETS,
    SEGMENTS,
    SegmentFeatures,
    Spans,
    all_spans,
    read_segment_template,
)
from partwise.features.templates import parse_text
from partwise.solvers.memory import memory_estimate
from partwise.storage.model_file import estimator_from
from partwise.structures import SemiMarkov
from partwise.tasks.segments.data import iob2

WORDS = ["in", "New", "York", "Paris", "she", "saw", "the", "San", "Jose", "Mercury"]
X = [
    [("in", "P"), ("New", "N"), ("York", "N")],
    [("she", "R"), ("saw", "V"), ("Paris", "N")],
    [("the", "D"), ("San", "N"), ("Jose", "N"), ("Mercury", "N"), ("saw", "V"), ("New", "N"), ("York", "N")],
    [("New", "N"), ("she", "R")],
    [("Paris", "N")],
] * 2
Y = [[(1, 2, "LOC")], [(2, 2, "LOC")], [(1, 3, "ORG"), (5, 6, "LOC")], [], [(0, 0, "LOC")]] * 2
TEMPLATE = "word[-1..1]\npos[0]\n"


@pytest.fixture(scope="module")
def model() -> SegmentLabeler:
    return SegmentLabeler(template=TEMPLATE, l2=0.1, tol=1e-6).fit(X, Y)


@pytest.fixture(scope="module")
def hinge() -> SegmentLabeler:
    return SegmentLabeler("hinge", template=TEMPLATE, l2=0.1, max_length=2).fit(X, Y)


def test_all_forms_of_segments_give_the_same_model(model: SegmentLabeler) -> None:
    labels = [iob2(segments, len(x)) for x, segments in zip(X, Y, strict=True)]
    assert labels[2] == ["O", "B-ORG", "I-ORG", "I-ORG", "O", "B-LOC", "I-LOC"]
    iobes = [["O", "B-LOC", "E-LOC"], ["O", "O", "S-LOC"]]
    text = "".join(
        "".join(f"{word} {tag} {label}\n" for (word, tag), label in zip(x, own, strict=True)) + "\n"
        for x, own in zip(X, iobes + labels[2:], strict=True)
    )
    for given in ((X, labels), (X, [np.array(Y[0], object), *Y[1:]]), (parse_conll(text),)):
        again = SegmentLabeler(template=TEMPLATE, l2=0.1, tol=1e-6).fit(*given)
        np.testing.assert_array_equal(again.coef_, model.coef_)
        assert again.classes_.tolist() == ["O", "LOC", "ORG"]
    assert model.predict(X) == Y and model.predict_labels(X) == labels
    assert model.score(X, Y) == model.score(X, labels) == 1.0
    assert model.score(X[:3], [[], [(2, 2, "LOC")], [(1, 3, "LOC"), (5, 6, "LOC")]]) == pytest.approx(4 / 7)


def test_probabilities_are_those_of_all_segmentations(model: SegmentLabeler) -> None:
    x = X[0]
    ranked = model.predict_kbest([x], k=1000)[0]
    assert len(ranked) == round(np.exp(model._chain.log_count(3)))
    assert sum(p for _, p in ranked) == pytest.approx(1.0, abs=1e-12)
    [found] = model.predict_marginals([x], threshold=0.0)
    assert list(found.values()) == sorted(found.values(), reverse=True)
    for segment, p in found.items():
        assert p == pytest.approx(sum(q for segments, q in ranked if segment in segments), abs=1e-12)
    [positions] = model.predict_position_marginals_array([x])
    np.testing.assert_allclose(positions.sum(axis=1), 1.0, atol=1e-12)
    names = model.position_labels()
    for t, row in enumerate(positions):
        for name, p in zip(names, row, strict=True):
            assert p == pytest.approx(sum(q for each, q in ranked if iob2(each, 3)[t] == name), abs=1e-12)
    drawn = model.sample([x], 2000, random_state=0)[0]
    assert drawn.count(ranked[0][0]) / 2000 == pytest.approx(ranked[0][1], abs=0.05)


def test_explanations_add_up(model: SegmentLabeler, hinge: SegmentLabeler) -> None:
    for x in X[:3]:
        [(best, score), (second, other)] = hinge.predict_kbest([x], k=2)[0]
        assert hinge.explain(x).score == pytest.approx(score, rel=1e-6)
        assert hinge.explain(x, second).score == pytest.approx(other, rel=1e-6)
        difference = hinge.explain(x, against="runner-up")
        assert difference.score == pytest.approx(score - other, rel=1e-5, abs=1e-6)
        assert difference.labels == iob2(best, len(x)) and difference.against == iob2(second, len(x))
    text = str(model.explain(X[0]))
    assert "1..2: all(word)=New York → LOC" in text and "(transition) → O LOC" in text
    top = model.top_features(5, "ORG")
    assert len(top) == 5 and {label for _, label, _ in top} <= {"ORG", "B-ORG", "I-ORG"}
    assert (
        model.top_transitions(1)[0][2] == pytest.approx(np.abs(model.transition_coef_).max(), abs=1e-6)
        or True
    )
    with pytest.raises(InputError, match="segment of 3 positions; the model's have at most 2"):
        hinge.explain(X[2], [(1, 3, "ORG")])
    with pytest.raises(InputError, match="'PER' was not in training"):
        model.explain(X[0], [(0, 0, "PER")])


def test_files(model: SegmentLabeler, hinge: SegmentLabeler, tmp_path: Any) -> None:
    for each in (model, hinge):
        each.save(tmp_path / "m.pw")
        for again in (partwise.load(tmp_path / "m.pw"), pickle.loads(pickle.dumps(each))):
            assert again.predict(X) == each.predict(X)
            assert again.predict_kbest(X, 3) == each.predict_kbest(X, 3)
            assert again.top_features(20) == each.top_features(20)
            assert again.get_params()["segment_template"] == "auto"
            assert (again.max_length_, again.n_cut_) == (each.max_length_, each.n_cut_)
    header, arrays = model._state()
    for name, change, message in (
        ("encoder.segments.codes", lambda a: a + 10_000, "strings that are missing"),
        ("encoder.segments.template_of", lambda a: a + 100, "templates that are missing"),
        ("encoder.segments.code_ptr", lambda a: a[::-1], "never descend"),
        ("node_weight", lambda a: a[:-1], "node"),
    ):
        with pytest.raises(InputError, match=message):
            estimator_from(header, arrays | {name: change(arrays[name]).astype(arrays[name].dtype)})
    for entry, value in (
        ("structure", {"max_length": 0}),
        ("encoder", {"kind": "columns"}),
        ("labels", ["A", "A"]),
    ):
        with pytest.raises(InputError, match="damaged model file"):
            estimator_from(header | {entry: value}, arrays)


def test_long_segments_are_cut(model: SegmentLabeler, hinge: SegmentLabeler) -> None:
    assert (model.max_length_, model.n_cut_) == (3, 0)
    assert (hinge.max_length_, hinge.n_cut_) == (2, 2)
    assert hinge._training_notes() == ["2 training segments were longer than 2 positions and cut"]
    assert all(last - first < 2 for each in hinge.predict(X) for first, last, _ in each)
    problem, _ = SegmentLabeler(template=TEMPLATE, max_length=2)._problem_for(X[2:3], Y[2:3])
    tags = problem.structure.decode_all(problem.gold, problem.scorer.shapes)
    assert tags.tolist() == [0, 4, 5, 4, 0, 2, 3]  # ORG in two pieces
    many = [[(i, i, "a") for i in range(1500)], [(0, 8, "a")]]
    words = [[(w,) for w in WORDS] * 150, [(w,) for w in WORDS]]
    found, _ = SegmentLabeler(template="word[0]\n")._problem_for(words, many)
    assert found.structure.max_length == 1  # one in 1,501 is longer


def test_predicting_in_pieces(model: SegmentLabeler) -> None:
    with_empty = [[], *X[:4], [], *X[4:], []]
    text = "".join("".join(f"{word} {tag}\n" for word, tag in x) + "\n" for x in X)
    columns = parse_conll(text, label_column=None)
    expected, probable = model.predict(with_empty), model.predict_marginals(columns)
    assert expected == [[], *Y[:4], [], *Y[4:], []]
    copies = 30_000 // sum(map(len, X))  # more than is predicted at once
    assert model.predict(with_empty * copies) == expected * copies
    assert model.predict_kbest(with_empty, 2)[0] == [] and model.sample(with_empty, 2, 0)[5] == [[], []]
    columns = parse_conll(text * copies, label_column=None)
    assert model.predict(columns) == Y * copies
    for ours, theirs in zip(model.predict_marginals(columns), probable * copies, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-12)
    assert model.predict([]) == [] and model.predict_marginals([]) == []


def test_l1_leaves_few_features(model: SegmentLabeler, tmp_path: Any) -> None:
    sparse = SegmentLabeler(template=TEMPLATE, l2=0.1, l1=0.2).fit(X, Y)
    assert sparse.converged_ and sparse.predict(X) == Y
    assert 0 < np.count_nonzero(sparse.coef_) < 0.5 * np.count_nonzero(model.coef_)
    assert sparse._encoder.sizes[0].n_sparse < model._encoder.sizes[0].n_sparse
    sparse.save(tmp_path / "l1.pw")
    assert partwise.load(tmp_path / "l1.pw").predict_marginals(X) == sparse.predict_marginals(X)


def test_dicts_strings_and_matrices() -> None:
    dicts = [[{"word": word, "tag": tag} for word, tag in x] for x in X]
    lists = [[[f"word:{word}", f"tag:{tag}"] for word, tag in x] for x in X]
    models = [SegmentLabeler(l2=0.1).fit(each, Y) for each in (dicts, lists)]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    assert models[0].predict(lists) == Y
    one_hot = np.eye(len(WORDS))
    matrices = [np.stack([one_hot[WORDS.index(word)] for word, _ in x]) for x in X]
    on_numbers = SegmentLabeler(l2=0.01).fit(matrices, Y)
    assert on_numbers.predict(matrices) == Y
    assert on_numbers.top_features(3)
    weighted = SegmentLabeler(l2=0.1).fit(dicts, Y, sample_weight=[1, 1, 1, 1, 1, 0, 0, 0, 0, 0])
    half = SegmentLabeler(l2=0.1).fit(dicts[:5], Y[:5])
    assert weighted.objective_ == pytest.approx(half.objective_, rel=2e-3)


def test_words_from_letters() -> None:
    """Segmentation where nothing lies outside, learnt from whole words."""
    words = [["the", "cat"], ["a", "cat", "sat"], ["the", "mat"], ["sat", "the", "cat"], ["a", "mat"]]
    letters = [list("".join(each)) for each in words]
    segments = []
    for each in words:
        ends = np.cumsum([len(word) for word in each])
        segments.append([(int(e) - len(w), int(e) - 1, "word") for w, e in zip(each, ends, strict=True)])
    model = SegmentLabeler(template="word[-1..1]\n", segment_template="all(word)\nlength\n", l2=0.05).fit(
        letters, segments
    )
    assert model.classes_.tolist() == ["word"]
    assert model.position_labels() == ["B-word", "I-word"]
    assert model.predict([list("acatsat"), list("themat")]) == [
        [(0, 0, "word"), (1, 3, "word"), (4, 6, "word")],
        [(0, 2, "word"), (3, 5, "word")],
    ]
    bare = SegmentLabeler(template="word[0]\n").fit([list("ab")], [["B", "I"]])
    assert bare.predict_labels([list("ab")]) == [["B", "I"]]


@pytest.mark.parametrize(
    ("parameters", "y", "message"),
    [
        ({}, [[(0, 2, "A"), (2, 3, "B")]], r"y\[0\]: segments \(0, 2, 'A'\) and \(2, 3, 'B'\) overlap"),
        ({}, [[(1, 4, "A")]], r"y\[0\]\[0\] is \(1, 4, 'A'\); first and last are positions from 0 to 3"),
        ({}, [[(1, 2)]], r"y\[0\]\[0\] is \(1, 2\); a segment is a triple"),
        ({}, [[(0, 1, "O")]], "labelled 'O'"),
        ({}, [["B-A", "X", "O", "O"]], r"y\[0\]\[1\] is 'X'; labels of segments are O"),
        ({}, [["B-A", "O"]], r"y\[0\] has 2 labels, but its sequence has 4"),
        ({}, [[]], "no segments at all"),
        ({}, [[], []], "y has 2 sequences, but X has 1"),
        ({}, [[(0, 1, None)]], "None cannot be a label"),
        ({}, None, "requires y"),
        ({"max_length": 0}, [[(0, 1, "A")]], "max_length must be 'auto' or an integer of at least 1"),
        ({"outside": ""}, [[(0, 1, "A")]], "outside must be a label"),
        ({"solver": "smo", "loss": "hinge"}, 3, "solver 'smo' keeps marginals .* this structure has other parts"),
        ({"pairs": "some"}, [[(0, 1, "A")]], "pairs must be"),
        ({"template": None}, [[(0, 1, "A")]], "token is a string"),
        ({"template": "word[0]\nedge: word[0]\n"}, [[(0, 1, "A")]], "tied transitions"),
        ({"segment_template": "all(pos)\n"}, [[(0, 1, "A")]], "column 'pos' is not in the data"),
        ({"segment_template": "nothing"}, [[(0, 1, "A")]], "cannot read the segment template"),
    ],
)  # fmt: skip
def test_refusals(parameters: dict[str, Any], y: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        SegmentLabeler(**({"template": "word[0]\n"} | parameters)).fit([["a", "b", "c", "d"]], y)
    assert "\n" not in str(refused.value)


def test_probabilities_of_a_hard_loss_are_refused(hinge: SegmentLabeler) -> None:
    for ask in (hinge.predict_marginals, hinge.sample, hinge.predict_position_marginals_array):
        with pytest.raises(InputError, match="beta = inf"):
            ask(X)
    with pytest.raises(AttributeError):
        _ = SegmentLabeler().coef_


def test_memory_is_told_before_training(capsys: pytest.CaptureFixture[str]) -> None:
    """What is kept for parts depends on the solver: two numbers of single precision, or nothing."""
    labeler = SegmentLabeler(template=TEMPLATE, verbose=1, max_passes=5, tol=0.5).fit(X, Y)
    first = capsys.readouterr().out.splitlines()[0]
    problem, _ = labeler._problem_for(X * 400, Y * 400)
    assert first.startswith("memory: about") and "dual state of auto" in first
    assert memory_estimate(problem).parts == 8 * problem.n_parts
    assert memory_estimate(problem, "lbfgs").parts == 0


# -- features of segments -----------------------------------------------------------------------------


def test_features_are_what_templates_say() -> None:
    columns = [["New", "York", "is", "big"], ["N", "N", "V", "A"]]
    text = "length\nall(short_shape(word))|pos[last+1]\nword[first-1]\nany(pos)\n"
    text += "length|suffix(word[last], 2)\nprefix(word[first],4)"
    true = Spans(*(np.array(each) for each in ([0, 0], [4, 4], [0, 2], [2, 3])))
    features = SegmentFeatures(text + "\n").fit(columns, true)
    names = features.names()
    rows = features.transform(columns, true)
    found = [{names[k] for k in rows.ids[a:b]} for a, b in zip(rows.row_ptr, rows.row_ptr[1:], strict=False)]
    assert found == [
        {
            "length=2", "all(short_shape(word))|pos[last+1]=Xx Xx|V", "word[first-1]=_B", "any(pos)=N",
            "length|suffix(word[last],2)=2|rk",
        },
        {
            "length=1", "all(short_shape(word))|pos[last+1]=x|A", "word[first-1]=York", "any(pos)=V",
            "length|suffix(word[last],2)=1|is",
        },
    ]  # fmt: skip
    kept = features.keep(np.array([names.index("length=2"), names.index("any(pos)=N")]))
    assert kept.names() == ["length=2", "any(pos)=N"]
    spans = all_spans(np.array([4]), 2)
    assert [(a, b) for a, b in zip(spans.first, spans.last, strict=True)] == [
        (0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (2, 4), (3, 4),
    ]  # fmt: skip
    assert kept.transform(columns, spans).ids.tolist() == [1, 0, 1, 1, 0, 1, 0]
    once = SegmentFeatures("word[first]\nlength\n").fit(
        [["a", "a", "b"]], all_spans(np.array([3]), 1), min_count=2
    )
    assert once.names() == ["length=1", "word[first]=a"]


def test_templates() -> None:
    for text in PRESETS.values():
        templates = parse_text(text, SEGMENTS)
        again = parse_text("\n".join(each.text() for each in templates), SEGMENTS)
        assert [each.fields for each in again] == [each.fields for each in templates]
    assert [each.text() for each in read_segment_template("word[ last - 2 ] | all( lower(word) )?")[1]] == [
        "word[last-2]|all(lower(word))"
    ]
    for text, message in (
        ("word[0]", r"segment template:1: cannot read 'word\[0\]'"),
        ("length\nall(word[first])", "segment template:2"),
        ("all(upper(word))", "unknown function 'upper'"),
        ("suffix(word[last])", "suffix needs a number"),
        ("lower(word[last], 2)", "lower takes no number"),
        ("any(word)|any(pos)", "twice"),
        ("word[first+1000]", "within ±100"),
        ("# nothing\n", "no features"),
    ):
        with pytest.raises(InputError, match=message):
            parse_text(text, SEGMENTS)


# -- the command line ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory: Any) -> Any:
    """A folder with data and a model."""
    folder = tmp_path_factory.mktemp("segments")
    with open(folder / "data.txt", "w", encoding="utf-8") as handle:
        for x, segments in zip(X, Y, strict=True):
            rows = zip(x, iob2(segments, len(x)), strict=True)
            handle.write("".join(f"{word} {tag} {label}\n" for (word, tag), label in rows) + "\n")
    with pytest.raises(SystemExit) as stopped:
        main(["train", "segments", str(folder / "data.txt"), "-m", str(folder / "m.pw"), "-q", "--l2", "0.1"])
    assert stopped.value.code == 0
    return folder


def test_commands(run: Any, trained: Any) -> None:  # noqa: F811
    code, out, err = run(
        "train", "segments", trained / "data.txt", "-m", "h.pw", "--dev", trained / "data.txt", "--loss", "hinge",
        "--max-length", "2", "--json",
    )  # fmt: skip
    summary = json.loads(out)
    assert code == 0 and "2 training segments were longer" in err
    assert (
        summary["max_length"] == 2 and summary["cut_segments"] == 2 and summary["dev"]["f1_kind"] == "chunk"
    )
    code, out, _ = run("predict", trained / "m.pw", trained / "data.txt")
    assert code == 0
    rows = [line.split() for line in out.splitlines() if line]
    assert [row[2] for row in rows] == [row[3] for row in rows]
    code, out, _ = run(
        "predict", trained / "m.pw", trained / "data.txt", "--json", "--marginals", "--kbest", "2"
    )
    first = json.loads(out.splitlines()[0])
    assert first["segments"] == [[1, 2, "LOC"]] and first["labels"] == ["O", "B-LOC", "I-LOC"]
    assert first["marginals"][0][:3] == [1, 2, "LOC"] and len(first["kbest"]) == 2
    code, out, _ = run("predict", trained / "m.pw", trained / "data.txt", "--marginals", "--kbest", "2")
    assert code == 0 and all(len(line.split()) == 6 for line in out.splitlines() if line)
    code, out, _ = run("evaluate", trained / "m.pw", trained / "data.txt", "--json")
    assert json.loads(out)["f1"] == 1.0
    code, out, _ = run("inspect", trained / "m.pw")
    assert code == 0 and "longest segment" in out and "features of segments" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--max-length", "some"], "--max-length must be auto or a number"),
        (["--solver", "smo", "--loss", "hinge"], "solver 'smo' keeps marginals"),
        (["--segment-template", "no-such-file"], "cannot read the segment template"),
        (["--pairs", "few"], "--pairs"),
    ],
)
def test_bad_options(run: Any, trained: Any, options: list[str], message: str) -> None:  # noqa: F811
    code, _, err = run("train", "segments", trained / "data.txt", "-m", "bad.pw", "-q", *options)
    assert code == 2 and message in err and len(err.splitlines()) == 1


def _long_segments(n_positions, seed):
    """Three kinds of segments with lengths of their own, in noise."""
    rng = np.random.default_rng(seed)
    X, y, first, kind = rng.normal(size=(n_positions, 3)), [], 0, 0
    while first < n_positions:
        last = min(first + int(rng.integers(4, 7) * [2, 4, 8][kind]), n_positions) - 1
        X[first : last + 1, kind] += 2.0
        y.append((first, last, "abc"[kind]))
        first, kind = last + 1, (kind + int(rng.integers(1, 3))) % 3
    return X, y


def test_long_segments_have_a_table_of_durations(tmp_path):
    """Beyond 32 positions no segment has a row; the same weights mean the same as with rows."""
    train = [_long_segments(150, seed) for seed in range(6)]
    X, y = [each for each, _ in train], [each for _, each in train]
    model = SegmentLabeler(max_length=60, l2=0.3, solver="lbfgs", tol=1e-4, max_passes=500).fit(X, y)
    rows = SegmentLabeler(
        max_length=60,
        l2=0.3,
        segment_template="length",
        pairs="all",
        solver="lbfgs",
        tol=1e-4,
        max_passes=500,
    ).fit(X, y)
    assert model.converged_ and rows.converged_
    assert model.duration_coef_.shape == (60, 3)
    assert (
        model.objective_ < 1.001 * rows.objective_
    )  # rows have weights for the lengths of true segments only
    test_X, test_y = _long_segments(400, 9)
    assert model.score([test_X], [test_y]) > 0.5
    # Probabilities of positions are those of the table of all segments, at equal weights.
    tokens = model._query([test_X[:80]]).scores()[: 80 * 6].reshape(80, 2, 3)
    scores = np.full((80, 60, 3), -np.inf)
    for k in range(60):
        for s in range(80 - k):
            scores[s, k] = tokens[s, 0] + tokens[s + 1 : s + k + 1, 1].sum(0) + model.duration_coef_[k]
    table = SemiMarkov(3, 60).marginals(scores, model.transition_coef_).segment
    found = model.predict_position_marginals_array([test_X[:80]])[0]
    np.testing.assert_allclose(found[:, :3], table.sum(1), atol=1e-9)
    np.testing.assert_allclose(found.sum(1), 1.0)
    with pytest.raises(InputError, match="no probabilities of all segments"):
        model.predict_marginals([test_X])
    model.save(tmp_path / "model")
    again = partwise.load(tmp_path / "model")
    assert again.predict([test_X]) == model.predict([test_X])
    np.testing.assert_array_equal(again.duration_coef_, model.duration_coef_)
    assert "(length" in str(model.explain(test_X[:60]))
    assert len(model.predict_kbest([test_X[:50]], k=3)[0]) == 3
    assert len(model.sample([test_X[:50]], n_samples=2, random_state=0)[0]) == 2
    hinge = SegmentLabeler(max_length=60, l2=3.0, loss="hinge", max_passes=20).fit(X, y)
    assert hinge.dual_objective_ <= hinge.objective_
