"""What commands print, for tests that compare it."""

from __future__ import annotations


def without_compiling(printed: str) -> str:
    """Without the lines that say that code is compiled: whether it is depends on the machine's cache."""
    return "".join(line for line in printed.splitlines(keepends=True) if not line.startswith("compil"))
