"""The k best second-order trees of a sentence, by the method of Lawler (1972), as in `structures/lawler.py`.

All trees but the best are partitioned into sets. In each set the words before some word keep the best tree's arcs and
relations, and the word itself may not. The best tree of each set is found with parts forbidden.
That takes milliseconds, and goes through the structure's Python methods. So the loop is in Python too, and does not
share the compiled text.
"""

from __future__ import annotations

import heapq
from typing import Any, cast

import numpy as np

from partwise.core.arcs import Arcs
from partwise.structures.packed import Packed


def best_labellings(packed: Packed, k: int) -> list[tuple[np.ndarray, float]]:
    """Codes (n,) and scores of the k best trees of one sentence, best first. Fewer if fewer are possible."""
    n, lawler = int(packed.lengths[0]), _Sets(packed)
    counter = 0
    best = lawler.best(np.zeros(0, np.int64), [])
    waiting: list[Any] = [] if best is None else [(-best[1], counter, best[0], 0, [])]
    found: list[tuple[np.ndarray, float]] = []
    while waiting and len(found) < k:
        negative, _, codes, n_fixed, banned = heapq.heappop(waiting)
        found.append((codes, -negative))
        if len(found) == k:
            break
        for word in range(n_fixed, n):
            forbidden = [*(banned if word == n_fixed else []), int(codes[word])]
            better = lawler.best(codes[:word], forbidden)
            if better is not None:
                counter += 1
                # Rounding must not put a set's best above the labelling it was split from.
                heapq.heappush(waiting, (max(-better[1], negative), counter, better[0], word, forbidden))
    return found


class _Sets:
    """Best trees of Lawler's sets."""

    def __init__(self, packed: Packed):
        self.packed = packed
        self.structure = cast(Any, packed.structure)
        self.arcs: Arcs = self.structure.arcs_of(packed.shapes)
        self.n_arcs = len(self.arcs.head)

    def best(self, fixed: np.ndarray, banned: list[int]) -> tuple[np.ndarray, float] | None:
        """The best tree whose first words have the codes `fixed` and the next none of `banned`."""
        scores, n_relations = self.packed.scores.copy(), self.structure.n_relations
        head, word = self.arcs.head, self.arcs.modifier - 1
        own = np.append(fixed, np.zeros(int(self.packed.lengths[0]) - len(fixed), np.int64))[word]
        is_fixed = word < len(fixed)
        scores[: self.n_arcs][is_fixed & (head != own // n_relations)] = -np.inf
        if self.structure.labelled:
            relations = scores[self.n_arcs : self.n_arcs * (1 + n_relations)].reshape(-1, n_relations)
            other = np.arange(n_relations) != (own % n_relations)[:, None]
            relations[is_fixed[:, None] & other] = -np.inf
            for code in banned:
                relations[(word == len(fixed)) & (head == code // n_relations), code % n_relations] = -np.inf
        else:
            for code in banned:
                scores[: self.n_arcs][(word == len(fixed)) & (head == code)] = -np.inf
        values, counts = self.packed._replace(scores=scores).answers("best")
        if values[0] == -np.inf:
            return None
        parts = np.flatnonzero(counts > 0.5)
        n, labelled = int(self.packed.lengths[0]), self.structure.labelled
        codes = head[parts[:n]].astype(np.int64) * n_relations
        if labelled:
            codes += (parts[n : 2 * n] - self.n_arcs) % n_relations
        return codes, float(self.packed.scores[parts].sum())
