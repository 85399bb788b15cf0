"""Reads templates, one line each, for rows of every kind."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from partwise.errors import InputError
from partwise.features.functions import CALL, check_call, takes_number
from partwise.features.templates.fields import (
    ALL,
    ANY,
    BETWEEN,
    RELATION,
    SEVERAL,
    TOKENS,
    Combination,
    Field,
    Kind,
)

FURTHEST_OFFSET = 100
MOST_ATTRIBUTES = 20_000  # model files with more are not loaded
MOST_FUNCTIONS = 20
LONGEST_LINE = 10_000
# A list of more templates than this is a mistake; every one costs time for every row.
MOST_TEMPLATES = 1000

_WHERE: dict[str, Literal["all", "first", "last"]] = {"bias": "all", "begin": "first", "end": "last"}

# -- fields ----------------------------------------------------------------------------------------

_BRACKETS = re.compile(r"(\w+)\s*\[([^\]]*)\]")
_RANGE = re.compile(r"([-+]?\d+)(?:\.\.([-+]?\d+))?")
_WRITTEN_RANGE = re.compile(r"([-+]?\d+)\s*\.\.\s*([-+]?\d+)")
_JOINT = re.compile(r"\s*\|\s*|\s+\+\s+")


def integer(text: str) -> int:
    """A whole number; digits beyond the tenth no longer matter, as it is too large in any case."""
    digits = text.lstrip("+-").lstrip("0")[:10]
    return int(digits or "0") * (-1 if text.startswith("-") else 1)


def _integers(text: str, what: str) -> range:
    found = _RANGE.fullmatch(re.sub(r"\s+", "", text))
    if found is None:
        raise InputError(f"{what} {text.strip()!r:.40} is neither a whole number nor a range like -2..2")
    first, last = integer(found[1]), integer(found[2] or found[1])
    if not -FURTHEST_OFFSET <= first <= last <= FURTHEST_OFFSET:
        raise InputError(f"{what} {text.strip()!r:.40} must ascend and lie within ±{FURTHEST_OFFSET}")
    return range(first, last + 1)


def _fields(text: str, kind: Kind) -> list[Field]:
    """All fields that one written field stands for: several when it has ranges."""
    text = text.strip()
    if text in kind.relations:
        return [Field(text, place=RELATION)]
    if found := _BRACKETS.fullmatch(text):
        return _at(found[1], found[2].strip(), kind, text, dotted=False)
    places = "|".join((*kind.places, *[BETWEEN] * (kind.several == BETWEEN)))
    if found := re.fullmatch(rf"({places}|)([-+]\d+)?\.(\w+)", text):
        return _at(found[3], found[1] + (found[2] or ""), kind, text, dotted=True)
    found = CALL.fullmatch(text)
    if found is None:
        raise _unreadable(text, kind)
    name, inner, number = found.groups()
    if kind.several == ANY and name in (ANY, ALL) and number is None:
        return _whole(name, inner, kind)
    check_call(name, number is not None, inner.strip())
    fields = _fields(inner, kind)
    if kind.columns is not None and any(each.column == "feat" for each in fields):
        raise InputError("functions of feat are not possible; use feats")
    if any(each.place in (RELATION, ANY, ALL) for each in fields):
        raise _unreadable(text, kind)
    return _called(name, number, inner, fields)


def _at(column: str, position: str, kind: Kind, text: str, dotted: bool) -> list[Field]:
    """A column at a position: a place, an offset or a range, or both."""
    found = re.fullmatch(rf"({'|'.join(kind.places)}|between|)(?![\w.])\s*(.*)", position)
    place, offset = (found[1], found[2]) if found else ("", position)
    if (not place and len(kind.places) > 1) or (place == BETWEEN and (kind.several != BETWEEN or offset)):
        raise _unreadable(text, kind)
    offsets = range(1) if place and not offset else _integers(offset, "offset")
    place = place or kind.places[0]
    known = _known_column(column, kind, text)
    if column == "feat" and kind.columns is not None:
        if place == BETWEEN:
            raise InputError("between.feat is not possible; use between.feats")
        if any(offsets):
            raise InputError("feat belongs to head and modifier themselves")
    return [Field(known, offset, (), place, dotted) for offset in offsets]


def _known_column(column: str, kind: Kind, text: str) -> str | int:
    if kind.columns is None:
        return integer(column) if column.isdecimal() else column
    if column not in kind.columns:
        raise _unreadable(text, kind)
    return column


def _whole(name: str, inner: str, kind: Kind) -> list[Field]:
    """``all(…)`` or ``any(…)`` around a column, with functions."""
    inner = inner.strip()
    if re.fullmatch(r"\w+", inner):
        return [Field(_known_column(inner, kind, inner), 0, (), name)]
    found = CALL.fullmatch(inner)
    if found is None:
        raise InputError(
            f"cannot read {inner!r:.60}; within all and any stands a column, as in all(lower(word))"
        )
    check_call(found[1], found[3] is not None, found[2].strip())
    return _called(found[1], found[3], found[2], _whole(name, found[2], kind))


def _called(name: str, number: str | None, inner: str, fields: list[Field]) -> list[Field]:
    """A function of fields, once for every number in its range."""
    arguments = range(1) if number is None else _integers(number, "length")
    if takes_number(name) and arguments[0] < 1:
        raise InputError(f"length {arguments[0]} of {name} must be at least 1")
    refuse_too_many(len(fields) * len(arguments), inner)
    return [replace(f, functions=(*f.functions, (name, a))) for f in fields for a in arguments]


def _unreadable(text: str, kind: Kind) -> InputError:
    return InputError(f"cannot read {text!r:.60}; a field looks like {kind.examples}")


# -- templates -------------------------------------------------------------------------------------


def check_size(text: str, path: object = None) -> None:
    """Refuse a template that is written or expands without end.

    Parsing a few bytes such as ``word[-99..99]|word[-99..99]|word[-99..99]`` takes gigabytes.
    """
    total = 0
    for number, line in enumerate(text.splitlines(), start=1):
        if len(line) > LONGEST_LINE:
            raise InputError(
                f"this line is longer than {LONGEST_LINE:,} characters", path or "template", number
            )
        total += math.prod(
            max(1, integer(last) - integer(first) + 1) for first, last in _WRITTEN_RANGE.findall(line)
        )
        if total > MOST_ATTRIBUTES:
            message = f"the template stands for more than {MOST_ATTRIBUTES:,} attributes"
            raise InputError(message, path or "template", number)


def refuse_too_many(n_combinations: int, text: str) -> None:
    """Ranges multiply: a short line can stand for more attributes than fit into memory."""
    if n_combinations > MOST_ATTRIBUTES:
        raise InputError(
            f"{text!r:.60} stands for {n_combinations:,} attributes; at most {MOST_ATTRIBUTES:,} are possible: "
            "use narrower ranges"
        )


def parse_line(text: str, kind: Kind, line: int = 0) -> list[Combination]:
    """All combinations that one template stands for."""
    text = text.strip()
    text, optional = (text[:-1].strip(), True) if text.endswith("?") else (text, False)
    if kind is TOKENS and text in _WHERE:
        return [Combination((text,), (), _WHERE[text], line, optional)]
    parts = _JOINT.split(text)
    if any(part.count("(") > MOST_FUNCTIONS for part in parts):
        raise InputError(f"more than {MOST_FUNCTIONS} functions within one another")
    choices = [_fields(part, kind) for part in parts]
    refuse_too_many(math.prod(map(len, choices)), text)
    found = []
    for fields in itertools.product(*choices):
        if kind.columns is not None and len(set(fields)) < len(fields):
            twice = next(f for k, f in enumerate(fields) if f in fields[:k])
            raise InputError(f"{twice.text()} is there twice")
        if sum(f.place in SEVERAL for f in fields) > 1:
            last = [f for f in fields if f.place in SEVERAL][-1]
            raise InputError(f"{last.text()} is there twice: a template has one field of several words")
        texts = [f.text() for f in fields]
        if "|" in text:
            pieces = ("|".join(texts) + "=", *["|"] * (len(fields) - 1), "")
        else:
            pieces = (*(" & " * (k > 0) + each + "=" for k, each in enumerate(texts)), "")
        found.append(Combination(pieces, fields, "all", line, optional))
    return found


def numbered_lines(text: str, path: object, title: str) -> Iterator[tuple[int, str]]:
    """The lines of a text of templates, without comments. Errors raised in the loop's body are the caller's."""
    check_size(text, path or title)
    for number, written in enumerate(text.splitlines(), start=1):
        if line := written.partition("#")[0].strip():
            yield number, line


def parse_text(text: str, kind: Kind, path: object = None, example: str = "") -> tuple[Combination, ...]:
    """Templates of any kind, one a line, without the lines that only tokens have; each once."""
    where = path or f"{kind.name} template"
    found: dict[tuple[str, ...], Combination] = {}
    for number, line in numbered_lines(text, path, f"{kind.name} template"):
        try:
            for each in parse_line(line, kind, number):
                found.setdefault(each.pieces, each)
        except InputError as error:
            raise InputError(str(error), where, number) from None
    if not found:
        raise InputError(f"the template has no features; write for example {example}", where)
    return tuple(found.values())


def parse_list(templates: str | Sequence[str], kind: Kind) -> dict[str, list[Combination]]:
    """The templates of a named set, or those passed, checked: by their text, the combinations of each."""
    if isinstance(templates, str):
        if templates not in kind.presets:
            known = ", ".join(kind.presets)
            raise InputError(
                f"{kind.parameter}={templates!r:.60} is not one of {known}, nor a list of templates"
            )
        templates = kind.presets[templates]
    texts = list(templates) if isinstance(templates, Iterable) else []
    is_set = isinstance(templates, (set, frozenset))
    if is_set or not texts or not all(isinstance(text, str) for text in texts):
        example = next(iter(kind.presets.values()))[0]
        raise InputError(f"{kind.parameter} must be a list of strings such as {example!r}")
    if len(texts) > MOST_TEMPLATES:
        raise InputError(f"{len(texts)} {kind.name} templates are more than {MOST_TEMPLATES}")
    seen: set[frozenset[Field]] = set()
    found: dict[str, list[Combination]] = {}
    for text in texts:
        try:
            check_size(text)
            found[text] = parse_line(text, kind)
        except InputError as error:
            raise InputError(f"{kind.name} template {text!r:.80}: {error}") from None
        if any(frozenset(each.fields) in seen for each in found[text]):
            raise InputError(f"{kind.name} template {text!r:.80} is there twice")
        seen |= {frozenset(each.fields) for each in found[text]}
    return found
