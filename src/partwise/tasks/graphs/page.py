"""Labelled graphs, node by node."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from partwise.data.graph_jsonl import graph_of
from partwise.data.graphs import GraphExample
from partwise.data.jsonl import json_object
from partwise.errors import InputError
from partwise.tasks.graphs.encoder import GraphEncoder
from partwise.tasks.graphs.given import NODE, default_kind
from partwise.tasks.page import Evidence, Explorer, difference, ranked, shown_terms, term_of, text_or
from partwise.tasks.sequences.page import labelled_evidence

_LONGEST = 40


class GraphExplorer(Explorer):
    """An example is a graph; a node stands where sequences have a word."""

    kind = "graphs"
    longest = 500

    def answer(self, x: GraphExample, truth: Any = None, kbest: int = 3) -> dict[str, Any]:
        [labels] = self.estimator.predict([x])
        found: dict[str, Any] = {
            "kind": self.kind,
            "tokens": [_name(features, k) for k, features in enumerate(x.node_features)],
            "labels": list(map(str, labels.tolist())),
            "edges": [[int(a), int(b)] for a, b in x.edges],
        }
        if truth is not None:
            found["truth"] = [str(label) for label in truth]
        if self.has_probabilities:
            found["marginals"] = [_ranked(own) for own in self.estimator.predict_marginals([x])[0]]
        with suppress(InputError):  # the k best need exact inference
            found["kbest"] = [
                {"labels": list(map(str, own.tolist())), self.value_name(): float(value)}
                for own, value in self.estimator.predict_kbest([x], k=kbest)[0]
            ]
        explained = self.estimator.explain(x)
        found |= {"score": explained.score, "terms": shown_terms(map(term_of, explained.contributions))}
        with suppress(InputError):  # so does the runner-up, and there may be no other labelling
            other = self.estimator.explain(x, against="runner-up")
            names = list(map(str, other.against or []))
            found["against"] = difference(names, other.score, map(term_of, other.contributions))
        return found

    def evidence(self, inputs: Any, truths: Any) -> Evidence:
        predicted = [list(map(str, own.tolist())) for own in self.estimator.predict(inputs)]
        true = [list(map(str, own)) for own in truths]
        errors = [
            sum(a != b for a, b in zip(own, other, strict=True))
            for own, other in zip(true, predicted, strict=True)
        ]
        found = labelled_evidence(true, predicted, np.array(errors, np.int64))
        if self.has_probabilities:
            nodes = [own for graph in self.estimator.predict_marginals(inputs) for own in graph]
            flat = [label for own in true for label in own]
            every = [
                (p, str(label) == t) for own, t in zip(nodes, flat, strict=True) for label, p in own.items()
            ]
            best = [max(own.items(), key=lambda each: each[1]) for own in nodes]
            chosen = [(p, str(label) == t) for (label, p), t in zip(best, flat, strict=True)]
            found.predicted, found.every = _columns(chosen), _columns(every)
        return found

    def size(self, x: GraphExample) -> int:
        return x.n_nodes

    def read(self, request: dict[str, Any]) -> GraphExample:
        value = text_or(request, "graph")
        value = json_object(request["text"]) if value is None else value
        if not isinstance(value, dict):
            raise InputError('"graph" must be an object with "nodes"')
        return graph_of(value).graph

    def expects(self) -> dict[str, str]:
        return {
            "format": "a graph as JSON, as a line of the training data: nodes with features, and edges",
            "example": json.dumps(_example(self.estimator._encoder), ensure_ascii=False),
        }


def _example(encoder: GraphEncoder) -> dict[str, Any]:
    """A graph of two nodes of kinds that training saw, with an edge where it saw one."""
    pair = next((kind for kind in encoder.factors if len(kind.nodes) == 2), None)
    kinds = (encoder.nodes[0],) * 2 if pair is None else pair.nodes
    nodes = [
        {"features": _features(encoder, kind, k), **({} if kind == NODE else {"kind": kind})}
        for k, kind in enumerate(kinds)
    ]
    if pair is None:
        return {"nodes": nodes}
    edge: dict[str, Any] = {"nodes": [0, 1]}
    if pair.name != default_kind((0, 1), list(kinds), len(encoder.nodes) == 1):
        edge["kind"] = pair.name
    if not pair.tied:
        edge["features"] = _features(encoder, pair.name, 0)
    return {"nodes": nodes, "edges": [edge]}


def _features(encoder: GraphEncoder, kind: str, k: int) -> list[Any]:
    """The features of an example: one that training saw, or numbers where features are numbers."""
    own = encoder.own[kind]
    return [0.5] * int(own.n_dense) if own.kind == "matrix" else encoder.names(kind)[k : k + 1]


def _name(features: Any, k: int) -> str:
    """What a node is shown as."""
    text = ""
    if isinstance(features, Mapping):
        text = next((value for value in features.values() if isinstance(value, str)), "")
    elif isinstance(features, (list, tuple)) and features and isinstance(features[0], str):
        text = features[0]
    return f"{k}: {text[:_LONGEST]}" if text else str(k)


def _ranked(probabilities: Mapping[Any, float]) -> list[list[Any]]:
    names = [str(name) for name in probabilities]
    return ranked(names, np.array([list(probabilities.values())]))[0]


def _columns(rows: list[tuple[float, bool]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([p for p, _ in rows]), np.array([is_true for _, is_true in rows], bool)
