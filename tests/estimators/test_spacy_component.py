"""The spaCy component: training, annotation, scores, configuration and files, in blank pipelines."""

from __future__ import annotations

import importlib
import runpy
import sys

import numpy as np
import pytest
from data_paths import ROOT

import partwise
from partwise import InputError, SequenceLabeler
from partwise.data import make_names

spacy = pytest.importorskip("spacy", reason="spaCy is an extra")
from spacy.tokens import Doc, DocBin  # noqa: E402
from spacy.training import Example  # noqa: E402

from partwise.spacy import EntityComponent  # noqa: E402

WORDS, LABELS = make_names(120, share=0.6)
NEW, TRUTH = make_names(60, random_state=1)


def docs_of(nlp, words, labels):
    return [Doc(nlp.vocab, words=w, ents=t) for w, t in zip(words, labels, strict=True)]


def examples_of(nlp, words, labels):
    return [Example(Doc(nlp.vocab, words=doc_words), Doc(nlp.vocab, words=doc_words, ents=tags))
            for doc_words, tags in zip(words, labels, strict=True)]  # fmt: skip


def trained(**config):
    nlp = spacy.blank("en")
    nlp.add_pipe("partwise", config=config)
    nlp.initialize(lambda: examples_of(nlp, WORDS, LABELS))
    return nlp


@pytest.fixture(scope="module")
def nlp():
    return trained(threshold=0.05)


def found(doc):
    return [(e.start, e.end - 1, e.label_, e._.probability) for e in doc.ents]


@pytest.mark.parametrize("scheme", ["BILOU", "IOB2", "IOBES"])
def test_answers_are_those_of_the_model(scheme: str) -> None:
    nlp = trained(scheme=scheme, settings={"tol": 1e-5})
    docs = list(nlp.pipe([Doc(nlp.vocab, words=words) for words in NEW], batch_size=7))
    model = nlp.get_pipe("partwise").estimator
    for doc, expected in zip(docs, model.predict_entities([[(w,) for w in x] for x in NEW]), strict=True):
        assert found(doc) == [tuple(entity) for entity in expected]
        assert all(token.ent_iob_ in "BIO" for token in doc)
    if scheme == "IOB2":  # the labels as they were
        own = SequenceLabeler(template="ner", scheme="IOB2", tol=1e-5).fit(WORDS, LABELS)
        assert own.predict(NEW) == model.predict(NEW)


def test_candidates_and_their_scores(nlp) -> None:
    doc = nlp(Doc(nlp.vocab, words=NEW[0]))
    group = doc.spans["partwise"]
    expected = nlp.get_pipe("partwise").estimator.predict_entities([NEW[0]], threshold=0.05)[0]
    assert [(s.start, s.end - 1, s.label_) for s in group] == [entity[:3] for entity in expected]
    assert np.array_equal(group.attrs["scores"], [entity.probability for entity in expected])
    assert [s._.probability for s in group] == group.attrs["scores"].tolist()
    assert doc[0:1]._.probability is None
    again = next(DocBin(docs=[doc], store_user_data=True).get_docs(nlp.vocab))
    assert found(again) == found(doc) != []
    assert again.spans["partwise"].attrs["scores"].tolist() == group.attrs["scores"].tolist()
    joined = Doc.from_docs([doc, nlp(Doc(nlp.vocab, words=NEW[1]))])
    assert all(entity._.probability is not None for entity in joined.ents)
    assert "partwise" not in trained(spans_key=None)(Doc(nlp.vocab, words=NEW[0])).spans


def test_scores_are_those_of_entities(nlp) -> None:
    scores = nlp.evaluate(examples_of(nlp, NEW, TRUTH))
    own = nlp.get_pipe("partwise").estimator.predict_entities(NEW)
    true = partwise.metrics.chunks
    pairs = [
        (set(true(t)), {(e.type, e.first, e.last + 1) for e in p}) for t, p in zip(TRUTH, own, strict=True)
    ]
    right, wanted, given = (sum(len(f(t, p)) for t, p in pairs)
                            for f in (set.__and__, lambda t, p: t, lambda t, p: p))  # fmt: skip
    assert scores["ents_f"] == pytest.approx(2 * right / (wanted + given)) and scores["ents_f"] > 0.8
    assert set(scores["ents_per_type"]) == {"LOC", "ORG", "PER"} == set(nlp.get_pipe("partwise").labels)


def test_pipelines_are_saved_and_loaded(nlp, tmp_path) -> None:
    docs = [Doc(nlp.vocab, words=words) for words in NEW[:20]]
    expected = [found(doc) for doc in nlp.pipe(doc.copy() for doc in docs)]
    nlp.to_disk(tmp_path / "pipeline")
    others = [spacy.load(tmp_path / "pipeline"), spacy.blank("en"), spacy.blank("en")]
    others[1].add_pipe("partwise")
    others[1].from_bytes(nlp.to_bytes())
    others[2].add_pipe("partwise", source=nlp)
    for other in others:
        assert [found(doc) for doc in other.pipe(Doc(other.vocab, words=w) for w in NEW[:20])] == expected
    assert others[0].get_pipe("partwise").threshold == 0.05
    model = partwise.load(tmp_path / "pipeline" / "partwise" / "model")
    assert model.predict(NEW) == nlp.get_pipe("partwise").estimator.predict(NEW)
    # Pipelines without training can be saved, too; a damaged model raises.
    empty = spacy.blank("en")
    empty.add_pipe("partwise")
    empty.to_disk(tmp_path / "empty")
    assert spacy.load(tmp_path / "empty").get_pipe("partwise").estimator is None
    assert empty.from_bytes(empty.to_bytes()).get_pipe("partwise").labels == ()
    data = nlp.get_pipe("partwise").to_bytes()
    for broken in (data[:-9], b"x", data[:8] + b"\0" + data[9:]):
        with pytest.raises(InputError, match="damaged"):
            EntityComponent().from_bytes(broken)


def test_white_space_other_tokens_and_unknown_labels() -> None:
    nlp = spacy.blank("en")
    component = nlp.add_pipe("partwise")
    doc = nlp.make_doc("Ada \n Berg met  Bob in Rome.")
    gold = doc.copy()
    gold.set_ents([doc.char_span(0, 10, "PER")], missing=[gold[len(gold) - 3 :]], default="outside")
    [x], [y] = component.data([Example(doc, gold)])
    assert [row[0] for row in x] == ["Ada", "Berg", "met", "Bob", "in", "Rome", "."]
    assert y == ["B-PER", "L-PER", "O", "O", None, None, None]
    # The prediction has tokens of its own: entities that fit no tokens are unknown.
    other = Doc(nlp.vocab, words=["Ada", "Berg-met", "Bob"])
    reference = Doc(nlp.vocab, words=["Ada", "Berg", "-", "met", "Bob"], ents=["B-PER", "I-PER", "O", "O", "B-PER"],
                    spaces=[True, False, False, True, False])  # fmt: skip
    assert component.data([Example(other, reference)])[1] == [[None, None, "U-PER"]]
    component.fit([*docs_of(nlp, WORDS, LABELS), gold])
    blank, text = nlp(""), nlp("Ada \n Berg left")
    assert blank.ents == () and nlp("  \n ").ents == ()
    assert [entity.text for entity in text.ents] == ["Ada \n Berg"]


def test_entities_of_earlier_components() -> None:
    for overwrite, expected in ((False, "THING"), (True, "PER")):
        nlp = spacy.blank("en")
        ruler = nlp.add_pipe("entity_ruler")
        nlp.add_pipe("partwise", config={"overwrite": overwrite}).fit(docs_of(nlp, WORDS, LABELS))
        ruler.add_patterns([{"label": "THING", "pattern": "Berg"}])
        doc = nlp(Doc(nlp.vocab, words=["Ada", "Berg", "left", "Oslo"]))
        assert [entity.label_ for entity in doc.ents] == [expected, "LOC"]


@spacy.registry.misc("partwise_test_features")
def make_features():
    return lambda doc: [{"word": token.lower_, "shape": token.shape_} for token in doc]


def test_columns_and_feature_functions(tmp_path) -> None:
    nlp = trained(columns=["text", "shape_"])
    assert found(nlp("Ada Berg left Oslo")) != []
    nlp = trained(features={"@misc": "partwise_test_features"})
    assert any(name.startswith("shape:") for name, _ in nlp.get_pipe("partwise").estimator.state_features_)
    nlp.to_disk(tmp_path)
    assert found(spacy.load(tmp_path)("Ada Berg left Oslo")) == found(nlp("Ada Berg left Oslo")) != []
    short = EntityComponent(features=lambda doc: [])
    with pytest.raises(InputError, match="features returned 0 rows for 2 tokens"):
        short.fit([Doc(nlp.vocab, words=["Ada", "left"], ents=["B-PER", "O"])])


def test_calibration_by_examples(nlp) -> None:
    own = spacy.blank("en")
    component = own.add_pipe("partwise").from_bytes(nlp.get_pipe("partwise").to_bytes())
    component.estimator.calibrate(*component.data(examples_of(own, NEW, TRUTH)), on="entities")
    assert component.estimator.temperature_ != 1.0
    again = EntityComponent().from_bytes(component.to_bytes())
    assert again.estimator.temperature_ == component.estimator.temperature_


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"columns": ["words"]}, r"columns must be attributes of spaCy's tokens"),
        ({"columns": []}, r"columns must be attributes of spaCy's tokens"),
        ({"decode": "best"}, "decode must be"),
        ({"scheme": "BIO"}, "scheme must be"),
        ({"threshold": 2.0}, "threshold must be"),
        ({"settings": {"l3": 1}}, "settings: l3 are no parameters of SequenceLabeler"),
        ({"settings": {"template": "pos"}}, "settings: template are options of the component"),
    ],
)
def test_wrong_configurations(config, message: str) -> None:
    with pytest.raises(InputError, match=message):
        spacy.blank("en").add_pipe("partwise", config=config)


def test_what_cannot_be_trained_or_is_not_trained() -> None:
    nlp = spacy.blank("en")
    component = nlp.add_pipe("partwise")
    with pytest.raises(InputError, match="'partwise' is not trained: call nlp"):
        nlp("Ada left")
    with pytest.raises(InputError, match="none of the 1 training examples has an entity"):
        nlp.initialize()
    with pytest.raises(InputError, match="none of the 0 training examples"):
        component.fit([])
    tagged = EntityComponent(columns=["text", "tag_"])
    with pytest.raises(InputError, match="'tag_' is empty in all examples"):
        tagged.fit(docs_of(nlp, WORDS, LABELS))
    seen = []
    nlp.set_error_handler(lambda name, proc, docs, error: seen.append((name, str(error))))
    assert list(nlp.pipe(["Ada left"])) == [] and "not trained" in seen[0][1]


def test_the_entry_point_leads_to_the_factory() -> None:
    tomllib = pytest.importorskip("tomllib")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, _, name = project["entry-points"]["spacy_factories"]["partwise"].partition(":")
    assert callable(getattr(importlib.import_module(module), name))
    assert any(each.startswith("spacy") for each in project["optional-dependencies"]["spacy"])


def test_the_example_runs(capsys, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["spacy_entities.py"])
    runpy.run_path(str(ROOT / "examples" / "spacy_entities.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Ada Lovelace PER 0.9") or lines[0].startswith("Ada Lovelace PER 1.0")
    assert lines[-1] == "['Ada Lovelace', 'Norde Group', 'Quito']"
