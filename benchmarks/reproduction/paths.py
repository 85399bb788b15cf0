"""Paths of regularisation: each C from the dual variables of the larger one before it (Collins et al. §7.1.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

from reproduction.curves import Watch
from reproduction.pictures import line, panels

MOST_PASSES = 200.0  # for one value
Published = tuple[Sequence[float], Sequence[float]]  # passes, and error or accuracy


def warm_path(
    problem: Any, solver: Any, l2s: Sequence[float], tol: float, watch: Watch
) -> list[dict[str, Any]]:
    """As published: looking at the gap costs nothing. It is looked at after each pass."""
    random = np.random.default_rng(0)
    state, rows = None, []
    for l2 in l2s:
        at, passes = problem.with_l2(l2), 0.0
        state = solver.init(at, random) if state is None else solver.carry_over(at, state, {"l2"})
        while True:
            state, info = solver.step(at, state, random)
            passes += info.passes
            _, certificate = solver.certificate(at, deepcopy(state))
            if certificate.relative_gap <= tol or passes >= MOST_PASSES:
                break
        gap = certificate.relative_gap
        rows.append({"l2": l2, "passes": passes, "gap": gap, "seen": watch(passes, certificate.weights)})
    return rows


def auto_path(problem: Any, l2s: Sequence[float], tol: float, watch: Watch) -> list[dict[str, Any]]:
    """By the solver that this library takes, with its own warm starts; the gap is looked at after every pass, too."""
    from partwise.solvers import solve, solver_for

    rows, before = [], None
    for l2 in l2s:
        at = problem.with_l2(l2)
        solver = solver_for(at, "auto", tol)
        settings = {"tol": tol, "max_passes": MOST_PASSES, "certificate_every": 1.0}
        before = solve(at, solver, warm_start=before, **settings)
        row = {"l2": l2, "passes": before.passes, "gap": before.certificate.relative_gap}
        rows.append({**row, "seen": watch(before.passes, before.weights)})
    return rows


def path_columns(rows: list[dict[str, Any]]) -> Published:
    return [row["passes"] for row in rows], [row["seen"] for row in rows]


def draw_path(numbers: dict[str, Any], published: Published, what: str, better: Callable[..., float]) -> Any:
    figure, (left, right) = panels(2)
    l2 = [row["l2"] for row in numbers["paper"]]
    runs = {"published": published, "the paper's EG, here": path_columns(numbers["paper"])}
    runs["auto, here"] = path_columns(numbers["auto"])
    for k, (name, (passes, seen)) in enumerate(runs.items()):
        line(left, l2, passes, f"{name}: {sum(passes):.1f} in all", k, marker="o", ms=3)
        line(right, l2, seen, f"{name}: best {better(seen):.2f} %", k, marker="o", ms=3)
    left.set(ylabel="effective iterations", title="To a gap of 0.1 %, from the C before")
    right.set(ylabel=what)
    for panel in (left, right):
        panel.set(xscale="log", xlabel="C = l2")
        panel.invert_xaxis()
        panel.legend(frameon=False)
    return figure


def path_table(numbers: dict[str, Any], published: Published, what: str) -> tuple[list[str], list[list[str]]]:
    header = ["C = l2", "published", what, "the paper's EG, here", what, "`auto`", what]
    rows, totals = [], [0.0, 0.0, 0.0]
    for passes, seen, paper, auto in zip(*published, numbers["paper"], numbers["auto"], strict=True):
        cells = [(passes, seen), (paper["passes"], paper["seen"]), (auto["passes"], auto["seen"])]
        totals = [total + cell[0] for total, cell in zip(totals, cells, strict=True)]
        rows.append([f"{paper['l2']:.4g}", *(f"{each:.2f}" for cell in cells for each in cell)])
    rows.append(["all", *(text for total in totals for text in (f"{total:.2f}", ""))])
    return header, rows
