"""`partwise path` for every task, `partwise train` with several values of --l2, and what is said of bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import partwise
from partwise.cli import main

CONLL = "a D\ndog N\nbarks V\n\nthe D\ncat N\nsleeps V\n\ndogs N\nbark V\n\nbarks V\na D\ndog N\n\n" * 3
CHUNKS = "Anna B-PER\nsees O\nOslo B-LOC\n\nthe O\ndog O\nof O\nBob B-PER\n\n" * 4
TREES = "1\tdogs\t_\tNN\tNN\t_\t2\tsubj\t_\t_\n2\tbark\t_\tVB\tVB\t_\t0\troot\t_\t_\n\n" * 6
BRACKETS = (
    "(S (NP (D the) (N dog)) (V barks))\n(S (NP (D a) (N cat)) (V sleeps))\n(S (N dogs) (V bark))\n" * 2
)
ROWS = "\n".join(f"{'ab'[k % 2]} 1:{k % 2 + 0.1 * (k % 7)} 2:{k % 3}" for k in range(30)) + "\n"
GRAPHS = "".join(
    json.dumps(
        {
            "nodes": [{"features": ["Xx"[k % 2]], "label": "AB"[k % 2]}, {"features": ["y"], "label": "A"}],
            "edges": [[0, 1]],
        }
    )
    + "\n"
    for k in range(8)
)
DATA = {
    "sequence": CONLL, "segments": CHUNKS, "classify": ROWS, "dependency": TREES, "constituency": BRACKETS,
    "graph": GRAPHS,
}  # fmt: skip


def run(*arguments: Any) -> int:
    with pytest.raises(SystemExit) as caught:
        main([str(each) for each in arguments])
    return int(caught.value.code or 0)


def written(folder: Path, task: str) -> Path:
    path = folder / f"{task}.{'mrg' if task == 'constituency' else 'txt'}"
    path.write_text(DATA[task])
    return path


@pytest.mark.parametrize("task", DATA)
def test_every_task_has_paths(tmp_path: Path, capsys: Any, task: str) -> None:
    data, model = written(tmp_path, task), tmp_path / "model"
    options = ["--l2-from", 10, "--l2-to", 1, "--l2-values", 2, "--tol", 0.05, "--json"]
    assert (
        run("path", task, data, "-m", model, "--folds", 2, *options, "--keep-all", "--path", tmp_path / "p")
        == 0
    )
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert [point["l2"] for point in found["path"]] == [10.0, 1.0] and len(found["path"][0]["scores"]) == 2
    assert f"best l2 = {found['l2']:.4g}" in printed.err and "above the next best" in printed.err
    assert partwise.load(model).l2 == found["l2"] and partwise.load(f"{model}.l2=10").l2 == 10.0
    assert run("train", task, data, "-m", model, "--dev", data, "--l2", "10,1", "--tol", 0.05, "--json") == 0
    printed = capsys.readouterr()
    short = json.loads(printed.out)
    objectives = [[point["objective"] for point in each["path"]] for each in (found, short)]
    assert np.allclose(*objectives, rtol=0.05) and f"best l2 = {short['l2']:.4g}" in printed.err
    assert run("evaluate", model, data, "--json") == 0 and json.loads(capsys.readouterr().out)


def test_a_path_is_drawn_and_resumed(tmp_path: Path, capsys: Any) -> None:
    pytest.importorskip("matplotlib")
    data = written(tmp_path, "sequence")
    options = ["-m", tmp_path / "m", "--dev", data, "--l2", "3,1,0.3", "--json", "--path", tmp_path / "p"]
    assert run("path", "sequence", data, *options, "--plot", tmp_path / "p.png") == 0
    first = json.loads(capsys.readouterr().out)["path"]
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    assert run("path", "sequence", data, *options) == 2 and "--resume" in capsys.readouterr().err
    assert run("path", "sequence", data, *options, "--resume") == 0
    assert json.loads(capsys.readouterr().out)["path"] == first
    (tmp_path / "p").write_bytes((tmp_path / "p").read_bytes()[:-5])
    assert run("path", "sequence", data, *options, "--resume") == 2
    assert "damaged" in capsys.readouterr().err


def test_l2_can_be_chosen_by_folds_while_training(tmp_path: Path, capsys: Any) -> None:
    data, model = written(tmp_path, "classify"), tmp_path / "m"
    assert run("train", "classify", data, "-m", model, "--l2", "cv", "--json", "--jobs", 2) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["l2"] == partwise.load(model).l2_ and "of 5 folds" in printed.err
    assert run("inspect", model) == 0


@pytest.mark.parametrize(
    ("command", "arguments", "words"),
    [
        ("path", ["--dev", "DATA", "--l2-from", 1, "--l2-to", 10], "from large to small"),
        ("path", ["--dev", "DATA", "--l2-from", 1, "--l2-to", 1], "at least two"),
        ("path", ["--dev", "DATA", "--l2", "1,0"], "finite number > 0"),
        ("path", ["--dev", "DATA", "--l2", "1,x"], "--l2 must be a number"),
        ("path", [], "need --dev"),
        ("path", ["--dev", "DATA", "--folds", 3], "use one of them"),
        ("path", ["--folds", 1], "2 to 12 folds"),
        ("path", ["--dev", "DATA", "--resume"], "--resume needs --path"),
        ("path", ["--dev", "DATA", "--path", "DATA"], "same file as TRAIN"),
        ("train", ["--l2", "1,3"], "need --dev"),
        ("train", ["--l2", "strong"], "--l2 must be a number"),
        ("train", ["--l2", "-1"], "finite number > 0"),
    ],
)
def test_bad_input_is_one_line_and_code_2(
    tmp_path: Path, capsys: Any, command: str, arguments: list[Any], words: str
) -> None:
    data = written(tmp_path, "sequence")
    arguments = [data if each == "DATA" else each for each in arguments]
    assert run(command, "sequence", data, "-m", tmp_path / "m", *arguments) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert words in last and last.startswith("partwise: ") and not (tmp_path / "m").exists()


def test_labels_that_only_dev_data_have_are_named(tmp_path: Path, capsys: Any) -> None:
    data, dev = written(tmp_path, "sequence"), tmp_path / "dev"
    dev.write_text(CONLL + "quickly ADV\n\n")
    assert run("path", "sequence", data, "-m", tmp_path / "m", "--dev", dev, "--l2", "3,1") == 0
    shown = capsys.readouterr().err
    assert "warning: dev data have labels that were not in training" in shown and "'ADV'" in shown
