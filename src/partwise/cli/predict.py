"""`partwise predict`: reads data and writes the same data with predictions, batch by batch."""

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
            help="Also append probabilities, as one column: label:probability,label:probability.",
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
    entities: Annotated[
        bool,
        typer.Option(
            "--entities",
            help="Also append entities with their probabilities, as one column: TYPE:TOKENS:PROBABILITY.",
        ),
    ] = False,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="With --entities: all that are at least so probable, also those not in the labels."
        ),
    ] = None,
    risk: Annotated[
        float | None,
        typer.Option(
            help="With --entities: leave out entities so that at most this share is wrong; see `partwise calibrate`."
        ),
    ] = None,
    decode: Annotated[
        str,
        typer.Option(
            help="What labels are best at: viterbi (the whole labelling), marginal (accuracy), mbr (F1 of entities)."
        ),
    ] = "viterbi",
    text: Annotated[
        bool,
        typer.Option(
            "--text",
            help="DATA is running text: it is split into sentences and tokens as the training data were, and a JSON "
            "object is written for each sentence.",
        ),
    ] = False,
    jobs: Annotated[int, typer.Option(help="Threads.")] = 1,
) -> None:
    """Label data. Every line is kept, and the predicted label is appended as a column.

    With --marginals, a second column holds label:probability pairs separated by commas. The most probable label comes
    first; probabilities below 0.001 are left out. word/TAG text is written as word/TAG. With --marginals or --kbest, it
    is written as columns separated by tabs, one word per line: word, label(s), pairs. JSON lines are written as with
    --json and keep their other entries. For CRFsuite attributes, only labels are written.

    With --entities, the column at the first token of an entity holds its type, its number of tokens and the probability
    of exactly this entity; it is _ at other tokens. JSON objects have "entities" with first, last, type and
    probability, and with start and end if the input line has "offsets" [start, end] of its tokens. --decode mbr chooses
    for the sequences of a batch together, about 1,000 lines.

    A graph labeler writes the labels of nodes into the JSON objects.

    A dependency parser replaces the columns of heads and relations. A constituency parser reads trees, or text with one
    sentence per line (word/TAG if the parser needs tags), and writes one tree per line. --html also draws the trees:
    less probable arcs and constituents are fainter, and errors are marked if DATA has trees.
    """
    from partwise.cli.common import load_task
    from partwise.cli.files import STANDARD, check_paths
    from partwise.report.output import text_output
    from partwise.tasks.task import Wanted

    output = output or STANDARD
    check_paths({"--output": output, "--html": html}, {"MODEL": model, "DATA": data})
    task = load_task(model, format)
    task.estimator.set_params(n_jobs=jobs)
    pieces = task.answers(data, Wanted(marginals, kbest, json, html, entities, threshold, decode, risk, text))
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
