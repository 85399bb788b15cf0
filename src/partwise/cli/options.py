"""Options that the commands which train have in common."""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer

from partwise.errors import InputError

Train = Annotated[
    str, typer.Argument(help="Training data, plain or gzipped; - is standard input.", metavar="TRAIN")
]
Model = Annotated[str, typer.Option("--model", "-m", help="File to save the model to.", show_default=False)]
Dev = Annotated[str | None, typer.Option("--dev", help="Labelled data to score while training.")]
LossName = Annotated[
    str, typer.Option("--loss", help="log (CRF), hinge (max-margin), softmax_margin or perceptron.")
]
Beta = Annotated[
    float | None, typer.Option("--beta", help="Sharpness of the loss instead of --loss; inf is allowed.")
]
Gamma = Annotated[float | None, typer.Option("--gamma", help="How much costs widen the margin, with --beta.")]
L2 = Annotated[
    float, typer.Option("--l2", help="Strength C of the regulariser (C/2)|w|²; twice CRFsuite's c2.")
]
SolverName = Annotated[str, typer.Option("--solver", help="auto, eg, eg-gap, lbfgs, sgd and others.")]
Tol = Annotated[float, typer.Option("--tol", help="Relative duality gap to stop at.")]
MaxPasses = Annotated[float, typer.Option("--max-passes", help="Most passes over the data.")]
TimeLimit = Annotated[float | None, typer.Option("--time-limit", help="Seconds after which to stop.")]
Jobs = Annotated[int, typer.Option("--jobs", help="Threads; -1 for all processors.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of everything random.")]
Format = Annotated[str, typer.Option("--format", help="How the data is written; auto looks at it.")]
Separator = Annotated[
    str | None, typer.Option("--separator", help="Between columns: a character, tab, space, comma.")
]
Comment = Annotated[str | None, typer.Option("--comment", help="Skip lines that start with this.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output at the end.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show nothing while training.")]


def one_of(option: str, value: str, *choices: str) -> Any:
    """The value of an option that has few."""
    if value not in choices:
        raise InputError(f"{option} must be {' or '.join(choices)}, not {value!r:.40}")
    return value


def loss_named(name: str, beta: float | None, gamma: float | None) -> Any:
    """The loss that --loss, or --beta and --gamma, ask for."""
    from partwise.core.losses import Loss

    if beta is None and gamma is None:
        return name
    if beta is None:
        raise InputError("--gamma needs --beta: the loss is then Loss(beta, gamma)")
    if math.isnan(beta):
        raise InputError("--beta must be a number > 0, or inf")
    return Loss(beta, 0.0 if gamma is None else gamma)
