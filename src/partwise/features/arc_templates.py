"""Templates of arc features: a small language, sets written in it, and their translation into numbers.

A template is fields joined by " + ", and its features are the values these fields have together:

    head.form + modifier.tag + direction          the head's form, the modifier's tag, which way the arc goes
    head+1.tag + modifier-1.tag                   the tags after the head and before the modifier
    head.tag + between.tag + modifier.tag         one feature for every distinct tag between the two
    modifier.feat + distance                      one for every morphological feature; distance in 7 bins

Templates of siblings and grandparents (`triple_templates.py`) have a third word, `sibling` or `grandparent`.

Fields of a word are form, lower, lemma, tag, coarse, feats (all morphological features as one value), feat (each one),
prefixN and suffixN (of words longer than N).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from partwise.errors import InputError
from partwise.features.arc_keys import N_DISTANCES, ArcProgram

KEY_LIMIT = 2**62
MOST_TEMPLATES = 1000
DISTANCES = ("1", "2", "3", "4", "5", "6-10", "11+")
DIRECTIONS = ("right", "left")
_THIRD = ("sibling", "grandparent")
N_RESERVED = 2  # codes of a source: outside the sentence, the root, then the strings
_PIECE = re.compile(
    r"(?:(head|modifier|sibling|grandparent)([+-][1-9])?|(between))\.(form|lower|lemma|tag|coarse|feats|feat|(?:prefix|suffix)[1-9])"
)


class Piece(NamedTuple):
    """One field of a template: of the word `offset` places after `where`, or "direction" or "distance" of the arc."""

    where: str
    offset: int
    source: str

    def __str__(self) -> str:
        if self.where == "arc":
            return self.source
        return f"{self.where}{f'{self.offset:+}' if self.offset else ''}.{self.source}"


def parse_arc_template(text: str) -> list[Piece]:
    """Read one template, of two words or three.

    Returns
    -------
    list of Piece
    """
    pieces: list[Piece] = []
    for word in re.split(r"\s+\+\s+", text.strip()):
        match = _PIECE.fullmatch(word)
        if word in ("direction", "distance"):
            piece = Piece("arc", 0, word)
        elif match is None:
            example = "head.form, modifier-1.tag, between.tag, direction"
            raise InputError(
                f"arc template {text!r:.80}: {word!r:.40} is no field; fields look like {example}"
            )
        else:
            piece = Piece(match[1] or match[3], int(match[2] or 0), match[4])
            if piece.where == "between" and piece.source == "feat":
                raise InputError(
                    f"arc template {text!r:.80}: between.feat is not possible; use between.feats"
                )
            if piece.offset and piece.source == "feat":
                raise InputError(f"arc template {text!r:.80}: feat belongs to head and modifier themselves")
        if piece in pieces or (piece.where == "between" and any(each.where == "between" for each in pieces)):
            raise InputError(f"arc template {text!r:.80}: {word} is there twice")
        pieces.append(piece)
    return pieces


def with_and_without_distance(*templates: str) -> list[str]:
    """Every template as it is, and together with direction and distance."""
    return [each for text in templates for each in (text, f"{text} + direction + distance")]


def with_distance(*templates: str) -> list[str]:
    """Every template together with direction and distance."""
    return [f"{text} + direction + distance" for text in templates]


# First-order features after McDonald, Crammer and Pereira (2005). What depends on the modifier alone is the same for
# every head and cannot tell them apart, so it comes with direction and distance only.
_MCDONALD = [
    *with_and_without_distance(
        "head.form + head.tag",
        "head.form",
        "head.tag",
        "head.prefix5 + head.tag",
        "head.lemma",
    ),
    *with_distance(
        "modifier.form + modifier.tag",
        "modifier.form",
        "modifier.tag",
        "modifier.prefix5 + modifier.tag",
        "modifier.lemma",
        "head.coarse",
        "modifier.coarse",
    ),
    *with_and_without_distance(
        "head.form + head.tag + modifier.form + modifier.tag",
        "head.tag + modifier.form + modifier.tag",
        "head.form + modifier.form + modifier.tag",
        "head.form + head.tag + modifier.form",
        "head.form + head.tag + modifier.tag",
        "head.form + modifier.form",
        "head.tag + modifier.tag",
        "head.prefix5 + head.tag + modifier.prefix5 + modifier.tag",
        "head.tag + modifier.prefix5 + modifier.tag",
        "head.prefix5 + head.tag + modifier.tag",
        "head.lemma + head.coarse + modifier.lemma + modifier.coarse",
        "head.coarse + modifier.lemma + modifier.coarse",
        "head.lemma + head.coarse + modifier.coarse",
        "head.coarse + modifier.coarse",
    ),
    *with_and_without_distance(
        "head.tag + head+1.tag + modifier-1.tag + modifier.tag",
        "head-1.tag + head.tag + modifier-1.tag + modifier.tag",
        "head.tag + head+1.tag + modifier.tag + modifier+1.tag",
        "head-1.tag + head.tag + modifier.tag + modifier+1.tag",
        "head.tag + modifier-1.tag + modifier.tag",
        "head.tag + head+1.tag + modifier.tag",
        "head-1.tag + head.tag + modifier.tag",
        "head.tag + modifier.tag + modifier+1.tag",
        "head.coarse + head+1.coarse + modifier-1.coarse + modifier.coarse",
        "head-1.coarse + head.coarse + modifier.coarse + modifier+1.coarse",
    ),
    *with_and_without_distance(
        "head.tag + between.tag + modifier.tag", "head.coarse + between.coarse + modifier.coarse"
    ),
    *with_distance("head.feat + modifier.feat"),
    "head.tag + modifier.tag + head.feat + modifier.feat + direction",
    "head.tag + modifier.tag + head.feats + modifier.feats + direction",
    "head.feats + modifier.feats + direction",
]
_TAGS_ONLY = [
    *with_distance("head.tag", "modifier.tag"),
    *with_and_without_distance("head.tag + modifier.tag"),
    "head.tag + between.tag + modifier.tag + direction",
    "head.tag + head+1.tag + modifier-1.tag + modifier.tag + direction",
    "head-1.tag + head.tag + modifier.tag + modifier+1.tag + direction",
]
_LABELS = [
    f"{text} + direction"
    for text in (
        "head.tag", "modifier.tag", "head.coarse", "modifier.coarse", "head.form", "modifier.form", "head.lemma",
        "modifier.lemma", "modifier.suffix3", "modifier.prefix3", "head.tag + modifier.tag",
        "head.coarse + modifier.coarse", "head.tag + modifier.form", "head.form + modifier.tag",
        "head.coarse + modifier.lemma", "head.lemma + modifier.coarse", "head.lemma + modifier.lemma",
        "head.form + modifier.form", "head.tag + modifier.tag + distance", "head.coarse + modifier.coarse + distance",
        "modifier-1.tag + modifier.tag + modifier+1.tag", "head.tag + modifier-1.tag + modifier.tag",
        "head.tag + modifier.tag + modifier+1.tag", "head.tag + head+1.tag + modifier.tag",
        "head-1.tag + head.tag + modifier.tag", "modifier-1.form + modifier.tag", "modifier+1.form + modifier.tag",
        "head.coarse + between.coarse + modifier.coarse", "modifier.feat", "head.coarse + modifier.feat",
        "head.feats + modifier.feats",
    )
]  # fmt: skip
PRESETS: Mapping[str, Sequence[str]] = {"mcdonald": _MCDONALD, "pos": _TAGS_ONLY, "labels": _LABELS}


def arc_templates(
    templates: str | Sequence[str],
    presets: Mapping[str, Sequence[str]] = PRESETS,
    third: str | None = None,
) -> list[str]:
    """The templates of a named set, or those given, checked; `third` names the third word they may be about."""
    if isinstance(templates, str):
        if templates not in presets:
            raise InputError(
                f"templates={templates!r:.60} is not one of {', '.join(presets)}, nor a list of templates"
            )
        return list(presets[templates])
    texts = list(templates) if isinstance(templates, Iterable) else []
    if (
        isinstance(templates, (set, frozenset))
        or not texts
        or not all(isinstance(text, str) for text in texts)
    ):
        raise InputError("templates must be a list of strings such as 'head.tag + modifier.tag'")
    if len(texts) > MOST_TEMPLATES:
        raise InputError(f"{len(texts)} arc templates are more than {MOST_TEMPLATES}")
    seen: set[frozenset[Piece]] = set()
    for text in texts:
        pieces = frozenset(parse_arc_template(text))
        for piece in pieces:
            several = piece.where == "between" or piece.source == "feat"
            if (piece.where in _THIRD and piece.where != third) or (several and third is not None):
                raise InputError(f"arc template {text!r:.80}: {piece} is no field of these templates")
        if pieces in seen:
            raise InputError(f"arc template {text!r:.80} is there twice")
        seen.add(pieces)
    return texts


class Compiled(NamedTuple):
    """Templates in the order of the program, their pieces and the worth of each piece's digit."""

    program: ArcProgram
    pieces: list[list[Piece]]
    strides: list[list[int]]
    size: int


def compile_templates(
    texts: Sequence[str], sources: Sequence[str], sizes: Sequence[int], third: str | None = None
) -> Compiled:
    """Translate templates into the program that compiled code runs.

    Parameters
    ----------
    texts : sequence of str
    sources : sequence of str
        The fields of words that have values; templates must use no others.
    sizes : sequence of int
        The number of codes of each source.
    third : {"sibling", "grandparent"} or None
        The third word, where templates are about three; there are four directions then.

    Returns
    -------
    Compiled
    """
    row, size_of = {name: k for k, name in enumerate(sources)}, dict(zip(sources, sizes, strict=True))
    n_directions = 2 if third is None else 4
    size_of |= {"direction": n_directions, "distance": N_DISTANCES}
    parsed = sorted(map(parse_arc_template, texts), key=_has_several_values)
    bases, strides, size = [], [], 0
    for pieces in parsed:
        *worth, total = accumulate((size_of[piece.source] for piece in pieces), int.__mul__, initial=1)
        bases.append(size)
        strides.append(worth)
        size += total
        if size > KEY_LIMIT:
            shown = " + ".join(map(str, pieces))
            raise InputError(
                f"arc templates have too many combinations of values (up to {shown}); use fewer fields"
            )
    flat: list[tuple[int, int, int]] = []
    sides = ["head", "modifier"] if third is None else ["head", "modifier", third]
    piece_ptr = np.zeros((len(sides), len(parsed) + 1), np.int64)
    for side, where in enumerate(sides):
        piece_ptr[side, 0] = len(flat)
        for t, pieces in enumerate(parsed):
            for piece, stride in zip(pieces, strides[t], strict=True):
                if piece.where == where and piece.source != "feat":
                    flat.append((row[piece.source], piece.offset, stride))
            piece_ptr[side, t + 1] = len(flat)
    columns = np.array(flat, np.int64).reshape(-1, 3)
    has_root = np.array([_has_value_at_root(name) for name in sources], bool)

    def stride_of(where: str, source: str = "") -> np.ndarray:
        return _strides_where(parsed, strides, lambda p: p.where == where and source in ("", p.source))

    between = [next((row[p.source] for p in pieces if p.where == "between"), 0) for pieces in parsed]
    program = ArcProgram(
        n_simple=sum(not _has_several_values(pieces) for pieces in parsed),
        base=np.array(bases, np.int64),
        piece_ptr=piece_ptr,
        piece_source=np.ascontiguousarray(columns[:, 0]),
        piece_offset=np.ascontiguousarray(columns[:, 1]),
        piece_stride=np.ascontiguousarray(columns[:, 2]),
        distance_part=_distance_part(
            n_directions, stride_of("arc", "direction"), stride_of("arc", "distance")
        ),
        feature_stride=np.stack([stride_of("head", "feat"), stride_of("modifier", "feat")]),
        between_stride=stride_of("between"),
        between_source=np.array(between, np.int64),
        root_code=np.where(has_root, 1, -1),
        outside_code=np.where(has_root, 0, -1),
    )
    return Compiled(program, parsed, strides, size)


def _has_several_values(pieces: list[Piece]) -> bool:
    return any(piece.where == "between" or piece.source == "feat" for piece in pieces)


def _has_value_at_root(source: str) -> bool:
    """Parts of words and their features are no values of a root or a border."""
    return source in ("form", "lower", "lemma", "tag", "coarse")


def _strides_where(
    parsed: list[list[Piece]], strides: list[list[int]], chosen: Callable[[Piece], bool]
) -> np.ndarray:
    found = [
        sum(stride for piece, stride in zip(pieces, worth, strict=True) if chosen(piece))
        for pieces, worth in zip(parsed, strides, strict=True)
    ]
    return np.array(found, np.int64)


def _distance_part(n_directions: int, direction: np.ndarray, distance: np.ndarray) -> np.ndarray:
    numbers = np.arange(n_directions * N_DISTANCES)[:, None]
    return numbers // N_DISTANCES * direction + numbers % N_DISTANCES * distance
