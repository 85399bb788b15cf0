"""The picture of the house in docs/design.md: every module stands in it, and imports follow its arrows."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from data_paths import ROOT

SOURCE = ROOT / "src" / "partwise"


def picture() -> tuple[dict[str, set[str]], set[str]]:
    """What each folder (or single module) may import by its own arrow, and the modules that are shown."""
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    block = page.split("<!-- modules -->")[1].split("```")[1].removeprefix("text\n")
    allowed: dict[str, set[str]] = {}
    shown: set[str] = set()
    folder = inside = ""
    for line in block.splitlines():
        words = line.replace("·", " ").split()
        if line and not line[0].isspace():
            inside = folder = words[0]
            allowed[folder] = {word.strip(",") for word in words[2:]}
            continue
        if line[:3].strip() and not line[2:3].isspace():  # two spaces before the name of a folder within
            inside = f"{folder}/{words.pop(0)}"
        shown.update(f"{inside}/{word}" for word in words)
    return allowed, shown


def modules() -> dict[str, Path]:
    return {
        path.relative_to(SOURCE).with_suffix("").as_posix(): path
        for path in SOURCE.rglob("*.py")
        if path.stem not in ("__init__", "__main__")
    }


def reachable(allowed: dict[str, set[str]], start: str) -> set[str]:
    found, waiting = {start}, [start]
    while waiting:
        for other in allowed[waiting.pop()] - found:
            found.add(other)
            waiting.append(other)
    return found | {"errors"}


def imported(path: Path) -> set[tuple[str, int]]:
    """Folders of the package that a module imports, with the line; not what is for type checkers only."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    return {
        (node.module.split(".")[1], node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and node not in for_types
        and node.module
        and node.module.startswith("partwise.")
    }


def test_every_module_is_in_the_picture() -> None:
    allowed, shown = picture()
    there = {name for name in modules() if "/" in name}
    alone = {name for name in modules() if "/" not in name}
    assert shown == there
    assert alone <= set(allowed)


@pytest.mark.parametrize("name", sorted(modules()))
def test_imports_follow_the_arrows(name: str) -> None:
    allowed, _ = picture()
    folder = name.split("/")[0]
    may = reachable(allowed, folder)
    wrong = [f"line {line}: {other}" for other, line in imported(modules()[name]) if other not in may]
    assert not wrong, f"{name} imports what stands behind no arrow of {folder}: {wrong}"
