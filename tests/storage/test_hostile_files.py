"""Attacks on files: nothing is lost, nothing is overwritten, errors are one line.

A fast selection; those marked `hostile` take longer and run with ``make hostile``.
"""

# ruff: noqa: F811  (fixtures are imported, and named again by the tests that take them)

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import threading

import numpy as np
import pytest
from commands import ENVIRONMENT, refused
from effort import lines_executed
from hostile import CLASSES, ROWS, TABLE, TRAIN, folder, model, process, run, write  # noqa: F401

import partwise
from partwise import Classifier, InputError, SequenceLabeler

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX files and signals")


# -- what is at the path of an output -------------------------------------------------------------


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


@pytest.mark.parametrize(
    "estimator",
    [
        Classifier(fit_intercept=0), Classifier(warm_start=1), Classifier(warm_start=np.True_),
        Classifier(class_weight={"a": np.float32(2)}), Classifier(random_state=np.int64(3)),
        Classifier(verbose=False), Classifier(random_state=np.random.default_rng(0)),
    ],
    ids=lambda each: repr(each).split(" at 0x")[0],
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
    assert '"certificate":{"stopped":' in page  # nothing is said to be proved


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

    def refuse() -> None:
        with pytest.raises(InputError, match=message) as error:
            SequenceLabeler(template=text).fit([[["a", "b"]]], [["x"]])
        assert len(str(error.value)) < 300

    assert lines_executed(refuse) < 200_000


def test_a_template_object_can_be_saved(tmp_path):
    from partwise.features.templates import parse_template

    fitted = SequenceLabeler(template=parse_template("bias")).fit([[["a"]], [["b"]]], [["x"], ["y"]])
    fitted.save(tmp_path / "m.pw")
    assert partwise.load(tmp_path / "m.pw").template == "bias\n"


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
    code, _, err = run("report", "odd.pw", "-o", "page.html")
    assert code == 0 and "tol" in err.splitlines()[0] and "its curve is shown" in err.splitlines()[0]
    assert '"model"' not in (folder / "page.html").read_text()


# -- compiled code ---------------------------------------------------------------------------------

KEPT = """
import os, sys, tempfile
tempfile.tempdir, attack = sys.argv[1:]
def fail(*arguments):
    raise OSError(28, "No space left on device")
if attack == "full":
    os.replace = fail
from partwise.compiled.clock import kernels_compiled
from partwise.compiled.dispatch import entry
@entry
def increased(x):
    return x + 1
@entry
def doubled(x):
    return 2 * x
print(increased(1), doubled(2), kernels_compiled())
"""


def _result(tmp_path, attack, cache):
    (tmp_path / "script.py").write_text(KEPT)
    (tmp_path / "tmp").mkdir(exist_ok=True)
    command = [sys.executable, tmp_path / "script.py", tmp_path / "tmp", attack]
    environment = {**ENVIRONMENT, "PARTWISE_CACHE_DIR": str(cache)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_code_that_cannot_be_kept_in_its_folder_is_kept_in_another(tmp_path):
    (tmp_path / "file").write_text("a folder cannot be made here")
    expected = r"partwise: .*file cannot hold compiled code; set PARTWISE_CACHE_DIR to a writable folder\n"
    for n_compiled in (2, 0):
        out, err = _result(tmp_path, "nothing", tmp_path / "file")
        assert out == f"2 4 {n_compiled}\n" and re.fullmatch(expected, err), err
    [kept] = (tmp_path / "tmp").iterdir()
    kept.chmod(0o777)  # others could have put code there
    assert _result(tmp_path, "nothing", tmp_path / "file")[0] == "2 4 2\n"


def test_code_that_cannot_be_written(tmp_path):
    for _ in range(2):
        out, err = _result(tmp_path, "full", tmp_path / "cache")
        assert out == "2 4 2\n" and err.count("\n") == 1 and "No space left on device" in err
    assert not [file for file in (tmp_path / "cache").rglob("*") if file.is_file()]


def test_damaged_code_is_compiled_over(tmp_path):
    cache = tmp_path / "cache"
    assert _result(tmp_path, "nothing", cache) == ("2 4 2\n", "")
    for damage in (lambda code: code[:100], lambda code: b"", lambda code: code[:-40] + b"x" + code[-39:]):
        for kept in cache.rglob("*.o"):
            kept.write_bytes(damage(kept.read_bytes()))
        assert _result(tmp_path, "nothing", cache) == ("2 4 2\n", "")
        assert _result(tmp_path, "nothing", cache) == ("2 4 0\n", "")
