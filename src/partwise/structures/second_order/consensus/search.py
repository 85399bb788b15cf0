"""The best second-order spanning tree: bounds at low temperatures, then branch and bound over heads.

For any temperature T, T · A(θ / T) ≥ max_y θ(y), with A the bound of `bound.py`. As T falls, the left side converges to
the Lagrangian dual of Koo et al. (2010): the spanning tree and all words, with their heads and modifiers, agree on
arcs. If the bound of a set of trees exceeds the best score found, the set is split: its least certain word has its
likeliest head, or another one. The set with the largest bound goes first.

A bound takes milliseconds, and goes through the structure's compiled answers. So the loop is in Python.
"""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple, cast

import numpy as np

from partwise.structures.contract import PartLists
from partwise.structures.packed import Packed

# Mean size of a score over the temperature. Beyond the last one L-BFGS hardly moves.
_SHARPNESS = (64.0, 16.0, 256.0)
_ROUNDING = 1e-11  # of the largest score, for each word


class Found(NamedTuple):
    """Codes (n,) of a tree, its score, a bound on the score of every tree, and the number of sets bounded."""

    codes: np.ndarray
    score: float
    bound: float
    nodes: int


def best_tree(packed: Packed, max_nodes: int) -> Found | None:
    """The best tree of one sentence, proved to be best if `max_nodes` are enough. None if no tree is possible."""
    search = _Search(packed)
    root = search.bounded(packed.scores)
    if root is None:
        return None
    waiting: list[Any] = [(-root.bound, 0, root)]
    nodes = 1
    while waiting and -waiting[0][0] > search.enough and nodes < max_nodes:
        for scores in search.split(heapq.heappop(waiting)[2]):
            node = search.bounded(scores)
            nodes += 1
            if node is not None and node.bound > search.enough:
                heapq.heappush(waiting, (-node.bound, nodes, node))
    bound = max(search.score, -waiting[0][0] if waiting else -np.inf)
    return Found(search.codes, search.score, bound, nodes)


class _Node(NamedTuple):
    """Scores in which arcs that a set of trees may not have are −inf, its bound, and probabilities of arcs."""

    scores: np.ndarray
    bound: float
    marginals: np.ndarray


class _Search:
    """The best tree found so far, and bounds of sets of trees."""

    def __init__(self, packed: Packed) -> None:
        self.packed, self.structure = packed, cast(Any, packed.structure)
        arcs = self.structure.arcs_of(packed.shapes)
        self.modifier, self.n_arcs = np.asarray(arcs.modifier), len(arcs.head)
        sizes = np.abs(packed.scores[np.isfinite(packed.scores) & (packed.scores != 0.0)])
        self.size = float(sizes.mean()) if len(sizes) else 1.0
        self.tolerance = _ROUNDING * float(sizes.max(initial=0.0)) * int(packed.lengths[0])
        self.codes, self.score = np.zeros(0, np.int64), -np.inf

    @property
    def enough(self) -> float:
        """A set with no larger bound has no better tree."""
        return self.score + self.tolerance

    def bounded(self, scores: np.ndarray) -> _Node | None:
        """Bound the set of trees; try its likeliest tree. None if the set is empty."""
        node = None
        for sharpness in _SHARPNESS:
            scale = sharpness / self.size
            sharp = self.packed._replace(scores=scores * scale)
            value, counts = sharp.answers("sums")
            if value[0] == -np.inf:
                return None
            if node is None or value[0] / scale < node.bound:
                node = _Node(scores, value[0] / scale, counts[: self.n_arcs])
            self._try(sharp)
            if node.bound <= self.enough:
                break
        return node

    def _try(self, sharp: Packed) -> None:
        """Climb to a tree from the marginals of these scores."""
        value, counts = sharp.answers("best")
        if value[0] == -np.inf:
            return
        parts = np.flatnonzero(counts > 0.5)
        score = float(self.packed.scores[parts].sum())
        if score > self.score:
            self.codes = self.structure.decode_all(PartLists(np.array([0, len(parts)]), parts), sharp.shapes)
            self.score = score

    def split(self, node: _Node) -> list[np.ndarray]:
        """Scores of both parts of a set: with the likeliest arc into the least certain word, and without it."""
        open_arcs = np.flatnonzero(np.isfinite(node.scores[: self.n_arcs]))
        into = self.modifier[open_arcs]
        n_heads = np.bincount(into)
        likeliest = np.full(len(n_heads), -1.0)
        np.maximum.at(likeliest, into, node.marginals[open_arcs])
        if not (n_heads > 1).any():
            return []
        word = int(np.where(n_heads > 1, likeliest, np.inf).argmin())
        own = open_arcs[into == word]
        chosen = own[node.marginals[own].argmax()]
        with_it, without = node.scores.copy(), node.scores.copy()
        with_it[own[own != chosen]] = -np.inf
        without[chosen] = -np.inf
        return [with_it, without]
