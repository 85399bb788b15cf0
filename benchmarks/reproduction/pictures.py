"""What the pictures share: panels, lines in the library's colours, the claim and the finding below."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from partwise.report import palette
from partwise.report.plots import STYLE, load_pyplot
from reproduction.experiment import Experiment

COLOURS = (*palette.SERIES, palette.PRIMAL, "#111111", "#7fb6e6")
WIDTH = 9.4


def panels(n_columns: int, n_rows: int = 1, height: float = 3.5, **settings: Any) -> tuple[Any, list[Any]]:
    """A figure with room for a caption, and its panels row by row."""
    pyplot = load_pyplot()
    pyplot.rcParams.update({**STYLE, "axes.titlesize": 10, "font.size": 9, "legend.fontsize": 8})
    figure, axes = pyplot.subplots(
        n_rows, n_columns, figsize=(WIDTH, height * n_rows), layout="constrained", squeeze=False, **settings
    )
    return figure, list(axes.ravel())


def line(
    panel: Any, across: Sequence[Any], up: Sequence[Any], label: str | None, k: int, **style: Any
) -> None:
    """One line in colour number `k`; points without a value are left out."""
    pairs = [(x, y) for x, y in zip(across, up, strict=True) if x is not None and y is not None]
    if pairs:
        panel.plot(*zip(*pairs, strict=True), color=COLOURS[k], label=label, **{"lw": 1.6, **style})


def column(points: list[list[Any]], k: int) -> list[Any]:
    return [point[k] for point in points]


def save(figure: Any, experiment: Experiment, numbers: dict[str, Any]) -> Path:
    """Write the PNG, with the paper's claims and what was found here as its caption."""
    from PIL import Image

    lines = [experiment.source]
    for claim, ours, held in experiment.verdicts(numbers):
        mark = {True: "held", False: "did not hold", None: "not comparable"}[held]
        lines += textwrap.wrap(f"Paper: {claim}. Here: {ours} ({mark}).", 150, subsequent_indent="    ")
    figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=7.5, color=palette.SOFT_INK)
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + 0.14 * len(lines))
    raw = io.BytesIO()
    figure.savefig(raw, dpi=100)
    load_pyplot().close(figure)
    experiment.picture.parent.mkdir(parents=True, exist_ok=True)
    Image.open(raw).convert("RGB").quantize(96).save(experiment.picture, optimize=True)
    return experiment.picture
