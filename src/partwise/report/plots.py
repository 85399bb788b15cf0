"""Pictures with matplotlib: convergence of primal and dual, and predicted digits with their marginals."""

from __future__ import annotations

import io
import math
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from partwise.errors import InputError
from partwise.report import palette
from partwise.storage.atomic import write_atomically

if TYPE_CHECKING:
    from partwise.scoring.reliability import Reliability

STYLE = {
    "font.family": "sans-serif",
    "font.size": 10.0,
    "axes.edgecolor": palette.LINE,
    "axes.labelcolor": palette.SOFT_INK,
    "axes.titlecolor": palette.INK,
    "axes.titlesize": 11.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 10.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": palette.GRID,
    "grid.linewidth": 0.8,
    "xtick.color": palette.SOFT_INK,
    "ytick.color": palette.SOFT_INK,
    "text.color": palette.INK,
    "figure.facecolor": "white",
}


_NO_BOUNDS = "there is no finite primal and dual in the history to draw"


class Picture(bytes):
    """A PNG image, which notebooks show."""

    def _repr_png_(self) -> bytes:
        return bytes(self)


def plot_convergence(
    histories: Mapping[str, Sequence[Mapping[str, float]]],
    path: str | os.PathLike[str] | None = None,
    tol: float | None = None,
) -> bytes:
    """Draw primal and dual of each run, and the relative gaps of all runs.

    Parameters
    ----------
    histories : dict of name to list of records
        Records have at least passes, primal, dual and gap, as in ``history_``.
    path : path or None
        PNG file to write.
    tol : float or None
        The relative gap that training aimed at.

    Returns
    -------
    bytes
        The PNG image.
    """
    runs = {name: _finite(history) for name, history in histories.items()}
    runs = {name: records for name, records in runs.items() if len(records["passes"])}
    if not runs:
        raise InputError(_NO_BOUNDS)
    pyplot = load_pyplot()
    with pyplot.rc_context(STYLE):
        figure, axes = pyplot.subplots(
            1, len(runs) + 1, figsize=(4.6 * (len(runs) + 1), 3.9), layout="constrained", squeeze=False
        )
        for panel, (name, records) in zip(axes[0], runs.items(), strict=False):
            _draw_meeting(panel, name, records)
        _draw_gaps(axes[0][-1], runs, tol)
        figure.get_layout_engine().set(w_pad=0.12, h_pad=0.08, wspace=0.04)
        return finish(pyplot, figure, path)


def _draw_meeting(panel: Any, name: str, records: Mapping[str, np.ndarray]) -> None:
    passes, primal, dual = records["passes"], records["primal"], records["dual"]
    panel.fill_between(passes, dual, primal, color=palette.BAND, linewidth=0)
    panel.plot(passes, primal, color=palette.PRIMAL, linewidth=2.2, marker="o", markersize=3.5)
    panel.plot(passes, dual, color=palette.DUAL, linewidth=2.2, marker="o", markersize=3.5)
    low, high = value_range(primal, dual)
    panel.set_ylim(low, high)
    panel.set_title(name)
    panel.set_xlabel("passes over the data")
    panel.set_ylabel("objective")
    panel.annotate(
        f"optimum between {dual[-1]:,.2f}\nand {primal[-1]:,.2f}",
        (0.97, 0.84), xycoords="axes fraction", ha="right", va="top", color=palette.SOFT_INK, fontsize=9.5,
    )  # fmt: skip
    panel.text(
        0.97,
        0.95,
        "primal",
        color=palette.PRIMAL,
        transform=panel.transAxes,
        ha="right",
        va="top",
        weight="bold",
    )
    panel.text(
        0.97,
        0.05,
        "dual",
        color=palette.DUAL,
        transform=panel.transAxes,
        ha="right",
        va="bottom",
        weight="bold",
    )


def _draw_gaps(panel: Any, runs: Mapping[str, Mapping[str, np.ndarray]], tol: float | None) -> None:
    for (name, records), color in zip(runs.items(), palette.SERIES, strict=False):
        gap = np.maximum(records["gap"] / np.maximum(np.abs(records["primal"]), 1e-12), 1e-16)
        panel.plot(records["passes"], gap, color=color, linewidth=2.2, marker="o", markersize=3.5, label=name)
    panel.set_yscale("log")
    if tol is not None:
        panel.axhline(tol, color=palette.SOFT_INK, linewidth=1.0, linestyle=(0, (4, 3)))
        panel.annotate(
            f"tol = {tol:g}", (0.02, tol), xycoords=("axes fraction", "data"), xytext=(0, 4),
            textcoords="offset points", color=palette.SOFT_INK, fontsize=9,
        )  # fmt: skip
    panel.set_title("The gap bounds what is left to gain")
    panel.set_xlabel("passes over the data")
    panel.set_ylabel("relative duality gap")
    panel.legend(frameon=False, loc="upper right")


def plot_bounds(
    history: Sequence[Mapping[str, float]], path: str | os.PathLike[str] | None = None
) -> Picture:
    """Draw primal and dual of one run.

    Parameters
    ----------
    history : list of records
        As in ``history_``.
    path : path or None
        PNG file to write.
    """
    records = _finite(history)
    if not len(records["passes"]):
        raise InputError(_NO_BOUNDS)
    pyplot = load_pyplot()
    with pyplot.rc_context(STYLE):
        figure, panel = pyplot.subplots(figsize=(5.4, 3.9), layout="constrained")
        _draw_meeting(panel, "Objective and lower bound", records)
        return finish(pyplot, figure, path)


def plot_confusion(
    labels: Sequence[str], matrix: np.ndarray, path: str | os.PathLike[str] | None = None
) -> Picture:
    """Draw a confusion matrix; each row is shaded by its shares.

    Parameters
    ----------
    labels : list of str (n_labels,)
    matrix : ndarray of int (n_labels, n_labels)
        Rows are true labels, columns predicted ones.
    path : path or None
        PNG file to write.
    """
    pyplot = load_pyplot()
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    size = 1.6 + 0.42 * len(labels)
    with pyplot.rc_context({**STYLE, "axes.grid": False}):
        figure, panel = pyplot.subplots(figsize=(size + 0.6, size), layout="constrained")
        panel.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0)
        for row, column in np.argwhere(matrix):
            color = "white" if shares[row, column] > 0.55 else palette.INK
            panel.text(
                column, row, f"{matrix[row, column]:,}", ha="center", va="center", color=color, fontsize=8
            )
        panel.set_xticks(range(len(labels)), labels, rotation=90, parse_math=False)
        panel.set_yticks(range(len(labels)), labels, parse_math=False)
        panel.set_xlabel("predicted")
        panel.set_ylabel("true")
        panel.set_title("Confusion matrix")
        return finish(pyplot, figure, path)


def plot_reliability(found: Reliability, path: str | os.PathLike[str] | None = None) -> Picture:
    """Draw a reliability diagram: the share of parts that are true, by their probability.

    Parameters
    ----------
    found : Reliability
    path : path or None
        PNG file to write.
    """
    pyplot = load_pyplot()
    with pyplot.rc_context(STYLE):
        figure, panel = pyplot.subplots(figsize=(4.6, 4.4), layout="constrained")
        panel.plot([0, 1], [0, 1], color=palette.SOFT_INK, linewidth=1.0, linestyle=(0, (4, 3)))
        sizes = 12 + 160 * found.count / max(found.count.max(initial=1), 1)
        panel.plot(found.probability, found.frequency, color=palette.DUAL, linewidth=1.6)
        panel.scatter(found.probability, found.frequency, s=sizes, color=palette.DUAL, zorder=3)
        panel.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), xlabel="probability", ylabel="share that is true")
        panel.set_title(f"Calibration error {100 * found.expected_error:.1f} %, {found.n_parts:,} parts")
        return finish(pyplot, figure, path)


def value_range(primal: np.ndarray, dual: np.ndarray) -> tuple[float, float]:
    """Limits of an axis that show convergence even if the first values are far off."""
    end = 0.5 * (primal[-1] + dual[-1])
    spread = max(float(np.median(primal - dual)) * 4.0, abs(end) * 0.05, 1e-9)
    low = max(float(dual.min()), end - spread)
    high = min(float(primal.max()), end + spread)
    margin = 0.06 * max(high - low, 1e-9)
    return low - margin, high + margin


def plot_dates(
    images: np.ndarray,
    digits: np.ndarray,
    alone: np.ndarray,
    chain: np.ndarray,
    marginals: np.ndarray,
    path: str | os.PathLike[str] | None = None,
) -> bytes:
    """Draw dates with the predictions of the classifier and of the chain, and the chain's marginals.

    Parameters
    ----------
    images : ndarray (n, length, rows, columns)
    digits, alone, chain : ndarray (n, length) of int
        True digits, those of the independent classifier and those of the chain.
    marginals : ndarray (n, length, 10)
        The chain's probability of each digit.
    """
    pyplot = load_pyplot()
    n_dates, length = digits.shape
    with pyplot.rc_context({**STYLE, "axes.grid": False}):
        figure = pyplot.figure(figsize=(11.5, 0.75 + 2.05 * n_dates))
        outer = figure.add_gridspec(
            n_dates, 2, width_ratios=[2.5, length], left=0.025, right=0.985, wspace=0.02,
            top=1 - 0.72 / (0.75 + 2.05 * n_dates), bottom=0.02, hspace=0.16,
        )  # fmt: skip
        for k in range(n_dates):
            _draw_readings(figure.add_subplot(outer[k, 0]), digits[k], alone[k], chain[k])
            block = outer[k, 1].subgridspec(2, length, height_ratios=[1.0, 0.72], hspace=0.03, wspace=0.14)
            for place in range(length):
                picture = figure.add_subplot(block[0, place])
                picture.imshow(images[k, place], cmap="bone_r", vmin=0, vmax=1, interpolation="nearest")
                _bare(picture, palette.LINE)
                bars = figure.add_subplot(block[1, place])
                _draw_marginals(bars, marginals[k, place], int(digits[k, place]), int(chain[k, place]))
        height = 0.75 + 2.05 * n_dates
        figure.text(
            0.025, 1 - 0.2 / height, "Smudged dates, read by a chain", fontsize=15, weight="bold", va="top"
        )
        figure.text(
            0.985, 1 - 0.24 / height, "bars: the chain's probability of each digit", fontsize=10, ha="right",
            va="top", color=palette.SOFT_INK,
        )  # fmt: skip
        return finish(pyplot, figure, path)


def _draw_readings(panel: Any, digits: np.ndarray, alone: np.ndarray, chain: np.ndarray) -> None:
    """The true and the predicted date, with wrong digits in red."""
    panel.axis("off")
    panel.set_xlim(0, 1)
    panel.set_ylim(0, 1)
    rows = (("written", digits), ("each digit alone", alone), ("chain", chain))
    for (name, read), y in zip(rows, (0.84, 0.52, 0.20), strict=True):
        panel.text(0.0, y + 0.10, name, fontsize=8.5, color=palette.SOFT_INK, va="center")
        x = 0.0
        for place, digit in enumerate(read):
            x += 0.05 * (place in (2, 4))
            right = digit == digits[place]
            panel.text(
                x, y - 0.03, str(int(digit)), fontsize=15, family="monospace", va="center",
                weight="normal" if right else "bold", color=palette.INK if right else palette.WRONG,
            )  # fmt: skip
            x += 0.089
        if name != "written":
            mark, color = ("✓", palette.RIGHT) if (read == digits).all() else ("✗", palette.WRONG)
            panel.text(x + 0.02, y - 0.03, mark, fontsize=14, color=color, va="center", family="DejaVu Sans")


def _draw_marginals(panel: Any, probability: np.ndarray, true: int, predicted: int) -> None:
    colors = [palette.FAINT] * len(probability)
    colors[predicted] = palette.RIGHT if predicted == true else palette.WRONG
    panel.bar(np.arange(len(probability)), np.maximum(probability, 0.015), color=colors, width=0.78)
    panel.set_ylim(0, 1.08)
    panel.set_xlim(-0.6, len(probability) - 0.4)
    _bare(panel, None)
    for digit in range(len(probability)):
        strong = digit in (true, predicted)
        panel.text(
            digit, -0.06, str(digit), ha="center", va="top", fontsize=6.6,
            color=palette.INK if strong else palette.FAINT_INK, weight="bold" if strong else "normal",
        )  # fmt: skip


def _bare(panel: Any, edge: str | None) -> None:
    panel.set_xticks([])
    panel.set_yticks([])
    for spine in panel.spines.values():
        spine.set_visible(edge is not None)
        if edge is not None:
            spine.set_color(edge)


def _finite(history: Sequence[Mapping[str, float]]) -> dict[str, np.ndarray]:
    """Columns of the records whose primal and dual are finite."""
    keys = ("passes", "primal", "dual", "gap")
    rows = [[float(record[key]) for key in keys] for record in history]
    rows = [row for row in rows if all(map(math.isfinite, row))]
    columns = np.array(rows).reshape(-1, len(keys)).T
    return dict(zip(keys, columns, strict=True))


def finish(pyplot: Any, figure: Any, path: str | os.PathLike[str] | None) -> Picture:
    """The figure as a PNG image, written to `path` if given."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=140)
    pyplot.close(figure)
    data = Picture(buffer.getvalue())
    if path is not None:
        write_atomically(path, lambda handle: handle.write(data))
    return data


def load_pyplot() -> Any:
    """Matplotlib, which draws to memory; InputError if it is not installed."""
    try:
        import matplotlib
    except ImportError:
        raise InputError("pictures need matplotlib: pip install 'partwise[plots]'") from None
    # A notebook has chosen how its own pictures are shown.
    if "matplotlib.pyplot" not in sys.modules and not os.environ.get("MPLBACKEND"):
        matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot
