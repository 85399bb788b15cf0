"""Training on shards: rounds, processor time and bytes against the number of shards, and what a cluster would take.

    python benchmarks/distributed.py --data DIR [--limit 2000] [--shards 1,4,16] [--only digits] [--json out.json]
        [--from out.json] [--plot out.svg] [--times 20000] [--weights 100]

DIR holds conll2000, mnist and ud-en-ewt, of which the first `--limit` examples are used; runs end at a certified 1e-3.
Shards are worked on one after another in this process, which changes neither rounds nor bytes; seconds of a round are
processor time of all shards together, and of the driver. `--from out.json` takes the measurements from a file.

The model of a round on K workers, with `--times` as many examples and `--weights` times as many weights: the work on
all examples, 1/K of it to each, and what a shard costs whatever it holds (both fitted on the measured rounds), times a
lognormal factor of which the largest of K counts (`--straggler`, the standard deviation of its logarithm); the driver's
own time; and the bytes of all workers through the driver's network card (`--gigabits`), after a latency (`--latency`
ms) there and back. Rounds on K workers are those measured, continued as a power of K.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import need_data, table, write_json

CASES = {
    "chunking, log": ("conll2000", "log", "eg-gap", 1),
    "chunking, log, 3 passes a round": ("conll2000", "log", "eg-gap", 3),
    "chunking, sums": ("conll2000", "log", "lbfgs", 1),
    "digits, hinge": ("mnist", "hinge", "crammer-singer", 1),
    "digits, sums": ("mnist", "log", "lbfgs", 1),
    "parsing, log": ("ud-en-ewt", "log", "eg-gap", 1),
}
MOST_PASSES = 400.0
WORKERS = (4, 8, 16, 32, 64, 128, 256)


def problem_for(folder: Path, name: str, loss: str, limit: int) -> Any:
    """The first `limit` examples of a data set."""
    if name == "mnist":
        from multiclass import build_problem

        problem = build_problem(folder / name, 60.0, loss)
    elif name == "conll2000":
        from sequence import build_problem as build_chains

        problem = build_chains(folder / name, 2.0, "observed", loss=loss)
    else:
        return parsing_problem(str(folder / name), loss, min(limit, 1000))
    return problem.shard(np.arange(min(limit, problem.n_examples)))


def parsing_problem(folder: str, loss: str, limit: int) -> Any:
    """The problem that a parser trains on, taken from its callback."""
    from dependency_tasks import parser_for, read

    class Caught(Exception):
        pass

    class Catch:
        def begin(self, problem: Any, encoder: Any) -> None:
            self.problem = problem
            raise Caught

        def __call__(self, progress: Any) -> None:
            """Never reached."""

    catch = Catch()
    with contextlib.suppress(Caught):
        parser_for(folder, loss=loss, l2=2.0, callback=catch).fit(read(folder, 0, limit))
    return catch.problem


def measured(problem: Any, name: str, n_shards: int, n_passes: int) -> dict[str, Any]:
    """One run to 1e-3."""
    from partwise.distributed import SequentialEngine, at_work_on
    from partwise.solvers import solve, solver_for

    engine = SequentialEngine(n_shards=n_shards, n_workers=n_shards, passes_a_round=n_passes)
    with at_work_on(engine, problem, solver_for(problem, name)) as at_work:
        is_sharded = hasattr(at_work.solver, "cluster")
        cluster = (at_work.solver if is_sharded else at_work.problem).cluster
        ask, spent = cluster.pool.ask, []  # what was asked of shards, and processor time of all together

        def timed(method: str, *arguments: Any, **settings: Any) -> Any:
            begun = time.process_time()
            found = ask(method, *arguments, **settings)
            spent.append((method, time.process_time() - begun))
            return found

        cluster.pool.ask = timed
        begun = time.process_time()
        solution = solve(at_work.problem, at_work.solver, tol=1e-3, max_passes=MOST_PASSES)
        seconds = time.process_time() - begun
        n_bytes = cluster.pool.n_bytes
    rounds = [each for method, each in spent if method in ("run_round", "evaluate")]
    n_rounds, by_shards = len(rounds), sum(each for _, each in spent)
    return {
        "shards": n_shards,
        "rounds": n_rounds,
        "passes": solution.passes,
        "gap": solution.certificate.relative_gap,
        "shard_seconds": float(np.median(rounds)),  # of all shards together; the first round may load code
        "driver_seconds": (seconds - by_shards) / n_rounds,
        "megabytes": n_bytes / n_rounds / 1e6,
    }


def measure(folder: Path, limit: int, shards: list[int], only: str) -> list[dict[str, Any]]:
    """All cases; sums do not depend on the number of shards, and are made for one."""
    found = []
    for case, (data, loss, solver, n_passes) in CASES.items():
        if not case.startswith(only):
            continue
        problem = problem_for(folder, data, loss, limit)
        for n_shards in shards if "sums" not in case else [4]:
            row = {"case": case, "n_weights": problem.n_weights, "n_touched": problem.n_touched}
            row |= measured(problem, solver, n_shards, n_passes)
            print(json.dumps(row), file=sys.stderr, flush=True)
            found.append(row)
    return found


def fitted(own: list[dict[str, Any]]) -> dict[str, float]:
    """Of one case: seconds of a round for the examples, for each shard besides, and rounds = `first` · K ^ `power`."""
    shards = np.array([row["shards"] for row in own], float)
    seconds = np.array([row["shard_seconds"] for row in own])
    slope, work = np.polyfit(shards, seconds, 1) if len(own) > 1 else (0.0, seconds[0])
    several = shards > 1
    power, first = 0.0, float(np.log(own[-1]["rounds"]))
    if several.sum() > 1:
        rounds = np.log([row["rounds"] for row in own])
        power, first = np.polyfit(np.log(shards[several]), rounds[several], 1)
    return {"work": max(work, 0.0), "a_shard": max(slope, 0.0), "first": float(np.exp(first)), "power": power}


def simulated(rows: list[dict[str, Any]], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Seconds to 1e-3 on more workers, with `--times` as many examples and `--weights` times as many weights."""
    random = np.random.default_rng(0)
    result = []
    for case in CASES:
        own = [row for row in rows if row["case"] == case]
        if ("sums" not in case and sum(row["shards"] > 1 for row in own) < 2) or not own:
            continue  # nothing to continue from
        fit = fitted(own)
        a_worker = own[-1]["megabytes"] / own[-1]["shards"] * options.weights
        for n_workers in WORKERS:
            factor = np.exp(options.straggler * random.normal(size=(500, n_workers))).max(axis=1).mean()
            rounds = fit["first"] * n_workers ** fit["power"]
            computing = options.times * fit["work"] / n_workers + options.weights * fit["a_shard"]
            seconds = {
                "computing": computing * factor,
                "driver": own[-1]["driver_seconds"] * options.weights,
                "network": n_workers * a_worker * 8e-3 / options.gigabits + 2e-3 * options.latency,
            }
            hours = rounds * sum(seconds.values()) / 3600
            result.append({"case": case, "workers": n_workers, "rounds": rounds, **seconds, "hours": hours})
    return result


def plot(rows: list[dict[str, Any]], model: list[dict[str, Any]], path: str) -> None:
    """Rounds against megabytes on the left, simulated time against workers on the right."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.2))
    for case in CASES:
        own = [row for row in rows if row["case"] == case]
        total = [row["rounds"] * row["megabytes"] for row in own]
        left.plot([row["rounds"] for row in own], total, "o-", markersize=4, label=case)
        own = [row for row in model if row["case"] == case]
        right.plot([row["workers"] for row in own], [row["hours"] for row in own], "o-", markersize=4)
    left.set(xscale="log", yscale="log", xlabel="rounds to 1e-3", ylabel="MB exchanged in all")
    right.set(xscale="log", yscale="log", xlabel="workers (simulated)", ylabel="hours to 1e-3")
    left.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=None, help="folder with the data sets")
    parser.add_argument("--from", dest="source", default=None, help="file with measurements made before")
    parser.add_argument("--limit", type=int, default=2000)
    parser.add_argument("--shards", default="1,4,16")
    parser.add_argument("--only", default="", help="cases whose names begin so")
    parser.add_argument("--times", type=float, default=20_000.0, help="as many examples are simulated")
    parser.add_argument("--weights", type=float, default=100.0, help="as many weights are")
    parser.add_argument("--straggler", type=float, default=0.15)
    parser.add_argument("--gigabits", type=float, default=10.0)
    parser.add_argument("--latency", type=float, default=1.0)
    parser.add_argument("--json", default=None)
    parser.add_argument("--plot", default=None)
    options = parser.parse_args()
    if options.source:
        rows = json.loads(Path(options.source).read_text())
    else:
        folder = need_data(options.data, "conll2000, mnist and ud-en-ewt")
        rows = measure(folder, options.limit, [int(each) for each in options.shards.split(",")], options.only)
    write_json(options.json, rows)
    names = ("shards", "rounds", "passes", "shard_seconds", "driver_seconds", "megabytes")
    print(table([[row["case"], *(f"{row[name]:.3g}" for name in names)] for row in rows], ["case", *names]))
    model = simulated(rows, options)
    names = ("workers", "rounds", "computing", "driver", "network", "hours")
    print(table([[row["case"], *(f"{row[name]:.3g}" for name in names)] for row in model], ["case", *names]))
    if options.plot:
        plot(rows, model, options.plot)


if __name__ == "__main__":
    main()
