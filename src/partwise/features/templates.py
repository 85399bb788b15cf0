"""The one language of templates: which fields of tokens, segments, arcs, triples and spans become features.

A *template* is one line: fields joined by "|" or " + ". Its features are the values that these fields have together.
A *field* is a column at a position, with functions around it. Two spellings mean the same::

    word[-1]   pos[first-1]   suffix(lower(form[head]), 3)        column[position]
               first-1.pos    suffix(lower(head.form), 3)         position.column

Ranges expand: ``word[-2..2]`` is five templates, ``prefix(word[0], 1..3)`` three. A "?" at the end leaves a template
out if the data have no such column. A *relation*, such as ``length`` or ``direction``, is a value of the whole row.
A `Kind` lists the positions, columns and relations of one kind of row; docs/templates.md shows them all. A feature is
absent if one of its fields has no value.

Tokens have files of templates with three more lines::

    columns: word pos        what the columns are called (default: word, pos, col2, col3 ...)
    boundary: symbol         places outside the sentence are called _B-1, _B+1 ...; with "skip" they have no value
    edge: pos[0]             a feature of the pair of labels at the previous and this token

CRF++'s files are a second spelling of the same templates (`parse_crfpp`).
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from partwise.errors import InputError
from partwise.features import presets
from partwise.features.functions import CALL, FUNCTIONS, apply, check_call, takes_number, written_call

__all__ = ["FUNCTIONS", "PRESETS", "Combination", "Field", "Template", "load_template", "parse_template"]

FURTHEST_OFFSET = 100
MOST_ATTRIBUTES = 20_000  # model files with more are not loaded
MOST_FUNCTIONS = 20
LONGEST_LINE = 10_000
# A list of more templates than this is a mistake; every one costs time for every row.
MOST_TEMPLATES = 1000

# Fields that are not of one word: a value of the row; every distinct value of several words; all values one after
# another.
RELATION, BETWEEN, ANY, ALL = "row", "between", "any", "all"
SEVERAL = (BETWEEN, ANY)

PRESETS: dict[str, str] = presets.TOKENS


@dataclass(frozen=True)
class Field:
    """One observed value: a column at a position, and functions applied in turn; or a relation.

    Parameters
    ----------
    column : str or int
        Name or number; a number once the template is bound to columns.
    offset : int
        How many words after the place.
    functions : tuple of (name, argument)
        Names in ``partwise.features.functions``, innermost first; the argument is 0 for functions that take none.
    place : str
        One of the kind's places, or `RELATION`, `BETWEEN`, `ANY`, `ALL`.
    dotted : bool
        Whether it was written ``head.form``, not ``form[head]``.
    """

    column: str | int
    offset: int = 0
    functions: tuple[tuple[str, int], ...] = ()
    place: str = "token"
    dotted: bool = field(default=False, compare=False)

    @property
    def source(self) -> str:
        """Column and functions, without the position."""
        written = written_call(self.functions, str(self.column))
        return f"all({written})" if self.place == ALL else written

    def text(self) -> str:
        """The field as it is written in a template."""
        column, signed = str(self.column), f"{self.offset:+}" if self.offset else ""
        if self.place == RELATION:
            return column
        if self.place in (ANY, ALL):
            return f"{self.place}({written_call(self.functions, column)})"
        position = str(self.offset) if self.place == "token" else f"{self.place}{signed}"
        written = f"{self.place}{signed}.{column}" if self.dotted else f"{column}[{position}]"
        return written_call(self.functions, written)

    def value(self, string: str) -> str | None:
        """What the functions make of a string of the column; None where they have no value."""
        return apply(self.functions, string)


@dataclass(frozen=True)
class Combination:
    """One template without ranges: its features are called ``pieces[0] value[0] pieces[1] value[1] ... pieces[-1]``.

    Combinations with equal pieces share their features, as in a CRF++ bag of words.

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

    def text(self) -> str:
        """The template as it is written."""
        joint = " + " if self.pieces[1:-1] and self.pieces[1].startswith(" & ") else "|"
        return joint.join(each.text() for each in self.fields) or self.pieces[0]

    def attribute(self, values: Sequence[str]) -> str:
        """The name of the feature with this value of each field."""
        return self.pieces[0] + "".join(v + p for v, p in zip(values, self.pieces[1:], strict=True))

    @property
    def has_several(self) -> bool:
        """Whether a row may have several features of this template."""
        return any(each.place in SEVERAL or each.column == "feat" for each in self.fields)


class Column(NamedTuple):
    """A column of a kind that does not take its columns from the data.

    Attributes
    ----------
    data : str
        The column of the data that it is made of.
    value : function of a string, or None
        What it makes of the string; None stands for no value.
    outside : bool
        Whether positions outside the sentence have a value, too.
    """

    data: str
    value: Callable[[str], str | None] | None = None
    outside: bool = True


def _end(n: int, first: bool, string: str) -> str | None:
    """The first or last `n` characters of a longer string."""
    return None if len(string) <= n else string[:n] if first else string[-n:]


def affixes(data: str) -> dict[str, Column]:
    """Columns ``prefix1`` to ``suffix9``: the ends of words that are longer than that."""
    sides = (("prefix", True), ("suffix", False))
    return {
        f"{name}{n}": Column(data, partial(_end, n, first), outside=False)
        for name, first in sides
        for n in range(1, 10)
    }


@dataclass(frozen=True)
class Kind:
    """What templates of one kind of row may say.

    Attributes
    ----------
    name, parameter : str
        Of the rows, and of the parameter that templates are passed by, for messages.
    places : tuple of str
        Named positions. A kind with one place needs no name in brackets.
    examples : str
        Fields, for messages.
    columns : dict of str to Column, or None
        None for the columns that the data have, by name or number.
    relations : dict of str to tuple of str
        Names of the values of each relation; empty if they are learnt from data.
    several : str
        `BETWEEN` if fields may stand for all words between two places, `ANY` for those of the row, "" for neither.
        With `ANY`, the kind also has `ALL`.
    presets : dict of str to list of str
    reserved : tuple of str
        Names of the values outside the sentence, and perhaps of the root. Their codes come first.
    reserved_are_strings : bool
        Whether a word with such a string is the same.
    n_places : int
        How many places compiled code reads for these rows; those beyond `places` have no fields.
    first_field_highest : bool
        Whether the first field is the highest digit of keys, not the lowest. Model files have keys of both orders.
    """

    name: str
    parameter: str
    places: tuple[str, ...]
    examples: str
    columns: Mapping[str, Column] | None = None
    relations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    several: str = ""
    presets: Mapping[str, Sequence[str]] = field(default_factory=dict)
    reserved: tuple[str, ...] = ()
    reserved_are_strings: bool = False
    n_places: int = 1
    first_field_highest: bool = False


TOKENS = Kind(
    name="token",
    parameter="template",
    places=("token",),
    examples="word[-1] or suffix(word[0], 3)",
    reserved_are_strings=True,
    first_field_highest=True,
)
_WHERE: dict[str, Literal["all", "first", "last"]] = {"bias": "all", "begin": "first", "end": "last"}


@dataclass(frozen=True)
class Template:
    """A parsed file of templates of tokens, whatever syntax it was written in.

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
        where = self.path or "template"
        nodes, edges = (bind(part, n_columns, self.column_names, where) for part in (self.nodes, self.edges))
        return replace(self, nodes=nodes, edges=edges)


# -- columns ---------------------------------------------------------------------------------------


def names_of_columns(column_names: Sequence[str], n_columns: int) -> list[str]:
    """The names of columns in templates."""
    names = list(column_names or ("word", "pos"))[:n_columns]
    return names + [f"col{k}" for k in range(len(names), n_columns)]


def bind(
    combinations: Iterable[Combination], n_columns: int, column_names: Sequence[str], where: object
) -> tuple[Combination, ...]:
    """Replace names of columns by numbers; leave out optional templates whose column is missing."""
    names = names_of_columns(column_names, n_columns)
    numbers: dict[str | int, int] = {f"col{k}": k for k in range(n_columns)}
    numbers |= {k: k for k in range(n_columns)} | {name: k for k, name in enumerate(names)}
    bound = []
    for each in combinations:
        missing = [f.column for f in each.fields if f.place != RELATION and f.column not in numbers]
        if not missing:
            fields = (f if f.place == RELATION else replace(f, column=numbers[f.column]) for f in each.fields)
            bound.append(replace(each, fields=tuple(fields)))
        elif not each.optional:
            known = ", ".join(names) or "none"
            raise InputError(
                f"column {missing[0]!r} is not in the data, whose columns are {known}", where, each.line
            )
    return tuple(bound)


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
    _refuse_too_many(len(fields) * len(arguments), inner)
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


def _refuse_too_many(n_combinations: int, text: str) -> None:
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
    _refuse_too_many(math.prod(map(len, choices)), text)
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


def _lines(text: str, path: object, title: str) -> Iterator[tuple[int, str]]:
    """The lines of a text of templates, without comments. Errors raised in the loop's body are the caller's."""
    check_size(text, path or title)
    for number, written in enumerate(text.splitlines(), start=1):
        if line := written.partition("#")[0].strip():
            yield number, line


def parse_text(text: str, kind: Kind, path: object = None, example: str = "") -> tuple[Combination, ...]:
    """Templates of any kind, one a line, without the lines that only tokens have; each once."""
    where = path or f"{kind.name} template"
    found: dict[tuple[str, ...], Combination] = {}
    for number, line in _lines(text, path, f"{kind.name} template"):
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


def parse_template(text: str, column_names: Sequence[str] = (), path: object = None) -> Template:
    """Read a file of templates of tokens in the syntax described at the top of this module.

    Parameters
    ----------
    text : str
    column_names : sequence of str
        Names of the columns, unless the template has a ``columns:`` line.
    path : path-like or None
        Where the text comes from, for messages.
    """
    boundary: Literal["skip", "symbol"] = "skip"
    found: dict[str, dict[tuple[str, ...], Combination]] = {"node": {}, "edge": {}}
    for number, line in _lines(text, path, "template"):
        directive, colon, rest = (part.strip() for part in line.partition(":"))
        try:
            if colon and directive == "columns" and rest:
                column_names = rest.split()
            elif colon and directive == "boundary" and rest in ("skip", "symbol"):
                boundary = "skip" if rest == "skip" else "symbol"
            elif colon and directive != "edge":
                known = "'columns: NAMES', 'boundary: skip', 'boundary: symbol' and 'edge: ATTRIBUTE'"
                raise InputError(f"cannot read {line!r:.60}; the lines with a colon are {known}")
            elif rest or not colon:
                part = found["edge" if colon else "node"]
                for each in parse_line(rest if colon else line, TOKENS, number):
                    part.setdefault(each.pieces, each)
                _refuse_too_many(len(found["node"]) + len(found["edge"]), "the template up to here")
        except InputError as error:
            raise InputError(str(error), path or "template", number) from None
    if not found["node"] and not found["edge"]:
        raise InputError(
            "the template has no attributes; write for example word[-2..2]", path or "template", 1
        )
    nodes, edges = (tuple(found[part].values()) for part in ("node", "edge"))
    where = None if path is None else str(path)
    return Template(nodes, edges, True, boundary, tuple(column_names), text, "partwise", where)


def load_template(name: str | Path, column_names: Sequence[str] = ()) -> Template:
    """Read a file of templates of tokens by the name of a preset or from a file, in this module's syntax or CRF++'s.

    Parameters
    ----------
    name : str or path
        "chunking", "ner", "pos", or a file.
    column_names : sequence of str
        Names of the columns, for templates that do not name them.
    """
    if str(name) in PRESETS:
        return parse_template(PRESETS[str(name)], column_names, path=f"preset {name}")
    text = read_file(name, "template", PRESETS)
    return parse_crfpp(text, name) if looks_like_crfpp(text) else parse_template(text, column_names, name)


def read_file(path: str | Path, what: str, known: Iterable[str]) -> str:
    """The text of a file of templates; if it cannot be read, the error names the presets."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InputError(f"cannot read the {what}: {reason}; presets are {', '.join(known)}", path) from None


# -- CRF++'s spelling ------------------------------------------------------------------------------

_MACRO = re.compile(r"%x\[\s*([-+]?\d+)\s*,\s*(\d+)\s*\]")


def looks_like_crfpp(text: str) -> bool:
    """Whether the first line that is no comment has CRF++'s syntax."""
    lines = (line.strip() for line in text.splitlines())
    first = next((line for line in lines if line and not line.startswith("#")), "")
    return "%" in first or re.fullmatch(r"[UB]\d*:?", first) is not None


def parse_crfpp(text: str, path: object = None) -> Template:
    """Read a CRF++ template.

    ``U`` lines make attributes of a token, ``B`` lines attributes of the pair of labels at the previous and this
    token. A ``B`` line without macros is the tied transition. ``%x[row,column]`` anywhere in a line stands for a string
    of the data. Attributes with equal text are the same attribute even if they come from different lines, so lines
    without an identifier make a bag of words.

    Parameters
    ----------
    text : str
    path : path-like or None
        Where the text comes from, for messages.

    Returns
    -------
    Template
        With boundary symbols, columns by number, and tied transitions if there is a plain ``B``.
    """
    check_size(text, path)
    found: list[Combination] = []
    for number, line in enumerate(map(str.strip, text.splitlines()), start=1):
        if line and not line.startswith("#"):
            try:
                found.append(_crfpp_line(line, number))
            except InputError as error:
                raise InputError(str(error), path or "template", number) from None
    if not found:
        raise InputError(
            "the template has no attributes; write for example U00:%x[0,0]", path or "template", 1
        )
    nodes = tuple(each for each in found if each.pieces[0].startswith("U"))
    others = [each for each in found if not each.pieces[0].startswith("U")]
    edges, where = tuple(each for each in others if each.fields), None if path is None else str(path)
    return Template(nodes, edges, len(edges) < len(others), "symbol", (), text, "crf++", where)


def _crfpp_line(line: str, number: int) -> Combination:
    if line[0] not in "UB":
        raise InputError(f"cannot read {line!r:.60}; a CRF++ line starts with U or B, a comment with #")
    literal_and_macro = _MACRO.split(line)
    pieces = tuple(literal_and_macro[::3])
    if any("%" in piece for piece in pieces):
        raise InputError(f"cannot read {line!r:.60}; a macro looks like %x[-1,0]")
    rows = [integer(row) for row in literal_and_macro[1::3]]
    if any(abs(row) > FURTHEST_OFFSET for row in rows):
        raise InputError(f"a row in {line!r:.60} is not within ±{FURTHEST_OFFSET}")
    columns = [integer(column) for column in literal_and_macro[2::3]]
    fields = tuple(Field(column, row) for column, row in zip(columns, rows, strict=True))
    return Combination(pieces, fields, "all", number)
