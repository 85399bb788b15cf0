"""Pictures of the experiments of `dependency.py`.

    python benchmarks/dependency_plots.py path figures.json picture.png

draws again what `dependency.py path --json figures.json` found.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

from dependency_tasks import best_on_dev

from partwise.report import palette
from partwise.report.plots import _STYLE, _finish, _pyplot

LABELS = {
    ("log", "eg-gap"): "eg-gap (auto)",
    ("hinge", "bcfw"): "bcfw (auto)",
    ("hinge", "eg-sharpen"): "eg-gap, sharpening",
    ("log", "eg"): "eg, random order",
    ("hinge", "eg"): "eg at β = ∞",
    ("log", "lbfgs"): "L-BFGS",
    ("log", "sgd"): "SGD, step searched",
    ("hinge", "svm-struct"): "SVM-struct",
}
LINE = {"linewidth": 2.0, "solid_capstyle": "round"}


def name_of(folder: str, limit: int | None) -> str:
    return Path(folder).name + ("" if limit is None else f", first {limit:,} sentences")


def plain_ticks(axis: Any) -> None:
    """1, 2, 5, 10, 20 in place of powers of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def plot_iterations(results: list[dict[str, Any]], path: str) -> None:
    _plot_curves(results, 0, "passes over the data", path)


def plot_margin(results: list[dict[str, Any]], path: str) -> None:
    _plot_curves(results, 1, "CPU seconds", path)


def _plot_curves(results: list[dict[str, Any]], column: int, axis: str, path: str) -> None:
    """For each l2 a column: distance from the optimum, and accuracy on dev below."""
    pyplot = _pyplot()
    with pyplot.rc_context(_STYLE):
        figure, panels = pyplot.subplots(
            2, len(results), figsize=(4.8 * len(results), 6.4), layout="constrained", squeeze=False,
            sharex=True, sharey="row", height_ratios=(3, 2),
        )  # fmt: skip
        for result, (upper, lower) in zip(results, panels.T, strict=True):
            bound = result["optimum"]["dual"]
            for (solver, run), color in zip(result["runs"].items(), palette.SERIES, strict=False):
                place = [point[column] for point in run["points"]]
                label = LABELS.get((result["loss"], solver), solver)
                above = [max(point[2] / bound - 1, 1e-5) for point in run["points"]]
                upper.plot(place, above, color=color, label=label, **LINE)
                seen = [(at, point[5]) for at, point in zip(place, run["points"], strict=True) if point[5]]
                lower.plot(*zip(*seen, strict=True), color=color, **LINE)
            upper.set(yscale="log", ylim=(None, 30.0), title=f"l2 = {result['l2']:g}")
            upper.axhspan(1e-6, max(result["optimum"]["primal"] / bound - 1, 1e-6), color=palette.BAND)
            lower.set(xscale="log", xlabel=axis)
            plain_ticks(lower.xaxis)
        best = max(point[5] or 0.0 for r in results for run in r["runs"].values() for point in run["points"])
        panels[1][0].set(ylim=(best - 12, best + 1))
        lowest = min(line.get_ydata().min() for panel in panels[0] for line in panel.lines)
        panels[0][0].set(ylim=(0.6 * lowest, 30.0))
        panels[0][0].set_ylabel("objective above the optimum, relative")
        panels[1][0].set_ylabel("dev UAS, %")
        lines, labels = panels[0][0].get_legend_handles_labels()
        figure.legend(lines, labels, frameon=False, loc="outside lower center", ncols=2 * len(results))
        figure.suptitle(_heading(results[0]), x=0.01, ha="left", weight="bold")
        _finish(pyplot, figure, path)


def _heading(result: dict[str, Any]) -> str:
    model = {"log": "CRF", "hinge": "max-margin"}.get(str(result["loss"]), str(result["loss"]))
    return f"{name_of(result['folder'], result['limit'])}: {model}"


def plot_path(result: dict[str, Any], path: str) -> None:
    """Accuracy by l2, and passes with and without a warm start."""
    pyplot = _pyplot()
    rows = result["rows"]
    l2 = [row["l2"] for row in rows]
    with pyplot.rc_context(_STYLE):
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(9.6, 3.9), layout="constrained")
        for part, color in zip(("dev", "test"), palette.SERIES, strict=False):
            left.plot(l2, [row[part]["uas"] for row in rows], color=color, marker="o", label=part, **LINE)
        left.set(xscale="log", xlabel="l2, strong to weak", ylabel="UAS, %", title=_heading(result))
        for start, color in zip(("warm", "cold"), palette.SERIES, strict=False):
            passes = [row[start]["passes"] for row in rows]
            label = f"{start} start, {sum(passes):.0f} in all"
            right.plot(l2, passes, color=color, marker="o", label=label, **LINE)
        right.set(xscale="log", yscale="log", xlabel="l2, strong to weak", ylabel="passes")
        plain_ticks(right.yaxis)
        right.set_title(f"Passes to a gap of {result['tol']:g}")
        for panel in (left, right):
            panel.invert_xaxis()
            plain_ticks(panel.xaxis)
            panel.legend(frameon=False)
        _finish(pyplot, figure, path)


def plot_losses(results: list[dict[str, Any]], path: str) -> None:
    """Accuracy of every (β, γ) at the l2 that dev takes, with one standard error of independent words."""
    pyplot = _pyplot()
    best = [(each["loss"], best_on_dev(each["rows"])) for each in results]
    with pyplot.rc_context(_STYLE):
        figure, panel = pyplot.subplots(figsize=(7.2, 3.9), layout="constrained")
        for part, shift, color in zip(("dev", "test"), (-0.08, 0.08), palette.SERIES, strict=False):
            value = [row[part]["uas"] for _, row in best]
            error = [
                math.sqrt(v * (100 - v) / row[part]["n_words"])
                for v, (_, row) in zip(value, best, strict=True)
            ]
            place = [i + shift for i in range(len(best))]
            panel.errorbar(place, value, error, color=color, marker="o", capsize=3, label=part, linewidth=1.4)
        names = [f"β {beta}, γ {gamma}".replace("inf", "∞") for (beta, gamma), _ in best]
        names[0], names[-1] = f"{names[0]}\nCRF", f"{names[-1]}\nmax-margin"
        panel.set_xticks(range(len(best)), [name.replace(", ", "\n") for name in names])
        panel.set(ylabel="UAS, %", title=name_of(results[0]["folder"], results[0]["limit"]))
        panel.legend(frameon=False)
        _finish(pyplot, figure, path)


if __name__ == "__main__":
    experiment, figures, picture = sys.argv[1:]
    globals()[f"plot_{experiment}"](json.loads(Path(figures).read_text(encoding="utf-8")), picture)
