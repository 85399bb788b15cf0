"""A task in a file outside the package: in Python, on the command line, in reports and in the server."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import urllib.request

import pytest
from commands import ENVIRONMENT, refused, run  # noqa: F401
from data_paths import ROOT

import partwise
from partwise.tasks import TASKS

# ruff: noqa: F811  (fixtures are imported, and named again by the tests that take them)

FILE = ROOT / "examples" / "skip_chain.py"
LINES = [
    "the/O Green/P said/O that/O Green/P waits/O",
    "the/O Stone/O grows/O that/O Stone/O left/O",
    "the/O Miller/P said/O that/O Miller/P left/O",
    "the/O Stone/P said/O that/O Stone/P waits/O",
    "the/O Green/O grows/O that/O Green/O waits/O",
] * 4


@pytest.fixture
def own():
    """The module, which registers its task; the registry is as before afterwards."""
    before = dict(TASKS)
    spec = importlib.util.spec_from_file_location("skip_chain", FILE)
    module = sys.modules["skip_chain"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    TASKS.clear()
    TASKS.update(before)
    del sys.modules["skip_chain"]


def test_in_python(own, tmp_path):
    pairs = [[field.rsplit("/", 1) for field in line.split()] for line in LINES]
    X, y = [[word for word, _ in line] for line in pairs], [[tag for _, tag in line] for line in pairs]
    model = own.SkipChainLabeler(l2=0.1, min_letters=5).fit(X, y)
    assert model.converged_ and model.score(X, y) > 0.9
    model.save(tmp_path / "m.pw")
    loaded = partwise.load(tmp_path / "m.pw")
    assert type(loaded) is own.SkipChainLabeler and loaded.min_letters == 5
    assert [list(map(str, labels)) for labels in loaded.predict(X)] == [list(p) for p in model.predict(X)]
    names = {each.attribute for each in loaded.explain(X[0]).contributions}
    assert any(name.startswith("same word") for name in names)


def test_on_the_command_line(own, run, tmp_path):
    (tmp_path / "train.txt").write_text("\n".join(LINES) + "\n")
    (tmp_path / "in.txt").write_text("the Green said that Green left\n\nthe Stone grows\n")
    code, out, err = run(
        "train", "skip-chain", "train.txt", "-m", "m.pw", "--dev", "train.txt", "--l2", 0.1, "--json"
    )
    assert code == 0 and "dev accuracy" in err
    assert json.loads(out)["converged"]
    code, out, _ = run("predict", "m.pw", "in.txt")
    assert code == 0 and out.splitlines()[0] == "the/O Green/P said/O that/O Green/P left/O"
    _, out, _ = run("predict", "m.pw", "in.txt", "--marginals", "--kbest", 2)
    first = json.loads(out.splitlines()[0])
    assert first["labels"][1] == "P" and first["marginals"][1]["P"] > 0.5 and len(first["kbest"]) == 2
    code, out, _ = run("evaluate", "m.pw", "train.txt", "--json")
    scores = json.loads(out)
    assert code == 0 and scores["accuracy"] > 0.9 and scores["n_sentences"] == 20 and scores["n_words"] == 120
    assert run("report", "m.pw", "--data", "train.txt", "--output", "r.html")[0] == 0
    page = (tmp_path / "r.html").read_text()
    assert "SkipChainLabeler" in page and "same word" in page
    assert (
        run("path", "skip-chain", "train.txt", "-m", "p.pw", "--dev", "train.txt", "--l2", "1,0.1", "-q")[0]
        == 0
    )
    assert run("calibrate", "m.pw", "train.txt")[0] == 0
    refused(run("train", "skip-chain", "train.txt", "-m", "m.pw", "--format", "conll"), "auto or tagged")
    refused(run("train", "skip-chain", "in.txt", "-m", "m.pw"), "in.txt:1", "is not word/TAG")


def test_models_of_a_task_that_is_not_registered_are_refused(run, tmp_path):
    command = [sys.executable, FILE, "train", "skip-chain", "train.txt", "-m", "m.pw", "-q"]
    (tmp_path / "train.txt").write_text("\n".join(LINES) + "\n")
    subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, check=True)
    refused(run("predict", "m.pw", "train.txt"), "unknown kind 'SkipChainLabeler'")
    refused(run("train", "skip-chain", "train.txt", "-m", "m.pw"), "skip-chain")


def test_in_serve(own, tmp_path):
    pairs = [[field.rsplit("/", 1) for field in line.split()] for line in LINES]
    model = own.SkipChainLabeler(l2=0.1)
    model.fit([[word for word, _ in line] for line in pairs], [[tag for _, tag in line] for line in pairs])
    model.save(tmp_path / "m.pw")
    command = [sys.executable, FILE, "serve", "m.pw", "--port", "0"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as server:
        try:
            address = server.stdout.readline().split()[3]
            body = json.dumps({"text": "the Green said that Green left"}).encode()
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(address + "predict", body, headers)
            with urllib.request.urlopen(request, timeout=60) as response:
                answer = json.load(response)
        finally:
            server.terminate()
    assert answer["labels"] == ["O", "P", "O", "O", "P", "O"]
    assert any(term[2].startswith("same word") for term in answer["terms"])
