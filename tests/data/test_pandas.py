"""What pandas users have: a Series of sequences, a DataFrame a sentence, groups, labels in columns."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import partwise
from partwise import CRF, Classifier, SequenceLabeler, metrics
from partwise.data.frames import as_dicts, as_rows, frame_of, unpacked
from partwise.errors import InputError
from partwise.estimators.labels import flat_labels
from partwise.tasks.constituents.data import as_sentences
from partwise.tasks.dependencies.data import as_corpus

pandas = pytest.importorskip("pandas")

TABLE = pandas.DataFrame(
    [
        (0, "Ada", "NNP", "B-PER"), (0, "met", "VBD", "O"), (0, "Bob", "NNP", "B-PER"),
        (1, "he", "PRP", "O"), (1, "left", "VBD", "O"),
        (2, "Bob", "NNP", "B-PER"), (2, "left", "VBD", "O"), (2, "Rome", "NNP", "B-LOC"),
        (3, "she", "PRP", "O"), (3, "met", "VBD", "O"), (3, "Eve", "NNP", "B-PER"),
    ],
    columns=["sentence", "word", "pos", "tag"],
)  # fmt: skip
ROWS = [[("Ada", "NNP"), ("met", "VBD"), ("Bob", "NNP")], [("he", "PRP"), ("left", "VBD")],
        [("Bob", "NNP"), ("left", "VBD"), ("Rome", "NNP")],
        [("she", "PRP"), ("met", "VBD"), ("Eve", "NNP")]]  # fmt: skip
DICTS = [[{"word": word, "pos": pos} for word, pos in row] for row in ROWS]
LABELS = [["B-PER", "O", "B-PER"], ["O", "O"], ["B-PER", "O", "B-LOC"], ["O", "O", "B-PER"]]


def frames(names=("word", "pos")):
    return [group[list(names)] for _, group in TABLE.groupby("sentence")]


def ragged(sequences):
    array = np.empty(len(sequences), object)
    array[:] = sequences
    return array


def tags():
    return [group["tag"] for _, group in TABLE.groupby("sentence")]


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (pandas.Series(DICTS), pandas.Series(LABELS)),
        (pandas.DataFrame({"x": DICTS, "y": LABELS}, index=[7, 7, 3, 0])["x"], LABELS),
        (ragged(DICTS), ragged(LABELS)),
        ([pandas.Series(each) for each in DICTS], [pandas.Series(each, dtype="category") for each in LABELS]),
        (frames(), tags()),
        (TABLE.groupby("sentence")[["word", "pos"]], TABLE.groupby("sentence")["tag"]),
        (frames(), [group[["tag"]] for _, group in TABLE.groupby("sentence")]),
    ],
    ids=["series", "column", "object array", "list of series", "frames", "groups", "frames of labels"],
)
def test_attributes(X, y):
    plain = SequenceLabeler(l2=0.1).fit(DICTS, LABELS)
    model = SequenceLabeler(l2=0.1).fit(X, y)
    assert model.objective_ == plain.objective_ and model.classes_.tolist() == plain.classes_.tolist()
    assert model.predict(X) == plain.predict(DICTS) and model.score(X, y) == plain.score(DICTS, LABELS)


def test_columns_of_a_template():
    plain = SequenceLabeler(template="chunking", l2=0.1).fit(ROWS, LABELS)
    for X in (frames(), TABLE.groupby("sentence")[["word", "pos"]], pandas.Series(ROWS)):
        model = SequenceLabeler(template="chunking", l2=0.1).fit(X, tags())
        assert model.objective_ == plain.objective_ and model.predict(X) == plain.predict(ROWS)
    assert str(model.explain(frames()[0])) == str(plain.explain(ROWS[0]))
    words = [group["word"] for _, group in TABLE.groupby("sentence")]
    assert SequenceLabeler(template="pos").fit(words, tags()).predict(words[:1]) == [LABELS[0]]
    with pytest.raises(InputError, match=r"X\[1\]: the column 'pos' has no value in row 0"):
        model.predict([frames()[0], frames()[1].assign(pos=[None, "VBD"])])


def test_drop_in_for_sklearn_crfsuite():
    plain = CRF(c2=0.1).fit(DICTS, LABELS)
    crf = CRF(c2=0.1).fit(pandas.Series(DICTS), pandas.Series(LABELS))
    assert crf.objective_ == plain.objective_
    assert list(crf.predict(pandas.Series(DICTS))) == list(plain.predict(DICTS))
    assert crf.fit(frames(), tags()).objective_ == plain.objective_


def test_sequences_of_one_length_make_an_array_of_two_axes():
    equal = [DICTS[0], DICTS[2], DICTS[3]]
    array = np.array(equal, dtype=object)
    assert array.shape == (3, 3)
    y = np.array([LABELS[0], LABELS[2], LABELS[3]])
    model = SequenceLabeler(l2=0.1).fit(array, y)
    assert model.objective_ == SequenceLabeler(l2=0.1).fit(equal, y.tolist()).objective_
    words = np.array([["a", "dog"], ["the", "cat"]])
    assert SequenceLabeler(template="pos").fit(words, [["D", "N"]] * 2).predict(words) == [["D", "N"]] * 2


def test_missing_values_numbers_and_types_of_columns():
    frame = pandas.DataFrame(
        {
            "word": pandas.Series(["a", None, "c"], dtype="string"),
            "size": [1.5, np.nan, 0.0],
            "title": [True, False, True],
            "kind": pandas.Categorical(["x", "y", None]),
        }
    )
    assert as_dicts(frame) == [
        {"word": "a", "size": 1.5, "title": True, "kind": "x"},
        {"title": False, "kind": "y"},
        {"word": "c", "size": 0.0, "title": True},
    ]
    assert as_rows(pandas.DataFrame({"w": ["a"], "n": [3]}), "X[0]") == [("a", "3")]
    with pytest.raises(InputError, match="two columns of one name"):
        as_dicts(pandas.DataFrame([["a", "b"]], columns=["w", "w"]))


def test_numbers_stay_a_matrix():
    matrices = [np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[0.9, 0.1]])]
    numbers = [pandas.DataFrame(each, columns=["up", "down"]) for each in matrices]
    model = SequenceLabeler(l2=0.1).fit(numbers, [["D", "N"], ["D"]])
    assert model.objective_ == SequenceLabeler(l2=0.1).fit(matrices, [["D", "N"], ["D"]]).objective_
    assert {name for name, _, _ in model.top_features(4)} == {"up", "down"}


def test_clear_errors():
    with pytest.raises(InputError, match=r"one DataFrame of 11 rows.*groupby"):
        SequenceLabeler().fit(TABLE, TABLE["tag"])
    with pytest.raises(InputError, match=r"y\[0\] is a DataFrame of 2 columns"):
        SequenceLabeler().fit(frames(), frames())
    with pytest.raises(InputError, match=r"y\[0\] is str"):
        SequenceLabeler().fit(frames(), TABLE["tag"][:4])
    with pytest.raises(InputError, match="position 1: the label is <NA>; use None"):
        SequenceLabeler().fit(DICTS[:1], [pandas.Series(["O", pandas.NA, "O"], dtype=object)])
    with pytest.raises(InputError, match="must be a sequence of tokens"):
        SequenceLabeler(template="ner").fit(TABLE["word"], TABLE["tag"])
    unobserved = pandas.Series(["O", None, "O"], dtype=object)
    assert flat_labels([unobserved], np.array([3])) == ["O", None, "O"]
    assert unpacked([1, 2]) == [1, 2] and unpacked(s for s in "ab") is not None


def test_scores():
    groups = TABLE.groupby("sentence")["tag"]
    wrong = [["O", *LABELS[0][1:]], *LABELS[1:]]
    assert metrics.chunk_scores(groups, wrong) == metrics.chunk_scores(LABELS, wrong)
    assert metrics.flat_accuracy_score(groups, wrong) == pytest.approx(10 / 11)
    assert metrics.sequence_accuracy_score(groups, pandas.Series(wrong)) == 0.75


def test_classes():
    table = pandas.DataFrame({"colour": ["red", "blue", "red", "blue"], "size": [1.0, 2.0, 3.0, 0.5]})
    y = pandas.Series(["a", "b", "a", "b"])
    dicts = table.to_dict("records")
    plain = Classifier(l2=0.1).fit(dicts, y.tolist())
    for X in (table, pandas.Series(dicts)):
        model = Classifier(l2=0.1).fit(X, y)
        assert model.objective_ == plain.objective_ and model.predict(X).tolist() == y.tolist()
    assert model.predict(table[["size"]]).shape == (4,)
    with pytest.raises(InputError, match="matrix of numbers, as in training"):
        Classifier().fit(table[["size"]], y).predict(table)


def test_sentences_of_parsers():
    table = TABLE[["word", "pos"]].set_axis(["form", "fine_tag"], axis=1)
    words = [table[TABLE["sentence"] == k] for k in range(4)]
    corpus, same = as_corpus(pandas.Series(words)), as_corpus([each.to_dict("records") for each in words])
    assert corpus.forms == same.forms == TABLE["word"].tolist() and corpus.fine_tags == same.fine_tags
    with pytest.raises(InputError, match=r"X\[0\]\[0\]"):
        as_corpus(frames())
    sentences, plain = as_sentences(frames()), as_sentences(ROWS)
    assert (sentences.forms, sentences.tags) == (plain.forms, plain.tags)


def test_pandas_is_imported_for_frames_as_output_alone():
    package = Path(partwise.__file__).parent
    pattern = re.compile(r"^\s*(import|from) pandas", re.M)
    found = [path for path in package.rglob("*.py") if pattern.search(path.read_text("utf-8"))]
    assert found == [package / "data" / "frames.py"]
    assert len(re.findall(pattern, inspect.getsource(frame_of))) == 1
    assert len(re.findall(pattern, found[0].read_text("utf-8"))) == 1
