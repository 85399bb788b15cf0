"""Memory of chains with many labels: the dual state as it is, the lean one, L-BFGS, and CRFsuite.

python benchmarks/memory.py [--sizes 1500x300,9000x300,9000x50] [--limit 1.5GB] [--solvers full,lean,lbfgs,crfsuite]
                            [--json out.json]

Sentences of about 24 words are drawn from a Markov chain of labels; words tell most of them, and their neighbours
help. Every run has a process of its own, on one thread, and ends at a certified gap of 1e-3; its peak is that of the
whole process. "full" is `auto` without a limit and is left out where its estimate exceeds --most; "lean" is `auto`
with lean state; CRFsuite stops at iterations that change its objective by less than 1e-4 over ten, without certificate.
"""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
from common import arguments, in_child, peak_megabytes, table, write_json

L2, WORDS = 1.0, 10_000


def sentences(n: int, n_labels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lengths of sentences, labels and attributes (n_words, 4) of their words."""
    random = np.random.default_rng(0)
    lengths = np.clip(random.poisson(24, n), 2, 80)
    starts = np.zeros(lengths.sum(), bool)
    starts[np.cumsum(lengths)[:-1]] = starts[0] = True
    size = len(starts)
    following = random.integers(0, n_labels, (n_labels, 8))
    chances = np.cumsum(random.dirichlet(np.full(8, 0.5), n_labels), axis=1)
    drawn, is_free = random.random(size), starts | (random.random(size) < 0.15)
    labels = random.integers(0, n_labels, size)
    for t in np.flatnonzero(~is_free):
        before = labels[t - 1]
        labels[t] = following[before, min(np.searchsorted(chances[before], drawn[t]), 7)]
    own = WORDS // n_labels  # words of a label, the first of them far more frequent
    words = labels * own + np.minimum(own ** random.random(size), own - 1).astype(np.int64)
    words = np.where(random.random(size) < 0.25, random.integers(0, WORDS, size), words)
    near = [WORDS + np.roll(words, 1), 2 * WORDS + np.roll(words, -1), 3 * WORDS + words % 97]
    return lengths, labels, np.stack([words, *near], axis=1).astype(np.int32)


def task_partwise(n: int, n_labels: int, form: str, limit: str | None) -> dict[str, Any]:
    from dataclasses import replace

    from partwise.core.maps import FeatureMap
    from partwise.core.problem import Problem
    from partwise.core.rows import AttributeRows, RowData
    from partwise.solvers import Auto, solve
    from partwise.solvers.memory import memory_estimate, solver_within
    from partwise.structures import Chain

    lengths, labels, attributes = sentences(n, n_labels)
    rows = AttributeRows(np.arange(len(labels) + 1) * 4, attributes.ravel())
    node = FeatureMap.build(n_labels, 3 * WORDS + 97, 0, rows, labels, "observed")
    problem = Problem.build(Chain(n_labels), labels, lengths, {"node": RowData(node, rows)}, l2=L2)
    if form == "limit":
        solver: Any = solver_within(problem, memory_limit=limit)
    else:
        solver = solver_within(problem, "lbfgs" if form == "lbfgs" else Auto(lean=form == "lean"))
    estimate = memory_estimate(problem, replace(solver))
    start = time.process_time()
    found = solve(problem, solver, tol=1e-3, max_passes=300)
    return {
        "solver": estimate.solver,
        "cpu": time.process_time() - start,
        "passes": found.passes,
        "gap": found.certificate.relative_gap,
        "primal": found.certificate.primal,
        "estimated": estimate.peak / 2**20,
        "megabytes": peak_megabytes(),
    }


def task_crfsuite(n: int, n_labels: int) -> dict[str, Any]:
    import pycrfsuite

    lengths, labels, attributes = sentences(n, n_labels)
    trainer, first = pycrfsuite.Trainer(verbose=False), 0
    trainer.select("lbfgs", "crf1d")
    trainer.set_params({"c2": L2 / 2, "max_iterations": 300, "epsilon": 1e-4, "period": 10, "delta": 1e-4})
    trainer.set_params({"feature.possible_transitions": True})
    for length in lengths:
        words = [list(map(str, each)) for each in attributes[first : first + length].tolist()]
        trainer.append(words, list(map(str, labels[first : first + length].tolist())))
        first += length
    start = time.process_time()
    trainer.train("/dev/null")
    last = trainer.logparser.last_iteration or {}
    return {
        "solver": "CRFsuite",
        "cpu": time.process_time() - start,
        "passes": float(last.get("num", np.nan)),
        "primal": float(last.get("loss", np.nan)),
        "megabytes": peak_megabytes(),
    }


def measured(size: str, form: str, limit: str) -> dict[str, Any]:
    n, n_labels = map(int, size.split("x"))
    if form == "crfsuite":
        return in_child(__file__, "crfsuite", n=n, n_labels=n_labels)
    return in_child(__file__, "partwise", n=n, n_labels=n_labels, form=form, limit=limit)


def main() -> None:
    defaults = {"--sizes": "1500x300,9000x300,9000x50", "--limit": "1.5GB", "--most": "4e9"}
    options = arguments(__doc__ or "", solvers="full,limit,lbfgs,crfsuite", more=defaults)
    if options.task:
        task = {"partwise": task_partwise, "crfsuite": task_crfsuite}[options.task]
        print(json.dumps(task(**json.loads(options.options))))
        return
    results: dict[str, Any] = {}
    rows = []
    for size in options.sizes.split(","):
        n, n_labels = map(int, size.split("x"))
        for form in options.solvers.split(","):
            if form == "full" and 8 * n * n_labels * (n_labels + 24) > float(options.most):
                continue
            found = results[f"{size} {form}"] = measured(size, form, options.limit)
            told = f"{found['estimated']:.0f}" if "estimated" in found else "–"
            gap = f"{found['gap']:.1e}" if "gap" in found else "–"
            figures = [f"{found['passes']:.1f}", f"{found['cpu']:.0f}", gap, f"{found['primal']:.1f}", told]
            rows.append([n, n_labels, found["solver"], *figures, f"{found['megabytes']:.0f}"])
            print(" ".join(map(str, rows[-1])), flush=True)
    names = ["sentences", "labels", "solver", "passes", "CPU s", "gap", "primal", "told MB", "peak MB"]
    print(table(rows, names))
    write_json(options.json, results)


if __name__ == "__main__":
    main()
