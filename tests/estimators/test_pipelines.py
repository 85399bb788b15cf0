"""Entities as DataFrames, and sequence models behind a feature function in scikit-learn's pipelines."""

from __future__ import annotations

import importlib
import pickle
import sys

import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import partwise
from partwise import Entity, InputError, SegmentLabeler, SequenceLabeler
from partwise.data import make_names
from partwise.estimators.entities import EntityLists

X, Y = make_names(60, share=0.4)
COLUMNS = ["sequence", "first", "last", "type", "probability"]


@pytest.fixture(scope="module")
def model():
    return SequenceLabeler(template="ner").fit(X, Y)


def test_entities_become_a_frame(model) -> None:
    pandas = pytest.importorskip("pandas")
    found = model.predict_entities(X, threshold=0.1)
    frame = found.to_frame(X)
    assert list(frame.columns) == [*COLUMNS, "text"] and list(found.to_frame().columns) == COLUMNS
    rows = [(i, *entity) for i, own in enumerate(found) for entity in own]
    assert len(rows) > 60 and [tuple(row) for row in frame[COLUMNS].itertuples(index=False)] == rows
    texts = [" ".join(X[i][first : last + 1]) for i, first, last, *_ in rows]
    assert frame["text"].tolist() == texts
    # Words may be rows, DataFrames or a Series; answers without entities keep the columns.
    for words in (
        [[(word, "NN") for word in x] for x in X],
        [pandas.DataFrame({"word": x, "tag": x}) for x in X],
        pandas.Series(X),
    ):
        assert found.to_frame(words).equals(frame)
    assert list(EntityLists([[], []]).to_frame([["a"], ["b"]]).columns) == [*COLUMNS, "text"]
    assert model.predict_entities([]).to_frame().empty


def test_entity_lists_are_lists(model) -> None:
    found = model.predict_entities(X[:5])
    assert found == [list(own) for own in found] and isinstance(found, list)
    assert pickle.loads(pickle.dumps(found)) == found
    assert partwise.Entity is Entity and isinstance(found[0][0], Entity)


def test_frames_of_segments_and_of_guaranteed_sets(model) -> None:
    pytest.importorskip("pandas")
    sets = model.conformal(X, Y, coverage=0.8, on="entities").predict_sets(X[:9])
    assert len(sets.to_frame(X[:9])) == sum(map(len, sets)) > 0
    spans = [[(0, 0, "A")], [(1, 1, "A")]] * 3
    segments = SegmentLabeler(max_length=2).fit([[["a"], ["b"]], [["b"], ["a"]]] * 3, spans)
    frame = segments.predict_entities([[["b"], ["a"]]]).to_frame([["b", "a"]])
    assert "a" in frame["text"].tolist()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (X[:2], "words has 2 sequences, and the entities are of 1"),
        ([["one"]], "sequence 0 has 1 words, fewer than its entities need"),
        ([[{"word": "a"}] * 9], "words must be lists of strings"),
        ([[3] * 9], "words must be lists of strings"),
        (7, "words must be"),
        (["a whole sentence"], "words must be"),
    ],
)
def test_words_that_do_not_fit(words, message: str) -> None:
    with pytest.raises(InputError, match=message):
        EntityLists([[Entity(0, 3, "PER", 0.5)]]).to_frame(words)


def features(sentences):
    return [[{"word": word, "title": word.istitle(), "end": word[-2:]} for word in own] for own in sentences]


def test_a_feature_function_in_front() -> None:
    pipeline = make_pipeline(FunctionTransformer(features), SequenceLabeler(tol=0.01))
    alone = SequenceLabeler(tol=0.01).fit(features(X), Y)
    assert clone(pipeline).fit(X, Y).predict(X) == alone.predict(features(X))
    assert pickle.loads(pickle.dumps(pipeline.fit(X, Y))).score(X, Y) == alone.score(features(X), Y) > 0.9
    search = GridSearchCV(pipeline, {"sequencelabeler__l2": [0.1, 100.0]}, cv=2).fit(X, Y)
    assert search.best_params_ == {"sequencelabeler__l2": 0.1}
    assert min(cross_val_score(pipeline, X, Y, cv=2)) > 0.5


@pytest.mark.filterwarnings("ignore:When `set_output` is configured")
def test_frames_as_output_of_a_pipeline_change_no_answer() -> None:
    pytest.importorskip("pandas")
    pipeline = make_pipeline(FunctionTransformer(features), SequenceLabeler(tol=0.01)).fit(X, Y)
    expected = pipeline.predict(X)
    assert pipeline.set_output(transform="pandas").fit(X, Y).predict(X) == expected


def test_the_spacy_component_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, "partwise.spacy", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'partwise\[spacy\]'"):
        importlib.import_module("partwise.spacy")
