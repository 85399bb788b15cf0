"""Sets of labels on the command line, in reports and in the server."""

# ruff: noqa: F811  (fixtures are imported, and named again by the tests that take them)

from __future__ import annotations

import json

import numpy as np
import pytest
from commands import refused, run  # noqa: F401

import partwise
from partwise.scoring.label_sets import label_set_scores
from partwise.tasks import task_of
from partwise.web.sections import score_section


def examples():
    """Rows of three numbers; a label where a number is large, and "b" often comes with "a"."""
    random = np.random.default_rng(0)
    rows = random.normal(size=(60, 3)).round(2)
    sets = [[name for name, value in zip("abc", row, strict=True) if value > 0.2] for row in rows]
    for own in sets[::2]:
        if "a" in own and "b" not in own:
            own.append("b")
    return rows.tolist(), sets


ROWS, SETS = examples()
LIBSVM = "".join(
    " ".join(filter(None, [",".join(own), *(f"{k}:{value}" for k, value in enumerate(row, 1))])) + "\n"
    for row, own in zip(ROWS, SETS, strict=True)
)
JSON = "".join(
    json.dumps({"id": i, "features": dict(zip("uvw", row, strict=True)), "labels": own}) + "\n"
    for i, (row, own) in enumerate(zip(ROWS, SETS, strict=True))
)


@pytest.mark.parametrize(("name", "text"), [("data.libsvm", LIBSVM), ("data.jsonl", JSON)])
def test_train_predict_evaluate_report(run, tmp_path, name, text):
    (tmp_path / name).write_text(text)
    code, out, err = run("train", "multilabel", name, "-m", "m.pw", "--dev", name, "--l2", 0.1, "--json")
    assert code == 0 and json.loads(out)["dev"]["f1_kind"] == "micro"
    assert f"read as {name.split('.')[1]}" in err and "% of sets" in err
    code, out, _ = run("evaluate", "m.pw", name, "--json")
    scores = json.loads(out)
    assert code == 0 and scores["f1"] > 0.85 and set(scores["per_label"]) == set("abc")
    code, out, _ = run("predict", "m.pw", name, "--json", "--marginals")
    objects = [json.loads(line) for line in out.splitlines()]
    assert len(objects) == 60 and all(set(each["labels"]) <= set("abc") for each in objects)
    assert sum(set(each["labels"]) == set(own) for each, own in zip(objects, SETS, strict=True)) > 40
    assert all(0 <= p <= 1 for each in objects for p in each["marginals"].values())
    assert run("report", "m.pw", "--data", name, "-o", "r.html")[0] == 0
    assert "exact sets" in (tmp_path / "r.html").read_text()
    code, out, _ = run("inspect", "m.pw", "--label", "a", "--json")
    assert {each["label"] for each in json.loads(out)["top_features"]} == {"a"}
    assert run("path", "multilabel", name, "-m", "p.pw", "--dev", name, "--l2", "1,0.1", "-q")[0] == 0
    assert run("calibrate", "m.pw", name)[0] == 0


def test_predictions_are_appended_to_lines(run, tmp_path):
    (tmp_path / "train").write_text(LIBSVM)
    assert run("train", "multilabel", "train", "-m", "m.pw", "--l2", 0.1, "--graph", "tree", "-q")[0] == 0
    (tmp_path / "in").write_text("1:3 2:3 3:-3\n\na 1:-3 2:-3 3:-3\n")
    assert run("predict", "m.pw", "in")[1] == "1:3 2:3 3:-3 a,b\n\na 1:-3 2:-3 3:-3 -\n"
    first, _, last = run("predict", "m.pw", "in", "--marginals")[1].splitlines()
    assert first == "1:3 2:3 3:-3 a,b a:1.0000,b:1.0000"
    assert len(last.split()) == 6


def test_bad_input_is_one_line(run, tmp_path):
    (tmp_path / "train").write_text(LIBSVM)
    (tmp_path / "no_labels").write_text("1:1\n1:2\n")
    (tmp_path / "bad.jsonl").write_text('{"features": [1.0], "labels": ["a"]}\n{"features": 3}\n')
    (tmp_path / "bad").write_text("a 1:1\na x\n")
    refused(run("train", "multilabel", "no_labels", "-m", "m.pw"), "no labels in this file")
    refused(run("train", "multilabel", "bad.jsonl", "-m", "m.pw"), "bad.jsonl:2", '"features" must be')
    refused(run("train", "multilabel", "bad", "-m", "m.pw"), "bad:2", "is not index:value")
    refused(run("train", "multilabel", "train", "-m", "m.pw", "--graph", "odd"), "--graph must be full")
    assert run("train", "multilabel", "train", "-m", "m.pw", "--loss", "hinge", "-q")[0] == 0
    refused(run("predict", "m.pw", "train", "--marginals"), "no probabilities")
    refused(run("predict", "m.pw", "train", "--kbest", 2), "--marginals gives")


def test_pages_show_each_label_with_yes_or_no(run, tmp_path):
    (tmp_path / "train").write_text(LIBSVM)
    assert run("train", "multilabel", "train", "-m", "m.pw", "--l2", 0.1, "-q")[0] == 0
    model = partwise.load("m.pw")
    task = task_of(model)(model)
    answer = task.answer(task.read({"text": "0 3 3 -3"}), ["a"])
    assert answer["tokens"] == list("abc") and answer["labels"] == ["yes", "yes", "no"]
    assert answer["truth"] == ["yes", "no", "no"] and answer["marginals"][0][0][0] == "yes"
    chosen = model.decision_function([[0.0, 3.0, 3.0, -3.0]])[0] > 0
    assert chosen.tolist() == [True, True, False]
    # The terms add up to the score of the labels above that of none.
    a, b = model.coef_[:2] @ [0.0, 3.0, 3.0, -3.0] + model.intercept_[:2]
    pairs = {pair: w[1 if pair[0] < 2 else 0, 1 if pair[1] < 2 else 0] - w[0, 0]
             for pair, w in zip(model.pairs_, model.pair_coef_, strict=True)}  # fmt: skip
    assert answer["score"] == pytest.approx(a + b + sum(pairs.values()))
    assert task.answer(task.read({"text": task.expects()["example"]}))["labels"]
    section = score_section(task.evidence(*task.labelled("train")))
    assert section["labels"] and "reliability" in section and "confusion" not in section


def test_scores_of_sets():
    found = label_set_scores([{"a"}, {"a", "b"}, set()], [{"a"}, {"b"}, {"c"}])
    assert found.accuracy == pytest.approx(1 / 3)
    assert (found.precision, found.recall) == (pytest.approx(2 / 3), pytest.approx(2 / 3))
    by_label = {row.label: row for row in found.per_label}
    assert by_label["a"].precision == 1.0 and by_label["a"].recall == 0.5 and by_label["c"].f1 == 0.0
