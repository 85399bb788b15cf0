"""Graphs that are known by their number of vertices, so that what is asked of all structures can be asked of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from partwise.structures import FactorGraph, FactorKind, Graph, GraphShape
from partwise.structures.contract import Shapes


class Family(Graph):
    """A graph for every number of vertices."""

    def __init__(
        self,
        vertices: Mapping[str, int],
        factors: Sequence[FactorKind],
        graph_of: Callable[[int], GraphShape],
        **options: Any,
    ):
        super().__init__(vertices, factors, **options)
        self.graph_of = graph_of

    def shapes(self, lengths: Any) -> Shapes:
        return self.shapes_of([self.graph_of(int(n)) for n in np.asarray(lengths)])

    def labellings(self, length: Any) -> Iterator[np.ndarray]:
        return super().labellings(self.graph_of(length))

    def encode(self, y: Any, graph: Any = None) -> np.ndarray:
        return super().encode(y, self.graph_of(len(y)))

    def decode(self, parts: Any, graph: Any = None) -> np.ndarray:
        raise NotImplementedError

    def log_count(self, length: Any) -> Any:  # type: ignore[override]
        sizes = tuple(self.vertices.values())
        counts = [
            super(Family, self).log_count([np.zeros(sizes[k]) for k in self.graph_of(int(n)).vertex_kind])
            for n in np.atleast_1d(length)
        ]
        return counts[0] if np.ndim(length) == 0 else np.array(counts)

    def indicators(self, y: Any) -> Any:
        graph = self.graph_of(len(y))
        vertex = np.eye(self.n_labels)[y]
        edge = np.zeros((len(graph.scopes[0]), self.n_labels, self.n_labels))
        for row, (a, b) in zip(edge, graph.scopes[0], strict=True):
            row[y[a], y[b]] = 1.0
        return vertex, edge


def pairwise_family(n_labels: int, edges: np.ndarray, **options: Any) -> Family:
    """Vertices of one kind, joined by those of `edges` (E, 2) whose ends there are."""

    def graph_of(n: int) -> GraphShape:
        return GraphShape(np.zeros(n, np.int64), [edges[(edges < n).all(axis=1)]])

    return Family({"vertex": n_labels}, [FactorKind("edge", ("vertex", "vertex"))], graph_of, **options)


def skipping_chains(n_labels: int = 3) -> Family:
    """Neighbours are joined by "edge", with features, and vertices two apart by "skip", tied."""

    def graph_of(n: int) -> GraphShape:
        v = np.arange(n)
        edge, skip = np.column_stack([v[:-1], v[1:]]), np.column_stack([v[:-2], v[2:]])
        return GraphShape(np.zeros(n, np.int64), [edge, skip])

    ends = ("node", "node")
    return Family({"node": n_labels}, [FactorKind("edge", ends), FactorKind("skip", ends, True)], graph_of)


class FactorFamily(FactorGraph):
    """The same by message passing."""

    def __init__(self, vertices: Any, factors: Any, graph_of: Callable[[int], GraphShape], **options: Any):
        super().__init__(vertices, factors, **options)
        self.graph_of = graph_of

    def log_count(self, length: Any) -> Any:  # type: ignore[override]
        counts = [
            super(FactorFamily, self).log_count(np.zeros((int(n), self.n_labels)))
            for n in np.atleast_1d(length)
        ]
        return counts[0] if np.ndim(length) == 0 else np.array(counts)

    def shapes(self, lengths: Any) -> Shapes:
        return self.shapes_of([self.graph_of(int(n)) for n in np.asarray(lengths)])

    def labellings(self, length: Any) -> Iterator[np.ndarray]:
        return super().labellings(self.graph_of(length))

    def encode(self, y: Any, graph: Any = None) -> np.ndarray:
        return super().encode(y, self.graph_of(len(y)))

    indicators = Family.indicators
