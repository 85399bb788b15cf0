"""Graphs with a label on every vertex, and exact inference by a junction tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from threading import local
from typing import Any, NamedTuple

import numpy as np

from partwise.compiled.simd import LANES
from partwise.core.arrays import offsets
from partwise.core.randomness import random_generator
from partwise.errors import InputError
from partwise.structures.checks import (
    checked_count,
    checked_labels,
    checked_samples,
    require_possible,
    room_for_best,
)
from partwise.structures.contract import Shapes
from partwise.structures.graphs.junction_tree.oracle import (
    GRAPH,
    JunctionTreeSpecification,
    JunctionTreeWorkspace,
)
from partwise.structures.graphs.junction_tree.programme import BUFFER, N_RANGES, junction_tree_programme
from partwise.structures.graphs.layout import (
    N_PARTS,
    N_VERTICES,
    REST,
    FactorKind,
    Layout,
    blocks_of,
)
from partwise.structures.graphs.parts import LabelledGraph, cached_row
from partwise.structures.graphs.scores import GraphScores, TableGraph, read_scores, with_costs
from partwise.structures.packed import Packed

_CACHED = local()
# Workspaces with larger buffers (in entries of 8 bytes) are not kept for the next call of the thread.
_LARGEST_CACHED = 2**21


class GraphMarginals(NamedTuple):
    """Probabilities of the labels of vertices, (V, S), and of factors' joint labels, (E, S, S).

    Lists of arrays if vertices, or factors, differ in their numbers of labels.
    """

    vertex: Any
    edge: Any


class Graph(LabelledGraph):
    """Labels on the vertices of any graph, with scores of vertices and factors. Inference is exact.

    Parameters
    ----------
    vertices : mapping of str to int, optional
        For training: the vertex kinds and their numbers of labels. The methods below do not need them, because the
        scores give the numbers of labels.
    factors : sequence of FactorKind
        Kinds of factors, each with rows of features or one tied table.
    table_limit : int
        Raise an error if the tables of a graph's junction tree have more entries than this.

    Notes
    -----
    All methods take, for one graph,

    - `vertex_scores` (V, S), or a list of V vectors if vertices differ in their numbers of labels;
    - `edges` (E, 2), the vertices that each factor joins, or a list of tuples of any number of vertices;
    - `edge_scores` (E, S, S), or a list of E tables with one axis for each vertex of the factor.

    For many graphs, each argument is a list (one array of edges (E, 2) is used for all graphs). Results are then lists,
    or arrays of numbers. A score of −inf forbids a label. Factors with the same vertices add up. The junction tree of a
    graph is cached for later graphs of the same form.

    Examples
    --------
    >>> vertex = np.array([[0.0, 1.0], [0.0, 0.0], [0.5, 0.0]])
    >>> Graph().argmax(vertex, [(0, 1), (1, 2), (0, 2)], [np.eye(2)] * 3)
    array([1, 1, 1])
    """

    oracle = GRAPH

    def __init__(
        self,
        vertices: Mapping[str, int] | None = None,
        factors: Sequence[FactorKind] = (),
        *,
        table_limit: int = 2**24,
    ):
        super().__init__(vertices, factors)
        self.table_limit = checked_count(table_limit, "table_limit")

    def __repr__(self) -> str:
        kinds = f"{self.vertices}, {list(self.factors)}" if self.vertices else ""
        return f"Graph({kinds})"

    # -- for solvers ------------------------------------------------------------------------

    def _key(self) -> tuple[Any, ...]:
        return (*super()._key(), self.table_limit)

    def _row(self, layout: Layout) -> np.ndarray:
        return layout.row(junction_tree_programme(layout, self.table_limit))

    def specification(self) -> JunctionTreeSpecification:
        return JunctionTreeSpecification()

    def workspace(self, shapes: Shapes, specification: Any = None) -> JunctionTreeWorkspace:
        buffer, ranges, vertices = _sizes(shapes)
        return JunctionTreeWorkspace(
            np.empty(buffer),
            np.empty(buffer),
            np.empty(ranges),
            np.empty(ranges),
            np.zeros(vertices, np.int64),
        )

    def kbest_parts(self, shape: np.ndarray, scores: np.ndarray, k: int) -> list[np.ndarray]:
        shapes = Shapes(np.array([0, len(shape)]), np.ascontiguousarray(shape, np.int32))
        tables = np.concatenate([scores[: int(shape[N_PARTS])], np.zeros(LANES)])
        packed = _Packed(self, self.specification(), shapes, offsets([shape[N_PARTS]]), tables, True)
        found = self._kbest(packed, checked_count(k, "k"))[0]
        return [self.encode_all(labels, shapes).part for labels, _ in found]

    # -- for users --------------------------------------------------------------------------

    def log_partition(self, vertex_scores: Any, edges: Any = (), edge_scores: Any = ()) -> Any:
        """log Σ_y exp(score of y): a float, or float64 (n,) for a list. −inf if no labelling is possible."""
        return self._pack(self._read(vertex_scores, edges, edge_scores)).log_partition()

    def marginals(self, vertex_scores: Any, edges: Any = (), edge_scores: Any = ()) -> Any:
        """Probabilities of the labels of every vertex and of every factor: :class:`GraphMarginals`, or a list."""
        scores = self._read(vertex_scores, edges, edge_scores)
        _, counts = self._pack(scores).expectations()
        results = [
            shaped_marginals(graph, counts[first:last])
            for graph, (first, last) in zip(scores.graphs, pairwise(scores.part_ptr.tolist()), strict=True)
        ]
        return results[0] if scores.single else results

    def argmax(self, vertex_scores: Any, edges: Any = (), edge_scores: Any = ()) -> Any:
        """A best labelling, int64 (V,), or a list of them."""
        return self._best(self._read(vertex_scores, edges, edge_scores))

    def loss_augmented_argmax(
        self, vertex_scores: Any, edges: Any = (), edge_scores: Any = (), y: Any = None, cost: Any = 1.0
    ) -> Any:
        """A labelling with the largest score plus cost.

        Parameters
        ----------
        y : array_like of int (V,), or a list of them
            True labels.
        cost : float, or as `vertex_scores`, or a list of these
            The cost of each wrong label if a number, else the cost of every label.
        """
        if y is None:
            raise InputError("y, the true labels, is missing")
        return self._best(with_costs(self._read(vertex_scores, edges, edge_scores), y, cost))

    def kbest(self, vertex_scores: Any, edges: Any = (), edge_scores: Any = (), k: int = 5) -> Any:
        """The k best labellings: a list of (labels (V,), score), best first, or a list of such lists.

        Labellings are distinct. There are fewer than `k` if fewer are possible.
        """
        scores = self._read(vertex_scores, edges, edge_scores)
        results = self._kbest(self._pack(scores), checked_count(k, "k"))
        return results[0] if scores.single else results

    def sample(
        self,
        vertex_scores: Any,
        edges: Any = (),
        edge_scores: Any = (),
        n_samples: int = 1,
        random_state: Any = None,
    ) -> Any:
        """Labellings drawn with probability ∝ exp(score): int64 (n_samples, V), or a list of those."""
        from partwise.structures.graphs.junction_tree.kbest import sample_labellings

        n_samples, generator = checked_samples(n_samples), random_generator(random_state)
        packed = self._pack(self._read(vertex_scores, edges, edge_scores))
        work, results, values = packed.room(), [], np.zeros(len(packed.part_ptr) - 1)
        for i, (shape, tables) in enumerate(_examples(packed)):
            n = int(shape[N_VERTICES])
            labels, uniforms = np.zeros((n_samples, n), np.int64), generator.random((n_samples, n))
            values[i] = sample_labellings(shape, tables, work, uniforms, labels)
            results.append(labels)
        require_possible(values, packed.single)
        return results[0] if packed.single else results

    def entropy(self, vertex_scores: Any, edges: Any = (), edge_scores: Any = ()) -> Any:
        """Entropy in nats: a float, or float64 (n,). The error is about 1e-16·s·V for scores of size s."""
        packed = self._pack(self._read(vertex_scores, edges, edge_scores))
        log_totals, counts = packed.expectations()
        products = np.where(counts > 0.0, packed.scores[: len(counts)], 0.0) * counts
        expected = np.diff(np.concatenate([[0.0], np.cumsum(products)])[packed.part_ptr])
        entropies = np.maximum(log_totals - expected, 0.0)
        return float(entropies[0]) if packed.single else entropies

    def log_count(self, vertex_scores: Any, edges: Any = (), edge_scores: Any = ()) -> Any:
        """Log of the number of labellings whose score is not −inf: a float, or float64 (n,)."""
        scores = self._read(vertex_scores, edges, edge_scores)
        return self._pack(
            scores._replace(tables=np.where(scores.tables > -np.inf, 0.0, -np.inf))
        ).log_partition()

    def score(self, y: Any, vertex_scores: Any, edges: Any = (), edge_scores: Any = ()) -> float:
        """Score of one labelling of one graph."""
        tables = [np.asarray(table, float) for table in edge_scores]
        vectors = [np.asarray(vector, float) for vector in vertex_scores]
        labels = checked_labels(y, "y", max(map(len, vectors), default=1)).tolist()
        total = sum(vector[label] for vector, label in zip(vectors, labels, strict=True))
        for scope, table in zip(edges, tables, strict=True):
            total += table[tuple(labels[v] for v in scope)]
        return float(total)

    def indicators(self, y: Any) -> Any:
        raise InputError("indicators of factors need the graph, which the labels alone do not give")

    # Shared by the methods above.

    def _read(self, vertex_scores: Any, edges: Any, edge_scores: Any) -> GraphScores:
        """Scores of graphs whose tables fit."""
        return read_scores(vertex_scores, edges, edge_scores, self.row_of_tables)

    def _pack(self, scores: GraphScores) -> Packed:
        rows = [self.row_of_tables(graph) for graph in scores.graphs]
        values = rows[0] if len(rows) == 1 else np.concatenate([np.zeros(0, np.int32), *rows])
        shapes = Shapes(offsets([len(row) for row in rows]), values)
        return _Packed(self, self.specification(), shapes, scores.part_ptr, scores.tables, scores.single)

    def row_of_tables(self, graph: TableGraph) -> np.ndarray:
        """The shape of a graph defined by its tables of scores, cached for later graphs of the same form."""
        return cached_row(("tables", self.table_limit, *graph.key), lambda: self._row(graph.layout()))

    def _best(self, scores: GraphScores) -> Any:
        values, counts = self._pack(scores).answers("best")
        require_possible(values, scores.single)
        results = []
        for graph, first in zip(scores.graphs, scores.part_ptr.tolist(), strict=False):
            ptr = offsets(graph.labels)  # Tables of vertices come first, in order.
            results.append(np.flatnonzero(counts[first : first + int(ptr[-1])]) - ptr[:-1])
        return results[0] if scores.single else results

    def _kbest(self, packed: Packed, k: int) -> list[list[tuple[np.ndarray, float]]]:
        from partwise.structures.graphs.junction_tree.kbest import best_labellings

        work, results, counts = packed.room(), [], np.zeros(len(packed.part_ptr) - 1)
        for i, (shape, tables) in enumerate(_examples(packed)):
            n = int(shape[N_VERTICES])
            blocks = blocks_of(Shapes(np.array([0, len(shape)]), shape))
            capacity = room_for_best(k, float(np.log(blocks.labels).sum()), 6 * n)
            labels, values = np.zeros((capacity, n), np.int64), np.empty(capacity)
            found = best_labellings(shape, tables, work, labels, values)
            counts[i] = 0.0 if found else -np.inf
            results.append([(labels[rank], float(values[rank])) for rank in range(found)])
        require_possible(counts, packed.single)
        return results


class _Packed(Packed):
    """Scores of some graphs. Calls of one thread share a workspace: allocating costs more time than small tables."""

    __slots__ = ()

    def room(self) -> JunctionTreeWorkspace:
        buffer, ranges, vertices = _sizes(self.shapes)
        if buffer > _LARGEST_CACHED:
            return super().room()
        kept = getattr(_CACHED, "work", None)
        if kept is None or not (
            len(kept.tables) >= buffer and len(kept.smallest) >= ranges and len(kept.labels) >= vertices
        ):
            kept = _CACHED.work = super().room()
        return kept


def _sizes(shapes: Shapes) -> tuple[int, int, int]:
    """Entries of the largest buffer, tables and messages of the longest programme, vertices of the largest graph."""
    ptr, values = shapes.ptr[:-1], shapes.values
    programme = ptr + values[ptr + REST]
    sizes = values[programme + BUFFER], values[programme + N_RANGES], values[ptr]
    buffer, ranges, vertices = (int(each.max(initial=1)) for each in sizes)
    return buffer, ranges, vertices


def _examples(packed: Packed) -> list[tuple[np.ndarray, np.ndarray]]:
    """Shape and scores, with slack, of each example."""
    shapes, parts = pairwise(packed.shapes.ptr.tolist()), pairwise(packed.part_ptr.tolist())
    return [
        (packed.shapes.values[a:b], packed.scores[c : d + LANES])
        for (a, b), (c, d) in zip(shapes, parts, strict=True)
    ]


def shaped_marginals(graph: Any, counts: np.ndarray) -> GraphMarginals:
    """One graph's marginals as views."""
    labels, arities = graph.labels, graph.arities
    n, uniform = len(labels), bool((labels == labels[:1]).all())
    if uniform and bool((arities == arities[:1]).all()):
        size = int(labels[0]) if n else 0
        arity = int(arities[0]) if len(arities) else 2
        last = n * size
        return GraphMarginals(
            counts[:last].reshape(n, size), counts[last:].reshape((len(arities), *(size,) * arity))
        )
    ends = np.cumsum(labels)
    vectors = np.split(counts[: int(ends[-1])], ends[:-1])
    vertex = counts[: int(ends[-1])].reshape(n, -1) if uniform else vectors
    edge, first, at = [], int(ends[-1]), 0
    for arity in arities.tolist():
        shape = tuple(labels[graph.scopes[at : at + arity]].tolist())
        last = first + int(np.prod(shape))
        edge.append(counts[first:last].reshape(shape))
        first, at = last, at + arity
    return GraphMarginals(vertex, edge)
