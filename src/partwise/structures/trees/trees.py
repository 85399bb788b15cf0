"""Inference for dependency trees: the methods of `projective.py` and `spanning.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.core.randomness import random_generator
from partwise.errors import InputError
from partwise.structures.checks import checked_count, checked_samples, require_possible, room_for_best
from partwise.structures.contract import Shapes
from partwise.structures.trees.inference import (
    best_of_matrices,
    log_partitions_of_matrices,
    marginals_of_matrices,
)
from partwise.structures.trees.parts import LabelledHeads, TreeMarginals, TreeParts
from partwise.structures.trees.scores import TreeScores, read_scores, refuse_numbers


class Trees(TreeParts):
    """Inference for trees over the words 1 … n and the root 0.

    All methods take, for one sentence of n words,

    - `arc_scores` (n + 1, n + 1) by [head, modifier]. The first column and the diagonal are not read;
    - if `n_relations` R is above 1, `relation_scores` (n + 1, n + 1, R) by [head, modifier, relation]. The score of an
      arc with a relation is the sum of both.

    For many sentences pass lists of such arrays. Results are then lists, or arrays of numbers. −inf forbids an arc.
    A tree is an array of heads (n,). With relations it is a pair ``(heads, relations)`` of such arrays.
    """

    def log_partition(self, arc_scores: Any, relation_scores: Any = None) -> Any:
        """log Σ exp(score of a tree): a float, or float64 (n,) for a list. −inf if no tree is possible."""
        scores = self._read(arc_scores, relation_scores)
        values = np.empty(len(scores.lengths))
        if len(values):
            bad = log_partitions_of_matrices(self.specification(), *scores[:3], values)
            _refuse(bad, None, scores)
        return float(values[0]) if scores.single else values

    def marginals(self, arc_scores: Any, relation_scores: Any = None) -> Any:
        """Probabilities of arcs.

        Returns
        -------
        ndarray (n + 1, n + 1), or TreeMarginals
            By [head, modifier]. With relations, ``arc`` and ``relation`` (n + 1, n + 1, R). Or a list of these.
        """
        scores = self._read(arc_scores, relation_scores)
        arcs, relations, _ = self._run_marginals(scores)
        if not self.labelled and scores.single:
            return arcs.reshape(scores.lengths[0] + 1, -1)
        results, first = [], 0
        for n in scores.lengths.tolist():
            shape, last = (n + 1, n + 1), first + (n + 1) ** 2
            arc = arcs[first:last].reshape(shape)
            relation = relations[first * self.n_relations : last * self.n_relations]
            results.append(
                TreeMarginals(arc, relation.reshape(*shape, self.n_relations)) if self.labelled else arc
            )
            first = last
        return results[0] if scores.single else results

    def entropy(self, arc_scores: Any, relation_scores: Any = None) -> Any:
        """Entropy in nats: a float, or float64 (n,). The error is about 1e-16·s² for scores of size s."""
        scores = self._read(arc_scores, relation_scores)
        entropies = self._run_marginals(scores)[2]
        return float(entropies[0]) if scores.single else entropies

    def argmax(self, arc_scores: Any, relation_scores: Any = None) -> Any:
        """A best tree, or a list of them."""
        return self._best(self._read(arc_scores, relation_scores))

    def loss_augmented_argmax(
        self, arc_scores: Any, relation_scores: Any = None, y: Any = None, cost: Any = 1.0
    ) -> Any:
        """A tree with the largest score plus cost.

        Parameters
        ----------
        y : a tree, or a list of them
            True heads, or pairs of true heads and relations.
        cost : float, or array_like (n + 1, n + 1), or a list of these
            The cost of each word with a wrong head or relation if a number, else the cost of every arc.
        """
        scores = self._read(arc_scores, relation_scores)
        if y is None:
            raise InputError("y, the true tree, is missing")
        trees, costs = ([y], [cost]) if scores.single else (list(y), cost)
        if not isinstance(costs, list | tuple):
            costs = [costs] * len(trees)
        if not len(trees) == len(costs) == len(scores.lengths):
            raise InputError(f"y and cost must have {len(scores.lengths)} entries, one per sentence")
        arcs, relations = scores.arcs.copy(), scores.relations.copy()
        first = 0
        for n, tree, own_cost in zip(scores.lengths.tolist(), trees, costs, strict=True):
            last, width = first + (n + 1) ** 2, self.n_relations
            own = relations[first * width : last * width].reshape(n + 1, n + 1, -1)
            self.add_costs(n, arcs[first:last].reshape(n + 1, n + 1), own, tree, own_cost)
            first = last
        return self._best(scores._replace(arcs=arcs, relations=relations))

    def kbest(self, arc_scores: Any, relation_scores: Any = None, k: int = 5) -> Any:
        """The k best trees: a list of (tree, score), best first, or a list of such lists.

        Trees are distinct. There are fewer than `k` if fewer are possible.
        """
        from partwise.structures.trees.kbest import best_trees

        k, scores = checked_count(k, "k"), self._read(arc_scores, relation_scores, checked=True)
        log_counts, results = {n: self.log_count(n) for n in set(scores.lengths.tolist())}, []
        for i, (n, arcs, relations) in enumerate(scores.sentences()):
            capacity = room_for_best(k, log_counts[n], n * (n / 2 + 4))
            codes, values = np.empty((capacity, n), np.int64), np.empty(capacity)
            found = best_trees(self.specification(), n, arcs, relations, codes, values)
            _require(found > 0, i, scores)
            results.append([(self.from_codes(codes[r]), float(values[r])) for r in range(found)])
        return results[0] if scores.single else results

    def sample(
        self, arc_scores: Any, relation_scores: Any = None, n_samples: int = 1, random_state: Any = None
    ) -> Any:
        """Trees drawn with probability ∝ exp(score).

        Returns
        -------
        ndarray (n_samples, n) of heads, or a list of n_samples pairs of heads and relations
            Or a list of these.
        """
        from partwise.structures.trees.samples import sample_relations

        n_samples, generator = checked_samples(n_samples), random_generator(random_state)
        scores = self._read(arc_scores, relation_scores, checked=True)
        results: list[Any] = []
        for i, (n, arcs, relations) in enumerate(scores.sentences()):
            heads = np.zeros((n_samples, n), np.int64)
            _require(self._sample_heads(n, arcs, relations, heads, generator), i, scores)
            if self.labelled:
                labels, uniforms = np.empty_like(heads), generator.random(heads.shape)
                sample_relations(n, relations, self.n_relations, uniforms, heads, labels)
                results.append([LabelledHeads(*pair) for pair in zip(heads, labels, strict=True)])
            else:
                results.append(heads)
        return results[0] if scores.single else results

    def kbest_parts(self, shape: np.ndarray, scores: np.ndarray, k: int) -> list[np.ndarray]:
        shapes = Shapes(np.array([0, len(shape)]), np.asarray(shape))
        _, head, modifier = self.arcs_of(shapes)
        size = int(shape[0]) + 1
        arcs, relations = np.full((size, size), -np.inf), None
        arcs[head, modifier] = scores[: len(head)]
        if self.labelled:
            relations = np.zeros((size, size, self.n_relations))
            relations[head, modifier] = scores[len(head) :].reshape(-1, self.n_relations)
        return [self.parts_of_trees(self.codes(y), shapes).part for y, _ in self.kbest(arcs, relations, k)]

    def log_count(self, length: Any) -> Any:
        """Log of the number of trees, with relations: a float, or float64 (n,) for many lengths."""
        lengths = np.asarray(length, np.int64)
        if lengths.size and lengths.min() < 1:
            raise InputError("length must be at least 1")
        different = np.unique(lengths)
        zeros = [np.zeros((n + 1, n + 1)) for n in different.tolist()]
        counts = type(self)(single_root=self.single_root).log_partition(zeros)
        counts = counts + different * np.log(self.n_relations)
        found = counts[np.searchsorted(different, lengths)]
        return float(found) if lengths.ndim == 0 else found

    # Shared by the methods above.

    def _sample_heads(
        self, n: int, arcs: np.ndarray, relations: np.ndarray, heads: np.ndarray, generator: Any
    ) -> bool:
        """Fill `heads` (n_samples, n). Returns False if no tree is possible."""
        raise NotImplementedError

    def _read(self, arc_scores: Any, relation_scores: Any, checked: bool = False) -> TreeScores:
        scores = read_scores(self.n_relations, arc_scores, relation_scores)
        if checked:
            wrong = np.flatnonzero(~(scores.arcs < np.inf))
            if wrong.size:
                ends = np.cumsum((scores.lengths + 1) ** 2)
                refuse_numbers(int(np.searchsorted(ends, wrong[0], side="right")), scores.single)
        return scores

    def _run_marginals(self, scores: TreeScores) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        n = len(scores.lengths)
        arcs, values, entropies = np.empty(len(scores.arcs)), np.zeros(n), np.empty(n)
        relations = np.empty(len(arcs) * self.n_relations if self.labelled else 0)
        if n:
            bad = marginals_of_matrices(self.specification(), *scores[:3], arcs, relations, values, entropies)
            _refuse(bad, values, scores)
        return arcs, relations, entropies

    def _best(self, scores: TreeScores) -> Any:
        n_words = scores.n_words
        heads, labels = np.empty(n_words, np.int64), np.empty(n_words if self.labelled else 0, np.int64)
        values = np.zeros(len(scores.lengths))
        if len(values):
            bad = best_of_matrices(self.specification(), *scores[:3], heads, labels, values)
            _refuse(bad, values, scores)
        if scores.single:
            return LabelledHeads(heads, labels) if self.labelled else heads
        ends = np.cumsum(scores.lengths)[:-1]
        if not self.labelled:
            return np.split(heads, ends) if len(values) else []
        pieces = zip(np.split(heads, ends), np.split(labels, ends), strict=True)
        return [LabelledHeads(*pair) for pair in pieces] if len(values) else []


def _refuse(bad: int, values: np.ndarray | None, scores: TreeScores) -> None:
    """Raise if compiled code found NaN or +inf in a sentence, or a sentence without a possible tree."""
    if bad >= 0:
        refuse_numbers(bad, scores.single)
    if values is not None and (not scores.single or values[0] == -np.inf):
        require_possible(values, scores.single)


def _require(possible: bool, sentence: int, scores: TreeScores) -> None:
    if not possible:
        values = np.zeros(len(scores.lengths))
        values[sentence] = -np.inf
        require_possible(values, scores.single)
