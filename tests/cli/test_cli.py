"""The command line, end to end on small files: what it prints, what it refuses, and what it leaves behind."""

# ruff: noqa: F811  (fixtures are imported, and named again by the tests that take them)

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from commands import ENVIRONMENT, refused, run, without_compiling  # noqa: F401

import partwise
from partwise.cli import main
from partwise.data.conll import parse_conll
from partwise.tasks.sequences.options import preset_for

SENTENCES = [
    "the D B-NP\ncat N I-NP\nsat V B-VP\non P O\nthe D B-NP\nmat N I-NP\n",
    "a D B-NP\ndog N I-NP\nran V B-VP\n",
    "cats N B-NP\nsleep V B-VP\n. . O\n",
    "the D B-NP\nbig A I-NP\ndog N I-NP\nsat V B-VP\n",
]
DATA = "\n".join(SENTENCES * 3)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with training data and a model."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "train.txt").write_text(DATA)
    with pytest.raises(SystemExit) as stopped:
        main(["train", "sequence", str(folder / "train.txt"), "--model", str(folder / "m.pw"), "-q"])
    assert stopped.value.code == 0
    return folder


def test_help_is_quick_and_loads_nothing_heavy():
    script = (
        "import sys\nfrom partwise.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print([m for m in ('numpy', 'numba', 'sklearn', 'matplotlib', 'safetensors') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=ENVIRONMENT
    )
    assert done.stdout.endswith("[]\n")
    for command in ("demo", "train", "predict", "evaluate", "inspect", "report"):
        assert command in done.stdout


def test_help_lists_train_first_and_groups_options(run):
    _, out, _ = run("--help")
    names = [line.split()[0] for line in out.partition("Commands:")[2].splitlines() if line[2:3].strip()]
    assert names[:3] == ["train", "predict", "evaluate"] and "..." not in out.partition("Commands:")[2]
    _, out, _ = run("train", "sequence", "--help")
    groups = re.findall(r"^(\w+):$", out, re.MULTILINE)
    assert groups == [
        "Arguments", "Data", "Model", "Objective", "Stopping", "Running", "Output", "Distributed", "Options",
    ]  # fmt: skip
    assert "--label-column" in out.partition("Data:")[2].partition("Model:")[0]


def test_a_forgotten_task_is_named(run, tmp_path):
    refused(run("train", "data.txt", "-m", "m"), "did you mean `partwise train sequence data.txt`?")
    refused(run("path", "data.conllu", "-m", "m"), "did you mean `partwise path dependency data.conllu`?")
    refused(run("train", "data.csv.gz", "-m", "m"), "`partwise train classify data.csv.gz`?")
    refused(run("train", "sequense", "x", "-m", "m"), "did you mean `partwise train sequence`?")


def test_a_column_of_words_is_not_taken_for_labels(run, tmp_path):
    rows = [f"word{k} {'AB'[k % 2]}" + "\n" * (1 + (k % 9 == 0)) for k in range(1500)]
    (tmp_path / "train.txt").write_text("\n".join(rows) + "\n")
    words = ("column 0 has 1,500 different labels", "column 1 has 2: --label-column 1")
    refused(run("train", "sequence", "train.txt", "-m", "m", "--label-column", 0), *words)
    assert not (tmp_path / "m").exists()


def test_scores_of_entities_come_first(run, trained, tmp_path):
    _, out, _ = run("evaluate", trained / "m.pw", trained / "train.txt")
    assert out.startswith("F1 ") and out.index("\ntype ") < out.index("\nNP ") < out.index("\nlabel ")
    _, out, _ = run("evaluate", trained / "m.pw", trained / "train.txt", "--json")
    found = json.loads(out)["types"]["NP"]
    assert set(found) == {"precision", "recall", "f1", "support"} and found["support"] == 15


def test_memory_is_shown_on_request_and_the_next_step_named(run, trained):
    files = ["train", "sequence", trained / "train.txt", "-m", "new.pw", "--dev", trained / "train.txt"]
    _, _, err = run(*files)
    assert "memory:" not in err
    assert f"next: `partwise path sequence {trained / 'train.txt'} --dev" in err.splitlines()[-1]
    _, _, err = run(*files, "--verbose")
    assert "memory: about" in err


def test_train_predict_evaluate(run, tmp_path):
    (tmp_path / "train.txt").write_text(DATA)
    (tmp_path / "dev.txt.gz").write_bytes(gzip.compress(DATA.encode()))
    code, out, err = run("train", "sequence", "train.txt", "--model", "m.pw", "--dev", "dev.txt.gz", "--json")
    assert code == 0
    summary = json.loads(out)
    assert summary["converged"] and summary["relative_gap"] <= 1e-3
    assert summary["dual_objective"] <= summary["objective"]
    assert summary["dev"]["f1_kind"] == "chunk" and summary["dev"]["accuracy"] > 0.9
    assert "model saved to m.pw" in err and "dev" in err and "gap" in err
    code, out, err = run("predict", "m.pw", "train.txt")
    assert code == 0 and err == ""
    rows = [line.split() for line in out.split("\n") if line]
    assert all(row[2] == row[3] for row in rows)
    assert [" ".join(row[:3]) for row in rows] == [line for line in DATA.split("\n") if line]
    code, out, err = run("evaluate", "m.pw", "train.txt", "--json")
    scores = json.loads(out)
    assert code == 0 and scores["accuracy"] == 1.0 and scores["f1"] == 1.0
    assert sorted(os.listdir(tmp_path)) == ["dev.txt.gz", "m.pw", "train.txt"]


def test_the_package_runs_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "partwise", "--version"], capture_output=True, text=True, env=ENVIRONMENT
    )
    assert done.stdout == f"partwise {partwise.__version__}\n"


def test_quiet_is_quiet(run, tmp_path):
    (tmp_path / "train.txt").write_text(DATA)
    assert run("train", "sequence", "train.txt", "--model", "m.pw", "--quiet") == (0, "", "")
    model = partwise.load("m.pw")
    assert model.template == "chunking" and model.converged_


def test_predict_keeps_every_line(run, trained, tmp_path):
    text = "the D\r\ncat N\r\n\r\n\r\n-DOCSTART- X\r\n\r\nsat\tV"
    (tmp_path / "in.txt").write_bytes(text.encode())
    code, out, _ = run("predict", trained / "m.pw", "in.txt")
    assert code == 0
    data = subprocess.run(
        [sys.executable, "-m", "partwise.cli", "predict", trained / "m.pw", "-"], input=text.encode(),
        capture_output=True, check=True, env=ENVIRONMENT,
    )  # fmt: skip
    assert data.stdout == b"the D B-NP\r\ncat N I-NP\r\n\r\n\r\n-DOCSTART- X O\r\n\r\nsat\tV\tB-VP"
    code, out, _ = run("predict", trained / "m.pw", "in.txt", "--output", "out.txt")
    assert (code, out) == (0, "") and (tmp_path / "out.txt").read_bytes() == data.stdout


def test_document_lines_get_as_many_columns_as_others(run, trained, tmp_path):
    (tmp_path / "in.txt").write_text("-DOCSTART- X\n\nthe D\ncat N\n")
    _, out, _ = run("predict", trained / "m.pw", "in.txt", "--marginals", "--kbest", 2)
    assert {len(line.split()) for line in out.splitlines() if line} == {5}


def test_what_else_a_json_line_holds_is_kept(run, tmp_path):
    lines = ['{"id": 7, "tokens": ["the", "cat"], "labels": ["D", "N"], "from": {"page": 3}}\n'] * 4
    (tmp_path / "train.jsonl").write_text("".join(lines))
    assert run("train", "sequence", "train.jsonl", "--model", "m.pw", "-q")[0] == 0
    _, out, _ = run("predict", "m.pw", "train.jsonl")
    assert [json.loads(line) for line in out.splitlines()] == [json.loads(line) for line in lines]


def test_evaluate_says_how_it_read_a_file_that_does_not_fit(run, trained, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"tokens": ["the"]}\n{"tokens": ["the", "cat"]}\n')
    refused(
        run("evaluate", trained / "m.pw", "in.jsonl"),
        "in.jsonl:2",
        "(read as conll; --format chooses another)",
    )


def test_predict_answers_while_input_is_open(trained):
    command = [sys.executable, "-m", "partwise.cli", "predict", str(trained / "m.pw")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT) as process:
        process.stdin.write(b"the D\ncat N\n\n")
        process.stdin.flush()
        assert [process.stdout.readline() for _ in range(3)] == [b"the D B-NP\n", b"cat N I-NP\n", b"\n"]
        process.stdin.write(b"sat V\n")
        process.stdin.close()
        assert process.stdout.read() == b"sat V B-VP\n"
        assert process.wait() == 0


@pytest.mark.parametrize(
    ("form", "line", "answer"),
    [("tagged", "the cat", "the/B-NP cat/I-NP"), ("jsonl", '{"tokens": ["the", "cat"]}', '["B-NP", "I-NP"]')],
)
def test_every_format_is_answered_as_it_arrives(run, tmp_path, form, line, answer):
    (tmp_path / "train.txt").write_text("the/B-NP cat/I-NP sat/B-VP\nthe/B-NP dog/I-NP sat/B-VP\n" * 5)
    assert run("train", "sequence", "train.txt", "--model", "m.pw", "--quiet")[0] == 0
    command = [sys.executable, "-m", "partwise.cli", "predict", str(tmp_path / "m.pw"), "--format", form]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT, text=True
    ) as process:
        for _ in range(2):
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            assert answer in process.stdout.readline()
        process.stdin.close()
        assert process.stdout.read() == "" and process.wait() == 0


def test_more_than_a_tag_of_tagged_text_can_be_read_again(run, tmp_path):
    (tmp_path / "train.txt").write_text("a/, 1\\/2/:: b/x:0.5\nb/x:0.5 a/,\n" * 5)
    assert run("train", "sequence", "train.txt", "--model", "m.pw", "--l2", "10", "--quiet")[0] == 0
    (tmp_path / "in.txt").write_text("a 1\\/2\nb\n")
    code, out, _ = run("predict", "m.pw", "in.txt", "--format", "tagged", "--marginals", "--kbest", 2)
    columns = parse_conll(out)
    assert code == 0 and columns.n_sequences == 2 and columns.columns[0] == ["a", "1/2", "b"]
    labels = set(columns.columns[1]) | set(columns.columns[2])
    assert labels <= {",", "::", "x:0.5"}
    for text, best in zip(columns.labels, columns.columns[1], strict=True):
        found = re.findall(r"(\S+?):(\d\.\d{4})(?:,|$)", text)
        assert {label for label, _ in found} == {",", "::", "x:0.5"} and found[0][0] == best
        assert sum(float(p) for _, p in found) == pytest.approx(1.0, abs=2e-3)
    code, out, _ = run("predict", "m.pw", "in.txt", "--format", "tagged")
    assert code == 0 and out.splitlines()[1] == "b/x:0.5" and out.startswith("a/,")


def test_a_file_without_blank_lines_is_said_to_be_one_sequence(run, tmp_path):
    (tmp_path / "train.txt").write_text("the D B-NP\ncat N I-NP\n" * 200)
    code, _, err = run("train", "sequence", "train.txt", "--model", "m.pw", "--l2", "10", "--max-passes", "2")
    assert code == 0 and "train.txt is one sequence as a whole" in err
    (tmp_path / "in.jsonl").write_text('{"tokens": ["the"]}\n{"tokens": ["the", "cat"]}\n')
    code, _, err = run("predict", "m.pw", "in.jsonl")
    assert (
        code == 2
        and "in.jsonl:2: 3 columns, but line 1 has 2 (read as conll; --format chooses another)" in err
    )


def test_closed_pipe_is_no_error(trained, tmp_path):
    (tmp_path / "big.txt").write_text(DATA * 2000)
    done = subprocess.run(
        f"{sys.executable} -m partwise.cli predict {trained / 'm.pw'} {tmp_path / 'big.txt'} | head -n 1",
        shell=True, capture_output=True, text=True, env=ENVIRONMENT,
    )  # fmt: skip
    assert done.stdout == "the D B-NP B-NP\n" and without_compiling(done.stderr) == ""


def test_marginals_and_kbest(run, trained, tmp_path):
    (tmp_path / "in.txt").write_text("the D\ncat N\n")
    code, out, _ = run("predict", trained / "m.pw", "in.txt", "--marginals")
    label, distribution = out.split("\n")[0].split()[2:]
    parts = dict(part.split(":") for part in distribution.split(","))
    assert code == 0 and next(iter(parts)) == label and abs(sum(map(float, parts.values())) - 1) < 0.01
    code, out, _ = run("predict", trained / "m.pw", "in.txt", "--kbest", "3")
    rows = [line.split()[2:] for line in out.split("\n") if line]
    assert [len(row) for row in rows] == [3, 3] and len(set(zip(*rows, strict=True))) == 3
    code, out, _ = run("predict", trained / "m.pw", "in.txt", "--kbest", "2", "--marginals", "--json")
    [found] = map(json.loads, out.splitlines())
    assert found["tokens"] == ["the", "cat"] and found["labels"] == found["kbest"][0]["labels"]
    assert 1 >= found["kbest"][0]["probability"] > found["kbest"][1]["probability"] > 0
    refused(run("predict", trained / "m.pw", "in.txt", "--kbest", "0"), "--kbest")
    refused(run("predict", trained / "m.pw", "in.txt", "--kbest", "x"), "--kbest")


def test_a_sequence_has_as_many_best_labellings_as_there_are(run, trained, tmp_path):
    (tmp_path / "in.txt").write_text("the D\ncat N\n\nsaw V\n")
    code, out, _ = run("predict", trained / "m.pw", "in.txt", "--kbest", 10**12)
    widths = [len(line.split()) - 2 for line in out.split("\n") if line]
    n_labels = len(partwise.load(trained / "m.pw").classes_)
    assert code == 0 and widths == [n_labels**2, n_labels**2, n_labels]
    (tmp_path / "in.txt").write_text("the D\n" * 60)
    refused(run("predict", trained / "m.pw", "in.txt", "--kbest", 10**12), "GB of memory: ask for fewer")


FORMATS = {
    "words.txt": (
        "the/D cat/N sat/V\na/D dog/N\n" * 5, "the cat sat\na/D dog/N\n", "the/D cat/N sat/V\na/D dog/N\n",
    ),
    "tokens.jsonl": (
        '{"tokens": ["the", "cat"], "labels": ["D", "N"]}\n{"tokens": ["sat"], "labels": ["V"]}\n' * 4,
        '{"tokens": ["the", "cat"]}\n',
        '{"tokens": ["the", "cat"], "labels": ["D", "N"]}\n',
    ),
    "features.jsonl": (
        '{"features": [{"w": "the"}, ["cat"]], "labels": ["D", "N"]}\n' * 4,
        '{"features": [{"w": "the"}, ["cat"]]}\n',
        '{"features": [{"w": "the"}, ["cat"]], "labels": ["D", "N"]}\n',
    ),
    "crfsuite.txt": (
        "D\tw=the\tn:0.5\nN\tw=cat\n\n@weight:2\tV\tw=sat\n\n" * 4,
        "D\tw=the\nD\tw=cat\n\nD\tw=sat\n", "D\nN\n\nV\n\n",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_formats(run, tmp_path, name):
    train, data, expected = FORMATS[name]
    (tmp_path / name).write_text(train)
    (tmp_path / "in").write_text(data)
    assert run("train", "sequence", name, "--model", "m.pw", "-q")[0] == 0
    assert run("predict", "m.pw", "in") == (0, expected, "")
    code, out, _ = run("evaluate", "m.pw", name, "--json")
    assert code == 0 and json.loads(out)["accuracy"] == 1.0 and json.loads(out)["f1_kind"] == "macro"


def test_reading_options_are_remembered(run, tmp_path):
    text = DATA.replace(" ", "\t").replace("the\tD", "# a comment\nthe\tD")
    text = "\n".join("\t".join(line.split("\t")[::-1]) if "\t" in line else line for line in text.split("\n"))
    (tmp_path / "train.tsv").write_text(text)
    options = (
        "--separator",
        "tab",
        "--label-column",
        "0",
        "--comment",
        "#",
        "--scheme",
        "IOB2",
        "--min-count",
        "2",
    )
    assert run("train", "sequence", "train.tsv", "--model", "m.pw", "-q", *options)[0] == 0
    code, out, _ = run("evaluate", "m.pw", "train.tsv", "--json")
    assert code == 0 and json.loads(out)["accuracy"] > 0.9
    code, out, _ = run("predict", "m.pw", "train.tsv")
    assert code == 0 and "# a comment\n" in out and "B-NP\tD\tthe\tB-NP\n" in out
    (tmp_path / "bare.tsv").write_text("D\tthe\n")
    assert run("predict", "m.pw", "bare.tsv")[:2] == (0, "D\tthe\tB-NP\n")


TABLES = {
    "t.libsvm": "+1 1:0.5 3:1 # x\n-1 2:1\n+1 1:0.7\n-1 2:0.9 7:0.1\n",
    "t.csv": "size,kind,weight\n1,a,0.5\n2,b,0\n1.5,a,0.1\n3,b,0.2\n",
    "t.tsv": "1\t0.5\tsmall one\n9\t0.5\tbig\n2\t0.1\tsmall one\n8\t0\tbig\n",
}


@pytest.mark.parametrize("name", TABLES)
def test_classes(run, tmp_path, name):
    (tmp_path / name).write_text(TABLES[name] * 5 if "csv" not in name else TABLES[name])
    more = ("--label-column", "kind") if name == "t.csv" else ()
    code, out, err = run(
        "train", "classify", name, "-m", "m.pw", "--l2", "0.01", "--dev", name, "--json", *more
    )
    assert code == 0 and json.loads(out)["dev"]["accuracy"] == 1.0, err
    code, out, _ = run("evaluate", "m.pw", name, "--json")
    assert code == 0 and json.loads(out)["accuracy"] == 1.0
    code, out, _ = run("evaluate", "m.pw", name)
    assert code == 0 and "accuracy 100.00 %" in out
    code, out, _ = run("predict", "m.pw", name)
    assert code == 0 and out.count("\n") == (tmp_path / name).read_text().count("\n")
    last = out.splitlines()[-1]
    assert last.endswith({"t.libsvm": " -1", "t.csv": ",b", "t.tsv": "\tbig"}[name])
    code, out, _ = run("predict", "m.pw", name, "--marginals", "--json")
    assert code == 0 and abs(sum(json.loads(out.splitlines()[-1])["marginals"].values()) - 1) < 0.01
    code, out, _ = run("inspect", "m.pw")
    assert code == 0 and "largest feature weights" in out
    refused(run("predict", "m.pw", name, "--kbest", "2"), "--kbest is for sequences")


def test_classes_without_labels(run, tmp_path):
    (tmp_path / "t.csv").write_text(TABLES["t.csv"])
    assert (
        run("train", "classify", "t.csv", "-m", "m.pw", "-q", "--label-column", "kind", "--l2", "0.01")[0]
        == 0
    )
    (tmp_path / "new.csv").write_text("size,weight\n1,0.5\n3,0.2\n")
    assert run("predict", "m.pw", "new.csv") == (0, "size,weight,predicted\n1,0.5,a\n3,0.2,b\n", "")
    (tmp_path / "bad.csv").write_text("1\n")
    refused(run("predict", "m.pw", "bad.csv"), "bad.csv:1", "needs 2 numbers")


def test_npz(run, tmp_path):
    np.savez(tmp_path / "t.npz", x=np.array([[0.0, 1.0], [1.0, 0.0]] * 5), y=np.array([3, 7] * 5))
    assert run("train", "classify", "t.npz", "-m", "m.pw", "-q")[0] == 0
    assert run("predict", "m.pw", "t.npz")[1] == "3\n7\n" * 5
    np.savez(tmp_path / "u.npz", x=np.zeros((2, 3)))
    refused(run("predict", "m.pw", "u.npz"), "3 columns; the model needs 2")
    refused(run("train", "classify", "u.npz", "-m", "n.pw"), "x and y")
    np.savez(tmp_path / "v.npz", x=np.array([object()], dtype=object), y=np.zeros(1, int))
    refused(run("train", "classify", "v.npz", "-m", "n.pw"), "cannot be read as npz")


BAD = {
    "ragged": ("a B\nb\n", (), ":2:", "1 column"),
    "empty": ("", (), "empty"),
    "no tokens": ("\n\n", (), "no tokens"),
    "one column": ("a\nb\n", (), "no label column"),
    "not utf-8": (b"a B\n\xff B\n", (), ":2:", "UTF-8"),
    "gzip": (b"\x1f\x8b\x08\x00broken", (), "gzip"),
    "json": ('{"tokens": [}\n', (), ":1:", "JSON"),
    "no labels": ('{"tokens": ["a"]}\n', (), "no labels"),
    "column": (DATA, ("--label-column", "9"), "no label column 9"),
    "loss": (DATA, ("--loss", "logg"), "loss must be one of"),
    "gamma": (DATA, ("--gamma", "1"), "--gamma needs --beta"),
    "beta": (DATA, ("--beta", "-1"), "beta must be"),
    "l2": (DATA, ("--l2", "0"), "l2 must be"),
    "solver": (DATA, ("--solver", "magic"), "unknown solver"),
    "smooth": (DATA, ("--solver", "lbfgs", "--loss", "hinge"), "lbfgs", "hinge"),
    "tol": (DATA, ("--tol", "nan"), "tol"),
    "template": (DATA, ("--template", "nothing.txt"), "nothing.txt", "presets are"),
    "template column": (DATA, ("--template", "t.txt"), "t.txt:1", "colour"),
    "template for features": ('{"features": [["a"]], "labels": ["b"]}', ("--template", "ner"), "--template"),
    "format": (DATA, ("--format", "xml"), "xml"),
    "scheme": (DATA, ("--scheme", "IOB9"), "scheme"),
    "scheme broken": ("a I-X\n", ("--scheme", "IOB2"), "I-X"),
    "order": (DATA, ("--order", "0"), "order"),
    "hash": (DATA, ("--hash-size", "-3"), "hash_size"),
    "min count": (DATA, ("--min-count", "0"), "min_count"),
    "jobs": (DATA, ("--jobs", "0"), "n_jobs"),
    "number": (DATA, ("--l2", "many"), "--l2"),
    "option": (DATA, ("--nonsense",), "--nonsense"),
    "missing dev": (DATA, ("--dev", "gone.txt"), "gone.txt", "no such file"),
    "dev columns": (DATA, ("--dev", "narrow.txt"), "narrow.txt", "1 columns"),
    "target": (DATA, ("--model", "no/such/m.pw"), "no directory"),
    "target is a folder": (DATA, ("--model", "."), "directory"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_to_train(run, tmp_path, name):
    content, options, *words = BAD[name]
    data = content if isinstance(content, bytes) else content.encode()
    (tmp_path / "train.txt").write_bytes(data)
    (tmp_path / "t.txt").write_text("colour[0]\n")
    (tmp_path / "narrow.txt").write_text("a B\n")
    before = sorted(os.listdir(tmp_path))
    refused(run("train", "sequence", "train.txt", "--model", "m.pw", *options), *words)
    assert sorted(os.listdir(tmp_path)) == before


BAD_TABLES = {
    "empty": ("", "empty"),
    "libsvm": ("1 1:2\n0 x:2\n", ":2:", "not index:value"),
    "libsvm number": ("1 1:2\n0 1:nan\n", ":2:", "not a finite number"),
    "libsvm label": ("1 1:2\n1:3\n", ":2:", "no class"),
    "csv": ("1,2,a\n3,x,b\n", ":2:", "'x' is not a finite number"),
    "ragged": ("1,2,a\n3,b\n", ":2:", "2 columns"),
    "no rows": ("a,b,c\n", "no rows"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_bad_tables(run, tmp_path, name):
    content, *words = BAD_TABLES[name]
    (tmp_path / "t").write_text(content)
    refused(run("train", "classify", "t", "--model", "m.pw"), *words)
    assert os.listdir(tmp_path) == ["t"]


def test_bad_models_and_data(run, trained, tmp_path):
    (tmp_path / "text").write_text("no model")
    (tmp_path / "wide.txt").write_text("a b c d e\n")
    model = trained / "m.pw"
    for command in ("predict", "evaluate"):
        refused(run(command, "text", "wide.txt"), "text: not a model file")
        refused(run(command, "gone", "wide.txt"), "gone: no such file")
        refused(run(command, model, "gone"), "gone: no such file")
        refused(run(command, model, "wide.txt"), "wide.txt", "columns")
    refused(run("inspect", "text"), "not a model file")
    refused(run("report", "text", "-o", "page.html"), "not a model file")
    refused(run("inspect", model, "--label", "Q"), "no label 'Q'")
    refused(run("predict", model, "wide.txt", "-o", "out.txt"), "wide.txt")
    refused(run("predict", model, "wide.txt", "-o", "no/out.txt"), "no/out.txt")
    refused(run("nonsense"), "nonsense")
    assert sorted(os.listdir(tmp_path)) == ["text", "wide.txt"]


def test_models_saved_from_python(run, tmp_path):
    from partwise.data.conll import parse_conll

    (tmp_path / "in.txt").write_text(DATA)
    (tmp_path / "in.csv").write_text("0.0,1.0\n2.0,0.5\n")
    columns = parse_conll(DATA)
    partwise.SequenceLabeler(template="chunking").fit(columns).save("columns.pw")
    assert json.loads(run("evaluate", "columns.pw", "in.txt", "--json")[1])["accuracy"] == 1.0
    assert run("predict", "columns.pw", "in.txt")[1].startswith("the D B-NP B-NP\n")
    x, y = [np.array([[0.0, 1.0], [1.0, 0.5]])] * 3, [["a", "b"]] * 3
    partwise.SequenceLabeler().fit(x, y).save("matrix.pw")
    partwise.SequenceLabeler().fit([[["f"], ["g"]]] * 3, y).save("attributes.pw")
    partwise.Classifier(l2=0.1).fit(x[0], y[0]).save("classes.pw")
    for command in ("predict", "evaluate"):
        refused(run(command, "matrix.pw", "in.txt"), "only be used from Python")
        refused(run(command, "attributes.pw", "in.txt"), "ready-made features")
    assert run("predict", "classes.pw", "in.csv")[1] == "0.0,1.0,a\n2.0,0.5,b\n"
    for model in ("columns", "matrix", "attributes", "classes"):
        assert run("inspect", f"{model}.pw")[0] == 0
        assert run("report", f"{model}.pw", "-o", "page.html")[0] == 0


def test_training_from_standard_input(tmp_path):
    command = [sys.executable, "-m", "partwise.cli", "train", "sequence", "-", "--model", "m.pw", "-q"]
    subprocess.run(command, cwd=tmp_path, input="the/D cat/N\n" * 5, text=True, check=True, env=ENVIRONMENT)
    assert partwise.load(tmp_path / "m.pw").predict([["the", "cat"]]) == [["D", "N"]]


def test_no_probabilities_from_hinge(run, tmp_path):
    (tmp_path / "train.txt").write_text(DATA)
    assert (
        run("train", "sequence", "train.txt", "-m", "m.pw", "-q", "--loss", "hinge", "--tol", "0.1")[0] == 0
    )
    refused(run("predict", "m.pw", "train.txt", "--marginals"), "no probabilities")
    assert run("predict", "m.pw", "train.txt")[0] == 0


def test_inspect_and_report(run, trained, tmp_path):
    code, out, _ = run("inspect", trained / "m.pw", "--top", "4")
    assert code == 0 and "certificate" in out and "log (CRF)" in out and "largest transition weights" in out
    code, out, _ = run("inspect", trained / "m.pw", "--json", "--label", "B-NP")
    found = json.loads(out)
    assert {each["label"] for each in found["top_features"]} == {"B-NP"}
    assert found["certificate"]["converged"] and found["history"]
    assert run("report", trained / "m.pw")[0] == 0 and (trained / "m.pw.html").exists()
    refused(run("report", trained / "m.pw", "--open", "-o", "-"), "--open shows a file")
    code, out, _ = run("report", trained / "m.pw", "--output", "page.html")
    page = (tmp_path / "page.html").read_text()
    assert code == 0 and '"converged":true' in page and "default-src 'none'; script-src 'sha256-" in page


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_control_c_saves_the_model(tmp_path):
    """Interrupted in the middle, training saves what it has and says so."""
    (tmp_path / "train.txt").write_text(DATA * 40)
    command = [sys.executable, "-m", "partwise.cli", "train", "sequence", "train.txt", "--model", "m.pw"]
    command += ["--solver", "sgd", "--tol", "1e-15", "--max-passes", "1e9", "--l2", "1e-4"]

    def heed_control_c() -> None:
        """A shell's background job, and so its children, would ignore it."""
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    with subprocess.Popen(
        command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, preexec_fn=heed_control_c
    ) as process:
        lines = iter(process.stderr.readline, "")
        first = next(
            line
            for line in lines
            if not line.startswith(("compil", "memory", "train.txt: read as conll; 441"))
        )
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        try:
            _, rest = process.communicate(timeout=60)
        finally:
            process.kill()
        assert process.returncode == 130, rest
    assert first.startswith("pass") and "interrupted by the user" in rest
    assert "the model trained so far is saved to m.pw" in rest and "Traceback" not in rest
    model = partwise.load(tmp_path / "m.pw")
    assert not model.converged_ and model.predict([[("the", "D"), ("cat", "N")]]) == [["B-NP", "I-NP"]]
    assert sorted(os.listdir(tmp_path)) == ["m.pw", "train.txt"]


@pytest.mark.parametrize(
    ("labels", "n_columns", "preset"),
    [
        (["O", "O", "O", "B-PER"], 2, "ner"),  # named entities beside a column of tags
        (["B-NP", "I-NP", "B-VP", "O"], 2, "chunking"),
        (["B-PER", "I-PER", "B-LOC", "O"], 2, "ner"),
        (["B-street", "I-street", "U-city"], 3, "ner"),
        (["B-NX", "I-NX", "B-VX", "B-ADVX", "O"], 2, "chunking"),
        (
            ["B-CORP", "I-CORP", "B-GRP", "I-GRP"],
            2,
            "ner",
        ),  # types that end as phrases do, hardly a token outside
        (["B-VP", "O", "O", "O"], 2, "chunking"),  # one kind of phrase: most tokens are outside
        (["B-NP", "I-NP", "B-VP", "O"], 1, "ner"),
        (["O", "O", "O", "PER", "street"], 2, "ner"),  # types alone
        (["PER", "PER", "LOC", "O"], 1, "ner"),
        (["N", "N", "V", "V", "O"], 2, "pos"),  # a set of parts of speech with an "O" of its own
        (["DT", "NN", None], 1, "pos"),
        (["DT", "NN"], 3, "pos"),
    ],
)
def test_templates_are_chosen_by_labels(labels: list[str | None], n_columns: int, preset: str) -> None:
    assert preset_for(labels, n_columns) == preset
