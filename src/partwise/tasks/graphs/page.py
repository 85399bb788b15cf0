"""One graph on pages: the texts that stand for its nodes, and an example of what people type."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from partwise.tasks.graphs.encoder import GraphEncoder
from partwise.tasks.graphs.given import NODE, default_kind

_LONGEST = 40  # characters of a feature that stands for a node; drawings have no room for more


def node_name(features: Any, k: int) -> str:
    """A node's number, with its first feature that is a text."""
    text = ""
    if isinstance(features, Mapping):
        text = next((value for value in features.values() if isinstance(value, str)), "")
    elif isinstance(features, (list, tuple)) and features and isinstance(features[0], str):
        text = features[0]
    return f"{k}: {text[:_LONGEST]}" if text else str(k)


def expected_graph(encoder: GraphEncoder) -> dict[str, str]:
    """How a person writes a graph, and an example."""
    return {
        "format": "a graph as JSON, as a line of the training data: nodes with features, and edges",
        "example": json.dumps(_example(encoder), ensure_ascii=False),
    }


def _example(encoder: GraphEncoder) -> dict[str, Any]:
    """A graph of two nodes of kinds from training, with an edge if training had one."""
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
    """Features of a node or an edge: a name from training, or numbers if features are numbers."""
    own = encoder.own[kind]
    return [0.5] * int(own.n_dense) if own.kind == "matrix" else encoder.names(kind)[k : k + 1]
