r"""Graphs as JSON lines: one graph per line, with its nodes, edges and larger factors.

A line is an object::

    {"nodes": [{"features": {"word": "bank", "upper": false}, "kind": "word", "label": "NOUN"}, ...],
     "edges": [[0, 1], {"nodes": [1, 2], "features": ["near"], "kind": "next"}, ...],
     "factors": [{"nodes": [0, 1, 2], "features": [0.5, 1.0], "kind": "triple"}, ...]}

- ``features`` are an object (strings, booleans, numbers), a list of strings, or a list of numbers; all nodes of a
  kind, all edges of a kind and all factors of a kind have them in one form. They may be left out;
- ``kind`` and ``label`` are strings and may be left out; a label that is null is not known;
- an edge is a pair of numbers of nodes, counted from 0, or an object with ``nodes``; ``edges`` and ``factors`` may be
  left out;
- other keys are kept by `partwise predict` and otherwise ignored; blank lines are skipped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from partwise.data import decode, read_text, readable
from partwise.data.graphs import GraphExample, GraphFactor, Graphs
from partwise.data.jsonl import is_feature_value, json_kind, json_object
from partwise.errors import InputError

_READ_SIZE = 1 << 20


class GraphLine(NamedTuple):
    """One line: the JSON object, and the graph and labels in it."""

    record: dict[str, Any]
    graph: GraphExample
    labels: list[str | None]


def read_graphs(path: str | os.PathLike[str]) -> Graphs:
    """Read a JSON lines file of graphs; the module describes a line.

    Parameters
    ----------
    path : str or path
        UTF-8 text, plain or gzipped; "-" is standard input.

    Returns
    -------
    Graphs
    """
    return parse_graphs(read_text(path), path=path)


def parse_graphs(text: str, *, path: object = None) -> Graphs:
    """Like `read_graphs`, from a string; `path` is only named in errors."""
    lines = [_line(line, path, n) for n, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise InputError("no graphs in this file" if text else "this file is empty", path)
    known = any(label is not None for line in lines for label in line.labels)
    return Graphs([line.graph for line in lines], [line.labels for line in lines] if known else None)


def stream_graphs(
    handle: BinaryIO, *, path: object = None, batch_size: int = 200
) -> Iterator[list[GraphLine]]:
    """Read graphs in batches, as they arrive.

    Parameters
    ----------
    handle : binary file
        From `open_binary`, or any object with ``read1`` or ``read``.
    path : object
        The name of the file in errors.
    batch_size : int
        The most graphs in one batch.
    """
    read_available = getattr(handle, "read1", handle.read)
    unfinished, number = b"", 1
    while True:
        with readable(path):
            chunk = read_available(_READ_SIZE)
        *lines, unfinished = (unfinished + chunk).split(b"\n")
        if not chunk:
            lines, unfinished = [unfinished], b""
        batch = []
        for data in lines:
            line = decode(data, path, number).removeprefix("\ufeff" if number == 1 else "")
            if line.strip():
                batch.append(_line(line, path, number))
            number += 1
            if len(batch) == batch_size:
                yield batch
                batch = []
        if batch:
            yield batch
        if not chunk:
            return


def _line(line: str, path: object, number: int) -> GraphLine:
    try:
        return graph_of(json_object(line))
    except InputError as error:
        raise InputError(str(error), path, number) from None


def graph_of(record: dict[str, Any]) -> GraphLine:
    """The graph in a JSON object; raises :class:`InputError` at the first invalid entry."""
    nodes = _entries(record, "nodes")
    if not nodes:
        raise InputError('"nodes" must be a list with at least one entry')
    features, kinds, labels = [], [], []
    for k, node in enumerate(nodes):
        name = f'"nodes"[{k}]'
        if not isinstance(node, dict):
            raise InputError(f'{name} must be an object with "features", not {json_kind(node)}')
        features.append(_features(node, name))
        kinds.append(_text(node, "kind", name))
        labels.append(_text(node, "label", name))
    if None in kinds and any(kind is not None for kind in kinds):
        raise InputError(f'"nodes"[{kinds.index(None)}] has no "kind", but others have one')
    edges = [
        _factor(each, f'"edges"[{k}]', len(nodes), 2) for k, each in enumerate(_entries(record, "edges"))
    ]
    factors = [
        _factor(each, f'"factors"[{k}]', len(nodes), None)
        for k, each in enumerate(_entries(record, "factors"))
    ]
    graph = GraphExample(
        features,
        [edge.nodes for edge in edges],
        [edge.features for edge in edges],
        None if kinds[0] is None else [str(kind) for kind in kinds],
        [edge.kind for edge in edges],
        factors,
    )
    return GraphLine(record, graph, labels)


def _entries(record: dict[str, Any], name: str) -> list[Any]:
    entries = record.get(name, [])
    if not isinstance(entries, list):
        raise InputError(f'"{name}" must be a list, not {json_kind(entries)}')
    return entries


def _factor(entry: Any, name: str, n_nodes: int, size: int | None) -> GraphFactor:
    """An edge (of two nodes), or a factor of three nodes or more."""
    if isinstance(entry, list) and size is not None:
        entry = {"nodes": entry}
    if not isinstance(entry, dict):
        pair = "a pair of numbers of nodes or " if size is not None else ""
        raise InputError(f'{name} must be {pair}an object with "nodes", not {json_kind(entry)}')
    nodes = entry.get("nodes")
    whole = isinstance(nodes, list) and all(type(node) is int for node in nodes)
    fits = whole and (len(nodes) == size if size is not None else len(nodes) >= 3)  # type: ignore[arg-type]
    if not fits:
        many = "two" if size is not None else "three or more"
        raise InputError(f"{name} must have {many} numbers of nodes, not {json.dumps(nodes):.60}")
    for node in nodes:  # type: ignore[union-attr]
        if not 0 <= node < n_nodes:
            raise InputError(f"{name} names node {node}, but nodes are numbered 0 to {n_nodes - 1}")
    if len(set(nodes)) != len(nodes):  # type: ignore[arg-type]
        raise InputError(f"{name} names a node twice: {json.dumps(nodes):.60}")
    return GraphFactor(tuple(nodes), _features(entry, name, None), _text(entry, "kind", name))  # type: ignore[arg-type]


def _features(entry: dict[str, Any], name: str, default: Any = ()) -> Any:
    features = entry.get("features")
    if features is None:
        return list(default) if default is not None else None
    if isinstance(features, dict):
        for key, value in features.items():
            if not is_feature_value(value):
                where = f'{name}["features"][{json.dumps(key)}]'
                raise InputError(f"{where} must be a string, a boolean or a finite number")
        return features
    if isinstance(features, list):
        if all(isinstance(each, str) for each in features):
            return features
        if all(is_feature_value(each) and not isinstance(each, (str, bool)) for each in features):
            return features
    raise InputError(f'{name}["features"] must be an object, a list of strings or a list of finite numbers')


def _text(entry: dict[str, Any], key: str, name: str) -> str | None:
    value = entry.get(key)
    if value is not None and not isinstance(value, str):
        raise InputError(f'{name}["{key}"] must be a string, not {json_kind(value)}')
    return value
