"""`partwise evaluate`: scores of a model on labelled data."""

from __future__ import annotations

from typing import Annotated

import typer

from partwise.cli.options import ModelFile, OneObject, OtherFormat


def evaluate(
    model: ModelFile,
    data: Annotated[str, typer.Argument(help="Labelled data, read as in training; - is standard input.")],
    json: OneObject = False,
    format: OtherFormat = None,
) -> None:
    """Score a model on labelled data: accuracy, F1, a row for every label, and the confusion matrix.

    If labels look like B-NP, F1 is that of chunks, counted as conlleval does. Otherwise F1 is the mean over labels.
    Dependency parsers are scored by attachment (UAS, LAS), as the scorers of CoNLL-X and of CoNLL 2018 count it.
    Constituency parsers are scored by labelled brackets, as evalb counts them with COLLINS.prm.
    """
    from partwise.cli.common import load_task, warn_of_unknown
    from partwise.report.output import output_console, print_json

    task = load_task(model, format)
    X, truths = task.labelled(data)
    warn_of_unknown(task, X, truths, data)
    found = task.scores(X, truths)
    if json:
        print_json(found.values)
    else:
        found.show(output_console())
