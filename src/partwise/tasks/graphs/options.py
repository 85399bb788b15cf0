"""What `partwise train graph` offers."""

from __future__ import annotations

from dataclasses import dataclass

from partwise.tasks.options import DataOptions, TrainOptions, cost_file, option


@dataclass
class GraphOptions(TrainOptions):
    """Train a labeler of the nodes of graphs, which TRAIN holds as JSON lines.

    A line is {"nodes": [{"features": ..., "label": ...}, ...], "edges": [[0, 1], ...]}. Features are an object, a list
    of strings or a list of numbers. Edges may have features, too. Ctrl-C saves the model trained so far.
    """

    cost_file: str | None = cost_file()
    inference: str = option(
        "auto",
        "exact, tree-reweighted, loopy, or auto: exact if its tables fit.",
        choices=("auto", "exact", "tree-reweighted", "loopy"),
    )
    edges: str = option(
        "directed",
        "directed, if the order of an edge's nodes matters, or symmetric.",
        choices=("directed", "symmetric"),
    )
    pairs: str = option(
        "all", "Weights for all (attribute, label) pairs, or observed.", choices=("all", "observed")
    )
    min_count: int = option(1, "Drop named attributes seen less often.")
    hash_size: int | None = option(None, "Hash named attributes to this many numbers.")

    def data(self) -> DataOptions:
        return DataOptions("jsonl")
