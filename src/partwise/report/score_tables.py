"""Scores of labels as tables on a console."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from partwise.scoring.entity_scores import EntityScores
    from partwise.scoring.label_sets import LabelSetScores
    from partwise.scoring.labelling import LabellingScores


def print_label_scores(console: Any, scores: LabellingScores) -> None:
    """Print scores of labels for people: those of entities or chunks first, if there are any."""
    kind = "chunk F1, as conlleval" if scores.types else "F1, mean over labels"
    lines = [
        f"accuracy {100 * scores.accuracy:.2f} %  of {scores.n_labels:,} labels",
        f"F1 {100 * scores.f1:.2f}  precision {100 * scores.precision:.2f}  "
        f"recall {100 * scores.recall:.2f}  ({kind})",
    ]
    for line in reversed(lines) if scores.types else lines:
        console.print(line, style="bold")
    console.print()
    if scores.types:
        rows = ((t, c.precision, c.recall, c.f1, c.n_true, c.n_predicted) for t, c in scores.types.items())
        console.print(number_table(["type"], ["precision", "recall", "F1", "true", "predicted"], rows))
        console.print()
    console.print(_label_table(scores))
    if scores.confusions:
        console.print("\n[bold]most frequent confusions[/]")
        console.print(_confusion_table(scores))


def print_entity_scores(console: Any, scores: EntityScores) -> None:
    """Print scores of probabilities of entities for people."""
    found, possible = scores.reliability(), scores.reliability("candidates")
    console.print(
        f"\n[bold]calibration error of entities {100 * found.expected_error:.2f} %[/]  of {found.n_parts:,} predicted; "
        f"{100 * possible.expected_error:.2f} % of {possible.n_parts:,} with a probability of at least 0.01"
    )
    console.print(f"expected {scores.expected:,.1f} entities, {scores.n_true:,} are true\n")
    rows = ((f"{row.threshold:g}", *row[1:]) for row in scores.by_threshold())
    console.print(number_table(["probability at least"], ["precision", "recall", "F1", "entities"], rows))


def print_label_set_scores(console: Any, scores: LabelSetScores) -> None:
    """Print scores of sets of labels for people."""
    console.print(f"[bold]exact sets {100 * scores.accuracy:.2f} %[/]  of {scores.n_examples:,} examples")
    console.print(
        f"[bold]F1 {100 * scores.f1:.2f}[/]  precision {100 * scores.precision:.2f}  "
        f"recall {100 * scores.recall:.2f}  (over all labels)\n"
    )
    console.print(_label_table(scores))


def _label_table(scores: LabellingScores | LabelSetScores) -> Table:
    rows = ((str(row.label), row.precision, row.recall, row.f1, row.support) for row in scores.per_label)
    return number_table(["label"], ["precision", "recall", "F1", "true"], rows)


def _confusion_table(scores: LabellingScores) -> Table:
    return number_table(["true", "predicted"], ["times"], scores.confusions)


def number_table(texts: list[str], numbers: list[str], rows: Iterable[Iterable[Any]]) -> Table:
    """A table of some columns of text and then of numbers: rates in per cent, counts with commas, None as nothing."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2), header_style="bold")
    for title in texts:
        table.add_column(title, overflow="fold")
    for title in numbers:
        table.add_column(title, justify="right")
    for row in rows:
        table.add_row(*(escape(cell) if isinstance(cell, str) else in_words(cell) for cell in row))
    return table


def in_words(value: float | None) -> str:
    """A rate in per cent, or a count."""
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{100 * value:.2f}"
