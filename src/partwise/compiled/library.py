"""The shipped library of machine code: one file for each level of processors, of which the best that runs is used.

The names of its functions carry a hash of their sources (`kernels.py`), so a library that does not fit the sources is
simply asked in vain. With the variable PARTWISE_NO_LIBRARY set, it is not asked at all.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import sys
import zlib
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "lib"
SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
CHECKSUMS = "checksums.json"  # size and CRC-32 of each file

# Levels of processors, the best last: their name in LLVM. The first runs on every machine of its architecture.
LEVELS = {"x86_64": ("x86-64", "x86-64-v3", "x86-64-v4")}

_problems: list[str] = []


def architecture() -> str:
    """The architecture of this process's processor, such as x86_64 or arm64."""
    name = platform.machine().lower()
    return {"amd64": "x86_64", "aarch64": "arm64"}.get(name, name)


def levels() -> tuple[str, ...]:
    """Levels of this architecture, the best last."""
    return LEVELS.get(architecture(), ("generic",))


def file_of(level: str) -> Path:
    """The library for a level."""
    return FOLDER / f"partwise-{architecture()}-{level}{SUFFIX}"


def address_of(symbol: str) -> int | None:
    """The address of a kernel in the library; None if it is not there."""
    found = _library()
    if found is None:
        return None
    try:
        return ctypes.cast(getattr(found, symbol), ctypes.c_void_p).value
    except AttributeError:
        return None


def why_not() -> str:
    """The end of a message: why the library is not used. Empty if the library is whole."""
    return f" (the shipped library is not used: {_problems[0]})" if _problems else ""


def processor_level() -> int:
    """Index into :func:`levels` of the best level that this processor runs; 0 if nothing can tell."""
    if architecture() != "x86_64":
        return 0
    try:
        return int(_opened(file_of("level")).partwise_processor_level())
    except (OSError, ValueError):
        return 0


@cache
def _library() -> Any:
    """The best library that runs here; None if there is none, or nobody wants it."""
    if os.environ.get("PARTWISE_NO_LIBRARY"):
        return None
    for level in reversed(levels()[: processor_level() + 1]):
        if file_of(level).is_file():
            try:
                return _opened(file_of(level))
            except (OSError, ValueError) as error:
                _problems.append(f"{file_of(level).name}: {error}")
                print(f"partwise: compiled code is not used{why_not()}", file=sys.stderr)
                return None
    return None


def _opened(file: Path) -> ctypes.CDLL:
    """Open a library that is whole: the system would find damage only when it runs into it."""
    data = file.read_bytes()
    known = json.loads((FOLDER / CHECKSUMS).read_text())
    if known.get(file.name) != [len(data), zlib.crc32(data)]:
        raise ValueError("the file is damaged; install partwise again")
    return ctypes.CDLL(str(file))
