"""`predict --entities`: columns and JSON lines, character offsets, candidates, decoding, and what is refused."""

# ruff: noqa: F811  (fixtures are imported, and named again by the tests that take them)

from __future__ import annotations

import json

import pytest
from commands import refused, run  # noqa: F401

import partwise
from partwise.cli import main

SENTENCES = [
    "Ada B-PER\nLove I-PER\nis O\nin O\nOslo B-LOC\n",
    "Oslo B-LOC\nsaw O\nBo B-PER\n",
    "Love O\nis O\nin O\nAda B-PER\n",
    "Bo B-LOC\nis O\nOslo B-PER\n",
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with labelled data, models of sequences, of segments, and of tags without entities."""
    folder = tmp_path_factory.mktemp("entities")
    (folder / "train.txt").write_text("\n".join(SENTENCES * 6))
    (folder / "tags.txt").write_text("a X\nb Y\n\nb Y\n")
    for command, data, name in (
        ("sequence", "train.txt", "m.pw"),
        ("segments", "train.txt", "s.pw"),
        ("sequence", "tags.txt", "t.pw"),
    ):
        with pytest.raises(SystemExit) as stopped:
            main(["train", command, str(folder / data), "--model", str(folder / name), "-q"])
        assert stopped.value.code == 0
    return folder


def shown(entity):
    return f"{entity.type}:{entity.last - entity.first + 1}:{entity.probability:.4f}"


@pytest.mark.parametrize("model", ["m.pw", "s.pw"])
@pytest.mark.parametrize("options", [[], ["--threshold", 0.05], ["--decode", "mbr"]])
def test_columns(run, trained, tmp_path, model, options):
    words = ["Ada", "Love", "in", "Oslo"]
    (tmp_path / "in.txt").write_text("-DOCSTART-\n\n" + "\n".join(words) + "\n\nBo\n")
    code, out, err = run("predict", trained / model, "in.txt", "--entities", *options)
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines() if line]
    assert {len(row) for row in rows} == {3} and rows[0] == ["-DOCSTART-", "O", "O"]
    keywords = dict(zip([str(each).lstrip("-") for each in options[::2]], options[1::2], strict=True))
    found = partwise.load(trained / model).predict_entities([words, ["Bo"]], **keywords)
    expected = [["_"] * 4, ["_"]]
    for column, own in zip(expected, found, strict=True):
        for entity in own:
            column[entity.first] = ",".join(shown(e) for e in own if e.first == entity.first)
    assert [row[2] for row in rows[1:]] == [cell for column in expected for cell in column]
    assert any("," in cell for column in expected for cell in column) == ("--threshold" in options)


def test_json_lines_with_offsets(run, trained, tmp_path):
    line = {"id": 3, "text": "Ada  Love in Oslo", "tokens": ["Ada", "Love", "in", "Oslo"]}
    line["offsets"] = [[0, 3], [5, 9], [10, 12], [13, 17]]
    plain = {"tokens": ["Oslo", "saw"], "labels": ["O", "O"]}
    (tmp_path / "in.jsonl").write_text(json.dumps(line) + "\n" + json.dumps(plain) + "\n")
    command = ("predict", trained / "m.pw", "in.jsonl", "--format", "jsonl", "--entities")
    code, out, _ = run(*command)
    first, second = (json.loads(each) for each in out.splitlines())
    assert code == 0 and first["id"] == 3 and first["offsets"] == line["offsets"]
    person, place = first["entities"]
    p = person.pop("probability")
    assert person == {"first": 0, "last": 1, "type": "PER", "start": 0, "end": 9, "text": "Ada  Love"}
    assert 0.5 < p < 1.0 and place["text"] == "Oslo"
    [other] = second["entities"]
    assert other["text"] == "Oslo" and "start" not in other
    for wrong, words in (([[0, 3]], "a list of 4 pairs"), ([[0, 3], [5, 9], [12, 10], [13, 17]], "[2]")):
        (tmp_path / "in.jsonl").write_text(json.dumps(line | {"offsets": wrong}))
        refused(run(*command), "sequence 'Ada Love in Oslo'", '"offsets"', words)


def test_labels_of_another_goal(run, trained, tmp_path):
    (tmp_path / "in.txt").write_text("Love\nis\nBo\n\nOslo\n")
    for decode in ("marginal", "mbr"):
        _, out, _ = run("predict", trained / "m.pw", "in.txt", "--decode", decode)
        expected = partwise.load(trained / "m.pw").predict([["Love", "is", "Bo"], ["Oslo"]], decode=decode)
        assert [line.split()[1] for line in out.splitlines() if line] == [*expected[0], *expected[1]]


def test_what_is_refused(run, trained, tmp_path):
    (tmp_path / "in.txt").write_text("Bo\n")
    run("train", "sequence", trained / "train.txt", "--model", "h.pw", "--loss", "hinge", "-q")
    (tmp_path / "table.csv").write_text("a,class\n1,x\n2,y\n")
    run("train", "classify", "table.csv", "--model", "c.pw", "-q")
    for model, options, words in (
        (trained / "m.pw", ["--threshold", 0.5], "--threshold is for --entities"),
        (trained / "m.pw", ["--entities", "--threshold", 2], "threshold must be a probability"),
        (trained / "m.pw", ["--decode", "beam"], "--decode must be 'viterbi' or"),
        (trained / "s.pw", ["--decode", "marginal"], "use 'viterbi' or 'mbr' for segments"),
        (trained / "t.pw", ["--entities"], "mark no entities"),
        ("h.pw", ["--entities"], "no probabilities"),
        ("h.pw", ["--decode", "mbr"], "no probabilities"),
        ("c.pw", ["--entities"], "--entities is for models of sequences and segments"),
    ):
        refused(run("predict", model, "in.txt", *options), words)
