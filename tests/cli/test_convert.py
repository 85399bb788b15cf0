"""Models of other programs on the command line: convert, and every command that takes a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from commands import refused, run  # noqa: F401 - a fixture

import partwise
from partwise import CRF, Classifier, SequenceLabeler, read_crfsuite

DATA = "B\tword=the\tlength:3\nI\tword=dog\nO\tword=barked\n\nB\tword=a\nI\tword=cat\nO\tword=slept\n"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    trainer = partwise.crfsuite.Trainer("lbfgs", {"c2": 0.1}, verbose=False)
    trainer.append([{"word=the": 1, "length": 3}, ["word=dog"], ["word=barked"]], "BIO")
    trainer.append([["word=a"], ["word=cat"], ["word=slept"]], "BIO")
    trainer.train(tmp_path / "model.crfsuite")
    (tmp_path / "data").write_text(DATA)
    return tmp_path / "model.crfsuite"


def test_commands_read_models_of_crfsuite(run: Any, model: Path) -> None:
    assert run("predict", model, "data")[:2] == (0, "B\nI\nO\n\nB\nI\nO\n\n")
    assert json.loads(run("evaluate", model, "data", "--json")[1])["accuracy"] == 1.0
    _, shown, _ = run("inspect", model)
    assert "word=dog" in shown and "not trained here" in shown and "nan" not in shown
    Path("one.jsonl").write_text('{"features": [{"word=the": 1.0}, {"word=dog": 1.0}]}\n')
    _, found, _ = run("predict", model, "one.jsonl", "--format", "jsonl", "--marginals")
    assert json.loads(found)["labels"] == ["B", "I"]
    assert run("report", model, "-o", "page.html")[0] == 0 and "word=dog" in Path("page.html").read_text()


def test_convert_there_and_back(run: Any, model: Path) -> None:
    assert "in the format of partwise" in run("convert", model, "own")[1]
    assert run("predict", "own", "data")[1] == "B\nI\nO\n\nB\nI\nO\n\n"
    assert type(partwise.load("own")) is CRF
    assert "in the format of crfsuite" in run("convert", "own", "back")[1]
    assert read_crfsuite("back").state_features_ == read_crfsuite(model).state_features_
    assert "in the format of crfsuite" in run("convert", model, "same", "--to", "crfsuite")[1]
    assert Path("same").read_bytes() == Path("back").read_bytes()


def test_what_cannot_be_converted(run: Any, model: Path) -> None:
    SequenceLabeler(template="word[0]").fit([["a", "b"]], [["x", "y"]]).save("columns")
    Classifier().fit([[0.0], [1.0]], ["x", "y"]).save("classes")
    Path("damaged").write_bytes(model.read_bytes()[:-9])
    for arguments, words in (
        (("columns", "out"), "it makes its features itself"),
        (("classes", "out"), "a Classifier cannot be written in CRFsuite's format"),
        (("damaged", "out"), "damaged: damaged CRFsuite model: it should have"),
        (("none", "out"), "none: no such file"),
        (("data", "out"), "not a model file"),
        ((model, model), "is the same file as FROM"),
        ((model, "out", "--to", "mallet"), "--to must be partwise or crfsuite"),
        ((model, "out", "--encoding", "utf-16"), "encoding 'utf-16' is unknown"),
    ):
        refused(run("convert", *arguments), words)
    assert not Path("out").exists()
