"""Constituent trees: nodes with their probabilities, the best trees, and why a constituent is there."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np

from partwise.data.constituents import Span, Tree
from partwise.data.treebank import plain_label, without_traces
from partwise.errors import InputError
from partwise.scoring.brackets import bracket_scores
from partwise.scoring.metrics import confusion
from partwise.tasks.constituents.data import as_sentences
from partwise.tasks.page import (
    Evidence,
    Explorer,
    LabelRow,
    Term,
    difference,
    percent,
    shortened,
    shown_terms,
    text_or,
)

_NOTHING = "(none)"
_EXAMPLE = [("the", "DT"), ("old", "JJ"), ("man", "NN"), ("saw", "VBD"), ("a", "DT"), ("dog", "NN")]


class ConstituentExplorer(Explorer):
    """An example is a list of words, or of pairs (word, tag); its truth is a tree."""

    kind = "constituents"
    longest = 100

    def answer(self, x: Any, truth: Tree | None = None, kbest: int = 3) -> dict[str, Any]:
        parsed = self.estimator.parse([x])
        tree, outside = parsed.trees[0], bool(parsed.fallback[0])
        marginals = self.estimator.predict_marginals([x])[0] if self.has_probabilities else None
        found: dict[str, Any] = {
            "kind": self.kind,
            "tokens": tree.words(),
            "labels": [tag.label for tag in tree.tags()],
            "nodes": nodes_of(tree, None if outside else marginals),
            "tree": str(tree),
        }
        if truth is not None:
            bare = without_traces(truth) or truth
            found["truth"] = [tag.label for tag in bare.tags()]
            found["true_spans"] = [list(span) for span in sorted(_plain_spans(bare))]
        if marginals is not None:
            ordered = sorted(marginals.items(), key=lambda each: -each[1])
            found["span_marginals"] = [[*span, round(p, 6)] for span, p in ordered]
        found["kbest"] = [
            {"tree": str(each), "nodes": nodes_of(each), self.value_name(): float(value)}
            for each, value in self.estimator.predict_kbest([x], kbest)[0]
        ]
        return found | self._why(x, outside)

    def _why(self, x: Any, outside: bool) -> dict[str, Any]:
        if outside:
            return {"note": "the grammar has no tree of this sentence; this is a substitute"}
        try:
            explained = self.estimator.explain(x)
        except InputError as error:  # words may have tags that were not in training
            return {"note": f"not explained: {error}"}
        found = {"score": explained.score, "terms": shown_terms(map(_term, explained.terms))}
        with suppress(InputError):  # where there is no other tree
            other = self.estimator.explain(x, against="runner-up")
            found["against"] = difference(str(other.against), other.score, map(_term, other.terms))
        return found

    def evidence(self, inputs: Any, truths: Any) -> Evidence:
        parsed = self.estimator.parse(inputs)
        scores = bracket_scores(truths, parsed.trees)
        shown = [
            ("labelled F1, as evalb counts", percent(scores.f1)),
            ("precision", percent(scores.precision)),
            ("recall", percent(scores.recall)),
            ("exact trees", percent(scores.exact_match)),
            ("tags", percent(scores.tag_accuracy)),
            ("sentences", f"{scores.n_sentences:,}"),
        ]
        rows = [
            LabelRow(shortened(name), counts.precision, counts.recall, counts.f1, counts.n_true)
            for name, counts in scores.per_label.items()
        ]
        true = [_plain_spans(without_traces(tree) or tree) for tree in truths]
        mine = [_plain_spans(tree) for tree in parsed.trees]
        errors = [len(a ^ b) for a, b in zip(true, mine, strict=True)]
        names, matrix = confusion(*_paired(true, mine))
        confused = [shortened(str(name)) for name in names], matrix
        found = Evidence(shown, rows, confused, np.array(errors, np.int64))
        if self.has_probabilities:
            found.predicted, found.every = self._span_parts(inputs, true, mine)
        return found

    def _span_parts(self, inputs: Any, true: list[set[Span]], mine: list[set[Span]]) -> tuple[Any, Any]:
        """Probabilities of constituents beside the truth; those below 0.0001 are left out."""
        chosen: list[tuple[float, bool]] = []
        every: list[tuple[float, bool]] = []
        for found, own_truth, own in zip(self.estimator.predict_marginals(inputs), true, mine, strict=True):
            for span, p in found.items():
                bare = span._replace(label=plain_label(span.label))
                every.append((p, bare in own_truth))
                if bare in own:
                    chosen.append(every[-1])
        return _columns(chosen), _columns(every)

    def read(self, request: dict[str, Any]) -> Any:
        value = text_or(request, "tokens")
        if value is None:
            words = request["text"].split()
            value = [word.rsplit("/", 1) for word in words] if self.estimator.has_tags_ else words
        if not isinstance(value, list) or not value:
            raise InputError('"tokens" must be a list of words with at least one entry')
        sentence = [tuple(word) if isinstance(word, list) else word for word in value]
        for t, word in enumerate(sentence):
            cells = word if isinstance(word, tuple) else (word,)
            wanted = 2 if self.estimator.has_tags_ else 1
            if len(cells) < wanted or len(cells) > 2 or not all(isinstance(c, str) and c for c in cells):
                form = "word/TAG, or [word, tag]" if wanted == 2 else "a word"
                raise InputError(f'"tokens"[{t}] must be {form}')
        as_sentences([sentence], self.estimator.has_tags_)
        return sentence

    def expects(self) -> dict[str, str]:
        if self.estimator.has_tags_:
            return {
                "format": "words with their tags, word/TAG, with spaces between them",
                "example": " ".join("/".join(pair) for pair in _EXAMPLE),
            }
        return {
            "format": "words, with spaces between them",
            "example": " ".join(word for word, _ in _EXAMPLE),
        }


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
    for k in range(len(order) - 1, 0, -1):  # children stand behind their parents, the first one right behind
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


def _plain_spans(tree: Tree) -> set[Span]:
    return {span._replace(label=plain_label(span.label)) for span in tree.spans() if span.label}


def _paired(true: list[set[Span]], mine: list[set[Span]]) -> tuple[list[list[str]], list[list[str]]]:
    """Labels of constituents over the same words, side by side; what has no partner stands beside nothing."""
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


def _columns(rows: list[tuple[float, bool]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([p for p, _ in rows]), np.array([is_true for _, is_true in rows], bool)


def _term(term: Any) -> Term:
    return Term(term.first, term.end, term.feature, term.label, term.contribution)
