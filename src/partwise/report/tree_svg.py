"""One dependency tree as inline SVG: predicted arcs above the words, the true arcs of wrong words below."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from partwise.report.arc_layout import Arc, arcs, places

_LETTER, _SMALL_LETTER, _GAP = 8.0, 6.6, 16.0
_LEVEL, _TALLEST = 24.0, 480.0
_TOP, _LABEL_ROOM, _WORDS_ROOM = 26.0, 12.0, 44.0
_CORNER = 7.0  # radius of an arc's corners, in pixels
_LOWEST_LABELLED = 14.0  # pixels between two levels; labels do not fit if levels are closer
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class Tree:
    """The drawing of one sentence of n words.

    Attributes
    ----------
    forms, tags : sequence of str (n,)
    heads : sequence of int (n,)
        From 1; 0 is the root.
    relations : sequence of str (n,), or None
    marginals : sequence of float (n,), or None
        Probability of each word's arc, between 0 and 1: how opaque it is drawn.
    gold_heads, gold_relations : sequences (n,), or None
        The true tree, if it is known.
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

    def wrong_relations(self) -> list[int]:
        """Places (from 0) of the words with a wrong relation, whatever their head is."""
        if self.relations is None or self.gold_relations is None:
            return []
        pairs = zip(self.relations, self.gold_relations, strict=True)
        return [word for word, (name, true) in enumerate(pairs) if name != true]


def tree_svg(tree: Tree) -> str:
    """An ``<svg>`` element of its natural size; colours come from the classes of the page's style."""
    words, misnamed = range(len(tree.forms)), set(tree.wrong_relations())
    gold = {} if tree.gold_heads is None else {word: tree.gold_heads[word] for word in tree.wrong_heads()}
    gold_heads = [gold.get(word, -1) for word in words]
    widths, gold_widths = (_widths(names, len(words)) for names in (tree.relations, tree.gold_relations))
    middles, width = places(_rooms(tree), [(tree.heads, widths), (gold_heads, gold_widths)])
    above, below = arcs(tree.heads, middles, widths), arcs(gold_heads, middles, gold_widths)
    top = _TOP + _LABEL_ROOM
    predicted = _Side(_step(above), top + _step(above) * (_highest(above) + 1), _TOP - 8, -1)
    foot = predicted.baseline + _WORDS_ROOM
    depth = _step(below) * _highest(below) + (_LEVEL + _TOP if 0 in gold.values() else _LABEL_ROOM)
    height = foot + (depth if gold else 0)
    true = _Side(_step(below), foot - 8, height - _TOP + 8, 1)
    lines, labels = [], []
    for word in words:
        kind = "edge wrong" if word in gold else "edge"
        told = f"<title>{clean(_told(tree, word))}</title>"
        opacity = "" if tree.marginals is None else f' opacity="{_probability(tree, word):.3f}"'
        lines.append(f'<g class="{kind}">{told}{predicted.line(above[word], opacity)}</g>')
        if tree.relations is not None:
            label = predicted.label(above[word], tree.relations[word], word in misnamed)
            labels.append(f'<g class="name">{told}{label}</g>')
    for word in gold:
        lines.append(f'<g class="gold">{true.line(below[word])}</g>')
        if tree.gold_relations is not None:
            labels.append(f'<g class="name gold">{true.label(below[word], tree.gold_relations[word])}</g>')
    for word, (form, tag) in enumerate(zip(tree.forms, tree.tags, strict=True)):
        kind, y = "word wrong" if word in gold else "word", predicted.baseline
        labels.append(_text(middles[word], y + 16, form, kind) + _text(middles[word], y + 31, tag, "tag"))
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" '
        f'aria-label="{clean(" ".join(tree.forms))}">{"".join(lines)}{"".join(labels)}</svg>'
    )


def clean(text: str) -> str:
    """Text for XML: escaped, without characters that XML forbids."""
    return escape(_NOT_IN_XML.sub("\ufffd", text))


@dataclass(frozen=True)
class _Side:
    """Arcs above the words (`direction` -1) or below them (1): distance of levels, and where arcs end."""

    step: float
    baseline: float
    root: float
    direction: int

    def line(self, arc: Arc, attributes: str = "") -> str:
        """An arc with the point of its arrow."""
        back = self.baseline + 6 * self.direction
        tip = f"{arc.end:.1f},{self.baseline:.1f} {arc.end - 3:.1f},{back:.1f} {arc.end + 3:.1f},{back:.1f}"
        return (
            f'<path class="arc" d="{self._path(arc)}"{attributes}/>'
            f'<polygon class="tip" points="{tip}"{attributes}/>'
        )

    def label(self, arc: Arc, text: str, wrong: bool = False) -> str:
        """An arc's label on it, or at the end of a root's; none where levels are too near to each other."""
        if not text or self.step < _LOWEST_LABELLED:
            return ""
        y = self.baseline + self.direction * self.step * arc.level if arc.level else self.root
        kind = "relation wrong" if wrong else "relation"
        return _text(arc.label, y + (11 if self.direction > 0 else -4), text, kind)

    def _path(self, arc: Arc) -> str:
        if not arc.level:
            return f"M{arc.end:.1f} {self.root:.1f}V{self.baseline:.1f}"
        y = self.baseline + self.direction * self.step * arc.level
        aside = 1 if arc.begin < arc.end else -1
        corner = min(_CORNER, abs(arc.end - arc.begin) / 2, self.step)
        turn = y - self.direction * corner
        return (
            f"M{arc.begin:.1f} {self.baseline:.1f}V{turn:.1f}"
            f"Q{arc.begin:.1f} {y:.1f} {arc.begin + aside * corner:.1f} {y:.1f}"
            f"H{arc.end - aside * corner:.1f}Q{arc.end:.1f} {y:.1f} {arc.end:.1f} {turn:.1f}V{self.baseline:.1f}"
        )


def _told(tree: Tree, word: int) -> str:
    """The description of an arc, which appears under the pointer."""
    head = tree.heads[word]
    told = f"{'root' if head == 0 else tree.forms[head - 1]} → {tree.forms[word]}"
    if tree.relations is not None and tree.relations[word]:
        told += f": {tree.relations[word]}"
    if tree.marginals is not None:
        told += f", probability {_probability(tree, word):.3f}"
    if tree.relations and tree.gold_relations and tree.relations[word] != tree.gold_relations[word]:
        told += f" (truly {tree.gold_relations[word]})"
    return told


def _probability(tree: Tree, word: int) -> float:
    assert tree.marginals is not None
    return min(max(float(tree.marginals[word]), 0.0), 1.0)


def _widths(names: Sequence[str] | None, n_words: int) -> list[float]:
    return [0.0] * n_words if names is None else [_SMALL_LETTER * _columns(name) for name in names]


def _rooms(tree: Tree) -> list[float]:
    """The width of each word with its tag, and with its relation if it is a root."""
    n = len(tree.forms)
    small = [_widths(names, n) for names in (tree.tags, tree.relations, tree.gold_relations)]
    return [
        max(_LETTER * _columns(form), *others) + _GAP
        for form, *others in zip(tree.forms, *small, strict=True)
    ]


def _columns(text: str) -> int:
    """The width of a text in characters."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def _highest(found: Sequence[Arc]) -> int:
    return max((arc.level for arc in found), default=0)


def _step(found: Sequence[Arc]) -> float:
    return min(_LEVEL, _TALLEST / max(_highest(found), 1))


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{clean(text)}</text>'
