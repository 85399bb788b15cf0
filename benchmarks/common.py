"""What the benchmarks share: clocks, memory, children of their own, tables, trajectories of solvers."""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

TARGETS = (1e-2, 1e-3, 1e-4, 1e-5)
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}


def peak_megabytes() -> float:
    """Largest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_child(script: str, task: str, **options: Any) -> dict[str, Any]:
    """Run ``script --task task`` in a process of its own, single-threaded; returns the JSON it prints last."""
    command = [sys.executable, script, "--task", task, "--options", json.dumps(options)]
    environment = {**os.environ, **ONE_THREAD}
    child = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if child.returncode:
        raise SystemExit(f"{task} {options} failed with exit code {child.returncode}")
    return json.loads(child.stdout.strip().splitlines()[-1])


def arguments(description: str, **defaults: Any) -> argparse.Namespace:
    """The usual options, and the two by which a benchmark calls itself."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", default=defaults.get("data"), help="folder with the data set")
    parser.add_argument("--l2", default=defaults.get("l2"), help="comma-separated values of l2")
    parser.add_argument("--solvers", default=defaults.get("solvers"), help="comma-separated solver names")
    parser.add_argument("--json", default=None, help="file to write all figures to")
    parser.add_argument("--skip-peer", action="store_true", help="measure partwise only")
    for name, value in defaults.get("more", {}).items():
        parser.add_argument(name, default=value)
    parser.add_argument("--task", default=None, help=argparse.SUPPRESS)
    parser.add_argument("--options", default="{}", help=argparse.SUPPRESS)
    return parser.parse_args()


def certified_optimum(problem: Any, tol: float = 1e-6, max_passes: float = 1500) -> tuple[float, float]:
    """Bracket the optimum: (dual, primal) with a relative gap of at most `tol` where it can be had."""
    from partwise.solvers import ExponentiatedGradient, solve

    solver = ExponentiatedGradient("gap", precision="double")
    solution = solve(problem, solver, tol=tol, max_passes=max_passes)
    return solution.certificate.dual, solution.certificate.primal


def trajectory(
    problem: Any,
    solver: Any,
    optimum: float,
    max_passes: float,
    targets: tuple[float, ...] = TARGETS,
    *,
    max_cpu: float = math.inf,
    spacing: float = 0.0,
    watch: Callable[[float, Any], float | None] = lambda passes, weights: None,
) -> dict[str, Any]:
    """Passes and CPU seconds until the primal is within each target of the optimum.

    The clock stands still while the primal is evaluated, on a copy of the state, so that nothing the
    evaluation learns helps the solver. It is evaluated after every step, or, since that takes time as well,
    each time that passes have grown by the share `spacing`. A point is passes, CPU seconds, primal, dual, wall
    seconds, and what `watch` says of passes and weights.
    """
    points: list[list[Any]] = []
    reached: dict[str, dict[str, float]] = {}
    for point in certified_points(problem, solver, max_passes, max_cpu, spacing, watch):
        points.append(point)
        reached = first_within(points, optimum, targets)
        if len(reached) == len(targets):
            break
    return {"reached": reached, "points": points, "cpu_per_pass": points[-1][1] / points[-1][0]}


def certified_points(
    problem: Any,
    solver: Any,
    max_passes: float,
    max_cpu: float = math.inf,
    spacing: float = 0.0,
    watch: Callable[[float, Any], float | None] = lambda passes, weights: None,
    seed: int = 0,
) -> Iterator[list[Any]]:
    """The points of `trajectory`, for as long as the caller wants more of them."""
    import numpy as np

    random = np.random.default_rng(seed)
    cpu, wall = time.process_time(), time.perf_counter()
    state = solver.init(problem, random)
    seconds, wall_seconds, passes = time.process_time() - cpu, time.perf_counter() - wall, 0.0
    due = 0.0
    while passes < max_passes and seconds < max_cpu:
        cpu, wall = time.process_time(), time.perf_counter()
        state, info = solver.step(problem, state, random)
        seconds += time.process_time() - cpu
        wall_seconds += time.perf_counter() - wall
        passes += info.passes
        if passes < due and passes < max_passes and seconds < max_cpu:
            continue
        due = passes * (1.0 + spacing)
        _, certificate = solver.certificate(problem, deepcopy(state))
        seen = watch(passes, certificate.weights)
        yield [passes, seconds, certificate.primal, certificate.dual, wall_seconds, seen]


def first_within(
    points: list[list[Any]], optimum: float, targets: tuple[float, ...] = TARGETS
) -> dict[str, dict[str, float]]:
    """The first of a trajectory's points with a primal within each target of the optimum."""
    reached = {}
    for target in targets:
        for passes, cpu, primal, _, wall, *_ in points:
            if primal / optimum - 1.0 <= target:
                reached[f"{target:g}"] = {"passes": passes, "cpu": cpu, "wall": wall}
                break
    return reached


def certified_fit(problem: Any, solver: Any, tol: float, max_passes: float) -> dict[str, float]:
    """A whole run to the tolerance, its certificates included in the time."""
    from partwise.solvers import solve

    cpu = time.process_time()
    solution = solve(problem, solver, tol=tol, max_passes=max_passes)
    return {
        "cpu": time.process_time() - cpu,
        "passes": solution.passes,
        "primal": solution.certificate.primal,
        "dual": solution.certificate.dual,
        "relative_gap": solution.certificate.relative_gap,
        "certificates": len(solution.history),
    }


def table(rows: list[list[str]], header: list[str]) -> str:
    """A plain table with aligned columns."""
    widths = [max(len(str(row[i])) for row in [header, *rows]) for i in range(len(header))]
    lines = ["  ".join(str(c).rjust(w) for c, w in zip(row, widths, strict=True)) for row in [header, *rows]]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def write_json(path: str | None, content: Any) -> None:
    if path:
        Path(path).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def need_data(path: str | None, name: str) -> Path:
    folder = Path(path or "")
    if not path or not folder.is_dir():
        raise SystemExit(f"--data must name the folder of {name}; {path!r} is not one")
    return folder
