"""Type checking is off only in files of compiled code, which Numba and Triton check by their own rules."""

from __future__ import annotations

import re

from data_paths import ROOT

PACKAGE = ROOT / "src" / "partwise"
MARKER = "# mypy: ignore-errors"
_COMPILED = re.compile(r"^\s*@(?:entry|inner|fragment|intrinsic|triton\.jit)\b|\bAddressed\(", re.MULTILINE)


def test_only_compiled_code_is_not_type_checked() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if MARKER in (source := path.read_text(encoding="utf-8")) and not _COMPILED.search(source)
    }
    assert found == set()
