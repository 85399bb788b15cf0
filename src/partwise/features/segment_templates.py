"""Templates of features of segments: their positions, their borders, and the positions just outside.

A template is text, one line per kind of feature::

    # comment
    length                           how many positions the segment has
    word[first]                      the word at its first position; columns are named as in token templates
    pos[last+1]                      the tag after its last position; outside the sentence it is _B
    all(word)                        all its words, one after another: the whole text of the segment
    all(short_shape(word))           a function of each of its words, one after another
    any(lower(word))                 a feature for each of its words
    length|suffix(word[last], 3)     a conjunction, with the functions of token templates
    all(pos)?                        left out when the data has no such column

A feature is absent if one of its functions has no value.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from partwise.errors import InputError
from partwise.features.functions import CALL, check_call, takes_number, written_call
from partwise.features.templates import FURTHEST_OFFSET, MOST_FUNCTIONS, Field, check_size, integer

OUTSIDE = "_B"  # The value of all positions outside the sentence.

_PLACE = re.compile(r"(\w+)\s*\[\s*(first|last)\s*(?:([-+])\s*(\d+)\s*)?\]")


_NO_SOURCE = Field("", 0)


@dataclass(frozen=True)
class SegmentField:
    """One observation of a segment.

    Attributes
    ----------
    place : {"length", "first", "last", "all", "any"}
        Which positions are observed; "all" and "any" observe every position.
    source : Field
        Column and functions; unused for the length.
    offset : int
        From the first or the last position.
    """

    place: Literal["length", "first", "last", "all", "any"]
    source: Field = _NO_SOURCE
    offset: int = 0

    def text(self) -> str:
        """The field as it is written in a template."""
        if self.place == "length":
            return "length"
        whole = self.place in ("all", "any")
        offset = f"{self.offset:+d}" if self.offset else ""
        written = f"{self.source.column}" if whole else f"{self.source.column}[{self.place}{offset}]"
        written = written_call(self.source.functions, written)
        return f"{self.place}({written})" if whole else written


@dataclass(frozen=True)
class SegmentTemplate:
    """One kind of feature: its fields, and its line in the template."""

    fields: tuple[SegmentField, ...]
    line: int = 0
    optional: bool = False

    def text(self) -> str:
        return "|".join(field.text() for field in self.fields)


PRESETS: dict[str, str] = {
    "length": "length",
    "default": """
        length
        all(word)
        all(short_shape(word))
        word[last]
        word[first]|word[last]
        word[last]|word[last+1]
        length|word[first]
        length|word[first-1]
        length|word[last+1]
        word[first-1]|all(short_shape(word))
        all(short_shape(word))|word[last+1]
        all(pos)?
        pos[last]?
        pos[first]|pos[last]?
        pos[last]|pos[last+1]?
        pos[first-1]|all(pos)?
        all(pos)|pos[last+1]?
        pos[first-1]|pos[last+1]|length?
    """,
}


def parse_segment_template(text: str, path: object = None) -> tuple[SegmentTemplate, ...]:
    """Read templates in the syntax described at the top of this module; `path` is for messages."""
    check_size(text, path)
    found: dict[str, SegmentTemplate] = {}
    for line, written in enumerate(text.splitlines(), start=1):
        wanted = written.partition("#")[0].strip()
        if not wanted:
            continue
        try:
            template = _template(wanted, line)
        except InputError as error:
            raise InputError(str(error), path or "segment template", line) from None
        found.setdefault(template.text(), template)
    if not found:
        raise InputError(
            "the template has no features; write for example all(word)", path or "segment template"
        )
    return tuple(found.values())


def read_segment_template(template: str | Path) -> tuple[str, tuple[SegmentTemplate, ...]]:
    """The text and the templates of a preset's name, a file, or a text with a bracket, a line break or "length"."""
    if isinstance(template, str):
        if template in PRESETS:
            return PRESETS[template], parse_segment_template(PRESETS[template])
        if "\n" in template or "(" in template or "[" in template:
            return template, parse_segment_template(template)
    elif not isinstance(template, Path):
        raise InputError(f"segment_template must be a preset's name, a path or a text, not {template!r:.60}")
    try:
        text = Path(template).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise InputError(
            f"cannot read the segment template: {reason}; presets are {', '.join(PRESETS)}", template
        ) from None
    return text, parse_segment_template(text, template)


def _template(text: str, line: int) -> SegmentTemplate:
    text, optional = (text[:-1].strip(), True) if text.endswith("?") else (text, False)
    fields = tuple(_field(part.strip()) for part in text.split("|"))
    if sum(field.place == "any" for field in fields) > 1:
        raise InputError(f"{text!r:.60} has any(…) twice; once is possible")
    return SegmentTemplate(fields, line, optional)


def _field(text: str) -> SegmentField:
    if text.count("(") > MOST_FUNCTIONS:
        raise InputError(f"more than {MOST_FUNCTIONS} functions within one another")
    if text == "length":
        return SegmentField("length")
    called = CALL.fullmatch(text)
    if called is not None and called[1] in ("all", "any") and called[3] is None:
        source = _source(called[2].strip())
        return SegmentField("all" if called[1] == "all" else "any", source)
    source, where = _with_place(text)
    if where is None:
        raise InputError(
            f"cannot read {text!r:.60}; a field looks like word[first-1], word[last], all(word), any(word) or length"
        )
    return SegmentField("first" if where[0] == "first" else "last", source, where[1])


def _with_place(text: str) -> tuple[Field, tuple[str, int] | None]:
    """Column and functions of a field with a place, and the place."""
    if found := _PLACE.fullmatch(text):
        offset = integer(f"{found[3]}{found[4]}") if found[3] else 0
        if abs(offset) > FURTHEST_OFFSET:
            raise InputError(f"offset {offset} must lie within ±{FURTHEST_OFFSET}")
        return Field(_column(found[1]), 0), (found[2], offset)
    called = CALL.fullmatch(text)
    if called is None:
        return Field("", 0), None
    source, where = _with_place(called[2].strip())
    return _applied(source, called[1], called[3]), where


def _source(text: str) -> Field:
    """Column and functions of a field without a place."""
    if re.fullmatch(r"\w+", text):
        return Field(_column(text), 0)
    called = CALL.fullmatch(text)
    if called is None:
        raise InputError(
            f"cannot read {text!r:.60}; within all and any stands a column, as in all(lower(word))"
        )
    return _applied(_source(called[2].strip()), called[1], called[3])


def _column(text: str) -> str | int:
    return integer(text) if text.isdecimal() else text


def _applied(source: Field, name: str, number: str | None) -> Field:
    check_call(name, number is not None, f"{source.column}[first]")
    argument = integer(number.strip()) if number else 0
    if takes_number(name) and not 1 <= argument <= FURTHEST_OFFSET:
        raise InputError(f"length {argument} of {name} must lie between 1 and {FURTHEST_OFFSET}")
    return replace(source, functions=(*source.functions, (name, argument)))


def bind(
    templates: tuple[SegmentTemplate, ...], n_columns: int, column_names: tuple[str, ...] = ()
) -> tuple[SegmentTemplate, ...]:
    """Replace names of columns by numbers; drop optional templates whose column is missing."""
    names = list(column_names or ("word", "pos"))[:n_columns]
    names += [f"col{k}" for k in range(len(names), n_columns)]
    numbers: dict[str | int, int] = {f"col{k}": k for k in range(n_columns)}
    numbers |= {k: k for k in range(n_columns)} | {name: k for k, name in enumerate(names)}
    bound = []
    for template in templates:
        sources = [field.source for field in template.fields if field.place != "length"]
        missing = [source.column for source in sources if source.column not in numbers]
        if not missing:
            fields = (
                field if field.place == "length"
                else replace(field, source=replace(field.source, column=numbers[field.source.column]))
                for field in template.fields
            )  # fmt: skip
            bound.append(replace(template, fields=tuple(fields)))
        elif not template.optional:
            raise InputError(
                f"column {missing[0]!r} is not in the data, whose columns are {', '.join(names) or 'none'}",
                "segment template",
                template.line,
            )
    return tuple(bound)
