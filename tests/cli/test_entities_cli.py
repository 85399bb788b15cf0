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


# -- calibration and guarantees -----------------------------------------------------------------------


def test_entities_are_scored_and_calibrated(run, trained, tmp_path):
    data = trained / "train.txt"
    code, out, _ = run("evaluate", trained / "m.pw", data, "--entities")
    assert code == 0 and "calibration error of entities" in out and "probability at least" in out
    _, out, _ = run("evaluate", trained / "m.pw", data, "--entities", "--json")
    scores = json.loads(out)["entities"]
    assert scores["n_true"] == 42 and scores["predicted"]["n_parts"] > 0
    for options, words in (
        (["--on", "entities"], "temperature"),
        (["--on", "entities", "--method", "isotonic"], "isotonic regression"),
    ):
        code, out, _ = run("calibrate", trained / "m.pw", data, "-o", "c.pw", *options)
        assert code == 0 and words in out and "possible entities" in out and "model written to c.pw" in out
        model = partwise.load("c.pw")
        assert (model.entity_map_ is not None) == ("isotonic" in options) == (model.temperature_ == 1.0)


def test_sets_and_risks_in_files(run, trained, tmp_path):
    data = tmp_path / "many.txt"
    data.write_text("\n".join(SENTENCES * 60))
    code, out, _ = run("calibrate", trained / "m.pw", data, "-o", "a.pw", "--coverage", 0.8, "--by-type")
    assert code == 0 and "sets of entities hold the truth with probability 0.8" in out
    code, out, _ = run("calibrate", "a.pw", data, "-o", "b.pw", "--risk", 0.4, "--json")
    found = json.loads(out)
    assert code == 0 and found["risk"] == 0.4 and found["n_examples"] == 240 and found["model"] == "b.pw"
    model = partwise.load("b.pw")
    assert model.conformal_.coverage == 0.8 and model.predict_sets([["Ada"]])[0]
    (tmp_path / "in.txt").write_text("Love\nis\nBo\n\nOslo\n")
    _, out, _ = run("predict", "b.pw", "in.txt", "--entities", "--risk", 0.4)
    expected = model.predict_entities([["Love", "is", "Bo"], ["Oslo"]], risk=0.4)
    assert [cell for line in out.splitlines() if line and (cell := line.split()[2]) != "_"] == [
        shown(entity) for own in expected for entity in own
    ]
    refused(
        run("predict", "b.pw", "in.txt", "--entities", "--risk", 0.1),
        "calibrate --risk",
        "this model has 0.4",
    )
    refused(run("predict", "b.pw", "in.txt", "--risk", 0.4), "--risk is for --entities")
    refused(run("calibrate", "b.pw", data, "--risk", 0.001), "no threshold keeps")
    refused(run("calibrate", "b.pw", data, "--coverage", 2), "coverage must be a number between 0 and 1")
    refused(run("calibrate", "b.pw", data, "--coverage", 0.9, "--risk", 0.1), "two calibrations")
    refused(run("calibrate", "b.pw", data, "--by-type"), "--sets and --by-type are for --coverage")
    assert partwise.load("b.pw").risk_controls_ == model.risk_controls_


def test_sets_of_classes_in_files(run, tmp_path):
    rows = "".join(f"{k % 7},{k % 3},{'x' if k % 7 < 3 else 'y'}\n" for k in range(200))
    (tmp_path / "table.csv").write_text("a,b,class\n" + rows)
    run("train", "classify", "table.csv", "--model", "c.pw", "-q")
    code, out, _ = run("calibrate", "c.pw", "table.csv", "--coverage", 0.9)
    assert code == 0 and "sets of classes" in out
    assert partwise.load("c.pw").predict_sets([[1.0, 2.0]])[0][0][0] == "x"
    refused(run("calibrate", "c.pw", "table.csv", "--risk", 0.1), "--risk is for models of sequences")
    refused(run("calibrate", "c.pw", "table.csv", "--on", "entities"), "are for models of sequences")
    refused(run("evaluate", "c.pw", "table.csv", "--entities"), "--entities is for models of sequences")
