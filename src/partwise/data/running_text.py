"""Running text as tokens, split as the tokens of the training data were, with the place of each in the text."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

# Punctuation that is split off if the training data have too little of it to tell.
USUAL = '.,;:!?()[]"“”„«»…'
# Words that keep their full stop unless the training data have them without it.
ABBREVIATIONS = frozenset(
    [
        "Mr.",
        "Mrs.",
        "Ms.",
        "Dr.",
        "Prof.",
        "St.",
        "Inc.",
        "Co.",
        "Corp.",
        "Ltd.",
        "No.",
        "e.g.",
        "i.e.",
        "etc.",
        "vs.",
    ]
)
_FEWEST = 5  # tokens with a character at an edge: fewer do not tell whether it is split off
_MOST_KEPT = 2000  # words that a model file names
_ENDS = (".", "!", "?", "…", "...")
_CLOSING = frozenset("\"”»')]")
_WORD = re.compile(r"\S+")


class Token(NamedTuple):
    """A token, and where it is in the text: ``text[start:end]``."""

    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Splitter:
    """Splits running text into tokens.

    Attributes
    ----------
    edges : str
        Characters that are tokens of their own at the beginning and at the end of a word.
    inside : str
        Characters that are tokens of their own within a word, too.
    kept : frozenset of str
        Words that are not split, such as abbreviations with their full stop.
    """

    edges: str = USUAL
    inside: str = ""
    kept: frozenset[str] = ABBREVIATIONS

    @classmethod
    def learned(cls, tokens: Iterable[str]) -> Splitter:
        """As these tokens are split: a character is split off if it is more often alone than at the edge of a token.

        Words that keep such a character more than once, mostly abbreviations, are kept whole.
        """
        alone, at_edge, within = Counter[str](), Counter[str](), Counter[str]()
        words = Counter(tokens)
        for token, count in words.items():
            if not any(map(_is_mark, token)):
                continue
            if all(map(_is_mark, token)):
                alone[token[0]] += count
                continue
            for mark in {each for each in (token[0], token[-1]) if _is_mark(each)}:
                at_edge[mark] += count
            for mark in set(filter(_is_mark, token[1:-1])):
                within[mark] += count
        known = {mark for mark in alone | at_edge if alone[mark] + at_edge[mark] >= _FEWEST}
        edges = {mark for mark in known if alone[mark] > at_edge[mark]} | (set(USUAL) - known)
        inside = {mark for mark in edges if alone[mark] >= _FEWEST and not within[mark] and mark not in ".,:"}
        whole = [
            word for word in words if not all(map(_is_mark, word)) and (word[0] in edges or word[-1] in edges)
        ]
        frequent = sorted((word for word in whole if words[word] > 1), key=lambda word: (-words[word], word))
        known_ones = {word for word in ABBREVIATIONS if word[:-1] not in words}
        return cls(
            "".join(sorted(edges)), "".join(sorted(inside)), frozenset(frequent[:_MOST_KEPT]) | known_ones
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a model file."""
        return {"edges": self.edges, "inside": self.inside, "kept": sorted(self.kept)}

    @classmethod
    def of(cls, stored: Any) -> Splitter:
        """From what a model file has; the usual one if it has nothing, or something else."""
        if not isinstance(stored, dict) or not all(
            isinstance(stored.get(key), str) for key in ("edges", "inside")
        ):
            return cls()
        kept = stored.get("kept")
        words = kept if isinstance(kept, list) and all(isinstance(each, str) for each in kept) else []
        return cls(stored["edges"], stored["inside"], frozenset(words))

    def tokens(self, text: str) -> list[Token]:
        """The tokens of a text."""
        found: list[Token] = []
        for match in _WORD.finditer(text):
            found += self._of_word(match[0], match.start())
        return found

    def sentences(self, text: str) -> list[list[Token]]:
        """The tokens of each sentence. A sentence ends at a line's end, and at a full stop before a capital letter."""
        found: list[list[Token]] = []
        for line in re.finditer(r"[^\n]+", text):
            here = [
                Token(own, start + line.start(), end + line.start())
                for own, start, end in self.tokens(line[0])
            ]
            begin = 0
            for k in range(len(here)):
                if k + 1 == len(here) or _is_end(here, k):
                    found.append(here[begin : k + 1])
                    begin = k + 1
        return found

    def _of_word(self, word: str, start: int) -> list[Token]:
        """A word without white space: marks in front, the middle, marks behind."""
        first, end = 0, len(word)
        front, back = [], []
        while first < end and word[first] in self.edges and word[first:end] not in self.kept:
            length = _run(word, first, end)
            front.append(Token(word[first : first + length], start + first, start + first + length))
            first += length
        while end > first and word[end - 1] in self.edges and word[first:end] not in self.kept:
            length = _run(word[::-1], len(word) - end, len(word) - first)
            back.append(Token(word[end - length : end], start + end - length, start + end))
            end -= length
        whole = word[first:end]
        pieces = (
            [whole]
            if not self.inside or whole in self.kept
            else re.split(f"([{re.escape(self.inside)}])", whole)
        )
        middle, at = [], start + first
        for piece in pieces:
            if piece:
                middle.append(Token(piece, at, at + len(piece)))
            at += len(piece)
        return [*front, *middle, *reversed(back)]


def _run(word: str, first: int, end: int) -> int:
    """How many times a character is repeated: an ellipsis of full stops is one token, as are equal quotes."""
    last = first
    while last < end and word[last] == word[first]:
        last += 1
    return last - first if word[first] in ".!?'`-" else 1


def _is_mark(character: str) -> bool:
    """Whether a character is punctuation or a symbol."""
    return unicodedata.category(character)[0] in "PS"


def _is_end(tokens: list[Token], k: int) -> bool:
    """Whether a sentence ends with token k, which is not the last: a full stop, or what closes behind one."""
    token, following = tokens[k], tokens[k + 1]
    if following.text[0].islower() or (following.text in _CLOSING and following.start == token.end):
        return False
    closes = k > 0 and token.text in _CLOSING and token.start == tokens[k - 1].end
    return token.text in _ENDS or (closes and tokens[k - 1].text in _ENDS)
