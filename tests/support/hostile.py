"""A folder with data and a model, and commands in it: for the tests that attack files and processes."""

from __future__ import annotations

import subprocess
import sys

import pytest
from commands import ENVIRONMENT

from partwise.cli import main
from partwise.storage.atomic import write_atomically

COMMAND = [sys.executable, "-m", "partwise.cli"]
DATA = "the D B-NP\ncat N I-NP\nsat V B-VP\n\na D B-NP\ndog N I-NP\nran V B-Ü\n"
TRAIN = ("train", "sequence", "train.txt", "--model", "m.pw")
TABLE = '1,0,"a, b"\n0,1,c\n1,0.1,"a, b"\n0.1,1,c\n'
ROWS, CLASSES = [[0.0, 1.0], [1.0, 0.5], [0.3, 0.2]], ["a", "b", "a"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The bytes of a trained model."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "train.txt").write_text(DATA)
    with pytest.raises(SystemExit) as stopped:
        main(["train", "sequence", str(folder / "train.txt"), "--model", str(folder / "m.pw"), "-q"])
    assert stopped.value.code == 0
    return (folder / "m.pw").read_bytes()


@pytest.fixture
def folder(tmp_path, monkeypatch, model):
    """The working folder, with data and a model."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.txt").write_text(DATA)
    (tmp_path / "table.csv").write_text(TABLE)
    (tmp_path / "m.pw").write_bytes(model)
    return tmp_path


@pytest.fixture
def run(capfd, folder):
    """Run a command in this process; returns exit code, stdout and stderr."""

    def call(*arguments):
        with pytest.raises(SystemExit) as stopped:
            main([str(each) for each in arguments])
        captured = capfd.readouterr()
        return stopped.value.code, captured.out, captured.err

    return call


def process(*arguments, **settings):
    """Run a command in a process of its own; returns exit code, stdout and stderr."""
    settings = {"capture_output": True, "text": True, "env": ENVIRONMENT, "timeout": 120, **settings}
    done = subprocess.run([*COMMAND, *map(str, arguments)], **settings)
    return done.returncode, done.stdout, done.stderr


def write(path, data=b"new"):
    write_atomically(path, lambda handle: handle.write(data))
