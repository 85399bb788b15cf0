"""Rows with classes on disk: the same problem as in memory; and how much of any dataset is in memory at a time."""

from __future__ import annotations

import builtins
import gzip
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_out_of_core import _conll, _run, _with_array, _write_header, small_blocks

from partwise import Classifier, InputError, SequenceLabeler, open_dataset
from partwise.core import memory_limits as memory_limits_module
from partwise.core.streamed import ROW_ARRAYS
from partwise.estimators.on_disk import room
from partwise.solvers import memory
from partwise.storage.folder import HEADER
from partwise.tasks.classes.reading import read_classes
from partwise.tasks.options import DataOptions

__all__ = ["small_blocks"]
FILES = ["rows.svm", "rows.csv", "rows.npz", "sparse.csv"]


def _write(folder: Path, n: int = 240) -> None:
    """The same classes in every format; some rows are there several times."""
    random = np.random.default_rng(0)
    y = random.integers(0, 4, n)
    table = (random.random((n, 12)) < 0.2) * random.integers(1, 4, (n, 12))
    table[20:40] = table[:20]
    y[20:30] = y[:10]
    lines = []
    for k, (label, row) in enumerate(zip(y, table, strict=True)):
        entries = [f"{j}:{value}" for j, value in enumerate(row) if value]
        lines.append(f"{'+' if k % 2 else ''}{label} {' '.join(entries[:: -1 if k % 3 else 1])}\n")
    (folder / "rows.svm").write_text("".join(lines))
    dense = random.normal(size=(n, 5)).round(3) + np.eye(5)[y]
    for name, numbers in (("rows.csv", dense), ("sparse.csv", table)):
        cells = [",".join(map(str, [*row, f"class {c}"])) for row, c in zip(numbers.tolist(), y, strict=True)]
        (folder / name).write_text("\n".join(cells) + "\n")
    np.savez_compressed(folder / "rows.npz", X=dense.astype(np.float32), Y=y.astype(np.uint8))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files, and what they were encoded to."""
    where = tmp_path_factory.mktemp("classes")
    _write(where)
    for name in FILES:
        assert _run("encode", "classify", where / name, "-o", where / f"{name}.data", "-q") == 0
    return where


pytestmark = pytest.mark.filterwarnings("ignore:stopped at max_passes")


def _on_disk(path: Path, given: dict[str, Any] | None = None, **parameters: Any) -> Classifier:
    data = open_dataset(path, **(given or {}))
    return Classifier(**data.parameters, **parameters).fit(data)


# -- the same problem and model ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(("pairs", "loss", "is_merged"), [("all", "log", True), ("observed", "hinge", False)])
def test_same_problem_and_model_as_in_memory(name, pairs, loss, is_merged, folder, tmp_path, monkeypatch):
    """Every array that compiled code reads is the same, so that training is, bit for bit."""
    monkeypatch.setattr("partwise.tasks.classes.reading._BATCH", 17)  # several batches
    monkeypatch.setattr("partwise.tasks.classes.streaming._NUMBERS", 100)
    if not is_merged:
        monkeypatch.setattr("partwise.tasks.classes.data._SORTED_UP_TO", 0)
    assert _run("encode", "classify", folder / name, "-o", tmp_path / "data", "--pairs", pairs, "-q") == 0
    data = open_dataset(tmp_path / "data")
    settings = {**data.parameters, "loss": loss, "max_passes": 2, "tol": 1e-9, "class_weight": "balanced"}
    settings["solver"] = "crammer-singer" if loss == "hinge" else "auto"  # which has another way in memory
    disk = Classifier(**settings).fit(data)
    read = read_classes(str(folder / name), DataOptions("auto"))
    in_memory = Classifier(**settings).fit(read.x, read.y)
    one, other = in_memory._training.problem, disk._training.problem
    (ours,), (theirs,) = one.scorer.kinds, other.scorer.kinds
    for array in (*ROW_ARRAYS, "narrow_label", "mask", "dense", "dense_start"):
        np.testing.assert_array_equal(getattr(ours, array), getattr(theirs, array), err_msg=array)
    np.testing.assert_array_equal(one.example_weight, other.example_weight)
    np.testing.assert_array_equal(disk.coef_, in_memory.coef_)
    assert disk.classes_.tolist() == in_memory.classes_.tolist()
    assert disk.objective_ == in_memory.objective_
    np.testing.assert_array_equal(disk.predict(read.x), in_memory.predict(read.x))
    assert (data.n_examples < len(read.y)) == (is_merged and name in ("rows.svm", "sparse.csv"))


@pytest.mark.parametrize("name", ["rows.svm", "rows.csv"])
@pytest.mark.parametrize("loss", ["log", "hinge"])
def test_shards_and_state_on_disk_reach_the_same_optimum(name, loss, folder, tmp_path, small_blocks):
    read = read_classes(str(folder / name), DataOptions("auto"))
    tol = 3e-3 if loss == "hinge" else 1e-4
    in_memory = Classifier(loss=loss, tol=tol).fit(read.x, read.y)
    given = {"state_dir": tmp_path, "shard_mb": 0.01}
    disk = _on_disk(folder / f"{name}.data", given, loss=loss, tol=tol, max_passes=1000)
    assert disk._training.problem.held.n_shards > 1
    assert disk.converged_ and disk.objective_ == pytest.approx(in_memory.objective_, rel=2 * tol)
    assert os.listdir(tmp_path) == []  # its files have no names


# -- the command line -------------------------------------------------------------------------------------------------


def test_command_line_trains_from_a_folder(folder, tmp_path, capsys):
    model = tmp_path / "model"
    options = ("-m", model, "--max-passes", 2, "-q", "--json")
    given = ("--dev", folder / "rows.csv", "--state-dir", tmp_path, "--shard-mb", 0.01)
    assert _run("train", "classify", folder / "rows.csv.data", *options, *given) == 0
    assert json.loads(capsys.readouterr().out)["dev"]["accuracy"] > 0.3
    assert _run("evaluate", model, folder / "rows.csv", "--json") == 0
    assert json.loads(capsys.readouterr().out)["n_rows"] == 240
    for arguments, words in (
        (("sequence", folder / "rows.csv.data"), "use `partwise train classify`"),
        (("classify", folder / "rows.csv.data", "--separator", "tab"), "was settled when they were encoded"),
        (("classify", folder / "rows.csv", "--shard-mb", 1), "are for folders"),
        (("classify", tmp_path), "there is no dataset.json"),
    ):
        assert _run("train", *arguments, *options) == 2
        assert words in capsys.readouterr().err
    with pytest.raises(InputError, match="which SequenceLabeler cannot be trained on"):
        SequenceLabeler().fit(open_dataset(folder / "rows.csv.data"))
    data = open_dataset(folder / "rows.csv.data")
    with pytest.raises(InputError, match="encoded with fit_intercept=True"):
        Classifier(fit_intercept=False).fit(data)
    with pytest.raises(InputError, match="has its own labels"):
        Classifier(**data.parameters).fit(data, [0])
    with pytest.raises(InputError, match="nothing can be added"):
        Classifier(**data.parameters, max_passes=1).fit(data).partial_fit(np.ones((1, 5)), ["class 1"])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "this file is empty"),
        (b"\n\n", "no rows"),
        (b"1 0:1\n2 x\n", ":2: 'x' is not index:value"),
        (b"1 0:1\n0:1\n", ":2: no class"),
        (b"1 0:1e300\n", "too large for dtype('float32')"),
        (b"1,a\n2\n", ":2: 1 columns, but the first row has 2"),
        (b"a,b\n", "no rows in this file"),
        (b"1,a\n2,\n", ":2: this row has no class"),
        (b"\xff,a\n", "is not UTF-8"),
        (b"PK\x03\x04 and nothing else", "npz"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(content, words, tmp_path, capsys):
    (tmp_path / "train").write_bytes(content)
    assert _run("encode", "classify", tmp_path / "train", "-o", tmp_path / "data") == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1 and os.listdir(tmp_path) == ["train"]


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": np.ones((3, 2))}, "needs arrays x and y"),
        ({"x": np.ones((3, 2)), "y": np.zeros(2, int)}, "for each of the 3 rows"),
        ({"x": np.ones((3, 2)), "y": np.array([None] * 3)}, "cannot be read as npz"),
        ({"x": np.array([[np.nan]]), "y": np.zeros(1, int)}, "finite numbers"),
        ({"x": np.ones((3, 2), "U1"), "y": np.zeros(3, int)}, "finite numbers"),
        ({"x": np.ones((3, 2), order="F"), "y": np.zeros(3, int)}, "column by column"),
        ({"x": np.ones((0, 2)), "y": np.zeros(0, int)}, "has no numbers"),
    ],
)
def test_archives_that_cannot_be_read(arrays, words, tmp_path, capsys):
    np.savez(tmp_path / "train.npz", **arrays)
    assert _run("encode", "classify", tmp_path / "train.npz", "-o", tmp_path / "data") == 2
    assert words in capsys.readouterr().err and os.listdir(tmp_path) == ["train.npz"]


def test_archives_that_were_cut_or_packed_again(folder, tmp_path, capsys):
    whole = (folder / "rows.npz").read_bytes()
    for name, data in (("cut.npz", whole[: len(whole) // 2]), ("again.gz", gzip.compress(whole))):
        (tmp_path / name).write_bytes(data)
        assert _run("encode", "classify", tmp_path / name, "-o", tmp_path / "data") == 2
        assert "npz" in capsys.readouterr().err and not (tmp_path / "data").exists()


# -- hostile folders --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "array", "change"),
    [
        ("rows.csv", "node.dense", lambda a: np.full_like(a, np.nan)),
        ("rows.csv", "labels", lambda a: a + 4),
        ("rows.svm", "node.wide_start", lambda a: a + 2**20),
        ("rows.svm", "node.wide_value", lambda a: a[:-1]),
        ("rows.svm", "weights", lambda a: -a),
        ("rows.svm", "weights", lambda a: a[1:]),
    ],
)
def test_numbers_out_of_range_are_refused(name, array, change, folder, tmp_path):
    copy = Path(shutil.copytree(folder / f"{name}.data", tmp_path / "copy"))
    dtype = {"labels": np.int32, "node.wide_start": np.int32, "weights": np.float64}.get(array, np.float32)
    _with_array(copy, array, change(np.fromfile(copy / array, dtype)))
    with pytest.raises(InputError, match="damaged dataset"):
        open_dataset(copy)


def test_headers_that_make_no_sense_are_refused(folder, tmp_path):
    copy = Path(shutil.copytree(folder / "rows.csv.data", tmp_path / "copy"))
    content = json.loads(json.loads((copy / HEADER).read_text())["content"])
    for entry, value in (
        ("labels", [1.5, 2.5, 3.5, 4.5]), ("labels", [None] * 4), ("n_features", 4), ("n_features", 2**40),
        ("storage", "sparse"), ("storage", 3), ("parameters", {}), ("n_examples", 3), ("task", "sequence"),
    ):  # fmt: skip
        changed = json.loads(json.dumps(content))
        changed["header"][entry] = value
        _write_header(copy, changed)
        with pytest.raises(InputError, match="damaged dataset"):
            open_dataset(copy)


# -- how much is in memory at a time ----------------------------------------------------------------------------------


@pytest.fixture
def large(tmp_path, monkeypatch) -> Path:
    """A dataset whose process has nothing else in memory, on a machine that has enough."""
    for module, name, value in (
        (memory, "resident_bytes", 0), (memory, "physical_bytes", 1e12), (room, "memory_there_is", 10**12),
        (memory, "memory_limits", []),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, lambda value=value: value)
    monkeypatch.setattr(memory, "_COMPILED", 0)
    monkeypatch.setattr(room, "_LEAST_SHARD", 1000)
    monkeypatch.setattr("partwise.core.streamed._SMALLEST_BLOCK", 1000)
    _conll(tmp_path / "train", 400)
    assert _run("encode", "sequence", tmp_path / "train", "-o", tmp_path / "data", "-q") == 0
    return tmp_path / "data"


def test_limits_decide_on_shards_and_on_where_state_is(large, monkeypatch):
    def fitted(limit: float | None, **given: Any) -> tuple[Any, Any]:
        data = open_dataset(large, **given)
        model = SequenceLabeler(**data.parameters, solver="eg-gap", max_passes=1, memory_limit=limit).fit(
            data
        )
        problem = model._training.problem
        return problem, memory.memory_estimate(problem, "eg-gap", memory_limit=limit)

    problem, estimate = fitted(None)
    assert problem.held.n_shards == 1 and not problem.keeps_state_on_disk
    everything = problem.n_bytes + 8 * problem.n_parts + problem.batch.gold_part.nbytes
    beside = memory.bytes_beside(problem.n_weights, problem.n_examples, 1)
    enough = (beside + everything) / (1.0 - room._MARGIN)
    assert estimate.on_disk == "data on disk" and estimate.streamed == problem.n_bytes
    problem, _ = fitted(1.01 * enough)
    assert problem.held.n_shards == 1 and not problem.keeps_state_on_disk
    problem, estimate = fitted((beside + 0.5 * everything) / (1.0 - room._MARGIN))
    assert problem.held.n_shards > 1 and problem.keeps_state_on_disk
    assert estimate.parts == 0 and "data and state on disk, of which" in str(estimate)
    assert estimate.streamed <= 0.5 * everything * (1 + 1e-6)
    assert sorted(os.listdir(large.parent)) == ["data", "train"]
    limit = (beside + 0.9 * everything) / (1.0 - room._MARGIN)
    monkeypatch.setattr(memory, "memory_limits", lambda: [int(limit)])  # as a container has
    monkeypatch.setattr(room.os, "access", lambda *_: False)
    problem, estimate = fitted(None)
    assert problem.held.n_shards > 1 and not problem.keeps_state_on_disk and estimate.parts
    problem, _ = fitted(None, shard_mb=1000)  # what is given stays
    assert problem.held.n_shards == 1


@pytest.mark.parametrize(
    ("groups", "file"),
    [("0::/a/b\n", "memory.max"), ("5:cpu:/x\n4:memory,foo:/a/b\n0::/\n", "memory/memory.limit_in_bytes")],
)
def test_limits_of_groups_are_those_of_the_process(groups, file, tmp_path, monkeypatch):
    (tmp_path / "own").write_text(groups)
    folder, name = os.path.split(tmp_path / "groups" / file)
    for group, limit in (("a/b", "max"), ("a", "70000"), ("", "90000"), ("other", "5")):
        os.makedirs(os.path.join(folder, group), exist_ok=True)
        Path(folder, group, name).write_text(limit + "\n")
    own_open = open

    def open_here(path: str, *arguments: Any, **settings: Any) -> Any:
        moved = path.replace("/proc/self/cgroup", f"{tmp_path}/own").replace(
            "/sys/fs/cgroup", f"{tmp_path}/groups"
        )
        return own_open(moved, *arguments, **settings)

    monkeypatch.setattr(builtins, "open", open_here)
    assert sorted(each for each in memory_limits_module.memory_limits() if each < 10**6) == [70000, 90000]
