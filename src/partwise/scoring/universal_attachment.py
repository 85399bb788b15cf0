"""Attachment scores as the scorer of the CoNLL 2018 shared task on Universal Dependencies counts them.

The two sides may cut the text into words differently: both are laid over the same characters, and only words at the
same place are compared. Words that are not tokens themselves ("ca", "n't") have no place of their own; where such
words are, the two sides are aligned by the longest common subsequence of their forms.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from partwise.core.arrays import block_of, offsets
from partwise.errors import InputError
from partwise.scoring.metrics import Rates

if TYPE_CHECKING:
    from partwise.data.dependency import DependencyCorpus

CONTENT_RELATIONS = frozenset((
    "acl", "advcl", "advmod", "amod", "appos", "ccomp", "compound", "conj", "csubj", "dep", "discourse", "dislocated",
    "expl", "fixed", "flat", "goeswith", "iobj", "list", "nmod", "nsubj", "nummod", "obj", "obl", "orphan",
    "parataxis", "reparandum", "root", "vocative", "xcomp",
))  # fmt: skip
FUNCTION_RELATIONS = frozenset(("aux", "case", "cc", "clf", "cop", "det", "mark", "punct"))
_MOST_CELLS = 50_000_000


@dataclass(frozen=True)
class AlignedCounts(Rates):
    """Words that count in the truth and in the prediction, those aligned, and those right."""

    n_true: int = 0
    n_predicted: int = 0
    n_aligned: int = 0
    n_correct: int = 0

    @property
    def aligned_accuracy(self) -> float:
        """Share of the aligned words that are right."""
        return self.n_correct / self.n_aligned if self.n_aligned else 0.0


@dataclass(frozen=True)
class UniversalScores:
    """Words found, and unlabelled, labelled and content-word labelled attachment of what was found.

    Attributes
    ----------
    words, uas, las, clas : AlignedCounts
        The score itself is ``f1``. Relations are compared up to their first colon; `clas` counts only words whose
        relation is one of `CONTENT_RELATIONS`.
    """

    words: AlignedCounts
    uas: AlignedCounts
    las: AlignedCounts
    clas: AlignedCounts

    def report(self) -> str:
        """The scores in percent as a small table of text."""
        lines = [f"{'score in %':<10}  precision     recall         F1  of aligned"]
        for name in ("words", "uas", "las", "clas"):
            counts: AlignedCounts = getattr(self, name)
            rates = (counts.precision, counts.recall, counts.f1, counts.aligned_accuracy)
            title = "Words" if name == "words" else name.upper()
            lines.append(f"{title:<10}" + "".join(f"{100 * rate:11.2f}" for rate in rates))
        return "\n".join(lines) + "\n"


def universal_scores(gold: DependencyCorpus, predicted: DependencyCorpus) -> UniversalScores:
    """Score predicted trees of the same text, whose words need not be the same.

    Parameters
    ----------
    gold, predicted : DependencyCorpus
        All heads and relations known; the characters of both, spaces apart, must be the same.

    Returns
    -------
    UniversalScores
    """
    for name, corpus in (("truth", gold), ("prediction", predicted)):
        if not corpus.has_heads or corpus.relations is None:
            raise InputError(f"the {name} has words without head or relation")
    left, right = _Side(gold), _Side(predicted)
    if left.characters != right.characters:
        place = next(
            (k for k, (a, b) in enumerate(zip(left.characters, right.characters, strict=False)) if a != b),
            min(len(left.characters), len(right.characters)),
        )
        found = [side.characters[place : place + 20] for side in (left, right)]
        raise InputError(f"the texts differ: {found[0]!r} in the truth, {found[1]!r} in the prediction")
    mine, theirs = align(left, right)
    gold_of_predicted = np.full(len(right.parent) + 1, -2)  # -2: aligned to nothing; the last entry: the root
    gold_of_predicted[theirs], gold_of_predicted[-1] = mine, -1
    same_head = left.parent[mine] == gold_of_predicted[right.parent[theirs]]
    same_relation = np.array(
        [left.relations[a] == right.relations[b] for a, b in zip(mine, theirs, strict=True)], bool
    )
    content = [
        np.array([name in CONTENT_RELATIONS for name in side.relations], bool) for side in (left, right)
    ]
    sizes = len(left.parent), len(right.parent), len(mine)
    in_content = content[0][mine]
    both = same_head & same_relation
    return UniversalScores(
        AlignedCounts(*sizes, len(mine)),
        AlignedCounts(*sizes, int(same_head.sum())),
        AlignedCounts(*sizes, int(both.sum())),
        AlignedCounts(
            int(content[0].sum()),
            int(content[1].sum()),
            int(in_content.sum()),
            int((both & in_content).sum()),
        ),
    )


def is_universal(relations: Sequence[str]) -> bool:
    """Whether at least nine of ten relations are those of Universal Dependencies; other schemes share a name or two."""
    known = CONTENT_RELATIONS | FUNCTION_RELATIONS
    return 10 * sum(name.partition(":")[0] in known for name in relations) >= 9 * len(relations)


class _Side:
    """The words of a corpus laid over the characters of its tokens.

    Attributes
    ----------
    begin, end : list of int (n_words,)
        Characters of the token that the word is or is part of.
    is_part : list of bool (n_words,)
        Whether the word is part of a token of several words.
    forms : list of str (n_words,)
        In lower case.
    parent : int64 array (n_words,)
        The head among all words, -1 for the root.
    relations : list of str (n_words,)
        Without subtypes.
    """

    def __init__(self, corpus: DependencyCorpus):
        forms = list(map(_without_spaces, corpus.forms))
        token_of, pieces = np.arange(corpus.n_words), list(forms)
        self.is_part = [False] * corpus.n_words
        for first, stop, form in corpus.multiwords:
            pieces[first] = _without_spaces(form)
            for word in range(first, stop):
                token_of[word], self.is_part[word] = first, True
                forms[word] = corpus.forms[word]
                pieces[word] = pieces[word] if word == first else ""
        empty = [word for word, piece in enumerate(pieces) if not piece and token_of[word] == word]
        if empty:
            raise InputError("a form of spaces only cannot be aligned", **corpus.where(empty[0]))
        ptr = offsets([len(piece) for piece in pieces])
        self.characters = "".join(pieces)
        self.begin: list[int] = ptr[:-1][token_of].tolist()
        self.end: list[int] = ptr[1:][token_of].tolist()
        self.forms = [form.lower() for form in forms]
        start = corpus.sentence_ptr[block_of(corpus.sentence_ptr)]
        self.parent = np.where(corpus.heads > 0, start + corpus.heads - 1, -1)
        self.relations = [name.partition(":")[0] for name in corpus.relations or ()]

    def __len__(self) -> int:
        return len(self.forms)


def align(gold: _Side, predicted: _Side) -> tuple[np.ndarray, np.ndarray]:
    """Words of both sides that stand for the same, as two int64 arrays of the same length."""
    if all(getattr(gold, name) == getattr(predicted, name) for name in ("begin", "end", "is_part", "forms")):
        return np.arange(len(gold)), np.arange(len(gold))
    sides = (gold, predicted)
    places = [0, 0]
    pairs: list[tuple[int, int]] = []
    while places[0] < len(gold) and places[1] < len(predicted):
        g, p = places
        if gold.is_part[g] or predicted.is_part[p]:
            first = _run_over_region(sides, places)
            pairs += _align_forms(sides, first, places)
        elif gold.begin[g] == predicted.begin[p] and gold.end[g] == predicted.end[p]:
            pairs.append((g, p))
            places[:] = g + 1, p + 1
        else:
            places[0 if gold.begin[g] <= predicted.begin[p] else 1] += 1
    flat = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return flat[:, 0], flat[:, 1]


def _run_over_region(sides: tuple[_Side, _Side], places: list[int]) -> list[int]:
    """Move `places` behind a region that no token of several words sticks out of; return where it begins.

    The region starts with such a token on one side. A simple word of the other side that began before it is left
    behind; words that stick out of the end are not part of it.
    """
    leader = 0 if sides[0].is_part[places[0]] else 1
    other, here, there = 1 - leader, places[leader], places[1 - leader]
    limit = sides[leader].end[here]
    if not sides[other].is_part[there] and sides[other].begin[there] < sides[leader].begin[here]:
        places[other] += 1
    first = list(places)

    def inside(side: _Side, place: int) -> bool:
        if place >= len(side):
            return False
        return side.begin[place] < limit if side.is_part[place] else side.end[place] <= limit

    def left(side: int) -> bool:
        return places[side] < len(sides[side])

    while inside(sides[0], places[0]) or inside(sides[1], places[1]):
        gold_first = left(0) and (not left(1) or sides[0].begin[places[0]] <= sides[1].begin[places[1]])
        turn = 0 if gold_first else 1
        if sides[turn].is_part[places[turn]]:
            limit = max(limit, sides[turn].end[places[turn]])
        places[turn] += 1
    return first


def _align_forms(sides: tuple[_Side, _Side], first: list[int], stop: list[int]) -> list[tuple[int, int]]:
    """Pairs of words with the same form, in order, as many as can be."""
    mine, theirs = (side.forms[a:b] for side, a, b in zip(sides, first, stop, strict=True))
    if mine == theirs:
        return [(first[0] + k, first[1] + k) for k in range(len(mine))]
    if len(mine) * len(theirs) > _MOST_CELLS:
        raise InputError(f"a token of {max(len(mine), len(theirs))} words is too long to align")
    longest = np.zeros((len(mine) + 1, len(theirs) + 1), dtype=np.int32)  # of what is left on either side
    for g in reversed(range(len(mine))):
        for p in reversed(range(len(theirs))):
            same = longest[g + 1, p + 1] + 1 if mine[g] == theirs[p] else 0
            longest[g, p] = max(longest[g + 1, p], longest[g, p + 1], same)
    pairs, g, p = [], 0, 0
    while g < len(mine) and p < len(theirs):
        if mine[g] == theirs[p]:
            pairs.append((first[0] + g, first[1] + p))
            g, p = g + 1, p + 1
        elif longest[g, p] == longest[g + 1, p]:
            g += 1
        else:
            p += 1
    return pairs


def _without_spaces(form: str) -> str:
    if form.isascii():
        return form.replace(" ", "")
    return "".join(character for character in form if unicodedata.category(character) != "Zs")
