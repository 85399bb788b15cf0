"""Constituency parsers on the command line: training, parsing, scoring, pages, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from commands import refused, run  # noqa: F401
from toy_treebanks import TREES

from partwise.cli import main
from partwise.data import Span, Tree, parse_trees
from partwise.report.constituent_svg import constituent_svg
from partwise.report.constituents import constituent_page


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with treebanks, a parser of tagged words and one of bare ones."""
    folder = tmp_path_factory.mktemp("constituents")
    (folder / "train.mrg").write_text("\n".join(TREES))
    (folder / "words.txt").write_text("the dog sees a ( .\n\nit runs at home .\n")
    for name, extra in (("m.pw", []), ("w.pw", ["--no-tags", "--direction", "head", "--horizontal", "1"])):
        with pytest.raises(SystemExit) as stopped:
            main(["train", "constituency", str(folder / "train.mrg"), "-m", str(folder / name), "-q", *extra])
        assert stopped.value.code == 0
    return folder


def test_train_and_evaluate(run, trained):  # noqa: F811
    code, out, err = run(
        "train", "constituency", trained / "train.mrg", "--model", "h.pw", "--dev", trained / "train.mrg", "--loss",
        "hinge", "--tol", "0.05", "--cost", "rules", "--rule-templates", "default", "--rule-threshold", "1e-3",
        "--split-templates", "default", "--max-length", "7", "--json",
    )  # fmt: skip
    summary = json.loads(out)
    assert code == 0 and summary["converged"] and summary["dev"]["f1"] > 0.8 and "dev F1" in err
    code, out, _ = run("evaluate", "h.pw", trained / "train.mrg", "--json")
    assert code == 0 and json.loads(out)["f1"] == summary["dev"]["f1"]
    code, out, _ = run("evaluate", trained / "m.pw", trained / "train.mrg", "--json")
    scores = json.loads(out)
    assert scores["f1"] == scores["tag_accuracy"] == scores["up_to_40_words"]["f1"] == 1.0
    assert (
        scores["n_sentences"] == len(TREES)
        and scores["n_fallback"] == 0
        and scores["per_label"]["NP"]["true"]
    )
    code, out, _ = run("evaluate", trained / "w.pw", trained / "train.mrg")
    assert code == 0 and "evalb" in out and "outside the grammar" in out
    code, out, _ = run("inspect", trained / "w.pw", "--top", "3")
    assert code == 0 and "part of the parse" in out and "head, 1 siblings" in out


def test_trees_text_and_tagged_words_are_parsed(run, trained):  # noqa: F811
    code, out, err = run("predict", trained / "m.pw", trained / "train.mrg")
    assert code == 0 and out == "\n".join(TREES) + "\n", err
    code, out, _ = run("predict", trained / "w.pw", trained / "words.txt")
    first, second = parse_trees(out).trees
    assert (
        code == 0 and first.words() == ["the", "dog", "sees", "a", "-LRB-", "."] and len(second.words()) == 5
    )
    (trained / "tagged.txt").write_text("it/PRP barks/VBZ ./.\nit/PRP runs/VBZ ./.")
    code, out, _ = run("predict", trained / "m.pw", trained / "tagged.txt", "--output", "out.mrg")
    text = Path("out.mrg").read_text()
    assert (
        code == 0
        and not out
        and text == "".join(f"( (S (NP (PRP it)) (VP (VBZ {verb})) (. .)))\n" for verb in ("barks", "runs"))
    )


def test_export_files_come_back_as_such(run, trained, tmp_path):  # noqa: F811
    from partwise.data import write_trees

    with open(tmp_path / "train.export", "w") as handle:
        write_trees(handle, [Tree.of(tree) for tree in TREES], "export")
    code, out, _ = run("predict", trained / "m.pw", "train.export")
    assert code == 0 and out == (tmp_path / "train.export").read_text()
    code, out, _ = run("evaluate", trained / "m.pw", "train.export", "--json")
    assert json.loads(out)["f1"] == 1.0


def test_json_has_probabilities_and_other_trees(run, trained):  # noqa: F811
    code, out, _ = run(
        "predict", trained / "w.pw", trained / "words.txt", "--json", "--marginals", "--kbest", "3"
    )
    objects = list(map(json.loads, out.splitlines()))
    assert code == 0 and len(objects) == 2
    best = objects[1]["kbest"][0]
    assert best["tree"] == objects[1]["tree"] and 0 < best["probability"] <= 1 and not objects[1]["fallback"]
    found = {tuple(each[:3]): each[3] for each in objects[1]["constituents"]}
    assert all(found[span] > 0 for span in map(tuple, Tree.of(best["tree"]).spans()) if span[2])


def test_a_page_shows_trees_with_probabilities(run, trained, tmp_path):  # noqa: F811
    code, out, _ = run("predict", trained / "m.pw", trained / "train.mrg", "--html", "page.html")
    page = (tmp_path / "page.html").read_text()
    assert code == 0 and out.count("\n") == len(TREES) == page.count("<svg")
    assert "labelled F1" in page and "probability" in page and "<script" not in page


def test_wrong_constituents_are_marked_and_missing_ones_named():
    guess = Tree.of("( (S (NP (DT the) (NN <dog>)) (VP (VBZ barks))))")
    gold = Tree.of("( (S (NP-SBJ (DT the) (NN <dog>)) (VBZ barks) (NP (-NONE- *))))")
    drawn = constituent_svg(guess, {Span(0, 2, "NP"): 0.5}, {Span(0, 2, "NP"), Span(0, 3, "S")})
    assert 'opacity="0.500"' in drawn and drawn.count('class="node wrong"') == 1 and "&lt;dog&gt;" in drawn
    places = [float(x) for x in re.findall(r'<text x="([\d.]+)" y="[\d.]+" class="word"', drawn)]
    assert places == sorted(places) and len(places) == 3
    flat = Tree.of("( (S (NP (DT the) (NN <dog>)) (VBZ barks)))")
    assert "missing: VP [barks]" in constituent_page([flat], gold=[guess])
    page = constituent_page([guess], gold=[gold])
    assert "missing:" not in page and "1 wrong constituent<" in page


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("predict", "m.pw", "words.txt"), ("words.txt:1", "has no tag")),
        (("predict", "m.pw", "words.txt", "--format", "text"), ("words.txt:1", "needs tags")),
        (("predict", "m.pw", "train.mrg", "--marginals"), ("--json",)),
        (("predict", "m.pw", "train.mrg", "--kbest", "2"), ("--json",)),
        (("predict", "m.pw", "train.mrg", "--format", "conll"), ("--format",)),
        (("evaluate", "m.pw", "broken.mrg"), ("broken.mrg:2", "never closed")),
        (("evaluate", "m.pw", "words.txt", "--format", "text"), ("no trees",)),
        (("train", "constituency", "broken.mrg", "-m", "x.pw"), ("broken.mrg:2", "never closed")),
        (
            ("train", "constituency", "train.mrg", "-m", "x.pw", "--direction", "up"),
            ("--direction",),
        ),
        (("train", "constituency", "train.mrg", "-m", "x.pw", "--horizontal", "few"), ("--horizontal",)),
        (("train", "constituency", "train.mrg", "-m", "x.pw", "--span-templates", "none.txt"), ("none.txt",)),
    ],
)
def test_bad_input_is_one_line_and_code_2(run, trained, arguments, words):  # noqa: F811
    (trained / "broken.mrg").write_text("(S (NN a))\n(S (NN b)\n")
    given = [trained / each if (trained / each).exists() else each for each in arguments]
    refused(run(*given), *words)
