"""Feature templates: which windows of the token columns become attributes, in a small readable syntax.

A template is text, one line per attribute or family of attributes::

    # comment
    columns: word pos                what the columns are called (default: word, pos, col2, col3 ...)
    boundary: skip                   an attribute that reaches outside the sentence is absent, or
    boundary: symbol                 the places outside are called _B-1, _B-2 ... and _B+1, _B+2 ...
    word[0]                          the word itself
    0[-1]                            a column by its number
    pos[-2..2]                       five attributes, one for each offset
    word[-1]|word[0]                 a conjunction
    suffix(lower(word[0]), 1..3)     a function of the string; ranges expand everywhere
    pos[-1..1]?                      left out when the data has no such column
    edge: pos[0]                     an attribute of the pair of labels at the previous and this token
    bias                             an attribute of every token
    begin                            ... of the first token of every sentence
    end                              ... of the last

An attribute is absent wherever one of its functions has no value: a test that fails, a prefix longer
than the word.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from partwise.errors import InputError
from partwise.features.functions import CALL, apply, check_call, takes_number, written_call

FURTHEST_OFFSET = 100
MOST_ATTRIBUTES = 20_000  # model files with more are not loaded
MOST_FUNCTIONS = 20
LONGEST_LINE = 10_000


@dataclass(frozen=True)
class Field:
    """One observed string: a column, an offset from the current token, and functions applied in turn.

    Parameters
    ----------
    column : str or int
        Name or number; a number once the template is bound to data.
    offset : int
    functions : tuple of (name, argument)
        Names in ``partwise.features.functions``, innermost first; the argument is 0 for functions that take none.
    """

    column: str | int
    offset: int
    functions: tuple[tuple[str, int], ...] = ()

    def text(self) -> str:
        """The field as it is written in a template."""
        return written_call(self.functions, f"{self.column}[{self.offset}]")

    def value(self, string: str) -> str | None:
        """What the functions make of a string of the column; None where they have no value."""
        return apply(self.functions, string)


@dataclass(frozen=True)
class Combination:
    """One kind of attribute: its name is ``pieces[0] value[0] pieces[1] value[1] ... pieces[-1]``.

    Combinations with equal pieces share their attributes, as in a CRF++ bag of words.

    Parameters
    ----------
    pieces : tuple of str, one more than fields
    fields : tuple of Field
    where : which tokens have it
    line : int
        Line of the template it comes from, for messages.
    optional : bool
        Left out when a column is missing.
    """

    pieces: tuple[str, ...]
    fields: tuple[Field, ...]
    where: Literal["all", "first", "last"] = "all"
    line: int = 0
    optional: bool = False

    def attribute(self, values: Sequence[str]) -> str:
        """The attribute's name, given the value of each field."""
        return self.pieces[0] + "".join(v + p for v, p in zip(values, self.pieces[1:], strict=True))


@dataclass(frozen=True)
class Template:
    """A parsed template, whatever syntax it was written in.

    Parameters
    ----------
    nodes : tuple of Combination
        Attributes of a token, paired with its label.
    edges : tuple of Combination
        Attributes of a token, paired with its label and the one before.
    tied_transitions : bool
        Whether pairs of labels also have weights that are the same everywhere.
    boundary : "skip" or "symbol"
        Outside a sentence, no attribute or a boundary symbol.
    column_names : tuple of str
        Names of the first columns; empty for the default names.
    text, syntax, path
        What it was read from: syntax is "partwise" or "crf++".
    """

    nodes: tuple[Combination, ...]
    edges: tuple[Combination, ...]
    tied_transitions: bool
    boundary: Literal["skip", "symbol"]
    column_names: tuple[str, ...]
    text: str
    syntax: Literal["partwise", "crf++"]
    path: str | None = None

    def bind(self, n_columns: int) -> Template:
        """Resolve every column to its number in data of ``n_columns`` columns."""
        names = list(self.column_names or ("word", "pos"))[:n_columns]
        names += [f"col{k}" for k in range(len(names), n_columns)]
        numbers: dict[str | int, int] = {f"col{k}": k for k in range(n_columns)}
        numbers |= {k: k for k in range(n_columns)} | {name: k for k, name in enumerate(names)}

        def resolved(combinations: tuple[Combination, ...]) -> tuple[Combination, ...]:
            bound = []
            for combination in combinations:
                missing = [field.column for field in combination.fields if field.column not in numbers]
                if not missing:
                    fields = (replace(field, column=numbers[field.column]) for field in combination.fields)
                    bound.append(replace(combination, fields=tuple(fields)))
                elif not combination.optional:
                    message = f"column {missing[0]!r} is not in the data, whose columns are"
                    raise InputError(
                        f"{message} {', '.join(names)}", self.path or "template", combination.line
                    )
            return tuple(bound)

        return replace(self, nodes=resolved(self.nodes), edges=resolved(self.edges))


_FIELD = re.compile(r"(\w+)\s*\[([^\]]*)\]")
_RANGE = re.compile(r"([-+]?\d+)(?:\s*\.\.\s*([-+]?\d+))?")
_WRITTEN_RANGE = re.compile(r"([-+]?\d+)\s*\.\.\s*([-+]?\d+)")
_PLACES: dict[str, Literal["all", "first", "last"]] = {"bias": "all", "begin": "first", "end": "last"}


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
        combinations = 1
        for first, last in _WRITTEN_RANGE.findall(line):
            combinations *= max(1, integer(last) - integer(first) + 1)
        total += combinations
        if total > MOST_ATTRIBUTES:
            message = f"the template stands for more than {MOST_ATTRIBUTES:,} attributes"
            raise InputError(message, path or "template", number)


def integer(text: str) -> int:
    """A whole number; digits beyond the tenth no longer matter, as it is too large in any case."""
    digits = text.lstrip("+-").lstrip("0")[:10]
    return int(digits or "0") * (-1 if text.startswith("-") else 1)


def _integers(text: str, what: str) -> range:
    found = _RANGE.fullmatch(text.strip())
    if found is None:
        raise InputError(f"{what} {text.strip()!r:.40} is neither a whole number nor a range like -2..2")
    first, last = integer(found[1]), integer(found[2] or found[1])
    if not -FURTHEST_OFFSET <= first <= last <= FURTHEST_OFFSET:
        raise InputError(f"{what} {text.strip()!r:.40} must ascend and lie within ±{FURTHEST_OFFSET}")
    return range(first, last + 1)


def _fields(text: str) -> list[Field]:
    """All fields that one written field stands for: several when it has ranges."""
    text = text.strip()
    if found := _FIELD.fullmatch(text):
        column = integer(found[1]) if found[1].isdecimal() else found[1]
        return [Field(column, offset) for offset in _integers(found[2], "offset")]
    found = CALL.fullmatch(text)
    if found is None:
        raise InputError(f"cannot read {text!r:.60}; a field looks like word[-1] or suffix(word[0], 3)")
    name, inner, number = found.groups()
    check_call(name, number is not None, inner.strip())
    arguments = range(1) if number is None else _integers(number, "length")
    if takes_number(name) and arguments[0] < 1:
        raise InputError(f"length {arguments[0]} of {name} must be at least 1")
    fields = _fields(inner)
    _refuse_too_many(len(fields) * len(arguments), text)
    return [replace(f, functions=(*f.functions, (name, a))) for f in fields for a in arguments]


def _refuse_too_many(n_combinations: int, text: str) -> None:
    """Ranges multiply: a short line can stand for more attributes than fit into memory."""
    if n_combinations > MOST_ATTRIBUTES:
        raise InputError(
            f"{text!r:.60} stands for {n_combinations:,} attributes; at most {MOST_ATTRIBUTES:,} are possible: "
            "use narrower ranges"
        )


def _combinations(text: str, line: int) -> list[Combination]:
    """All combinations that one line stands for."""
    text, optional = (text[:-1].strip(), True) if text.endswith("?") else (text, False)
    if text in _PLACES:
        return [Combination((text,), (), _PLACES[text], line, optional)]
    parts = text.split("|")
    if any(part.count("(") > MOST_FUNCTIONS for part in parts):
        raise InputError(f"more than {MOST_FUNCTIONS} functions within one another")
    expanded, choices = [], [_fields(part) for part in parts]
    _refuse_too_many(math.prod(map(len, choices)), text)
    for fields in itertools.product(*choices):
        pieces = ("|".join(f.text() for f in fields) + "=", *["|"] * (len(fields) - 1), "")
        expanded.append(Combination(pieces, fields, "all", line, optional))
    return expanded


def parse_template(text: str, column_names: Sequence[str] = (), path: object = None) -> Template:
    """Read a template in the syntax described at the top of this module.

    Parameters
    ----------
    text : str
    column_names : sequence of str
        Names of the columns, unless the template has a ``columns:`` line.
    path : path-like or None
        Where the text comes from, for messages.
    """
    check_size(text, path)
    boundary: Literal["skip", "symbol"] = "skip"
    found: dict[str, dict[tuple[str, ...], Combination]] = {"node": {}, "edge": {}}
    for line, written in enumerate(text.splitlines(), start=1):
        directive, colon, rest = (part.strip() for part in written.partition("#")[0].partition(":"))
        try:
            if not colon:
                part, rest = "node", directive
            elif directive == "edge":
                part = "edge"
            elif directive == "columns" and rest:
                column_names, rest = rest.split(), ""
            elif directive == "boundary" and rest in ("skip", "symbol"):
                boundary, rest = ("skip" if rest == "skip" else "symbol"), ""
            else:
                known = "'columns: NAMES', 'boundary: skip', 'boundary: symbol' and 'edge: ATTRIBUTE'"
                raise InputError(f"cannot read {written.strip()!r:.60}; the lines with a colon are {known}")
            for combination in _combinations(rest, line) if rest else ():
                found[part].setdefault(combination.pieces, combination)
            _refuse_too_many(len(found["node"]) + len(found["edge"]), "the template up to here")
        except InputError as error:
            raise InputError(str(error), path or "template", line) from None
    if not found["node"] and not found["edge"]:
        raise InputError(
            "the template has no attributes; write for example word[-2..2]", path or "template", 1
        )
    nodes, edges = (tuple(found[part].values()) for part in ("node", "edge"))
    where = None if path is None else str(path)
    return Template(nodes, edges, True, boundary, tuple(column_names), text, "partwise", where)


def load_template(name: str | Path, column_names: Sequence[str] = ()) -> Template:
    """Read a template by the name of a preset or from a file, in this module's syntax or CRF++'s.

    Parameters
    ----------
    name : str or path
        "chunking", "ner", "pos", or a file.
    column_names : sequence of str
        Names of the columns, for templates that do not name them.
    """
    if str(name) in PRESETS:
        return parse_template(PRESETS[str(name)], column_names, path=f"preset {name}")
    try:
        text = Path(name).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InputError(
            f"cannot read the template: {reason}; presets are {', '.join(PRESETS)}", name
        ) from None
    from partwise.features.crfpp import looks_like_crfpp, parse_crfpp  # they build on this module

    return parse_crfpp(text, name) if looks_like_crfpp(text) else parse_template(text, column_names, name)


PRESETS: dict[str, str] = {
    "chunking": """
        boundary: skip
        word[-2..2]
        word[-1]|word[0]
        word[0]|word[1]
        pos[-2..2]
        pos[-2]|pos[-1]
        pos[-1]|pos[0]
        pos[0]|pos[1]
        pos[1]|pos[2]
        pos[-2]|pos[-1]|pos[0]
        pos[-1]|pos[0]|pos[1]
        pos[0]|pos[1]|pos[2]
        begin
        end
    """,
    "ner": """
        boundary: skip
        bias
        begin
        end
        word[-2..2]
        lower(word[-1..1])
        word[-1]|word[0]
        word[0]|word[1]
        prefix(word[0], 1..4)
        suffix(word[0], 1..4)
        shape(word[0])
        short_shape(word[-2..2])
        short_shape(word[-1])|short_shape(word[0])
        short_shape(word[0])|short_shape(word[1])
        short_shape(word[-1])|short_shape(word[0])|short_shape(word[1])
        lower(word[-1])|short_shape(word[0])
        short_shape(word[0])|lower(word[1])
        has_digit(word[0])
        has_hyphen(word[0])
        is_upper(word[0])
        pos[-2..2]?
        pos[-1]|pos[0]?
        pos[0]|pos[1]?
        pos[0]|short_shape(word[0])?
    """,
    "pos": """
        boundary: skip
        bias
        begin
        end
        word[-2..2]
        lower(word[0])
        word[-1]|word[0]
        word[0]|word[1]
        prefix(word[0], 1..4)
        suffix(lower(word[0]), 1..5)
        suffix(lower(word[-1]), 2..3)
        suffix(lower(word[1]), 2..3)
        short_shape(word[0])
        is_title(word[0])
        is_upper(word[0])
        has_digit(word[0])
        has_hyphen(word[0])
        pos[-2..2]?
        pos[-1]|pos[0]?
        pos[0]|pos[1]?
        pos[-1]|pos[0]|pos[1]?
        pos[0]|suffix(lower(word[0]), 1..5)?
    """,
}
