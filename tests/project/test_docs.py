"""README and docs: every code block runs, shown output and excerpts are true, links lead somewhere.

A page's blocks run from top to bottom in one namespace and one empty folder:

- ``python`` blocks are executed; a ``text`` block right behind one is what it prints;
- ``console`` blocks: lines after ``$`` are commands that must succeed, the lines below what they print;
- a ``python`` block under ``<!-- excerpt: FILE -->`` is not run but must be in that file, line for line.

Shown and printed text must agree but for spaces, lengths of time and the last digits of numbers: see `close`.
A line ``...`` stands for any lines.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from commands import without_compiling
from data_paths import ROOT

# Pages whose code needs more than partwise itself.
_EXTRAS = {"docs/neural.md": ("torch",), "docs/transformers.md": ("torch", "transformers", "accelerate")}
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
_BLOCK = re.compile(
    r"(?:^<!-- excerpt: (?P<source>\S+) -->\n+)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_DIGITS = r"[-+−]?\d+(?:,\d{3})*(?:\.\d+)?"
_NUMBER = re.compile(
    r"gap +(?P<gap>"
    + _DIGITS
    + r"(?:e[-+]?\d+)?)|(?<![\w.])(?<![A-Za-z]\[)(?:(?P<gap_>"
    + _DIGITS
    + r"e[-+]?\d+)"
    r"|(?P<passes>"
    + _DIGITS
    + r")(?= passes)|(?P<points>"
    + _DIGITS
    + r")(?= points)|(?P<number>"
    + _DIGITS
    + r"))"
    r"|(?<=pass) +(?P<passes_>" + _DIGITS + r")|(?<=passes) +(?P<passes__>" + _DIGITS + r")"
)
# 2.3 s, 1 min 12 s; what is left; what `inspect` calls seconds.
_TIME = re.compile(
    r"(?<![\w.])\d[\d,.]* (?:s|min|h)(?: \d+ (?:s|min))?(?!\w)|(?<= left) .*|(?<=seconds ) +[\d.]+"
)
_SHELL = re.compile(r"[|<>;&]")


class Block(NamedTuple):
    """A fenced block; `source` is the file it quotes, `follows` whether nothing but space is before it."""

    kind: str
    text: str
    line: int
    source: str | None
    follows: bool


def blocks(page: Path) -> list[Block]:
    text, found, end = page.read_text(encoding="utf-8"), [], 0
    for match in _BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("text")) + 1
        follows = bool(found) and not text[end : match.start()].strip()
        found.append(Block(match["kind"], match["text"], line, match["source"], follows))
        end = match.end()
    return found


Line = tuple[str, list[tuple[str, str]]]


def lines_of(text: str) -> list[Line]:
    """(text with # for its numbers, (kind, number) of each) of every line that is not empty.

    Kinds are those of `PRECISION`. Lengths of time are no numbers: they are the machine's.
    """
    result = []
    for line in filter(str.strip, text.splitlines()):
        numbers: list[tuple[str, str]] = []

        def note(match: re.Match, numbers: list = numbers) -> str:
            kind = next(name for name, value in match.groupdict().items() if value is not None)
            numbers.append((kind.rstrip("_"), match[kind]))
            return match[0].replace(match[kind], "#")

        bare = _NUMBER.sub(note, _TIME.sub("(time)", line))
        result.append((" ".join(bare.split()), numbers))
    return result


# Relative. Gaps end somewhere below `tol` and passes when they do; where exactly differs between machines with
# the order in which numbers are added, and so do weights, and points that a kernel machine can do without.
PRECISION = {"gap": 0.5, "passes": 0.25, "points": 0.05, "number": 0.05}


def close(kind: str, shown: str, printed: str) -> bool:
    """Whole numbers are equal; others agree to `PRECISION`, to 0.1 % where five decimals or more are shown, or
    to one unit of the last digit shown."""
    a, b = (float(text.replace(",", "").replace("−", "-")) for text in (shown, printed))
    decimals = len(shown.partition(".")[2])
    if kind == "number" and not decimals:
        return a == b
    precision = 0.001 if kind == "number" and decimals >= 5 else PRECISION[kind]
    unit = 0.0 if kind == "gap" else 1.001 * 10.0**-decimals
    return abs(a - b) <= max(precision * abs(a), unit)


def agrees(shown: str, printed: str) -> bool:
    """Whether what a page shows is what was printed, but for what ``...`` leaves out."""
    pieces: list[list[Line]] = [[]]
    for line in lines_of(shown):
        pieces.append([]) if line[0] == "..." else pieces[-1].append(line)
    return _fits(pieces, lines_of(printed))


def _fits(pieces: list[list[Line]], lines: list[Line]) -> bool:
    """Whether the pieces are in `lines` in their order, with nothing before the first and behind the last."""
    (piece, *others), size = pieces, len(pieces[0])
    if not _equal(piece, lines[:size]):
        return False
    if not others:
        return len(lines) == size
    return any(_fits(others, lines[first:]) for first in range(size, len(lines) + 1))


def _equal(shown: list[Line], printed: list[Line]) -> bool:
    return len(shown) == len(printed) and all(
        a == b and all(close(kind, x, y) for (kind, x), (_, y) in zip(numbers, others, strict=True))
        for (a, numbers), (b, others) in zip(shown, printed, strict=True)
    )


def run_python(block: Block, page: str, namespace: dict) -> str:
    """What the block prints; its lines keep their numbers in tracebacks."""
    printed = io.StringIO()
    code = compile("\n" * (block.line - 1) + block.text, page, "exec")
    with contextlib.redirect_stdout(printed):
        exec(code, namespace)
    return printed.getvalue()


def commands(block: Block) -> list[tuple[str, str]]:
    """(command, output shown) of every command in a console block."""
    pieces = re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]
    joined = (piece.replace("\\\n", " ") for piece in pieces)
    return [(command, shown) for command, _, shown in (piece.partition("\n") for piece in joined)]


def run_command(command: str, folder: Path) -> tuple[int, str]:
    """Exit code and output of both streams; plain ``partwise`` commands run in this process, to be quick."""
    words = shlex.split(command)
    if words[0] == "partwise" and not _SHELL.search(command):
        from partwise.cli import main

        printed = io.StringIO()
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
            pytest.raises(SystemExit) as end,
        ):
            main(words[1:])
        return int(end.value.code or 0), printed.getvalue()
    tool = folder / ".bin" / "partwise"
    tool.parent.mkdir(exist_ok=True)
    tool.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m partwise.cli "$@"\n')
    tool.chmod(0o755)
    path = os.pathsep.join([str(tool.parent), os.environ.get("PATH", os.defpath)])
    source = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": source}
    done = subprocess.run(
        ["bash", "-c", command],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, timeout=120,
    )  # fmt: skip
    return done.returncode, done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_code_runs_and_prints_what_is_shown(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not any(block.kind in ("python", "console") for block in blocks(ROOT / name)):
        pytest.skip("no code on this page")
    for extra in _EXTRAS.get(name, ()):
        pytest.importorskip(extra, reason=f"{extra} is an extra")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    namespace: dict = {"__name__": "__main__"}
    printed = ""
    for block in blocks(ROOT / name):
        where = f"{name}:{block.line}"
        if block.source is not None:
            continue
        if block.kind == "python":
            printed = run_python(block, name, namespace)
        elif block.kind == "text" and block.follows:
            assert agrees(block.text, printed), (
                f"{where} shows\n{block.text}\nbut the code printed\n{printed}"
            )
        elif block.kind == "console":
            for command, shown in commands(block):
                code, output = run_command(command, tmp_path)
                output = without_compiling(output)
                assert code == 0, f"{where}: {command} ended with {code}\n{output}"
                assert agrees(shown, output), f"{where}: {command} printed\n{output}\nnot\n{shown}"


@pytest.mark.parametrize(
    ("shown", "printed", "equal"),
    [
        ("(4, 5) [0.97]", "(4, 5)  [0.96]", True),
        ("(4, 5) [0.97]", "(4, 6) [0.97]", False),
        ("weight +1.80", "weight +1.75", True),
        ("weight +1.80", "weight +1.60", False),
        ("weight +1.80", "weight -1.80", False),
        ("primal 3.47354", "primal 3.47172", True),
        ("primal 3.47354", "primal 3.48354", False),
        ("gap 5.16e-04 after 11 passes, 0.3 s", "gap 4.66e-04 after 10 passes, 12 s", True),
        ("gap 5.16e-04 after 11 passes, 0.3 s", "gap 2.1e-04 after 11 passes, 0.3 s", False),
        ("gap 5.16e-04 after 11 passes, 0.3 s", "gap 5.16e-04 after 22 passes, 0.3 s", False),
        ("1,234 words", "1,235 words", False),
        ("a\n...\nc 1", "a\nb 2\nc 1", True),
        ("a\n...\nc 1", "a\nb 2\nc 2", False),
        ("a\n...\nc 1", "a\nc 1\nd", False),
    ],
)
def test_how_closely_shown_and_printed_agree(shown: str, printed: str, equal: bool) -> None:
    assert agrees(shown, printed) == equal


@pytest.mark.parametrize("name", NAMES)
def test_excerpts_are_in_the_source(name: str) -> None:
    for block in blocks(ROOT / name):
        if block.source is not None:
            source = (ROOT / block.source).read_text(encoding="utf-8")
            found = _bare(block.text) in _bare(source)
            assert found, f"{name}:{block.line} is no longer in {block.source}"


def _bare(code: str) -> str:
    """Without blank lines and indentation, which formatters change in pages."""
    return "\n" + "".join(line.strip() + "\n" for line in code.splitlines() if line.strip())


def anchors(page: Path) -> set[str]:
    """What headings are called in links, as GitHub makes it."""
    outside_code = re.sub(
        r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    titles = re.findall(r"^#+ (.+)$", outside_code, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name: str) -> None:
    page = ROOT / name
    outside_code = re.sub(
        r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    for target in re.findall(r"\]\(([^)\s]+)\)", outside_code):
        if re.match(r"https?://", target):
            continue
        path, _, anchor = target.partition("#")
        linked = page if not path else (page.parent / path).resolve()
        assert linked.is_relative_to(ROOT) and linked.exists(), (
            f"{name} links to {target}, which is not there"
        )
        if anchor:
            assert anchor in anchors(linked), f"{name} links to {target}; {path or name} has no such heading"


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen, open_ = set(), [ROOT / "README.md"]
    while open_:
        page = open_.pop()
        if page in seen:
            continue
        seen.add(page)
        targets = re.findall(r"\]\(([^)#\s]+\.md)", page.read_text(encoding="utf-8"))
        open_ += [(page.parent / target).resolve() for target in targets if "://" not in target]
    assert set(PAGES) <= seen


def test_pages_name_every_solver_loss_stop_reason_and_template_function() -> None:
    from partwise.core.losses import NAMED_LOSSES, Loss
    from partwise.features.functions import FUNCTIONS
    from partwise.features.templates import PRESETS
    from partwise.solvers import SOLVERS, StopReason, solver_for
    from partwise.support_table import STRUCTURES, tiny_problem

    guide, losses, templates, page = (
        (ROOT / "docs" / name).read_text(encoding="utf-8")
        for name in ("guide.md", "losses.md", "templates.md", "solvers.md")
    )
    solvers = page.partition("\n## The list\n")[2].partition("\n## ")[0]
    missing = [name for name in SOLVERS if f"| `{name}` |" not in solvers]
    missing += [name for name in NAMED_LOSSES if f"| `{name}` |" not in losses]
    missing += [name for name in (*FUNCTIONS, *PRESETS) if f"`{name}" not in templates]
    missing += [reason.name for reason in StopReason if f"| {reason.value.split(':')[0]} |" not in guide]
    assert not missing
    for loss, structure, words in (
        ("hinge", "classes", "classes with β = ∞"),
        ("hinge", "chain", "sequences with β = ∞"),
        ("hinge", "spanning tree", "trees with β = ∞"),
        ("hinge", "chain of order 2", "chains of order 2 and more"),
    ):
        chosen = solver_for(tiny_problem(*STRUCTURES[structure], Loss.of(loss))).name
        assert f"`{chosen}` for {words}" in solvers


@pytest.mark.parametrize("name", [name for name in NAMES if name != "docs/design.md"])
def test_lines_are_short_and_name_no_machine(name: str) -> None:
    for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), 1):
        assert line.startswith("|") or len(line) <= 110, f"{name}:{number} is {len(line)} characters long"
        assert not re.search(r"(?<![\w.])/(home|root|work|Users|tmp)/", line), f"{name}:{number}"
