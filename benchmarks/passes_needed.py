"""What decides how many passes the log loss needs: `eg-gap` by pass, on shorter pieces, accelerated or not.

    python benchmarks/passes_needed.py --data DIR/conll2002-es [--l2 2] [--longest none,40,20,10,5,1] [--plot out.png]
                                       [--compare yes]

For every value of `--longest` sentences are cut into pieces of at most so many tokens (features stay those of
the sentence; a transition across a cut is lost) and `eg-gap` runs in double precision until the primal is within
1e-6 of the optimum. The log is that of whole sentences: suboptimality of the primal at the weights returned (their
mean over the last pass), at the last weights and at the mean of two passes, and of the dual, by what factor that
fell, steps η by quantile, steps tried for a visit, and which share of visits and of the gap sentences of more
than 60 tokens have, and which the three longest.

With `--compare yes`, `eg-gap` runs as it is and without acceleration instead, both in double precision: passes and CPU
seconds to a suboptimality of the primal, counting every step size tried. Pieces and the log are of `eg-gap` without
acceleration.
"""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
from common import arguments, need_data, table, trajectory, write_json
from sequence import build_problem

LONG = 60
REACHED = (1e-2, 1e-3, 1e-4, 1e-6)


def run(problem: Any, most_passes: float = 80.0) -> dict[str, Any]:
    """Records of every pass, with the optimum found first by a longer run."""
    from partwise.solvers import ExponentiatedGradient, solve

    visits = np.zeros(problem.n_examples)

    class Counting(ExponentiatedGradient):
        """Counts whom it visits."""

        def _chunks(self, *arguments: Any) -> Any:
            for here in super()._chunks(*arguments):
                visits[here] += 1
                yield here

    solver = Counting("gap", "newton", acceleration=None, precision="double")
    best = solve(problem, solver, tol=1e-8, max_passes=300).certificate
    random = np.random.default_rng(0)
    state, passes, records = solver.init(problem, random), 0.0, []
    long = problem.lengths > LONG
    three = np.argsort(problem.lengths)[-3:]
    before = np.zeros(problem.n_weights)
    while passes < most_passes:
        visits[:] = 0
        state, info = solver.step(problem, state, random)
        passes += info.passes
        copy, certificate = solver.certificate(problem, deepcopy(state))
        record = {
            "passes": passes,
            "dual": 1.0 - certificate.dual / best.dual,
            "primal": certificate.primal / best.dual - 1.0,
            "last": problem.primal(state.v / problem.l2) / best.dual - 1.0,
            "two": problem.primal(0.5 * (certificate.weights + before)) / best.dual - 1.0,
            "tried": info.passes * problem.n_examples / visits.sum(),
            "steps": np.quantile(state.step, (0.1, 0.5, 0.9)).tolist(),
            "unvisited": float((visits == 0).mean()),
            "long_visits": float(visits[long].sum() / visits.sum()),
            "three_gap": float(copy.gap[three].sum() / copy.gap.sum()),
            "three_steps": state.step[three].tolist(),
            "long_gap": float(copy.gap[long].sum() / copy.gap.sum()),
        }
        before = certificate.weights
        records.append(record)
        if record["primal"] <= 1e-6:
            break
    length = problem.lengths
    sizes = {"n_examples": len(length), "n_tokens": int(length.sum()), "long_tokens": int(length[long].sum())}
    return {"records": records, "optimum": best.dual, **sizes}


def log(found: dict[str, Any]) -> str:
    rows, before = [], float("nan")
    for r in found["records"]:
        row = [f"{r['passes']:.1f}", *(f"{r[key]:.1e}" for key in ("primal", "last", "two", "dual"))]
        row += [f"{r['dual'] / before:.2f}"]
        row += [" ".join(f"{step:.2f}" for step in r["steps"]), f"{r['tried']:.2f}", f"{r['unvisited']:.2f}"]
        row += [f"{r['long_visits']:.2f}", f"{r['long_gap']:.2f}", f"{r['three_gap']:.2f}"]
        rows.append([*row, " ".join(f"{step:.2f}" for step in r["three_steps"])])
        before = r["dual"]
    header = [
        "passes",
        "primal",
        "last w",
        "two passes",
        "dual",
        "factor",
        "steps 10 50 90 %",
        "tried",
        "not visited",
    ]
    return table(rows, [*header, "visits of long", "gap of long", "of 3 longest", "their steps"])


def needed(found: dict[str, Any], target: float) -> str:
    passes = [r["passes"] for r in found["records"] if r["primal"] <= target]
    return f"{passes[0]:.1f}" if passes else f"> {found['records'][-1]['passes']:.0f}"


def compare(problem: Any) -> dict[str, Any]:
    """Trajectories of `eg-gap` with and without acceleration."""
    from partwise.solvers import ExponentiatedGradient, solve

    solvers = {
        "eg-gap": ExponentiatedGradient("gap", "newton", precision="double"),
        "not accelerated": ExponentiatedGradient("gap", "newton", acceleration=None, precision="double"),
    }
    best = solve(problem, solvers["eg-gap"], tol=1e-8, max_passes=300).certificate.dual
    found = {}
    for name, solver in solvers.items():
        solve(problem, solver, tol=1.0, max_passes=0.5)  # compiles
        found[name] = trajectory(problem, solver, best, 80, REACHED)
        cells = (found[name]["reached"].get(f"{target:g}") for target in REACHED)
        row = [name, *("-" if c is None else f"{c['passes']:.1f} / {c['cpu']:.1f}" for c in cells)]
        print(table([row], ["passes / CPU s to", *(f"{target:g}" for target in REACHED)]), flush=True)
    return found


def plot(results: dict[str, dict[str, Any]], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5), constrained_layout=True)
    colors = pyplot.get_cmap("viridis")(np.linspace(0.0, 0.9, len(results)))
    for (name, found), color in zip(results.items(), colors, strict=True):
        records = found["records"]
        label = "whole sentences" if name == "none" else f"pieces of at most {name}"
        label += f", {found['n_tokens'] / found['n_examples']:.1f} tokens each"
        axes.semilogy(
            [r["passes"] for r in records], [r["primal"] for r in records], label=label, color=color
        )
    axes.plot(12, 1e-6, "k*", ms=12)
    axes.annotate("published", (12, 1e-6), ha="center", va="top", xytext=(0, -8), textcoords="offset points")
    axes.set(xlabel="passes over the data", ylabel="primal suboptimality, relative", ylim=(2e-7, 2.0))
    axes.grid(color="#eceff4")
    axes.legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=110)


def main() -> None:
    more = {"--longest": "none,40,20,10,5,1", "--plot": None, "--compare": None, "--template": "chunking"}
    options = arguments(__doc__ or "", l2="2", more=more)
    folder: Path = need_data(options.data, "conll2000 or conll2002-es")
    if options.compare:
        problem = build_problem(folder, float(options.l2), "observed", template=options.template)
        write_json(options.json, compare(problem))
        return
    results, rows = {}, []
    for name in options.longest.split(","):
        longest = None if name == "none" else int(name)
        found = run(build_problem(folder, float(options.l2), "observed", longest=longest))
        results[name] = found
        if longest is None:
            print(f"{100 * found['long_tokens'] / found['n_tokens']:.0f} % of tokens in long sentences")
            print(log(found), flush=True)
        each = f"{found['n_tokens'] / found['n_examples']:.1f}"
        rows.append([name, str(found["n_examples"]), each, *(needed(found, t) for t in (1e-2, 1e-3, 1e-6))])
    print("\n" + table(rows, ["longest", "examples", "tokens each", "passes to 1e-2", "1e-3", "1e-6"]))
    write_json(options.json, results)
    if options.plot:
        plot(results, options.plot)


if __name__ == "__main__":
    main()
