"""Attributes against a plain reference that builds every string, and dict features against CRFsuite."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from data_paths import SHARED
from hypothesis import given, settings
from hypothesis import strategies as st

from partwise.errors import InputError
from partwise.features import attributes
from partwise.features.attributes import AttributeExtractor
from partwise.features.templates import load_template, parse_crfpp, parse_template
from partwise.features.vocabulary import DictVocabulary


def reference(template, columns, sequence_ptr, part="node"):
    """The attributes of every row as a list of strings, token by token."""
    bound = template.bind(len(columns))
    rows = []
    for begin, end in pairwise(sequence_ptr):
        for token in range(begin + (part == "edge"), end):
            row = []
            for combination in bound.nodes if part == "node" else bound.edges:
                here = {"all": True, "first": token == begin, "last": token == end - 1}[combination.where]
                values = [field_value(template, f, columns, token, begin, end) for f in combination.fields]
                if here and None not in values:
                    row.append(combination.attribute(values))
            rows.append(row)
    return rows


def field_value(template, field, columns, token, begin, end):
    place = token + field.offset
    if begin <= place < end:
        return field.value(columns[field.column][place])
    if template.boundary == "skip":
        return None
    return f"_B-{begin - place}" if place < begin else f"_B+{place - end + 1}"


def counters(rows, names):
    """Rows of numbers as counters of attribute names."""
    values = np.ones(len(rows.ids)) if rows.values is None else rows.values
    pairs = list(zip((names[k] for k in rows.ids), values.tolist(), strict=True))
    return [dict(pairs[a:b]) for a, b in pairwise(rows.row_ptr)]


def expected_names(rows, min_count=1):
    """Attributes by descending frequency, ties by first occurrence (Counter keeps that order)."""
    occurrences = Counter(name for row in rows for name in row)
    return [name for name, n in occurrences.most_common() if n >= min_count]


def restricted(rows, names):
    return [{k: float(v) for k, v in Counter(row).items() if k in names} for row in rows]


STRINGS = st.sampled_from(["a", "b", "ab", "Ab", "AB", "a-1", "12", "é", "_B-1", "_B+1", "Abcde"])
FIELDS = st.builds(
    lambda column, offset, function: function.format(f"{column}[{offset}]"),
    st.sampled_from(["word", "pos", "0", "1"]),
    st.integers(-3, 3),
    st.sampled_from(
        ["{}"] * 5 + ["lower({})", "suffix({}, 2)", "short_shape({})", "is_title({})", "prefix(lower({}),1)"]
    ),
)
LINES = st.one_of(
    st.lists(FIELDS, min_size=1, max_size=4).map("|".join),
    st.lists(FIELDS, min_size=1, max_size=2).map(lambda fields: "edge: " + "|".join(fields)),
    st.sampled_from(["bias", "begin", "end"]),
)
OWN = st.builds(
    lambda boundary, lines: parse_template("\n".join([f"boundary: {boundary}", "bias", *lines])),
    st.sampled_from(["skip", "symbol"]),
    st.lists(LINES, max_size=6),
)
MACROS = st.builds("%x[{},{}]".format, st.integers(-2, 2), st.integers(0, 1))
CRFPP = st.builds(
    lambda lines: parse_crfpp("\n".join(["U", "B", *lines])),
    st.lists(
        st.builds(
            lambda start, macros: start + "/".join(macros),
            st.sampled_from(["U:", "U1:", "B:"]),
            st.lists(MACROS),
        ),
        max_size=6,
    ),
)


@st.composite
def corpora(draw):
    lengths = draw(st.lists(st.integers(0, 5), min_size=1, max_size=5))
    n = sum(lengths)
    columns = [draw(st.lists(STRINGS, min_size=n, max_size=n)) for _ in range(2)]
    return columns, np.cumsum([0, *lengths])


@settings(max_examples=150, deadline=None)
@given(
    st.one_of(OWN, CRFPP),
    corpora(),
    corpora(),
    st.integers(1, 3),
    st.sampled_from(["node", "edge"]),
    st.booleans(),
)
def test_equals_the_reference(template, train, test, min_count, part, squeeze):
    with pytest.MonkeyPatch.context() as patch:
        if squeeze:  # exercise the fallback for keys that do not fit 62 bits
            patch.setattr(attributes, "KEY_LIMIT", 30)
        extractor = AttributeExtractor(template, part)
        rows = extractor.fit_transform(*train, min_count=min_count)
    expected = reference(template, *train, part)
    names = extractor.names()
    assert names == expected_names(expected, min_count)
    assert rows.row_ptr.dtype == np.int64 and rows.ids.dtype == np.int32
    assert extractor.n_attributes == len(names)
    assert counters(rows, names) == restricted(expected, names)

    unseen = restricted(reference(template, *test, part), names)
    assert counters(extractor.transform(*test), names) == unseen
    restored = round_trip(extractor)
    assert restored.names() == names
    assert counters(restored.transform(*test), names) == unseen


def round_trip(extractor):
    """Through JSON and raw bytes, as a model file does."""
    state = extractor.state()
    arrays = {key: value for key, value in state.items() if isinstance(value, np.ndarray)}
    plain = json.loads(json.dumps({key: value for key, value in state.items() if key not in arrays}))
    copies = {k: np.frombuffer(v.tobytes(), v.dtype).reshape(v.shape) for k, v in arrays.items()}
    return type(extractor).from_state({**plain, **copies})


def test_real_overflow():
    generator = np.random.default_rng(0)
    column = [f"w{k}" for k in generator.permutation(8192)] + [
        f"w{k}" for k in generator.integers(8192, size=900)
    ]
    template = parse_template("|".join(f"word[{k}]" for k in range(-3, 3)))
    extractor = AttributeExtractor(template)
    rows = extractor.fit_transform([column], [0, 5000, len(column)])
    assert extractor._joints
    expected = reference(template, [column], [0, 5000, len(column)])
    assert counters(rows, extractor.names()) == restricted(expected, set(extractor.names()))
    assert extractor.names() == expected_names(expected)
    again = round_trip(extractor).transform([column[:50]], [0, 50])
    assert counters(again, extractor.names()) == restricted(expected[:50], set(expected_names(expected[:48])))


def test_crfpp_bag_of_words_counts_twice():
    extractor = AttributeExtractor(parse_crfpp("U:%x[-1,0]\nU:%x[0,0]\nU:%x[1,1]"))
    rows = extractor.fit_transform([["x", "x"], ["y", "x"]], [0, 2])
    assert counters(rows, extractor.names()) == [{"U:_B-1": 1, "U:x": 2}, {"U:x": 2, "U:_B+1": 1}]


HASHED = """
import numpy as np
from partwise.features.attributes import AttributeExtractor
from partwise.features.templates import load_template
from partwise.features.vocabulary import DictVocabulary
rows = AttributeExtractor(load_template("chunking")).fit_transform(
    [["The", "dog", "barks"], ["DT", "NN", "VBZ"]], [0, 2, 3], hash_size=2**18)
print(rows.row_ptr.tolist(), rows.ids.tolist())
print(DictVocabulary().fit_transform([[{"w": "The", "n": 2.0}, ["w:The", "x"]]], hash_size=1000).ids.tolist())
"""


def test_hashes_are_the_same_in_every_process():
    outputs = set()
    for seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        outputs.add(subprocess.check_output([sys.executable, "-c", HASHED], env=environment, text=True))
    assert len(outputs) == 1


@settings(max_examples=30, deadline=None)
@given(st.one_of(OWN, CRFPP), corpora(), corpora())
def test_hashing_depends_on_the_strings_alone(template, train, test):
    size = 2**30  # so large that the few attributes here do not collide
    extractor = AttributeExtractor(template)
    buckets = {}
    for corpus, rows in (
        (train, extractor.fit_transform(*train, hash_size=size)),
        (test, round_trip(extractor).transform(*test)),
    ):
        expected = reference(template, *corpus)
        values = np.ones(len(rows.ids)) if rows.values is None else rows.values
        for k, row in enumerate(expected):
            entries = slice(rows.row_ptr[k], rows.row_ptr[k + 1])
            for name, value, bucket, mass in zip(
                Counter(row), Counter(row).values(), rows.ids[entries], values[entries], strict=True
            ):
                assert value == mass and buckets.setdefault(name, bucket) == bucket
    assert extractor.n_attributes == size and len(set(buckets.values())) == len(buckets)


def test_small_hash_keeps_all_the_mass():
    extractor = AttributeExtractor(load_template("ner"))
    rows = extractor.fit_transform([["The", "Dog-9"]], [0, 2], hash_size=3)
    assert rows.ids.max() < 3 and rows.values.sum() == sum(
        map(len, reference(load_template("ner"), [["The", "Dog-9"]], [0, 2]))
    )
    assert extractor.names() == ["#0", "#1", "#2"]


def test_bad_input_is_refused():
    extractor = AttributeExtractor(parse_template("word[0]"))
    with pytest.raises(InputError, match="fit_transform first"):
        extractor.transform([["a"]], [0, 1])
    for columns, ptr, message in [
        ([["a"]], [0, 2], "ends at 2, but the columns have lengths 1"),
        ([["a"]], [1, 1], "must start with 0"),
        ([["a", 3]], [0, 2], "column 0 holds 3"),
        ([], [0], "column 'word' is not in the data"),
    ]:
        with pytest.raises(InputError, match=message):
            extractor.fit_transform(columns, ptr)
    for keywords in (
        {"min_count": 0},
        {"hash_size": 0},
        {"hash_size": 2**31},
        {"min_count": 2, "hash_size": 8},
    ):
        with pytest.raises(InputError):
            extractor.fit_transform([["a"]], [0, 1], **keywords)
        with pytest.raises(InputError):
            DictVocabulary().fit_transform([], **keywords)


def read_conll2000():
    path = SHARED / "conll2000" / "train.txt.gz"
    if not path.exists():
        pytest.skip("needs shared/data/conll2000")
    columns, ptr = ([], [], []), [0]
    with gzip.open(path, "rt") as lines:
        for line in lines:
            for column, string in zip(columns, line.split(), strict=False):
                column.append(string)
            if not line.strip() and len(columns[0]) > ptr[-1]:
                ptr.append(len(columns[0]))
    if len(columns[0]) > ptr[-1]:
        ptr.append(len(columns[0]))
    return columns, np.array(ptr)


def test_conll2000_by_plain_python():
    """The usual chunking features: same pairs as strings, and as many features as CRFsuite finds."""
    (words, tags, labels), ptr = read_conll2000()
    extractor = AttributeExtractor(load_template("chunking"))
    rows = extractor.fit_transform([words, tags], ptr)
    names = extractor.names()
    assert len(set(names)) == len(names)
    windows = [(words, "word", [o]) for o in range(-2, 3)] + [(words, "word", o) for o in ([-1, 0], [0, 1])]
    windows += [(tags, "pos", list(range(a, a + n))) for n in (1, 2, 3) for a in range(-2, 4 - n)]
    windows = [
        (column, "|".join(f"{name}[{o}]" for o in offsets) + "=", offsets)
        for column, name, offsets in windows
    ]
    pairs = set()
    for begin, end in pairwise(ptr.tolist()):
        for t in range(begin, end):
            row = set()
            for column, name, offsets in windows:
                if begin <= t + offsets[0] and t + offsets[-1] < end:
                    row.add(name + "|".join([column[t + o] for o in offsets]))
            row |= {"begin"} if t == begin else set()
            row |= {"end"} if t == end - 1 else set()
            ids = rows.ids[rows.row_ptr[t] : rows.row_ptr[t + 1]].tolist()
            assert len(ids) == len(row) and {names[i] for i in ids} == row
            pairs.update((i, labels[t]) for i in ids)
    transitions = {(labels[t - 1], labels[t]) for t in set(range(1, len(labels))) - set(ptr.tolist())}
    assert len(rows.row_ptr) == 211728 and len(pairs) + len(transitions) == 452755


VALUES = st.one_of(
    st.sampled_from(["x", "y", ""]),
    st.booleans(),
    st.sampled_from([0.0, 1.0, 2.5, -1.0, 3, 1]),
    st.lists(st.sampled_from(["p", "q"]), unique=True),
    st.sets(st.sampled_from(["p", "q"])),
    st.dictionaries(st.sampled_from(["m", "n"]), st.sampled_from(["x", 2.0, True]), max_size=2),
)
TOKENS = st.one_of(
    st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), VALUES),
    st.lists(st.sampled_from(["a:x", "b", "z"]), unique=True),
)
SEQUENCES = st.lists(st.lists(TOKENS, min_size=1, max_size=3), max_size=4)


def by_crfsuite(sequences):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    tokens = [item for sequence in sequences for item in pycrfsuite.ItemSequence(sequence).items()]
    return [{name: value for name, value in token.items() if value != 0.0} for token in tokens]


@settings(max_examples=100, deadline=None)
@given(SEQUENCES, SEQUENCES, st.integers(1, 2))
def test_dicts_mean_what_they_mean_to_crfsuite(train, test, min_count):
    vocabulary = DictVocabulary()
    rows = vocabulary.fit_transform(train, min_count=min_count)
    expected, names = by_crfsuite(train), vocabulary.names()
    occurrences = Counter(name for token in expected for name in token)
    assert set(names) == {name for name, n in occurrences.items() if n >= min_count}
    assert [occurrences[name] for name in names] == sorted(
        (occurrences[name] for name in names), reverse=True
    )
    assert counters(rows, names) == [{k: v for k, v in token.items() if k in names} for token in expected]
    unseen = [{k: v for k, v in token.items() if k in names} for token in by_crfsuite(test)]
    for each in (vocabulary, round_trip(vocabulary)):
        rows = each.transform(test)
        assert counters(rows, each.names()) == unseen and each.n_attributes == len(names)
        assert rows.values is None or not (rows.values == 1.0).all()


def test_dicts_sum_what_is_named_twice():
    vocabulary = DictVocabulary()
    rows = vocabulary.fit_transform([[["x", "x", "y"], {"a": "b", "a:b": 2.0}]])
    assert counters(rows, vocabulary.names()) == [{"x": 2.0, "y": 1.0}, {"a:b": 3.0}]
    hashed = DictVocabulary().fit_transform([[["x", "y", "z"]]], hash_size=1)
    assert hashed.ids.tolist() == [0] and hashed.values.tolist() == [3.0]


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ({"k": float("nan")}, "'k' has the value nan"),
        ({"k": {"m": float("inf")}}, "'k:m' has the value inf"),
        ({"k": None}, "'k' has the value None"),
        ("word", "a token is a string"),
        (7, "cannot read the token 7"),
    ],
)
def test_bad_dicts_are_named(token, message):
    with pytest.raises(InputError, match=f"^sequence 1, position 2: {message}"):
        DictVocabulary().fit_transform([[{}], [{}, {}, token]])
    with pytest.raises(InputError, match="is not a string"):
        DictVocabulary().fit_transform([[[3]]])
