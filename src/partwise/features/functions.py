"""Functions of strings for templates: one registry for tokens, segments, arcs, siblings, grandparents and spans.

To add a function, add a line to `FUNCTIONS`. It takes a string and a number, and returns a string, or None if it has no
value for this string. A feature is absent if one of its functions has no value.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from partwise.errors import InputError

CALL = re.compile(r"(\w+)\s*\((.*?)(?:,([^,()]*))?\)")


class _Shapes(dict[int, str]):
    """The class of each character, for ``str.translate``."""

    def __missing__(self, code: int) -> str:
        c = chr(code)
        self[code] = kind = "X" if c.isupper() else "x" if c.isalpha() else "d" if c.isdigit() else c
        return kind


_SHAPES = _Shapes()
_RUN = re.compile(r"(.)\1+", re.DOTALL)


def shape(string: str) -> str:
    """Capital letters as X, other letters as x, digits as d, the rest as they are: ``Xx-dd``."""
    return string.translate(_SHAPES)


def _when(truth: bool) -> str | None:
    return "1" if truth else None


FUNCTIONS: dict[str, Callable[[str, int], str | None]] = {
    "lower": lambda string, _: string.lower(),
    "prefix": lambda string, n: string[:n] if len(string) >= n else None,
    "suffix": lambda string, n: string[-n:] if len(string) >= n else None,
    "shape": lambda string, _: shape(string),
    "short_shape": lambda string, _: _RUN.sub(r"\1", shape(string)),
    "length": lambda string, _: str(len(string)),
    "is_title": lambda string, _: _when(string.istitle()),
    "is_upper": lambda string, _: _when(string.isupper()),
    "is_digit": lambda string, _: _when(string.isdigit()),
    "has_digit": lambda string, _: _when(any(c.isdigit() for c in string)),
    "has_hyphen": lambda string, _: _when("-" in string),
}


def takes_number(function: str) -> bool:
    """Whether a function is written with a number, as in ``suffix(word[0], 3)``."""
    return function in ("prefix", "suffix")


def check_call(name: str, has_number: bool, written: str) -> None:
    """Raise unless the function exists and is called with a number exactly if it takes one."""
    if name not in FUNCTIONS:
        raise InputError(f"unknown function {name!r:.40}; there are {', '.join(FUNCTIONS)}")
    if takes_number(name) and not has_number:
        raise InputError(f"{name} needs a number, as in {name}({written}, 3)")
    if not takes_number(name) and has_number:
        raise InputError(f"{name} takes no number; write {name}({written})")


def apply(functions: tuple[tuple[str, int], ...], string: str | None) -> str | None:
    """What functions, innermost first, make of a string; None if one of them has no value."""
    for name, argument in functions:
        if string is None:
            return None
        string = FUNCTIONS[name](string, argument)
    return string


def written_call(functions: tuple[tuple[str, int], ...], inner: str) -> str:
    """Functions around a field as a template writes them."""
    for name, argument in functions:
        inner = f"{name}({inner},{argument})" if takes_number(name) else f"{name}({inner})"
    return inner
