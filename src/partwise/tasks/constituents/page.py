"""One constituent tree on pages: its nodes and spans, and what people type."""

from __future__ import annotations

from typing import Any

from partwise.data.constituents import Span, Tree
from partwise.errors import InputError
from partwise.tasks.constituents.data import as_sentences
from partwise.tasks.page import text_or

_NOTHING = "(none)"
_EXAMPLE = [("the", "DT"), ("old", "JJ"), ("man", "NN"), ("saw", "VBD"), ("a", "DT"), ("dog", "NN")]


def nodes_of(tree: Tree, marginals: dict[Span, float] | None = None) -> list[list[Any]]:
    """Nodes in preorder as [label, word or None, parent, first, end, probability or None]; the first parent is -1."""
    order: list[Tree] = []
    parents: list[int] = []
    stack = [(tree, -1)]
    while stack:
        node, parent = stack.pop()
        stack.extend((child, len(order)) for child in reversed(node.children))
        order.append(node)
        parents.append(parent)
    first, end, n_words = [0] * len(order), [0] * len(order), 0
    for k, node in enumerate(order):
        if node.word is not None:
            first[k], end[k] = n_words, n_words + 1
            n_words += 1
    for k in range(
        len(order) - 1, 0, -1
    ):  # a node's children come after it, the first child directly after it
        above = parents[k]
        end[above] = max(end[above], end[k])
        first[above] = first[k]
    rows = zip(order, parents, first, end, strict=True)
    return [
        [node.label, node.word, parent, a, b, _probability(node, Span(a, b, node.label), marginals)]
        for node, parent, a, b in rows
    ]


def _probability(node: Tree, span: Span, marginals: dict[Span, float] | None) -> float | None:
    if marginals is None or node.word is not None or not node.label:
        return None
    return round(float(marginals.get(span, 0.0)), 6)


def paired_labels(true: list[set[Span]], mine: list[set[Span]]) -> tuple[list[list[str]], list[list[str]]]:
    """Pair the labels of constituents over the same words; a constituent without partner is paired with "(none)"."""
    left: list[str] = []
    right: list[str] = []
    for a, b in zip(true, mine, strict=True):
        both = a & b
        left += [span.label for span in both]
        right += [span.label for span in both]
        rest = {span[:2]: span.label for span in sorted(b - a)}
        for span in sorted(a - b):
            left.append(span.label)
            right.append(rest.pop(span[:2], _NOTHING))
        left += [_NOTHING] * len(rest)
        right += rest.values()
    return [left], [right]


def read_sentence(request: dict[str, Any], has_tags: bool) -> Any:
    """The words of a request, or its pairs (word, tag)."""
    value = text_or(request, "tokens")
    if value is None:
        words = request["text"].split()
        value = [word.rsplit("/", 1) for word in words] if has_tags else words
    if not isinstance(value, list) or not value:
        raise InputError('"tokens" must be a list of words with at least one entry')
    sentence = [tuple(word) if isinstance(word, list) else word for word in value]
    for t, word in enumerate(sentence):
        cells = word if isinstance(word, tuple) else (word,)
        wanted = 2 if has_tags else 1
        if len(cells) < wanted or len(cells) > 2 or not all(isinstance(c, str) and c for c in cells):
            form = "word/TAG, or [word, tag]" if wanted == 2 else "a word"
            raise InputError(f'"tokens"[{t}] must be {form}')
    as_sentences([sentence], has_tags)
    return sentence


def expected_words(has_tags: bool) -> dict[str, str]:
    """How a person writes a sentence, and an example."""
    if has_tags:
        return {
            "format": "words with their tags, word/TAG, with spaces between them",
            "example": " ".join("/".join(pair) for pair in _EXAMPLE),
        }
    return {
        "format": "words, with spaces between them",
        "example": " ".join(word for word, _ in _EXAMPLE),
    }
