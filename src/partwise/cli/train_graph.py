"""`partwise train graph`: graphs with labelled nodes in, a model with its certificate out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from partwise.cli.options import Files, Objective, Running, one_of
from partwise.tasks.data_options import DataOptions


@dataclass
class GraphOptions:
    """How graphs are scored and summed over."""

    inference: Annotated[
        str, typer.Option(help="exact, tree-reweighted, loopy, or auto: exact where its tables fit.")
    ] = "auto"
    edges: Annotated[
        str, typer.Option(help="directed, where the order of an edge's nodes matters, or symmetric.")
    ] = "directed"
    pairs: Annotated[str, typer.Option(help="Weights for all (attribute, label) pairs, or observed.")] = "all"
    min_count: Annotated[int, typer.Option(help="Drop named attributes seen less often.")] = 1
    hash_size: Annotated[int | None, typer.Option(help="Hash named attributes to this many numbers.")] = None

    def parameters(self) -> dict[str, Any]:
        """Of a `GraphLabeler`."""
        one_of("--inference", self.inference, "auto", "exact", "tree-reweighted", "loopy")
        one_of("--edges", self.edges, "directed", "symmetric")
        one_of("--pairs", self.pairs, "all", "observed")
        return vars(self)


def train_graph(*, files: Files, objective: Objective, graph: GraphOptions, running: Running) -> None:
    """Train a labeler of the nodes of graphs, which TRAIN holds as JSON lines.

    A line is {"nodes": [{"features": ..., "label": ...}, ...], "edges": [[0, 1], ...]}; features are an object, a list
    of strings or a list of numbers, and edges may have them too. Ctrl-C saves the model trained so far.
    """
    from partwise.cli.training import Job, check_model_path, run_training
    from partwise.data import read_graphs
    from partwise.tasks.graphs.commands import LabelledGraphs, labelled
    from partwise.tasks.graphs.labeler import GraphLabeler

    check_model_path(files.model, {"TRAIN": files.train, "--dev": files.dev})
    data = labelled(read_graphs(files.train), files.train, "training")
    labeler = GraphLabeler(**objective.parameters(), **running.parameters(), **graph.parameters())
    task = LabelledGraphs(labeler, DataOptions("jsonl"), files.model)
    job = Job(task, files.train, data, None, len(data.graphs))
    if files.dev is not None:
        job.dev = (labelled(read_graphs(files.dev), files.dev, "--dev"), None)
    run_training(job, objective, running)
