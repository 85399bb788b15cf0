"""`partwise predict`: data in, the same data with predictions out, as it arrives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partwise.cli.options import ModelFile, OtherFormat

if TYPE_CHECKING:
    from partwise.tasks.task import Write


def predict(
    model: ModelFile,
    data: Annotated[str, typer.Argument(help="Data with or without labels; - is standard input.")] = "-",
    marginals: Annotated[
        bool,
        typer.Option(
            "--marginals",
            help="Also append the probabilities of the labels, as one column: label:probability,label:probability.",
        ),
    ] = False,
    kbest: Annotated[int, typer.Option(min=1, help="Append the K best labellings, a column each.")] = 1,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per sequence or row instead.")
    ] = False,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="File to write instead of standard output, which is -."),
    ] = None,
    format: OtherFormat = None,
    html: Annotated[
        str | None, typer.Option("--html", help="Also draw the trees of a parser on this page.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Threads.")] = 1,
) -> None:
    """Label data. Every line is kept as it is; the predicted label is appended as a column.

    With --marginals a second column holds label:probability pairs with commas between them, the most probable
    first, four decimals each, those below 0.001 left out. Text written as word/TAG comes back in that form, and with
    --marginals or --kbest as columns, a word a line with tabs: word, label(s), pairs; a blank line ends a sentence.
    JSON lines come back as with --json, with what else they held; CRFsuite attributes as labels alone.

    A labeler of graphs writes every object back with the labels of its nodes in it.

    A dependency parser writes heads and relations into their columns and leaves all else as it is. A constituency
    parser reads trees, text with a sentence a line or, where it needs tags, word/TAG, and writes a tree a line.
    With --html the file is also drawn: the fainter an arc or a constituent the less probable, and where DATA has trees
    what is wrong is marked.
    """
    from partwise.cli.common import load_task
    from partwise.cli.files import STANDARD, check_paths
    from partwise.report.output import text_output
    from partwise.tasks.task import Wanted

    output = output or STANDARD
    check_paths({"--output": output, "--html": html}, {"MODEL": model, "DATA": data})
    task = load_task(model, format)
    task.estimator.set_params(n_jobs=jobs)
    pieces = task.answers(data, Wanted(marginals, kbest, json, html))
    if output == STANDARD:
        target = text_output()
        for write in pieces:
            write(target)
    else:
        _write_file(output, pieces)


def _write_file(path: str, pieces: Iterator[Write]) -> None:
    import io

    from partwise.storage.atomic import write_atomically

    def write_all(handle: Any) -> None:
        text = io.TextIOWrapper(
            handle, encoding="utf-8", errors="backslashreplace", newline="", write_through=True
        )
        for write in pieces:
            write(text)
        text.flush()
        text.detach()

    write_atomically(path, write_all)
