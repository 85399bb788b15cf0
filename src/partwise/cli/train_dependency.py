"""`partwise train dependency`: a treebank in, a parser with its certificate out."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from partwise.cli.common import DataOptions
from partwise.cli.options import (
    L2,
    Beta,
    Dev,
    Format,
    Gamma,
    Jobs,
    Json,
    LossName,
    MaxPasses,
    Model,
    Quiet,
    Seed,
    SolverName,
    TimeLimit,
    Tol,
    Train,
    loss_named,
    one_of,
)
from partwise.errors import InputError


def train_dependency(
    train: Train,
    model: Model,
    dev: Dev = None,
    loss: LossName = "log",
    beta: Beta = None,
    gamma: Gamma = None,
    l2: L2 = 1.0,
    solver: SolverName = "auto",
    tol: Tol = 1e-3,
    max_passes: MaxPasses = 200,
    structure: Annotated[
        str, typer.Option(help="spanning (all trees) or projective (no crossing arcs).")
    ] = "spanning",
    single_root: Annotated[
        str, typer.Option(help="Whether one word depends on the root: yes, no, or auto as in TRAIN.")
    ] = "auto",
    labelled: Annotated[bool, typer.Option("--labelled/--unlabelled", help="Learn relations too.")] = True,
    templates: Annotated[
        str, typer.Option(help="Arc features: mcdonald, pos, or a file with one template a line.")
    ] = "mcdonald",
    prune: Annotated[
        str, typer.Option(help="Heads that a small model leaves each word; none, auto.")
    ] = "auto",
    cost: Annotated[str, typer.Option(help="What costs: heads, or labelled (relations too).")] = "heads",
    non_projective: Annotated[
        str, typer.Option(help="Crossing arcs in TRAIN, with --structure projective: skip or error.")
    ] = "skip",
    min_count: Annotated[int, typer.Option(help="Drop features seen less often on true arcs.")] = 1,
    format: Format = "auto",
    jobs: Jobs = 1,
    seed: Seed = 0,
    time_limit: TimeLimit = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a dependency parser on a treebank in CoNLL-U, CoNLL-X or .dp format.

    Trees are arc-factored: every pair of words is scored, and the best tree is found exactly. Long training is cut
    short by pruning arcs with a small model of tags, whose recall is told. Ctrl-C saves the model trained so far.
    """
    from partwise.cli.training import Job, check_model_path, run_training
    from partwise.cli.trees import Trees
    from partwise.data import read_dependencies
    from partwise.estimators.parsing.parser import DependencyParser
    from partwise.features.arc_templates import PRESETS

    own_templates = None if templates in PRESETS else templates
    check_model_path(model, {"TRAIN": train, "--dev": dev, "--templates": own_templates})
    root: Any = {"auto": "auto", "yes": True, "no": False}[
        one_of("--single-root", single_root, "auto", "yes", "no")
    ]
    data = read_dependencies(train, format, single_root=root is True)
    parser = DependencyParser(
        loss=loss_named(loss, beta, gamma), l2=l2, solver=solver, tol=tol, max_passes=max_passes,
        random_state=seed, n_jobs=jobs, structure=one_of("--structure", structure, "spanning", "projective"),
        single_root=root, labelled=labelled, templates=_templates(templates), prune=_heads_kept(prune),
        cost=one_of("--cost", cost, "heads", "labelled"),
        non_projective=one_of("--non-projective", non_projective, "skip", "error"), min_count=min_count,
        time_limit=time_limit,
    )  # fmt: skip
    found = data.source.format if data.source else "auto"
    job = Job(Trees(parser, DataOptions(found), model, found), train, data, None, data.n_sentences)
    if dev is not None:
        job.dev = (read_dependencies(dev, format), None)
    run_training(job, json=json, quiet=quiet)


def _heads_kept(text: str) -> Any:
    if text in ("auto", "none"):
        return None if text == "none" else text
    if not text.isdecimal() or int(text) < 1:
        raise InputError(f"--prune must be auto, none or a number of heads, not {text!r:.40}")
    return int(text)


def _templates(text: str) -> Any:
    """A set's name, or the lines of a file."""
    from partwise.data import read_text
    from partwise.features.arc_templates import PRESETS

    if text in PRESETS:
        return text
    lines = [line.strip() for line in read_text(text).splitlines()]
    found = [line for line in lines if line and not line.startswith("#")]
    if not found:
        raise InputError("this file has no arc templates", text)
    return found
