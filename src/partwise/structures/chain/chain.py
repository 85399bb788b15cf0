"""Chains: one label per position, scored alone and together with the labels before it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from partwise.core.arrays import offsets
from partwise.core.randomness import random_generator
from partwise.structures.chain.parts import ChainMarginals, ChainParts
from partwise.structures.chain.scores import ArrayOrList, ChainScores, add_costs, read_scores
from partwise.structures.checks import (
    checked_count,
    checked_labels,
    checked_samples,
    require_possible,
    room_for_best,
)
from partwise.structures.packed import Packed

__all__ = ["Chain", "ChainMarginals"]


class Chain(ChainParts):
    """Label sequences whose scores add up over positions and runs of ``order + 1`` labels.

    Parameters
    ----------
    n_labels : int
        L.
    tied : bool
        For solvers: transition weights are the same at all positions (one L×L block), or come from edge rows
        (length - 1 blocks). The methods below take scores of either form.
    order : int
        How many labels before it a label is scored with.
    allowed : array_like of bool (L, L), optional
        Whether label j may follow label i. :func:`transition_mask` makes all three masks.
    allowed_start, allowed_end : array_like of bool (L,), optional
        Whether a label may stand first, last.

    Notes
    -----
    All methods take, for one sequence,

    - `node_scores` (length, L);
    - `edge_scores`: for order 1 ``[before, after]`` (L, L), or (length - 1, L, L) with a block for each pair of
      neighbours. For order k an array ``((L + 1),) * k + (L,)``, indexed by the k labels before (oldest first) and
      the label itself; index L means "before the start";
    - `start_scores`, `end_scores` (L,), optional: added to the first and to the last node.

    For many sequences `node_scores` is a list of such arrays (or one array with three axes). `edge_scores` is then one
    (L, L) array for all, or a list with one array for each. Results are lists, or arrays of numbers. Scores may be
    −inf.
    """

    def untied(self) -> Chain:
        """The chain with a block of edges for each pair of neighbours; itself for orders above 1."""
        if not self.tied or self.order > 1:
            return self
        return Chain(
            self.n_labels, tied=False, allowed=self.allowed, allowed_start=self.allowed_start,
            allowed_end=self.allowed_end,
        )  # fmt: skip

    def log_partition(
        self,
        node_scores: ArrayOrList,
        edge_scores: ArrayOrList,
        start_scores: ArrayLike | None = None,
        end_scores: ArrayLike | None = None,
    ) -> Any:
        """log Σ_y exp(score of y): a float, or float64 (n,) for a list; −inf if nothing is possible."""
        scores = self._read(node_scores, edge_scores, start_scores, end_scores)
        return self._pack(scores).log_partition()

    def marginals(
        self,
        node_scores: ArrayOrList,
        edge_scores: ArrayOrList,
        start_scores: ArrayLike | None = None,
        end_scores: ArrayLike | None = None,
    ) -> Any:
        """Probabilities of labels and of pairs of neighbours.

        Returns
        -------
        ChainMarginals, or a list of them
            ``node`` (length, L); ``edge`` (length - 1, L, L), one block per position even if `edge_scores` are
            shared. For order k ≥ 2 ``edge`` has the shape of `edge_scores`: expected counts, summed over positions.
            :meth:`expected_counts` is cheaper if sums are enough.
        """
        scores = self._read(node_scores, edge_scores, start_scores, end_scores)
        if self.order > 1 or scores.per_position:
            return self._counts(scores)
        from partwise.structures.chain.pairs import chain_pairs_of_all

        packed = self._pack(scores)
        pair_ptr = offsets((packed.lengths - 1) * self.n_labels**2)
        counts, pairs = np.empty(packed.part_ptr[-1]), np.empty(pair_ptr[-1])
        values = np.empty(len(packed.lengths))
        chain_pairs_of_all(
            packed.specification, packed.lengths, packed.part_ptr, packed.scores, counts, pair_ptr, pairs,
            values, packed.room(),
        )  # fmt: skip
        require_possible(values, packed.single)
        return self._shaped(packed, counts, pairs, pair_ptr, (-1, self.n_labels, self.n_labels))

    def expected_counts(
        self,
        node_scores: ArrayOrList,
        edge_scores: ArrayOrList,
        start_scores: ArrayLike | None = None,
        end_scores: ArrayLike | None = None,
    ) -> Any:
        """Gradient of the log-partition: ``node`` and ``edge`` in the shapes of the scores given."""
        return self._counts(self._read(node_scores, edge_scores, start_scores, end_scores))

    def argmax(
        self,
        node_scores: ArrayOrList,
        edge_scores: ArrayOrList,
        start_scores: ArrayLike | None = None,
        end_scores: ArrayLike | None = None,
    ) -> Any:
        """A best labelling, int64 (length,), or a list of them."""
        return self._best(self._read(node_scores, edge_scores, start_scores, end_scores))

    def loss_augmented_argmax(
        self,
        node_scores: ArrayOrList,
        edge_scores: ArrayOrList,
        y: Any,
        cost: Any = 1.0,
        start_scores: ArrayLike | None = None,
        end_scores: ArrayLike | None = None,
    ) -> Any:
        """A labelling with the largest score plus cost.

        Parameters
        ----------
        y : array_like of int (length,), or a list of them
            True labels.
        cost : float, or array_like (length, L), or a list of them
            A number is the cost of each wrong label. An array has the cost of every label.
        """
        return self._best(add_costs(self._read(node_scores, edge_scores, start_scores, end_scores), y, cost))

    def kbest(
        self,
        node_scores: ArrayOrList,
        edge_scores: ArrayOrList,
        k: int = 5,
        start_scores: ArrayLike | None = None,
        end_scores: ArrayLike | None = None,
    ) -> Any:
        """The k best labellings: a list of (labels (length,), score), best first, or a list of such lists.

        All are distinct. The list is shorter if fewer labellings are possible.
        """
        from partwise.structures.chain.recursion import best_labellings

        k = checked_count(k, "k")
        scores = self._read(node_scores, edge_scores, start_scores, end_scores)
        if k == 1:
            return self._single_best(scores)
        specification, results = self._specification(not scores.per_position), []
        for i, (length, own) in enumerate(scores.vectors()):
            n_cells = length * self.n_labels**self.order
            room = room_for_best(k, length * np.log(self.n_labels), 2 * n_cells + length)
            labels, values = np.empty((room, length), np.int64), np.empty(room)
            found = best_labellings(specification, length, own, labels, values)
            _require_found(found > 0, i, scores)
            results.append([(labels[rank], float(values[rank])) for rank in range(found)])
        return results[0] if scores.single else results

    def sample(
        self,
        node_scores: ArrayOrList,
        edge_scores: ArrayOrList,
        n_samples: int = 1,
        random_state: Any = None,
        start_scores: ArrayLike | None = None,
        end_scores: ArrayLike | None = None,
    ) -> Any:
        """Labellings drawn with probability ∝ exp(score): int64 (n_samples, length), or a list of those."""
        from partwise.structures.chain.recursion import sample_labellings

        n_samples, generator = checked_samples(n_samples), random_generator(random_state)
        scores = self._read(node_scores, edge_scores, start_scores, end_scores)
        specification, results = self._specification(not scores.per_position), []
        for i, (length, own) in enumerate(scores.vectors()):
            labels = np.empty((n_samples, length), np.int64)
            log_total = sample_labellings(specification, length, own, generator.random(labels.shape), labels)
            _require_found(log_total > -np.inf, i, scores)
            results.append(labels)
        return results[0] if scores.single else results

    def entropy(
        self,
        node_scores: ArrayOrList,
        edge_scores: ArrayOrList,
        start_scores: ArrayLike | None = None,
        end_scores: ArrayLike | None = None,
    ) -> Any:
        """Entropy in nats: a float, or float64 (n,). For scores of size s the error is about 1e-16·s·length."""
        return self._pack(self._read(node_scores, edge_scores, start_scores, end_scores)).entropy()

    def score(
        self,
        y: ArrayLike,
        node_scores: ArrayLike,
        edge_scores: ArrayLike,
        start_scores: ArrayLike | None = None,
        end_scores: ArrayLike | None = None,
    ) -> float:
        """Score of one labelling of one sequence, −inf if a mask forbids it."""
        labels = checked_labels(y, "y", self.n_labels).tolist()
        nodes, edges = np.asarray(node_scores, float), np.asarray(edge_scores, float)
        total = sum(nodes[t, label] for t, label in enumerate(labels))
        if self.order == 1:
            for t, pair in enumerate(pairwise(labels)):
                total += edges[pair] if edges.ndim == 2 else edges[t][pair]
        else:
            padded = [self.n_labels] * self.order + labels
            total += sum(edges[tuple(padded[t : t + self.order + 1])] for t in range(len(labels)))
        if start_scores is not None:
            total += np.asarray(start_scores, float)[labels[0]]
        if end_scores is not None:
            total += np.asarray(end_scores, float)[labels[-1]]
        return float(total) if self.is_allowed(labels) else -np.inf

    def kbest_parts(self, shape: np.ndarray, scores: np.ndarray, k: int) -> list[np.ndarray]:
        length, n_labels = int(shape[0]), self.n_labels
        nodes, edges = np.split(scores, [length * n_labels])
        if self.order > 1:
            form: tuple[int, ...] = (n_labels + 1,) * self.order + (n_labels,)
        else:
            form = (n_labels, n_labels) if self.tied else (length - 1, n_labels, n_labels)
        found = self.kbest(nodes.reshape(length, n_labels), edges.reshape(form), k=k)
        return [self.encode(labels) for labels, _ in found]

    # Shared by the methods above.

    def _read(self, *scores: Any) -> ChainScores:
        return read_scores(self.n_labels, self.order, *scores)

    def _pack(self, scores: ChainScores) -> Packed:
        lengths = scores.lengths
        edges = (lengths - 1) * self.n_labels**2 if scores.per_position else self.n_histories * self.n_labels
        part_ptr = offsets(lengths * self.n_labels + edges)
        specification = self._specification(not scores.per_position)
        return Packed(self, specification, self.shapes(lengths), part_ptr, scores.vector(), scores.single)

    def _best(self, scores: ChainScores) -> Any:
        labels = self._pack(scores).best()
        bounds = scores.starts.tolist()
        return labels if scores.single else [labels[a:b] for a, b in pairwise(bounds)]

    def _single_best(self, scores: ChainScores) -> Any:
        """As `kbest` with k = 1, without lists."""
        packed = self._pack(scores)
        values, counts = packed.answers("best", 1)
        require_possible(values, scores.single)
        labels, bounds = packed.labels(counts), pairwise(scores.starts.tolist())
        results = [[(labels[a:b], value)] for (a, b), value in zip(bounds, values.tolist(), strict=True)]
        return results[0] if scores.single else results

    def _counts(self, scores: ChainScores) -> Any:
        packed = self._pack(scores)
        counts = packed.expectations()[1]
        if self.order > 1:
            shape: tuple[int, ...] = (self.n_labels + 1,) * self.order + (self.n_labels,)
        else:
            shape = (-1, self.n_labels, self.n_labels)[0 if scores.per_position else 1 :]
        return self._shaped(packed, counts, None, packed.part_ptr, shape)

    def _shaped(
        self,
        packed: Packed,
        counts: np.ndarray,
        pairs: np.ndarray | None,
        edge_ptr: np.ndarray,
        shape: tuple[int, ...],
    ) -> Any:
        """Views of the nodes in `counts` and of the edges in `pairs`, or behind the nodes in `counts`."""
        n_labels, results = self.n_labels, []
        firsts, edge_bounds = packed.part_ptr[:-1].tolist(), pairwise(edge_ptr.tolist())
        bounds = zip(firsts, packed.lengths.tolist(), edge_bounds, strict=True)
        for first, length, (edge_first, edge_last) in bounds:
            nodes_end = first + length * n_labels
            edges = counts[nodes_end:edge_last] if pairs is None else pairs[edge_first:edge_last]
            edge_shape = (length - 1, *shape[1:]) if shape[0] < 0 else shape
            node = counts[first:nodes_end].reshape(length, n_labels)
            results.append(ChainMarginals(node, edges.reshape(edge_shape)))
        return results[0] if packed.single else results


def _require_found(found: bool, sequence: int, scores: ChainScores) -> None:
    if not found:
        values = np.zeros(len(scores.edges))
        values[sequence] = -np.inf
        require_possible(values, scores.single)
