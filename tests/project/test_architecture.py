"""The picture of the folders in docs/design.md is complete, and imports follow its arrows."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest
from data_paths import ROOT

from partwise.solvers import SOLVERS, Race
from partwise.solvers.base import Solver

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


def imported_modules(name: str) -> set[str]:
    """Modules of the package that a module imports, anywhere in it."""
    tree = ast.parse(modules()[name].read_text(encoding="utf-8"))
    return {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}


@pytest.mark.parametrize("name", [n for n in sorted(modules()) if n.startswith(("solvers/", "distributed/"))])
def test_solvers_know_structures_by_their_contract_alone(name: str) -> None:
    known = {module for module in imported_modules(name) if module.startswith("partwise.structures")}
    assert known <= {"partwise.structures.contract"}


@pytest.mark.parametrize("name", [n for n in sorted(modules()) if n.startswith("structures/")])
def test_structures_know_no_solver(name: str) -> None:
    assert not [module for module in imported_modules(name) if module.startswith("partwise.solvers")]


def solver_classes() -> dict[str, str]:
    """Every concrete solver with the module that defines it."""
    waiting, found = [Solver], {Race.__name__: Race.__module__}  # a race has no name in the registry
    for solver in SOLVERS.values():
        found[type(solver).__name__] = type(solver).__module__
    while waiting:
        for kind in waiting.pop().__subclasses__():
            waiting.append(kind)
            if kind.__module__.startswith("partwise.") and not inspect.isabstract(kind):
                found[kind.__name__] = kind.__module__
    return found


def asked_types(path: Path) -> set[str]:
    """Names of the classes that a module asks for by isinstance."""
    calls = [
        node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)
    ]
    return {
        part.attr if isinstance(part, ast.Attribute) else part.id
        for call in calls
        if getattr(call.func, "id", "") == "isinstance" and len(call.args) == 2
        for part in ast.walk(call.args[1])
        if isinstance(part, (ast.Name, ast.Attribute))
    }


def test_nobody_asks_which_solver_it_is() -> None:
    """What depends on the solver is a method of the solver."""
    homes = solver_classes()
    assert len(homes) > 20 and "Race" in homes
    wrong = {
        f"{name}: {kind}"
        for name, path in modules().items()
        for kind in asked_types(path) & set(homes)
        if "partwise." + name.replace("/", ".") != homes[kind]
    }
    assert not wrong
