"""Templates of rows that look at several words of a sentence: arcs, siblings, grandparents, spans, splits and words.

A template is fields joined by " + ". Its features are the values that these fields have together:

    head.form + modifier.tag + direction          the head's form, the modifier's tag, the direction of the arc
    head+1.tag + modifier-1.tag                   the tags after the head and before the modifier
    first.tag + suffix(last.form, 2) + length     of a span: tag of its first word, ending of its last, its length
    head.tag + between.tag + modifier.tag         one feature for every distinct tag between head and modifier
    modifier.feat + distance                      one feature for every morphological feature of the modifier

A *field* is a value of the word that stands some positions after a *place*. Functions of `partwise.features.functions`
may be applied to it: ``shape(head.form)``, ``suffix(lower(last+1.form), 3)``. A *relation* is a value of the places
together, such as the direction of an arc. A `Language` lists the places, values and relations of one kind of row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from partwise.errors import InputError
from partwise.features.functions import CALL, check_call, takes_number, written_call
from partwise.features.place_keys import Program

# Keys are sums of two absent parts at worst, which must not overflow 64 bits.
KEY_LIMIT = 2**62
# More templates than this are a mistake; every one costs time for every row.
MOST_TEMPLATES = 1000
RELATION = "row"  # the place of relations


@dataclass(frozen=True)
class Language:
    """What templates of one kind of row may say.

    Attributes
    ----------
    name : str
        Of the rows, for messages.
    parameter : str
        The parameter that templates are passed by, for messages.
    places : tuple of str
    values : tuple of str
        Of a word.
    has_affixes : bool
        Whether words also have ``prefixN`` and ``suffixN``: the ends of words longer than N.
    relations : dict of str to tuple of str
        Names of the values of each relation; empty if values are learnt from data.
    presets : dict of str to list of str
    examples : str
        Fields, for messages.
    reserved : tuple of str
        Names of the values of places that hold no word: outside the sentence, and perhaps the root.
    reserved_values : tuple of str
        Values of words that such places have, too.
    n_places : int
        How many places compiled code reads for these rows; those beyond `places` have no fields.
    has_several : bool
        Whether fields may have several values: ``between.tag``, ``head.feat``.
    """

    name: str
    parameter: str
    places: tuple[str, ...]
    values: tuple[str, ...]
    has_affixes: bool
    relations: Mapping[str, tuple[str, ...]]
    presets: Mapping[str, Sequence[str]]
    examples: str
    reserved: tuple[str, ...]
    reserved_values: tuple[str, ...]
    n_places: int
    has_several: bool = False

    @property
    def field(self) -> re.Pattern[str]:
        """A place, an offset and a value of a word."""
        values = [*sorted(self.values, key=len, reverse=True), *["(?:prefix|suffix)[1-9]"] * self.has_affixes]
        places = (
            rf"(?:({'|'.join(self.places)})([+-][1-9])?{'|(between)' if self.has_several else '|(?!)()'})"
        )
        return re.compile(rf"{places}\.({'|'.join(values)})")


class Field(NamedTuple):
    """One field of a template: a value of the word `offset` positions after `place`, or a relation.

    Attributes
    ----------
    source : str
        The value without its place, as ``form`` or ``suffix(lemma,3)``; or the relation's name.
    """

    place: str
    offset: int
    source: str

    def __str__(self) -> str:
        if self.place == RELATION:
            return self.source
        functions, value = functions_of(self.source)
        return written_call(functions, f"{self.place}{f'{self.offset:+}' if self.offset else ''}.{value}")


def functions_of(source: str) -> tuple[tuple[tuple[str, int], ...], str]:
    """The functions of a source, innermost first, and the value of a word that they apply to."""
    functions: list[tuple[str, int]] = []
    while called := CALL.fullmatch(source):
        functions.insert(0, (called[1], int(called[3] or 0)))
        source = called[2].strip()
    return tuple(functions), source


def parse_template(text: str, language: Language) -> list[Field]:
    """Read one template.

    Returns
    -------
    list of Field
    """
    fields: list[Field] = []
    where = f"{language.name} template {text!r:.80}"
    for word in re.split(r"\s+\+\s+", text.strip()):
        field = _parse_field(word, language, where)
        is_between = field.place == "between"
        if field in fields or (is_between and any(each.place == "between" for each in fields)):
            raise InputError(f"{where}: {word} is there twice")
        fields.append(field)
    return fields


def _parse_field(word: str, language: Language, where: str) -> Field:
    if word in language.relations:
        return Field(RELATION, 0, word)
    functions: list[tuple[str, int]] = []
    inner = word
    while called := CALL.fullmatch(inner):
        name, inner, number = called[1], called[2].strip(), called[3]
        try:
            check_call(name, number is not None, inner)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        if takes_number(name) and not (number.strip().isdecimal() and 1 <= int(number) <= 9):
            raise InputError(f"{where}: the number of {name} must be from 1 to 9")
        functions.insert(0, (name, int(number or 0)))
    match = language.field.fullmatch(inner)
    if match is None:
        raise InputError(f"{where}: {word!r:.40} is no field; fields look like {language.examples}")
    place, offset, value = match[1] or match[3], int(match[2] or 0), match[4]
    if value == "feat" and place == "between":
        raise InputError(f"{where}: between.feat is not possible; use between.feats")
    if value == "feat" and offset:
        raise InputError(f"{where}: feat belongs to head and modifier themselves")
    if value == "feat" and functions:
        raise InputError(f"{where}: functions of feat are not possible; use feats")
    return Field(place, offset, written_call(tuple(functions), value))


def checked_templates(templates: str | Sequence[str], language: Language) -> list[str]:
    """The templates of a named set, or those passed, checked."""
    example = next(iter(language.presets.values()))[0]
    if isinstance(templates, str):
        if templates not in language.presets:
            raise InputError(
                f"{language.parameter}={templates!r:.60} is not one of {', '.join(language.presets)}, nor a list of "
                "templates"
            )
        return list(language.presets[templates])
    texts = list(templates) if isinstance(templates, Iterable) else []
    is_set = isinstance(templates, (set, frozenset))
    if is_set or not texts or not all(isinstance(text, str) for text in texts):
        raise InputError(f"{language.parameter} must be a list of strings such as {example!r}")
    if len(texts) > MOST_TEMPLATES:
        raise InputError(f"{len(texts)} {language.name} templates are more than {MOST_TEMPLATES}")
    seen: set[frozenset[Field]] = set()
    for text in texts:
        fields = frozenset(parse_template(text, language))
        if fields in seen:
            raise InputError(f"{language.name} template {text!r:.80} is there twice")
        seen.add(fields)
    return texts


class Compiled(NamedTuple):
    """Templates in the order of the program.

    Attributes
    ----------
    program : Program
    texts : list of str
    fields : list of list of Field
    strides : list of list of int
        The worth of each field's digit in a key.
    size : int
        Keys are below it.
    """

    program: Program
    texts: list[str]
    fields: list[list[Field]]
    strides: list[list[int]]
    size: int


def compile_templates(
    texts: Sequence[str], language: Language, sources: Sequence[str], sizes: Sequence[int]
) -> Compiled:
    """Translate templates into the program that compiled code runs.

    Parameters
    ----------
    texts : sequence of str
    language : Language
    sources : sequence of str
        The values of words, and learnt relations, that the data have; templates must use no others.
    sizes : sequence of int
        The number of codes of each source.
    """
    size_of = dict(zip(sources, sizes, strict=True))
    size_of |= {name: len(values) for name, values in language.relations.items() if values}
    parsed = [(text, parse_template(text, language)) for text in texts]
    parsed.sort(key=lambda each: _has_several_values(each[1]))  # those of one value a field come first
    templates = [fields for _, fields in parsed]
    bases, strides, size = [], [], 0
    for fields in templates:
        *worth, total = accumulate((size_of[field.source] for field in fields), int.__mul__, initial=1)
        bases.append(size)
        strides.append(worth)
        size += total
        if size > KEY_LIMIT:
            shown = " + ".join(map(str, fields))
            raise InputError(
                f"{language.name} templates have too many combinations of values (up to {shown}); use fewer fields"
            )
    program = _program(language, templates, strides, bases, sources)
    return Compiled(program, [text for text, _ in parsed], templates, strides, size)


def _program(
    language: Language,
    templates: list[list[Field]],
    strides: list[list[int]],
    bases: list[int],
    sources: Sequence[str],
) -> Program:
    row = {name: k for k, name in enumerate(sources)}

    def stride_of(place: str, source: str = "") -> np.ndarray:
        """The stride of such a field in every template, int64 (n_templates,); 0 if a template has none."""
        found = [
            sum(
                s for f, s in zip(fields, worth, strict=True) if f.place == place and source in ("", f.source)
            )
            for fields, worth in zip(templates, strides, strict=True)
        ]
        return np.array(found, np.int64)

    pieces: list[tuple[int, int, int]] = []
    piece_ptr = np.zeros((language.n_places, len(templates) + 1), np.int64)
    for side in range(language.n_places):
        place = language.places[side] if side < len(language.places) else None
        piece_ptr[side, 0] = len(pieces)
        for t, (fields, worth) in enumerate(zip(templates, strides, strict=True)):
            for field, stride in zip(fields, worth, strict=True):
                if field.place == place and field.source != "feat":
                    pieces.append((row[field.source], field.offset, stride))
            piece_ptr[side, t + 1] = len(pieces)
    columns = np.array(pieces, np.int64).reshape(-1, 3)
    relations = language.relations.items()
    named = [(len(values), stride_of(RELATION, name)) for name, values in relations if values]
    learnt = [stride_of(RELATION, name) for name, values in relations if not values]
    features = [stride_of(place, "feat") for place in (*language.places, "")[:2]]
    between = [next((row[f.source] for f in fields if f.place == "between"), 0) for fields in templates]
    is_reserved = np.array([source in language.reserved_values for source in sources], bool)
    return Program(
        n_simple=sum(not _has_several_values(fields) for fields in templates),
        base=np.array(bases, np.int64),
        piece_ptr=piece_ptr,
        piece_source=np.ascontiguousarray(columns[:, 0]),
        piece_offset=np.ascontiguousarray(columns[:, 1]),
        piece_stride=np.ascontiguousarray(columns[:, 2]),
        relation_part=_relation_part(named, len(templates)),
        learnt_stride=sum(learnt, np.zeros(len(templates), np.int64)),
        feature_stride=np.stack(features),
        between_stride=stride_of("between"),
        between_source=np.array(between, np.int64),
        root_code=np.where(is_reserved, len(language.reserved) - 1, -1),
        outside_code=np.where(is_reserved, 0, -1),
    )


def _relation_part(relations: Sequence[tuple[int, np.ndarray]], n_templates: int) -> np.ndarray:
    """What relations add to keys, int64 (n_numbers, n_templates): their values are the digits of a number."""
    part = np.zeros((1, n_templates), np.int64)
    for size, stride in relations:
        part = (part[:, None, :] + np.arange(size)[:, None] * stride).reshape(-1, n_templates)
    return part


def _has_several_values(fields: list[Field]) -> bool:
    return any(field.place == "between" or field.source == "feat" for field in fields)
