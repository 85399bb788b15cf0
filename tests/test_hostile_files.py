"""Attacks on files and on the command line: nothing is lost, nothing is overwritten, errors are one line.

A fast selection; those marked `hostile` take longer and run with ``make hostile``.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import partwise
from partwise import Classifier, InputError, SequenceLabeler
from partwise.cli import main
from partwise.storage.atomic import UNFINISHED, write_atomically

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(partwise.__file__).resolve().parents[1])}
COMMAND = [sys.executable, "-m", "partwise.cli"]
DATA = "the D B-NP\ncat N I-NP\nsat V B-VP\n\na D B-NP\ndog N I-NP\nran V B-Ü\n"
TABLE = '1,0,"a, b"\n0,1,c\n1,0.1,"a, b"\n0.1,1,c\n'

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX files and signals")


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


def refused(result, *words):
    """Exit code 2, nothing on stdout, one line on stderr."""
    code, out, err = result
    assert code == 2 and not out, result
    assert err.count("\n") == 1 and err.startswith("partwise: ") and "Traceback" not in err, err
    assert all(word in err for word in words), err


# -- what is at the path of an output -------------------------------------------------------------


def write(path, data=b"new"):
    write_atomically(path, lambda handle: handle.write(data))


def test_links_are_followed(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("not yet")
    write(tmp_path / "link")
    write(tmp_path / "dangling")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_bytes() == b"new"
    assert (tmp_path / "dangling").is_symlink() and (tmp_path / "not yet").read_bytes() == b"new"
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InputError, match="cannot write here"):
        write(tmp_path / "loop")


def test_modes_are_kept_and_respected(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o640)
    write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640 and path.read_bytes() == b"new"
    path.chmod(0o444)
    with pytest.raises(InputError, match="read-only"):
        write(path, b"newer")
    assert path.read_bytes() == b"new"
    mask = os.umask(0o027)
    try:
        write(tmp_path / "fresh")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "fresh").stat().st_mode) == 0o640


def test_devices_and_pipes_are_written_through(tmp_path):
    write("/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(InputError, match="No space left"):
        write("/dev/full")
    os.mkfifo(tmp_path / "pipe")
    found = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write(tmp_path / "pipe")
    reader.join(10)
    assert found == [b"new"] and stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)


def test_commands_leave_devices_alone(run):
    before = os.stat("/dev/null")
    assert run("predict", "m.pw", "train.txt", "--output", "/dev/null")[0] == 0
    assert run("report", "m.pw", "--output", "/dev/null")[0] == 0
    assert run("train", "sequence", "train.txt", "--model", "/dev/null", "-q")[0] == 0
    assert os.stat("/dev/null").st_rdev == before.st_rdev


def test_dash_is_standard_output(run, folder):
    expected = run("predict", "m.pw", "train.txt")[1]
    assert run("predict", "m.pw", "train.txt", "--output", "-") == (0, expected, "")
    code, out, err = run("report", "m.pw", "--output", "-")
    assert code == 0 and out.startswith("<!doctype html>") and err == ""
    refused(run("train", "sequence", "train.txt", "--model", "-"), "saved to a file")
    assert not (folder / "-").exists()


OVERWRITING = {
    "train": ("train", "sequence", "train.txt", "--model", "train.txt"),
    "dev": ("train", "sequence", "m.pw", "--dev", "train.txt", "--model", "train.txt"),
    "hard link": ("train", "sequence", "train.txt", "--model", "hard.txt"),
    "soft link": ("train", "sequence", "train.txt", "--model", "soft.txt"),
    "template": ("train", "sequence", "m.pw", "--template", "train.txt", "--model", "train.txt"),
    "table": ("train", "classify", "table.csv", "--model", "table.csv"),
    "treebank": ("train", "dependency", "train.txt", "--model", "./train.txt"),
    "model by predict": ("predict", "m.pw", "train.txt", "--output", "m.pw"),
    "data by predict": ("predict", "m.pw", "train.txt", "--output", "hard.txt"),
    "data by html": ("predict", "m.pw", "train.txt", "--html", "train.txt"),
    "both outputs": ("predict", "m.pw", "train.txt", "--html", "page", "--output", "./page"),
    "model by report": ("report", "m.pw", "--output", "m.pw"),
}


@pytest.mark.parametrize("name", OVERWRITING)
def test_inputs_are_not_overwritten(run, folder, name):
    os.link("train.txt", "hard.txt")
    (folder / "soft.txt").symlink_to("train.txt")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    refused(run(*OVERWRITING[name]), "same file")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_redirected_streams_are_inputs_and_outputs_too(folder):
    before = (folder / "train.txt").read_bytes()
    with open("train.txt", "rb") as source:
        refused(process("predict", "m.pw", "-", "--output", "train.txt", stdin=source), "same file")
    with open("train.txt", "ab") as target:
        code, _, err = process(
            "predict", "m.pw", "train.txt", capture_output=False, stdout=target, stderr=subprocess.PIPE
        )
    assert code == 2 and "same file" in err
    assert (folder / "train.txt").read_bytes() == before


# -- what is saved loads ---------------------------------------------------------------------------

X, Y = [[["a"], ["b"]], [["b"]]], [["x", "y"], ["y"]]
ROWS, CLASSES = [[0.0, 1.0], [1.0, 0.5], [0.3, 0.2]], ["a", "b", "a"]


@pytest.mark.parametrize(
    "estimator",
    [
        Classifier(fit_intercept=0), Classifier(warm_start=1), Classifier(warm_start=np.True_),
        Classifier(class_weight={"a": np.float32(2)}), Classifier(random_state=np.int64(3)),
        Classifier(verbose=False), Classifier(random_state=np.random.default_rng(0)),
    ],
    ids=repr,
)  # fmt: skip
def test_parameters_are_normalised_when_saved(estimator, tmp_path):
    fitted = estimator.fit(ROWS, CLASSES)
    fitted.save(tmp_path / "m.pw")
    loaded = partwise.load(tmp_path / "m.pw")
    assert (loaded.predict(ROWS) == fitted.predict(ROWS)).all()
    assert isinstance(loaded.fit_intercept, bool) and isinstance(loaded.warm_start, bool)


@pytest.mark.parametrize(
    "settings",
    [
        {"random_state": True}, {"min_count": 1.5}, {"min_count": None}, {"hash_size": "x"}, {"solver": 5},
        {"warm_start": "yes"}, {"warm_start": 2}, {"scheme": []}, {"verbose": "loud"}, {"l2": 10**400},
        {"order": 1.0},
    ],
    ids=str,
)  # fmt: skip
def test_parameters_that_no_file_holds_are_refused_by_fit(settings):
    with pytest.raises(InputError, match=next(iter(settings))):
        SequenceLabeler(**settings).fit(X, Y)


def test_what_would_not_load_is_not_saved(tmp_path):
    path = tmp_path / "m.pw"
    fitted = Classifier().fit(ROWS, CLASSES)
    fitted.save(path)
    before = path.read_bytes()
    fitted.coef_[0, 0] = np.inf
    with pytest.raises(InputError, match="could not be loaded again"):
        fitted.save(path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["m.pw"]


def test_a_model_without_a_certificate_can_be_saved(tmp_path, folder, run):
    fitted = Classifier().fit(ROWS, CLASSES)
    fitted.objective_ = fitted.dual_objective_ = fitted.duality_gap_ = float("nan")
    fitted.save("nan.pw")
    assert np.isnan(partwise.load("nan.pw").objective_)
    assert run("inspect", "nan.pw")[0] == 0
    assert run("report", "nan.pw", "-o", "page.html")[0] == 0
    page = (folder / "page.html").read_text()
    assert "no bound on how far" in page and "proved to be within" not in page


TEMPLATES = {
    "too many": ("word[-99..99]|word[-99..99]|word[-99..99]", "more than 20,000 attributes"),
    "many lines": ("word[0]\n" * 20_001, "more than 20,000 attributes"),
    "long line": ("|".join(["word[0]"] * 3000), "longer than"),
    "huge offset": (f"word[{'9' * 5000}]", "within ±100"),
    "huge range": (f"word[-{'9' * 5000}..{'9' * 4000}]", "more than|within"),
    "huge column": (f"{'9' * 5000}[0]", "not in the data"),
    "nesting": ("lower(" * 900 + "word[0]" + ")" * 900, "functions within one another"),
    "crf++ row": (f"U00:%x[{'9' * 5000},0]", "within ±100"),
    "crf++ column": (f"U00:%x[0,{'9' * 5000}]", "not in the data"),
    "crf++ lines": ("U00:%x[0,0]\n" * 20_001, "more than 20,000 attributes"),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_without_end(name):
    text, message = TEMPLATES[name]
    started = time.perf_counter()
    with pytest.raises(InputError, match=message) as error:
        SequenceLabeler(template=text).fit([[["a", "b"]]], [["x"]])
    assert len(str(error.value)) < 300 and time.perf_counter() - started < 5


def test_a_template_object_can_be_saved(tmp_path):
    from partwise.features.templates import parse_template

    fitted = SequenceLabeler(template=parse_template("bias")).fit([[["a"]], [["b"]]], [["x"], ["y"]])
    fitted.save(tmp_path / "m.pw")
    assert partwise.load(tmp_path / "m.pw").template == "bias\n"


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


TRAIN = ("train", "sequence", "train.txt", "--model", "m.pw")


def interrupt(times=1):
    for _ in range(times):
        signal.raise_signal(signal.SIGINT)


def at(monkeypatch, name, times=1):
    """Send SIGINT when a function of `partwise.cli.training` is called, before it runs."""
    import partwise.cli.training as training

    owner, attribute = (training.TrainingDisplay, name) if name.startswith("__") else (training, name)
    original = getattr(owner, attribute)

    def interrupted(*arguments, **settings):
        interrupt(times)
        return original(*arguments, **settings)

    monkeypatch.setattr(owner, attribute, interrupted)


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
    [("__call__", 1), ("__call__", 2), ("_dev_scores", 1), ("save_estimator", 2), ("_scores_on", 1)],
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
    from partwise.solvers import solver_for

    fitted = Classifier().fit(ROWS, CLASSES)
    weights = fitted.coef_.copy()

    class Stopped:
        name = "stopped"

        def step(self, *arguments):
            raise KeyboardInterrupt

        def __getattr__(self, name):
            return getattr(solver_for(fitted._training.problem, "eg"), name)

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
    environment = {**ENVIRONMENT, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
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


# -- names and permissions -------------------------------------------------------------------------


def test_long_names(run, folder):
    long = "m" * 300
    refused(run(*TRAIN[:-1], long), "File name too long")
    refused(run("predict", long, "train.txt"), "File name too long")
    refused(run("predict", "m.pw", long), "File name too long")
    refused(run("predict", "m.pw", "train.txt", "--output", long), "File name too long")
    refused(run("report", "m.pw", "--output", long), "File name too long")
    refused(run(*TRAIN, "--template", long), "File name too long")
    assert run("predict", "m.pw", "train.txt", "--output", "m" * 255)[0] == 0


def test_unreadable_is_not_missing(run, monkeypatch):
    import builtins

    original = open

    def denied(path, *arguments, **settings):
        if str(path) in ("m.pw", "train.txt"):
            raise PermissionError(13, "Permission denied", path)
        return original(path, *arguments, **settings)

    refused(run("inspect", "train.txt/m.pw"), "Not a directory")
    monkeypatch.setattr(builtins, "open", denied)
    refused(run("inspect", "m.pw"), "m.pw", "Permission denied")
    refused(run("train", "sequence", "train.txt", "--model", "n.pw"), "train.txt", "Permission denied")


# -- data ------------------------------------------------------------------------------------------


def test_predicted_classes_are_quoted(run, folder):
    import csv

    assert run("train", "classify", "table.csv", "--model", "t.pw", "-q", "--l2", "0.01")[0] == 0
    for options in ((), ("--marginals",)):
        code, out, _ = run("predict", "t.pw", "table.csv", *options)
        rows = list(csv.reader(out.splitlines()))
        assert code == 0 and [row[3] for row in rows] == [row[2] for row in rows] == ["a, b", "c"] * 2
        assert {len(row) for row in rows} == {4 + len(options)}


def fed(path, data):
    """A pipe that yields `data` once, to whoever opens it first."""
    os.mkfifo(path)
    thread = threading.Thread(target=lambda: path.write_bytes(data), daemon=True)
    thread.start()
    return path


def test_data_is_read_once(run, folder):
    settings = ("--model", "t.pw", "-q")
    assert run("train", "classify", fed(folder / "p1", TABLE.encode()), *settings)[0] == 0
    assert run("predict", "t.pw", fed(folder / "p2", TABLE.encode()))[1].count("\n") == 4
    assert json.loads(run("evaluate", "t.pw", fed(folder / "p3", TABLE.encode()), "--json")[1])["n_rows"] == 4
    libsvm = b"1 1:0.5\n0 2:1\n" * 3
    assert run("train", "classify", fed(folder / "p4", libsvm), *settings)[0] == 0
    Classifier().fit(ROWS, CLASSES).save("python.pw")
    assert run("predict", "python.pw", fed(folder / "p5", b"\n0,1\n1,0\n"))[1].count("\n") == 3
    SequenceLabeler(template="word[0]").fit([[["a"]], [["b"]]], [["x"], ["y"]]).save("words.pw")
    assert run("predict", "words.pw", fed(folder / "p6", b"a\n\nb\n"))[1] == "a x\n\nb y\n"


RETURNS = {
    "conll": ("a x\nb y\n\nb y\n", "sequence"),
    "tagged": ("a/x b/y\nb/y\n", "sequence"),
    "jsonl": ('{"tokens": ["a", "b"], "labels": ["x", "y"]}\n', "sequence"),
    "crfsuite": ("x\tw=a\ny\tw=b\n\n", "sequence"),
    "csv": ("1,0,a\n0,1,b\n", "classify"),
    "libsvm": ("1 1:0.5\n0 2:1\n", "classify"),
}


@pytest.mark.parametrize("name", RETURNS)
def test_lines_may_end_in_returns(run, folder, name):
    text, kind = RETURNS[name]
    (folder / "lf").write_bytes(text.encode() * 3)
    (folder / "cr").write_bytes(text.replace("\n", "\r").encode() * 3)
    assert run("train", kind, "cr", "--model", "cr.pw", "-q")[0] == 0
    assert run("train", kind, "lf", "--model", "lf.pw", "-q")[0] == 0
    expected = run("predict", "lf.pw", "lf")
    assert expected[0] == 0 and expected[1] and run("predict", "cr.pw", "cr") == expected


def test_returns_within_lines_are_not_line_ends():
    from partwise.data.conll import parse_conll

    assert parse_conll("a x\r\nb\ry\r\n").columns == [["a", "b"]]


def test_strange_tables(run, folder):
    (folder / "wide.csv").write_text(f"1,{'x' * 200_000}\n2,b\n")
    refused(run("train", "classify", "wide.csv", "--model", "t.pw"), "wide.csv:1", "field larger")
    (folder / "big.libsvm").write_text("1e300 1:1\n-1e300 2:1\n")
    assert run("train", "classify", "big.libsvm", "--model", "t.pw", "-q")[0] == 0
    assert partwise.load("t.pw").classes_.tolist() == ["-1e300", "1e300"]
    (folder / "nothing.npz").write_bytes(b"")
    np.savez(folder / "none.npz")
    np.savez(folder / "empty.npz", x=np.zeros((0, 3)), y=np.zeros(0, int))
    np.savez(folder / "flat.npz", x=np.zeros((3, 0)), y=np.arange(3))
    refused(run("train", "classify", "nothing.npz", "--format", "npz", "--model", "t.pw"), "empty")
    refused(run("train", "classify", "none.npz", "--model", "t.pw"), "x and y")
    for name in ("empty.npz", "flat.npz"):
        refused(run("train", "classify", name, "--model", "t.pw"), "no numbers")


@pytest.mark.parametrize("tol", [float("inf"), 10**400])
def test_report_of_an_endless_tolerance(run, folder, tol):
    from partwise.storage.model_file import load_model, save_model

    header, arrays = load_model("m.pw")
    header["parameters"]["tol"] = tol
    save_model("odd.pw", header, arrays)
    refused(run("report", "odd.pw", "-o", "page.html"), "tol")


# -- compiled code ---------------------------------------------------------------------------------

KEPT = """
import sys, tempfile
import numba.core.caching as caching
tempfile.tempdir, attack = sys.argv[1:]
def fail(*arguments):
    raise OSError(28, "No space left on device")
implementation = getattr(caching, "CacheImpl", None) or caching._CacheImpl
if attack == "read-only":
    for locator in implementation._locator_classes[1:]:  # the first is NUMBA_CACHE_DIR
        locator.ensure_cache_path = fail
else:
    caching.IndexDataCacheFile._save_data = fail
from partwise.compiled.dispatch import entry
@entry
def increased(x):
    return x + 1
@entry
def doubled(x):
    return 2 * x
print(increased(1), doubled(2), sum(increased.stats.cache_hits.values()))
"""


@pytest.mark.parametrize("attack", ["read-only", "full"])
def test_compiled_code_that_cannot_be_kept(tmp_path, attack):
    script, temporary = tmp_path / "script.py", tmp_path / "tmp"
    script.write_text(KEPT)
    temporary.mkdir()
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "NUMBA_CACHE_DIR"}

    def result():
        command = [sys.executable, script, temporary, attack]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
        assert done.stderr.count("\n") == 1 and done.stderr.startswith("partwise: compiled code "), (
            done.stderr
        )
        return done.stdout

    assert result() == "2 4 0\n"
    assert result() == ("2 4 1\n" if attack == "read-only" else "2 4 0\n")
    if attack == "read-only":
        [kept] = temporary.iterdir()
        kept.chmod(0o777)  # others could have put code there
        assert result() == "2 4 0\n"


def test_a_damaged_cache_is_compiled_over(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(KEPT)
    environment = {**ENVIRONMENT, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def result():
        command = [sys.executable, script, tmp_path, "read-only"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
        assert done.stderr == ""
        return done.stdout

    assert result() == "2 4 0\n"
    for index in (tmp_path / "cache").rglob("*.nb?"):
        index.write_bytes(index.read_bytes()[:10])
    assert result() == "2 4 0\n"
    assert result() == "2 4 1\n"
