"""`partwise report`: models and runs as one HTML page without other files."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partwise.cli.options import OpenPage, OtherFormat, Top

if TYPE_CHECKING:
    from rich.console import Console

    from partwise.report.runs import Given

_SILENCE = 2.0  # seconds between two lines of progress


def report(
    models: Annotated[
        list[str],
        typer.Argument(
            help="Model files, checkpoints, paths, or the output of train --json.",
            metavar="MODEL|RUN...",
        ),
    ],
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", help="HTML file to write; - is standard output. By default, MODEL.html."
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option("--data", "--dev", help="Labelled data, for scores, reliability and examples."),
    ] = None,
    examples: Annotated[
        int, typer.Option(min=0, help="How many examples of the data to show, worst first.")
    ] = 200,
    top: Top = 30,
    format: OtherFormat = None,
    open: OpenPage = False,
) -> None:
    """Write a page about models and runs: scores, errors, probabilities, training.

    The page has the training curves of all runs, and the certificate and largest weights of the first model. With
    labelled data, it also has scores, the confusion matrix, reliability diagrams and examples. The page works offline.
    Damaged files and unfinished runs are named in one line, and shown as far as possible.
    """
    from partwise.cli.files import STANDARD, check_paths
    from partwise.errors import InputError
    from partwise.report.bundle import scripted_page
    from partwise.report.output import error_console, open_in_browser, write_page_to
    from partwise.report.runs import read_given

    inputs = (
        {f"MODEL {k}": path for k, path in enumerate(models, 1)} if len(models) > 1 else {"MODEL": models[0]}
    )
    if output is None:
        output = f"{models[0]}.html"
    if open and output == STANDARD:
        raise InputError("--open shows a file: name one with --output")
    check_paths({"--output": output}, {**inputs, "--data": data})
    console = error_console()
    given = [read_given(path) for path in models]
    if all(each.is_empty for each in given):
        raise InputError(given[0].note, given[0].name)
    _tell(console, [f"{each.name}: {each.note}" for each in given if each.note])
    title = f"Model {os.path.basename(models[0])}" if len(models) == 1 else f"{len(models)} runs"
    write_page_to(output, scripted_page(title, _content(given, data, examples, top, format, console)))
    if output != STANDARD:
        _tell(console, [f"page written to {output}"])
    if open:
        open_in_browser(Path(output).resolve().as_uri())


def _content(
    given: list[Given], data: str | None, examples: int, top: int, format: str | None, console: Console | None
) -> dict[str, Any]:
    """The data of the page."""
    from partwise.report.numbers import file_size
    from partwise.report.summary import summarize
    from partwise.web.sections import model_section

    notes = [f"{each.name}: {each.note}" for each in given if each.note]
    content: dict[str, Any] = {
        "runs": [each.run() for each in given if each.history or not each.path],
        "paths": [{"name": each.name, "points": each.path} for each in given if each.path],
        "notes": notes,
    }
    first = next((each for each in given if each.model is not None), None)
    if first is None:
        return content
    content["model"] = model_section(first.name, summarize(first.model, first.header, top))
    content["about"] = _about(first, data)
    content["figures"] = [("model file", file_size(first.name))]
    if not content["model"]["features"]:
        notes.append("no largest weights: this model has none by name")
    if sum(each.model is not None for each in given) > 1:
        notes.append(f"weights, scores and examples are those of the first model, {first.name}")
    if data is None:
        notes.append("no scores, reliability or examples: they need labelled data (--data)")
        return content
    content |= _labelled(first, data, examples, format, console)
    content["figures"] = [*content["scores"]["scores"][:3], *content["figures"]]
    return content


def _about(given: Given, data: str | None) -> list[str]:
    """When and on what the model was trained, and what it is scored on, for the first line of the page."""
    told = []
    trained = given.header.get("training")
    if isinstance(trained, dict) and isinstance(trained.get("path"), str):
        day = str(trained["date"])[:10] if isinstance(trained.get("date"), str) else ""
        told.append(f"trained{f' {day}' if day else ''} on {os.path.basename(trained['path'])}")
    if data is not None:
        told.append(f"scores on {os.path.basename(data)}")
    return told


def _labelled(
    given: Given, data: str, examples: int, format: str | None, console: Console | None
) -> dict[str, Any]:
    """The sections for labelled data."""
    from partwise.tasks.task import opened_task
    from partwise.web.sections import example_section, score_section

    task, last = opened_task(given.model, given.header, given.name, format), time.monotonic()
    inputs, truths = task.examples(*task.labelled(data))
    evidence = task.evidence(inputs, truths)

    def told(done: int) -> None:
        nonlocal last
        if time.monotonic() > last + _SILENCE:
            last = time.monotonic()
            _tell(console, [f"{done} of {min(examples, len(evidence.errors))} examples explained"])

    return {
        "scores": score_section(evidence),
        "explorer": example_section(task, inputs, truths, evidence, examples, told),
    }


def _tell(console: Console | None, lines: list[str]) -> None:
    for line in lines if console is not None else ():
        console.print(line, highlight=False, markup=False, soft_wrap=True)  # type: ignore[union-attr]
