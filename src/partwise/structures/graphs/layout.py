"""The layout of a graph's parts, and the row of integers that describes it to compiled code.

A row (see ``Shapes``) has a head of five numbers, seven blocks, and further numbers for the structure's compiled code:

    V, F, S, n_parts, first entry after the blocks
    vertex_kind (V) · labels (V) · vertex_part (V)
    factor_kind (F) · factor_part (F) · scope_ptr (F + 1) · scopes (S)

V is the number of vertices, F of factors, and S of entries in the scopes of all factors. The table of vertex v is the
parts from ``vertex_part[v]`` on, one for each of its ``labels[v]``. The table of factor f is the parts from
``factor_part[f]`` on, one for each joint labelling of its scope, the last vertex changing fastest. Factors may share a
table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from partwise.core.arrays import offsets, ranges
from partwise.errors import InputError
from partwise.structures.contract import Shapes

N_VERTICES, N_FACTORS, N_SCOPES, N_PARTS, REST, HEAD = range(6)  # HEAD: first entry of the blocks


class FactorKind(NamedTuple):
    """A kind of factors.

    Attributes
    ----------
    name : str
        The name in feature maps and model files.
    vertices : tuple of str
        The vertex kinds that such a factor joins, in the order of its table's axes.
    tied : bool
        All factors of the kind share one table, whose scores are weights. Otherwise each has a row of features.
    """

    name: str
    vertices: tuple[str, ...]
    tied: bool = False


class GraphShape(NamedTuple):
    """A graph without scores.

    Attributes
    ----------
    vertex_kind : int array, shape (V,)
        Which of the structure's vertex kinds each vertex is of.
    scopes : sequence of int arrays, shapes (F_k, arity_k)
        For each of the structure's factor kinds, the vertices that each factor joins.
    """

    vertex_kind: np.ndarray
    scopes: Sequence[np.ndarray]


class Layout(NamedTuple):
    """The blocks of the row of one graph: int64 arrays, see the module docstring."""

    n_parts: int
    vertex_kind: np.ndarray
    labels: np.ndarray
    vertex_part: np.ndarray
    factor_kind: np.ndarray
    factor_part: np.ndarray
    scope_ptr: np.ndarray
    scopes: np.ndarray

    def row(self, rest: np.ndarray) -> np.ndarray:
        """int32 (HEAD + blocks + rest,)."""
        blocks = self[1:]
        sizes = len(self.vertex_kind), len(self.factor_kind), len(self.scopes), self.n_parts
        head = [*sizes, HEAD + sum(map(len, blocks))]
        return np.concatenate([head, *blocks, rest]).astype(np.int32)

    def scope(self, factor: int) -> list[int]:
        """The vertices that a factor joins."""
        return self.scopes[self.scope_ptr[factor] : self.scope_ptr[factor + 1]].tolist()


def layout_of_tables(labels: np.ndarray, arities: np.ndarray, scopes: np.ndarray) -> Layout:
    """The layout in which every vertex and every factor has its own table: first vertices, then factors.

    Parameters
    ----------
    labels : int array, shape (V,)
    arities : int array, shape (F,)
    scopes : int array, shape (arities.sum(),)
    """
    labels, scopes = np.asarray(labels, np.int64), np.asarray(scopes, np.int64)
    scope_ptr = offsets(arities)
    vertex_ptr = offsets(labels)
    ones = np.append(labels[scopes], 1)  # so that a last factor without vertices has a product
    sizes = np.multiply.reduceat(ones, scope_ptr[:-1]) if len(arities) else np.zeros(0, np.int64)
    factor_ptr = vertex_ptr[-1] + offsets(sizes)
    return Layout(
        int(factor_ptr[-1]),
        np.zeros(len(labels), np.int64),
        labels,
        vertex_ptr[:-1],
        np.zeros(len(sizes), np.int64),
        factor_ptr[:-1],
        scope_ptr,
        scopes,
    )


def layout_of_kinds(
    labels: Sequence[int], factors: Sequence[FactorKind], widths: Sequence[int], graph: GraphShape
) -> Layout:
    """The layout by kinds: tables of vertices, then of factors with rows of features, then of tied factors.

    Parameters
    ----------
    labels : sequence of int
        Labels of each vertex kind.
    factors : sequence of FactorKind
    widths : sequence of int
        Entries of a table of each factor kind.
    graph : GraphShape
        A checked graph.
    """
    kind, sizes = np.asarray(graph.vertex_kind, np.int64), np.asarray(labels, np.int64)
    vertex_part, first = np.zeros(len(kind), np.int64), 0
    for k, size in enumerate(labels):
        own = np.flatnonzero(kind == k)
        vertex_part[own] = first + size * np.arange(len(own))
        first += size * len(own)
    scopes = [np.asarray(scope, np.int64) for scope in graph.scopes]
    parts: list[np.ndarray] = [np.zeros(0, np.int64)] * len(factors)
    for k in sorted(range(len(factors)), key=lambda k: factors[k].tied):  # stable: tied kinds last
        count, tied = len(scopes[k]), factors[k].tied
        parts[k] = first + widths[k] * (np.zeros(count, np.int64) if tied else np.arange(count))
        first += widths[k] * (1 if tied else count)
    counts = [len(scope) for scope in scopes]
    nothing = np.zeros(0, np.int64)
    return Layout(
        first,
        kind,
        sizes[kind],
        vertex_part,
        np.repeat(np.arange(len(factors)), counts),
        np.concatenate([nothing, *parts]),
        offsets(np.repeat([len(factor.vertices) for factor in factors], counts)),
        np.concatenate([nothing, *(scope.reshape(-1) for scope in scopes)]),
    )


class LayoutBlocks(NamedTuple):
    """The blocks of the rows of many examples, one example after another.

    `vertex_ptr` and `factor_ptr` have the first vertex and factor of each example. `scope_first` has the first entry of
    each factor's scope in `scopes`, and `arity` its length.
    """

    vertex_ptr: np.ndarray
    factor_ptr: np.ndarray
    vertex_kind: np.ndarray
    labels: np.ndarray
    vertex_part: np.ndarray
    factor_kind: np.ndarray
    factor_part: np.ndarray
    scope_first: np.ndarray
    arity: np.ndarray
    scopes: np.ndarray


def blocks_of(shapes: Shapes) -> LayoutBlocks:
    """Read the rows of `shapes` as int64."""
    ptr, values = shapes.ptr[:-1], shapes.values
    n_vertices, n_factors, n_scopes = (values[ptr + k].astype(np.int64) for k in range(3))
    at, found = ptr + HEAD, []
    for size in (n_vertices, n_vertices, n_vertices, n_factors, n_factors, n_factors + 1, n_scopes):
        found.append(values[ranges(at, size)].astype(np.int64))
        at = at + size
    factor_ptr, scope_ptr = offsets(n_factors), found[5]
    begins = np.arange(factor_ptr[-1]) + np.repeat(np.arange(len(ptr)), n_factors)
    first = scope_ptr[begins] + np.repeat(offsets(n_scopes)[:-1], n_factors)
    arity = scope_ptr[begins + 1] - scope_ptr[begins]
    vertex_kind, labels, vertex_part, factor_kind, factor_part = found[:5]
    return LayoutBlocks(
        offsets(n_vertices), factor_ptr, vertex_kind, labels, vertex_part, factor_kind, factor_part,
        first, arity, found[6],
    )  # fmt: skip


def table_entries(blocks: LayoutBlocks, labels: np.ndarray) -> np.ndarray:
    """The entry of each factor's table for flat `labels` of all vertices, int64 (n_factors,)."""
    example = np.repeat(np.arange(len(blocks.factor_ptr) - 1), np.diff(blocks.factor_ptr))
    first_vertex = blocks.vertex_ptr[example]
    entry = np.zeros(len(example), np.int64)
    for axis in range(int(blocks.arity.max(initial=0))):
        own = blocks.arity > axis
        vertex = first_vertex[own] + blocks.scopes[blocks.scope_first[own] + axis]
        entry[own] = entry[own] * blocks.labels[vertex] + labels[vertex]
    return entry


def checked_graph(
    graph: GraphShape, kinds: Sequence[str], factors: Sequence[FactorKind], where: str
) -> GraphShape:
    """`graph` with int64 arrays. Raises :class:`InputError` unless it is a graph of these kinds."""
    vertex_kind = np.asarray(graph.vertex_kind)
    if vertex_kind.ndim != 1 or (vertex_kind.size and vertex_kind.dtype.kind not in "iu"):
        raise InputError(f"{where}.vertex_kind must be a sequence of integers, one a vertex")
    unknown = np.flatnonzero((vertex_kind < 0) | (vertex_kind >= len(kinds)))
    if unknown.size:
        vertex = int(unknown[0])
        raise InputError(
            f"{where}: vertex {vertex} is of kind {vertex_kind[vertex]}; there are {len(kinds)} kinds, from 0 on: "
            + ", ".join(kinds)
        )
    if len(graph.scopes) != len(factors):
        raise InputError(f"{where}.scopes has {len(graph.scopes)} arrays for {len(factors)} kinds of factors")
    scopes = []
    for factor, own in zip(factors, graph.scopes, strict=True):
        name, arity = f"{where}, factors {factor.name!r}", len(factor.vertices)
        scope = np.asarray(own)
        scope = scope.astype(np.int64).reshape(0, arity) if scope.size == 0 else scope
        if scope.ndim != 2 or scope.shape[1] != arity or scope.dtype.kind not in "iu":
            raise InputError(
                f"{name}: scopes have shape {np.shape(own)}, expected integers (factors, {arity})"
            )
        check_scopes(scope, len(vertex_kind), name)
        wanted = np.array([list(kinds).index(kind) for kind in factor.vertices])
        wrong = np.argwhere(vertex_kind[scope] != wanted)
        if wrong.size:
            row, axis = wrong[0].tolist()
            vertex = int(scope[row, axis])
            raise InputError(
                f"{name}: factor {row} has vertex {vertex}, of kind {kinds[vertex_kind[vertex]]!r}, "
                f"where it needs one of kind {factor.vertices[axis]!r}"
            )
        scopes.append(scope.astype(np.int64))
    return GraphShape(vertex_kind.astype(np.int64), tuple(scopes))


def check_scopes(scope: np.ndarray, n_vertices: int, name: str) -> None:
    """Raise unless every row of `scope` (factors, arity) has distinct vertices of the graph."""
    outside = np.argwhere((scope < 0) | (scope >= n_vertices))
    if outside.size:
        row, axis = outside[0].tolist()
        raise InputError(
            f"{name}: factor {row} joins vertex {scope[row, axis]}; the graph has {n_vertices} vertices, from 0 on"
        )
    ordered = np.sort(scope, axis=1)
    twice = np.argwhere(ordered[:, 1:] == ordered[:, :-1])
    if twice.size:
        row, axis = twice[0].tolist()
        raise InputError(
            f"{name}: factor {row} joins vertex {ordered[row, axis]} with itself; add its scores to the vertex instead"
        )
