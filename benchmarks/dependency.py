"""Dependency parsing: accuracy and time on whole treebanks, and the experiments of two papers.

    python benchmarks/dependency.py accuracy --data DIR/ud-en-ewt [--loss log,hinge] [--l2 1] [--prune 10]
    python benchmarks/dependency.py iterations --data DIR/conll2007-es        log-linear, by effective iterations
    python benchmarks/dependency.py margin --data DIR/conll2007-es            max-margin, by time
    python benchmarks/dependency.py path --data DIR/ptb-sample                regularisation path
    python benchmarks/dependency.py losses --data DIR/cdt-da                  between CRF and max-margin

`iterations`, `margin` and `path` are Figures 12 and 13 and Table 3 of Collins et al. (2008) on the data at hand,
`losses` the comparison of Martins et al. (2010). Each run has a process of its own, one after another, on one thread;
times are CPU seconds, with kernels compiled before the clock starts. `--json` keeps all figures, `--plot` draws curves.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from common import in_child, need_data, peak_megabytes, table, trajectory, write_json

FILES = {
    "ud-en-ewt": ("train.conllu.gz", "dev.conllu.gz", "test.conllu.gz"),
    "ptb-sample": ("train.dp", "dev.dp", "test.dp"),
    "cdt-da": ("train.conll.gz", "dev.conll.gz", "test.conll.gz"),
    "conll2007-es": ("esp.train.gz", None, "esp.test"),
}
PROJECTIVE = ("ptb-sample", "conll2007-es")
WARM_UP = 30  # sentences on which everything is compiled, or loaded, before the clock starts
EXPERIMENTS = ("accuracy", "iterations", "margin", "path", "losses")


def read(folder: str, part: int, limit: int | None = None) -> Any:
    import numpy as np

    from partwise.data import read_dependencies

    name = FILES[Path(folder).name][part]
    if name is None:
        return None
    corpus = read_dependencies(Path(folder) / name)
    return corpus if limit is None or limit >= corpus.n_sentences else corpus.subset(np.arange(limit))


def parser_for(folder: str, **settings: Any) -> Any:
    from partwise import DependencyParser, Loss

    structure = "projective" if Path(folder).name in PROJECTIVE else "spanning"
    loss = settings.pop("loss", "log")
    if isinstance(loss, list):
        loss = Loss(*loss)
    return DependencyParser(loss=loss, **{"structure": structure, **settings})


def scores(parser: Any, corpus: Any) -> dict[str, Any]:
    from partwise.attachment import attachment_scores

    start = time.process_time()
    parsed = parser.parse(corpus)
    seconds = time.process_time() - start
    whole, bare = (
        attachment_scores(corpus, parsed.heads, parsed.relations, punctuation=counted)
        for counted in (True, False)
    )
    return {
        "uas": 100 * whole.uas,
        "las": None if whole.las is None else 100 * whole.las,
        "uas_bare": 100 * bare.uas,
        "las_bare": None if bare.las is None else 100 * bare.las,
        "words_per_second": corpus.n_words / seconds,
    }


# -- tasks, each in a process of its own ----------------------------------------------------------


def task_accuracy(folder: str, limit: int | None = None, **settings: Any) -> dict[str, Any]:
    """Train as a user would, and score on dev and test."""
    import warnings

    warnings.simplefilter("ignore")
    train = read(folder, 0, limit)
    parser_for(folder, **settings).fit(read(folder, 0, WARM_UP))
    parser = parser_for(folder, **settings)
    start = time.process_time()
    parser.fit(train)
    result: dict[str, Any] = {
        "cpu": time.process_time() - start,
        "solver_cpu": parser.history_[-1]["cpu_seconds"],
        "passes": parser.n_passes_,
        "relative_gap": parser.duality_gap_,
        "objective": parser.objective_,
        "megabytes": peak_megabytes(),
        "n_sentences": train.n_sentences,
    }
    for part, name in ((1, "dev"), (2, "test")):
        corpus = read(folder, part)
        if corpus is not None:
            result[name] = scores(parser, corpus)
            recall = parser.pruning_recall(corpus)
            result[name]["pruning_recall"] = None if recall is None else 100 * recall.recall
    return result


def task_optimum(folder: str, limit: int | None, tol: float, **settings: Any) -> dict[str, Any]:
    from partwise.solvers import BlockFrankWolfe, ExponentiatedGradient, Solver, solve

    problem, _ = parser_for(folder, **settings).problem_for(read(folder, 0, limit))
    solver: Solver = ExponentiatedGradient("gap", precision="double")
    if problem.loss.is_hard:
        solver = BlockFrankWolfe(precision="double")
    solution = solve(problem, solver, tol=tol, max_passes=600)
    return {"primal": solution.certificate.primal, "dual": solution.certificate.dual}


def task_trajectory(
    folder: str, limit: int | None, solver: str, optimum: float, max_passes: float, **settings: Any
) -> dict[str, Any]:
    """The primal objective after every step, with passes and CPU seconds."""
    from partwise.solvers import solve, solver_for

    small, _ = parser_for(folder, **settings).problem_for(read(folder, 0, WARM_UP))
    solve(small, solver_for(small, solver), tol=1e-9, max_passes=2)
    problem, _ = parser_for(folder, **settings).problem_for(read(folder, 0, limit))
    chosen = solver_for(problem, solver)
    return {
        **trajectory(problem, chosen, optimum, max_passes, (1e-1, 1e-2, 1e-3)),
        "megabytes": peak_megabytes(),
    }


def task_path(
    folder: str, limit: int | None, l2s: list[float], tol: float, **settings: Any
) -> dict[str, Any]:
    """From strong to weak regularisation, each from the last one's dual variables and afresh."""
    from partwise.estimators.model import compact
    from partwise.solvers import solve, solver_for

    parser = parser_for(folder, l2=l2s[0], **settings)
    problem, encoder = parser.problem_for(read(folder, 0, limit))
    test, rows, state = read(folder, 2), [], None
    solve(problem, solver_for(problem, "auto"), tol=1.0, max_passes=0.1)
    for l2 in l2s:
        at = problem.with_l2(l2)
        solver, runs = solver_for(at, "auto", tol), []
        for start_at in (None, state):
            start = time.process_time()
            solution = solve(at, solver, tol=tol, max_passes=300, warm_start=start_at)
            runs.append((solution, time.process_time() - start))
        state = runs[1][0].state
        parser._encoder, parser._model = compact(
            at.structure, encoder, at.node_map, at.edge_map, runs[0][0].weights
        )
        parser._loss = at.loss
        rows.append(
            {
                "l2": l2,
                "passes": runs[0][0].passes,
                "cpu": runs[0][1],
                "warm_passes": runs[1][0].passes,
                "warm_cpu": runs[1][1],
                "relative_gap": runs[0][0].certificate.relative_gap,
                **scores(parser, test),
            }
        )
    return {"rows": rows}


# -- experiments -----------------------------------------------------------------------------------


def accuracy(options: argparse.Namespace, shared: dict[str, Any]) -> list[dict[str, Any]]:
    results = []
    for loss in options.loss.split(","):
        for l2 in numbers(options.l2 or "1"):
            settings = {**shared, "loss": loss, "l2": l2, "labelled": options.labelled, "tol": options.tol}
            if options.max_passes:
                settings["max_passes"] = options.max_passes
            results.append({**settings, **in_child(__file__, "accuracy", **settings)})
            show_accuracy(results)
    return results


def show_accuracy(results: list[dict[str, Any]]) -> None:
    rows = []
    for run in results:
        cells = [str(run["loss"]), f"{run['l2']:g}", str(run.get("prune"))]
        for part in ("dev", "test"):
            found = run.get(part) or {}
            cells += [_number(found.get(name)) for name in ("uas", "las", "uas_bare")]
        cells += [f"{run['cpu']:.0f}", f"{run['passes']:.1f}", f"{run['relative_gap']:.1e}"]
        rows.append([*cells, f"{run['megabytes']:.0f}"])
    header = ["loss", "l2", "heads", "dev UAS", "LAS", "no punct."]
    header += ["test UAS", "LAS", "no punct.", "CPU s", "passes", "gap", "MB"]
    print(table(rows, header), flush=True)


def iterations(options: argparse.Namespace, shared: dict[str, Any]) -> list[dict[str, Any]]:
    """Figure 12: log-linear, EG against L-BFGS and SGD by effective iterations."""
    return _curves(options, shared, "log", options.solvers or "eg,lbfgs,sgd", "passes")


def margin(options: argparse.Namespace, shared: dict[str, Any]) -> list[dict[str, Any]]:
    """Figure 13: max-margin, EG against SVM-struct by time."""
    return _curves(options, shared, "hinge", options.solvers or "auto,bcfw,svm-struct", "CPU s")


def _curves(
    options: argparse.Namespace, shared: dict[str, Any], loss: str, solvers: str, axis: str
) -> list[dict[str, Any]]:
    results = []
    for l2 in numbers(options.l2 or "1"):
        settings = {**shared, "loss": loss, "l2": l2, "labelled": False}
        optimum = in_child(__file__, "optimum", tol=1e-4 if loss == "log" else 5e-3, **settings)
        value = optimum["dual"] if loss == "hinge" else 0.5 * (optimum["primal"] + optimum["dual"])
        print(f"\nl2 = {l2:g}, {loss}: optimum between {optimum['dual']:.3f} and {optimum['primal']:.3f}")
        runs = {}
        for solver in solvers.split(","):
            limits = {"solver": solver, "optimum": value, "max_passes": options.max_passes or 100}
            runs[solver] = in_child(__file__, "trajectory", **settings, **limits)
        results.append({**settings, "optimum": optimum, "runs": runs})
        show_curves(results[-1])
        if options.plot:
            plot_curves(results[-1], value, axis, f"{options.plot}-{loss}-{l2:g}.png")
    return results


def show_curves(result: dict[str, Any]) -> None:
    targets = ("0.1", "0.01", "0.001")
    rows = []
    for solver, run in result["runs"].items():
        cells = [solver, f"{run['cpu_per_pass']:.2f}"]
        for target in targets:
            here = run["reached"].get(target)
            cells.append("-" if here is None else f"{here['passes']:.1f} / {here['cpu']:.1f} s")
        rows.append([*cells, f"{run['megabytes']:.0f}"])
    print(table(rows, ["passes / CPU s to", "s/pass", *targets, "MB"]), flush=True)


def plot_curves(result: dict[str, Any], optimum: float, axis: str, path: str) -> None:
    from partwise.report.plots import _pyplot

    pyplot = _pyplot()
    figure, panel = pyplot.subplots(figsize=(6, 4))
    for solver, run in result["runs"].items():
        column = 0 if axis == "passes" else 1
        panel.plot(
            [point[column] for point in run["points"]],
            [max(point[2] / optimum - 1, 1e-6) for point in run["points"]],
            label=solver,
        )
    panel.set(yscale="log", xlabel=axis, ylabel="primal over optimum − 1", title=Path(result["folder"]).name)
    panel.legend(frameon=False)
    figure.savefig(path, bbox_inches="tight", dpi=150)


def path(options: argparse.Namespace, shared: dict[str, Any]) -> dict[str, Any]:
    """Table 3: iterations and accuracy along the path of l2."""
    l2s = numbers(options.l2 or "100,30,10,3,1,0.3,0.1")
    result = in_child(__file__, "path", **shared, l2s=l2s, tol=options.tol, labelled=False)
    rows = [
        [
            f"{row['l2']:g}",
            f"{row['passes']:.1f}",
            f"{row['cpu']:.1f}",
            f"{row['warm_passes']:.1f}",
            f"{row['warm_cpu']:.1f}",
            f"{row['relative_gap']:.1e}",
            _number(row["uas"]),
            _number(row["uas_bare"]),
        ]
        for row in result["rows"]
    ]
    header = ["l2", "passes", "CPU s", "warm passes", "CPU s", "gap", "test UAS", "no punct."]
    print(table(rows, header))
    return result


def losses(options: argparse.Namespace, shared: dict[str, Any]) -> list[dict[str, Any]]:
    """CRF, max-margin and what lies between: Loss(β, γ) for β, γ on the way."""
    results = []
    for loss in ("log", [1.0, 1.0], [3.0, 1.0], [5.0, 1.0], "hinge"):
        for l2 in numbers(options.l2 or "1"):
            settings = {**shared, "loss": loss, "l2": l2, "labelled": options.labelled, "tol": options.tol}
            if options.max_passes:
                settings["max_passes"] = options.max_passes
            results.append({**settings, **in_child(__file__, "accuracy", **settings)})
            show_accuracy(results)
    return results


def numbers(text: str) -> list[float]:
    return [float(each) for each in text.split(",")]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def main() -> None:
    if "--task" in sys.argv:
        task, settings = sys.argv[sys.argv.index("--task") + 1], json.loads(sys.argv[-1])
        print(json.dumps(globals()[f"task_{task}"](**settings)))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--data", help=f"folder of one of {', '.join(FILES)}")
    parser.add_argument("--loss", default="log", help="comma-separated losses, for accuracy")
    parser.add_argument("--l2", help="comma-separated values of l2")
    parser.add_argument("--solvers", help="comma-separated solvers, for curves")
    parser.add_argument("--prune", default="10", help="heads left to each word, or none")
    parser.add_argument("--labelled", action="store_true", help="learn relations too")
    parser.add_argument("--tol", type=float, default=1e-3)
    parser.add_argument("--max-passes", type=float)
    parser.add_argument("--limit", type=int, help="train on the first sentences only")
    parser.add_argument("--json", help="file to write all figures to")
    parser.add_argument("--plot", help="beginning of the names of plots")
    options = parser.parse_args()
    folder = need_data(options.data, " or ".join(FILES))
    shared = {"folder": str(folder), "limit": options.limit}
    shared["prune"] = None if options.prune == "none" else int(options.prune)
    write_json(options.json, globals()[options.experiment](options, shared))


if __name__ == "__main__":
    sys.exit(main())
