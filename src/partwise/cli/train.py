"""`partwise train`: data in, a model file with its certificate out."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from partwise.cli.common import DataOptions, add_command, parse_separator
from partwise.cli.options import (
    L2,
    Beta,
    Comment,
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
    Separator,
    SolverName,
    TimeLimit,
    Tol,
    Train,
    loss_named,
    one_of,
)
from partwise.cli.train_dependency import train_dependency
from partwise.errors import InputError

app = typer.Typer(
    help="Train a model and save it with its certificate.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def train_sequence(
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
    template: Annotated[
        str | None, typer.Option(help="chunking, ner, pos, or a file in partwise's or CRF++'s syntax.")
    ] = None,
    format: Format = "auto",
    separator: Separator = None,
    label_column: Annotated[int, typer.Option(help="Column of the label; negative from the right.")] = -1,
    comment: Comment = None,
    scheme: Annotated[str | None, typer.Option(help="Labels must obey IOB2, IOBES, BILOU or IOB1.")] = None,
    min_count: Annotated[int, typer.Option(help="Drop attributes seen less often.")] = 1,
    hash_size: Annotated[int | None, typer.Option(help="Hash attributes to this many numbers.")] = None,
    pairs: Annotated[
        str, typer.Option(help="Weights for observed (attribute, label) pairs, or all.")
    ] = "observed",
    order: Annotated[int, typer.Option(help="How many labels back transitions look.")] = 1,
    jobs: Jobs = 1,
    seed: Seed = 0,
    time_limit: TimeLimit = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a sequence labeler: chunks, names, parts of speech.

    TRAIN holds columns (CoNLL), word/TAG text, JSON lines or CRFsuite attributes. Columns become features
    through a template: by default chunking where there are two columns or more, else ner for chunk labels and
    pos for others.
    Ctrl-C saves the model trained so far.
    """
    from partwise.cli.sequences import Sequences
    from partwise.cli.training import Job, check_model_path, run_training
    from partwise.estimators.sequence.labeler import SequenceLabeler
    from partwise.features.templates import PRESETS

    own_template = None if template in PRESETS else template
    check_model_path(model, {"TRAIN": train, "--dev": dev, "--template": own_template})
    data, chosen = _sequence_data(
        train, DataOptions(format, parse_separator(separator), label_column, comment), template
    )
    if data.y is None:
        raise InputError("no labels in this file; training needs them", train)
    estimator = SequenceLabeler(
        loss=loss_named(loss, beta, gamma), l2=l2, solver=solver, tol=tol, max_passes=max_passes,
        random_state=seed, n_jobs=jobs, pairs=one_of("--pairs", pairs, "observed", "all"),
        scheme=scheme, order=order, template=chosen, min_count=min_count, hash_size=hash_size,
        time_limit=time_limit,
    )  # fmt: skip
    task = Sequences(estimator, data.options, model)
    job = Job(task, train, data.x, data.y, data.n_sequences, data.weights)
    if dev is not None:
        dev_data, _ = _sequence_data(dev, data.options, template)
        if dev_data.y is None:
            raise InputError("no labels in this file; --dev needs them", dev)
        job.dev = (dev_data.x, dev_data.y)
    run_training(job, json=json, quiet=quiet)


def train_classify(
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
    format: Format = "auto",
    separator: Separator = None,
    label_column: Annotated[
        str, typer.Option(help="Column of the class: a number or, in CSV, a name.")
    ] = "-1",
    comment: Comment = None,
    jobs: Jobs = 1,
    seed: Seed = 0,
    time_limit: TimeLimit = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a classifier on a libsvm file, a table (CSV, TSV) with a column of classes, or an npz file."""
    from partwise.cli.class_data import read_classes
    from partwise.cli.classes import Classes
    from partwise.cli.training import Job, check_model_path, run_training
    from partwise.estimators.classify.classifier import Classifier

    check_model_path(model, {"TRAIN": train, "--dev": dev})
    column = int(label_column) if label_column.lstrip("+-").isdecimal() else label_column
    data = read_classes(train, DataOptions(format, parse_separator(separator), column, comment))
    estimator = Classifier(
        loss=loss_named(loss, beta, gamma), l2=l2, solver=solver, tol=tol, max_passes=max_passes,
        random_state=seed, n_jobs=jobs, time_limit=time_limit,
    )  # fmt: skip
    job = Job(Classes(estimator, data.options, model), train, data.x, data.y, data.x.shape[0])
    if dev is not None:
        dev_data = read_classes(dev, data.options)
        job.dev = (dev_data.x, dev_data.y)
    run_training(job, json=json, quiet=quiet)


def _sequence_data(path: str, options: DataOptions, template: str | None) -> tuple[Any, str | None]:
    """The data, and the template if features are to be made by one."""
    from partwise.cli.sequence_data import read_sequences
    from partwise.scoring.labelling import looks_like_chunks

    data = read_sequences(path, options)
    if not data.is_columns:
        if template is not None:
            raise InputError("--template needs columns; this file holds ready-made features", path)
        return data, None
    if template is None:
        labels = sorted({label for sequence in data.y or [] for label in sequence if label is not None})
        one_column = "ner" if looks_like_chunks(labels) else "pos"
        template = "chunking" if data.options.n_columns > 1 else one_column
    return data, template


add_command(app, "sequence", train_sequence)
add_command(app, "classify", train_classify)
add_command(app, "dependency", train_dependency)
