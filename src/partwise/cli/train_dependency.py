"""`partwise train dependency`: a treebank in, a parser with its certificate out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from partwise.cli.options import Files, Format, Objective, Running, one_of
from partwise.errors import InputError
from partwise.tasks.data_options import DataOptions


@dataclass
class TreeOptions:
    """Which trees a parser builds, from which features."""

    structure: Annotated[str, typer.Option(help="spanning (all trees) or projective (no crossing arcs).")] = (
        "spanning"
    )
    order: Annotated[int, typer.Option(help="1: arcs by themselves; 2: siblings and grandparents too.")] = 1
    single_root: Annotated[
        str, typer.Option(help="Whether one word depends on the root: yes, no, or auto as in TRAIN.")
    ] = "auto"
    labelled: Annotated[bool, typer.Option("--labelled/--unlabelled", help="Learn relations too.")] = True
    templates: Annotated[
        str, typer.Option(help="Arc features: mcdonald, pos, or a file with one template a line.")
    ] = "mcdonald"
    prune: Annotated[str, typer.Option(help="Heads that a small model leaves each word; none, auto.")] = (
        "auto"
    )
    cost: Annotated[str, typer.Option(help="What costs: heads, labelled (relations too), or auto.")] = "auto"
    non_projective: Annotated[
        str, typer.Option(help="Crossing arcs in TRAIN, with --structure projective: skip or error.")
    ] = "skip"
    min_count: Annotated[int, typer.Option(help="Drop features seen less often on true arcs.")] = 1

    def root(self) -> Any:
        """`single_root` of the parser."""
        return {"auto": "auto", "yes": True, "no": False}[
            one_of("--single-root", self.single_root, "auto", "yes", "no")
        ]

    def parameters(self) -> dict[str, Any]:
        """Of a `DependencyParser`."""
        return {
            "structure": one_of("--structure", self.structure, "spanning", "projective"),
            "order": self.order,
            "single_root": self.root(),
            "labelled": self.labelled,
            "templates": _templates(self.templates),
            "prune": _heads_kept(self.prune),
            "cost": one_of("--cost", self.cost, "auto", "heads", "labelled"),
            "non_projective": one_of("--non-projective", self.non_projective, "skip", "error"),
            "min_count": self.min_count,
        }


def train_dependency(
    *, files: Files, objective: Objective, trees: TreeOptions, format: Format = "auto", running: Running
) -> None:
    """Train a dependency parser on a treebank in CoNLL-U, CoNLL-X or .dp format.

    Every pair of words is scored, and the best tree is found exactly; with --order 2 also pairs of arcs that have a
    word in common, exactly for projective trees and by a relaxation for all. Long training is cut short by pruning
    arcs with a small model of tags, whose recall is told. Ctrl-C saves the model trained so far.
    """
    from partwise.cli.training import Job, check_model_path, run_training
    from partwise.data import read_dependencies
    from partwise.features.arcs import ARCS
    from partwise.tasks.dependencies.commands import DependencyTrees
    from partwise.tasks.dependencies.parser import DependencyParser

    own_templates = None if trees.templates in ARCS.presets else trees.templates
    check_model_path(files.model, {"TRAIN": files.train, "--dev": files.dev, "--templates": own_templates})
    data = read_dependencies(files.train, format, single_root=trees.root() is True)
    parser = DependencyParser(**objective.parameters(), **running.parameters(), **trees.parameters())
    found = data.source.format if data.source else "auto"
    task = DependencyTrees(parser, DataOptions(found), files.model, found)
    job = Job(task, files.train, data, None, data.n_sentences)
    if files.dev is not None:
        job.dev = (read_dependencies(files.dev, format), None)
    run_training(job, objective, running)


def _heads_kept(text: str) -> Any:
    if text in ("auto", "none"):
        return None if text == "none" else text
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f"--prune must be auto, none or a number of heads, not {text!r:.40}")
    return int(text)


def _templates(text: str) -> Any:
    """A set's name, or the lines of a file."""
    from partwise.data import read_text
    from partwise.features.arcs import ARCS

    if text in ARCS.presets:
        return text
    lines = [line.strip() for line in read_text(text).splitlines()]
    found = [line for line in lines if line and not line.startswith("#")]
    if not found:
        raise InputError("this file has no arc templates", text)
    return found
