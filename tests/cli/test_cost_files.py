"""`--cost-file`: costs by kind of parts, from every command that trains a model with a margin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import run  # noqa: F401
from toy_treebanks import TREES

import partwise
from partwise import DependencyParser
from partwise.data import make_names, read_dependencies

CONLL = """1\tthe\t_\tD\tD\t_\t2\tdet
2\tdog\t_\tN\tN\t_\t3\tsubj
3\tbarks\t_\tV\tV\t_\t0\troot

1\tdogs\t_\tN\tN\t_\t2\tsubj
2\tsee\t_\tV\tV\t_\t0\troot
3\tcats\t_\tN\tN\t_\t2\tobj

"""


def names() -> str:
    X, y = make_names(12)
    rows = zip(X, y, strict=True)
    return "\n".join("\n".join(f"{w[0]}\t{t}" for w, t in zip(*each, strict=True)) + "\n" for each in rows)


GRAPH = {
    "nodes": [{"features": {"a": 1}, "label": "x"}, {"features": {"b": 1}, "label": "y"}],
    "edges": [{"nodes": [0, 1], "features": {"near": 1}}],
}
DATA: dict[str, tuple[str, Any]] = {
    "sequence": (names(), {"node": "hamming"}),
    "segments": (names(), {"segment": "hamming"}),
    "classify": ("a,b,c\n" + "1,2,u\n2,1,v\n3,1,v\n" * 3, [[0, 2], [1, 0]]),
    "dependency": (CONLL, {"arc": [[0, 2], [1, 0]], "relation": "hamming"}),
    "constituency": ("\n".join(TREES), {"anchored": "hamming", "word": "hamming"}),
    "graph": ("\n".join([json.dumps(GRAPH)] * 3), {"node": "hamming"}),
}
SUFFIX = {"classify": ".csv", "graph": ".jsonl", "dependency": ".conll", "constituency": ".mrg"}


@pytest.mark.parametrize("task", DATA)
def test_costs_by_kind_reach_the_model(task: str, run: Any, tmp_path: Path, monkeypatch: Any) -> None:  # noqa: F811
    monkeypatch.chdir(tmp_path)
    text, cost = DATA[task]
    path = f"train{SUFFIX.get(task, '.txt')}"
    (tmp_path / path).write_text(text)
    (tmp_path / "costs.json").write_text(json.dumps(cost))
    common = ("train", task, path, "--loss", "hinge", "--l2", "1", "--tol", "0.01", "--quiet", "--json")
    found = []
    for more in ((), ("--cost-file", "costs.json")):
        code, out, err = run(*common, "--model", "m", *more)
        assert code == 0, err
        found.append(json.loads(out)["objective"])
    kept = partwise.load(tmp_path / "m").cost
    if isinstance(cost, dict):
        assert kept.keys() == cost.keys()
        assert all(np.array_equal(kept[kind], own) for kind, own in cost.items())
    else:
        np.testing.assert_array_equal(kept, cost)
    if task in ("classify", "dependency", "constituency"):  # costs that are not the usual ones
        assert found[0] != pytest.approx(found[1], rel=1e-3)


def test_files_and_python_agree(run: Any, tmp_path: Path, monkeypatch: Any) -> None:  # noqa: F811
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.conll").write_text(CONLL)
    (tmp_path / "costs.json").write_text(json.dumps(DATA["dependency"][1]))
    options = (
        "--loss",
        "hinge",
        "--l2",
        "1",
        "--tol",
        "1e-4",
        "--quiet",
        "--json",
        "--cost-file",
        "costs.json",
    )
    code, out, err = run("train", "dependency", "train.conll", "--model", "m", *options)
    assert code == 0, err
    cost = {"arc": np.array([[0.0, 2.0], [1.0, 0.0]]), "relation": "hamming"}
    model = DependencyParser(loss="hinge", l2=1.0, tol=1e-4, cost=cost).fit(read_dependencies("train.conll"))
    assert json.loads(out)["objective"] == pytest.approx(model.objective_, rel=1e-3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the costs are not JSON"),
        ("{}", "the file is neither a square matrix"),
        ('{"arc": [[0, 1]]}', "the costs of 'arc' are neither a square matrix"),
        ('{"arc": "all"}', "the costs of 'arc' are neither"),
        ('{"edge": "hamming"}', "cost names 'edge', which is not among the kinds of parts: arc, relation"),
        ('{"arc": [[0, -1], [1, 0]]}', "cost of 'arc' must be finite and non-negative"),
    ],
)
def test_bad_files_are_refused(text: str, message: str, run: Any, tmp_path: Path, monkeypatch: Any) -> None:  # noqa: F811
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.conll").write_text(CONLL)
    (tmp_path / "costs.json").write_text(text)
    code, _, err = run(
        "train", "dependency", "train.conll", "--model", "m", "--loss", "hinge", "--cost-file", "costs.json"
    )
    assert code == 2 and message in err and "Traceback" not in err
    assert not (tmp_path / "m").exists()
