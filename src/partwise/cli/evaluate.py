"""`partwise evaluate`: scores of a model on labelled data."""

from __future__ import annotations

from typing import Annotated

import typer

from partwise.cli.options import ModelFile, OneObject, OtherFormat


def evaluate(
    model: ModelFile,
    data: Annotated[str, typer.Argument(help="Labelled data, read as in training; - is standard input.")],
    entities: Annotated[
        bool,
        typer.Option(
            "--entities",
            help="Also score probabilities of entities: calibration error, precision and recall by threshold.",
        ),
    ] = False,
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
    from partwise.report.score_tables import print_entity_scores
    from partwise.tasks.task import Wanted

    task = load_task(model, format)
    X, truths = task.labelled(data)
    warn_of_unknown(task, X, truths, data)
    if entities:
        task.check_wanted(Wanted(entities=True))
    found = task.scores(X, truths)
    of_entities = task.entity_scores(X, truths) if entities else None
    if json:
        print_json(
            found.values if of_entities is None else {**found.values, "entities": of_entities.as_dict()}
        )
        return
    console = output_console()
    found.show(console)
    if of_entities is not None:
        print_entity_scores(console, of_entities)
