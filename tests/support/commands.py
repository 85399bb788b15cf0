"""Commands run by tests: a fixture that calls them, how a refusal looks, and what they print."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import partwise
from partwise.cli import main

# The package's folder on the path, for processes that run in another folder.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(partwise.__file__).resolve().parents[1])}


def without_compiling(printed: str) -> str:
    """Without the lines that say that code is compiled, which depends on the machine's cache."""
    return "".join(line for line in printed.splitlines(keepends=True) if not line.startswith("compil"))


@pytest.fixture
def run(capfd, monkeypatch, tmp_path):
    """Run a command in an empty folder; returns exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        with pytest.raises(SystemExit) as stopped:
            main([str(each) for each in arguments])
        captured = capfd.readouterr()
        return stopped.value.code, captured.out, without_compiling(captured.err)

    return call


def refused(result, *words):
    """Exit code 2, nothing on stdout, one line on stderr."""
    code, out, err = result
    assert code == 2 and not out, result
    assert err.count("\n") == 1 and err.startswith("partwise: "), err
    assert "Traceback" not in err
    for word in words:
        assert word in err, err
