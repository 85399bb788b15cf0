"""One derivation at a time: its labels, parts and score; and the enumeration of all derivations of a few words."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from partwise.errors import InputError
from partwise.structures.contract import PartLists
from partwise.structures.grammar.anchoring import AnchoredRules
from partwise.structures.grammar.nodes import in_preorder
from partwise.structures.grammar.parts import GrammarParts

Derivation = list[tuple[int, int, int]]


class GrammarMarginals(NamedTuple):
    """Expected counts.

    Attributes
    ----------
    word : ndarray (n, N)
        Probability that a word node over word i has symbol A.
    rule : ndarray (R,)
        Expected number of uses of each rule, binary rules first, then unary ones.
    span : ndarray (n, n, N)
        Probability that a binary or unary rule builds symbol A over the words [first, last].
    """

    word: np.ndarray
    rule: np.ndarray
    span: np.ndarray


class AnchoredMarginals(NamedTuple):
    """Expected counts of a grammar with anchored rules.

    Attributes
    ----------
    word, rule, span
        As in :class:`GrammarMarginals`.
    anchored : ndarray (R, n, n, n), or AnchoredRules
        Expected uses by [rule, first word, last word of the left node, last word], if scores were given in this form;
        else those of the anchored rules that derivations may use.
    """

    word: np.ndarray
    rule: np.ndarray
    span: np.ndarray
    anchored: Any


class SingleDerivations(GrammarParts):
    """Methods about one derivation. Enumeration uses nothing else."""

    def labels_of(self, y: Any) -> np.ndarray:
        """Labels (n_nodes, 4) of one derivation, with the numbers of its rules."""
        nodes = np.asarray(y)
        if nodes.ndim != 2 or nodes.shape[1] != 3 or nodes.dtype.kind not in "iu":
            raise InputError("y must be a list of nodes (first word, last word, symbol)")
        first, last, symbol = nodes.astype(np.int64).T
        if (symbol < 0).any() or (symbol >= self.n_symbols).any():
            raise InputError(f"y holds a symbol that is not between 0 and {self.n_symbols - 1}")
        following = np.append(np.arange(1, len(nodes)), 0)
        is_unary = (first[following] == first) & (last[following] == last) & (following > 0)
        return self._with_rules(first, last, symbol, is_unary)

    def encode(self, y: Any) -> np.ndarray:
        """Part numbers of one derivation among all spans, in ascending order."""
        labels = self.labels_of(y)
        return self.encode_all(labels, self.shapes([int(labels[:, 1].max(initial=0)) + 1])).part

    def decode(self, parts: Any) -> Derivation:
        """The derivation with these part numbers among all spans, which are those of :meth:`encode`."""
        parts = np.unique(np.asarray(parts, np.int64))
        for n in range(1, 10_000):
            shapes = self.shapes([n])
            if len(parts) and self.n_parts(shapes)[0] > parts[-1]:
                labels = self.decode_all(PartLists(np.array([0, len(parts)]), parts), shapes)
                return [tuple(node) for node in labels[:, :3].tolist()]
        raise InputError("parts are not those of a derivation")

    # What enumeration needs.

    def labellings(self, length: int) -> Iterator[Derivation]:
        return iter(_derivations(self, 0, length - 1, self.root, True))

    def score(
        self,
        y: Any,
        word_scores: Any,
        rule_scores: Any,
        span_scores: Any = None,
        split_scores: Any = None,
        anchored_scores: Any = None,
    ) -> float:
        """Score of one derivation, summed node by node."""
        total = 0.0
        for rule, first, cut, last in self._anchored_rules(y) if anchored_scores is not None else ():
            total += _score_of_anchored(anchored_scores, rule, first, cut, last)
        for (first, last, symbol, rule), cut in zip(self.labels_of(y).tolist(), self._cuts(y), strict=True):
            if rule < 0:
                total += float(np.asarray(word_scores)[first, symbol])
                continue
            total += float(np.asarray(rule_scores)[rule])
            total += 0.0 if span_scores is None else float(np.asarray(span_scores)[first, last, symbol])
            if cut >= 0 and split_scores is not None:
                total += float(np.asarray(split_scores)[first, cut, last])
        return total

    def indicators(self, y: Any) -> Any:
        labels = self.labels_of(y)
        n = int(labels[:, 1].max()) + 1
        word, span = np.zeros((n, self.n_symbols)), np.zeros((n, n, self.n_symbols))
        rule = np.zeros(self.n_rules)
        for first, last, symbol, number in labels.tolist():
            if number < 0:
                word[first, symbol] += 1.0
            else:
                span[first, last, symbol] += 1.0
                rule[number] += 1.0
        if not self.anchored:
            return GrammarMarginals(word, rule, span)
        anchored = np.zeros((self.n_rules, n, n, n))
        for place in self._anchored_rules(y):
            anchored[place] += 1.0
        return AnchoredMarginals(word, rule, span, anchored)

    def _anchored_rules(self, y: Any) -> list[tuple[int, int, int, int]]:
        """Rule, first word, last word of the left node, and last word of every node that a rule built."""
        labels = zip(self.labels_of(y).tolist(), self._cuts(y), strict=True)
        return [
            (rule, first, last if cut < 0 else cut, last)
            for (first, last, _, rule), cut in labels
            if rule >= 0
        ]

    def _with_rules(
        self, first: np.ndarray, last: np.ndarray, symbol: np.ndarray, is_unary: np.ndarray
    ) -> np.ndarray:
        """Labels of nodes in preorder: −1 for words and for symbols that no rule builds."""
        is_word = (first == last) & ~is_unary
        none = np.zeros(len(first), np.int64)
        return in_preorder(none, first, last, symbol, is_word, is_unary, self._table)

    def _cuts(self, y: Any) -> list[int]:
        """Last word of the left child of a node that a binary rule built; −1 for others."""
        nodes = [tuple(node) for node in y]
        following = [*nodes[1:], (-1, -1, -1)]
        return [
            below[1] if below[0] == first and below[1] < last else -1
            for (first, last, _), below in zip(nodes, following, strict=True)
        ]


def _score_of_anchored(scores: Any, rule: int, first: int, cut: int, last: int) -> float:
    """The score of one anchored rule; −inf if it is not listed."""
    if not isinstance(scores, AnchoredRules):
        return float(np.asarray(scores)[rule, first, cut, last])
    same = (scores.rule == rule) & (scores.first == first) & (scores.cut == cut) & (scores.last == last)
    return float(scores.score[same][0]) if same.any() else -np.inf


def _derivations(grammar: GrammarParts, i: int, j: int, symbol: int, may_be_unary: bool) -> list[Derivation]:
    """All derivations of a symbol over the words i … j."""
    found: list[Derivation] = []
    own = (i, j, symbol)
    if i == j and symbol in grammar.word_symbols:
        found.append([own])
    for parent, left, right in grammar.rules.tolist():
        if parent == symbol:
            for m in range(i, j):
                below = product(
                    _derivations(grammar, i, m, left, True), _derivations(grammar, m + 1, j, right, True)
                )
                found += [[own, *a, *b] for a, b in below]
    if may_be_unary:
        for parent, child in grammar.unaries.tolist():
            if parent == symbol:
                found += [[own, *below] for below in _derivations(grammar, i, j, child, False)]
    return found
