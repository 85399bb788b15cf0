"""Parsers on the command line: training, parsing, scoring, pages, and what is refused with file and line."""

from __future__ import annotations

import json
import re

import pytest
from commands import refused, run  # noqa: F401
from toy_treebanks import toy

from partwise.cli import main
from partwise.data import read_dependencies, write_dependencies
from partwise.data.dependency import parse_dependencies

COMMENTED = (
    "# sent_id = 1\n"
    "1-2\td0n0\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No\n"
    "1\td0\td\tD\tD\t_\t_\t_\t_\tx=y\n"
    "2\tn0\tn\tN\tN\t_\t_\t_\t_\t_\n"
    "2.1\tv9\tv\tV\tV\t_\t_\t_\t0:root\t_\n"
    "3\tv0\tv\tV\tV\t_\t_\t_\t_\t_\n"
    "\n"
)


def treebank(path, corpus):
    with open(path, "w", newline="", encoding="utf-8") as handle:
        write_dependencies(handle, corpus)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with treebanks and a parser."""
    folder = tmp_path_factory.mktemp("parser")
    treebank(folder / "train.conllu", toy(60))
    treebank(folder / "test.conllu", toy(20, seed=8))
    with pytest.raises(SystemExit) as stopped:
        main(
            [
                "train",
                "dependency",
                str(folder / "train.conllu"),
                "-m",
                str(folder / "m.pw"),
                "-q",
                "--prune",
                "3",
            ]
        )
    assert stopped.value.code == 0
    return folder


def test_train_and_evaluate(run, trained):  # noqa: F811
    code, out, err = run(
        "train", "dependency", trained / "train.conllu", "--model", "h.pw", "--dev", trained / "test.conllu",
        "--loss", "hinge", "--l2", "50", "--tol", "0.02", "--structure", "projective", "--cost", "labelled", "--json",
    )  # fmt: skip
    summary = json.loads(out)
    assert code == 0 and summary["converged"] and summary["dev"]["uas"] > 0.9 and "dev UAS" in err
    assert summary["lifted_arcs"] >= summary["lifted_sentences"] > 0
    code, out, _ = run("evaluate", "h.pw", trained / "test.conllu", "--json")
    scores = json.loads(out)
    assert code == 0 and scores["uas"] == summary["dev"]["uas"] and scores["las"] == summary["dev"]["las"]
    code, out, _ = run("evaluate", trained / "m.pw", trained / "test.conllu", "--json")
    scores = json.loads(out)
    assert scores["uas"] > 0.95 and scores["las"] > 0.95 and scores["pruning"]["recall"] > 0.9
    assert scores["conll2018"]["uas"] == pytest.approx(scores["uas"])
    assert scores["uas_no_punctuation"] == scores["uas"] and scores["n_sentences"] == 20
    code, out, _ = run("evaluate", trained / "m.pw", trained / "test.conllu")
    assert code == 0 and "UAS" in out and "CoNLL 2018" in out and "det" in out


def test_parsing_changes_two_columns_only(run, tmp_path, trained):  # noqa: F811
    (tmp_path / "in.conllu").write_text(COMMENTED)
    code, out, err = run("predict", trained / "m.pw", "in.conllu")
    assert code == 0, err
    before, after = COMMENTED.split("\n"), out.split("\n")
    assert len(before) == len(after)
    for old, new in zip(before, after, strict=True):
        columns = zip(old.split("\t"), new.split("\t"), strict=True)
        changed = [k for k, (a, b) in enumerate(columns) if a != b]
        assert changed in ([], [6, 7])
    parsed = parse_dependencies(out)
    assert parsed.heads.tolist() == [2, 3, 0] and parsed.relations == ["det", "arg", "root"]


def test_probabilities_and_json(run, tmp_path, trained):  # noqa: F811
    (tmp_path / "in.conllu").write_text(COMMENTED)
    code, out, _ = run("predict", trained / "m.pw", "in.conllu", "--marginals", "-o", "out.conllu")
    text = (tmp_path / "out.conllu").read_text()
    assert code == 0 and out == "" and "x=y|ArcProbability=0." in text
    assert len(re.findall(r"\tArcProbability=\d", text)) == 2
    code, out, _ = run("predict", trained / "m.pw", "in.conllu", "--json", "--kbest", "2", "--marginals")
    found = json.loads(out)
    assert found["heads"] == [2, 3, 0] and len(found["probabilities"]) == 3
    assert found["kbest"][0]["heads"] == [2, 3, 0] and len(found["kbest"]) == 2
    (tmp_path / "in.dp").write_text("d0\tD\t_\nv0\tV\t_\n\n")
    code, out, _ = run("predict", trained / "m.pw", "in.dp", "--marginals")
    assert code == 0 and re.fullmatch(r"d0\tD\t2\t[01]\.\d{4}\nv0\tV\t0\t[01]\.\d{4}\n\n", out), out


def test_a_page_of_trees(run, tmp_path, trained):  # noqa: F811
    code, out, err = run("predict", trained / "m.pw", trained / "test.conllu", "--html", "page.html")
    page = (tmp_path / "page.html").read_text()
    assert code == 0 and out.count("\n\n") == 20, err
    assert page.count("<svg") == 20 and "unlabelled attachment" in page and "less probable" in page
    test = read_dependencies(trained / "test.conllu")
    assert parse_dependencies(out).forms == test.forms


def test_inspect_and_report(run, tmp_path, trained):  # noqa: F811
    code, out, _ = run("inspect", trained / "m.pw", "--top", "5", "--json")
    summary = json.loads(out)
    assert code == 0 and summary["estimator"] == "DependencyParser" and summary["sizes"]["relations"] == 6
    weights = [abs(each["weight"]) for each in summary["top_features"]]
    assert len(weights) == 5 and weights == sorted(weights, reverse=True)
    code, out, _ = run("inspect", trained / "m.pw", "--label", "det")
    assert code == 0 and "det" in out and "pruning" in out
    code, _, _ = run("report", trained / "m.pw", "-o", "model.html")
    assert code == 0 and "DependencyParser" in (tmp_path / "model.html").read_text()


GOOD = "1\ta\t_\tX\tX\t_\t0\troot\t_\t_\n2\tb\t_\tX\tX\t_\t1\tdep\t_\t_\n\n"
BAD_TRAINING = {
    "cycle": (GOOD + GOOD.replace("\t0\t", "\t2\t"), (), "t.conllu:4:", "cycle"),
    "two roots": (GOOD + GOOD.replace("\t1\tdep", "\t0\tdep"), ("--single-root", "yes"), "t.conllu:5:", "second root"),
    "out of range": (GOOD + GOOD.replace("\t1\tdep", "\t9\tdep"), (), "t.conllu:5:", "head 9"),
    "no head": (GOOD.replace("\t1\tdep", "\t_\tdep"), (), "t.conllu:2:", "has no head"),
    "no number": (GOOD.replace("\t1\tdep", "\tx\tdep"), (), "t.conllu:2:", "'x'"),
    "columns": (GOOD + "1\ta\n", (), "t.conllu:4:"),
    "nothing": ("", (), "t.conllu"),
    "blank": ("\n\n\n", (), "t.conllu"),
    "crossing": (
        "".join(f"{i}\tw\t_\tX\tX\t_\t{h}\td\t_\t_\n" for i, h in enumerate([3, 4, 0, 3], 1)),
        ("--structure", "projective", "--non-projective", "error"), "t.conllu:", "not projective",
    ),
    "all crossing": (
        "".join(f"{i}\tw\t_\tX\tX\t_\t{h}\td\t_\t_\n" for i, h in enumerate([3, 4, 0, 3], 1)),
        ("--structure", "projective", "--non-projective", "skip"), "no sentence is left",
    ),
    "structure": (GOOD, ("--structure", "graph"), "--structure must be"),
    "root": (GOOD, ("--single-root", "maybe"), "--single-root must be"),
    "cost": (GOOD, ("--cost", "none"), "--cost must be"),
    "prune": (GOOD, ("--prune", "-1"), "--prune must be"),
    "templates": (GOOD, ("--templates", "gone.txt"), "gone.txt"),
    "format": (GOOD, ("--format", "xml"), "xml"),
    "dev": (GOOD, ("--dev", "gone.conllu"), "gone.conllu"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_TRAINING)
def test_bad_treebanks(run, tmp_path, name):  # noqa: F811
    content, options, *words = BAD_TRAINING[name]
    (tmp_path / "t.conllu").write_text(content)
    refused(run("train", "dependency", "t.conllu", "--model", "m.pw", "-q", *options), *words)
    assert not (tmp_path / "m.pw").exists()


def test_bad_requests(run, tmp_path, trained):  # noqa: F811
    (tmp_path / "in.conllu").write_text(COMMENTED)
    refused(run("predict", trained / "m.pw", "in.conllu", "--kbest", "2"), "--json")
    refused(run("predict", trained / "m.pw", "in.conllu", "--kbest", "2", "--html", "p.html"), "--html")
    refused(run("evaluate", trained / "m.pw", "in.conllu"), "in.conllu:3", "has no head")
    (tmp_path / "templates.txt").write_text("# mine\nhead.tag + modifier.tag\nhead.tag + direction\n")
    code, _, err = run(
        "train", "dependency", trained / "train.conllu", "-m", "t.pw", "-q", "--templates", "templates.txt",
        "--unlabelled",
    )  # fmt: skip
    assert code == 0, err
    code, out, _ = run("evaluate", "t.pw", trained / "test.conllu", "--json")
    assert json.loads(out)["las"] is None and json.loads(out)["uas"] > 0.7
