"""Attacks on processes: killed, interrupted, without streams or disk; what was there before stays.

A fast selection; those marked `hostile` take longer and run with ``make hostile``.
"""

# ruff: noqa: F811  (fixtures are imported, and named again by the tests that take them)

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time

import numpy as np
import pytest
from commands import ENVIRONMENT, refused
from hostile import CLASSES, COMMAND, ROWS, TRAIN, folder, model, process, run, write  # noqa: F401

import partwise
from partwise import Classifier
from partwise.storage.atomic import UNFINISHED, write_atomically

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX files and signals")


# -- killed and interrupted ------------------------------------------------------------------------

KILLED = """
import os, sys
if sys.argv[2] == "named":
    del os.O_TMPFILE
from partwise.storage.atomic import write_atomically
def write(handle):
    handle.write(b"half")
    handle.flush()
    os.kill(os.getpid(), 9)
write_atomically(sys.argv[1], write)
"""


@pytest.mark.parametrize("kind", ["nameless", "named"])
def test_a_killed_save_leaves_nothing(tmp_path, kind):
    path = tmp_path / "m.pw"
    path.write_bytes(b"old")
    done = subprocess.run([sys.executable, "-c", KILLED, path, kind], env=ENVIRONMENT, timeout=60)
    assert done.returncode == -signal.SIGKILL and path.read_bytes() == b"old"
    left = [name for name in os.listdir(tmp_path) if name != "m.pw"]
    assert all(name.endswith(UNFINISHED) for name in left)
    if kind == "nameless" and left:
        pytest.skip("this file system has no nameless files")
    write(path)
    assert os.listdir(tmp_path) == ["m.pw"] and path.read_bytes() == b"new"


@pytest.mark.parametrize("kind", ["nameless", "named"])
def test_a_save_in_progress_is_not_taken_for_a_killed_one(tmp_path, monkeypatch, kind):
    if kind == "named":
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)

    def outer(handle):
        write(tmp_path / "inner")
        handle.write(b"outer")

    write_atomically(tmp_path / "outer", outer)
    assert (tmp_path / "inner").read_bytes() == b"new" and (tmp_path / "outer").read_bytes() == b"outer"
    assert sorted(os.listdir(tmp_path)) == ["inner", "outer"]


def test_a_file_system_without_links_gets_a_copy(tmp_path, monkeypatch):
    def no_links(*arguments, **settings):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    (tmp_path / "m.pw").write_bytes(b"old")
    (tmp_path / "m.pw").chmod(0o600)
    write(tmp_path / "m.pw")
    assert os.listdir(tmp_path) == ["m.pw"] and (tmp_path / "m.pw").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "m.pw").stat().st_mode) == 0o600


@pytest.fixture
def heeding():
    """SIGINT raises, also where the test runner was told to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt(times=1):
    for _ in range(times):
        signal.raise_signal(signal.SIGINT)


def at(monkeypatch, name, times=1):
    """Send SIGINT when a function of `partwise.cli.training`, or a method of what it uses, is called."""
    import partwise.cli.training as training
    from partwise.tasks.sequences.task import Sequences

    owner = training.TrainingDisplay if name.startswith("__") else training
    owner = Sequences if name == "scores" else owner
    original = getattr(owner, name)

    def interrupted(*arguments, **settings):
        interrupt(times)
        return original(*arguments, **settings)

    monkeypatch.setattr(owner, name, interrupted)


@pytest.mark.parametrize("times", [1, 3])
def test_control_c_before_training_keeps_the_old_model(run, folder, model, monkeypatch, heeding, times):
    at(monkeypatch, "__enter__", times)
    code, out, err = run(*TRAIN)
    assert (code, out) == (130, "") and "before anything was trained; m.pw is as it was" in err
    assert (folder / "m.pw").read_bytes() == model


def test_control_c_before_training_without_an_old_model(run, folder, monkeypatch, heeding):
    at(monkeypatch, "__enter__")
    code, _, err = run(*TRAIN[:-1], "new.pw")
    assert code == 130 and "new.pw was not written" in err and not (folder / "new.pw").exists()


def test_control_c_in_a_callback_of_the_compiler_waits_for_its_end(heeding):
    """An exception there is dropped, and what the callback was to leave is missing."""
    from partwise.cli.interruption import Interruption

    finished = []

    def _raw_object_cache_notify():
        interrupt()
        finished.append(True)

    with pytest.raises(KeyboardInterrupt), Interruption():
        _raw_object_cache_notify()
        time.sleep(5)
    assert finished


@pytest.mark.parametrize(
    "name, times",
    [("__call__", 1), ("__call__", 2), ("_dev_scores", 1), ("save_estimator", 2), ("scores", 1)],
)
def test_control_c_later_saves_and_says_so(run, folder, model, monkeypatch, heeding, name, times):
    at(monkeypatch, name, times)
    code, out, err = run(*TRAIN, "--l2", "0.5", "--dev", "train.txt", "--json")
    assert code == 130 and json.loads(out)["interrupted"] and "saved to m.pw" in err
    assert (folder / "m.pw").read_bytes() != model and partwise.load("m.pw").l2 == 0.5
    assert partwise.load("m.pw").n_passes_ > 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_swallowed_control_c_is_still_heeded(run, monkeypatch, heeding):
    """Exceptions in callbacks from C are printed and dropped; compiling is full of such callbacks."""
    import ctypes

    import partwise.cli.training as training

    enter = training.TrainingDisplay.__enter__

    def swallowing(display):
        ctypes.CFUNCTYPE(None)(interrupt)()
        return enter(display)

    monkeypatch.setattr(training.TrainingDisplay, "__enter__", swallowing)
    code, _, err = run(*TRAIN)
    assert code == 130 and "the model trained so far is saved to m.pw" in err
    assert 0 < partwise.load("m.pw").n_passes_ < 3


def test_fit_interrupted_before_the_first_step_raises(heeding):
    """There is nothing to return; what was fitted before stays."""
    from partwise.solvers import ExponentiatedGradient

    fitted = Classifier().fit(ROWS, CLASSES)
    weights = fitted.coef_.copy()

    class Stopped(ExponentiatedGradient):
        def step(self, *arguments):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fitted.set_params(solver=Stopped()).fit(ROWS, CLASSES)
    assert (fitted.coef_ == weights).all()


def test_ignored_signals_stay_ignored():
    from partwise.cli.interruption import Interruption

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interruption() as interruption:
            interrupt()
        assert not interruption.asked and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_training_goes_on_when_its_log_cannot_be_written(folder):
    with open("/dev/full", "w") as full:
        code, _, _ = process(*TRAIN[:-1], "new.pw", capture_output=False, stderr=full)
    assert code == 0 and partwise.load("new.pw").converged_


@pytest.mark.hostile
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("delay", [1.0, 2.5, 4.0, 7.0, 10.0, 15.0])
def test_control_c_while_compiling(folder, model, tmp_path, delay, times):
    """With an empty cache; whenever it comes, the process ends with 130 and says what became of the model."""
    environment = {**ENVIRONMENT, "PARTWISE_NO_LIBRARY": "1", "PARTWISE_CACHE_DIR": str(tmp_path / "cache")}
    with subprocess.Popen(
        [*COMMAND, *TRAIN, "--solver", "sgd", "--tol", "1e-15", "--max-passes", "1e9", "--l2", "1e-4"],
        stderr=subprocess.PIPE, text=True, env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as running:  # fmt: skip
        time.sleep(delay)
        for _ in range(times):
            running.send_signal(signal.SIGINT)
            time.sleep(0.05)
        try:
            _, err = running.communicate(timeout=120)
        finally:
            running.kill()
    if delay < 5 and "partwise: " not in err and "saved" not in err:
        pytest.skip("it came before the program had begun")
    # Where Python was executing a string (a named tuple being made), it ends by the signal: 130 in a shell too.
    assert running.returncode in (130, -signal.SIGINT), err
    kept = (folder / "m.pw").read_bytes() == model
    assert ("is as it was" in err) == kept or err == "partwise: interrupted\n", err
    assert kept or "the model trained so far is saved" in err
    assert kept or partwise.load("m.pw").n_passes_ > 0


@pytest.mark.hostile
def test_models_survive_what_is_done_to_their_files(tmp_path):
    """`cp` onto a model file cuts it short first; a map of it would end this process with SIGBUS."""
    from partwise import DependencyParser, KernelClassifier

    rows = np.random.default_rng(0).normal(size=(300, 50))
    kernel = KernelClassifier(tol=0.1).fit(rows, rows[:, 0] > 0)
    sentences, heads = [["dogs", "bark"], ["cats", "purr", "loudly"]] * 3, [[2, 0], [2, 0, 2]] * 3
    parser = DependencyParser(tol=0.1).fit(sentences, heads)
    for fitted, data in ((kernel, rows), (parser, sentences)):
        path = tmp_path / "m.pw"
        fitted.save(path)
        loaded = partwise.load(path)
        os.truncate(path, 0)
        assert all(
            np.array_equal(*pair) for pair in zip(loaded.predict(data), fitted.predict(data), strict=True)
        )


# -- streams ---------------------------------------------------------------------------------------


def closed(*descriptors):
    return {"preexec_fn": lambda: [os.close(each) for each in descriptors]}


def test_closed_streams(folder):
    refused(process("predict", "m.pw", **closed(0)), "standard input is closed")
    assert process("predict", "gone.pw", **closed(2))[:2] == (2, "")
    assert process(*TRAIN[:-1], "new.pw", **closed(0, 1, 2))[0] == 0
    assert partwise.load("new.pw").converged_


# The first of them in the suite, since each is a process of its own.
WRITING = [
    ("predict", "m.pw", "train.txt"),
    pytest.param(("inspect", "m.pw"), marks=pytest.mark.hostile),
    pytest.param(("inspect", "m.pw", "--json"), marks=pytest.mark.hostile),
    pytest.param(("evaluate", "m.pw", "train.txt"), marks=pytest.mark.hostile),
    pytest.param(("evaluate", "m.pw", "train.txt", "--json"), marks=pytest.mark.hostile),
    pytest.param(("report", "m.pw", "--output", "-"), marks=pytest.mark.hostile),
]


@pytest.mark.parametrize("command", WRITING)
def test_closed_standard_output(folder, command):
    refused(process(*command, **closed(1)), "standard output is closed")


@pytest.mark.parametrize("command", WRITING)
def test_full_disks(folder, command):
    with open("/dev/full", "w") as full:
        code, _, err = process(*command, capture_output=False, stdout=full, stderr=subprocess.PIPE)
    refused((code, "", err), "standard output", "No space left")


@pytest.mark.parametrize("command", [*WRITING, ("--help",)])
def test_broken_pipes_exit_141(folder, command):
    read, written = os.pipe()
    os.close(read)
    with os.fdopen(written, "w") as pipe:
        code, _, err = process(*command, capture_output=False, stdout=pipe, stderr=subprocess.PIPE)
    assert (code, err) == (141, "")


ASCII = {**ENVIRONMENT, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}


def test_labels_on_an_ascii_terminal(folder):
    code, out, _ = process("evaluate", "m.pw", "train.txt", env=ASCII)
    assert code == 0 and "B-\\xdc" in out


@pytest.mark.hostile
def test_json_and_predictions_on_an_ascii_terminal(folder):
    code, out, _ = process("evaluate", "m.pw", "train.txt", "--json", env=ASCII)
    assert code == 0 and out.isascii() and "B-Ü" in json.loads(out)["per_label"]
    code, out, _ = process("predict", "m.pw", "train.txt", env=ASCII, encoding="utf-8")
    assert code == 0 and out.endswith("ran V B-Ü B-Ü\n")


def test_half_characters_in_labels(run, folder):
    (folder / "odd.jsonl").write_text('{"tokens": ["a", "b"], "labels": ["\\ud800", "x"]}\n' * 3)
    assert run("train", "sequence", "odd.jsonl", "--model", "odd.pw", "-q")[0] == 0
    for target in ("-", "out.jsonl"):
        code, out, _ = run("predict", "odd.pw", "odd.jsonl", "--output", target)
        text = out or (folder / "out.jsonl").read_text()
        assert code == 0 and json.loads(text.splitlines()[0])["labels"] == ["\ud800", "x"]
    assert run("inspect", "odd.pw")[0] == 0


def test_version(run):
    assert run("--version") == (0, f"partwise {partwise.__version__}\n", "")
