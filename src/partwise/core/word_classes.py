"""Classes of words that were not seen in training, by their case, digits, hyphens and ending."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"[-+]?[\d.,:/\\]*\d[\d.,:/\\]*")
_LONGEST_ENDING = 3
_SHORTEST_STEM = 3


def word_class(word: str, is_first: bool = False) -> str:
    """The class of a word, such as ``capital``, ``number``, ``lower-ing``.

    Parameters
    ----------
    is_first : bool
        Whether the word is the first of its sentence, which starts with a capital anyway.
    """
    if _NUMBER.fullmatch(word):
        return "number"
    pieces = [_case(word, is_first)]
    if any(character.isdigit() for character in word):
        pieces.append("digit")
    if "-" in word:
        pieces.append("hyphen")
    ending = (
        word[-min(_LONGEST_ENDING, len(word) - _SHORTEST_STEM) :].lower()
        if len(word) > _SHORTEST_STEM
        else ""
    )
    if ending.isalpha():
        pieces.append(ending)
    return "-".join(pieces)


def coarse_class(fine: str) -> str:
    """The class without its ending, for classes that were not seen in training."""
    return fine.partition("-")[0]


def _case(word: str, is_first: bool) -> str:
    if word.isupper():
        return "capitals" if len(word) > 1 else "letter"
    if word[:1].isupper():
        return "first" if is_first else "capital"
    return "lower" if word.islower() else "other"
