"""Users' scores of one graph or of a list of graphs, as flat arrays for compiled code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from partwise.compiled.simd import LANES
from partwise.core.arrays import offsets
from partwise.errors import InputError
from partwise.structures.checks import checked_labels, checked_scores, shape_text
from partwise.structures.graphs.layout import Layout, check_scopes, layout_of_tables


class TableGraph(NamedTuple):
    """A graph defined by its tables of scores: int64 `labels` (V,), `arities` (F,) and `scopes` (arities.sum(),)."""

    labels: np.ndarray
    arities: np.ndarray
    scopes: np.ndarray

    @property
    def key(self) -> tuple[bytes, bytes, bytes]:
        return self.labels.tobytes(), self.arities.tobytes(), self.scopes.tobytes()

    def layout(self) -> Layout:
        return layout_of_tables(self.labels, self.arities, self.scopes)


class GraphScores(NamedTuple):
    """Checked scores of some graphs.

    Attributes
    ----------
    graphs : list of TableGraph
    tables : float64 array
        The tables of each graph's vertices, then of its factors, graph after graph, then `LANES` entries of slack.
    part_ptr : int64 array, shape (n + 1,)
        First entry of each graph's tables.
    single : bool
        Whether the argument is one graph, not a list.
    """

    graphs: list[TableGraph]
    tables: np.ndarray
    part_ptr: np.ndarray
    single: bool


def read_scores(
    vertex_scores: Any, edges: Any, edge_scores: Any, check: Callable[[TableGraph], Any] | None = None
) -> GraphScores:
    """Check all arguments. Raises :class:`InputError` that names the argument.

    Parameters
    ----------
    vertex_scores : (V, S), or a list of vectors; or a list of those
    edges : (E, 2) ints, or a list of tuples of any number of vertices; or a list of those
    edge_scores : (E, S, S), or a list of tables; or a list of those
    check : callable
        Called with each graph before its tables are read: raises if they would take too much memory.
    """
    single = is_single_graph(vertex_scores)
    if single:
        graph, pieces = _read_graph(vertex_scores, edges, edge_scores, "", check)
        graphs = [graph]
    else:
        graphs, pieces = [], []
        for i, arguments in enumerate(_each(list(vertex_scores), edges, edge_scores)):
            graph, own = _read_graph(*arguments, f"[{i}]", check)
            graphs.append(graph)
            pieces += own
    sizes = [sum(map(len, own)) for own in _pairs(pieces)]
    tables = np.concatenate([*pieces, np.zeros(LANES)])
    if not (tables < np.inf).all():
        _refuse_numbers(tables, pieces, single)
    return GraphScores(graphs, tables, offsets(sizes), single)


def _pairs(pieces: list[np.ndarray]) -> list[list[np.ndarray]]:
    return [pieces[i : i + 2] for i in range(0, len(pieces), 2)]


def is_single_graph(vertex_scores: Any) -> bool:
    """Whether these are the scores of one graph, not of a list of graphs."""
    if isinstance(vertex_scores, np.ndarray):
        return vertex_scores.ndim != 3
    if not isinstance(vertex_scores, list | tuple):
        return True
    if not len(vertex_scores):
        return False
    first = vertex_scores[0]
    if isinstance(first, list | tuple):
        return not len(first) or np.ndim(first[0]) == 0
    return np.ndim(first) < 2


def _each(vertices: list[Any], edges: Any, edge_scores: Any) -> Sequence[tuple[Any, Any, Any]]:
    """Arguments of each graph. One array of edges (E, 2) is used for all graphs."""
    n = len(vertices)
    is_shared = isinstance(edges, np.ndarray) and edges.ndim == 2
    all_edges = [edges] * n if is_shared else _listed(edges, "edges", "a list, one entry a graph")
    scores = _listed(edge_scores, "edge_scores", "a list, one entry a graph")
    if not len(all_edges) == len(scores) == n:
        raise InputError(
            f"vertex_scores has {n} graphs, edges {len(all_edges)}, edge_scores {len(scores)}; "
            "each needs as many"
        )
    return list(zip(vertices, all_edges, scores, strict=True))


def _read_graph(
    vertex_scores: Any,
    edges: Any,
    edge_scores: Any,
    where: str,
    check: Callable[[TableGraph], Any] | None,
) -> tuple[TableGraph, list[np.ndarray]]:
    """The graph, and the tables of its vertices and of its factors as two flat arrays."""
    labels, vertices = _read_vertices(vertex_scores, f"vertex_scores{where}")
    n = len(labels)
    pairs, found = _pair_array(edges), []
    if pairs is not None:
        check_scopes(pairs, n, f"edges{where}")
        arities, scopes = np.full(len(pairs), 2), pairs.reshape(-1)
    else:
        found = _read_tuples(edges, n, f"edges{where}")
        arities = np.array([len(scope) for scope in found], np.int64)
        scopes = np.array([v for scope in found for v in scope], np.int64)
    graph = TableGraph(labels, arities, scopes)
    if check is not None:
        check(graph)
    if pairs is not None:
        if isinstance(edge_scores, np.ndarray) and (labels == labels[:1]).all():
            size = int(labels[0]) if n else 0
            table = _array(edge_scores, f"edge_scores{where}", (len(pairs), size, size))
            return graph, [vertices, table.reshape(-1)]
        found = pairs.tolist()
    tables = _listed(
        edge_scores, f"edge_scores{where}", "an array (edges, labels, labels) or a list of tables"
    )
    if len(tables) != len(found):
        raise InputError(f"edge_scores{where} has {len(tables)} tables for {len(found)} edges")
    flat = [np.zeros(0)]
    for f, (scope, table) in enumerate(zip(found, tables, strict=True)):
        shape = tuple(labels[scope].tolist())
        flat.append(_array(table, f"edge_scores{where}[{f}]", shape).reshape(-1))
    return graph, [vertices, np.concatenate(flat)]


def _read_vertices(scores: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The number of labels of each vertex, and all scores."""
    if isinstance(scores, np.ndarray) and scores.ndim == 2:
        matrix = _array(scores, name, (None, None))
        labels = np.full(len(matrix), matrix.shape[1])
        flat = matrix.reshape(-1)
    else:
        rows = _listed(scores, name, "an array (vertices, labels) or a list of vectors")
        vectors = [_array(row, f"{name}[{v}]", (None,)) for v, row in enumerate(rows)]
        labels = np.array([len(vector) for vector in vectors], np.int64)
        flat = np.concatenate([np.zeros(0), *vectors])
    if len(labels) and labels.min() < 1:
        raise InputError(f"{name}: vertex {int(labels.argmin())} has no labels")
    return labels, flat


def _listed(values: Any, name: str, wanted: str) -> list[Any]:
    try:
        return list(values)
    except TypeError:
        raise InputError(f"{name} must be {wanted}") from None


def _array(values: Any, name: str, shape: tuple[int | None, ...]) -> np.ndarray:
    """`values` as float64 of this shape. The numbers are checked later, all together."""
    if isinstance(values, np.ndarray) and values.dtype == np.float64 and values.ndim == len(shape):
        if all(s is None or s == n for s, n in zip(shape, values.shape, strict=True)):
            return values
        raise InputError(f"{name} has shape {values.shape}, expected {shape_text(shape)}")
    return checked_scores(values, name, shape)


def _pair_array(edges: Any) -> np.ndarray | None:
    """`edges` as int64 (E, 2) if each joins two vertices, else None."""
    if isinstance(edges, list | tuple) and any(np.ndim(edge) != 1 or len(edge) != 2 for edge in edges):
        return None
    array = np.asarray(edges)
    if array.size == 0:
        return np.zeros((0, 2), np.int64)
    if array.ndim != 2 or array.shape[1] != 2:
        return None
    if array.dtype.kind not in "iu":
        raise InputError(f"edges must be integers, not {array.dtype}")
    return np.ascontiguousarray(array, np.int64)


def _read_tuples(edges: Any, n_vertices: int, name: str) -> list[list[int]]:
    """Scopes of any number of vertices."""
    try:
        found = [list(edge) for edge in edges]
    except TypeError:
        raise InputError(f"{name} must be an array (edges, 2) or a list of tuples of vertices") from None
    for f, scope in enumerate(found):
        array = np.asarray(scope)
        if array.ndim != 1 or not array.size or array.dtype.kind not in "iu":
            raise InputError(f"{name}[{f}] must be a tuple of vertices, not {edges[f]!r}")
        check_scopes(array[None, :], n_vertices, f"{name}[{f}]")
    return [[int(v) for v in scope] for scope in found]


def _refuse_numbers(tables: np.ndarray, pieces: list[np.ndarray], single: bool) -> None:
    piece = 0
    while (pieces[piece] < np.inf).all():
        piece += 1
    name = ("vertex_scores", "edge_scores")[piece % 2] + ("" if single else f"[{piece // 2}]")
    raise InputError(f"{name} contains NaN or +inf; scores may be any number or −inf")


def with_costs(scores: GraphScores, y: Any, cost: Any) -> GraphScores:
    """Add the cost of every label to the scores of its vertex. The true labels `y` cost nothing.

    Parameters
    ----------
    y : int array (V,), or a list of them
    cost : float, or the shape of the vertex scores; or a list of those
    """
    truths = [y] if scores.single else list(y)
    costs = (
        [cost] if scores.single else (list(cost) if isinstance(cost, list | tuple) else [cost] * len(truths))
    )
    if not len(truths) == len(costs) == len(scores.graphs):
        raise InputError(f"y and cost must have {len(scores.graphs)} entries, one per graph")
    tables = scores.tables.copy()
    for i, (graph, own, price) in enumerate(zip(scores.graphs, truths, costs, strict=True)):
        where = "" if scores.single else f"[{i}]"
        n = len(graph.labels)
        true = checked_labels(own, f"y{where}", int(graph.labels.max(initial=1)))
        if len(true) != n or (true >= graph.labels).any():
            raise InputError(
                f"y{where} must have a label for each of {n} vertices, below its number of labels"
            )
        first = scores.part_ptr[i]
        ptr = first + offsets(graph.labels)
        if np.ndim(price) == 0 and not isinstance(price, list | tuple):
            kept = tables[ptr[:-1] + true]
            tables[first : ptr[-1]] += float(checked_scores(price, "cost", ()))
            tables[ptr[:-1] + true] = kept
        else:
            labels, flat = _read_vertices(price, f"cost{where}")
            if not np.array_equal(labels, graph.labels) or not (flat < np.inf).all():
                raise InputError(f"cost{where} must be a number, or as the vertex scores")
            tables[first : ptr[-1]] += flat
    return scores._replace(tables=tables)
