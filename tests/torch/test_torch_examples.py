"""The neural examples run, on files and without, and their certified last layers are better than what came before."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from data_paths import ROOT

torch = pytest.importorskip("torch", reason="PyTorch is an extra: pip install 'partwise[torch]'")

EXAMPLES = ROOT / "examples"
TOKENS = ["the DT B-NP", "dog NN I-NP", "saw VBD B-VP", "a DT B-NP", "small JJ I-NP", "cat NN I-NP", ". . O"]


@pytest.fixture(autouse=True)
def examples_on_path(monkeypatch: pytest.MonkeyPatch) -> object:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield
    torch.set_num_threads(before)


def run(name: str, options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: object) -> list[list[str]]:
    """Rows of the table that an example prints."""
    module = __import__(name)
    monkeypatch.setattr(sys, "argv", [name, *options, "--device", "cpu"])
    module.main()
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    return [row for row in rows if row and row[0] in ("log", "hinge")]


def check(rows: list[list[str]], n: int, tol: float) -> None:
    assert len(rows) == n
    for row in rows:
        trained, certified, gap = float(row[3]), float(row[5]), float(row[6])
        assert certified <= trained * (1 + tol) and 0 <= gap <= tol


def test_the_tagger_on_handwritten_dates(monkeypatch: object, capsys: object) -> None:
    options = ["--sentences", "40", "--epochs", "1", "--width", "16", "--l2", "3", "--tol", "0.01"]
    check(run("neural_tagger", options, monkeypatch, capsys), 2, 0.01)


def test_the_tagger_on_files(tmp_path: Path, monkeypatch: object, capsys: object) -> None:
    pytest.importorskip("matplotlib")
    path, picture = tmp_path / "chunks.txt", tmp_path / "epochs.png"
    path.write_text("\n\n".join("\n".join(TOKENS[k:]) for k in (0, 2, 3, 0)) + "\n", encoding="utf-8")
    options = ["--train", str(path), "--test", str(path), "--epochs", "2", "--width", "8", "--l2", "0.1"]
    check(run("neural_tagger", [*options, "--picture", str(picture)], monkeypatch, capsys), 4, 1e-3)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_parser(tmp_path: Path, monkeypatch: object, capsys: object) -> None:
    options = ["--sentences", "30", "--epochs", "1", "--width", "8", "--tol", "0.05"]
    check(run("biaffine_parser", options, monkeypatch, capsys), 2, 0.05)
    from biaffine_parser import toy_corpus

    from partwise.data import write_dependencies

    path = tmp_path / "toy.conllu"
    with path.open("w", encoding="utf-8", newline="") as handle:
        write_dependencies(handle, toy_corpus(12, 5))
    options = ["--train", str(path), "--test", str(path), "--epochs", "1", "--width", "8", "--tol", "0.05"]
    check(run("biaffine_parser", [*options, "--projective"], monkeypatch, capsys), 2, 0.05)


def test_the_benchmark_of_last_layers(monkeypatch: object, capsys: object) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES.parent / "benchmarks"))
    import torch_training

    monkeypatch.setattr(sys, "argv", ["torch_training", "heads", "--scale", "0.001", "--device", "cpu"])
    torch_training.main()
    printed = capsys.readouterr().out
    assert printed.count("×") == 1 + len(torch_training.HEADS) and "stopped" not in printed
