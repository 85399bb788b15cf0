"""Ten thousand damaged and hostile model files: each loads and predicts, or is refused in one line."""

from __future__ import annotations

import copy
import json
import math
import random
import warnings

import numpy as np
import pytest
from effort import lines_executed
from model_bytes import container, stored

from partwise import (
    Classifier,
    ConstituencyParser,
    DependencyParser,
    GraphLabeler,
    KernelClassifier,
    KernelSequenceLabeler,
    MultilabelClassifier,
    SegmentLabeler,
    SequenceLabeler,
)
from partwise.data import Tree, corpus_from_sentences, parse_graphs
from partwise.data.conll import parse_conll
from partwise.errors import InputError
from partwise.report.bundle import scripted_page
from partwise.report.summary import summarize
from partwise.storage import model_file
from partwise.storage.model_file import load, save_model
from partwise.web.sections import model_section

N_MUTATIONS = 1700
STRANGE = [
    None, True, False, 0, 1, -1, 2, 7, 2**31 - 1, 2**31, 2**63, -(2**63), 10**30, 0.5, -1e308, 1e-320,
    math.nan, math.inf, "", "x", "eg", "\ud800", "a" * 1000, "word[-99..99]|word[-99..99]",
    "U00:%x[-9,999]", [], [[]], [None], ["x"], ["x"] * 40, {}, {"x": 1}, {"$strings": 0}, {"$number": "nan"},
    {"beta": "inf", "gamma": 1},
]  # fmt: skip

TOKENS = parse_conll("the D B-X\ncat N I-X\nsat V O\n\na D B-X\ndog N I-X\n\n#1 N O\n")


SENTENCES = corpus_from_sentences(
    [["a", "dog", "barks"], ["cats", "purr"]],
    fine_tags=[["D", "N", "V"], ["N", "V"]],
    heads=[[2, 3, 0], [2, 0]],
    relations=[["det", "subj", "root"], ["subj", "root"]],
)


GRAPHS = parse_graphs(
    '{"nodes": [{"features": {"w": "a"}, "kind": "w", "label": "x"}, {"features": [2], "kind": "n", "label": "p"}, '
    '{"features": ["b"], "kind": "w", "label": "y"}], "edges": [[0, 1], {"nodes": [0, 2], "features": ["near"]}], '
    '"factors": [{"nodes": [0, 1, 2]}]}'
)
CONSTITUENTS = [
    Tree.of("(S (NP (D a) (N dog)) (VP (V barks)))"),
    Tree.of("(S (NP (NP (N cats)) (PP (P of) (NP (N Rome)))) (VP (V purr)) (. .))"),
]


def tiny_models():
    columns = "word[-1..1]\nword[-1]|word[0]\nsuffix(word[0], 1..2)\npos[0]"
    numbers = [np.array([[0.0, 1.5, 0.3], [2.0, 1.0, 0.1]]), np.array([[1.0, 0.5, 0.2]])]
    words = [[{"w": "a", "n": 2.0}, ["b", "c"]], [["b"]]]
    labels = [["A", "B"], ["B"]]
    settings = {"tol": 0.1, "max_passes": 5}
    first_words = [[(0, 0, "A")]] * TOKENS.n_sequences
    rows = np.array([[0.0, 1.0], [1.0, 0.5], [0.3, 0.2]])
    return {
        "columns": (SequenceLabeler(template=columns, scheme="IOB2", **settings).fit(TOKENS), TOKENS),
        "edges": (SequenceLabeler(template=columns + "\nedge: pos[0]", **settings).fit(TOKENS), TOKENS),
        "hashed": (SequenceLabeler(template=columns, hash_size=50, **settings).fit(TOKENS), TOKENS),
        "attributes": (SequenceLabeler(order=2, **settings).fit(words, labels), words),
        "matrix": (SequenceLabeler("hinge", **settings).fit(numbers, labels), numbers),
        "trees": (DependencyParser(prune=2, **settings).fit(SENTENCES), SENTENCES),
        "segments": (SegmentLabeler(template=columns, **settings).fit(TOKENS, first_words), TOKENS),
        "constituents": (ConstituencyParser(**settings).fit(None, CONSTITUENTS), CONSTITUENTS),
        "classes": (Classifier(**settings).fit(rows, ["x", "y", "z"]), rows),
        "kernel classes": (KernelClassifier("log", **settings).fit(rows, ["x", "y", "z"]), rows),
        "graphs": (GraphLabeler(**settings).fit(GRAPHS), GRAPHS),
        "labels": (MultilabelClassifier(**settings).fit(rows, rows > 0.25), rows),
        "kernel": (KernelSequenceLabeler("log", edges="kernel", **settings).fit(numbers, labels), numbers),
    }  # fmt: skip


@pytest.fixture(scope="module")
def models():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tiny_models()


def leaves(value, path=()):
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value[:6]):
            yield from leaves(inner, (*path, index))


def edited_header(header, draw):
    header = copy.deepcopy(header)
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        paths = [path for path in leaves(header) if path]
        if not paths:
            return header
        *way, last = draw.choice(paths)
        owner = header
        for step in way:
            owner = owner[step]
        action = draw.random()
        if action < 0.2:
            del owner[last]
        elif action < 0.3 and isinstance(owner[last], (int, float)) and not isinstance(owner[last], bool):
            owner[last] = owner[last] + draw.choice([-1, 1, 0.5])
        elif action < 0.4 and isinstance(owner, list):
            owner.append(owner[last])
        else:
            owner[last] = copy.deepcopy(draw.choice(STRANGE))
    return header


def edited_arrays(arrays, draw):
    arrays = {name: array.copy() for name, array in arrays.items()}
    for _ in range(draw.choice([1, 1, 2])):
        if not arrays:
            return arrays
        name = draw.choice(sorted(arrays))
        array, action = arrays[name], draw.random()
        if action < 0.45 and array.size:
            flat = array.reshape(-1)
            if array.dtype.kind == "f":
                flat[draw.randrange(array.size)] = draw.choice([np.nan, np.inf, -1e30, 0.0])
            elif array.dtype.kind in "iu":
                limits = np.iinfo(array.dtype)
                flat[draw.randrange(array.size)] = draw.choice(
                    [0, 1, 2, limits.max, limits.min, limits.max // 2]
                )
            else:
                flat[draw.randrange(array.size)] ^= True
        elif action < 0.55:
            arrays[name] = array[: draw.randrange(len(array) + 1)] if array.ndim else array
        elif action < 0.65:
            arrays[name] = np.concatenate([array, array]) if array.ndim else array
        elif action < 0.8:
            kinds = [np.float64, np.float32, np.int64, np.int32, np.uint8, np.uint16, np.bool_]
            with np.errstate(all="ignore"):
                arrays[name] = array.astype(draw.choice(kinds))
        elif action < 0.9:
            arrays[name] = array.reshape(1, -1) if draw.random() < 0.5 else array.reshape(-1)
        else:
            del arrays[name]
    return arrays


def broken_bytes(original, other, draw):
    data = bytearray(original)
    action = draw.random()
    if action < 0.5:
        for _ in range(draw.choice([1, 1, 2, 8])):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    elif action < 0.65:
        del data[draw.randrange(len(data)) :]
    elif action < 0.8:
        begin = draw.randrange(len(data))
        del data[begin : begin + draw.randrange(1, 64)]
    elif action < 0.9:
        place, source = draw.randrange(len(data)), draw.randrange(len(other))
        data[place : place + 32] = other[source : source + draw.randrange(64)]
    else:
        data[:8] = draw.choice([0, 1, len(data), 2**40, 2**63, 2**64 - 1]).to_bytes(8, "little")
    return bytes(data)


def check(path, inputs):
    """Load and use; True if the file was accepted."""
    try:
        header, arrays = model_file.load_model(path)
        model = model_file.estimator_from(header, arrays, path)
        scripted_page("m", {"model": model_section("m", summarize(model, header, 3))})
        predicted = model.predict(inputs)
        if isinstance(model, (SequenceLabeler, KernelSequenceLabeler)):
            assert [len(each) for each in predicted] == [
                len(each)
                for each in (inputs.split(inputs.columns[0]) if hasattr(inputs, "split") else inputs)
            ]
            if not model._loss.is_hard:
                for each in model.predict_marginals_array(inputs):
                    assert np.isfinite(each).all()
        elif isinstance(model, SegmentLabeler):
            assert len(predicted) == inputs.n_sequences and len(model.predict_kbest(inputs, 2)) == len(
                predicted
            )
            for each in model.predict_marginals_array(inputs):
                assert np.isfinite(each).all()
        elif isinstance(model, GraphLabeler):
            assert [len(each) for each in predicted] == [3]
            if not model._loss.is_hard:
                for each in model.predict_marginals_array(inputs)[0]:
                    assert np.isfinite(each).all()
        elif isinstance(model, DependencyParser):
            for tree in predicted:
                heads = tree.heads if model.relations_ else tree
                assert 0 <= heads.min() <= heads.max() <= len(heads)
            if not model._loss.is_hard:
                for each in model.predict_marginals(inputs):
                    assert np.isfinite(each).all()
        elif isinstance(model, ConstituencyParser):
            assert [tree.words() for tree in predicted] == [tree.words() for tree in inputs]
            if not model._loss.is_hard:
                assert all(0 < p <= 1 for each in model.predict_marginals(inputs) for p in each.values())
        else:
            assert len(predicted) == len(inputs)
            assert np.isfinite(model.decision_function(inputs)).all()
    except InputError as error:
        assert "\n" not in str(error)
        return False
    return True


@pytest.mark.parametrize(
    "name",
    [
        "columns",
        "edges",
        "hashed",
        "attributes",
        "matrix",
        "trees",
        "segments",
        "classes",
        "kernel classes",
        "kernel",
        "graphs",
        "labels",
        "constituents",
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_mutations(models, name, tmp_path):
    """Bit flips, truncations and splices; and edits of header and arrays under a checksum that is right."""
    model, inputs = models[name]
    path = tmp_path / "m.pw"
    model.save(path)
    assert check(path, inputs)
    original = path.read_bytes()
    text, arrays = stored(path)
    header = json.loads(text)
    draw = random.Random(name)
    accepted = 0
    for turn in range(N_MUTATIONS):
        if turn % 3 == 0:
            data = broken_bytes(original, original[::-1], draw)
        elif turn % 3 == 1:
            edited = json.dumps(edited_header(header, draw))
            data = container(edited, arrays)
        else:
            data = container(text, edited_arrays(arrays, draw))
        path.write_bytes(data)
        accepted += check(path, inputs)
    assert 0 < accepted < N_MUTATIONS


def plain(predicted):
    if isinstance(predicted, Tree):
        return str(predicted)
    return [each.tolist() if isinstance(each, np.ndarray) else each for each in predicted]


def test_templates_that_explode_are_refused(models, tmp_path):
    model, _ = models["columns"]
    model.save(tmp_path / "m.pw")
    text, arrays = stored(tmp_path / "m.pw")
    header = json.loads(text)
    header["encoder"]["node"]["template"] = "|".join(["word[-99..99]"] * 5)
    (tmp_path / "m.pw").write_bytes(container(json.dumps(header), arrays))

    def refuse() -> None:
        with pytest.raises(InputError, match="template"):
            load(tmp_path / "m.pw")

    assert lines_executed(refuse) < 100_000  # none of the 3e11 combinations


@pytest.mark.filterwarnings("ignore")
def test_loaded_models_predict_the_same(models, tmp_path):
    for name, (model, inputs) in models.items():
        path = tmp_path / name
        model.save(path)
        again = load(path)
        weights = "dual_coef_" if "kernel" in name else "coef_"
        assert np.array_equal(np.asarray(getattr(again, weights)), np.asarray(getattr(model, weights))), name
        assert list(map(plain, again.predict(inputs))) == list(map(plain, model.predict(inputs)))
        assert again.history_ == model.history_ and again.stop_reason_ == model.stop_reason_
        save_model(tmp_path / "again", *again._state())
        assert (tmp_path / "again").read_bytes() == path.read_bytes()
