"""Checks of output files: a command never overwrites a file that it reads."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from partwise.errors import InputError
from partwise.storage.atomic import writable_target
from partwise.tasks.options import STANDARD


def check_paths(outputs: Mapping[str, str | None], inputs: Mapping[str, str | None]) -> None:
    """Raise if an output cannot be written, is also an input, or is named twice.

    Parameters
    ----------
    outputs, inputs : dict of str to path or None
        By the name that messages use; "-" is standard output or input, None is left out.
    """
    read = {_identity(path, 0): name for name, path in inputs.items() if path is not None}
    read.pop(None, None)
    written: dict[object, str] = {}
    for name, path in outputs.items():
        if path is None:
            continue
        if path != STANDARD:
            writable_target(path)
        identity = _identity(path, 1) or os.path.realpath(path)
        if identity in read:
            where = "standard output" if path == STANDARD else name
            message = f"{where} is the same file as {read[identity]}, which it would overwrite: name another"
            raise InputError(message, path)
        if identity in written:
            raise InputError(f"{name} and {written[identity]} are the same file: name another", path)
        written[identity] = name


def _identity(path: str, descriptor: int) -> object:
    """Device and inode of a file; None if it does not exist or can be shared, such as a terminal."""
    try:
        found = os.fstat(descriptor) if path == STANDARD else os.stat(path)
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None
