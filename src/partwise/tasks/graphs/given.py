"""Graphs as users give them, each checked by itself: nodes, edges, larger factors, labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from partwise.data.graphs import GraphExample, GraphFactor, Graphs
from partwise.errors import InputError
from partwise.estimators.checks import check_ordered, is_sparse

NODE, EDGE = "node", "edge"  # kinds of what has none
_NAMES = tuple(field.name for field in fields(GraphExample))


def as_examples(X: Any) -> list[GraphExample]:
    """The graphs of X, each as a `GraphExample`."""
    if isinstance(X, Graphs):
        return X.graphs
    if X is None:
        raise InputError("X is missing: a list of graphs")
    if isinstance(X, (GraphExample, Mapping)) or hasattr(X, "dtype") or is_sparse(X):
        raise InputError(
            f"X is {type(X).__name__}; it must be a list of graphs: put a single one into a list, [X]"
        )
    check_ordered(X, "X", "a list of graphs")
    examples = [_as_example(each, f"X[{i}]") for i, each in enumerate(X)]
    if not examples:
        raise InputError("X has no graphs")
    return examples


def _as_example(graph: Any, name: str) -> GraphExample:
    if isinstance(graph, Mapping):
        unknown = [key for key in graph if key not in _NAMES]
        if unknown or "node_features" not in graph:
            wrong = f"has the entry {unknown[0]!r:.40}" if unknown else "has no node_features"
            raise InputError(f"{name} {wrong}; a graph's entries are {', '.join(_NAMES)}")
        graph = GraphExample(**graph)
    elif isinstance(graph, tuple) and 1 <= len(graph) <= 3:
        graph = GraphExample(*graph)
    if not isinstance(graph, GraphExample):
        raise InputError(
            f"{name} is {graph!r:.60}; a graph is a tuple (node_features, edges[, edge_features]), a dict or a "
            "GraphExample"
        )
    features = graph.node_features
    if not hasattr(features, "shape"):
        check_ordered(
            features, f"{name}.node_features", "an array (n_nodes, d), or a list with an entry a node"
        )
        if not hasattr(features, "__len__"):
            raise InputError(f"{name}.node_features has no length; give a list")
    elif len(features.shape) != 2:
        raise InputError(f"{name}.node_features has shape {features.shape}; it must be (n_nodes, d)")
    return graph


def node_kinds_of(graph: GraphExample, name: str) -> list[str]:
    kinds = list(graph.node_kinds or ())
    if len(kinds) != graph.n_nodes:
        raise InputError(f"{name} has {len(kinds)} node_kinds, but {graph.n_nodes} nodes")
    for k, kind in enumerate(kinds):
        if not isinstance(kind, str) or not kind:
            raise InputError(f"{name}.node_kinds[{k}] is {kind!r:.60}; a kind is a name")
    return kinds


def edge_array(graph: GraphExample, name: str) -> np.ndarray:
    """Edges as int64 (n_edges, 2), every number that of a node, none twice in an edge."""
    try:
        edges = np.asarray(graph.edges)
        if edges.size and edges.dtype.kind not in "iu":
            raise TypeError
        edges = edges.astype(np.int64).reshape(-1, 2) if not edges.size or edges.ndim == 2 else edges
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"{name}.edges is {graph.edges!r:.60}; it must be an integer array (n_edges, 2)"
        ) from None
    if edges.ndim != 2 or edges.shape[1] != 2:
        raise InputError(f"{name}.edges has shape {edges.shape}; it must be (n_edges, 2)")
    for k in np.flatnonzero((edges < 0).any(axis=1) | (edges >= graph.n_nodes).any(axis=1))[:1]:
        raise InputError(
            f"{name}.edges[{k}] is {edges[k].tolist()}, but nodes are numbered 0 to {graph.n_nodes - 1}"
        )
    for k in np.flatnonzero(edges[:, 0] == edges[:, 1])[:1]:
        raise InputError(
            f"{name}.edges[{k}] joins node {edges[k, 0]} to itself; put that into the node's features"
        )
    return edges


def edge_kinds_of(
    graph: GraphExample, edges: np.ndarray, i: int, names: list[str], single: bool
) -> Sequence[str] | np.ndarray:
    """The name of every edge's kind."""
    if graph.edge_kinds is None and single:
        return np.full(len(edges), EDGE, object)
    kinds = [None] * len(edges) if graph.edge_kinds is None else list(graph.edge_kinds)
    if len(kinds) != len(edges):
        raise InputError(f"X[{i}] has {len(kinds)} edge_kinds, but {len(edges)} edges")
    for k, kind in enumerate(kinds):
        if kind is not None and (not isinstance(kind, str) or not kind):
            raise InputError(f"X[{i}].edge_kinds[{k}] is {kind!r:.60}; a kind is a name")
    return [
        kind or default_kind(nodes, names, single) for kind, nodes in zip(kinds, edges.tolist(), strict=True)
    ]


def checked_factors(graph: GraphExample, i: int) -> list[GraphFactor]:
    for k, factor in enumerate(graph.factors):
        name = f"X[{i}].factors[{k}]"
        if not isinstance(factor, GraphFactor) or not isinstance(factor.kind, (str, type(None))):
            raise InputError(f"{name} is {factor!r:.60}; it must be a GraphFactor(nodes, features, kind)")
        nodes = tuple(factor.nodes)
        whole = all(isinstance(node, (int, np.integer)) and 0 <= node < graph.n_nodes for node in nodes)
        if len(nodes) < 3 or not whole or len(set(nodes)) != len(nodes):
            raise InputError(
                f"{name} has the nodes {nodes!r:.60}; it needs three or more different numbers of nodes, "
                f"from 0 to {graph.n_nodes - 1}"
            )
    return list(graph.factors)


def default_kind(nodes: Sequence[int], names: list[str], single: bool) -> str:
    """The kind of a factor that has none: what it joins."""
    if single:
        return EDGE if len(nodes) == 2 else f"factor{len(nodes)}"
    return "-".join(names[node] for node in nodes)


def counted_features(features: Any, n_rows: int, i: int) -> Any:
    """Features of the edges of a graph, after counting them."""
    if not hasattr(features, "shape"):
        check_ordered(
            features, f"X[{i}].edge_features", "an array (n_edges, d), or a list with an entry an edge"
        )
        features = list(features)
    n_given = features.shape[0] if hasattr(features, "shape") else len(features)
    if n_given != n_rows:
        raise InputError(f"X[{i}] has {n_given} rows of edge_features, but {n_rows} edges")
    return features


def take(rows: Any, places: np.ndarray) -> Any:
    """Some rows of an array, a sparse matrix or a list."""
    return rows[places] if hasattr(rows, "shape") else [rows[k] for k in places.tolist()]


def flat_labels(y: Any, lengths: np.ndarray, name: str = "y") -> list[Any]:
    """Labels of all nodes one after another, after checking that every graph has as many as nodes.

    Parameters
    ----------
    y : iterable of sequences or arrays of labels
        An array of several axes, as of an image, is read row by row.
    """
    check_ordered(y, name, "a list of lists of labels, one list per graph")
    every = [_labels_of_graph(each, f"{name}[{i}]") for i, each in enumerate(y)]
    if len(every) != len(lengths):
        raise InputError(f"{name} has {len(every)} graphs, but X has {len(lengths)}")
    for i, labels in enumerate(every):
        if len(labels) != lengths[i]:
            raise InputError(f"{name}[{i}] has {len(labels)} labels, but X[{i}] has {lengths[i]} nodes")
    return [label for labels in every for label in labels]


def _labels_of_graph(labels: Any, name: str) -> list[Any]:
    if isinstance(labels, np.ndarray):
        return labels.ravel().tolist()
    check_ordered(labels, name, "a list of labels, one per node")
    return list(labels)
