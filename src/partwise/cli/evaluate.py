"""`partwise evaluate`: how good a model is on labelled data."""

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
    """Score a model on labelled data: accuracy, F1, every label, and what is taken for what.

    F1 is that of chunks, counted as conlleval does, where labels look like B-NP; else the mean over labels. Dependency
    parsers are scored by attachment (UAS, LAS), as the scorers of CoNLL-X and of CoNLL 2018 count it, constituency
    parsers by labelled brackets, as evalb counts them with COLLINS.prm.
    """
    from partwise.cli.common import load_task
    from partwise.report.output import output_console, print_json

    found = load_task(model, format).evaluation(data)
    if json:
        print_json(found.values)
    else:
        found.show(output_console())
