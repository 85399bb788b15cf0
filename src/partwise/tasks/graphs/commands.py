"""Graphs for the commands: nodes labelled as graphs arrive, scores of a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

from partwise.data import open_binary, read_graphs
from partwise.data.graph_jsonl import GraphLine, stream_graphs
from partwise.data.graphs import Graphs
from partwise.errors import InputError
from partwise.estimators.probabilities import sharpness
from partwise.report.output import write_lines
from partwise.report.probabilities import distributions
from partwise.tasks.data_options import DataOptions
from partwise.tasks.task import Evaluation, Task, Wanted, Write


class LabelledGraphs(Task):
    """Labelling of nodes of graphs, which are JSON lines."""

    def __init__(self, estimator: Any, options: DataOptions, model: str = "", format: str | None = None):
        super().__init__(estimator, options, model, format)
        if self.options.format not in ("auto", "jsonl"):
            raise InputError(f"format {self.options.format!r:.40} is not one of auto, jsonl", model)

    def answers(self, path: str, wanted: Wanted) -> Iterator[Write]:
        pieces = super().answers(path, wanted)
        if wanted.marginals:
            sharpness(self.loss)
        return pieces

    def _answers(self, path: str, wanted: Wanted) -> Iterator[Write]:
        with open_binary(path) as handle:
            for batch in stream_graphs(handle, path=path):
                yield partial(write_lines, lines=self._lines(batch, wanted))

    def _lines(self, batch: list[GraphLine], wanted: Wanted) -> list[str]:
        """The objects with the labels of their nodes, in place of any that they had."""
        graphs = [line.graph for line in batch]
        labels = [own.tolist() for own in self.estimator.predict(graphs)]
        records = [
            {
                **line.record,
                "nodes": [{**node, "label": str(label)} for node, label in zip(nodes, own, strict=True)],
            }
            for line, own in zip(batch, labels, strict=True)
            for nodes in [line.record["nodes"]]
        ]
        if wanted.marginals:
            for record, own in zip(records, self.estimator.predict_marginals(graphs), strict=True):
                for node, probabilities in zip(record["nodes"], own, strict=True):
                    node["marginals"] = _shown(probabilities)
        if wanted.kbest > 1:
            value = "score" if self.loss.is_hard else "probability"
            for record, found in zip(
                records, self.estimator.predict_kbest(graphs, k=wanted.kbest), strict=True
            ):
                record["kbest"] = [
                    {"labels": list(map(str, each.tolist())), value: number} for each, number in found
                ]
        return [json.dumps(record, ensure_ascii=False) for record in records]

    def evaluation(self, path: str) -> Evaluation:
        from partwise.report.score_tables import print_label_scores

        data = labelled(read_graphs(path), path, "evaluation")
        scores = self._scores(data)
        counts = {"n_graphs": len(data.graphs), "n_nodes": scores.n_labels}
        return Evaluation(scores.as_dict() | counts, partial(print_label_scores, scores=scores))

    def _scores(self, data: Graphs) -> Any:
        from partwise.scoring.labelling import labelling_scores

        predicted = [list(map(str, own.tolist())) for own in self.estimator.predict(data)]
        return labelling_scores(data.labels or [], predicted)

    def labelled(self, path: str) -> tuple[Any, Any]:
        data = labelled(read_graphs(path), path, "evaluation")
        return data.graphs, data.labels

    def dev_scores(self, x: Any, y: Any) -> dict[str, Any]:
        return self._scores(x).in_short()


def _shown(probabilities: dict[Any, float]) -> dict[str, float]:
    import numpy as np

    names = [str(name) for name in probabilities]
    return dict(distributions(names, np.array([list(probabilities.values())]))[0])


def labelled(data: Graphs, path: str, what: str) -> Graphs:
    """The graphs, all of whose nodes must have a label."""
    if data.labels is None:
        raise InputError(f"no labels in this file; {what} needs them", path)
    for i, own in enumerate(data.labels):
        if None in own:
            raise InputError(
                f"graph {i + 1}: node {own.index(None)} has no label; {what} needs them all", path
            )
    return data
