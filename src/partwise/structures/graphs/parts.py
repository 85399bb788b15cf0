"""Labelled graphs for solvers: kinds of vertices and factors, the encoding of labels, and costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from math import prod
from typing import Any

import numpy as np

from partwise.core.arrays import block_of, locate, offsets, ranges, untouched
from partwise.errors import InputError
from partwise.structures.checks import checked_count
from partwise.structures.contract import PartLists, RowKind, Shapes, Structure
from partwise.structures.costs import cost_matrix
from partwise.structures.graphs.layout import (
    FactorKind,
    GraphShape,
    Layout,
    blocks_of,
    checked_graph,
    layout_of_kinds,
    table_entries,
)
from partwise.structures.graphs.row_cache import RowCache

cached_row = RowCache().get  # One cache for all structures.


class LabelledGraph(Structure):
    """Structures with one label at every vertex of a graph, scored by vertices and by factors.

    An example is a :class:`GraphShape`. :meth:`shapes_of` makes shapes of examples. The rows of features of an example
    are those of each vertex kind in the order of the vertices, then those of each factor kind in the order of the
    factors. The labels of a corpus are one flat int64 array over the vertices of all examples.

    Parameters
    ----------
    vertices : mapping of str to int, optional
        The vertex kinds and their numbers of labels. None: the structure is for inference only, and the scores give
        the numbers of labels.
    factors : sequence of FactorKind
        The factor kinds. The parts of a tied kind count as often as factors use them.
    """

    def __init__(self, vertices: Mapping[str, int] | None = None, factors: Sequence[FactorKind] = ()):
        sizes = {} if vertices is None else dict(vertices)
        self.vertices = {str(name): checked_count(n, f"vertices[{name!r}]") for name, n in sizes.items()}
        self.factors = tuple(
            FactorKind(str(name), tuple(ends), bool(tied)) for name, ends, tied in map(_factor_kind, factors)
        )
        names = [*self.vertices, *(factor.name for factor in self.factors)]
        for name in names:
            if names.count(name) > 1:
                raise InputError(
                    f"vertices and factors: {name!r} names two kinds; each needs a name of its own"
                )
        for factor in self.factors:
            if not factor.vertices:
                raise InputError(f"factors: {factor.name!r} joins no vertices")
            for kind in factor.vertices:
                if kind not in self.vertices:
                    raise InputError(
                        f"factors: {factor.name!r} joins {kind!r}, which is not among the vertex kinds: "
                        + ", ".join(self.vertices)
                    )
        self.widths = tuple(prod(self.vertices[kind] for kind in factor.vertices) for factor in self.factors)
        rows = [RowKind(f.name, width, f.tied) for f, width in zip(self.factors, self.widths, strict=True)]
        self.kinds = (
            *(RowKind(name, n) for name, n in self.vertices.items()),
            *(row for row in rows if not row.tied),
            *(row for row in rows if row.tied),
        )
        self.n_labels = max(self.vertices.values(), default=0)

    # Shapes.

    def shapes(self, lengths: Any) -> Shapes:
        raise InputError("a graph is more than its length: make shapes by shapes_of(list of GraphShape)")

    def shapes_of(self, graphs: Sequence[GraphShape]) -> Shapes:
        """Shapes of some graphs. The row of a graph is cached for later graphs of the same form."""
        kinds = tuple(self.vertices)
        if graphs and not kinds:
            raise InputError(
                "vertices: a structure without vertex kinds has no shapes; name them when making it"
            )
        rows = []
        for i, shape in enumerate(graphs):
            graph = checked_graph(shape, kinds, self.factors, f"graphs[{i}]")
            key = (self._key(), graph.vertex_kind.tobytes(), *(scope.tobytes() for scope in graph.scopes))
            rows.append(cached_row(key, partial(self._row_of, graph)))
        return Shapes(offsets([len(row) for row in rows]), np.concatenate([np.zeros(0, np.int32), *rows]))

    def _key(self) -> tuple[Any, ...]:
        """Everything that the row of a graph depends on, except the graph."""
        return type(self).__name__, tuple(self.vertices.items()), self.factors

    def _row_of(self, graph: GraphShape) -> np.ndarray:
        return self._row(layout_of_kinds(tuple(self.vertices.values()), self.factors, self.widths, graph))

    def _row(self, layout: Layout) -> np.ndarray:
        """The row of one graph, int32: its layout, then the numbers that the structure's compiled code needs."""
        return layout.row(np.zeros(0, np.int32))

    def row_counts(self, shapes: Shapes) -> tuple[np.ndarray, ...]:
        blocks, n = blocks_of(shapes), len(shapes.ptr) - 1
        counts = [
            np.bincount(block_of(blocks.vertex_ptr)[blocks.vertex_kind == k], minlength=n)
            for k in range(len(self.vertices))
        ]
        owner = block_of(blocks.factor_ptr)
        for k, factor in enumerate(self.factors):
            if not factor.tied:
                counts.append(np.bincount(owner[blocks.factor_kind == k], minlength=n))
        return tuple(counts)

    def most_parts(self, shapes: Shapes) -> np.ndarray:
        blocks = blocks_of(shapes)
        return np.diff(blocks.vertex_ptr) + np.diff(blocks.factor_ptr)

    def most_tied(self, shapes: Shapes) -> np.ndarray:
        blocks = blocks_of(shapes)
        tied = np.array([factor.tied for factor in self.factors], bool)[blocks.factor_kind]
        return np.bincount(block_of(blocks.factor_ptr)[tied], minlength=len(shapes.ptr) - 1)

    # Labels.

    def check_gold(self, labels: Any, shapes: Shapes) -> np.ndarray:
        """The labels as int64. Raises :class:`InputError` at the first invalid label."""
        labels, blocks = np.asarray(labels, np.int64), blocks_of(shapes)
        lengths = np.diff(blocks.vertex_ptr)
        if len(labels) != lengths.sum():
            raise InputError(
                f"labels has {len(labels)} entries, but the graphs have {lengths.sum()} vertices"
            )
        if lengths.size and lengths.min() < 1:
            raise InputError(f"graphs: example {int(lengths.argmin())} has no vertices")
        wrong = np.flatnonzero((labels < 0) | (labels >= blocks.labels))
        if wrong.size:
            example, vertex = locate(int(wrong[0]), lengths)
            raise InputError(
                f"labels: example {example}, vertex {vertex} has label {labels[wrong[0]]}, "
                f"but its labels run from 0 to {blocks.labels[wrong[0]] - 1}"
            )
        return labels

    def encode_all(self, labels: Any, shapes: Shapes) -> PartLists:
        """A part of every vertex and of every factor, in ascending order."""
        labels, blocks = self.check_gold(labels, shapes), blocks_of(shapes)
        part = np.concatenate(
            [blocks.vertex_part + labels, blocks.factor_part + table_entries(blocks, labels)]
        )
        owner = np.concatenate([block_of(blocks.vertex_ptr), block_of(blocks.factor_ptr)])
        ptr = offsets(np.bincount(owner, minlength=len(shapes.ptr) - 1))
        return PartLists(ptr, part[np.lexsort((part, owner))])

    def decode_all(self, found: PartLists, shapes: Shapes) -> np.ndarray:
        """The labels of all vertices: parts of vertices come first, in the order of their tables."""
        blocks = blocks_of(shapes)
        order = np.lexsort((blocks.vertex_part, block_of(blocks.vertex_ptr)))
        labels = np.zeros(len(order), np.int64)
        at = ranges(found.ptr[:-1], np.diff(blocks.vertex_ptr))
        labels[order] = found.part[at] - blocks.vertex_part[order]
        return labels

    def encode(self, y: Any, graph: GraphShape | None = None) -> np.ndarray:
        """Part numbers of one labelling (V,) of a graph, with repetition, ascending."""
        return self.encode_all(y, self.shapes_of([self._needed(graph)])).part

    def decode(self, parts: Any, graph: GraphShape | None = None) -> np.ndarray:
        """The labelling (V,) of a graph whose part numbers these are."""
        parts = np.unique(np.asarray(parts, np.int64))
        return self.decode_all(
            PartLists(np.array([0, len(parts)]), parts), self.shapes_of([self._needed(graph)])
        )

    def _needed(self, graph: GraphShape | None) -> GraphShape:
        if graph is None:
            raise InputError("graph must be given: parts alone do not say which graph they are of")
        return graph

    # Costs.

    def checked_cost(self, cost: Any) -> tuple[np.ndarray, ...]:
        """A matrix [true, predicted] for each vertex kind."""
        return tuple(cost_matrix(cost, n) for n in self.vertices.values())

    def part_costs(self, labels: Any, shapes: Shapes, cost: Any) -> np.ndarray:
        """The cost of a vertex's label is the cost of its part."""
        labels, blocks = self.check_gold(labels, shapes), blocks_of(shapes)
        part_ptr = offsets(self.n_parts(shapes))
        result = untouched(int(part_ptr[-1]), np.float32)  # Tied parts have no costs.
        first = part_ptr[block_of(blocks.vertex_ptr)] + blocks.vertex_part
        for k, matrix in enumerate(cost):
            own = blocks.vertex_kind == k
            result[first[own][:, None] + np.arange(len(matrix))] = matrix[labels[own]]
        return result

    # Enumeration.

    def labellings(self, length: Any) -> Iterator[np.ndarray]:
        """Every labelling (V,), in lexicographic order. `length` is the numbers of labels, or a GraphShape."""
        if isinstance(length, GraphShape):
            sizes = np.array(tuple(self.vertices.values()))[np.asarray(length.vertex_kind, int)].tolist()
        else:
            sizes = np.asarray(length).tolist()
        for y in product(*map(range, sizes)):
            yield np.array(y, np.int64)


def _factor_kind(value: Any) -> FactorKind:
    try:
        name, ends, *tied = value
    except (TypeError, ValueError):
        raise InputError(f"factors must be FactorKind(name, vertices, tied), not {value!r}") from None
    if isinstance(ends, str) or len(tied) > 1:
        raise InputError(
            f"factors: {name!r} must be FactorKind(name, vertices, tied), vertices a tuple of kinds"
        )
    return FactorKind(name, tuple(ends), *tied)
