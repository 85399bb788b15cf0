"""The folder in which compiled code is kept between processes.

Numba keeps compiled code beside the package, or else in the user's cache folder. If neither is writable, the code goes
to a private folder of the user under the system's temporary folder. If that fails too, or the disk is full, every
process compiles for itself. Each of these prints one line on standard error.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

from partwise.compiled.clock import listen
from partwise.compiled.numba_hooks import adapt_cache

listen()

_ADVICE = "set NUMBA_CACHE_DIR to a writable folder"
_said: list[str] = []


def kept_on_disk(compile_: Callable[[bool], Any], stamp: Callable[[], str]) -> Any:
    """A compiled function whose code the next process finds on disk.

    Parameters
    ----------
    compile_ : callable
        Makes the function; its argument says whether to use the disk. Raises RuntimeError if no folder is writable.
    stamp : callable
        Returns a string; code on disk is used only if its stamp is the same.
    """
    try:
        compiled = compile_(True)
    except RuntimeError:
        compiled = _kept_elsewhere(compile_)
    return compiled if adapt_cache(compiled, stamp, _cannot_save) else compile_(False)


def _kept_elsewhere(compile_: Callable[[bool], Any]) -> Any:
    folder = temporary_folder()
    if folder is not None:
        config: Any = numba.config
        before, config.CACHE_DIR = config.CACHE_DIR, str(folder)
        try:
            compiled = compile_(True)
            _say_once(f"compiled code is kept in {folder}, because no other folder is writable; {_ADVICE}")
            return compiled
        except RuntimeError:
            pass
        finally:
            config.CACHE_DIR = before
    _say_once(f"compiled code cannot be kept, so every process compiles; {_ADVICE}")
    return compile_(False)


def temporary_folder() -> Path | None:
    """A folder for compiled code that only this user can write; None if there is none."""
    user = os.getuid() if hasattr(os, "getuid") else -1
    try:
        folder = Path(tempfile.gettempdir()) / f"partwise-{user}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    # Another user may have made a folder of this name. Code from a folder that others can write is not loaded.
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == user and not found.st_mode & 0o077
    return folder if ours else None


def _cannot_save(reason: object) -> None:
    _say_once(f"compiled code cannot be kept ({reason}), so every process compiles; {_ADVICE}")


def _say_once(message: str) -> None:
    """Print the first message only: the later ones have the same cause."""
    if not _said and sys.stderr is not None:
        print(f"partwise: {message}", file=sys.stderr)
    _said.append(message)
