"""Write a file whole or not at all: temporary file in the same folder, flushed, then renamed."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from partwise.errors import InputError


def write_atomically(path: str | os.PathLike[str], write: Callable[[BinaryIO], object]) -> None:
    """Call `write` on a temporary file and put it in place of `path` only if that succeeds."""
    target = Path(path)
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise InputError(f"cannot write here: {error.strerror}", path) from error
    try:
        with os.fdopen(descriptor, "wb") as handle:
            write(handle)
            handle.flush()
            os.fsync(handle.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, target)
    except OSError as error:
        _discard(name)
        raise InputError(f"cannot write: {error.strerror}", path) from error
    except BaseException:
        _discard(name)
        raise
    _sync_folder(target.parent)


def _discard(name: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(name)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    """Make the rename survive a power cut, where the system lets folders be opened."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
