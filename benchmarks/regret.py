"""How far `auto` is from the best solver, in CPU seconds to a certified gap, on problems of every kind.

    python benchmarks/regret.py [--quick | --more | --fresh] [--data DIR] [--only WORDS] [--solvers a,b]
                                [--limit 25] [--tol 1e-3] [--slack 1.1] [--json out.json]

Compiling does not count. Each solver is stopped at the limit, and as soon as it has taken longer than another one
needed; runs of less than a second are repeated, and the shortest counts. `--data` names a folder with mnist, conll2000
and conll2002-es; without it these are left out. `--only` keeps the problems whose names have one of the words,
separated by commas. The last lines name the worst cases. What `--json` writes is what `fit_work_model.py` reads; for
that, `--slack 4` lets solvers that are not the best go on for longer.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

from common import ONE_THREAD, table, write_json

os.environ.update(ONE_THREAD)  # before NumPy is imported

SMOOTH = ("lbfgs", "eg-gap", "sdca", "eg-permuted", "cg")
HARD = (
    "lbfgs-sharpened",
    "crammer-singer",
    "chain-cd",
    "bcfw",
    "eg-gap sharpened",
    "extragradient",
    "svm-struct",
)
REPEATS, SHORT = 4, 1.0


class Run(NamedTuple):
    """CPU seconds, the relative gap at the end, whether that was the tolerance, passes, and who was at work."""

    cpu: float
    gap: float
    converged: bool
    passes: float
    solver: str


def solver_of(problem: Any, name: str, tol: float) -> Any:
    from partwise.solvers import ExponentiatedGradient, solver_for

    if name.endswith(" sharpened"):
        return solver_for(problem, ExponentiatedGradient("gap", "newton", sharpen=True), tol)
    return solver_for(problem, name, tol)


def measured(problem: Any, name: str, tol: float, limit: float) -> Run:
    """The shortest of some runs, each stopped after `limit` CPU seconds."""
    found = _once(problem, name, tol, limit)
    for _ in range(REPEATS):
        if found.cpu > SHORT:
            break
        again = _once(problem, name, tol, limit)
        found = min(found, again, key=lambda run: (not run.converged, run.cpu))
    return found


def _once(problem: Any, name: str, tol: float, limit: float) -> Run:
    from partwise.compiled.clock import working_time
    from partwise.solvers import solve

    solver, start = solver_of(problem, name, tol), working_time()[1]
    solution = solve(
        problem, solver, tol=tol, max_passes=1e6, callback=lambda _: working_time()[1] - start > limit
    )
    who = getattr(solution.state, "at_work", lambda: solver.name)()
    spent = working_time()[1] - start
    return Run(spent, solution.certificate.relative_gap, solution.converged, solution.passes, who)


def candidates(problem: Any, wanted: list[str] | None) -> list[str]:
    """Solvers that can work on the problem and may be the best."""
    from partwise.solvers.needs import refusal
    from partwise.structures import Multiclass

    names = wanted or (HARD if problem.loss.is_hard else SMOOTH)
    able = [name for name in names if refusal(problem, solver_of(problem, name, 1e-3).needs) is None]
    return [name for name in able if name != "sdca" or isinstance(problem.structure, Multiclass)]


def quantities(problem: Any) -> dict[str, Any]:
    """What the work model reads of a problem."""
    from partwise.solvers import work_model

    visits, evaluation = work_model.sizes_of(problem)
    return {
        "visits": visits,
        "evaluation": evaluation,
        "is_hard": problem.loss.is_hard,
        "told": work_model.told(problem),
        "is_told_all": work_model.is_told_all(problem),
        "is_steep": work_model.weights_are_steep(problem),
        "stiffness": None if problem.loss.is_hard else work_model.stiffness(problem),
        "n_competing": work_model.n_competing(problem),
        "pull": float(problem.example_weight.mean()) * work_model.pull_of_an_example(problem),
    }


def compare(case: Any, folder: Path | None, options: argparse.Namespace) -> dict[str, Any] | None:
    """All solvers on one problem; prints a line as it goes."""
    from regret_problems import build

    problem = build(case, folder)
    if problem is None:
        return None
    runs = {"auto": measured(problem, "auto", options.tol, options.limit)}
    names = candidates(problem, options.solvers.split(",") if options.solvers else None)
    for name in names:
        limit = min([options.limit, *(options.slack * run.cpu for run in runs.values() if run.converged)])
        runs[name] = measured(problem, name, options.tol, max(limit, 0.02))
    if SHORT < runs["auto"].cpu < options.limit:  # it came first, and paid for what is computed once
        again = _once(problem, "auto", options.tol, options.limit)
        runs["auto"] = min(runs["auto"], again, key=lambda run: (not run.converged, run.cpu))
    result = {
        "name": case.name,
        "data": case.data,
        "quantities": quantities(problem),
        "runs": {name: run._asdict() for name, run in runs.items()},
    }
    print("  ".join(shown(result)), flush=True)
    return result


def regret(result: dict[str, Any]) -> float:
    """Seconds of auto over those of the best; inf where only another one converged, nan where none did."""
    runs = result["runs"]
    done = [run["cpu"] for run in runs.values() if run["converged"]]
    if not done:
        return math.nan
    return runs["auto"]["cpu"] / min(done) if runs["auto"]["converged"] else math.inf


def shown(result: dict[str, Any]) -> list[str]:
    runs, auto = result["runs"], result["runs"]["auto"]
    done = {name: run for name, run in runs.items() if run["converged"]}
    ratio = regret(result)
    if not done:
        name, run = min(runs.items(), key=lambda item: item[1]["gap"])
        best = f"none; nearest {name}, gap {run['gap']:.1e}"
    else:
        name, run = min(done.items(), key=lambda item: item[1]["cpu"])
        best = f"{name} {run['cpu']:.3f}" if name != "auto" else "auto"
    own = f"{auto['cpu']:.3f}" if auto["converged"] else f"gap {auto['gap']:.1e} after {auto['cpu']:.1f}"
    return [result["name"], auto["solver"], f"{auto['passes']:.1f}", own, best, f"{ratio:.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the subset for daily use")
    parser.add_argument("--more", action="store_true", help="another table, of data that users bring")
    parser.add_argument("--fresh", action="store_true", help="a third table, which nothing was fitted to")
    parser.add_argument("--data", default=None, help="folder of data sets")
    parser.add_argument("--only", default="", help="words, one of which the name of a problem must have")
    parser.add_argument("--solvers", default=None, help="what to compare auto with")
    parser.add_argument(
        "--slack", type=float, default=1.1, help="seconds of a run, in those of the best so far"
    )
    parser.add_argument("--limit", type=float, default=25.0, help="CPU seconds")
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--json", default=None)
    options = parser.parse_args()
    from regret_fresh import CASES as FRESH
    from regret_more import CASES as MORE
    from regret_problems import CASES

    folder = Path(options.data) if options.data else None
    chosen = [
        case
        for case in (MORE if options.more else FRESH if options.fresh else CASES)
        if (case.quick or not options.quick) and any(word in case.name for word in options.only.split(","))
    ]
    results = [result for case in chosen if (result := compare(case, folder, options)) is not None]
    header = ["problem", "auto is", "passes", "auto CPU s", "best CPU s", "ratio"]
    print("\n" + table([shown(result) for result in results], header))
    judged = [result for result in results if not math.isnan(regret(result))]
    for result in sorted(judged, key=regret, reverse=True)[:3]:
        print(f"worst: {result['name']}: {regret(result):.2f} times the best")
    write_json(options.json, results)


if __name__ == "__main__":
    sys.exit(main())
