"""Dependency parsing on whole treebanks: accuracy, time and memory of training as a user would.

    python benchmarks/dependency.py accuracy --data DIR/ud-en-ewt [--loss log,hinge] [--l2 1] [--prune 10]

Each run has a process of its own, one after another, on one thread; times are CPU seconds, all compiled before the
clock starts. `--json` keeps all figures. conll2007-es has no dev set: the last 500 training sentences are held out
for one. Solvers against each other, paths of l2 and other losses are in `reproduce.py`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import dependency_tasks
from common import in_child, need_data, table, write_json

SHAPES = ("structure", "non_projective")  # the data's own where they are not given


def run(task: str, **settings: Any) -> dict[str, Any]:
    return in_child(dependency_tasks.__file__, task, **settings)


def accuracy(options: argparse.Namespace, shared: dict[str, Any]) -> list[dict[str, Any]]:
    """Whole training runs, a row for each loss and l2."""
    results: list[dict[str, Any]] = []
    for loss in options.loss.split(","):
        for l2 in numbers(options.l2):
            settings = {**shared, "loss": loss, "l2": l2, "labelled": options.labelled}
            settings |= {"tol": options.tol, "max_passes": options.max_passes}
            settings["solver"] = options.solver
            settings |= {name: getattr(options, name) for name in SHAPES if getattr(options, name)}
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


def numbers(text: str) -> list[float]:
    return [float(each) for each in text.split(",")]


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("experiment", choices=("accuracy",))
    parser.add_argument("--data", help=f"folder of one of {', '.join(dependency_tasks.FILES)}")
    parser.add_argument("--loss", default="log", help="comma-separated losses")
    parser.add_argument("--l2", default="1", help="comma-separated values of l2")
    parser.add_argument("--solver", default="auto")
    parser.add_argument("--prune", default="10", help="heads left to each word, or none")
    parser.add_argument("--labelled", action="store_true", help="learn relations too")
    parser.add_argument("--structure", choices=("spanning", "projective"))
    parser.add_argument("--non-projective", choices=("lift", "skip"))
    parser.add_argument("--tol", type=float, default=1e-3, help="relative gap to train to")
    parser.add_argument("--max-passes", type=float, default=200.0)
    parser.add_argument("--limit", type=int, help="train on the first sentences only")
    parser.add_argument("--json", help="file to write all figures to")
    options = parser.parse_args()
    folder = need_data(options.data, " or ".join(dependency_tasks.FILES))
    if Path(folder).name not in dependency_tasks.FILES:
        raise SystemExit(f"--data must end in one of {', '.join(dependency_tasks.FILES)}")
    shared = {"folder": str(folder), "limit": options.limit}
    shared["prune"] = None if options.prune == "none" else int(options.prune)
    write_json(options.json, accuracy(options, shared))


if __name__ == "__main__":
    sys.exit(main())
