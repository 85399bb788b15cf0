"""Weighted context-free grammars: the methods for users. `parts.py` defines the parts of a derivation."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from partwise.compiled.simd import LANES
from partwise.core.arrays import offsets
from partwise.core.randomness import random_generator
from partwise.errors import InputError
from partwise.structures.checks import (
    checked_count,
    checked_samples,
    checked_scores,
    is_single,
    require_possible,
)
from partwise.structures.contract import Shapes
from partwise.structures.grammar.anchoring import AnchoredRules
from partwise.structures.grammar.derivations import (
    AnchoredMarginals,
    Derivation,
    GrammarMarginals,
    SingleDerivations,
)
from partwise.structures.packed import Packed


class Grammar(SingleDerivations):
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
        Parent and child of each unary rule. At most one is applied on top of a node, so that cycles do no harm.
    word_symbols : array_like of int, optional
        Symbols that may stand over words without a rule. By default all; scores of −inf exclude symbols.
    splits : bool
        Whether splits at given words are parts, with their own rows.
    anchored : bool
        Whether anchored rules ⟨A → B C, first, cut, last⟩ are parts, with their own rows (Bartlett et al. 2004, example
        2). Derivations use the anchored rules that their example lists: all, or those that pruning has left.

    Notes
    -----
    All methods take, for one sentence of n words,

    - `word_scores` (n, N): symbols over single words, not built by a rule; columns of symbols that
      are not `word_symbols` are not read;
    - `rule_scores` (R + U,): binary rules, then unary rules;
    - `span_scores` (n, n, N) by [first word, last word, symbol], optional: symbols that a rule builds over a span,
      over one word by unary rules only. −inf forbids a symbol over a span.
    - `split_scores` (n, n, n) by [first word, last word of the left node, last word], with ``splits=True``, optional.
    - `anchored_scores`, with ``anchored=True``, optional: (R + U, n, n, n) by [rule, first word, last word of the left
      node, last word], the last two being equal for unary rules; or :class:`AnchoredRules`, the only ones allowed.

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
        self,
        word_scores: Any,
        rule_scores: Any,
        span_scores: Any = None,
        split_scores: Any = None,
        anchored_scores: Any = None,
    ) -> Any:
        """log Σ exp(score of a derivation): a float, or float64 (n,) for a list; −inf if none is possible."""
        return self.pack(word_scores, rule_scores, span_scores, split_scores, anchored_scores).log_partition()

    def marginals(
        self,
        word_scores: Any,
        rule_scores: Any,
        span_scores: Any = None,
        split_scores: Any = None,
        anchored_scores: Any = None,
    ) -> Any:
        """A :class:`GrammarMarginals`, :class:`AnchoredMarginals` with anchored rules, or a list of them."""
        packed = self.pack(word_scores, rule_scores, span_scores, split_scores, anchored_scores)
        _, counts = packed.expectations()
        given = _per_sentence(anchored_scores, "anchored_scores", len(packed.lengths), packed.single)
        results = [self._marginals(packed, e, counts, given[e]) for e in range(len(packed.part_ptr) - 1)]
        return results[0] if packed.single else results

    def argmax(
        self,
        word_scores: Any,
        rule_scores: Any,
        span_scores: Any = None,
        split_scores: Any = None,
        anchored_scores: Any = None,
    ) -> Any:
        """A best derivation, or a list of them."""
        packed = self.pack(word_scores, rule_scores, span_scores, split_scores, anchored_scores)
        return self._best(packed)

    def loss_augmented_argmax(
        self,
        word_scores: Any,
        rule_scores: Any,
        span_scores: Any = None,
        split_scores: Any = None,
        anchored_scores: Any = None,
        *,
        y: Any,
        cost: float = 1.0,
    ) -> Any:
        """A derivation with the largest score plus `cost` times half the nodes that it or `y` alone has."""
        packed = self.pack(word_scores, rule_scores, span_scores, split_scores, anchored_scores)
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
        anchored_scores: Any = None,
    ) -> Any:
        """The k best derivations: a list of (derivation, score), best first, or a list of such lists."""
        k = checked_count(k, "k")
        packed, results = self.pack(word_scores, rule_scores, span_scores, split_scores, anchored_scores), []
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
        anchored_scores: Any = None,
    ) -> Any:
        """A list of `n_samples` derivations drawn with probability ∝ exp(score), or a list of such lists."""
        from partwise.structures.grammar.recursion import sample_derivations

        n_samples, generator = checked_samples(n_samples), random_generator(random_state)
        packed, results = self.pack(word_scores, rule_scores, span_scores, split_scores, anchored_scores), []
        for e, n in enumerate(packed.lengths.tolist()):
            shape, scores = self._example(packed, e)
            nodes, counts = np.empty((n_samples, 12 * n), np.int64), np.zeros(n_samples, np.int64)
            uniforms, room = generator.random((n_samples, 6 * n)), packed.room()
            total = sample_derivations(self.specification(), shape, scores, uniforms, room, nodes, counts)
            require_possible(_values(packed, e, total > -np.inf), packed.single)
            triples = nodes.reshape(n_samples, 4 * n, 3)
            drawn = [triples[k, : counts[k]].tolist() for k in range(n_samples)]
            results.append([[tuple(node) for node in each] for each in drawn])
        return results[0] if packed.single else results

    def entropy(
        self,
        word_scores: Any,
        rule_scores: Any,
        span_scores: Any = None,
        split_scores: Any = None,
        anchored_scores: Any = None,
    ) -> Any:
        """Entropy in nats: a float, or float64 (n,) for a list."""
        return self.pack(word_scores, rule_scores, span_scores, split_scores, anchored_scores).entropy()

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

    # Shared by the methods above.

    def _best(self, packed: Packed) -> Any:
        if not len(packed.lengths):
            return []
        labels = packed.best()
        ptr = self._node_ptr(labels, packed.shapes)
        found = [[tuple(node) for node in labels[a:b, :3].tolist()] for a, b in pairwise(ptr)]
        return found[0] if packed.single else found

    def _lazily(self, shape: np.ndarray, scores: np.ndarray, k: int) -> Iterator[tuple[Derivation, float]]:
        from partwise.structures.grammar.kbest import LazyDerivations
        from partwise.structures.grammar.recursion import fill_best_charts

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

    def _marginals(self, packed: Packed, e: int, counts: np.ndarray, given: Any) -> Any:
        n, width = int(packed.lengths[e]), len(self.word_symbols)
        own = counts[packed.part_ptr[e] : packed.part_ptr[e + 1]]
        word, span = np.zeros((n, self.n_symbols)), np.zeros((n, n, self.n_symbols))
        word[:, self.word_symbols] = own[: n * width].reshape(n, width)
        shapes = packed.shapes.take(np.array([e]))
        ptr, first, last = self.spans_of(shapes)
        rows = own[n * width :][: ptr[-1] * self.kinds[1].width].reshape(ptr[-1], self.kinds[1].width)
        n_binary, end = len(self.binary_symbols), len(own) - self.n_rules
        span[first[:, None], last[:, None], self.binary_symbols] += rows[:, :n_binary]
        span[first[:, None], last[:, None], self.unary_symbols] += rows[:, n_binary:]
        if not self.anchored:
            return GrammarMarginals(word, own[end:], span)
        _, rule, first, cut, last = self.anchored_of(shapes)
        places = rule, first, cut, last
        listed = own[end - len(places[0]) : end]
        if given is None or isinstance(given, AnchoredRules):
            return AnchoredMarginals(word, own[end:], span, AnchoredRules(*places, listed.copy()))
        anchored = np.zeros((self.n_rules, n, n, n))
        anchored[tuple(places)] = listed
        return AnchoredMarginals(word, own[end:], span, anchored)

    def _zeros(self, n: int) -> Packed:
        """A sentence whose parts all score zero."""
        shapes = self.shapes([n])
        size = int(self.n_parts(shapes)[0])
        return Packed(self, self.specification(), shapes, np.array([0, size]), np.zeros(size + LANES), True)

    def pack(
        self,
        word_scores: Any,
        rule_scores: Any,
        span_scores: Any = None,
        split_scores: Any = None,
        anchored_scores: Any = None,
    ) -> Packed:
        """Scores as compiled code reads them, with answers for all parts, such as pruning asks for."""
        single = is_single(word_scores)
        words = [word_scores] if single else list(word_scores)
        spans = _per_sentence(span_scores, "span_scores", len(words), single)
        splits = _per_sentence(split_scores, "split_scores", len(words), single)
        anchored = _per_sentence(anchored_scores, "anchored_scores", len(words), single)
        if split_scores is not None and not self.splits:
            raise InputError("split_scores need a grammar with splits=True")
        if anchored_scores is not None:
            self._need_anchored("anchored_scores")
        rules = checked_scores(rule_scores, "rule_scores", (self.n_rules,))
        pieces, shapes = [], [self.shapes([])]
        for e, (word, span, split) in enumerate(zip(words, spans, splits, strict=True)):
            where = "" if single else f"[{e}]"
            own = checked_scores(word, f"word_scores{where}", (None, self.n_symbols))
            if not len(own):
                raise InputError(f"word_scores{where} has no words; a sentence needs at least one")
            shapes.append(self._shape_for(len(own), anchored[e]))
            pieces.extend(self._parts_of_scores(shapes[-1], own, span, split, where))
            if self.anchored:
                pieces.append(self._scores_of_anchored(shapes[-1], anchored[e], where))
            pieces.append(rules)
        values = np.concatenate([each.values for each in shapes])
        every = Shapes(offsets([len(each.values) for each in shapes[1:]]), values)
        flat = np.concatenate([*pieces, np.zeros(LANES)])
        return Packed(self, self.specification(), every, offsets(self.n_parts(every)), flat, single)

    def _shape_for(self, n: int, anchored: Any) -> Shapes:
        """The shape of a sentence of n words, with the anchored rules given if there are any."""
        if not isinstance(anchored, AnchoredRules):
            return self.shapes([n])
        return self.anchored_shapes([n], [0, len(anchored.rule)], *anchored[:4])

    def _scores_of_anchored(self, shapes: Shapes, scores: Any, where: str) -> np.ndarray:
        """In the order of the shape's list."""
        n, (_, *places) = int(shapes.lengths[0]), self.anchored_of(shapes)
        if scores is None:
            return np.zeros(len(places[0]))
        if not isinstance(scores, AnchoredRules):
            table = checked_scores(scores, f"anchored_scores{where}", (self.n_rules, n, n, n))
            return np.asarray(table[tuple(places)], np.float64)
        own = checked_scores(scores.score, f"anchored_scores{where}", (len(places[0]),))
        ranks = self._ranks.rank_of[np.asarray(scores.rule, np.int64)]
        length = np.asarray(scores.last) - np.asarray(scores.first)
        return np.asarray(own[np.lexsort((scores.cut, ranks, scores.first, length))], np.float64)

    def _parts_of_scores(
        self, shapes: Shapes, word: np.ndarray, span: Any, split: Any, where: str
    ) -> list[np.ndarray]:
        n, columns = len(word), np.concatenate([self.binary_symbols, self.unary_symbols])
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
