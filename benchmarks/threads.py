"""Several threads against one: wall time of training to a certificate, and of prediction.

    python benchmarks/threads.py --data DIR [--sets conll2000,conll2002-es,mnist,ud-en-ewt] [--jobs 1,2]
                                 [--loss log] [--solver auto] [--limit N] [--cores 0,2] [--json out.json]

DIR has a folder for each set. A set is read, encoded and compiled once, in a process of its own; then it is trained
to a relative gap of 1e-3 with each number of threads, and all its examples are decoded, the best of three times.
Training is the solver's own time, certificates included; the number of passes is larger with more threads, since
these do not see each other's changes within a round. `--cores` keeps the process to these processors (of two that
share one core, the second adds little).
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from common import arguments, in_child, need_data, table, write_json

TOL = 1e-3
SEQUENCES = {"conll2000": ("chunking", 2.0), "conll2002-es": ("ner", 1.0)}
MNIST_L2 = 100.0


def build(folder: Path, loss: str, limit: int | None) -> Any:
    """The problem of a set, or of its first examples."""
    if folder.name in SEQUENCES:
        from sequence import build_problem

        template, l2 = SEQUENCES[folder.name]
        return build_problem(folder, l2, "observed", loss, template=template, n_sentences=limit)
    if folder.name == "mnist":
        from multiclass import problem_of, read

        x, y = read(folder)
        return problem_of(x[:limit], y[:limit], MNIST_L2, loss)
    from dependency_tasks import parser_for
    from dependency_tasks import read as read_trees

    problem, _ = parser_for(str(folder), loss=loss)._problem_for(read_trees(str(folder), 0, limit))
    return problem


def trained(problem: Any, solver: Any, n_jobs: int) -> tuple[Any, dict[str, float]]:
    from partwise.solvers import solve

    problem.scorer.n_jobs = n_jobs
    wall, cpu = time.perf_counter(), time.process_time()
    found = solve(problem, solver, tol=TOL, max_passes=200)
    figures = {
        "wall": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
        "passes": found.passes,
        "relative_gap": found.certificate.relative_gap,
        "objective": found.certificate.primal,
    }
    return found, figures


def decoding_time(problem: Any, weights: Any, n_jobs: int) -> float:
    from partwise.estimators.model import LinearModel

    model = LinearModel(problem.structure, problem.scorer.maps, weights)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        model.best(problem.scorer, None, n_jobs)
        times.append(time.perf_counter() - start)
    return min(times)


def task_run(folder: str, loss: str, solver: str, jobs: list[int], limit: int | None) -> dict[str, Any]:
    from partwise.solvers import solve, solver_for

    problem = build(Path(folder), loss, limit)
    chosen = solver_for(problem, solver, TOL)
    for n_jobs in {1, max(jobs)}:  # everything is compiled, or loaded
        problem.scorer.n_jobs = n_jobs
        found = solve(problem, chosen, tol=TOL, max_passes=0.2)
        decoding_time(problem, found.weights, n_jobs)
    runs = []
    for n_jobs in jobs:
        found, figures = trained(problem, chosen, n_jobs)
        runs.append({"jobs": n_jobs, **figures, "decoding": decoding_time(problem, found.weights, n_jobs)})
    return {"n_examples": problem.n_examples, "n_weights": problem.n_weights, "runs": runs}


def main() -> None:
    options = arguments(
        "Several threads against one.",
        more={
            "--sets": "conll2000,conll2002-es,mnist,ud-en-ewt", "--jobs": "1,2", "--loss": "log", "--solver": "auto",
            "--limit": None, "--cores": None,
        },
    )  # fmt: skip
    if options.task:
        print(json.dumps(task_run(**json.loads(options.options))))
        return
    if options.cores:
        os.sched_setaffinity(0, {int(core) for core in options.cores.split(",")})
    folder, results, rows = need_data(options.data, "the data sets"), {}, []
    jobs = [int(n) for n in options.jobs.split(",")]
    for name in options.sets.split(","):
        if not (folder / name).is_dir():
            print(f"{name}: not in {folder}", file=sys.stderr)
            continue
        limit = None if options.limit is None else int(options.limit)
        found = in_child(
            __file__,
            "run",
            folder=str(folder / name),
            loss=options.loss,
            solver=options.solver,
            jobs=jobs,
            limit=limit,
        )
        results[name], first = found, found["runs"][0]
        for run in found["runs"]:
            rows.append([
                name, run["jobs"], f"{run['passes']:.1f}", f"{run['relative_gap']:.1e}", f"{run['cpu']:.2f}",
                f"{run['wall']:.2f}", f"{first['wall'] / run['wall']:.2f}", f"{1e3 * run['decoding']:.1f}",
                f"{first['decoding'] / run['decoding']:.2f}",
            ])  # fmt: skip
        write_json(options.json, results)
        print(rows[-1], flush=True)
    header = [
        "set",
        "jobs",
        "passes",
        "gap",
        "cpu s",
        "wall s",
        "times faster",
        "decoding ms",
        "times faster",
    ]
    print(table(rows, header))


if __name__ == "__main__":
    main()
