"""Training data on disk: the same problem as in memory, whole or not at all; hostile folders are refused."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import partwise
from partwise import InputError, SequenceLabeler, open_dataset
from partwise.cli import main
from partwise.core.mapped import zeros_on_disk
from partwise.core.streamed import ROW_ARRAYS
from partwise.storage.folder import HEADER
from partwise.tasks.options import DataOptions
from partwise.tasks.sequences.reading import read_sequences

pytestmark = pytest.mark.filterwarnings("ignore:.*relative gap")
_EDGES = "U00:%x[0,0]\nU01:%x[-1,0]/%x[0,0]\nB\nB01:%x[0,1]\n"


def _sentences(n: int, seed: int = 0) -> list[list[tuple[str, str, str]]]:
    rng = random.Random(seed)
    tags = ["O", "B-X", "I-X", "B-Y"]
    return [
        [
            (f"w{rng.randrange(60)}", f"p{rng.randrange(5)}", rng.choice(tags))
            for _ in range(rng.randint(1, 9))
        ]
        for _ in range(n)
    ]


def _conll(path: Path, n: int = 300) -> Path:
    path.write_text("\n".join("".join(" ".join(row) + "\n" for row in each) for each in _sentences(n)))
    return path


def _jsonl(path: Path, kind: str, n: int = 120) -> Path:
    lines = []
    for each in _sentences(n):
        tokens = [word for word, _, _ in each]
        features = [{"w": word, "size": 0.5 * len(tag), "bias": 1.0} for word, tag, _ in each]
        inputs = {"tokens": tokens} if kind == "tokens" else {"features": features}
        lines.append(json.dumps({**inputs, "labels": [label for _, _, label in each]}))
    path.write_text("\n".join(lines) + "\n")
    return path


def _crfsuite(path: Path, n: int = 120) -> Path:
    blocks = []
    for k, each in enumerate(_sentences(n)):
        head = f"@weight:{1 + k % 3}\n" if k % 2 else ""
        blocks.append(
            head + "".join(f"{label}\tw={word}\tp={tag}:2.5\tw={word}\n" for word, tag, label in each)
        )
    path.write_text("\n".join(blocks) + "\n")
    return path


def _run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(each) for each in arguments])
    return int(stop.value.code or 0)


def _encoded(train: Path, folder: Path, *options: object) -> Path:
    assert _run("encode", "sequence", train, "-o", folder, "-q", *options) == 0
    return folder


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A file, and the folder it was encoded to."""
    where = tmp_path_factory.mktemp("corpus")
    train = _conll(where / "train.txt")
    return train, _encoded(train, where / "data")


def _in_memory(train: Path, **parameters: object) -> SequenceLabeler:
    data = read_sequences(str(train), DataOptions("auto"))
    return SequenceLabeler(**parameters).fit(data.x, data.y, sample_weight=data.weights)


def _on_disk(folder: Path, given: dict[str, object] | None = None, **parameters: object) -> SequenceLabeler:
    data = open_dataset(folder, **(given or {}))
    return SequenceLabeler(**data.parameters, **parameters).fit(data)


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (_conll, {}),
        (_conll, {"min_count": 3}),
        (_conll, {"hash_size": 50}),
        (_conll, {"pairs": "all"}),
        (_conll, {"template": "edges"}),
        (lambda path, n: _jsonl(path, "tokens", n), {}),
        (lambda path, n: _jsonl(path, "features", n), {"min_count": 2}),
        (lambda path, n: _jsonl(path, "features", n), {"hash_size": 40}),
        (_crfsuite, {}),
    ],
)
def test_same_problem_and_model_as_in_memory(make, options, tmp_path):
    """Every array that compiled code reads is the same, so that training is, bit for bit.

    Files have so many sequences that they are read in several batches.
    By the default, weights of frequent attributes may be held from the third pass on, which streamed rows do without.
    """
    options = dict(options)
    if options.get("template") == "edges":
        (tmp_path / "edges").write_text(_EDGES)
        options["template"] = str(tmp_path / "edges")
    train = make(tmp_path / "train", 2500)
    flags = [each for name, value in options.items() for each in (f"--{name.replace('_', '-')}", value)]
    data = open_dataset(_encoded(train, tmp_path / "data", *flags))
    for solver, passes in (("eg-permuted", 3), ("auto", 2)):
        disk = SequenceLabeler(**data.parameters, solver=solver, max_passes=passes, tol=1e-9).fit(data)
        memory = _in_memory(train, **data.parameters, solver=solver, max_passes=passes, tol=1e-9)
        _check_same(memory, disk, tmp_path)


def _check_same(memory, disk, folder):
    one, other = memory._training.problem, disk._training.problem
    for ours, theirs in zip(one.scorer.kinds, other.scorer.kinds, strict=True):
        for name in (*ROW_ARRAYS, "narrow_label", "mask"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)
    np.testing.assert_array_equal(one.batch.gold_part, other.batch.gold_part)
    np.testing.assert_array_equal(one.example_weight, other.example_weight)
    memory.save(folder / "memory")
    disk.save(folder / "disk")
    kept = [partwise.storage.model_file.load_model(folder / each) for each in ("memory", "disk")]
    assert kept[0][0]["encoder"] == kept[1][0]["encoder"] and kept[0][0]["labels"] == kept[1][0]["labels"]
    assert kept[0][1].keys() == kept[1][1].keys()
    for name, array in kept[0][1].items():
        np.testing.assert_array_equal(array, kept[1][1][name], err_msg=name)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks smaller than pages, which are not read from the disk again for each; other tests do that."""
    monkeypatch.setattr("partwise.core.streamed._SMALLEST_BLOCK", 1000)
    monkeypatch.setattr("partwise.core.mapped.MappedArray.drop", lambda *_: None)


@pytest.mark.parametrize("loss", ["log", "hinge", "softmax_margin"])
def test_shards_and_state_on_disk_reach_the_same_optimum(corpus, tmp_path, small_blocks, loss):
    train, folder = corpus
    tol, l2 = (0.03, 10.0) if loss == "hinge" else (1e-4, 1.0)
    memory = _in_memory(train, template="ner", loss=loss, tol=tol, l2=l2)
    disk = _on_disk(folder, {"state_dir": tmp_path, "shard_mb": 0.05}, loss=loss, tol=tol, l2=l2)
    held = disk._training.problem.held
    assert held.n_shards > 3 and held.n_blocks >= held.n_shards
    assert disk.converged_ and disk.duality_gap_ <= tol
    assert disk.objective_ == pytest.approx(memory.objective_, rel=2 * tol)
    assert os.listdir(tmp_path) == []  # its files have no names


@pytest.mark.parametrize("solver", ["eg", "eg-permuted", "bcfw", "sgd", "mira", "lbfgs", "eg-batch"])
def test_solvers_stream(corpus, tmp_path, small_blocks, solver):
    """Every solver visits every example once a pass, whatever the shards, and its certificate is true."""
    _, folder = corpus
    loss = "hinge" if solver in ("bcfw", "mira") else "log"
    given = {"state_dir": tmp_path, "shard_mb": 0.05}
    disk = _on_disk(folder, given, loss=loss, solver=solver, tol=1e-2, max_passes=6)
    problem = disk._training.problem
    assert problem.primal(disk._training.weights) == pytest.approx(disk.objective_, rel=1e-9)
    assert disk.dual_objective_ <= disk.objective_ * (1 + 1e-9)


def test_threads_stream(corpus, tmp_path):
    _, folder = corpus
    one, two = (
        _on_disk(folder, {"state_dir": tmp_path, "shard_mb": 0.05}, n_jobs=n, max_passes=3, tol=1e-9)
        for n in (1, 3)
    )
    assert one.objective_ == pytest.approx(two.objective_, rel=1e-9)


def test_shards_are_drawn_anew_and_cover_all(corpus, monkeypatch):
    _, folder = corpus
    monkeypatch.setattr("partwise.core.streamed._SMALLEST_BLOCK", 2000)
    problem = _on_disk(folder, {"shard_mb": 0.05}, max_passes=1)._training.problem
    generator = np.random.default_rng(0)
    first, second = (list(problem.shards(generator)) for _ in range(2))
    for shards in (first, second):
        np.testing.assert_array_equal(np.sort(np.concatenate(shards)), np.arange(problem.n_examples))
    assert not np.array_equal(first[0], second[0])
    ranges = list(problem.in_order())
    assert len(ranges) > 1 and ranges[0][0] == 0 and ranges[-1][1] == problem.n_examples
    assert all(a[1] == b[0] for a, b in pairwise(ranges))


def test_files_of_states_go_with_the_states(corpus, tmp_path):
    _, folder = corpus
    model = _on_disk(folder, {"state_dir": tmp_path, "shard_mb": 0.05}, max_passes=1)
    held = model._training.problem.held
    before, own = held.n_bytes, model._training.state.theta.nbytes
    array = held.zeros(model._training.problem.batch.part_ptr, np.float32)
    part = array[5:]
    del array
    assert held.n_bytes == before + own
    part[:] = 1.0
    del part
    assert held.n_bytes == before


def test_masks_are_learnt_and_checked_in_blocks(corpus, tmp_path, monkeypatch):
    train, folder = corpus
    monkeypatch.setattr("partwise.estimators.on_disk.problem._AT_ONCE", 40)
    memory = _in_memory(train, template="ner", transitions="observed", max_passes=1)
    disk = _on_disk(folder, transitions="observed", max_passes=1)
    np.testing.assert_array_equal(
        memory._training.problem.structure.allowed, disk._training.problem.structure.allowed
    )
    with pytest.raises(InputError, match="is not possible under"):
        _on_disk(folder, scheme="IOB2")


def test_command_line_trains_from_a_folder(corpus, tmp_path, capsys):
    train, folder = corpus
    model = tmp_path / "model"
    options = ("-m", model, "--max-passes", 2, "-q", "--json")
    assert _run("train", "sequence", folder, *options, "--state-dir", tmp_path, "--shard-mb", 0.05) == 0
    assert json.loads(capsys.readouterr().out)["passes"] >= 2
    assert _run("evaluate", model, train, "--json") == 0
    assert "accuracy" in capsys.readouterr().out
    for wrong, words in (
        (("--min-count", 2), "was encoded with --min-count 1, not 2"),
        (("--template", "chunking"), "was encoded with --template ner, not chunking"),
        (("--separator", "tab"), "was settled when they were encoded"),
        (("--state-dir", tmp_path / "none"), "must be a folder that can be written to"),
        (("--shard-mb", 0), "shard_mb must be a number > 0"),
    ):
        assert _run("train", "sequence", folder, *options, *wrong) == 2
        assert words in capsys.readouterr().err
    assert _run("train", "sequence", train, *options, "--shard-mb", 1) == 2
    assert "are for folders" in capsys.readouterr().err


# -- what cannot be encoded ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no positions"),
        ("a X\nb\n", "1 column, but line 1 has 2"),
        ("a\nb\n", "no label column"),
        ('{"tokens": ["a"]}\n', "a label is missing"),
        ('{"tokens": ["a"], "labels": ["X"]}\n{"tokens": 3}\n', ":2:"),
        ('{"features": ["a"], "labels": ["X"]}\n', "must be an object or a list of strings"),
        ("\udcff".encode("utf-8", "surrogateescape").decode("latin-1"), None),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(text, words, tmp_path, capsys):
    train = tmp_path / "train"
    train.write_bytes(b"\xff X\n" if words is None else text.encode())
    assert _run("encode", "sequence", train, "-o", tmp_path / "data") == 2
    error = capsys.readouterr().err
    assert (words or "is not UTF-8") in error and error.count("\n") == 1
    assert os.listdir(tmp_path) == ["train"]


def test_output_must_be_new_and_writable(corpus, tmp_path, capsys):
    train, folder = corpus
    assert _run("encode", "sequence", train, "-o", folder) == 2
    assert "already exists" in capsys.readouterr().err
    assert _run("encode", "sequence", train, "-o", tmp_path / "no" / "data") == 2
    assert "there is no directory" in capsys.readouterr().err
    assert _run("encode", "sequence", tmp_path / "none", "-o", tmp_path / "data") == 2
    assert "no such file" in capsys.readouterr().err and os.listdir(tmp_path) == []


def test_estimator_must_have_the_parameters_of_the_dataset(corpus):
    data = open_dataset(corpus[1])
    with pytest.raises(InputError, match="was encoded with template='ner'"):
        SequenceLabeler().fit(data)
    with pytest.raises(InputError, match="has its own labels"):
        SequenceLabeler(**data.parameters).fit(data, [["O"]])
    model = SequenceLabeler(**data.parameters, max_passes=1).fit(data)
    with pytest.raises(InputError, match="nothing can be added"):
        model.partial_fit([[("a", "b")]], [["O"]])


def test_killed_encoding_leaves_nothing_that_loads(tmp_path, capsys):
    """What a killed process was writing has another name, and the next one that writes there removes it."""
    train = _conll(tmp_path / "train.txt", 30)
    code = (
        "import os, signal, sys\n"
        "from partwise.storage.folder import LOCK\n"
        "def kill(event, arguments):\n"
        "    path = str(arguments[0]) if event == 'open' else ''\n"
        "    if 'partwise-unfinished' in path and not path.endswith(LOCK):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "sys.addaudithook(kill)\n"
        "from partwise.cli import main\n"
        "main(sys.argv[1:])\n"
    )
    command = [sys.executable, "-c", code, "encode", "sequence", str(train), "-o", str(tmp_path / "data")]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    (left,) = (each for each in os.listdir(tmp_path) if each != "train.txt")
    assert left.endswith(".partwise-unfinished") and not (tmp_path / "data").exists()
    with pytest.raises(InputError, match=f"there is no {HEADER}"):
        open_dataset(tmp_path / left)
    _encoded(train, tmp_path / "data")
    assert sorted(os.listdir(tmp_path)) == ["data", "train.txt"]
    open_dataset(tmp_path / "data")


# -- what cannot be opened -------------------------------------------------------------------------


@pytest.fixture
def copy(corpus, tmp_path) -> Path:
    return Path(shutil.copytree(corpus[1], tmp_path / "copy"))


def _refused(folder: Path, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        open_dataset(folder)
    assert "\n" not in str(caught.value) and str(folder) in str(caught.value)


def _with_array(folder: Path, name: str, array: np.ndarray, dtype: str | None = None) -> None:
    """Put another array in a folder, with a header that agrees: damage that only looking at it can find."""
    (folder / name).write_bytes(array.tobytes())
    whole = json.loads((folder / HEADER).read_text())
    content = json.loads(whole["content"])
    digest = blake2b(array.tobytes(), digest_size=16).hexdigest()
    content["arrays"][name] = {
        "dtype": dtype or array.dtype.str,
        "shape": list(array.shape),
        "checksum": digest,
    }
    _write_header(folder, content)


def _write_header(folder: Path, content: dict[str, object]) -> None:
    text = json.dumps(content)
    checksum = blake2b(text.encode(), digest_size=16).hexdigest()
    whole = {"format": "partwise-dataset", "version": 1, "checksum": checksum, "content": text}
    (folder / HEADER).write_text(json.dumps(whole))


_DTYPES = {"labels": np.int32, "node.wide_start": np.int32, "node.narrow_start": np.int32}


@pytest.mark.parametrize("name", ["labels", "lengths", "node.wide_start", "node.narrow_ptr", "strings.0"])
def test_truncated_grown_missing_or_changed_files_are_refused(copy, name):
    path, whole = copy / name, (copy / name).read_bytes()
    for data in (whole[:-1], whole + b"\0"):
        path.write_bytes(data)
        _refused(copy, f"the file of array '{name}' is")
    path.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    _refused(copy, "damaged dataset")
    path.unlink()
    _refused(copy, f"array '{name}' cannot be read")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("labels", lambda a: a + 4),
        ("labels", lambda a: a - 1),
        ("lengths", lambda a: a * 0),
        ("lengths", lambda a: a + 1),
        ("lengths", lambda a: a.astype(np.int32)),
        ("node.wide_start", lambda a: a + 100_000),
        ("node.wide_start", lambda a: -a - 1),
        ("node.narrow_start", lambda a: a + 100_000),
        ("node.narrow_start", lambda a: a * 0),
        ("node.narrow_count", lambda a: a * 0),
        ("node.narrow_count", lambda a: a + 2**30),
        ("node.wide_ptr", lambda a: a[::-1].copy()),
        ("node.wide_ptr", lambda a: a + 1),
        ("node.narrow_ptr", lambda a: a[:-1].copy()),
        ("node.narrow_ptr", lambda a: np.where(np.arange(len(a)) == 5, -(2**40), a)),
        ("node.wide_value", lambda a: np.full(3, 1.0, np.float32)),
        ("node.narrow_label", lambda a: a + 100),
        ("node.start", lambda a: a + 2**20),
        ("node.count", lambda a: a + 5),
        ("node.count", lambda a: np.where(np.arange(len(a)) == np.argmax(a > 0), -1, a)),
        ("node.start", lambda a: np.where(np.arange(len(a)) == np.argmax(a), a.min(), a)),
        ("node.mask", lambda a: np.ones(3, np.float32)),
        ("node.wide_start", lambda a: a.astype(np.float32)),
        ("labels", lambda a: a.astype(np.int64)),
    ],
)
def test_numbers_out_of_range_are_refused(copy, name, change):
    dtypes = {"lengths": np.int64, "node.wide_ptr": np.int64, "node.narrow_ptr": np.int64}
    singles = ("node.mask", "node.wide_value")
    dtype = dtypes.get(name, np.float32 if name in singles else np.int32)
    _with_array(copy, name, change(np.fromfile(copy / name, dtype)))
    _refused(copy, "damaged dataset")


def test_links_paths_and_strange_files_are_refused(copy, tmp_path):
    outside = tmp_path / "outside"
    shutil.move(copy / "labels", outside)
    (copy / "labels").symlink_to(outside)
    _refused(copy, "array 'labels' cannot be read")
    (copy / "labels").unlink()
    os.mkfifo(copy / "labels")
    _refused(copy, "no ordinary file")
    (copy / "labels").unlink()
    shutil.copy(outside, copy / "labels")
    open_dataset(copy)
    content = json.loads(json.loads((copy / HEADER).read_text())["content"])
    for name in ("../outside", "/etc/passwd", ".hidden", ""):
        changed = json.loads(json.dumps(content))
        changed["arrays"][name] = content["arrays"]["labels"]
        _write_header(copy, changed)
        _refused(copy, "cannot be the name of an array")
    shutil.move(copy / HEADER, tmp_path / HEADER)
    (copy / HEADER).symlink_to(tmp_path / HEADER)
    _refused(copy, f"{HEADER} cannot be read")


def test_headers_that_make_no_sense_are_refused(copy):
    whole = (copy / HEADER).read_text()
    content = json.loads(json.loads(whole)["content"])
    for text in (
        "",
        "{",
        "[]",
        "{}",
        whole.replace('"version": 1', '"version": 99'),
        whole.replace("sequence", "x"),
    ):
        (copy / HEADER).write_text(text)
        _refused(copy, "damaged dataset")
    for entry, value in (
        ("task", "other"), ("labels", ["A", "A"]), ("labels", []), ("labels", None), ("encoder", {}), ("encoder", 3),
        ("parameters", {}), ("parameters", None), ("n_examples", -1), ("n_examples", "x"), ("n_examples", 2**70),
    ):  # fmt: skip
        changed = json.loads(json.dumps(content))
        changed["header"][entry] = value
        _write_header(copy, changed)
        _refused(copy, "damaged dataset")
    for name, value in (
        ("shape", [-1]),
        ("shape", [2**60]),
        ("shape", "x"),
        ("dtype", "|O8"),
        ("checksum", None),
    ):
        changed = json.loads(json.dumps(content))
        changed["arrays"]["labels"][name] = value
        _write_header(copy, changed)
        _refused(copy, "damaged dataset")
    with pytest.raises(InputError, match="no such directory"):
        open_dataset(copy / "none")
    with pytest.raises(InputError, match="this is no directory"):
        open_dataset(copy / "labels")


def test_read_only_folder_can_be_trained_on(copy):
    for path in (*copy.iterdir(), copy):
        path.chmod(path.stat().st_mode & ~0o222)
    try:
        _on_disk(copy, {"shard_mb": 0.05}, max_passes=1)
    finally:
        copy.chmod(0o755)


def test_state_on_disk_says_when_there_is_no_room(tmp_path):
    with pytest.raises(InputError, match=r"cannot keep .* MB of state here"):
        zeros_on_disk(tmp_path / "none", 10, np.float32)
    mapped = zeros_on_disk(tmp_path, 5000, np.float32)
    mapped.array[:] = np.arange(5000)
    mapped.leave(0, 5000)
    mapped.drop(0, 5000)
    np.testing.assert_array_equal(mapped.array, np.arange(5000))
