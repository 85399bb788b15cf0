"""The one exception for bad input: what is wrong, where, and what to do."""

from __future__ import annotations


class InputError(ValueError):
    """Bad input from the user, said in one line.

    Parameters
    ----------
    message : str
        What is wrong, naming the argument, and what would be right.
    path : str or None
        The file it was found in.
    line : int or None
        The line in that file, counted from 1.
    """

    def __init__(self, message: str, path: object = None, line: int | None = None):
        self.path = None if path is None else str(path)
        self.line = line
        self.message = " ".join(str(message).split())
        place = "" if path is None else f"{path}:{line}: " if line is not None else f"{path}: "
        super().__init__(place + self.message)


class MissingFileError(InputError, FileNotFoundError):
    """A file that does not exist: an `InputError` that is also Python's own error."""
