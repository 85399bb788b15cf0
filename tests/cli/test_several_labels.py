"""Files with several labels at a position: sets of possible ones, and votes."""

# ruff: noqa: F811  (fixtures are imported, and named again by the tests that take them)

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import refused, run  # noqa: F401

import partwise
from partwise.data import read
from partwise.errors import InputError


def test_files_hold_sets_and_votes(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    columns, lines, model = tmp_path / "train.txt", tmp_path / "train.jsonl", str(tmp_path / "m.model")
    columns.write_text("Ada B-PER\nran O\n\nOslo B-LOC|B-PER\nis O\n\nBern B-LOC\n\n" * 3)
    assert run("train", "sequence", str(columns), "--alternatives", "|", "-m", model, "--quiet")[0] == 0
    assert partwise.load(model).classes_.tolist() == ["B-LOC", "B-PER", "O"]
    assert run("train", "sequence", str(columns), "-m", model, "--quiet")[0] == 0
    assert "B-LOC|B-PER" in partwise.load(model).classes_
    rows = [
        {"tokens": ["Ada", "ran", "far"], "labels": [["B-PER", "B-LOC"], "O", None]},
        {"tokens": ["Oslo", "is"], "labels": [{"B-LOC": 2, "B-PER": 1}, "O"]},
    ]
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows * 3))
    assert run("train", "sequence", str(lines), "-m", model, "--quiet")[0] == 0
    assert partwise.load(model).classes_.tolist() == ["B-LOC", "B-PER", "O"]
    refused(run("train", "sequence", lines, "--dev", lines, "-m", model), "several labels; --dev needs one")
    refused(run("evaluate", model, lines), "or several; evaluation needs one everywhere")
    columns.write_text("Ada B-PER|\nran O\n")
    refused(
        run("train", "sequence", columns, "--alternatives", "|", "-m", model), "nothing on one side of '|'"
    )
    for bad, words in (([], "at least one label"), ({"A": -1}, "at least 0"), (3, "not a number")):
        lines.write_text(json.dumps({"tokens": ["a"], "labels": [bad]}) + "\n")
        with pytest.raises(InputError, match=words):
            read(lines)
