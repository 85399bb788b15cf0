"""What commands print, for tests that compare it."""

from __future__ import annotations


def without_compiling(printed: str) -> str:
    """Without the lines that say that code is compiled, which depends on the machine's cache, and how much memory
    the process takes."""
    others = ("compil", "memory: about")
    return "".join(line for line in printed.splitlines(keepends=True) if not line.startswith(others))
