"""Peak memory of kernel training under a budget: 20,000 points, whose kernel matrix takes 1.5 GB in single precision.

python benchmarks/kernel_memory.py [--points 20000] [--budgets 100,400,2000] [--json out.json]

Each budget has a process of its own: a pass of batch training and a certificate, on one thread. The growth is the
peak after them over the peak before the matrix was made.
"""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
from common import arguments, in_child, peak_megabytes, table, write_json


def task_train(n: int, megabytes: float) -> dict[str, Any]:
    from partwise.mercer.functions import KernelFunction
    from partwise.mercer.gram import Gram
    from partwise.mercer.problem import KernelProblem
    from partwise.solvers import ExcessiveGap, solve
    from partwise.structures import Multiclass

    random = np.random.default_rng(0)
    labels = random.integers(0, 10, n)
    points = (random.normal(size=(n, 50)) + np.eye(10, 50)[labels]).astype(np.float32)
    function = KernelFunction("poly", {"gamma": 0.02, "degree": 3, "coef0": 1.0}, np.float32)
    few = Gram.of_points(function, points[:200], 10.0)
    lengths = np.ones(n, np.int64)
    options = {"loss": "hinge", "l2": 10.0}
    solver = ExcessiveGap()
    solve(
        KernelProblem.of_kernels(Multiclass(10), labels[:200], lengths[:200], {"node": few}, **options),
        solver,
        max_passes=2,
    )
    before, start = peak_megabytes(), time.process_time()
    gram = Gram.of_points(function, points, megabytes)
    solve(
        KernelProblem.of_kernels(Multiclass(10), labels, lengths, {"node": gram}, **options),
        solver,
        max_passes=1,
    )
    return {
        "growth": peak_megabytes() - before,
        "cpu": time.process_time() - start,
        "kept": gram.n_kept,
        "computed": gram.n_computed,
    }


def main() -> None:
    options = arguments(__doc__ or "", more={"--points": "20000", "--budgets": "100,400,2000"})
    if options.task:
        print(json.dumps(task_train(**json.loads(options.options))))
        return
    results, rows = {}, []
    for budget in map(float, options.budgets.split(",")):
        found = in_child(__file__, "train", n=int(options.points), megabytes=budget)
        results[f"{budget:g}"] = found
        rows.append(
            [f"{budget:g}", f"{found['growth']:.0f}", found["kept"], found["computed"], f"{found['cpu']:.1f}"]
        )
    print(table(rows, ["budget MB", "growth MB", "rows kept", "rows computed", "CPU s"]))
    write_json(options.json, results)


if __name__ == "__main__":
    main()
