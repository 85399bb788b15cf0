"""Graphs with labelled nodes for the command line, reports and the server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from partwise.data import open_binary, read_graphs
from partwise.data.graph_jsonl import GraphLine, graph_of, stream_graphs
from partwise.data.graphs import GraphExample
from partwise.data.jsonl import json_object
from partwise.errors import InputError
from partwise.report.probabilities import Distribution, distributions
from partwise.tasks.graphs.page import expected_graph, node_name
from partwise.tasks.labels import LabelTask
from partwise.tasks.options import DataOptions
from partwise.tasks.page import Parts, paired, text_or
from partwise.tasks.task import LabelledData, SmallProblem, Wanted, json_lines


class LabelledGraphs(LabelTask):
    """Labelling of the nodes of graphs; pages show a node as they show a word."""

    command, kind, nouns = "graph", "graphs", ("graphs", "nodes")
    formats, longest = ("jsonl",), 500

    # -- labels ---------------------------------------------------------------------------------

    def marginals(self, X: Any) -> list[list[Distribution]]:
        """Nodes of different kinds have different labels."""
        return [[_ranked(node) for node in graph] for graph in self.estimator.predict_marginals(X)]

    def parts(self, X: Any, true: list[list[str]]) -> tuple[Parts | None, Parts | None]:
        nodes = [own for graph in self.estimator.predict_marginals(X) for own in graph]
        flat = [label for own in true for label in own]
        every = [(p, str(label) == t) for own, t in zip(nodes, flat, strict=True) for label, p in own.items()]
        best = [max(own.items(), key=lambda each: each[1]) for own in nodes]
        return paired((p, str(label) == t) for (label, p), t in zip(best, flat, strict=True)), paired(every)

    def tokens(self, x: GraphExample) -> list[str]:
        return [node_name(features, k) for k, features in enumerate(x.node_features)]

    def extras(self, x: GraphExample) -> dict[str, Any]:
        return {"edges": [[int(a), int(b)] for a, b in x.edges]}

    def size(self, x: GraphExample) -> int:
        return x.n_nodes

    # -- files ----------------------------------------------------------------------------------

    @classmethod
    def read_labelled(cls, path: str, options: DataOptions, purpose: str) -> LabelledData:
        """All nodes must have a label."""
        data = read_graphs(path)
        if data.labels is None:
            raise InputError(f"no labels in this file; {purpose} needs them", path)
        for i, own in enumerate(data.labels):
            if None in own:
                raise InputError(
                    f"graph {i + 1}: node {own.index(None)} has no label; {purpose} needs them all", path
                )
        return LabelledData(data.graphs, data.labels, len(data.graphs), options)

    def batches(self, path: str) -> Iterator[list[GraphLine]]:
        with open_binary(path) as handle:
            yield from stream_graphs(handle, path=path)

    def text(self, batch: list[GraphLine], wanted: Wanted) -> str:
        """The objects with the labels of their nodes, in place of any that they had."""
        graphs = [line.graph for line in batch]
        records = [
            {
                **line.record,
                "nodes": [{**node, "label": label} for node, label in zip(nodes, own, strict=True)],
            }
            for line, own in zip(batch, self.labels(graphs), strict=True)
            for nodes in [line.record["nodes"]]
        ]
        if wanted.marginals:
            for record, own in zip(records, self.marginals(graphs), strict=True):
                for node, row in zip(record["nodes"], own, strict=True):
                    node["marginals"] = dict(row)
        if wanted.kbest > 1:
            for record, found in zip(records, self.kbest(graphs, wanted.kbest), strict=True):
                record["kbest"] = self.valued(({"labels": own}, value) for own, value in found)
        return json_lines(records)

    @classmethod
    def small_problems(cls) -> list[SmallProblem]:
        from partwise import GraphLabeler

        points = [[[0.0, 1.0], [1.0, 0.5], [0.5, 0.0]], [[1.0, 1.0], [0.0, 0.5]]] * 3
        X = [(each, [(k, k + 1) for k in range(len(each) - 1)]) for each in points]
        labels = [["a", "b", "a"], ["b", "a"]] * 3
        answers = ("predict", "predict_marginals", "predict_kbest", "predict_edge_marginals")
        relaxed = {"inference": "tree-reweighted"}
        return [
            SmallProblem("graphs", GraphLabeler, {}, X, labels, answers),
            SmallProblem("relaxed graphs", GraphLabeler, relaxed, X, labels, answers[:2]),
        ]

    # -- one example ----------------------------------------------------------------------------

    def read(self, request: dict[str, Any]) -> GraphExample:
        value = text_or(request, "graph")
        value = json_object(request["text"]) if value is None else value
        if not isinstance(value, dict):
            raise InputError('"graph" must be an object with "nodes"')
        return graph_of(value).graph

    def expects(self) -> dict[str, str]:
        return expected_graph(self.estimator._encoder)


def _ranked(probabilities: dict[Any, float]) -> Distribution:
    names = [str(name) for name in probabilities]
    return distributions(names, np.array([list(probabilities.values())]))[0]
