"""Models of other programs on the command line: convert, and every command that takes a model."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from commands import refused, run  # noqa: F401 - a fixture

import partwise
from partwise import CRF, Classifier, SequenceLabeler, read_crfsuite
from partwise.data import read

DATA = "B\tword=the\tlength:3\nI\tword=dog\nO\tword=barked\n\nB\tword=a\nI\tword=cat\nO\tword=slept\n"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    trainer = partwise.crfsuite.Trainer("lbfgs", {"c2": 0.1}, verbose=False)
    trainer.append([{"word=the": 1, "length": 3}, ["word=dog"], ["word=barked"]], "BIO")
    trainer.append([["word=a"], ["word=cat"], ["word=slept"]], "BIO")
    trainer.train(tmp_path / "model.crfsuite")
    (tmp_path / "data").write_text(DATA)
    return tmp_path / "model.crfsuite"


def test_commands_read_models_of_crfsuite(run, model: Path) -> None:  # noqa: F811
    assert run("predict", model, "data")[:2] == (0, "B\nI\nO\n\nB\nI\nO\n\n")
    assert json.loads(run("evaluate", model, "data", "--json")[1])["accuracy"] == 1.0
    _, shown, _ = run("inspect", model)
    assert "word=dog" in shown and "not trained here" in shown and "nan" not in shown
    Path("one.jsonl").write_text('{"features": [{"word=the": 1.0}, {"word=dog": 1.0}]}\n')
    _, found, _ = run("predict", model, "one.jsonl", "--format", "jsonl", "--marginals")
    assert json.loads(found)["labels"] == ["B", "I"]
    assert run("report", model, "-o", "page.html")[0] == 0 and "word=dog" in Path("page.html").read_text()


def test_convert_there_and_back(run, model: Path) -> None:  # noqa: F811
    assert "in the format of partwise" in run("convert", model, "own")[1]
    assert run("predict", "own", "data")[1] == "B\nI\nO\n\nB\nI\nO\n\n"
    assert type(partwise.load("own")) is CRF
    assert "in the format of crfsuite" in run("convert", "own", "back")[1]
    assert read_crfsuite("back").state_features_ == read_crfsuite(model).state_features_
    assert "in the format of crfsuite" in run("convert", model, "same", "--to", "crfsuite")[1]
    assert Path("same").read_bytes() == Path("back").read_bytes()


def test_what_cannot_be_converted(run, model: Path) -> None:  # noqa: F811
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


def test_text_in_other_encodings(run, tmp_path: Path) -> None:  # noqa: F811
    """The same models and predictions from Latin-1 and UTF-16, whole and as a stream, plain and gzipped."""
    text = "".join(f"{w} {t}\n" if w else "\n" for w, t in [("Müller", "N"), ("läuft", "V"), ("", "")] * 30)
    Path("utf8").write_text(text, "utf-8")
    train = ("train", "sequence", "--template", "word[0]", "--quiet", "--tol", "0.1")
    assert run(*train, "utf8", "-m", "m")[0] == 0
    wanted = run("predict", "m", "utf8")[1]
    assert wanted.startswith("Müller N N\nläuft V V\n")
    for encoding in ("latin-1", "utf-16"):
        Path("other").write_bytes(text.encode(encoding))
        Path("zipped").write_bytes(gzip.compress(text.encode(encoding)))
        for name in ("other", "zipped"):
            assert run("predict", "m", name, "--encoding", encoding)[:2] == (0, wanted)
            assert run("evaluate", "m", name, "--encoding", encoding)[0] == 0
            assert run(*train, name, "-m", "m2", "--encoding", encoding)[0] == 0
            assert partwise.load("m2").coef_.tolist() == partwise.load("m").coef_.tolist()
        assert read("other", encoding=encoding).columns == read("utf8").columns
    Path("other").write_bytes(text.encode("latin-1"))
    refused(
        run("predict", "m", "other"),
        "other:1: byte 0xfc is not UTF-8; name the encoding (--encoding latin-1)",
    )
    refused(run("predict", "m", "other", "--encoding", "ascii"), "other: not text in ascii")
    refused(run("predict", "m", "other", "--encoding", "klingon"), "encoding 'klingon' is unknown")
    assert read("utf8").columns[0][0] == "Müller"  # the choice ends with the command
