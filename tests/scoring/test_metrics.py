"""Chunk scores against conlleval's loop, restated here, and against numbers worked by hand."""

import random

import numpy as np
import pytest
from data_paths import SHARED, needs_shared
from effort import lines_executed
from hypothesis import given, settings
from hypothesis import strategies as st

from partwise.data import read_conll
from partwise.errors import InputError
from partwise.scoring.metrics import chunk_scores, chunks, confusion, per_label_table, token_accuracy


def script_chunk_ends(previous, tag, previous_kind, kind):
    """The script's chunk end, condition by condition."""
    if previous in ("]", "["):
        return True
    if previous not in ("O", ".") and previous_kind != kind:
        return True
    if tag in ("B", "O") and previous in ("B", "I"):
        return True
    return previous == "E" and tag in ("E", "I", "O")


def script_chunk_starts(previous, tag, previous_kind, kind):
    """The script's chunk start, condition by condition."""
    if tag in ("[", "]"):
        return True
    if tag not in ("O", ".") and previous_kind != kind:
        return True
    if tag == "B":
        return previous in ("B", "I", "O")
    return tag in ("E", "I") and previous in ("E", "O")


def script_counts(y_true, y_pred):
    """One pass over a file with blank lines, keeping the state that conlleval keeps."""
    rows = [
        pair for both in zip(y_true, y_pred, strict=True) for pair in [*zip(*both, strict=True), ("O", "O")]
    ]
    in_correct, n_true, n_predicted, n_correct = False, 0, 0, 0
    last = (("O", ""), ("O", ""))
    for row in rows:
        now = tuple(label.partition("-")[::2] for label in row)
        sides = [(before[0], after[0], before[1], after[1]) for before, after in zip(last, now, strict=True)]
        ends = [script_chunk_ends(*side) for side in sides]
        starts = [script_chunk_starts(*side) for side in sides]
        if in_correct:
            if all(ends) and last[0][1] == last[1][1]:
                in_correct, n_correct = False, n_correct + 1
            elif ends[0] != ends[1] or now[0][1] != now[1][1]:
                in_correct = False
        if all(starts) and now[0][1] == now[1][1]:
            in_correct = True
        n_true, n_predicted = n_true + starts[0], n_predicted + starts[1]
        last = now
    return n_true, n_predicted, n_correct + in_correct


def corpora(tags, kinds=("X", "Y", "Y-Z")):
    labels = [tag if tag in ("O", ".") else f"{tag}-{kind}" for tag in tags for kind in kinds]
    pair = st.tuples(st.sampled_from(labels), st.sampled_from(labels))
    return st.lists(st.lists(pair, max_size=12), max_size=4)


def counts(scores):
    return scores.n_true, scores.n_predicted, scores.n_correct


def unzip(corpus):
    return [[a for a, _ in seq] for seq in corpus], [[b for _, b in seq] for seq in corpus]


@pytest.mark.parametrize("strict", [False, True])
@settings(deadline=None)
@given(corpus=st.one_of(corpora("OBI"), corpora("OIE"), corpora("OI"), corpora("O.[]"), corpora("OBI", [""])))
def test_counts_are_those_of_the_script(strict, corpus):
    y_true, y_pred = unzip(corpus)
    assert counts(chunk_scores(y_true, y_pred, strict=strict)) == script_counts(y_true, y_pred)


@settings(deadline=None)
@given(corpus=corpora(["O", "B", "I", "E", "S", "L", "U", "[", "]", ".", "Q", ""], ["X", "Y", ""]))
def test_strict_counts_any_tags_as_the_script(corpus):
    y_true, y_pred = unzip(corpus)
    assert counts(chunk_scores(y_true, y_pred, strict=True)) == script_counts(y_true, y_pred)


@settings(deadline=None)
@given(corpus=st.one_of(corpora("OBI"), corpora("OIE"), corpora("OBIES"), corpora("OBILU")))
def test_correct_chunks_are_the_common_ones(corpus):
    y_true, y_pred = unzip(corpus)
    both = [(set(chunks(a)), set(chunks(b))) for a, b in zip(y_true, y_pred, strict=True)]
    expected = tuple(
        sum(len(s) for s in sets) for sets in zip(*((a, b, a & b) for a, b in both), strict=True)
    )
    scores = chunk_scores(y_true, y_pred)
    assert counts(scores) == (expected or (0, 0, 0))
    per_type = [counts(scores_of_type) for scores_of_type in scores.per_type.values()]
    assert tuple(np.sum(per_type, axis=0)) == counts(scores) if per_type else counts(scores) == (0, 0, 0)


def encode(spans, length, scheme):
    """Write spans (type, start, end) in a scheme, every chunk marked at its ends."""
    first, last, single = {"IOB2": "BIB", "IOE2": "IEE", "IOBES": "BES", "BILOU": "BLU"}[scheme]
    labels = ["O"] * length
    for kind, start, end in spans:
        labels[start:end] = [f"I-{kind}"] * (end - start)
        labels[end - 1] = f"{last}-{kind}"
        labels[start] = f"{single if end == start + 1 else first}-{kind}"
    return labels


@pytest.mark.parametrize("scheme", ["IOB2", "IOE2", "IOBES", "BILOU"])
@settings(deadline=None)
@given(pieces=st.lists(st.tuples(st.sampled_from(["", "X", "Y"]), st.integers(1, 4)), max_size=8))
def test_schemes_give_back_the_spans(scheme, pieces):
    spans, position = [], 0
    for kind, size in pieces:
        if kind:
            spans.append((kind, position, position + size))
        position += size
    assert chunks(encode(spans, position, scheme)) == spans


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("O I-X I-X O", [("X", 1, 3)]),  # I- after O starts, also in IOB2
        ("B-X B-Y I-Y O", [("X", 0, 1), ("Y", 1, 3)]),  # B- of another type
        ("B-X I-X B-X I-X", [("X", 0, 2), ("X", 2, 4)]),  # neighbours of the same type
        ("B-X I-Y I-Y", [("X", 0, 1), ("Y", 1, 3)]),  # the type changes without B-
        ("I-X I-X B-X", [("X", 0, 2), ("X", 2, 3)]),  # IOB1
        ("I-X E-X I-X", [("X", 0, 2), ("X", 2, 3)]),  # IOE1
        ("B-A-b I-A-b I-A-c", [("A-b", 0, 2), ("A-c", 2, 3)]),  # hyphens in types
        ("B I O B", [("", 0, 2), ("", 3, 4)]),  # no type
        ("S-X S-X B-X E-X B-X E-X", [("X", 0, 1), ("X", 1, 2), ("X", 2, 4), ("X", 4, 6)]),
        ("U-X B-X L-X U-X", [("X", 0, 1), ("X", 1, 3), ("X", 3, 4)]),
        ("[-X ]-X . [-Y", [("X", 0, 1), ("X", 1, 2), ("Y", 3, 4)]),
        ("NN VB NN", []),  # not chunk labels
        ("", []),
    ],
)
def test_chunks(labels, expected):
    assert chunks(labels.split()) == expected


def test_strict_joins_what_the_script_joins():
    assert chunks(["B-X", "E-X", "B-X", "E-X"], strict=True) == [("X", 0, 4)]


def test_a_sentence_break_ends_a_chunk():
    joined = chunk_scores([["B-X", "I-X", "I-X"]], [["B-X", "I-X", "I-X"]])
    apart = chunk_scores([["B-X"], ["I-X", "I-X"]], [["B-X"], ["I-X", "I-X"]])
    assert counts(joined) == (1, 1, 1)
    assert counts(apart) == (2, 2, 2)


def test_report_worked_by_hand():
    y_true = [["B-NP", "I-NP", "B-VP", "O", "B-NP"], ["B-PP", "B-NP", "I-NP"]]
    y_pred = [["B-NP", "I-NP", "B-NP", "O", "B-NP"], ["B-PP", "B-NP", "B-NP"]]
    scores = chunk_scores(y_true, y_pred)
    assert counts(scores) == (5, 6, 3)
    assert scores.precision == 0.5
    assert scores.recall == 0.6
    assert scores.f1 == pytest.approx(6 / 11)
    assert scores.accuracy == 0.75
    assert scores.report() == (
        "processed 8 tokens with 5 phrases; found: 6 phrases; correct: 3.\n"
        "accuracy:  75.00%; precision:  50.00%; recall:  60.00%; FB1:  54.55\n"
        "               NP: precision:  40.00%; recall:  66.67%; FB1:  50.00  5\n"
        "               PP: precision: 100.00%; recall: 100.00%; FB1: 100.00  1\n"
        "               VP: precision:   0.00%; recall:   0.00%; FB1:   0.00  0\n"
    )


def test_nothing_to_score():
    scores = chunk_scores([], [])
    assert (scores.precision, scores.recall, scores.f1, scores.accuracy) == (0, 0, 0, 0)
    assert scores.report() == "processed 0 tokens with 0 phrases; found: 0 phrases; correct: 0.\n"


def test_lengths_must_agree():
    with pytest.raises(InputError, match="2 sequences and y_pred has 1"):
        chunk_scores([["O"], ["O"]], [["O"]])
    with pytest.raises(InputError, match="sequence 1: y_true has 2 labels and y_pred has 1"):
        token_accuracy([["O"], ["O", "O"]], [["O"], ["O"]])


def test_token_scores():
    y_true, y_pred = [["a", "b"], ["a", "c"]], [["a", "a"], ["a", "c"]]
    assert token_accuracy(y_true, y_pred) == 0.75
    labels, matrix = confusion(y_true, y_pred)
    assert labels == ["a", "b", "c"]
    np.testing.assert_array_equal(matrix, [[2, 0, 0], [1, 0, 0], [0, 0, 1]])
    table = {row.label: row[1:] for row in per_label_table(y_true, y_pred)}
    assert table["a"] == pytest.approx((2 / 3, 1.0, 0.8, 2))
    assert table["b"] == (0.0, 0.0, 0.0, 1)
    assert table["c"] == (1.0, 1.0, 1.0, 1)


def test_flat_sequences_and_other_labels():
    assert token_accuracy(["a", "b"], ["a", "c"]) == 0.5
    assert token_accuracy(np.array([1, 2, 3]), np.array([1, 2, 4])) == pytest.approx(2 / 3)
    assert confusion([1, "a"], ["a", "a"])[0] == [1, "a"]
    assert counts(chunk_scores(np.array(["B-X", "O"]), np.array(["B-X", "O"]))) == (1, 1, 1)


@needs_shared
def test_real_labels_count_as_the_script():
    y_true = read_conll(SHARED / "conll2000" / "test.txt").label_sequences()
    generator = random.Random(0)
    names = sorted({label for sequence in y_true for label in sequence})
    y_pred = [[generator.choice(names) if generator.random() < 0.2 else y for y in seq] for seq in y_true]
    scores = chunk_scores(y_true, y_pred)
    assert lines_executed(lambda: chunk_scores(y_true, y_pred)) < 40 * scores.n_tokens
    assert counts(scores) == script_counts(y_true, y_pred)
    assert scores.n_true == 23852
    assert scores.n_tokens == 47377
