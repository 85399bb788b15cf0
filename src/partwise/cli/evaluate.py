"""`partwise evaluate`: how good a model is on labelled data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partwise.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from partwise.scoring.metrics import LabelScores

_CHUNK_LABEL = re.compile(r"[BIESLU]-.+", re.DOTALL)
_MOST_CONFUSIONS = 10


@dataclass
class Scores:
    """What `evaluate` prints.

    Attributes
    ----------
    accuracy : float
        Share of right labels.
    f1 : float
        Chunk F1 as conlleval counts it if the labels look like chunks (``O``, ``B-NP``, ``I-NP`` …), else the
        mean of the labels' F1.
    f1_kind : "chunk" or "macro"
    """

    accuracy: float
    f1: float
    f1_kind: str
    precision: float
    recall: float
    n_labels: int
    per_label: list[LabelScores]
    confusions: list[tuple[str, str, int]]

    def as_dict(self) -> dict[str, Any]:
        rows = {str(row.label): dict(row._asdict(), label=str(row.label)) for row in self.per_label}
        return {
            "accuracy": self.accuracy,
            "f1": self.f1,
            "f1_kind": self.f1_kind,
            "precision": self.precision,
            "recall": self.recall,
            "n_labels": self.n_labels,
            "per_label": {name: {k: v for k, v in row.items() if k != "label"} for name, row in rows.items()},
        }


def looks_like_chunks(labels: Sequence[Any]) -> bool:
    """Whether labels are tags of chunks: all ``O`` or a letter of IOBES or BILOU, a hyphen and a type."""
    chunk = [isinstance(label, str) and _CHUNK_LABEL.fullmatch(label) is not None for label in labels]
    return any(chunk) and all(is_chunk or label == "O" for is_chunk, label in zip(chunk, labels, strict=True))


def score(y_true: Sequence[Sequence[Any]], y_pred: Sequence[Sequence[Any]]) -> Scores:
    """Score predicted sequences of labels."""
    from partwise.scoring.metrics import chunk_scores, confusion, per_label_table, token_accuracy

    labels, matrix = confusion(y_true, y_pred)
    rows = per_label_table(y_true, y_pred)
    wrong = [
        (str(labels[i]), str(labels[j]), int(matrix[i, j]))
        for i in range(len(labels))
        for j in range(len(labels))
        if i != j and matrix[i, j]
    ]
    wrong = sorted(wrong, key=lambda each: -each[2])[:_MOST_CONFUSIONS]
    if looks_like_chunks(labels):
        chunks = chunk_scores(y_true, y_pred)
        kind, f1, precision, recall = "chunk", chunks.f1, chunks.precision, chunks.recall
    else:
        names = ("f1", "precision", "recall")
        f1, precision, recall = (
            sum(getattr(row, name) for row in rows) / max(len(rows), 1) for name in names
        )
        kind = "macro"
    return Scores(token_accuracy(y_true, y_pred), f1, kind, precision, recall, int(matrix.sum()), rows, wrong)


def evaluate(
    model: Annotated[str, typer.Argument(help="Model file.", metavar="MODEL")],
    data: Annotated[str, typer.Argument(help="Labelled data, read as in training; - is standard input.")],
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    format: Annotated[
        str | None, typer.Option(help="Format of the data, if not that of the training data.")
    ] = None,
) -> None:
    """Score a model on labelled data: accuracy, F1, every label, and what is taken for what.

    F1 is that of chunks, counted as conlleval does, where labels look like B-NP; else the mean over labels. Parsers
    are scored by attachment (UAS, LAS), as the scorers of CoNLL-X and of CoNLL 2018 count it.
    """
    from partwise.cli.common import load_with_options, output_console, print_json, require_readable

    estimator, options, header = load_with_options(model)
    require_readable(header, model)
    if header["estimator"] == "DependencyParser":
        from partwise.cli.dependency import show_scores, tree_scores
        from partwise.data import read_dependencies

        found = tree_scores(estimator, read_dependencies(data, format or "auto"))
        return print_json(found) if json else show_scores(output_console(), found)
    y_true, y_pred = predictions_for(estimator, options, header, data, format)
    scores = score(y_true, y_pred)
    if json:
        is_sequences = header["estimator"] == "SequenceLabeler"
        counts = (
            {"n_sequences": len(y_true), "n_tokens": scores.n_labels}
            if is_sequences
            else {"n_rows": scores.n_labels}
        )
        print_json({**scores.as_dict(), **counts})
        return
    show(output_console(), scores)


def predictions_for(
    estimator: Any, options: Any, header: Any, path: str, format: str | None
) -> tuple[Any, Any]:
    """True and predicted labels of a file, one list per sequence; all rows of a table are one sequence."""
    from dataclasses import replace

    options = options if format is None else replace(options, format=format)
    if header["estimator"] == "SequenceLabeler":
        from partwise.cli.sequence_data import check_kind, read_sequences

        data = read_sequences(path, options)
        check_kind(estimator, data.x, path)
        if data.y is None or any(label is None for sequence in data.y for label in sequence):
            raise InputError("some positions have no label; evaluation needs them all", path)
        return data.y, [list(labels) for labels in estimator.predict(data.x)]
    from partwise.cli.class_data import read_classes

    rows = read_classes(path, options)
    assert rows.y is not None
    return [[str(label) for label in rows.y.tolist()]], [
        [str(label) for label in estimator.predict(rows.x).tolist()]
    ]


def show(console: Any, scores: Scores) -> None:
    """Print scores for people."""
    kind = "chunk F1, as conlleval" if scores.f1_kind == "chunk" else "F1, mean over labels"
    console.print(f"[bold]accuracy {100 * scores.accuracy:.2f} %[/]  of {scores.n_labels:,} labels")
    console.print(
        f"[bold]F1 {100 * scores.f1:.2f}[/]  precision {100 * scores.precision:.2f}  "
        f"recall {100 * scores.recall:.2f}  ({kind})\n"
    )
    console.print(_label_table(scores))
    if scores.confusions:
        console.print("\n[bold]taken for another label most often[/]")
        console.print(_confusion_table(scores))


def _label_table(scores: Scores) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2), header_style="bold")
    table.add_column("label", overflow="fold")
    for title in ("precision", "recall", "F1", "true"):
        table.add_column(title, justify="right")
    for row in scores.per_label:
        rates = (f"{100 * rate:.2f}" for rate in (row.precision, row.recall, row.f1))
        table.add_row(escape(str(row.label)), *rates, f"{row.support:,}")
    return table


def _confusion_table(scores: Scores) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2), header_style="bold")
    table.add_column("true", overflow="fold")
    table.add_column("predicted", overflow="fold")
    table.add_column("times", justify="right")
    for true, predicted, count in scores.confusions:
        table.add_row(escape(true), escape(predicted), f"{count:,}")
    return table
