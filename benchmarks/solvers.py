"""All solvers side by side: suboptimality against passes and against CPU time, as a table and a picture.

    python benchmarks/solvers.py --data DIR/conll2000 [--loss log] [--l2 2] [--pairs observed] [--fold 1]
                                 [--solvers all] [--passes 150] [--cpu 30] [--precision double]
                                 [--below VALUE] [--constant 1] [--plot out.png] [--json out.json]

The folder is that of conll2000 or conll2002-es (chunking template, transitions shared) or of the handwritten
words (pixels, and a constant unless `--constant 0`; one fold). `--solvers all` takes every solver that minimises
the loss; "auto" and any registered name can be given. First the optimum is bracketed (which for β = ∞ takes
`--minutes`); then every solver starts from nothing in a process of its own, on one thread, until its primal is
within 1e-6 of the optimum or passes or CPU seconds are used up. Compiling and evaluating the primal are not in
the times. Distances are to the largest dual value that any of them saw: what no weights can get below.
`--precision` is for solvers that have the choice. `--mark 12,1e-6` puts a star there, against passes;
`--from-json` prints and draws what was measured before, `--add NAMES` after measuring more solvers in the same way.
"""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from common import (
    arguments,
    first_within,
    in_child,
    need_data,
    peak_megabytes,
    table,
    trajectory,
    write_json,
)

TARGETS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6)
SPACING = 0.04  # evaluations this share of the passes apart
WARM_UP = 8  # steps on few examples; `smo-eg` changes its kind of step after five
BOLD = ("auto", "eg-gap", "sdca", "bcfw", "chain-cd")
SHARPENED = "eg-gap sharpened"  # for β = ∞, through finite β: a setting, not a name


def is_letters(folder: Path) -> bool:
    return (folder / "letter.data.gz").exists()


def build(data: dict[str, Any], few: bool = False) -> Any:
    """The problem, or one of the same kind with few examples."""
    folder, loss, l2 = Path(data["folder"]), data["loss"], data["l2"]
    if is_letters(folder):
        from ocr_data import explicit_problem, read_letters, select

        letters, fold = read_letters(folder)
        words = fold == data["fold"]
        if few:
            words &= words.cumsum() <= 40
        return explicit_problem(select(letters, words), l2, loss, constant=data.get("constant", True))
    from sequence import build_problem

    return build_problem(folder, l2, data["pairs"], loss, n_sentences=100 if few else None)


def chosen_solver(problem: Any, name: str, precision: str) -> Any:
    from partwise.solvers import ExponentiatedGradient, solver_for

    sharpened = ExponentiatedGradient("gap", "newton", sharpen=True)
    solver: Any = sharpened if name == SHARPENED else solver_for(problem, name)
    return dataclasses.replace(solver, precision=precision) if hasattr(solver, "precision") else solver


# -- tasks, each in a process of its own ----------------------------------------------------------


def task_bracket(data: dict[str, Any]) -> dict[str, Any]:
    """(dual, primal) around the optimum, and the names of the solvers that minimise this loss."""
    from partwise.errors import InputError
    from partwise.solvers import SOLVERS, solve, solver_for
    from partwise.solvers.needs import check_solver

    problem = build(data)
    names = [SHARPENED] if problem.loss.is_hard else []
    for name, solver in SOLVERS.items():
        try:
            check_solver(problem, solver)
        except InputError:
            continue
        if solver.minimises:
            names.append(name)
    limit = 60 * data.get("minutes", 4.0)
    best = solver_for(problem, "auto", tol=1e-8)
    found = solve(problem, best, tol=1e-8, max_passes=2000, time_limit=limit).certificate
    return {"dual": found.dual, "primal": found.primal, "solvers": names}


def task_run(data: dict[str, Any], solver: str, optimum: float, limits: dict[str, Any]) -> dict[str, Any]:
    few = build(data, few=True)
    warm = chosen_solver(few, solver, limits["precision"])
    trajectory(few, warm, 1e-300, WARM_UP)  # an optimum that is never reached
    problem = build(data)
    chosen = chosen_solver(problem, solver, limits["precision"])
    result = trajectory(
        problem, chosen, optimum, limits["passes"], TARGETS, max_cpu=limits["cpu"], spacing=SPACING
    )
    return {**result, "megabytes": peak_megabytes()}


# -- the whole comparison --------------------------------------------------------------------------


def compare(data: dict[str, Any], names: str, limits: dict[str, Any]) -> dict[str, Any]:
    bracket = in_child(__file__, "bracket", data=data)
    result = {"data": data, "limits": limits, "bracket": bracket, "runs": {}}
    measure(result, bracket["solvers"] if names == "all" else names.split(","))
    return result


def measure(result: dict[str, Any], names: list[str]) -> None:
    """Run solvers under the limits of the result, and add what they did to it."""
    bracket, runs = result["bracket"], result["runs"]
    shared = {"data": result["data"], "limits": result["limits"], "optimum": bracket["dual"]}
    for name in names:
        run = in_child(__file__, "run", **shared, solver=name)
        runs[name] = run
        passes, cpu, primal, dual = run["points"][-1][:4]
        print(
            f"{name}: {passes:.1f} passes, {cpu:.1f} CPU s, between {dual:.4f} and {primal:.4f}", flush=True
        )
        bracket["dual"] = max(bracket["dual"], *(point[3] for point in run["points"]))
        bracket["primal"] = min(bracket["primal"], *(point[2] for point in run["points"]))
    for run in runs.values():
        run["reached"] = first_within(run["points"], bracket["dual"], TARGETS)


def cell(run: dict[str, Any], target: float) -> str:
    """Passes and CPU seconds, or how far it got without reaching the target."""
    here = run["reached"].get(f"{target:g}")
    if here:
        return f"{here['passes']:.1f} / {here['cpu']:.2f}"
    passes, cpu = run["points"][-1][:2]
    return f"> {passes:.0f} / > {cpu:.0f}"


def show(result: dict[str, Any]) -> None:
    bracket, runs = result["bracket"], result["runs"]
    print(f"\noptimum between {bracket['dual']:.6f} and {bracket['primal']:.6f}")
    rows = []
    for name, run in sorted(runs.items(), key=lambda item: order_of(item[1])):
        end = min(point[2] for point in run["points"]) / bracket["dual"] - 1.0
        own = [name, f"{run['cpu_per_pass']:.3f}"]
        rows.append([*own, *(cell(run, t) for t in TARGETS), f"{end:.1e}", f"{run['megabytes']:.0f}"])
    header = ["passes / CPU s to", "s/pass", *(f"{t:g}" for t in TARGETS), "best", "MB"]
    print(table(rows, header))
    show_gaps(runs)
    if result.get("below"):
        show_below(runs, result["below"])


def show_gaps(runs: dict[str, Any]) -> None:
    """Relative gaps after whole numbers of passes, between two steps by a straight line of logarithms."""
    marks, rows = (2, 5, 6, 10), []
    for name, run in runs.items():
        passes = [point[0] for point in run["points"]]
        logs = [math.log((point[2] - point[3]) / point[2]) for point in run["points"]]
        gaps = [math.exp(np.interp(mark, passes, logs)) for mark in marks if mark <= passes[-1]]
        rows.append([name, *(f"{gap:.2e}" for gap in gaps), *(["–"] * (len(marks) - len(gaps)))])
    print("\n" + table(rows, ["relative gap after passes", *map(str, marks)]))


def show_below(runs: dict[str, Any], value: float) -> None:
    """Passes and CPU seconds until the primal is below a value, say one published."""
    rows = []
    for name, run in sorted(runs.items(), key=lambda item: order_of(item[1])):
        first = next((point for point in run["points"] if point[2] < value), None)
        rows.append([name, f"{first[0]:.1f} / {first[1]:.2f}" if first else "–"])
    print("\n" + table(rows, ["passes / CPU s to", f"a primal below {value:g}"]))


def order_of(run: dict[str, Any]) -> tuple[float, ...]:
    """By CPU time to 1e-3, then to 1e-2 and 1e-1, then by what was reached."""
    times = [run["reached"].get(f"{t:g}", {}).get("cpu", float("inf")) for t in (1e-3, 1e-2, 1e-1)]
    return (*times, min(point[2] for point in run["points"]))


def plot(result: dict[str, Any], path: str, mark: str | None) -> None:
    """Primal suboptimality against passes (left) and CPU seconds (right)."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    bracket, runs, data = result["bracket"], result["runs"], result["data"]
    width = bracket["primal"] / bracket["dual"] - 1.0
    lowest = min(point[2] for run in runs.values() for point in run["points"]) / bracket["dual"] - 1.0
    figure, both = pyplot.subplots(1, 2, figsize=(12, 5), sharey=True, constrained_layout=True)
    colors = pyplot.get_cmap("tab20").colors[::2] + pyplot.get_cmap("tab20").colors[1::2]
    for number, (name, run) in enumerate(sorted(runs.items(), key=lambda item: order_of(item[1]))):
        above = [max(point[2] / bracket["dual"] - 1.0, 1e-8) for point in run["points"]]
        style = {"color": colors[number % 20], "ls": ":" if name == "sdca" else "-" if number < 10 else "--"}
        for column, axes in enumerate(both):
            across = [point[column] for point in run["points"]]
            axes.loglog(across, above, label=name, lw=2.6 if name in BOLD else 1.3, **style)
    for axes, label in zip(both, ("passes over the data", "CPU seconds"), strict=True):
        axes.set(xlabel=label, ylim=(max(1e-7, lowest / 3), 3.0 if data["loss"] == "log" else 30.0))
        axes.grid(color="#eceff4")
        if width > 1e-7:
            axes.axhspan(1e-9, width, color="#d5dae4", alpha=0.6, lw=0)
    if mark:
        across, up = map(float, mark.split(","))
        both[0].plot(across, up, "k*", ms=12, zorder=5)
        both[0].annotate("published ", (across, up), ha="right", va="top")
    both[0].set_ylabel("primal suboptimality, relative")
    both[1].legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.0, 0.5))
    name = Path(data["folder"]).name
    figure.suptitle(f"{name}, loss = {data['loss']}, l2 = {data['l2']:g}")
    figure.savefig(path, dpi=110)


def main() -> None:
    more = {
        "--loss": "log", "--pairs": "observed", "--fold": "1", "--passes": "150", "--cpu": "30",
        "--precision": "double", "--constant": "1", "--below": None, "--plot": None, "--mark": None,
        "--minutes": "4", "--from-json": None, "--add": None,
    }  # fmt: skip
    options = arguments(__doc__ or "", l2="2", solvers="all", more=more)
    if options.task:
        print(json.dumps(globals()[f"task_{options.task}"](**json.loads(options.options))))
        return
    if options.from_json:  # draw and print again what was measured before
        result = json.loads(Path(options.from_json).read_text(encoding="utf-8"))
        measure(result, options.add.split(",") if options.add else [])
    else:
        folder = need_data(options.data, "conll2000, conll2002-es or ocr")
        data = {"folder": str(folder), "loss": options.loss, "l2": float(options.l2), "pairs": options.pairs}
        limits = {"passes": float(options.passes), "cpu": float(options.cpu), "precision": options.precision}
        data["minutes"] = float(options.minutes)
        letters = {"fold": int(options.fold), "constant": bool(int(options.constant))}
        result = compare({**data, **letters}, options.solvers, limits)
        result["below"] = None if options.below is None else float(options.below)
    show(result)
    write_json(options.json, result)
    if options.plot:
        plot(result, options.plot, options.mark)


if __name__ == "__main__":
    main()
