"""One dependency tree as inline SVG: predicted arcs above the words, the true arcs of wrong words below."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

_LETTER, _SMALL_LETTER, _GAP = 8.0, 6.2, 16.0
_LEVEL, _TALLEST = 24.0, 480.0
_TOP, _LABEL_ROOM, _WORDS_ROOM = 26.0, 12.0, 44.0
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class Tree:
    """What is drawn of one sentence of n words.

    Attributes
    ----------
    forms, tags : sequence of str (n,)
    heads : sequence of int (n,)
        From 1; 0 is the root.
    relations : sequence of str (n,), or None
    marginals : sequence of float (n,), or None
        Probability of each word's arc, between 0 and 1: how opaque it is drawn.
    gold_heads, gold_relations : sequences (n,), or None
        The truth, where it is known.
    """

    forms: Sequence[str]
    tags: Sequence[str]
    heads: Sequence[int]
    relations: Sequence[str] | None = None
    marginals: Sequence[float] | None = None
    gold_heads: Sequence[int] | None = None
    gold_relations: Sequence[str] | None = None

    def wrong_heads(self) -> list[int]:
        """Places (from 0) of the words with a wrong head."""
        if self.gold_heads is None:
            return []
        return [word for word, head in enumerate(self.heads) if head != self.gold_heads[word]]


def tree_svg(tree: Tree) -> str:
    """An ``<svg>`` element of its natural size; colours come from the classes of the page's style."""
    places, width = _places(tree)
    above = levels(tree.heads)
    wrong = tree.wrong_heads()
    gold = {word: tree.gold_heads[word] for word in wrong} if tree.gold_heads is not None else {}
    below = levels([gold.get(word, -1) for word in range(len(tree.forms))])
    step_above, step_below = _step(above), _step(below)
    baseline = _TOP + _LABEL_ROOM + step_above * (max(above, default=0) + 1)
    depth = step_below * max(below, default=0) + (_LEVEL + _TOP if 0 in gold.values() else _LABEL_ROOM)
    height = baseline + _WORDS_ROOM + (depth if gold else 0)
    parts = []
    for word, head in enumerate(tree.heads):
        parts.append(_predicted(tree, word, head, places, baseline, step_above * above[word], word in gold))
    for word, head in gold.items():
        name = "" if tree.gold_relations is None else tree.gold_relations[word]
        line = _arc(places, word, head, baseline + _WORDS_ROOM - 8, -step_below * below[word], height)
        parts.append(f'<g class="gold">{line.drawn("")}{line.label(name)}</g>')
    for word, (form, tag) in enumerate(zip(tree.forms, tree.tags, strict=True)):
        kind = "word wrong" if word in gold else "word"
        parts.append(
            _text(places[word], baseline + 16, form, kind) + _text(places[word], baseline + 31, tag, "tag")
        )
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" '
        f'aria-label="{clean(" ".join(tree.forms))}">{"".join(parts)}</svg>'
    )


def levels(heads: Sequence[int]) -> list[int]:
    """How high each word's arc must be to pass over the arcs below it, from 1; 0 for root arcs and heads of -1."""
    found = [0] * len(heads)
    highest = np.zeros(len(heads) + 1, dtype=np.int64)  # over each space between words
    arcs = [(abs(head - word), min(head, word), word) for word, head in enumerate(heads, 1) if head > 0]
    for span, left, word in sorted(arcs):
        level = int(highest[left : left + span].max(initial=0)) + 1
        highest[left : left + span] = level
        found[word - 1] = level
    return found


def clean(text: str) -> str:
    """Text that may stand in XML: escaped, and without characters that XML does not know."""
    return escape(_NOT_IN_XML.sub("\ufffd", text))


@dataclass(frozen=True)
class _Line:
    """An arc's path, the point of its arrow, and where its label stands."""

    path: str
    tip_x: float
    tip_y: float
    label_x: float
    label_y: float
    downward: bool

    def drawn(self, attributes: str) -> str:
        back = -6 if self.downward else 6
        tip = f"{self.tip_x:.1f},{self.tip_y:.1f}"
        tip += f" {self.tip_x - 3:.1f},{self.tip_y - back:.1f} {self.tip_x + 3:.1f},{self.tip_y - back:.1f}"
        return f'<path class="arc" d="{self.path}"{attributes}/><polygon class="tip" points="{tip}"{attributes}/>'

    def label(self, text: str, kind: str = "relation") -> str:
        return _text(self.label_x, self.label_y, text, kind) if text else ""


def _arc(
    places: Sequence[float], word: int, head: int, baseline: float, rise: float, height: float = 0.0
) -> _Line:
    """The line from a head to a word; a negative rise makes it hang below the baseline, root lines to the border."""
    x, downward = places[word], rise < 0 or height > 0
    if head == 0:
        end = height - _TOP + 8 if downward else _TOP - 8
        label_y = height - 6 if downward else _TOP - 12
        return _Line(f"M{x:.1f} {end:.1f}V{baseline:.1f}", x, baseline, x, label_y, downward)
    start = places[head - 1] + (4 if head - 1 < word else -4)  # beside the head's own arc
    control = baseline - rise / 0.75  # a cubic curve reaches three quarters of the way to its control points
    path = (
        f"M{start:.1f} {baseline:.1f}C{start:.1f} {control:.1f} {x:.1f} {control:.1f} {x:.1f} {baseline:.1f}"
    )
    label_y = baseline - rise + (11 if downward else -4)
    return _Line(path, x, baseline, (start + x) / 2, label_y, downward)


def _predicted(
    tree: Tree, word: int, head: int, places: Sequence[float], baseline: float, rise: float, is_wrong: bool
) -> str:
    """A word's arc with its label; what it is can be read when the pointer rests on it."""
    line = _arc(places, word, head, baseline, rise)
    name = "" if tree.relations is None else tree.relations[word]
    source = "root" if head == 0 else tree.forms[head - 1]
    told = f"{source} → {tree.forms[word]}" + (f": {name}" if name else "")
    kind = "edge wrong" if is_wrong else "edge"
    attributes = ""
    if tree.marginals is not None:
        marginal = min(max(float(tree.marginals[word]), 0.0), 1.0)
        attributes = f' opacity="{marginal:.3f}"'
        told += f", probability {marginal:.3f}"
    label_kind = "relation"
    if name and tree.gold_relations is not None and name != tree.gold_relations[word]:
        label_kind = "relation wrong"
        told += f" (truly {tree.gold_relations[word]})"
    return f'<g class="{kind}"><title>{clean(told)}</title>{line.drawn(attributes)}{line.label(name, label_kind)}</g>'


def _places(tree: Tree) -> tuple[list[float], float]:
    """The middle of every word, and the width of all."""
    names = [
        [""] * len(tree.forms) if each is None else each for each in (tree.relations, tree.gold_relations)
    ]
    rooms = [
        max(_LETTER * _columns(form), *(_SMALL_LETTER * _columns(text) for text in small)) + _GAP
        for form, *small in zip(tree.forms, tree.tags, *names, strict=True)
    ]
    ends = np.cumsum(rooms)
    return (ends - np.array(rooms) / 2).tolist(), float(ends[-1]) if rooms else 1.0


def _columns(text: str) -> int:
    """How many letters wide a text is."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def _step(found: Sequence[int]) -> float:
    return min(_LEVEL, _TALLEST / max(max(found, default=0), 1))


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{clean(text)}</text>'
