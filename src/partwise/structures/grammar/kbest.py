"""The k best derivations, by lazy enumeration (Huang and Chiang 2005, algorithm 3).

An item joins two others, so the lists of `structures/ranked.py` do not apply. Partition (`structures/lawler.py`) would
parse the sentence again for every place. Enumeration only visits the spans that the best derivations use.
"""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np

Key = tuple[int, int, int, int]  # first and last word, symbol, and 1 with or 0 without a unary rule on top


class _Node:
    """A symbol over a span, with or without a unary rule on top: its best derivations that were asked for so far.

    Attributes
    ----------
    edges : list of (score, children)
        Ways to build it.
    heap : list of (−score, edge, ranks)
        Derivations that may come next.
    found : list of (score, edge, ranks)
    pending : list of (edge, ranks, bound)
        Successors of the last one found that are not in the heap yet.
    """

    def __init__(self, edges: list[Any], scores: list[float]):
        self.edges = edges
        self.found: list[Any] = []
        self.pending: list[Any] = []
        self.heap = [
            (-score, e, (0,) * len(edge[1]))
            for e, (edge, score) in enumerate(zip(edges, scores, strict=True))
        ]
        heapq.heapify(self.heap)


class LazyDerivations:
    """The best derivations of one example, one after another (Huang and Chiang 2005, algorithm 3).

    Parameters
    ----------
    s : GrammarSpecification
    shape, scores : ndarray
        Of the example.
    work : GrammarWorkspace
        With best charts.
    k : int
        The most that will be asked for: no node opens more of its edges.
    """

    def __init__(self, s: Any, shape: np.ndarray, scores: np.ndarray, work: Any, k: int):
        self.s, self.shape, self.scores, self.work, self.k = s, shape, scores, work, k
        self.n, self.rules = int(shape[0]), int(rule_part_of(s, shape))
        self.nodes: dict[Key, _Node] = {}
        self.top = (0, self.n - 1, s.root, 1)
        self.rows, self.pairs = anchored_of(s, shape)
        self.anchored = self.rules - len(self.pairs)

    def derivation(self, rank: int) -> tuple[list[tuple[int, int, int]], float] | None:
        """Nodes in preorder and score; None if there are fewer."""
        if not self._reach(self.top, rank):
            return None
        nodes, waiting = [], [(self.top, rank)]
        while waiting:
            key, own_rank = waiting.pop()
            self._reach(key, own_rank)
            node = self.nodes[key]
            _, edge, ranks = node.found[own_rank]
            children = node.edges[edge][1]
            # A node on top of itself is the same node without a unary rule.
            if not (key[3] == 1 and children[0][:3] == key[:3]):
                nodes.append(key[:3])
            waiting.extend(reversed(list(zip(children, ranks, strict=True))))
        return nodes, self.nodes[self.top].found[rank][0]

    def _reach(self, key: Key, rank: int) -> bool:
        """Find the derivation of this rank; False if the node has fewer."""
        waiting = [(key, rank)]
        while waiting:
            own, wanted = waiting[-1]
            node = self.nodes.get(own) or self._open(own)
            if len(node.found) > wanted or not (node.heap or node.pending):
                waiting.pop()
            elif node.pending:
                missing = self._push_successor(node)
                if missing is not None:
                    waiting.append(missing)
            else:
                negative, edge, ranks = heapq.heappop(node.heap)
                node.found.append((-negative, edge, ranks))
                for c in range(len(ranks) - 1, -1, -1):
                    # Each pair of ranks is reached once: the left one only rises while the right one is 0.
                    if not any(ranks[c + 1 :]):
                        risen = (*ranks[:c], ranks[c] + 1, *ranks[c + 1 :])
                        node.pending.append((edge, risen, -negative))
        return len(self.nodes[key].found) > rank

    def _push_successor(self, node: _Node) -> tuple[Any, int] | None:
        """Move a pending successor to the heap; returns a node and rank that must be found first, or None."""
        edge, ranks, bound = node.pending[-1]
        score, children = node.edges[edge]
        total = 0.0
        for child, rank in zip(children, ranks, strict=True):
            other = self.nodes.get(child) or self._open(child)
            if len(other.found) <= rank:
                if other.heap or other.pending:
                    return child, rank
                node.pending.pop()  # the child has no more
                return None
            total += other.found[rank][0]
        node.pending.pop()
        # Rounding must not put it above the one it follows.
        heapq.heappush(node.heap, (-min(score + total, bound), edge, ranks))
        return None

    def _open(self, key: Key) -> _Node:
        i, j, a, is_top = key
        edges, scores = self._top_edges(i, j, a) if is_top else self._below_edges(i, j, a)
        self.nodes[key] = _Node(edges, scores)
        return self.nodes[key]

    def _chart(self, chart: np.ndarray, cells: Any) -> np.ndarray:
        return chart[: -(len(chart) % self.s.stride) or None].reshape(-1, self.s.stride)[cells]

    def _cell(self, i: Any, j: Any) -> Any:
        return i * self.n - (i * (i - 1)) // 2 + j - i

    def _top_edges(self, i: int, j: int, a: int) -> tuple[list[Any], list[float]]:
        s, cell = self.s, self._cell(i, j)
        below = self._chart(self.work.below, cell)
        edges, scores = [(0.0, ((i, j, a, 0),))], [float(below[a])]
        if s.unary_column[a] >= 0:
            first = self.n * s.word_symbol.size
            first += self.work.row_of[cell] * (s.binary_symbol.size + s.unary_symbol.size)
            own = self.scores[first + s.binary_symbol.size + s.unary_column[a]]
            for u, more in self._unary_rules(cell, a):
                b = int(s.unary_child[u])
                weight = float(own + self.scores[self.rules + s.rule.size + u] + more)
                edges.append((weight, ((i, j, b, 0),)))
                scores.append(weight + float(below[b]))
        return self._possible(edges, scores)

    def _unary_rules(self, cell: int, a: int) -> list[tuple[int, float]]:
        """The unary rules of a symbol over a span, and the scores of their anchored rules."""
        s = self.s
        if not s.is_anchored:
            return [(u, 0.0) for u in np.flatnonzero(s.unary_parent == a).tolist()]
        listed = self._listed(int(self.work.row_of[cell]), s.rule.size + s.unary_ptr[a : a + 2])
        found = s.unary_by_parent[self.pairs[listed, 0] - s.rule.size]
        return list(zip(found.tolist(), self.scores[self.anchored + listed].tolist(), strict=True))

    def _listed(self, row: int, ranks: np.ndarray) -> np.ndarray:
        """The anchored rules of a row whose ranks are from ranks[0] on and below ranks[1]."""
        first, last = self.rows[row : row + 2]
        return first + np.arange(*np.searchsorted(self.pairs[first:last, 0], ranks))

    def _possible(self, edges: list[Any], scores: list[float]) -> tuple[list[Any], list[float]]:
        """The k best edges, best first; the first of equals stay the first, however many are asked for."""
        order = np.argsort(-np.array(scores), kind="stable")[: self.k].tolist()
        kept = [e for e in order if scores[e] > -np.inf]
        return [edges[e] for e in kept], [scores[e] for e in kept]

    def _below_edges(self, i: int, j: int, a: int) -> tuple[list[Any], list[float]]:
        s, cell = self.s, self._cell(i, j)
        if i == j:
            return self._possible([(float(self._chart(self.work.below, cell)[a]), ())],
                                  [float(self._chart(self.work.below, cell)[a])])  # fmt: skip
        row, m = self.work.row_of[cell], np.arange(i, j)
        q = s.by_parent[s.parent_ptr[a] : s.parent_ptr[a + 1]]
        if row < 0 or not q.size:
            return [], []
        b, c = s.pair_left[s.pair_of[q]], s.pair_right[s.pair_of[q]]
        width = s.binary_symbol.size + s.unary_symbol.size
        own = self.scores[self.n * s.word_symbol.size + row * width + s.binary_column[a]]
        weight = (self.scores[self.rules + s.rule[q]] + own)[:, None] + np.zeros(len(m))
        if s.has_splits:
            weight = weight + self.scores[self._first_split(int(row)) + m - i]
        if s.is_anchored:
            weight = weight + self._anchored_scores(int(row), a, len(q), i, len(m))
        left = self._chart(self.work.inside, self._cell(i, m))[:, b].T
        right = self._chart(self.work.inside, self._cell(m + 1, j))[:, c].T
        total = weight + (left + right)
        best = np.argsort(-total, axis=None, kind="stable")[: self.k]
        best = best[total.flat[best] > -np.inf]
        rule, cut = np.unravel_index(best, total.shape)
        edges = [
            (w, ((i, k, l, 1), (k + 1, j, r, 1)))
            for w, k, l, r in zip(
                weight[rule, cut].tolist(), m[cut].tolist(), b[rule].tolist(), c[rule].tolist(), strict=True
            )
        ]
        return edges, total[rule, cut].tolist()

    def _anchored_scores(self, row: int, a: int, n_rules: int, i: int, n_cuts: int) -> np.ndarray:
        """Scores of the anchored rules of a symbol over a span by rule and cut; −inf if they are not listed."""
        first, table = self.s.parent_ptr[a], np.full((n_rules, n_cuts), -np.inf)
        listed = self._listed(row, self.s.parent_ptr[a : a + 2])
        rank, cut = self.pairs[listed].T
        table[rank - first, cut - i] = self.scores[self.anchored + listed]
        return table

    def _first_split(self, row: int) -> int:
        spans = self.shape[2 : 2 + 2 * (row - self.n)].reshape(-1, 2).astype(np.int64)
        s = self.s
        width = s.binary_symbol.size + s.unary_symbol.size
        first = self.n * s.word_symbol.size + (self.n + int(self.shape[1])) * width
        return first + int((spans[:, 1] - spans[:, 0]).sum())


def rule_part_of(s: Any, shape: np.ndarray) -> int:
    """The first part of the rules."""
    n, m = int(shape[0]), int(shape[1])
    spans = shape[2 : 2 + 2 * m].reshape(-1, 2).astype(np.int64)
    width = s.binary_symbol.size + s.unary_symbol.size
    splits = int((spans[:, 1] - spans[:, 0]).sum()) if s.has_splits else 0
    return n * s.word_symbol.size + (n + m) * width + splits + len(anchored_of(s, shape)[1])


def anchored_of(s: Any, shape: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first anchored rule of each row of kind "span", (n_rows + 1,), and the rank and cut of each, (n, 2)."""
    if not s.is_anchored:
        return np.zeros(0, np.int64), np.zeros((0, 2), np.int64)
    at, n_rows = 2 + 2 * int(shape[1]), int(shape[0] + shape[1])
    end = at + n_rows + 1
    return shape[at:end].astype(np.int64), shape[end:].reshape(-1, 2).astype(np.int64)
