"""Graphs gathered by kind: the nodes, edges and larger factors of a whole corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from partwise.core.arrays import offsets
from partwise.data.graphs import GraphExample
from partwise.errors import InputError
from partwise.estimators.checks import is_sparse
from partwise.tasks.graphs.given import (
    NODE,
    as_examples,
    checked_factors,
    counted_features,
    default_kind,
    edge_array,
    edge_kinds_of,
    node_kinds_of,
    take,
)


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
            [NODE] * each.n_nodes if each.node_kinds is None else node_kinds_of(each, f"X[{i}]")
            for i, each in enumerate(examples)
        ]
        lengths = np.array([each.n_nodes for each in examples], np.int64)
        if (lengths == 0).any():
            raise InputError(f"X[{int(np.argmin(lengths))}] has no nodes")
        kinds = sorted({name for own in names for name in own})
        number = {name: k for k, name in enumerate(kinds)}
        node_kind = np.array([number[name] for own in names for name in own], np.int32)
        corpus = cls(
            lengths,
            np.zeros_like(lengths),
            np.zeros_like(lengths),
            kinds,
            node_kind,
            {name: [] for name in kinds},
            {},
        )
        starts = offsets(lengths)
        for i, each in enumerate(examples):
            own = node_kind[starts[i] : starts[i + 1]]
            for k, name in enumerate(kinds):
                rows = (
                    each.node_features
                    if len(kinds) == 1
                    else take(each.node_features, np.flatnonzero(own == k))
                )
                corpus.node_features[name].append(rows)
            corpus._add_factors(i, each, names[i], single)
        for name in corpus.factors:
            if name in kinds:
                raise InputError(f"{name!r:.60} is the name of a kind of nodes and of a kind of factors")
            corpus._fill(name, len(examples))
        return corpus

    def _add_factors(self, i: int, graph: GraphExample, names: list[str], single: bool) -> None:
        """The factors of one graph, by kind."""
        edges = edge_array(graph, f"X[{i}]")
        self.n_edges[i], self.n_factors[i] = len(edges), len(edges) + len(graph.factors)
        features = graph.edge_features
        if features is not None:
            features = counted_features(features, len(edges), i)
        for name, places in _groups(edge_kinds_of(graph, edges, i, names, single)):
            self._add(
                i, name, edges[places], None if features is None else take(features, places), places, names
            )
        factors = checked_factors(graph, i)
        for name, places in _groups(
            [each.kind or default_kind(each.nodes, names, single) for each in factors]
        ):
            chosen = [factors[place] for place in places.tolist()]
            if len({len(each.nodes) for each in chosen}) > 1:
                raise InputError(f"X[{i}]: factors of kind {name!r:.60} have different numbers of nodes")
            scopes = np.array([each.nodes for each in chosen], np.int64)
            self._add(i, name, scopes, [each.features for each in chosen], len(edges) + places, names)

    def _add(
        self, i: int, name: str, scopes: np.ndarray, features: Any, places: np.ndarray, names: list[str]
    ) -> None:
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
            raise InputError(
                f"X[{i}]: factors of kind {name!r:.60} have {has}, but those of earlier graphs {others}"
            )
        self._fill(name, i)
        found.scopes.append(scopes)
        found.features.append([] if given is None else given)
        found.places.append(places)

    def both_ways(self) -> GraphCorpus:
        """The same with every edge between nodes of one kind a second time, its ends exchanged.

        Two tables that score an edge both ways add up to one that does not know its direction.
        """
        for found in self.factors.values():
            if len(found.kind.nodes) == 2 and len(set(found.kind.nodes)) == 1:
                found.scopes = [np.concatenate([own, own[:, ::-1]]) for own in found.scopes]
                found.places = [np.concatenate([own, own]) for own in found.places]
                if not found.kind.tied:
                    found.features = [_twice(own) for own in found.features]
        return self

    def starts(self) -> np.ndarray:
        """Where the nodes of each graph start among all, int64 (n_graphs + 1,)."""
        return offsets(self.lengths)

    def flat_scopes(self, name: str) -> np.ndarray:
        """Nodes of the factors of a kind among the nodes of all graphs, int64 (n_factors, n_nodes_of_a_factor)."""
        scopes, starts = self.factors[name].scopes, self.starts()
        return np.concatenate([own + start for own, start in zip(scopes, starts[:-1], strict=True)])

    def _fill(self, name: str, n_graphs: int) -> None:
        """Nothing for the graphs without factors of a kind."""
        found = self.factors[name]
        while len(found.scopes) < n_graphs:
            found.scopes.append(np.zeros((0, len(found.kind.nodes)), np.int64))
            found.features.append([])
            found.places.append(np.zeros(0, np.int64))


class LabelledGraphs(NamedTuple):
    """Graphs with their labels.

    Attributes
    ----------
    corpus : GraphCorpus
    labels : list, length n_nodes
        Of all nodes, flat over all graphs.
    weights : float64 array, shape (n_graphs,), or None
    """

    corpus: GraphCorpus
    labels: list[Any]
    weights: np.ndarray | None

    @property
    def lengths(self) -> np.ndarray:
        """Nodes of each graph, int64 (n_graphs,)."""
        return self.corpus.lengths


def _groups(names: Sequence[str] | np.ndarray) -> list[tuple[str, np.ndarray]]:
    """The places of every name, in order of first occurrence."""
    array = np.array(names, object)
    return [(name, np.flatnonzero(array == name)) for name in dict.fromkeys(array.tolist())]


def _mixed(name: str, i: int, first: tuple[str, ...], other: tuple[str, ...]) -> str:
    return (
        f"X[{i}]: factors of kind {name!r:.60} join {' and '.join(first)} at first and {' and '.join(other)} later: "
        "give them kinds of their own"
    )


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


def _twice(rows: Any) -> Any:
    if is_sparse(rows):
        from scipy import sparse

        return sparse.vstack([rows, rows], format="csr")
    return np.concatenate([rows, rows]) if hasattr(rows, "shape") else [*rows, *rows]


def names_of(kinds: Sequence[str]) -> str:
    """Kinds in a sentence."""
    return ", ".join(map(repr, kinds)) if kinds else "none"
