"""How long a user waits before anything happens: first fits, and processes that start warm.

    python benchmarks/startup.py [--only warm|cold] [--repeats 7] [--json out.json]

With the Python of an environment that has the wheel, nothing is compiled. In a source checkout without the library,
cold items compile. Cold: every item is a process of its own with an empty folder for compiled code, as on a new
machine. Warm: the same folder is used again, each item has run once before, and the median of the repeats counts. Wall
and CPU seconds are those of whole processes, interpreter included; on a machine that does something else besides, the
CPU seconds tell more. The bars are those of the wheel.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from common import table, write_json

import partwise

WORDS = [["the", "old", "dog", "barks"], ["cats", "sleep"], ["a", "dog", "sees", "the", "cat"]] * 10
TAGS = [["D", "A", "N", "V"], ["N", "V"], ["D", "N", "V", "D", "N"]] * 10
CHUNKS = [["B-NP", "I-NP", "I-NP", "O"], ["B-NP", "O"], ["B-NP", "I-NP", "O", "B-NP", "I-NP"]] * 10
HEADS = [[3, 3, 4, 0], [2, 0], [2, 3, 0, 5, 3]] * 10

THREE = "from partwise import SequenceLabeler as E; E(loss={!r}).fit({!r}, {!r})"
PARSER = "from partwise import DependencyParser; DependencyParser().fit({!r}, {!r})"
FITS = {
    "classes": (
        "import numpy as np; from partwise import Classifier; X = np.random.default_rng(0).normal(size=(200, 5)); "
        "Classifier().fit(X, X.argmax(axis=1))"
    ),
    "a grammar": (
        "from partwise import ConstituencyParser as E; E().fit([['the', 'dog', 'barks']] * 3, "
        "['(S (NP (D the) (N dog)) (V barks))'] * 3)"
    ),
    "graphs": (
        "from partwise import GraphLabeler as E; E().fit([([[0.0], [1.0]], [(0, 1)])] * 3, [['a', 'b']] * 3)"
    ),
    "segments": (
        "from partwise import SegmentLabeler as E; "
        "E(template='pos').fit([['the', 'dog', 'barks']] * 3, [[(0, 1, 'NP')]] * 3)"
    ),
}


class Item(NamedTuple):
    """A process to time: `bar` is the most wall seconds it may take on two idle cores."""

    name: str
    command: list[str]
    bar: float


class Figures(NamedTuple):
    """Seconds of one process."""

    wall: float
    cpu: float


def main() -> None:
    options = _arguments()
    found: list[tuple[str, Item, Figures]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_data(folder)
        if options.only != "cold":
            found += [("warm", item, _warm(item, folder, options.repeats)) for item in _warm_items(folder)]
        if options.only != "warm":
            found += [("cold", item, _cold(item, folder)) for item in _cold_items()]
    rows = [
        [kind, item.name, f"{each.wall:.2f}", f"{each.cpu:.2f}", f"{item.bar:g}", _verdict(item, each)]
        for kind, item, each in found
    ]
    print(table(rows, ["", "", "wall s", "CPU s", "bar", "within it"]))
    figures = [
        {"kind": kind, "item": item.name, "bar": item.bar, **each._asdict()} for kind, item, each in found
    ]
    write_json(options.json, figures)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=("warm", "cold"), help="measure only these")
    parser.add_argument("--repeats", type=int, default=7, help="runs of each warm item")
    parser.add_argument("--json", help="file to write all figures to")
    return parser.parse_args()


def _verdict(item: Item, figures: Figures) -> str:
    return "yes" if figures.wall <= item.bar else "in CPU" if figures.cpu <= item.bar else "NO"


def _write_data(folder: Path) -> None:
    """Columns and trees of the sentences above, and one sentence of each kind."""
    columns = [
        "\n".join(map(" ".join, zip(*each, strict=True))) + "\n\n"
        for each in zip(WORDS, TAGS, CHUNKS, strict=True)
    ]
    trees = [
        "".join(
            f"{k}\t{word}\t_\t{tag}\t{tag}\t_\t{head}\t{'root' if head == 0 else 'dep'}\t_\t_\n"
            for k, (word, tag, head) in enumerate(zip(*each, strict=True), 1)
        )
        + "\n"
        for each in zip(WORDS, TAGS, HEADS, strict=True)
    ]
    for name, sentences in (("columns", columns), ("trees", trees)):
        (folder / f"{name}.txt").write_text("".join(sentences))
        (folder / f"one_{name}.txt").write_text(sentences[0])


def _command_line(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "partwise.cli", *map(str, arguments)]


def _warm_items(folder: Path) -> list[Item]:
    chain, parser = folder / "chain", folder / "parser"
    _time(_command_line("train", "sequence", folder / "columns.txt", "--model", chain), folder, "warm")
    _time(_command_line("train", "dependency", folder / "trees.txt", "--model", parser), folder, "warm")
    sentence, tree = folder / "one_columns.txt", folder / "one_trees.txt"
    commands = [
        (),
        ("train",),
        ("predict",),
        ("evaluate",),
        ("inspect",),
        ("report",),
        ("demo",),
        ("compile",),
    ]
    commands += [("train", kind) for kind in ("sequence", "classify", "dependency")]
    return [
        Item("import partwise", [sys.executable, "-c", "import partwise"], 0.05),
        Item("predict, one sentence", _command_line("predict", chain, sentence), 0.3),
        Item(
            "predict --marginals, one sentence", _command_line("predict", chain, sentence, "--marginals"), 0.8
        ),
        Item("predict, one tree", _command_line("predict", parser, tree), 0.8),
        Item("evaluate, one sentence", _command_line("evaluate", chain, sentence), 0.8),
        Item("inspect", _command_line("inspect", chain), 0.8),
        *(Item(" ".join([*words, "--help"]), _command_line(*words, "--help"), 0.25) for words in commands),
    ]


def _cold_items() -> list[Item]:
    words = [[[f"word={word}"] for word in sentence] for sentence in WORDS[:3]]
    fits = [
        Item(f"first fit of three sentences, {loss} loss", _python(THREE.format(loss, words, TAGS[:3])), bar)
        for loss, bar in (("log", 1.2), ("hinge", 1.5))
    ]
    fits += [Item(f"first fit of {name}", _python(code), 1.5) for name, code in FITS.items()]
    parser = Item("first fit of a dependency parser", _python(PARSER.format(WORDS[:3], HEADS[:3])), 1.5)
    return [*fits, parser, Item("demo", _command_line("demo", "--no-pictures"), 10)]


def _python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def _warm(item: Item, folder: Path, repeats: int) -> Figures:
    runs = [_time(item.command, folder, "warm") for _ in range(repeats + 1)][1:]
    return Figures(*(statistics.median(values) for values in zip(*runs, strict=True)))


def _cold(item: Item, folder: Path) -> Figures:
    with tempfile.TemporaryDirectory(dir=folder) as cache:
        return _time(item.command, folder, cache)


def _time(command: list[str], folder: Path, cache: str) -> Figures:
    """Run a process in `folder`, with compiled code in its subfolder `cache`."""
    package = str(Path(partwise.__file__).resolve().parents[1])  # found from another folder too
    environment = {**os.environ, "PARTWISE_CACHE_DIR": str(folder / cache), "PYTHONPATH": package}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # as on a user's machine
    begin = time.perf_counter()
    with open(folder / "output", "w") as output:
        child = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output)
        _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - begin
    if status:
        raise SystemExit(f"{' '.join(command)[:200]} failed:\n{(folder / 'output').read_text()[-2000:]}")
    return Figures(wall, usage.ru_utime + usage.ru_stime)


if __name__ == "__main__":
    main()
