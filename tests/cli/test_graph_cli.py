"""Graphs on the command line: train, predict, evaluate, and what is said of bad files."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from partwise.cli import main


def run(*arguments: Any) -> int:
    with pytest.raises(SystemExit) as caught:
        main([str(each) for each in arguments])
    return int(caught.value.code or 0)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Paths of words in lower or upper case, whose labels mostly repeat."""
    random = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("graphs") / "train.jsonl"
    with path.open("w") as file:
        for i in range(20):
            labels = np.cumsum(random.random(3) < 0.3) % 2
            nodes = [
                {"features": {"word": "Xx"[k if random.random() < 0.8 else 1 - k]}, "label": "AB"[k]}
                for k in labels
            ]
            file.write(json.dumps({"id": i, "nodes": nodes, "edges": [[0, 1], [1, 2]]}) + "\n")
    return path


@pytest.fixture(scope="module")
def model(data: Path) -> Path:
    path = data.parent / "model"
    assert run("train", "graph", data, "-m", path, "--dev", data, "--quiet") == 0
    return path


def test_training_tells_how_it_went(data: Path, tmp_path: Path, capsys: Any) -> None:
    options = ["--loss", "hinge", "--edges", "symmetric", "--pairs", "observed", "--json", "--quiet"]
    assert run("train", "graph", data, "-m", tmp_path / "m", *options) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["converged"] and found["certificate_kind"] == "exact"


def test_evaluation_and_inspection(model: Path, data: Path, capsys: Any) -> None:
    assert run("evaluate", model, data, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["n_graphs"] == 20 and found["n_nodes"] == 60 and 0.7 < found["accuracy"] <= 1.0
    assert run("evaluate", model, data) == 0 and "of 60 labels" in capsys.readouterr().out
    assert run("inspect", model) == 0
    shown = capsys.readouterr().out
    assert "GraphLabeler" in shown and "inference  exact" in shown and "word:X" in shown
    assert run("report", model, "--output", data.parent / "page.html") == 0


def test_predictions_are_graphs_again(model: Path, data: Path, tmp_path: Path, capsys: Any) -> None:
    assert run("predict", model, data, "--marginals", "--kbest", "2", "-o", tmp_path / "out") == 0
    given = [json.loads(line) for line in data.read_text().splitlines()]
    found = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    for before, after in zip(given, found, strict=True):
        assert after["id"] == before["id"] and after["edges"] == before["edges"]
        assert [node["features"] for node in after["nodes"]] == [node["features"] for node in before["nodes"]]
        assert [node["label"] for node in after["nodes"]] == after["kbest"][0]["labels"]
        assert all(sum(node["marginals"].values()) == pytest.approx(1, abs=0.01) for node in after["nodes"])
        assert after["kbest"][0]["probability"] >= after["kbest"][1]["probability"]
    assert run("evaluate", model, tmp_path / "out", "--json") == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == 1.0


def test_graphs_may_come_by_standard_input(model: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"nodes": [{"features": {"word": "x"}}]}\n'))
    assert run("predict", model, "-") == 0
    assert json.loads(capsys.readouterr().out)["nodes"][0]["label"] == "B"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "this file is empty"),
        ('{"nodes": [{}]}', "no labels in this file; training needs them"),
        ('{"nodes": [{"label": "a"}, {}]}', "graph 1: node 1 has no label"),
        ('{"nodes": [{"label": "a"}], "edges": [[0, 3]]}', ':1: "edges"[0] names node 3'),
        (
            '{"nodes": [{"label": "a", "features": [1]}]}\n{"nodes": [{"label": "a", "features": [1, 2]}]}',
            "columns",
        ),
        ('{"nodes": [{"label": "a"}]}', "not one feature"),
    ],
)
def test_bad_files_are_one_line(text: str, message: str, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "file").write_text(text)
    assert run("train", "graph", tmp_path / "file", "-m", tmp_path / "model", "--quiet") == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1 and not (tmp_path / "model").exists()


def test_what_models_refuse(model: Path, data: Path, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "file").write_text('{"nodes": [{"features": [1.0]}]}\n')
    assert run("predict", model, tmp_path / "file") == 2
    assert "features of kind 'node'" in capsys.readouterr().err
    assert run("predict", model, data, "--html", tmp_path / "page") == 2
    assert run("predict", model, data, "--format", "conll") == 2
    assert run("train", "graph", data, "-m", tmp_path / "m", "--inference", "guess") == 2
    assert "--inference must be" in capsys.readouterr().err
