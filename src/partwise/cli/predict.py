"""`partwise predict`: data in, the same data with predictions out, as it arrives."""

from __future__ import annotations

import json as json_module
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from partwise.errors import InputError

if TYPE_CHECKING:
    import numpy as np

    from partwise.cli.class_data import ClassData
    from partwise.cli.common import DataOptions
    from partwise.cli.sequence_data import PredictionBatch

_SMALLEST_SHOWN = 0.001
Distribution = list[tuple[str, float]]


def predict(
    model: Annotated[str, typer.Argument(help="Model file.", metavar="MODEL")],
    data: Annotated[str, typer.Argument(help="Data with or without labels; - is standard input.")] = "-",
    marginals: Annotated[
        bool, typer.Option("--marginals", help="Also append the probability of every label.")
    ] = False,
    kbest: Annotated[int, typer.Option(min=1, help="Append the K best labellings, a column each.")] = 1,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per sequence or row instead.")
    ] = False,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="File to write instead of standard output, which is -."),
    ] = None,
    format: Annotated[
        str | None, typer.Option(help="Format of the data, if not that of the training data.")
    ] = None,
    html: Annotated[
        str | None, typer.Option("--html", help="Also draw the trees of a parser on this page.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Threads.")] = 1,
) -> None:
    """Label data. Every line is kept as it is; the predicted label is appended as a column.

    With --marginals a second column holds label:probability pairs, the most probable first. Text written
    as word/TAG comes back in that form, JSON lines as with --json, CRFsuite attributes as labels alone.

    A parser writes heads and relations into their columns and leaves all else as it is. With --html the file is
    also drawn: the fainter an arc the less probable, and where DATA has trees wrong arcs beside the true ones.
    """
    from partwise.cli.common import load_with_options, require_readable, text_output
    from partwise.cli.paths import STANDARD, check_paths

    output = output or STANDARD
    check_paths({"--output": output, "--html": html}, {"MODEL": model, "DATA": data})
    estimator, options, header = load_with_options(model)
    require_readable(header, model)
    if format is not None:
        options = replace(options, format=format)
    estimator.set_params(n_jobs=jobs)
    if html is not None and header["estimator"] != "DependencyParser":
        raise InputError("--html draws trees; this model is no parser", model)
    if header["estimator"] == "DependencyParser":
        pieces = _trees(estimator, format or "auto", data, marginals, kbest, json, html)
    elif header["estimator"] == "SequenceLabeler":
        pieces = _sequences(estimator, options, data, marginals, kbest, json)
    elif kbest > 1:
        raise InputError("--kbest is for sequences; --marginals gives the probability of every class")
    elif marginals and not hasattr(estimator, "predict_proba"):
        raise InputError(
            "this model's loss has beta = inf and so no probabilities; train with --loss log", model
        )
    else:
        pieces = _classes(estimator, options, data, marginals, json)
    if output == STANDARD:
        target = text_output()
        for write in pieces:
            write(target)
    else:
        _write_file(output, pieces)


def _write_file(path: str, pieces: Iterator[Callable[[TextIO], None]]) -> None:
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


# -- sequences ------------------------------------------------------------------------------------


def _sequences(
    estimator: Any, options: DataOptions, path: str, marginals: bool, kbest: int, json: bool
) -> Iterator[Callable[[TextIO], None]]:
    from partwise.cli.sequence_data import check_kind, stream_predictions

    for batch in stream_predictions(path, options):
        if not batch.tokens:
            if batch.format == "conll" and not json:
                yield partial(batch.write, columns=[[]])
            continue
        check_kind(estimator, batch.x, path)
        if json or batch.format == "jsonl":
            yield partial(_write_lines, lines=_json_lines(estimator, batch, marginals, kbest))
        else:
            yield partial(batch.write, columns=_columns(estimator, batch, marginals, kbest))


def _columns(estimator: Any, batch: PredictionBatch, marginals: bool, kbest: int) -> list[list[list[str]]]:
    if kbest == 1:
        columns = [[list(map(str, labels)) for labels in estimator.predict(batch.x)]]
    else:
        found = estimator.predict_kbest(batch.x, k=kbest)
        # A short sequence has fewer labellings than asked for; its last one fills the columns.
        columns = [
            [list(map(str, best[min(rank, len(best) - 1)][0])) for best in found] for rank in range(kbest)
        ]
    if marginals:
        columns.append([list(map(_as_text, each)) for each in _marginals(estimator, batch)])
    return columns


def _json_lines(estimator: Any, batch: PredictionBatch, marginals: bool, kbest: int) -> list[str]:
    labels = estimator.predict(batch.x)
    objects = [
        {("tokens" if isinstance(tokens[0], str) else "features"): tokens, "labels": list(map(str, each))}
        for tokens, each in zip(batch.tokens, labels, strict=True)
    ]
    if marginals:
        for each, positions in zip(objects, _marginals(estimator, batch), strict=True):
            each["marginals"] = [dict(position) for position in positions]
    if kbest > 1:
        from partwise.core.losses import Loss

        value = "score" if Loss.of(estimator.loss).is_hard else "probability"
        for each, found in zip(objects, estimator.predict_kbest(batch.x, k=kbest), strict=True):
            each["kbest"] = [
                {"labels": list(map(str, labels)), value: float(number)} for labels, number in found
            ]
    return [json_module.dumps(each, ensure_ascii=False) for each in objects]


def _marginals(estimator: Any, batch: PredictionBatch) -> list[list[Distribution]]:
    names = [str(label) for label in estimator.classes_.tolist()]
    return [_distributions(names, array) for array in estimator.predict_marginals_array(batch.x)]


def _distributions(names: list[str], array: np.ndarray) -> list[Distribution]:
    """Of every row the labels that are not improbable, the most probable first."""
    import numpy as np

    order = (-array).argsort(axis=1, kind="stable")
    ordered = array[np.arange(len(array))[:, None], order]
    counts = (ordered >= _SMALLEST_SHOWN).sum(axis=1).tolist()
    width = max(counts, default=0)
    rows = zip(counts, order[:, :width].tolist(), ordered[:, :width].round(6).tolist(), strict=True)
    return [[(names[label], p) for label, p in zip(labels[:n], row, strict=False)] for n, labels, row in rows]


def _as_text(distribution: Distribution, glue: str = ",") -> str:
    return glue.join(f"{name}:{p:.4f}" for name, p in distribution)


# -- trees ----------------------------------------------------------------------------------------


def _trees(
    parser: Any, format: str, path: str, marginals: bool, kbest: int, json: bool, html: str | None
) -> Iterator[Callable[[TextIO], None]]:
    from partwise.cli.dependency import parse_stream, parse_to_page

    if html is None:
        return parse_stream(parser, path, format, marginals, kbest, json)
    if kbest > 1:
        raise InputError("--html draws one tree a sentence; leave out --kbest")
    return parse_to_page(parser, path, format, html, marginals, json)


# -- classes --------------------------------------------------------------------------------------


def _classes(
    estimator: Any, options: DataOptions, path: str, marginals: bool, json: bool
) -> Iterator[Callable[[TextIO], None]]:
    from partwise.cli.class_data import stream_classes

    for batch in stream_classes(path, options):
        yield partial(_write_lines, lines=_class_lines(estimator, batch, marginals, json))


def _class_lines(estimator: Any, batch: ClassData, marginals: bool, json: bool) -> list[str]:
    n_rows = batch.x.shape[0]
    labels = [str(label) for label in estimator.predict(batch.x).tolist()] if n_rows else []
    columns = [labels]
    distributions: list[Distribution] = []
    if marginals and n_rows:
        names = [str(name) for name in estimator.classes_.tolist()]
        distributions = _distributions(names, estimator.predict_proba(batch.x))
        glue = " " if batch.options.format == "csv" else ","
        columns.append([_as_text(each, glue) for each in distributions])
    if json:
        objects: list[dict[str, Any]] = [{"label": label} for label in labels]
        for each, distribution in zip(objects, distributions, strict=False):
            each["marginals"] = dict(distribution)
        return [json_module.dumps(each, ensure_ascii=False) for each in objects]
    is_table = batch.options.format == "csv"
    joint = (batch.options.separator or ",") if is_table else " "
    rows = zip(*columns, strict=True)
    appended = _cells(rows, joint) if is_table else [joint.join(row) for row in rows]
    if not batch.lines:
        return appended
    lines = list(batch.lines)
    for place, text in zip(batch.row_lines, appended, strict=True):
        lines[place] += joint + text
    if batch.names_line is not None:
        lines[batch.names_line] += joint + joint.join(("predicted", "marginals")[: 1 + marginals])
    return lines


def _cells(rows: Iterable[Sequence[str]], separator: str) -> list[str]:
    """Rows of a table as text, with quotes around the cells that need them."""
    import csv
    import io

    lines = io.StringIO(newline="")
    writer = csv.writer(lines, delimiter=separator, lineterminator="\0")
    writer.writerows(rows)
    return lines.getvalue().split("\0")[:-1]


def _write_lines(handle: TextIO, lines: list[str]) -> None:
    handle.write("".join(line + "\n" for line in lines))
    handle.flush()
