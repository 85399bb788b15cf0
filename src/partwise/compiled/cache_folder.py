# mypy: ignore-errors
"""Where compiled code is kept between processes, and what happens where that is not possible.

Numba keeps it beside the package, else in the user's cache folder. Where neither can be written it goes to a
folder of the user's own under the system's temporary one; where that fails too, or the disk is full, every
process compiles for itself. Each of these costs one line on standard error and nothing else.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from numba import config

from partwise.compiled.cache import load_without_compiler

_ADVICE = "set NUMBA_CACHE_DIR to a folder that can be written"
_said: list[str] = []


def kept_on_disk(compile_: Callable[[bool], Any], stamp: Callable[[], str]) -> Any:
    """Compile so that the next process finds the result.

    Parameters
    ----------
    compile_ : callable
        Makes the dispatcher; its argument says whether to use the disk. RuntimeError where no folder will do.
    stamp : callable
        What kept code depends on, in place of the file that holds the function.
    """
    try:
        compiled = compile_(True)
    except RuntimeError:
        compiled = _kept_elsewhere(compile_)
    cache = getattr(compiled, "_cache", None)
    if hasattr(cache, "_cache_file"):
        load_without_compiler(compiled)
        cache._cache_file._source_stamp = stamp()
        _never_fatal(cache)
    return compiled


def _kept_elsewhere(compile_: Callable[[bool], Any]) -> Any:
    folder = temporary_folder()
    if folder is not None:
        before, config.CACHE_DIR = config.CACHE_DIR, str(folder)
        try:
            compiled = compile_(True)
            _say_once(f"compiled code is kept in {folder}, as no other folder can be written; {_ADVICE}")
            return compiled
        except RuntimeError:
            pass
        finally:
            config.CACHE_DIR = before
    _say_once(f"compiled code cannot be kept and is compiled anew by every process; {_ADVICE}")
    return compile_(False)


def temporary_folder() -> Path | None:
    """A folder for compiled code that belongs to this user alone; None where there cannot be one."""
    user = os.getuid() if hasattr(os, "getuid") else -1
    try:
        folder = Path(tempfile.gettempdir()) / f"partwise-{user}"
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return None
    # Anyone can make a folder of this name first; code is not loaded from what others can write.
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == user and not found.st_mode & 0o077
    return folder if ours else None


def _never_fatal(cache: Any) -> None:
    """A damaged cache is compiled over, a full disk only told; kept code is never what it does not claim to be."""
    load, save = cache.load_overload, cache.save_overload

    def load_or_compile(*arguments: Any) -> Any:
        try:
            return load(*arguments)
        except Exception:  # a damaged pickle can raise nearly anything
            return None

    def save_if_possible(*arguments: Any) -> None:
        try:
            save(*arguments)
        except OSError as error:
            reason = error.strerror or error
            _say_once(f"compiled code cannot be kept ({reason}), so every process compiles; {_ADVICE}")
        except (EOFError, UnpicklingError, ValueError, LookupError, AttributeError, ImportError):
            with suppress(OSError):
                cache._cache_file.flush()  # a damaged index: start a new one
                save(*arguments)

    def save_entry(key: Any, data: Any) -> None:
        """As Numba does it, but the index last: killed in between, no key may lead to an older entry's code."""
        file = cache._cache_file
        overloads = file._load_index()
        taken = set(overloads.values())
        free = next(n for n in range(1, len(taken) + 2) if file._data_name(n) not in taken)
        name = overloads.get(key, file._data_name(free))
        file._save_data(name, data)
        file._save_index({**overloads, key: name})

    cache.load_overload, cache.save_overload = load_or_compile, save_if_possible
    cache._cache_file.save = save_entry


def _say_once(message: str) -> None:
    """The first of all messages; the others say no more than it did."""
    if not _said and sys.stderr is not None:
        print(f"partwise: {message}", file=sys.stderr)
    _said.append(message)
