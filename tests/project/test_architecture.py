"""The picture of the folders in docs/design.md is complete, and imports follow its arrows."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from data_paths import ROOT

SOURCE = ROOT / "src" / "partwise"


def arrows() -> dict[str, set[str]]:
    """The folders that each folder (or single module) of the package may import directly."""
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    block = page.split("<!-- folders -->")[1].split("```")[1].removeprefix("text\n")
    lines = [line.split() for line in block.splitlines() if line]
    return {words[0]: {word.strip(",") for word in words[2:]} for words in lines}


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


def test_every_folder_is_in_the_picture() -> None:
    folders = {name.split("/")[0] for name in modules()}
    assert set(arrows()) == folders


@pytest.mark.parametrize("name", sorted(modules()))
def test_imports_follow_the_arrows(name: str) -> None:
    folder = name.split("/")[0]
    may = reachable(arrows(), folder)
    wrong = [f"line {line}: {other}" for other, line in imported(modules()[name]) if other not in may]
    assert not wrong, f"{name} imports what stands behind no arrow of {folder}: {wrong}"
