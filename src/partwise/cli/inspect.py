"""`partwise inspect`: the contents of a model file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from partwise.cli.options import ModelFile, OneObject, Top

if TYPE_CHECKING:
    from partwise.report.summary import Summary


def inspect(
    model: ModelFile,
    top: Top = 20,
    label: Annotated[str | None, typer.Option(help="Only weights of this label.")] = None,
    json: OneObject = False,
) -> None:
    """Show a model: certificate, training record, largest feature and transition weights."""
    from partwise.cli.common import load_with_header
    from partwise.report.output import output_console, print_json
    from partwise.report.summary import summarize

    estimator, header = load_with_header(model)
    summary = summarize(estimator, header, top, label)
    if json:
        print_json(summary.as_dict())
        return
    show(output_console(), summary, model)


def show(console: Any, summary: Summary, path: str) -> None:
    """Print a summary for people."""
    from rich.markup import escape

    console.print(f"[bold]{escape(path)}[/]: {summary.kind}\n", soft_wrap=True)
    for title, values in (
        ("settings", summary.settings), ("sizes", summary.sizes), ("certificate", summary.certificate),
        ("training", summary.training),
    ):  # fmt: skip
        if values:
            console.print(f"[bold]{title}[/]")
            _print_facts(console, values)
    features = [(label, attribute, weight) for attribute, label, weight in summary.top_features]
    _print_weights(console, "largest feature weights", ("weight", "label", "feature"), features)
    _print_weights(console, "largest transition weights", ("weight", "from", "to"), summary.top_transitions)


def _print_facts(console: Any, values: dict[str, Any]) -> None:
    from rich.markup import escape

    from partwise.report.numbers import shown

    width = max(map(len, values))
    for name, value in values.items():
        if value is not None:
            console.print(f"  {name:<{width}}  {escape(shown(value, name))}", soft_wrap=True)
    console.print()


def _print_weights(
    console: Any, title: str, columns: tuple[str, ...], rows: list[tuple[Any, Any, float]]
) -> None:
    from rich.markup import escape
    from rich.table import Table

    if not rows:
        return
    console.print(f"[bold]{title}[/]")
    table = Table(box=None, padding=(0, 2), header_style="dim")
    table.add_column(columns[0], justify="right", no_wrap=True)
    table.add_column(columns[1], no_wrap=True)
    table.add_column(columns[2], overflow="fold")
    for first, second, weight in rows:
        style = "green" if weight > 0 else "red"
        table.add_row(f"[{style}]{weight:+.4f}[/]", escape(str(first)), escape(str(second)))
    console.print(table)
    console.print()
