"""What `partwise train multilabel` offers."""

from __future__ import annotations

from dataclasses import dataclass

from partwise.tasks.options import FormatOption, option


@dataclass
class LabelSetOptions(FormatOption):
    """Train a classifier that gives each example a set of labels, chosen together.

    TRAIN holds libsvm lines with labels separated by commas (a,b 1:0.5 3:1), or JSON lines: {"features": ...,
    "labels": ["a", "b"]}, where features are an object, a list of strings or a list of numbers. A line without labels
    is an example with the empty set.
    """

    graph: str = option(
        "full",
        "Pairs of labels with weights: full (all), tree (the most informative tree), or none.",
        choices=("full", "tree", "none"),
    )
    inference: str = option(
        "auto",
        "exact, tree-reweighted, or auto: exact if its tables fit.",
        choices=("auto", "exact", "tree-reweighted"),
    )
    min_count: int = option(1, "Drop named features seen less often.")
    hash_size: int | None = option(None, "Hash named features to this many numbers.")
