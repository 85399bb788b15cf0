"""A picture of a path of l2: scores above, objective, passes and weights below."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from partwise.errors import InputError
from partwise.report import palette
from partwise.report.plots import STYLE, finish, load_pyplot


def plot_path(
    results: Sequence[Mapping[str, Any]],
    path: str | os.PathLike[str] | None = None,
    score_name: str = "score",
) -> bytes:
    """Draw the points of a path.

    Parameters
    ----------
    results : list of dict
        As in ``RegularizationPath.results_``.
    path : path or None
        PNG file to write.
    score_name : str
        What values were judged by.

    Returns
    -------
    bytes
        The PNG image.
    """
    if not results:
        raise InputError("there are no points on this path to draw")
    pyplot, l2 = load_pyplot(), np.array([each["l2"] for each in results])
    scored = any(each["dev_score"] is not None for each in results)
    with pyplot.rc_context(STYLE):
        figure, panels = pyplot.subplots(
            1, 3 if scored else 2, figsize=(12 if scored else 8, 3.6), layout="constrained"
        )
        if scored:
            _draw_scores(panels[0], l2, results, score_name)
        _draw_bounds(panels[-2], l2, results)
        _draw_work(panels[-1], l2, results)
        for panel in panels:
            panel.set_xscale("log")
            panel.invert_xaxis()
            panel.set_xlabel("l2, from strong to weak")
        return finish(pyplot, figure, path)


def _draw_scores(panel: Any, l2: np.ndarray, results: Sequence[Mapping[str, Any]], score_name: str) -> None:
    scores = 100 * np.array([each["dev_score"] for each in results], float)
    folds = [each["scores"] for each in results]
    if len(folds[0]) > 1:
        spread = 100 * np.std(folds, axis=1, ddof=1) / np.sqrt(len(folds[0]))
        panel.fill_between(l2, scores - spread, scores + spread, color=palette.BAND, linewidth=0)
    if results[0]["train_score"] is not None:
        train = 100 * np.array([each["train_score"] for each in results], float)
        panel.plot(l2, train, color=palette.FAINT_INK, linewidth=1.4, marker="o", markersize=3, label="train")
    panel.plot(l2, scores, color=palette.DUAL, linewidth=2.2, marker="o", markersize=3.5, label="dev")
    best = int(np.nanargmax(scores))
    panel.plot(l2[best], scores[best], "o", color=palette.PRIMAL, markersize=7)
    panel.set_title(f"{score_name}: best {scores[best]:.2f} at l2 = {l2[best]:.4g}")
    if results[0]["train_score"] is not None:
        panel.legend(frameon=False)


def _draw_bounds(panel: Any, l2: np.ndarray, results: Sequence[Mapping[str, Any]]) -> None:
    primal = np.array([each["objective"] for each in results], float)
    panel.plot(l2, primal, color=palette.PRIMAL, linewidth=2.2, marker="o", markersize=3.5)
    panel.set_title("objective")
    panel.set_yscale("log")


def _draw_work(panel: Any, l2: np.ndarray, results: Sequence[Mapping[str, Any]]) -> None:
    passes = np.array([each["passes"] for each in results], float)
    panel.plot(l2, passes, color=palette.SERIES[1], linewidth=2.2, marker="o", markersize=3.5)
    panel.set_ylim(bottom=0)
    panel.set_title(f"passes, {passes.sum():.0f} together")
