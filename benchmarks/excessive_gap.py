"""Passes to a given duality gap on handwritten words: `excessive-gap` against the other max-margin solvers.

    python benchmarks/excessive_gap.py --data DIR/ocr [--l2 10] [--passes 400] [--plot rates.png] [--json out.json]

Trains a max-margin Markov network on fold 0 (626 words) and certifies every step. The table has the first
pass (and iteration, and CPU second) at which the relative gap is below each target; the plot is log–log, with
the slopes −1 and −2 of gap ~ 1/k and 1/k². For the paper's fixed steps, which would need days, the table
has the number of iterations at which its guarantee μ_k Σ log|Y_i| reaches the target where it was not run so far.
"""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import arguments, need_data, table, write_json
from ocr_data import explicit_problem, read_letters, select

TARGETS = (1e-1, 1e-2, 1e-3, 1e-4)


def solvers(problem: Any) -> dict[str, Any]:
    from partwise.solvers import BMRM, BatchEG, BlockFrankWolfe, ExcessiveGap

    n = problem.batch.example_weight.sum()
    paper = float(n * problem.feature_spread().max() / problem.l2)
    return {
        "excessive-gap": ExcessiveGap(),
        "excessive-gap, fixed": ExcessiveGap("fixed"),
        "excessive-gap, fixed, paper's L": ExcessiveGap("fixed", paper),
        "eg-batch": BatchEG(),
        "eg-batch, fixed": BatchEG("safe", "uniform"),
        "bmrm": BMRM(),
        "bcfw": BlockFrankWolfe(precision="double"),
    }


def run(problem: Any, solver: Any, max_passes: float, target: float) -> list[dict[str, float]]:
    """Certificates of every step; the clock stands still while they are made."""
    random = np.random.default_rng(0)
    state, seconds, passes, points = solver.init(problem, random), 0.0, 0.0, []
    while passes < max_passes:
        start = time.process_time()
        state, info = solver.step(problem, state, random)
        seconds += time.process_time() - start
        passes += info.passes
        _, certificate = solver.certificate(problem, type(state)(*(np.copy(a) for a in state)))
        points.append(
            {
                "iteration": len(points) + 1,
                "passes": passes,
                "seconds": seconds,
                "primal": certificate.primal,
                "dual": certificate.dual,
                "gap": certificate.gap,
            }
        )
        if certificate.relative_gap <= target:
            break
    return points


def first_below(points: list[dict[str, float]], target: float) -> dict[str, float] | None:
    """Bundle methods and averages go up and down: the best primal and the best dual so far count."""
    primal, dual = math.inf, -math.inf
    for point in points:
        primal, dual = min(primal, point["primal"]), max(dual, point["dual"])
        if primal - dual <= target * primal:
            return point
    return None


def guaranteed(problem: Any, solver: Any, gap: float) -> float:
    """Iterations after which 6 L Σ log|Y_i| / ((k+1)(k+2)) is below `gap`."""
    from partwise.core.bounds import dual_smoothness

    counts = problem.at_weights(np.zeros(problem.n_weights), 1.0).log_total
    smoothness = dual_smoothness(problem) if solver.smoothness is None else solver.smoothness
    return math.sqrt(6.0 * smoothness * float(problem.batch.example_weight @ counts) / gap)


def compare_rules(results: dict[str, list[dict[str, float]]]) -> None:
    """Iterations of the fixed rule and of the adaptive one to the gap at which the fixed one ended."""
    for name, points in results.items():
        if name.startswith("excessive-gap, fixed"):
            end = points[-1]
            ours = next(p for p in results["excessive-gap"] if p["gap"] <= end["gap"])
            ratio = end["iteration"] / ours["iteration"]
            print(f"{name}: {end['iteration']} iterations to a gap of {end['gap']:.4g}; ", end="")
            print(f"adaptive {ours['iteration']}, {ratio:.1f} times fewer")


def describe(found: dict[str, float] | None) -> str:
    return f"{found['passes']:.0f} / {found['iteration']} / {found['seconds']:.1f}" if found else "–"


def plot(results: dict[str, list[dict[str, float]]], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.5, 5))
    best = min(point["primal"] for points in results.values() for point in points)
    for name, points in results.items():
        gaps = [point["gap"] / best for point in points]
        axes.loglog([p["passes"] for p in points], gaps, label=name, lw=1.5)
    x = np.array([30.0, 300.0])
    axes.loglog(x, 12.0 / x, "k:", lw=0.8)
    axes.loglog(x, 90.0 / x**2, "k--", lw=0.8)
    axes.text(x[1], 12.0 / x[1], " 1/k", va="center")
    axes.text(x[1], 90.0 / x[1] ** 2, " 1/k²", va="center")
    axes.set_ylim(1e-5, 1e2)
    axes.set_xlabel("passes over the data")
    axes.set_ylabel("duality gap / smallest primal")
    axes.legend(frameon=False, fontsize=8)
    axes.set_title("Max-margin Markov network on handwritten words, fold 0")
    figure.tight_layout()
    figure.savefig(path, dpi=130)


def main() -> None:
    options = arguments(__doc__ or "", l2="10", more={"--passes": "400", "--target": "1e-4", "--plot": None})
    folder: Path = need_data(options.data, "the handwritten words")
    letters, fold = read_letters(folder)
    problem = explicit_problem(select(letters, fold == 0), float(options.l2))
    chosen = solvers(problem)
    if options.solvers:
        chosen = {name: chosen[name] for name in options.solvers.split(";")}
    results = {}
    rows = []
    for name, solver in chosen.items():
        results[name] = run(problem, solver, float(options.passes), float(options.target))
        row = [name, *(describe(first_below(results[name], target)) for target in TARGETS)]
        if "fixed" in name and "excessive" in name:
            primal = results["excessive-gap"][-1]["primal"]
            for column, target in enumerate(TARGETS, start=1):
                if row[column] == "–":
                    row[column] = f"(≤ {guaranteed(problem, solver, target * primal):.0f} iterations)"
        rows.append(row)
        print(f"{name}: {len(results[name])} iterations", flush=True)
    print(table(rows, ["passes / iterations / CPU s to a gap of", *(f"{target:g}" for target in TARGETS)]))
    if "excessive-gap" in results:
        compare_rules(results)
    write_json(options.json, results)
    if options.plot:
        plot(results, options.plot)


if __name__ == "__main__":
    main()
