"""Templates of features of words, spans and splits: a small language, sets written in it, and their translation.

A template is fields joined by " + ", and its features are the values these fields have together:

    first.tag + last.tag                the tags of a span's first and last word
    first-1.form + last+1.form          the words around a span
    split.tag + split+1.tag             the tags on both sides of the place where a span is cut in two
    word.suffix3                        the last three letters, in templates for words
    length, shape                       words of the span in 8 bins; what its words look like ("Xx,x"), up to 8 of them

Fields of a word are form, lower, tag, class (case, digits, ending; see `partwise.core.word_classes`), prefixN and
suffixN (of words longer than N). Labels and rules need no field: every feature has a weight for each of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from partwise.errors import InputError
from partwise.features.span_keys import N_LENGTHS, SpanProgram

KEY_LIMIT = 2**60
MOST_TEMPLATES = 1000
LENGTHS = ("1", "2", "3", "4", "5", "6-10", "11-20", "21+")
N_RESERVED = 1  # codes of a source: outside the sentence, then the strings
PLACES = ("first", "last", "split")
_PIECE = re.compile(r"(first|last|split|word)([+-][1-9])?\.(form|lower|tag|class|(?:prefix|suffix)[1-9])")


class SpanPiece(NamedTuple):
    """One field of a template: of the word `offset` places after `where`, or "length" or "shape" of the span."""

    where: str
    offset: int
    source: str

    def __str__(self) -> str:
        if self.where == "span":
            return self.source
        return f"{self.where}{f'{self.offset:+}' if self.offset else ''}.{self.source}"


def parse_span_template(text: str, what: str = "span") -> list[SpanPiece]:
    """Read one template.

    Parameters
    ----------
    what : {"word", "span", "split"}
        What the template is for: words have no other places than "word", and only splits have "split".
    """
    pieces: list[SpanPiece] = []
    for word in re.split(r"\s+\+\s+", text.strip()):
        match = _PIECE.fullmatch(word)
        if word in ("length", "shape") and what != "word":
            piece = SpanPiece("span", 0, word)
        elif (
            match is None
            or (match[1] == "word") != (what == "word")
            or (match[1] == "split" and what == "span")
        ):
            examples = {
                "word": "word.form, word-1.tag, word.suffix3",
                "span": "first.tag, last+1.form, length, shape",
                "split": "first.tag, split.form, split+1.tag, length",
            }
            raise InputError(
                f"{what} template {text!r:.80}: {word!r:.40} is no field; fields look like {examples[what]}"
            )
        else:
            piece = SpanPiece(match[1], int(match[2] or 0), match[3])
        if piece in pieces:
            raise InputError(f"{what} template {text!r:.80}: {word} is there twice")
        pieces.append(piece)
    return pieces


_WORDS = [
    "word.form", "word.lower", "word.class", "word.tag", "word.suffix1", "word.suffix2", "word.suffix3",
    "word.prefix1", "word.prefix2", "word-1.form", "word+1.form", "word-1.tag + word.tag", "word.tag + word+1.tag",
    "word-1.tag + word.tag + word+1.tag", "word.tag + word.form", "word-1.class", "word+1.class",
    "word-1.form + word.form", "word.form + word+1.form",
]  # fmt: skip
# After Hall, Durrett and Klein (2014), "Less grammar, more features".
_SPANS = [
    "length", "shape", "first.form", "last.form", "first-1.form", "last+1.form", "first.tag", "last.tag",
    "first-1.tag", "last+1.tag", "first.form + length", "last.form + length", "first.tag + length", "last.tag + length",
    "first.tag + last.tag", "first.tag + last.form", "first.form + last.tag", "first.form + last.form",
    "first-1.tag + first.tag", "last.tag + last+1.tag", "first-1.tag + last+1.tag",
    "first-1.tag + first.tag + last.tag + last+1.tag", "first.tag + first+1.tag", "last-1.tag + last.tag",
    "first-1.form + first.tag", "last.tag + last+1.form", "first.class", "last.class", "first-1.class", "last+1.class",
    "first.lower + length",
]  # fmt: skip
_SPLITS = [
    "split.form + split+1.form", "split.tag + split+1.tag", "first.tag + split+1.tag", "split.tag + last.tag",
    "split+1.form", "split.form", "first.tag + split.tag + split+1.tag + last.tag", "split.class + split+1.class",
]  # fmt: skip
PRESETS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "word": {"default": _WORDS},
    "span": {"default": _SPANS},
    "split": {"default": _SPLITS},
}


def span_templates(templates: str | Sequence[str], what: str) -> list[str]:
    """The templates of a named set, or those given, checked."""
    if isinstance(templates, str):
        if templates not in PRESETS[what]:
            raise InputError(
                f"{what}_templates={templates!r:.60} is not {', '.join(PRESETS[what])}, nor a list of templates"
            )
        return list(PRESETS[what][templates])
    texts = list(templates) if isinstance(templates, Iterable) else []
    if (
        isinstance(templates, (set, frozenset))
        or not texts
        or not all(isinstance(text, str) for text in texts)
    ):
        raise InputError(
            f"{what}_templates must be a list of strings such as '{PRESETS[what]['default'][0]}'"
        )
    if len(texts) > MOST_TEMPLATES:
        raise InputError(f"{len(texts)} {what} templates are more than {MOST_TEMPLATES}")
    seen: set[frozenset[SpanPiece]] = set()
    for text in texts:
        pieces = frozenset(parse_span_template(text, what))
        if pieces in seen:
            raise InputError(f"{what} template {text!r:.80} is there twice")
        seen.add(pieces)
    return texts


class CompiledSpans(NamedTuple):
    """Templates in the order of the program, their pieces and the worth of each piece's digit."""

    program: SpanProgram
    pieces: list[list[SpanPiece]]
    strides: list[list[int]]
    size: int


def compile_span_templates(
    parsed: list[list[SpanPiece]], sources: Sequence[str], sizes: Sequence[int]
) -> CompiledSpans:
    """Translate templates into the program that compiled code runs.

    Parameters
    ----------
    parsed : list of list of SpanPiece
    sources : sequence of str
        The fields that have values, "shape" among them where it is used; templates must use no others.
    sizes : sequence of int
        The number of codes of each source.
    """
    row = {name: k for k, name in enumerate(sources)}
    size_of = dict(zip(sources, sizes, strict=True)) | {"length": N_LENGTHS}
    bases, strides, size = [], [], 0
    for pieces in parsed:
        *worth, total = accumulate((size_of[piece.source] for piece in pieces), int.__mul__, initial=1)
        bases.append(size)
        strides.append(worth)
        size += total
        if size > KEY_LIMIT:
            shown = " + ".join(map(str, pieces))
            raise InputError(
                f"templates have too many combinations of values (up to {shown}); use fewer fields"
            )
    flat: list[tuple[int, int, int]] = []
    piece_ptr = np.zeros((len(PLACES), len(parsed) + 1), np.int64)
    for side, where in enumerate(PLACES):
        piece_ptr[side, 0] = len(flat)
        for t, pieces in enumerate(parsed):
            for piece, stride in zip(pieces, strides[t], strict=True):
                if ("first" if piece.where == "word" else piece.where) == where:
                    flat.append((row[piece.source], piece.offset, stride))
            piece_ptr[side, t + 1] = len(flat)
    columns = np.array(flat, np.int64).reshape(-1, 3)

    def stride_of(source: str) -> np.ndarray:
        found = [
            sum(stride for piece, stride in zip(pieces, worth, strict=True) if piece == ("span", 0, source))
            for pieces, worth in zip(parsed, strides, strict=True)
        ]
        return np.array(found, np.int64)

    program = SpanProgram(
        base=np.array(bases, np.int64),
        piece_ptr=piece_ptr,
        piece_source=np.ascontiguousarray(columns[:, 0]),
        piece_offset=np.ascontiguousarray(columns[:, 1]),
        piece_stride=np.ascontiguousarray(columns[:, 2]),
        length_stride=stride_of("length"),
        shape_stride=stride_of("shape"),
        outside_code=np.array(
            [0 if name in ("form", "lower", "tag", "class") else -1 for name in sources], np.int64
        ),
    )
    return CompiledSpans(program, parsed, strides, size)
