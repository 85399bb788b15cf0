"""What an experiment is: where it was published, what was claimed, how to repeat it, what to say of the numbers."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
NUMBERS = ROOT / "docs" / "reproduction"
CODE = "src/partwise"
UNTRACED = "no trace was kept"
PICTURES = ROOT / "docs" / "images" / "reproduction"


class Verdict(NamedTuple):
    """One claim of a paper beside what was measured.

    Attributes
    ----------
    claim, ours : str
    held : bool or None
        None where the two cannot be compared.
    """

    claim: str
    ours: str
    held: bool | None


@dataclass(frozen=True)
class Experiment:
    """A figure or table that can be made again.

    Parameters
    ----------
    name : str
        Of its command, its JSON file and its picture.
    source : str
        Paper, figure or table, page.
    setting : str
        What is as in the paper and what is not, for the page.
    data : tuple of str
        Folders of the data sets.
    run : callable (folder of all data sets, Numbers)
        Measures; every value is kept as soon as it is there.
    file : str
        Of the numbers; figures drawn from the same curves share it.
    draw : callable (numbers) -> Figure
    verdicts : callable (numbers) -> list of Verdict
    table : callable (numbers) -> (header, rows), or None
        Of the page, beside the picture.
    solvers : tuple of str
        Names of the traces (`traces.py`) of the solvers that make the numbers.
    """

    name: str
    source: str
    setting: str
    data: tuple[str, ...]
    run: Callable[[Path, Numbers], None]
    file: str
    draw: Callable[[dict[str, Any]], Any]
    verdicts: Callable[[dict[str, Any]], list[Verdict]]
    table: Callable[[dict[str, Any]], tuple[list[str], list[list[str]]]] | None = None
    solvers: tuple[str, ...] = ()

    @property
    def json_file(self) -> Path:
        return NUMBERS / f"{self.file}.json"

    @property
    def picture(self) -> Path:
        return PICTURES / f"{self.name}.png"

    def commits(self) -> list[str]:
        """The commits that the numbers of the file were made with."""
        return sorted(set(Numbers(self.json_file).commits.values()))

    def changed_since(self, numbers: Numbers | None = None) -> dict[str, list[str]]:
        """By commit that made numbers: the solvers that do something else now; `UNTRACED` if no trace was kept."""
        numbers, found = numbers or Numbers(self.json_file), {}
        for commit_ in sorted(set(numbers.commits.values())):
            own = numbers.traces.get(commit_)
            changed = [name for name in self.solvers if own and name in own and not _is_same(name, own[name])]
            if own is None or changed:
                found[commit_] = changed if own else [UNTRACED]
        return found

    def numbers(self) -> dict[str, Any] | None:
        """What was measured, or None where that is not finished."""
        found = Numbers(self.json_file)
        return found.values if self.name in found.finished else None


def _is_same(solver: str, before: list[float]) -> bool:
    from reproduction import traces

    return traces.is_same(before, traces.trace(solver))


class Numbers:
    """Measured numbers in a file that is written after each of them, so that a run cut off goes on where it was.

    Parameters
    ----------
    path : Path
    again : bool
        Measure afresh what is there already.
    sentences : int or None
        Train on the first so many only; kept with the numbers, for the page to say it.
    solvers : tuple of str
        Their traces are kept beside the commit.
    """

    def __init__(
        self, path: Path, again: bool = False, sentences: int | None = None, solvers: tuple[str, ...] = ()
    ) -> None:
        self.path, self.again, self.sentences, self.solvers = path, again, sentences, solvers
        self.values: dict[str, Any] = {}
        self.commits: dict[str, str] = {}  # by value: the state of the library that made it
        self.traces: dict[str, dict[str, list[float]]] = {}  # by commit and solver
        self.finished: list[str] = []
        self._fresh: set[str] = set()
        if path.exists():
            before = json.loads(path.read_text(encoding="utf-8"))
            self.values, self.finished, self.commits = (before[k] for k in ("numbers", "finished", "commits"))
            self.traces = before.get("traces", {})

    def once(self, name: str, make: Callable[..., Any], *arguments: Any, **settings: Any) -> Any:
        """The value kept under `name`; made by ``make(*arguments, **settings)`` and written if it is not there."""
        if name not in self.values or (self.again and name not in self._fresh):
            start = time.process_time()
            self.values[name] = shortened(make(*arguments, **settings))
            self.commits[name] = commit()
            self._keep_traces()
            self._fresh.add(name)
            self.write()
            print(f"{self.path.stem}: {name}, {time.process_time() - start:.0f} CPU s", flush=True)
        return self.values[name]

    def _keep_traces(self) -> None:
        from reproduction import traces

        own = self.traces.setdefault(commit(), {})
        own |= {name: traces.trace(name) for name in self.solvers if name not in own}
        self.traces = {key: each for key, each in self.traces.items() if key in self.commits.values()}

    def limit(self) -> int | None:
        """How many sentences train; None for all."""
        kept: int | None = self.once("sentences", lambda: self.sentences)
        return kept

    def finish(self, name: str) -> None:
        self.finished = sorted({*self.finished, name})
        self.write()

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        values = [f"{json.dumps(k, ensure_ascii=False)}: {json.dumps(v)}" for k, v in self.values.items()]
        head = f'{{"finished": {json.dumps(self.finished)},\n"commits": {json.dumps(self.commits, ensure_ascii=False)},'
        head += f'\n"traces": {json.dumps(self.traces, ensure_ascii=False)},'
        text = f'{head}\n"numbers": {{\n' + ",\n".join(values) + "}}\n"
        beside = self.path.with_suffix(".part")
        beside.write_text(text, encoding="utf-8")
        beside.replace(self.path)


@cache
def commit() -> str:
    """The last commit, with a plus sign if the library's code has changed since."""
    last = git("rev-parse", "--short=7", "HEAD").strip()
    return last + ("+" if git("status", "--porcelain", "--", CODE).strip() else "")


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, cwd=ROOT, check=True).stdout


def shortened(value: Any) -> Any:
    """Floats with seven digits, so that files stay small and pages equal on every machine."""
    if isinstance(value, dict):
        return {key: shortened(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [shortened(each) for each in value]
    return float(f"{value:.7g}") if isinstance(value, float) else value
