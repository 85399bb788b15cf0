"""Tests that could pass without testing anything, or fail on a busy machine, are found in their source."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from data_paths import ROOT

FILES = {path.relative_to(ROOT).as_posix(): path for path in sorted((ROOT / "tests").rglob("*.py"))}
CLOCKS = {"perf_counter", "process_time", "thread_time", "monotonic", "time", "default_timer"}
CLOCKS |= {f"{name}_ns" for name in CLOCKS}
SECONDS = {"seconds", "cpu_seconds", "elapsed"}  # what results call the time that they took
UNTIMED = ("deadline=None", "checks", "few")  # settings whose deadline is None


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions within it."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield node
            yield from own_nodes(node)


def reads_clock(node: ast.AST, names: set[str]) -> bool:
    """Whether an expression calls a clock, names a value that came from one, or asks a result for its time."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call) and ast.unparse(inner.func).split(".")[-1] in CLOCKS:
            return True
        if isinstance(inner, ast.Name) and inner.id in names:
            return True
        if isinstance(inner, ast.Attribute) and inner.attr in SECONDS:
            return True
        if isinstance(inner, ast.Subscript) and getattr(inner.slice, "value", None) in SECONDS:
            return True
    return False


def clock_names(tree: ast.AST) -> set[str]:
    """Names that are assigned from a clock, or from such a name."""
    names: set[str] = set()
    for _ in range(3):
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and reads_clock(node.value, names):
                names |= {
                    inner.id
                    for target in node.targets
                    for inner in ast.walk(target)
                    if isinstance(inner, ast.Name)
                }
    return names


def complaints(source: str) -> list[str]:
    """What is wrong with a file of tests, with lines."""
    found = []
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef):
            continue
        names = clock_names(function)
        for node in own_nodes(function):
            ordered = isinstance(node, ast.Compare) and not all(
                isinstance(each, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for each in node.ops
            )
            if ordered and reads_clock(node, names):
                found.append(f"line {node.lineno}: compares times; count what should be small")
        decorators = [ast.unparse(each) for each in function.decorator_list]
        if any(each.startswith("given(") for each in decorators):
            returns = [node for node in own_nodes(function) if isinstance(node, ast.Return)]
            found += [f"line {node.lineno}: returns from a property test; use assume" for node in returns]
            if not any(mark in each for each in decorators for mark in UNTIMED):
                found.append(f"line {function.lineno}: a property test with a deadline")
    return found


def test_nothing_is_vacuous_or_timed() -> None:
    found = {name: complaints(path.read_text(encoding="utf-8")) for name, path in FILES.items()}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


GIVEN = "@settings(deadline=None)\n@given(x)\ndef test(x):\n"


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        (GIVEN + "    if not x:\n        return\n    assert f(x)", "use assume"),
        (GIVEN + "    assume(x)\n    def inner():\n        return x\n    assert inner()", ""),
        ("@given(x)\ndef test(x):\n    assert f(x)", "deadline"),
        (
            "def test():\n    start = time.time()\n    f()\n    assert time.time() - start < 3",
            "compares times",
        ),
        (
            "def test():\n    a = perf_counter()\n    b = a + 1\n    while b > 0:\n        pass",
            "compares times",
        ),
        ("def test():\n    assert fit()['seconds'] < 3", "compares times"),
        ("def test():\n    assert fit().history[-1].seconds <= 3", "compares times"),
        ("def test():\n    assert clock.seconds == approx(3.0) and lines_executed(f) < 9", ""),
    ],
)
def test_what_is_found(source: str, wrong: str) -> None:
    found = complaints(source)
    assert len(found) == bool(wrong) and all(wrong in each for each in found)
