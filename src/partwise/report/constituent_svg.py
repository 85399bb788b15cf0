"""One constituent tree as inline SVG: words at the bottom; less probable constituents are fainter."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from partwise.data.constituents import Span, Tree
from partwise.data.treebank import plain_label
from partwise.report.tree_svg import clean

_LETTER, _SMALL_LETTER, _GAP = 8.0, 6.6, 14.0
_LEVEL, _TALLEST = 34.0, 900.0
_TOP, _BOTTOM = 22.0, 40.0
_FAINTEST = 0.15  # opacity of an impossible constituent: it must stay visible


class _Placed(NamedTuple):
    """A node and where it is drawn."""

    label: str
    word: str | None
    span: Span
    x: float
    level: int
    parent: int


def constituent_svg(
    tree: Tree,
    marginals: Mapping[Span, float] | None = None,
    gold: Collection[Span] | None = None,
) -> str:
    """An ``<svg>`` element of its natural size; colours come from the classes of the page's style.

    Parameters
    ----------
    tree : Tree
    marginals : dict of Span to float, or None
        Probabilities of constituents: how opaque they are drawn; those that are not there have probability 0.
    gold : collection of Span, or None
        The true constituents; others are marked as wrong.
    """
    has_bracket = not tree.label and len(tree.children) == 1  # a bracket without information
    nodes, width = _placed(tree.children[0] if has_bracket else tree)
    highest = max(node.level for node in nodes)
    step = min(_LEVEL, _TALLEST / max(highest, 1))
    baseline = _TOP + step * highest
    parts = []
    for node in nodes:
        y = baseline - step * node.level
        kind, told, opacity = "node", f"{node.label} over words {node.span.first + 1} to {node.span.end}", ""
        if node.word is None and node.label:
            if marginals is not None:
                p = min(max(float(marginals.get(node.span, 0.0)), 0.0), 1.0)
                told += f", probability {p:.3f}"
                opacity = f' opacity="{max(p, _FAINTEST):.3f}"'
            if gold is not None and node.span._replace(label=plain_label(node.label)) not in gold:
                kind, told = "node wrong", told + ", not in the true tree"
        line = ""
        if node.parent >= 0:
            above = nodes[node.parent]
            top = baseline - step * above.level + 5
            line = f'<path class="branch" d="M{above.x:.1f} {top:.1f}L{node.x:.1f} {y - 13:.1f}"/>'
        text = _text(node.x, y, node.label or "·", "tag" if node.word is not None else "label")
        if node.word is not None:
            text += _text(node.x, baseline + 18, node.word, "word")
        parts.append(f'<g class="{kind}"{opacity}><title>{clean(told)}</title>{line}{text}</g>')
    height = baseline + _BOTTOM
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" '
        f'aria-label="{clean(" ".join(tree.words()))}">{"".join(parts)}</svg>'
    )


def _placed(tree: Tree) -> tuple[list[_Placed], float]:
    """All nodes, each before its children, and the width of the drawing."""
    order, parents = _with_parents(tree)
    n = len(order)
    level, first, end, left, right = [0] * n, [0] * n, [0] * n, [0.0] * n, [0.0] * n
    n_words, at = 0, 0.0
    for k, node in enumerate(order):
        if node.word is not None:
            room = max(_LETTER * len(node.word), _SMALL_LETTER * len(node.label)) + _GAP
            first[k], end[k] = n_words, n_words + 1
            left[k] = right[k] = at + room / 2
            n_words, at = n_words + 1, at + room
    # Children come after their parents, and a parent's first child comes next.
    last_child = [-1] * n
    for k in range(n - 1, -1, -1):
        if order[k].word is None:
            first[k], end[k] = first[k + 1], end[last_child[k]]
            left[k], right[k] = (
                (left[k + 1] + right[k + 1]) / 2,
                (left[last_child[k]] + right[last_child[k]]) / 2,
            )
        parent = parents[k]
        if parent >= 0:
            level[parent] = max(level[parent], level[k] + 1)
            if last_child[parent] < 0:
                last_child[parent] = k
    placed = [
        _Placed(
            node.label,
            node.word,
            Span(first[k], end[k], node.label),
            (left[k] + right[k]) / 2,
            level[k],
            parents[k],
        )
        for k, node in enumerate(order)
    ]
    return placed, max(at, 1.0)


def _with_parents(tree: Tree) -> tuple[list[Tree], list[int]]:
    """Nodes in preorder, and the number of each one's parent."""
    order: list[Tree] = []
    parents: list[int] = []
    stack = [(tree, -1)]
    while stack:
        node, parent = stack.pop()
        stack.extend((child, len(order)) for child in reversed(node.children))
        order.append(node)
        parents.append(parent)
    return order, parents


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{clean(text)}</text>'
