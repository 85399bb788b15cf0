"""Files of gazetteers, as lines of templates name them. `features/gazetteers.py` finds their entries in sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from partwise.errors import InputError


class Gazetteer(NamedTuple):
    """A list of names of one or more words.

    Attributes
    ----------
    name : str
        Of the column that it makes.
    entries : tuple of str
        Words with a space between them. If all are in lower case, they match words of any case.
    """

    name: str
    entries: tuple[str, ...]


def read_gazetteer(written: str, template: object) -> Gazetteer:
    """The list of a line ``gazetteer: NAME FILE``; a relative file is looked for beside the template."""
    name, _, file = written.partition(" ")
    if not name.isidentifier() or not file.strip():
        raise InputError("a gazetteer has a name and a file, as in gazetteer: cities cities.txt")
    path = Path(file.strip())
    if isinstance(template, (str, Path)) and not path.is_absolute():
        path = Path(template).parent / path
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InputError(f"cannot read the gazetteer {name}: {reason}", path) from None
    return checked_gazetteer(name, lines, path)


def checked_gazetteer(name: Any, lines: Any, where: object = None) -> Gazetteer:
    """The list of these lines, each an entry; spaces between words do not count."""
    if (
        not isinstance(name, str)
        or not isinstance(lines, list)
        or not all(isinstance(each, str) for each in lines)
    ):
        raise InputError("the gazetteers of this model are damaged")
    entries = dict.fromkeys(" ".join(line.split()) for line in lines if line.strip())
    if not entries:
        raise InputError(f"the gazetteer {name} has no entries", where)
    return Gazetteer(name, tuple(entries))
