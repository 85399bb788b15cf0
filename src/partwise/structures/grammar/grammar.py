"""Weighted context-free grammars: what users call. `parts.py` says what the parts of a derivation are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np

from partwise.compiled.simd import LANES
from partwise.core.arrays import offsets
from partwise.core.randomness import random_generator
from partwise.errors import InputError
from partwise.structures.checks import checked_count, checked_scores, is_single, require_possible
from partwise.structures.contract import PartLists, Shapes
from partwise.structures.grammar.parts import GrammarParts
from partwise.structures.packed import Packed

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


class Grammar(GrammarParts):
    """Derivations of a context-free grammar in binary form, with unary rules.

    Parameters
    ----------
    n_symbols : int
        N; symbols are 0 … N − 1.
    rules : array_like of int (R, 3)
        Parent, left and right symbol of each binary rule; all different.
    root : int
        The symbol over the whole sentence.
    unaries : array_like of int (U, 2)
        Parent and child of each unary rule. At most one stands on top of a node: chains have one step, and cycles
        are no danger.
    word_symbols : array_like of int, optional
        Symbols that may stand over words without a rule. By default all, and scores of −inf rule some out.
    splits : bool
        Whether anchored splits are parts, with rows of their own.

    Notes
    -----
    All methods take, for one sentence of n words,

    - `word_scores` (n, N): symbols over single words, not built by a rule; columns of other symbols than
      `word_symbols` are not read;
    - `rule_scores` (R + U,): binary rules, then unary rules;
    - `span_scores` (n, n, N) by [first word, last word, symbol], optional: symbols that a rule builds over a span,
      over one word by unary rules only. −inf forbids a symbol over a span.
    - `split_scores` (n, n, n) by [first word, last word of the left node, last word], with ``splits=True``, optional.

    For many sentences pass lists of such arrays, except `rule_scores`, which all share; results are then lists, or
    arrays of numbers. A derivation is a list of nodes ``(first word, last word, symbol)``, each before those below
    it, left before right.

    Examples
    --------
    >>> grammar = Grammar(2, [(0, 0, 0), (0, 1, 1)])  # S → S S, S → a a
    >>> word = np.array([[-np.inf, 0.0]] * 4)
    >>> grammar.argmax(word, np.zeros(2))[:4]
    [(0, 3, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)]
    """

    def log_partition(
        self, word_scores: Any, rule_scores: Any, span_scores: Any = None, split_scores: Any = None
    ) -> Any:
        """log Σ exp(score of a derivation): a float, or float64 (n,) for a list; −inf where none is possible."""
        return self.pack(word_scores, rule_scores, span_scores, split_scores).log_partition()

    def marginals(
        self, word_scores: Any, rule_scores: Any, span_scores: Any = None, split_scores: Any = None
    ) -> Any:
        """A :class:`GrammarMarginals`, or a list of them."""
        packed = self.pack(word_scores, rule_scores, span_scores, split_scores)
        _, counts = packed.expectations()
        results = [self._marginals(packed, e, counts) for e in range(len(packed.part_ptr) - 1)]
        return results[0] if packed.single else results

    def argmax(
        self, word_scores: Any, rule_scores: Any, span_scores: Any = None, split_scores: Any = None
    ) -> Any:
        """A best derivation, or a list of them."""
        packed = self.pack(word_scores, rule_scores, span_scores, split_scores)
        return self._best(packed)

    def loss_augmented_argmax(
        self,
        word_scores: Any,
        rule_scores: Any,
        span_scores: Any = None,
        split_scores: Any = None,
        *,
        y: Any,
        cost: float = 1.0,
    ) -> Any:
        """A derivation with the largest score plus `cost` times half the nodes that it or `y` alone has."""
        packed = self.pack(word_scores, rule_scores, span_scores, split_scores)
        number = float(checked_scores(cost, "cost", ()))
        truths = [self.labels_of(each) for each in ([y] if packed.single else y)]
        if len(truths) != len(packed.lengths):
            raise InputError(f"y must have {len(packed.lengths)} derivations, one per sentence")
        costs = self.part_costs(
            np.concatenate([*truths, np.zeros((0, 4), np.int64)]), packed.shapes, "hamming"
        )
        scores = packed.scores.copy()
        scores[: len(costs)] += number * costs
        return self._best(packed._replace(scores=scores))

    def kbest(
        self,
        word_scores: Any,
        rule_scores: Any,
        span_scores: Any = None,
        k: int = 5,
        split_scores: Any = None,
    ) -> Any:
        """The k best derivations: a list of (derivation, score), best first, or a list of such lists."""
        k = checked_count(k, "k")
        packed, results = self.pack(word_scores, rule_scores, span_scores, split_scores), []
        for e in range(len(packed.lengths)):
            found = list(self._lazily(*self._example(packed, e), k))
            require_possible(_values(packed, e, bool(found)), packed.single)
            results.append(found)
        return results[0] if packed.single else results

    def sample(
        self,
        word_scores: Any,
        rule_scores: Any,
        span_scores: Any = None,
        n_samples: int = 1,
        random_state: Any = None,
        split_scores: Any = None,
    ) -> Any:
        """A list of `n_samples` derivations drawn with probability ∝ exp(score), or a list of such lists."""
        from partwise.structures.grammar.samples import sample_derivations

        n_samples, generator = checked_count(n_samples, "n_samples"), random_generator(random_state)
        packed, results = self.pack(word_scores, rule_scores, span_scores, split_scores), []
        for e, n in enumerate(packed.lengths.tolist()):
            shape, scores = self._example(packed, e)
            nodes, counts = np.empty((n_samples, 4 * n, 3), np.int64), np.zeros(n_samples, np.int64)
            uniforms, room = generator.random((n_samples, 6 * n)), packed.room()
            total = sample_derivations(self.specification(), shape, scores, uniforms, room, nodes, counts)
            require_possible(_values(packed, e, total > -np.inf), packed.single)
            drawn = [nodes[k, : counts[k]].tolist() for k in range(n_samples)]
            results.append([[tuple(node) for node in each] for each in drawn])
        return results[0] if packed.single else results

    def entropy(
        self, word_scores: Any, rule_scores: Any, span_scores: Any = None, split_scores: Any = None
    ) -> Any:
        """Entropy in nats: a float, or float64 (n,) for a list."""
        return self.pack(word_scores, rule_scores, span_scores, split_scores).entropy()

    def log_count(self, length: Any) -> Any:
        """Log of the number of derivations: a float, or float64 (n,) for many lengths."""
        lengths = np.asarray(length, np.int64)
        if lengths.size and lengths.min() < 1:
            raise InputError("length must be at least 1")
        different = np.unique(lengths)
        counts = np.array([self._zeros(int(n)).log_partition() for n in different])
        found = counts[np.searchsorted(different, lengths)]
        return float(found) if lengths.ndim == 0 else found

    def kbest_parts(self, shape: np.ndarray, scores: np.ndarray, k: int) -> list[np.ndarray]:
        shapes = Shapes(np.array([0, len(shape)]), np.ascontiguousarray(shape, np.int32))
        slack = np.concatenate([np.asarray(scores, np.float64)[: self.n_parts(shapes)[0]], np.zeros(LANES)])
        found = self._lazily(shapes.values, slack, k)
        labels = [self.labels_of(y) for y, _ in found]
        return [self.parts_of_nodes(each, np.array([0, len(each)]), shapes).part for each in labels]

    # One derivation.

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
        self, y: Any, word_scores: Any, rule_scores: Any, span_scores: Any = None, split_scores: Any = None
    ) -> float:
        """Score of one derivation, summed node by node."""
        total = 0.0
        for (first, last, symbol, rule), cut in zip(self.labels_of(y).tolist(), self._cuts(y), strict=True):
            if rule < 0:
                total += float(np.asarray(word_scores)[first, symbol])
                continue
            total += float(np.asarray(rule_scores)[rule])
            total += 0.0 if span_scores is None else float(np.asarray(span_scores)[first, last, symbol])
            if cut >= 0 and split_scores is not None:
                total += float(np.asarray(split_scores)[first, cut, last])
        return total

    def indicators(self, y: Any) -> GrammarMarginals:
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
        return GrammarMarginals(word, rule, span)

    # Shared by the methods above.

    def _with_rules(
        self, first: np.ndarray, last: np.ndarray, symbol: np.ndarray, is_unary: np.ndarray
    ) -> np.ndarray:
        """Labels of nodes in preorder: words have −1, and so has what no rule builds."""
        from partwise.structures.grammar.nodes import in_preorder

        is_word = (first == last) & ~is_unary
        none = np.zeros(len(first), np.int64)
        return in_preorder(none, first, last, symbol, is_word, is_unary, self._table)

    def _cuts(self, y: Any) -> list[int]:
        """Where the node is cut that a binary rule built; −1 for others."""
        nodes = [tuple(node) for node in y]
        following = [*nodes[1:], (-1, -1, -1)]
        return [
            below[1] if below[0] == first and below[1] < last else -1
            for (first, last, _), below in zip(nodes, following, strict=True)
        ]

    def _best(self, packed: Packed) -> Any:
        if not len(packed.lengths):
            return []
        labels = packed.best()
        ptr = self._node_ptr(labels, packed.shapes)
        found = [[tuple(node) for node in labels[a:b, :3].tolist()] for a, b in pairwise(ptr)]
        return found[0] if packed.single else found

    def _lazily(self, shape: np.ndarray, scores: np.ndarray, k: int) -> Iterator[tuple[Derivation, float]]:
        from partwise.structures.grammar.paths import LazyDerivations, fill_best_charts

        shapes = Shapes(np.array([0, len(shape)]), shape)
        room = self.workspace(shapes)
        if fill_best_charts(self.specification(), shape, scores, room) == -np.inf:
            return
        lazy = LazyDerivations(self.specification(), shape, scores, room, k)
        for rank in range(k):
            found = lazy.derivation(rank)
            if found is None:
                return
            yield found

    def _example(self, packed: Packed, e: int) -> tuple[np.ndarray, np.ndarray]:
        """Shape and scores, with slack, of one example."""
        first, last = packed.part_ptr[e : e + 2]
        shape = packed.shapes.values[packed.shapes.ptr[e] : packed.shapes.ptr[e + 1]]
        return np.ascontiguousarray(shape), np.ascontiguousarray(packed.scores[first : last + LANES])

    def _marginals(self, packed: Packed, e: int, counts: np.ndarray) -> GrammarMarginals:
        n, width = int(packed.lengths[e]), len(self.word_symbols)
        own = counts[packed.part_ptr[e] : packed.part_ptr[e + 1]]
        word, span = np.zeros((n, self.n_symbols)), np.zeros((n, n, self.n_symbols))
        word[:, self.word_symbols] = own[: n * width].reshape(n, width)
        ptr, first, last = self.spans_of(packed.shapes.take(np.array([e])))
        rows = own[n * width :][: ptr[-1] * self.kinds[1].width].reshape(ptr[-1], self.kinds[1].width)
        n_binary = len(self.binary_symbols)
        span[first[:, None], last[:, None], self.binary_symbols] += rows[:, :n_binary]
        span[first[:, None], last[:, None], self.unary_symbols] += rows[:, n_binary:]
        return GrammarMarginals(word, own[len(own) - self.n_rules :], span)

    def _zeros(self, n: int) -> Packed:
        """A sentence whose parts all score zero."""
        shapes = self.shapes([n])
        size = int(self.n_parts(shapes)[0])
        return Packed(self, self.specification(), shapes, np.array([0, size]), np.zeros(size + LANES), True)

    def pack(
        self, word_scores: Any, rule_scores: Any, span_scores: Any = None, split_scores: Any = None
    ) -> Packed:
        """Scores as compiled code reads them, with answers for all parts, such as pruning asks for."""
        single = is_single(word_scores)
        words = [word_scores] if single else list(word_scores)
        spans = _per_sentence(span_scores, "span_scores", len(words), single)
        splits = _per_sentence(split_scores, "split_scores", len(words), single)
        if split_scores is not None and not self.splits:
            raise InputError("split_scores need a grammar with splits=True")
        rules = checked_scores(rule_scores, "rule_scores", (self.n_rules,))
        pieces, lengths = [], []
        for e, (word, span, split) in enumerate(zip(words, spans, splits, strict=True)):
            where = "" if single else f"[{e}]"
            own = checked_scores(word, f"word_scores{where}", (None, self.n_symbols))
            if not len(own):
                raise InputError(f"word_scores{where} has no words; a sentence needs at least one")
            pieces.extend(self._parts_of_scores(own, span, split, where))
            pieces.append(rules)
            lengths.append(len(own))
        shapes = self.shapes(lengths)
        flat = np.concatenate([*pieces, np.zeros(LANES)])
        return Packed(self, self.specification(), shapes, offsets(self.n_parts(shapes)), flat, single)

    def _parts_of_scores(self, word: np.ndarray, span: Any, split: Any, where: str) -> list[np.ndarray]:
        n, columns = len(word), np.concatenate([self.binary_symbols, self.unary_symbols])
        shapes = self.shapes([n])
        _, first, last = self.spans_of(shapes)
        rows = np.zeros((len(first), len(columns)))
        if span is not None:
            span = checked_scores(span, f"span_scores{where}", (n, n, self.n_symbols))
            rows = span[first[:, None], last[:, None], columns]
        pieces = [word[:, self.word_symbols].ravel(), rows.ravel()]
        if self.splits:
            counts = last - first
            cut = np.arange(counts.sum()) - np.repeat(offsets(counts)[:-1] - first, counts)
            first, last = np.repeat(first, counts), np.repeat(last, counts)
            table = np.zeros((n, n, n)) if split is None else split
            table = checked_scores(table, f"split_scores{where}", (n, n, n))
            pieces.append(table[first, cut, last])
        return pieces


def _per_sentence(scores: Any, name: str, count: int, single: bool) -> list[Any]:
    if scores is None:
        return [None] * count
    each = [scores] if single else list(scores)
    if len(each) != count:
        raise InputError(f"word_scores has {count} sentences, {name} has {len(each)}")
    return each


def _values(packed: Packed, e: int, possible: bool) -> np.ndarray:
    """Zeros, and −inf for one example where nothing is possible."""
    values = np.zeros(len(packed.lengths))
    values[e] = 0.0 if possible else -np.inf
    return values


def _derivations(grammar: Grammar, i: int, j: int, symbol: int, may_be_unary: bool) -> list[Derivation]:
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
