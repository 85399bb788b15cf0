"""Scores of labels as tables on a console."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from partwise.scoring.label_sets import LabelSetScores
    from partwise.scoring.labelling import LabellingScores


def print_label_scores(console: Any, scores: LabellingScores) -> None:
    """Print scores of labels for people."""
    kind = "chunk F1, as conlleval" if scores.f1_kind == "chunk" else "F1, mean over labels"
    console.print(f"[bold]accuracy {100 * scores.accuracy:.2f} %[/]  of {scores.n_labels:,} labels")
    console.print(
        f"[bold]F1 {100 * scores.f1:.2f}[/]  precision {100 * scores.precision:.2f}  "
        f"recall {100 * scores.recall:.2f}  ({kind})\n"
    )
    console.print(_label_table(scores))
    if scores.confusions:
        console.print("\n[bold]most frequent confusions[/]")
        console.print(_confusion_table(scores))


def print_label_set_scores(console: Any, scores: LabelSetScores) -> None:
    """Print scores of sets of labels for people."""
    console.print(f"[bold]exact sets {100 * scores.accuracy:.2f} %[/]  of {scores.n_examples:,} examples")
    console.print(
        f"[bold]F1 {100 * scores.f1:.2f}[/]  precision {100 * scores.precision:.2f}  "
        f"recall {100 * scores.recall:.2f}  (over all labels)\n"
    )
    console.print(_label_table(scores))


def _label_table(scores: LabellingScores | LabelSetScores) -> Table:
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


def _confusion_table(scores: LabellingScores) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2), header_style="bold")
    table.add_column("true", overflow="fold")
    table.add_column("predicted", overflow="fold")
    table.add_column("times", justify="right")
    for true, predicted, count in scores.confusions:
        table.add_row(escape(true), escape(predicted), f"{count:,}")
    return table
