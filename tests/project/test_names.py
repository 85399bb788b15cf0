"""Files and modules that docstrings, comments and pages name in backticks exist."""

from __future__ import annotations

import ast
import io
import re
import tokenize

import pytest
from data_paths import ROOT

PACKAGE = ROOT / "src" / "partwise"
FILES = {path.relative_to(ROOT).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}
PAGES = {
    path.relative_to(ROOT).as_posix(): path for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
}
_QUOTED = re.compile(r"(?<!`)(`{1,2})([^`\n]+)\1(?!`)")
_FILE = re.compile(r"[\w./*-]*\w\.py")
_FOLDER = re.compile(r"\w+(?:/\w+)+/?")
_MODULE = re.compile(r"partwise(?:\.\w+)+")


def prose_of(source: str) -> str:
    """The comments and docstrings of a module."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, documented)]
    return "\n".join([*comments, *(ast.get_docstring(node) or "" for node in nodes)])


def is_file(name: str) -> bool:
    """Whether a file of the project has this path, or one of the package ends like this."""
    return any(True for paths in (ROOT.glob(name), PACKAGE.parent.rglob(name)) for _ in paths)


def is_place(name: str) -> bool:
    """Whether a path from the root or the package leads to a folder or module; true of what is no path of ours."""
    for root in (ROOT, PACKAGE):
        if (root / name.split("/")[0]).is_dir():
            path = root / name.rstrip("/")
            if path.is_dir() or path.with_suffix(".py").is_file():
                return True
    return not any((root / name.split("/")[0]).is_dir() for root in (ROOT, PACKAGE))


def is_module(name: str) -> bool:
    """Whether a dotted name is a module, or a name within one."""
    path, rest = PACKAGE, name.split(".")[1:]
    while rest and (path / rest[0]).is_dir():
        path /= rest.pop(0)
    if rest and (path / f"{rest[0]}.py").is_file():
        path = path / f"{rest.pop(0)}.py"
    else:
        path /= "__init__.py"
    return not rest or re.search(rf"\b{rest[0]}\b", path.read_text(encoding="utf-8")) is not None


def missing(text: str) -> list[str]:
    """What is named in backticks and does not exist; NAME stands for a name that the reader chooses."""
    found = []
    for _, quoted in _QUOTED.findall(text):
        for word in (word for word in quoted.split() if "NAME" not in word):
            checks = ((_FILE, is_file), (_FOLDER, is_place), (_MODULE, is_module))
            found += [word for pattern, exists in checks if pattern.fullmatch(word) and not exists(word)]
    return found


def test_what_modules_name_exists() -> None:
    found = {name: missing(prose_of(path.read_text(encoding="utf-8"))) for name, path in FILES.items()}
    assert {name: gone for name, gone in found.items() if gone} == {}


def test_what_pages_name_exists() -> None:
    found = {name: missing(path.read_text(encoding="utf-8")) for name, path in PAGES.items()}
    assert {name: gone for name, gone in found.items() if gone} == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`gone.py` but `errors.py`, `simd*.py` and `structures/NAME.py`", ["gone.py"]),
        ("see `solvers/gone` and ``solvers/dual/gone.py``", ["solvers/gone", "solvers/dual/gone.py"]),
        ("`solvers/dual`, `solvers/base`, `tests/project/test_names.py`, `n/a`", []),
        ("`partwise.gone` and `partwise.solvers.base.Gone`", ["partwise.gone", "partwise.solvers.base.Gone"]),
        ("`partwise.solvers.base.Solver`, `partwise.SequenceLabeler`, `partwise.data`", []),
    ],
)
def test_what_is_missed(text: str, expected: list[str]) -> None:
    assert missing(text) == expected


def test_prose_is_comments_and_docstrings() -> None:
    assert prose_of('"""one"""\nx = "two"  # three\ndef f():\n    """four"""\n') == "# three\none\nfour"
