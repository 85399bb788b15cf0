"""Dependency parsing: accuracy and time on whole treebanks, and the experiments of two papers.

    python benchmarks/dependency.py accuracy --data DIR/ud-en-ewt [--loss log,hinge] [--l2 1] [--prune 10]
    python benchmarks/dependency.py iterations --data DIR/conll2007-es        log-linear, by effective iterations
    python benchmarks/dependency.py margin --data DIR/conll2007-es            max-margin, by time
    python benchmarks/dependency.py path --data DIR/ptb-sample                regularisation path
    python benchmarks/dependency.py losses --data DIR/cdt-da                  between CRF and max-margin

`iterations`, `margin` and `path` are Figures 12 and 13 and Table 3 of Collins et al. (2008) on the data at hand,
`losses` is Table 1 of Martins et al. (2010). Each run has a process of its own, one after another, on one thread;
times are CPU seconds, all compiled before the clock starts. `--json` keeps all figures, `--plot` draws them.
conll2007-es has no dev set: the last 500 training sentences are held out for one.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import dependency_tasks
from common import in_child, need_data, table, write_json

EXPERIMENTS = ("accuracy", "iterations", "margin", "path", "losses")
FAMILY = ((1, 0), (1, 1), (1, 3), (1, 5), (3, 1), (5, 1), ("inf", 1))  # (β, γ) of Martins et al., Table 1


def run(task: str, **settings: Any) -> dict[str, Any]:
    return in_child(dependency_tasks.__file__, task, **settings)


def accuracy(options: argparse.Namespace, shared: dict[str, Any]) -> list[dict[str, Any]]:
    """Whole training runs, a row for each loss and l2."""
    results: list[dict[str, Any]] = []
    for loss in options.loss.split(","):
        for l2 in numbers(options.l2 or "1"):
            settings = {**shared, "loss": loss, "l2": l2, "labelled": options.labelled}
            settings |= {"tol": options.tol or 1e-3, "max_passes": options.max_passes or 200}
            settings["solver"] = options.solvers or "auto"
            results.append({**settings, **run("accuracy", **settings)})
            show_accuracy(results)
    return results


def show_accuracy(results: list[dict[str, Any]]) -> None:
    rows = []
    for found in results:
        cells = [found["loss"], f"{found['l2']:g}", str(found["prune"])]
        for part in ("dev", "test"):
            cells += [number(found[part][name]) for name in ("uas", "las", "uas_bare")]
        cells += [f"{found['cpu']:.0f}", f"{found['passes']:.1f}", f"{found['relative_gap']:.1e}"]
        rows.append([*cells, f"{found['megabytes']:.0f}"])
    header = ["loss", "l2", "heads", "dev UAS", "LAS", "no punct."]
    header += ["test UAS", "LAS", "no punct.", "CPU s", "passes", "gap", "MB"]
    print(table(rows, header), flush=True)


# -- curves ------------------------------------------------------------------------------------------


def iterations(options: argparse.Namespace, shared: dict[str, Any]) -> list[dict[str, Any]]:
    """Figure 12: log-linear, EG against L-BFGS and SGD by effective iterations."""
    shared = {**shared, "loss": "log"}
    return curves(options, shared, options.solvers or "eg-gap,eg,lbfgs,sgd", (1e-1, 1e-2, 1e-3), 100.0)


def margin(options: argparse.Namespace, shared: dict[str, Any]) -> list[dict[str, Any]]:
    """Figure 13: max-margin, EG against SVM-struct by time."""
    shared = {**shared, "loss": "hinge"}
    return curves(
        options, shared, options.solvers or "bcfw,eg,eg-sharpen,svm-struct", (1e-1, 3e-2, 1e-2), 1e6
    )


def curves(
    options: argparse.Namespace,
    shared: dict[str, Any],
    solvers: str,
    targets: tuple[float, ...],
    max_passes: float,
) -> list[dict[str, Any]]:
    """A curve for each l2 and solver, how near it is to the optimum by passes or by time."""
    results: list[dict[str, Any]] = []
    for l2 in numbers(options.l2 or "10,1"):
        settings = {**shared, "l2": l2, "labelled": False}
        best = run("optimum", tol=options.tol or targets[-1] / 10, max_passes=300, **settings)
        print(f"\nl2 = {l2:g}: {best['dual']:.3f} <= optimum <= {best['primal']:.3f}", flush=True)
        limits = {"targets": targets, "max_passes": options.max_passes or max_passes}
        limits["max_seconds"] = options.seconds
        runs = {
            solver: run("trajectory", **settings, **limits, solver=solver, optimum=best["dual"])
            for solver in solvers.split(",")
        }
        results.append({**settings, "optimum": best, "runs": runs})
        show_curves(results[-1], targets)
    return results


def show_curves(result: dict[str, Any], targets: tuple[float, ...]) -> None:
    """Where each solver's objective came within the targets of the lower bound on the optimum."""
    rows = []
    for solver, found in result["runs"].items():
        cells = [solver, f"{found['cpu_per_pass']:.2f}"]
        for target in targets:
            here = found["reached"].get(f"{target:g}")
            cells.append("-" if here is None else f"{here['passes']:.1f} / {here['cpu']:.1f} s")
        passes, cpu, primal = found["points"][-1][:3]
        cells.append(f"{primal / result['optimum']['dual'] - 1:.1e} at {passes:.0f} / {cpu:.0f} s")
        best = max(point[5] for point in found["points"] if point[5] is not None)
        rows.append([*cells, number(best), f"{found['megabytes']:.0f}"])
    header = ["passes / CPU s to", "s/pass", *(f"{target:g}" for target in targets)]
    print(table(rows, [*header, "at the end", "best dev UAS", "MB"]), flush=True)


# -- paths -------------------------------------------------------------------------------------------


def path(options: argparse.Namespace, shared: dict[str, Any]) -> dict[str, Any]:
    """Table 3: passes and accuracy along the path of l2."""
    l2s = numbers(options.l2 or "100,50,25,12,6,3,1.5,0.8,0.4")
    settings = {**shared, "loss": options.loss, "labelled": False, "tol": options.tol or 1e-3}
    settings |= {"l2s": l2s, "max_passes": options.max_passes or 300, "cold": True}
    result = {**settings, **run("path", **settings)}
    rows, warm, cold = [], 0.0, 0.0
    for row in result["rows"]:
        warm, cold = warm + row["warm"]["passes"], cold + row["cold"]["passes"]
        cells = [f"{row['l2']:g}", f"{row['warm']['passes']:.1f}", f"{warm:.1f}", f"{row['warm']['cpu']:.1f}"]
        cells += [f"{row['cold']['passes']:.1f}", f"{cold:.1f}", f"{row['cold']['cpu']:.1f}"]
        cells += [f"{row['warm']['relative_gap']:.1e}", number(row["dev"]["uas"]), number(row["test"]["uas"])]
        rows.append([*cells, number(row["test"]["uas_bare"])])
    header = ["l2", "warm passes", "total", "CPU s", "cold passes", "total", "CPU s", "gap"]
    print(table(rows, [*header, "dev UAS", "test UAS", "no punct."]))
    print(f"dev takes l2 = {dependency_tasks.best_on_dev(result['rows'])['l2']:g}")
    return result


def losses(options: argparse.Namespace, shared: dict[str, Any]) -> list[dict[str, Any]]:
    """CRF, max-margin and what lies between: for each Loss(β, γ) the l2 that dev takes, from one path."""
    settings = {**shared, "labelled": False, "tol": options.tol or 1e-2, "cold": False}
    settings |= {"l2s": numbers(options.l2 or "30,10,3,1"), "max_passes": options.max_passes or 60}
    results = []
    for loss in FAMILY:
        found = run("path", **settings, loss=loss)
        results.append({**settings, "loss": loss, **found})
        show_losses(results)
    return results


def show_losses(results: list[dict[str, Any]]) -> None:
    rows = []
    for found in results:
        (beta, gamma), best = found["loss"], dependency_tasks.best_on_dev(found["rows"])
        cells = [str(beta), str(gamma), f"{best['l2']:g}", number(best["dev"]["uas"])]
        cells += [number(best["test"][name]) for name in ("uas", "uas_bare")]
        cells.append(f"{best['warm']['relative_gap']:.1e}")
        cells.append(" ".join(f"{row['l2']:g}:{row['dev']['uas']:.2f}" for row in found["rows"]))
        passes, cpu = (sum(row["warm"][name] for row in found["rows"]) for name in ("passes", "cpu"))
        rows.append([*cells, f"{passes:.0f} / {cpu:.0f} s"])
    header = ["β", "γ", "l2", "dev UAS", "test UAS", "no punct.", "gap", "dev UAS by l2"]
    print(table(rows, [*header, "passes / CPU s of the path"]), flush=True)


# -- command line ------------------------------------------------------------------------------------


def numbers(text: str) -> list[float]:
    return [float(each) for each in text.split(",")]


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--data", help=f"folder of one of {', '.join(dependency_tasks.FILES)}")
    parser.add_argument("--loss", default="log", help="loss, or for accuracy a comma-separated list of them")
    parser.add_argument("--l2", help="comma-separated values of l2")
    parser.add_argument("--solvers", help="comma-separated solvers for curves, one for accuracy")
    parser.add_argument("--prune", default="10", help="heads left to each word, or none")
    parser.add_argument("--labelled", action="store_true", help="learn relations too, for accuracy")
    parser.add_argument(
        "--tol", type=float, help="relative gap to train to; for curves, of the optimum's bracket"
    )
    parser.add_argument("--max-passes", type=float)
    parser.add_argument("--seconds", type=float, default=120.0, help="most CPU seconds of a curve")
    parser.add_argument("--limit", type=int, help="train on the first sentences only")
    parser.add_argument("--json", help="file to write all figures to")
    parser.add_argument("--plot", help="PNG file to draw, of all experiments but accuracy")
    options = parser.parse_args()
    if options.plot and options.experiment == "accuracy":
        parser.error("there is no picture of accuracy")
    folder = need_data(options.data, " or ".join(dependency_tasks.FILES))
    if Path(folder).name not in dependency_tasks.FILES:
        raise SystemExit(f"--data must end in one of {', '.join(dependency_tasks.FILES)}")
    shared = {"folder": str(folder), "limit": options.limit}
    shared["prune"] = None if options.prune == "none" else int(options.prune)
    results = globals()[options.experiment](options, shared)
    write_json(options.json, results)
    if options.plot:
        import dependency_plots

        getattr(dependency_plots, f"plot_{options.experiment}")(results, options.plot)


if __name__ == "__main__":
    sys.exit(main())
