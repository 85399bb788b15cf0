"""The fields that arc templates use, word by word: from columns of a corpus to distinct values and codes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from partwise.features.arc_templates import parse_arc_template

if TYPE_CHECKING:
    from partwise.data.dependency import DependencyCorpus

MOST_FEATS = 30  # morphological features of one word that are looked at
_NO_VALUE = "_"


def sources(texts: Iterable[str]) -> dict[str, None]:
    """The fields of words that templates use, in the order of their first use."""
    pieces = (piece for text in texts for piece in parse_arc_template(text))
    return dict.fromkeys(piece.source for piece in pieces if piece.where != "arc")


def has_fine_tags(corpus: DependencyCorpus) -> bool:
    return corpus.fine_tags.count(_NO_VALUE) < len(corpus.fine_tags)


def column(corpus: DependencyCorpus, source: str, fine_tags: bool) -> list[str]:
    """The column that a field is made from; without fine tags, the coarse ones are the tags."""
    if source in ("tag", "coarse"):
        if source == "coarse" and not fine_tags:
            return [_NO_VALUE] * corpus.n_words
        return corpus.fine_tags if source == "tag" and fine_tags else corpus.coarse_tags
    columns = {"lemma": corpus.lemmas, "feats": corpus.feats, "feat": corpus.feats}
    return columns.get(source, corpus.forms)


def value(string: str, source: str) -> str | None:
    """What a field is for a word with this string in its column; None where it has no value."""
    if source in ("lemma", "tag", "coarse", "feats"):
        return None if string == _NO_VALUE else string
    if source == "lower":
        return string.lower()
    if source.startswith(("prefix", "suffix")):
        length = int(source[6:])
        if len(string) <= length:
            return None
        return string[:length] if source.startswith("prefix") else string[-length:]
    return string


def feats(string: str) -> list[str]:
    """The morphological features in ``Case=Nom|Number=Sing``, none twice."""
    return [] if string == _NO_VALUE else list(dict.fromkeys(string.split("|")))[:MOST_FEATS]


def distinct(strings: Iterable[str], source: str) -> list[str]:
    """The distinct values that a field has for the strings of its column."""
    if source == "feat":
        return list(dict.fromkeys(each for string in strings for each in feats(string)))
    values = dict.fromkeys(value(string, source) for string in strings)
    return [each for each in values if each is not None]


def interned(column: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """The distinct strings of a column, and for every word which of them it has."""
    index: defaultdict[str, int] = defaultdict(count().__next__)
    places = np.fromiter(map(index.__getitem__, column), dtype=np.int64, count=len(column))
    return list(index), places
