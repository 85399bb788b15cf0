"""Layout of a dependency tree: arcs and labels are placed so that no arc crosses a label.

An arc goes up from its head, along its level and down to its word. Arcs over others run on a higher level, and
labels stand on their arc, aside from what goes up through there: in a tree without crossing arcs there is nothing
of the kind, and else a free stretch is looked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

_BESIDE = 4.0  # pixels from a head's middle to the start of its arcs: its own incoming arc ends in the middle
_MARGIN = 5.0  # pixels around labels


class Arc(NamedTuple):
    """An arc to a word; root arcs, of level 0, come straight down on it.

    Attributes
    ----------
    begin, end : float
        Where it leaves the head and reaches the word.
    level : int
        From 1.
    label : float
        The middle of its label.
    """

    begin: float
    end: float
    level: int
    label: float


def levels(heads: Sequence[int]) -> list[int]:
    """The level of each word's arc, above the arcs below it, from 1; 0 for root arcs and heads of -1."""
    found = [0] * len(heads)
    highest = np.zeros(len(heads) + 1, dtype=np.int64)  # over each space between words
    arcs = [(abs(head - word), min(head, word), word) for word, head in enumerate(heads, 1) if head > 0]
    for span, left, word in sorted(arcs):
        level = int(highest[left : left + span].max(initial=0)) + 1
        highest[left : left + span] = level
        found[word - 1] = level
    return found


def places(
    rooms: Sequence[float], trees: Sequence[tuple[Sequence[int], Sequence[float]]]
) -> tuple[list[float], float]:
    """The middle of every word, and the width of all.

    Parameters
    ----------
    rooms : sequence of float (n,)
        What each word takes.
    trees : sequence of (heads, widths)
        Trees to be drawn over the words: each label must find room between the ends of its arc.
    """
    arcs: list[list[tuple[int, float]]] = [[] for _ in rooms]  # by their right end: left end, length
    for heads, widths in trees:
        for word, (head, width) in enumerate(zip(heads, widths, strict=True)):
            if head > 0:
                arcs[max(word, head - 1)].append((min(word, head - 1), width + _BESIDE + 2 * _MARGIN))
    found: list[float] = []
    for word, room in enumerate(rooms):
        at = found[-1] + (rooms[word - 1] + room) / 2 if found else room / 2
        found.append(max([at, *(found[left] + length for left, length in arcs[word] if left < word)]))
    return found, found[-1] + rooms[-1] / 2 if found else 1.0


def arcs(heads: Sequence[int], places: Sequence[float], widths: Sequence[float]) -> list[Arc]:
    """The arc of every word.

    Parameters
    ----------
    heads : sequence of int (n,)
        From 1; 0 is the root, -1 draws nothing.
    places, widths : sequence of float (n,)
        The middle of each word, and how wide the label of its arc is.
    """
    level = levels(heads)
    begins = [_begin(word, head, places) for word, head in enumerate(heads)]
    # Vertical lines: at both ends of arcs, and from the root's words to the top.
    ups = [(begins[word], level[word]) for word, head in enumerate(heads) if head > 0]
    ups += [(places[word], level[word] or len(heads)) for word, head in enumerate(heads) if head >= 0]
    ups.sort()
    x, height = np.array([each[0] for each in ups]), np.array([each[1] for each in ups])
    found = []
    for word, begin in enumerate(begins):
        end = places[word]
        left, right = min(begin, end), max(begin, end)
        inside = slice(np.searchsorted(x, left, "right"), np.searchsorted(x, right, "left"))
        blocked = x[inside][height[inside] > level[word]].tolist()
        found.append(Arc(begin, end, level[word], _free_place([left, *blocked, right], widths[word])))
    return found


def _begin(word: int, head: int, places: Sequence[float]) -> float:
    if head <= 0:
        return places[word]
    return places[head - 1] + (_BESIDE if head - 1 < word else -_BESIDE)


def _free_place(borders: list[float], width: float) -> float:
    """The middle of a label between two neighbouring borders, as near to the middle of all as they let it."""
    middle, needed = (borders[0] + borders[-1]) / 2, width + 2 * _MARGIN
    best, widest = (np.inf, middle), (0.0, middle)
    for left, right in pairwise(borders):
        if right - left >= needed:
            at = min(max(middle, left + needed / 2), right - needed / 2)
            best = min(best, (abs(at - middle), at))
        widest = max(widest, (right - left, (left + right) / 2))
    return best[1] if best[0] < np.inf else widest[1]
