"""The parts of chains, for solvers: masks and the encoding of true labels. No inference."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from partwise.core.arrays import locate, offsets, positions, ranges
from partwise.errors import InputError
from partwise.structures.chain.forward_backward import CHAIN, chain_specification, chain_workspace
from partwise.structures.chain.high_order import (
    HIGH_ORDER,
    HighOrderSpecification,
    high_order_specification,
    high_order_workspace,
)
from partwise.structures.checks import checked_count, checked_labels, checked_mask
from partwise.structures.contract import PartLists, PositionLabels, RowKind, Shapes

_A_POSITION = (
    150.0  # nanoseconds that forward-backward takes for a position, beside one for each pair of labels
)


class ChainMarginals(NamedTuple):
    """Probabilities or expected counts of a chain's parts: `node` (length, L), `edge` as documented."""

    node: np.ndarray
    edge: np.ndarray


class ChainParts(PositionLabels):
    """Parts of chains: length·L nodes, then length - 1 blocks of L×L edges, or one tied block.

    Within an L×L block the edge from i to j is i·L + j. The tied block of order k ≥ 2 has (L + 1)**k rows of L, see
    `high_order.py`. :class:`~partwise.structures.Chain` documents the arguments.
    """

    forgets_distance = True

    def __init__(
        self,
        n_labels: int,
        *,
        tied: bool = True,
        order: int = 1,
        allowed: ArrayLike | None = None,
        allowed_start: ArrayLike | None = None,
        allowed_end: ArrayLike | None = None,
    ):
        self.n_labels = checked_count(n_labels, "n_labels")
        self.order, self.tied = checked_count(order, "order"), bool(tied)
        if self.order > 1 and not self.tied:
            raise InputError("tied must be True for chains of order 2 or more")
        if self.n_histories * self.n_labels > 2**31:
            raise InputError(f"order {order} with {n_labels} labels has too many parts")
        square = (self.n_labels, self.n_labels)
        self.allowed = checked_mask(allowed, "allowed", square)
        self.allowed_start = checked_mask(allowed_start, "allowed_start", square[:1])
        self.allowed_end = checked_mask(allowed_end, "allowed_end", square[:1])
        edges = (
            RowKind("transition", self.n_histories * self.n_labels, tied=True)
            if self.tied
            else RowKind("edge", self.n_labels**2)
        )
        self.kinds = (RowKind("node", self.n_labels), edges)
        self.oracle = CHAIN if self.order == 1 else HIGH_ORDER
        self._specifications: dict[bool, Any] = {}

    def __repr__(self) -> str:
        return f"Chain({self.n_labels}, tied={self.tied}, order={self.order})"

    @property
    def n_histories(self) -> int:
        """Rows of the tied block: L, or (L + 1)**order if histories have a symbol before the start."""
        return self.n_labels if self.order == 1 else (self.n_labels + 1) ** self.order

    @property
    def is_first_order(self) -> bool:
        return self.order == 1

    def sums_effort(self, shapes: Shapes) -> float:
        return float(shapes.lengths.sum()) * (_A_POSITION + float(self.n_labels) ** (self.order + 1))

    def table_cells(self, shapes: Shapes) -> float:
        return float(shapes.lengths.sum()) * self.n_histories * self.n_labels

    def specification(self) -> Any:
        return self._specification(self.tied)

    def _specification(self, tied: bool) -> Any:
        if tied not in self._specifications:
            masks = self.allowed, self.allowed_start, self.allowed_end
            self._specifications[tied] = (
                high_order_specification(self.n_labels, self.order, *masks)
                if self.order > 1
                else chain_specification(self.n_labels, tied, *masks)
            )
        return self._specifications[tied]

    def workspace(self, shapes: Shapes, specification: Any = None) -> Any:
        longest = int(shapes.lengths.max(initial=1))
        specification = self.specification() if specification is None else specification
        if isinstance(specification, HighOrderSpecification):
            return high_order_workspace(specification, longest)
        return chain_workspace(specification, longest)

    def long_examples(self, shapes: Shapes) -> np.ndarray:
        from partwise.structures.chain.halves import FEWEST_PAIRS

        fewest = -(-FEWEST_PAIRS // self.n_labels**2)
        if self.order > 1 or int(shapes.values.max(initial=0)) < fewest:
            return np.zeros(0, np.int64)
        return np.flatnonzero(shapes.lengths >= max(fewest, 4))

    def long_answer(
        self, which: str, specification: Any, shape: np.ndarray, scores: np.ndarray, counts: np.ndarray | None,
        n_threads: int,
    ) -> float:  # fmt: skip
        from partwise.structures.chain.halves import answer_in_halves

        return answer_in_halves(which, specification, int(shape[0]), scores, counts, n_threads)

    def row_counts(self, shapes: Shapes) -> tuple[np.ndarray, ...]:
        lengths = shapes.lengths
        return (lengths,) if self.tied else (lengths, lengths - 1)

    def most_parts(self, shapes: Shapes) -> np.ndarray:
        return 2 * shapes.lengths - (self.order == 1)

    def most_tied(self, shapes: Shapes) -> np.ndarray:
        return shapes.lengths

    def encode_all(self, labels: Any, shapes: Shapes) -> PartLists:
        """Node parts of an example in order of position, then its edge parts (none at 0 for order 1)."""
        labels, lengths = self.check_gold(labels, shapes), shapes.lengths
        return self._parts_of(labels, lengths)

    def _parts_of(self, labels: np.ndarray, lengths: np.ndarray) -> PartLists:
        position = positions(lengths)
        with_edge = slice(None) if self.order > 1 else position > 0
        n_edges = lengths if self.order > 1 else lengths - 1
        gold_ptr = offsets(lengths + n_edges)
        parts = np.empty(gold_ptr[-1], np.int64)
        node_at = ranges(gold_ptr[:-1], lengths)
        parts[node_at] = position * self.n_labels + labels
        edge_at = node_at + np.repeat(n_edges, lengths)
        row = self._history_rows(labels, position) + np.repeat(lengths, lengths)
        if not self.tied:
            row += (position - 1) * self.n_labels
        parts[edge_at[with_edge]] = (row * self.n_labels + labels)[with_edge]
        return PartLists(gold_ptr, parts)

    def _history_rows(self, labels: np.ndarray, position: np.ndarray) -> np.ndarray:
        """Row of the edge block that each position uses."""
        rows = np.zeros(len(labels), np.int64)
        base = self.n_labels + 1
        for back in range(1, self.order + 1):
            before = np.full(len(labels), self.n_labels if self.order > 1 else 0, np.int64)
            inside = np.flatnonzero(position >= back)
            before[inside] = labels[inside - back]
            rows += before * base ** (back - 1)
        return rows

    def check_gold(self, labels: Any, shapes: Shapes) -> np.ndarray:
        """Also raises at the first label that a mask forbids."""
        labels, lengths = super().check_gold(labels, shapes), shapes.lengths
        starts = offsets(lengths)
        masked = np.zeros((3, len(labels)), bool)
        if self.allowed_start is not None:
            masked[0, starts[:-1]] = ~self.allowed_start[labels[starts[:-1]]]
        if self.allowed is not None:
            masked[1, 1:] = ~self.allowed[labels[:-1], labels[1:]]
            masked[1, starts[:-1]] = False
        if self.allowed_end is not None:
            masked[2, starts[1:] - 1] = ~self.allowed_end[labels[starts[1:] - 1]]
        if masked.any():
            at = int(masked.any(axis=0).argmax())
            example, position = locate(at, lengths)
            label = int(labels[at])
            why = (
                f"label {label} may not stand first (allowed_start)",
                f"label {label} may not follow label {int(labels[at - 1])} (allowed)",
                f"label {label} may not stand last (allowed_end)",
            )[int(masked[:, at].argmax())]
            raise InputError(f"labels: example {example}, position {position}: {why}")
        return labels

    def encode(self, y: ArrayLike) -> np.ndarray:
        """Part numbers of one labelling: length nodes, then the edges in order of position."""
        labels = checked_labels(y, "y", self.n_labels)
        return self._parts_of(labels, np.array([len(labels)])).part

    def decode(self, parts: ArrayLike) -> np.ndarray:
        """Labels (length,) from the part numbers that :meth:`encode` gives."""
        array = np.asarray(parts, np.int64)
        length = (len(array) + 1) // 2
        labels = array[:length] - np.arange(length) * self.n_labels
        if np.any((labels < 0) | (labels >= self.n_labels)):
            raise InputError("parts must begin with one node part for each position, in order")
        return labels

    def log_count(self, length: Any) -> Any:
        """Log of the number of labellings the masks allow: a float, or float64 (n,) for many lengths."""
        lengths = np.asarray(length, np.int64)
        if lengths.size and lengths.min() < 1:
            raise InputError("length must be at least 1")
        everywhere = np.ones(self.n_labels, bool)
        ends = everywhere if self.allowed_end is None else self.allowed_end
        ways = (everywhere if self.allowed_start is None else self.allowed_start).astype(float)
        log_scale, table = 0.0, np.empty(int(lengths.max(initial=0)) + 1)
        for t in range(1, len(table)):
            if t > 1:
                ways = ways @ self.allowed if self.allowed is not None else np.full(self.n_labels, ways.sum())
                top = ways.max() or 1.0
                log_scale, ways = log_scale + np.log(top), ways / top
            total = ways @ ends
            table[t] = log_scale + np.log(total) if total > 0.0 else -np.inf
        return float(table[lengths]) if lengths.ndim == 0 else table[lengths]

    def is_allowed(self, y: ArrayLike) -> bool:
        """Whether the masks allow a labelling."""
        labels = checked_labels(y, "y", self.n_labels).tolist()
        return (
            (self.allowed_start is None or bool(self.allowed_start[labels[0]]))
            and (self.allowed_end is None or bool(self.allowed_end[labels[-1]]))
            and (self.allowed is None or all(self.allowed[a, b] for a, b in pairwise(labels)))
        )

    def labellings(self, length: int) -> Iterator[np.ndarray]:
        """Every allowed labelling (length,), in lexicographic order."""
        for y in product(range(self.n_labels), repeat=length):
            if self.is_allowed(y):
                yield np.array(y)

    def indicators(self, y: ArrayLike) -> ChainMarginals:
        labels = checked_labels(y, "y", self.n_labels).tolist()
        node = np.eye(self.n_labels)[labels]
        if self.order == 1:
            edge = np.zeros((len(labels) - 1, self.n_labels, self.n_labels))
            for t, pair in enumerate(pairwise(labels)):
                edge[t][pair] = 1.0
        else:
            edge = np.zeros((self.n_labels + 1,) * self.order + (self.n_labels,))
            padded = [self.n_labels] * self.order + labels
            for t in range(len(labels)):
                edge[tuple(padded[t : t + self.order + 1])] += 1.0
        return ChainMarginals(node, edge)
