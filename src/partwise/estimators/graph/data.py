"""Graphs as users give them, checked and gathered by kind: nodes, edges and larger factors of a whole corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from partwise.core.arrays import offsets
from partwise.data.graphs import GraphExample, GraphFactor, Graphs
from partwise.errors import InputError
from partwise.estimators.checks import check_ordered, is_sparse

NODE, EDGE = "node", "edge"  # kinds of what has none
_NAMES = tuple(field.name for field in fields(GraphExample))


class KindOfFactor(NamedTuple):
    """What all factors of a kind share.

    Attributes
    ----------
    name : str
    nodes : tuple of str
        The kinds of its nodes, in their order.
    tied : bool
        Whether they have no features, so that weights are scores.
    """

    name: str
    nodes: tuple[str, ...]
    tied: bool


@dataclass
class FactorsOfKind:
    """The factors of one kind, graph after graph.

    Attributes
    ----------
    kind : KindOfFactor
    scopes : list of int64 arrays, shapes (n_factors, n_nodes_of_a_factor)
        Numbers of nodes within the graph, of each graph.
    features : list of arrays or lists
        One row a factor, of each graph; empty for tied kinds.
    places : list of int64 arrays, shapes (n_factors,)
        Which of the graph's factors each is: its edges first, then `GraphExample.factors`.
    """

    kind: KindOfFactor
    scopes: list[np.ndarray]
    features: list[Any]
    places: list[np.ndarray]


@dataclass
class GraphCorpus:
    """Graphs by kind.

    Attributes
    ----------
    lengths : int64 array, shape (n_graphs,)
        Nodes of each graph.
    n_factors : int64 array, shape (n_graphs,)
        Edges and larger factors of each.
    n_edges : int64 array, shape (n_graphs,)
    kinds : list of str
        Kinds of nodes, sorted.
    node_kind : int32 array, shape (lengths.sum(),)
        Index into `kinds`, flat over all graphs.
    node_features : dict of str to list
        By kind, of each graph one row a node of that kind.
    factors : dict of str to FactorsOfKind
    """

    lengths: np.ndarray
    n_factors: np.ndarray
    n_edges: np.ndarray
    kinds: list[str]
    node_kind: np.ndarray
    node_features: dict[str, list[Any]]
    factors: dict[str, FactorsOfKind]

    @classmethod
    def read(cls, X: Any) -> GraphCorpus:
        """From a list of graphs: `GraphExample`, dicts with its fields, or tuples of the first of them."""
        examples = as_examples(X)
        single = all(each.node_kinds is None for each in examples)
        names = [
            [NODE] * each.n_nodes if each.node_kinds is None else _node_kinds(each, f"X[{i}]")
            for i, each in enumerate(examples)
        ]
        lengths = np.array([each.n_nodes for each in examples], np.int64)
        if (lengths == 0).any():
            raise InputError(f"X[{int(np.argmin(lengths))}] has no nodes")
        kinds = sorted({name for own in names for name in own})
        number = {name: k for k, name in enumerate(kinds)}
        node_kind = np.array([number[name] for own in names for name in own], np.int32)
        corpus = cls(
            lengths, np.zeros_like(lengths), np.zeros_like(lengths), kinds, node_kind, {name: [] for name in kinds}, {}
        )
        starts = offsets(lengths)
        for i, each in enumerate(examples):
            own = node_kind[starts[i] : starts[i + 1]]
            for k, name in enumerate(kinds):
                rows = each.node_features if len(kinds) == 1 else take(each.node_features, np.flatnonzero(own == k))
                corpus.node_features[name].append(rows)
            corpus._add_factors(i, each, names[i], single)
        for name in corpus.factors:
            if name in kinds:
                raise InputError(f"{name!r:.60} is the name of a kind of nodes and of a kind of factors")
            corpus._fill(name, len(examples))
        return corpus

    def _add_factors(self, i: int, graph: GraphExample, names: list[str], single: bool) -> None:
        """The factors of one graph, by kind."""
        edges = _edge_array(graph, f"X[{i}]")
        self.n_edges[i], self.n_factors[i] = len(edges), len(edges) + len(graph.factors)
        features = graph.edge_features
        if features is not None:
            features = _counted(features, len(edges), i)
        for name, places in _groups(_edge_kinds(graph, edges, i, names, single)):
            self._add(i, name, edges[places], None if features is None else take(features, places), places, names)
        factors = _checked_factors(graph, i)
        for name, places in _groups([each.kind or _default_kind(each.nodes, names, single) for each in factors]):
            chosen = [factors[place] for place in places.tolist()]
            if len({len(each.nodes) for each in chosen}) > 1:
                raise InputError(f"X[{i}]: factors of kind {name!r:.60} have different numbers of nodes")
            scopes = np.array([each.nodes for each in chosen], np.int64)
            self._add(i, name, scopes, [each.features for each in chosen], len(edges) + places, names)

    def _add(self, i: int, name: str, scopes: np.ndarray, features: Any, places: np.ndarray, names: list[str]) -> None:
        kinds = np.array(names, object)[scopes] if len(self.kinds) > 1 else None
        nodes = tuple(names[node] for node in scopes[0])
        if kinds is not None and (kinds != np.array(nodes, object)).any():
            at = int(np.argmax((kinds != np.array(nodes, object)).any(axis=1)))
            raise InputError(_mixed(name, i, nodes, tuple(kinds[at])))
        given = _given(features, i, name)
        kind = KindOfFactor(name, nodes, given is None)
        found = self.factors.setdefault(name, FactorsOfKind(kind, [], [], []))
        if found.kind.nodes != nodes:
            raise InputError(_mixed(name, i, found.kind.nodes, nodes))
        if found.kind.tied != kind.tied:
            has, others = ("no features", "had some") if kind.tied else ("features", "had none")
            raise InputError(f"X[{i}]: factors of kind {name!r:.60} have {has}, but those of earlier graphs {others}")
        self._fill(name, i)
        found.scopes.append(scopes)
        found.features.append([] if given is None else given)
        found.places.append(places)

    def _fill(self, name: str, n_graphs: int) -> None:
        """Nothing for the graphs without factors of a kind."""
        found = self.factors[name]
        while len(found.scopes) < n_graphs:
            found.scopes.append(np.zeros((0, len(found.kind.nodes)), np.int64))
            found.features.append([])
            found.places.append(np.zeros(0, np.int64))


def as_examples(X: Any) -> list[GraphExample]:
    """The graphs of X, each as a `GraphExample`."""
    if isinstance(X, Graphs):
        return X.graphs
    if X is None:
        raise InputError("X is missing: a list of graphs")
    if isinstance(X, (GraphExample, Mapping)) or hasattr(X, "dtype") or is_sparse(X):
        raise InputError(f"X is {type(X).__name__}; it must be a list of graphs: put a single one into a list, [X]")
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
            f"{name} is {graph!r:.60}; a graph is a tuple (node_features, edges[, edge_features]), a dict or a GraphExample"
        )
    features = graph.node_features
    if not hasattr(features, "shape"):
        check_ordered(features, f"{name}.node_features", "an array (n_nodes, d), or a list with an entry a node")
        if not hasattr(features, "__len__"):
            raise InputError(f"{name}.node_features has no length; give a list")
    elif len(features.shape) != 2:
        raise InputError(f"{name}.node_features has shape {features.shape}; it must be (n_nodes, d)")
    return graph


def _node_kinds(graph: GraphExample, name: str) -> list[str]:
    kinds = list(graph.node_kinds or ())
    if len(kinds) != graph.n_nodes:
        raise InputError(f"{name} has {len(kinds)} node_kinds, but {graph.n_nodes} nodes")
    for k, kind in enumerate(kinds):
        if not isinstance(kind, str) or not kind:
            raise InputError(f"{name}.node_kinds[{k}] is {kind!r:.60}; a kind is a name")
    return kinds


def _edge_array(graph: GraphExample, name: str) -> np.ndarray:
    """Edges as int64 (n_edges, 2), every number that of a node, none twice in an edge."""
    try:
        edges = np.asarray(graph.edges)
        if edges.size and edges.dtype.kind not in "iu":
            raise TypeError
        edges = edges.astype(np.int64).reshape(-1, 2) if not edges.size or edges.ndim == 2 else edges
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name}.edges is {graph.edges!r:.60}; it must be an integer array (n_edges, 2)") from None
    if edges.ndim != 2 or edges.shape[1] != 2:
        raise InputError(f"{name}.edges has shape {edges.shape}; it must be (n_edges, 2)")
    for k in np.flatnonzero((edges < 0).any(axis=1) | (edges >= graph.n_nodes).any(axis=1))[:1]:
        raise InputError(f"{name}.edges[{k}] is {edges[k].tolist()}, but nodes are numbered 0 to {graph.n_nodes - 1}")
    for k in np.flatnonzero(edges[:, 0] == edges[:, 1])[:1]:
        raise InputError(f"{name}.edges[{k}] joins node {edges[k, 0]} to itself; put that into the node's features")
    return edges


def _edge_kinds(
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
    return [kind or _default_kind(nodes, names, single) for kind, nodes in zip(kinds, edges.tolist(), strict=True)]


def _groups(names: Sequence[str] | np.ndarray) -> list[tuple[str, np.ndarray]]:
    """The places of every name, in order of first occurrence."""
    array = np.array(names, object)
    return [(name, np.flatnonzero(array == name)) for name in dict.fromkeys(array.tolist())]


def _checked_factors(graph: GraphExample, i: int) -> list[GraphFactor]:
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


def _default_kind(nodes: Sequence[int], names: list[str], single: bool) -> str:
    """The kind of a factor that has none: what it joins."""
    if single:
        return EDGE if len(nodes) == 2 else f"factor{len(nodes)}"
    return "-".join(names[node] for node in nodes)


def _mixed(name: str, i: int, first: tuple[str, ...], other: tuple[str, ...]) -> str:
    return (
        f"X[{i}]: factors of kind {name!r:.60} join {' and '.join(first)} at first and {' and '.join(other)} later: "
        "give them kinds of their own"
    )


def _counted(features: Any, n_rows: int, i: int) -> Any:
    """Features of the edges of a graph, after counting them."""
    if not hasattr(features, "shape"):
        check_ordered(features, f"X[{i}].edge_features", "an array (n_edges, d), or a list with an entry an edge")
        features = list(features)
    n_given = features.shape[0] if hasattr(features, "shape") else len(features)
    if n_given != n_rows:
        raise InputError(f"X[{i}] has {n_given} rows of edge_features, but {n_rows} edges")
    return features


def _given(features: Any, i: int, name: str) -> Any:
    """Features of some factors as they came; None where all of them are."""
    if features is None or hasattr(features, "shape"):
        return features
    missing = [each is None for each in features]
    if any(missing) and not all(missing):
        raise InputError(
            f"X[{i}]: number {missing.index(True)} of the factors of kind {name!r:.60} has no features, but others do"
        )
    return None if all(missing) else features


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


def names_of(kinds: Sequence[str]) -> str:
    """Kinds in a sentence."""
    return ", ".join(map(repr, kinds)) if kinds else "none"
