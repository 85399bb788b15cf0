"""Dense and badly scaled features: CPU seconds to a certified 1e-3, with scikit-learn beside where it can.

    python benchmarks/dense.py [--data DIR] [--problems independent,correlated,…] [--solvers auto,lbfgs] [--l1 1]
        [--skip-peer]

DIR holds the folders conll2000 and mnist; without it only made-up problems are run. One thread, each run in a process
of its own, what has to be compiled compiled before. scikit-learn is run afresh with more and more iterations until its
objective is within 1e-3 of the optimum, which it does not prove; the first run that gets there is timed.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from common import arguments, in_child, table, write_json
from multiclass import _objective
from multiclass import read as read_mnist
from scipy import sparse

TARGET = 1e-3
LIMIT = 40.0  # CPU seconds, for us and for scikit-learn
PEERS = ("lbfgs", "newton-cg", "newton-cholesky")


def made_up(n: int, d: int, k: int, scales: Any = 1.0, rotated: bool = False, size: float = 2.0) -> Any:
    """Gaussian columns of these scales, perhaps turned so that all are correlated, and noisy labels from them."""
    random = np.random.default_rng(0)
    x = random.normal(size=(n, d)) * scales
    if rotated:
        x = x @ np.linalg.qr(random.normal(size=(d, d)))[0]
    truth = random.normal(size=(d, k))
    scores = x @ truth
    scores *= size / scores.std()
    return x.astype(np.float32), np.argmax(scores + random.gumbel(size=(n, k)), axis=1)


def correlated(n: int = 20_000) -> Any:
    return made_up(n, 50, 5, np.geomspace(1.0, 0.01, 50), rotated=True, size=3.0)


def duplicated() -> Any:
    x, y = made_up(20_000, 60, 6)
    return np.column_stack([x, x[:, :30], np.ones((len(x), 10), np.float32)]), y


CLASSES = {
    "independent": lambda: made_up(50_000, 300, 9),
    "correlated": correlated,
    "2000 columns": lambda: made_up(20_000, 2000, 9),
    "200 classes": lambda: made_up(30_000, 100, 200),
    "scales 1e-4 to 1e4": lambda: made_up(20_000, 60, 6, np.geomspace(1e-4, 1e4, 60)),
    "duplicated and constant": duplicated,
    "fewer rows than columns": lambda: made_up(500, 1500, 5),
}
STRENGTHS = {"independent": (1.0,), "correlated": (0.01, 10.0), "mnist": (1000.0, 10.0, 1.0)}


def classes(name: str, data: str | None) -> tuple[Any, np.ndarray]:
    """Rows (n, d), dense or sparse, and their classes."""
    if name.startswith("mnist"):
        x, y = read_mnist(Path(data or "") / "mnist")
        return (x.toarray().astype(np.float32) if name.endswith("dense") else x), y
    return CLASSES[name]()


def class_problem(name: str, data: str | None, l2: float, loss: str) -> Any:
    from partwise.core.maps import FeatureMap
    from partwise.core.problem import Problem
    from partwise.core.rows import AttributeRows, RowData
    from partwise.structures import Multiclass

    x, y = classes(name, data)
    k, d = int(y.max()) + 1, x.shape[1]
    if sparse.issparse(x):
        rows = AttributeRows(x.indptr.astype(np.int64), x.indices.astype(np.int32), x.data)
        own = RowData(FeatureMap.build(k, d), rows)
    else:
        own = RowData(FeatureMap.build(k, 0, d), None, x)
    return Problem.build(Multiclass(k), y, np.ones(len(y), int), {"node": own}, l2=l2, loss=loss)


def chain_problem(data: str | None, l2: float, loss: str) -> Any:
    """CoNLL-2000 chunks from random embeddings of the words, 300 columns of length about one."""
    from sequence import read

    from partwise.core.maps import FeatureMap
    from partwise.core.problem import Problem
    from partwise.core.rows import RowData
    from partwise.structures import Chain

    text = read(Path(data or "") / "conll2000", "train")
    words, which = np.unique(np.array(text.columns[0]), return_inverse=True)
    labels, codes = np.unique(text.labels, return_inverse=True)
    embedding = np.random.default_rng(0).normal(size=(len(words), 300)).astype(np.float32) / np.sqrt(300)
    own = RowData(FeatureMap.build(len(labels), 0, 300), None, embedding[which])
    lengths = np.diff(text.sequence_ptr)
    return Problem.build(Chain(len(labels)), codes, lengths, {"node": own}, l2=l2, loss=loss)


def task_partwise(
    name: str, data: str | None, l2: float, l1: float, loss: str, solver: str
) -> dict[str, Any]:
    from partwise.solvers import solve, solver_for

    make = chain_problem if name == "embeddings" else lambda *given: class_problem(name, *given)
    problem = make(data, l2, loss).with_l2(l2, l1)
    few = problem.shard(np.arange(min(problem.n_examples, 400)))
    solve(few, solver_for(few, solver), tol=0.3, max_passes=3)
    cpu = time.process_time()
    found = solve(problem, solver_for(problem, solver), tol=TARGET, max_passes=1000, time_limit=2 * LIMIT)
    certificate = found.certificate
    return {
        "cpu": time.process_time() - cpu, "passes": found.passes, "gap": certificate.relative_gap,
        "primal": certificate.primal, "dual": certificate.dual, "solver": solver_for(problem, solver).name,
    }  # fmt: skip


def task_sklearn(name: str, data: str | None, l2: float, solver: str, optimum: float) -> dict[str, Any]:
    from sklearn.linear_model import LogisticRegression

    x, y = classes(name, data)
    warnings.simplefilter("ignore")
    iterations, last = 3.0, 0.0
    while last < LIMIT:
        model = LogisticRegression(
            C=1 / l2, fit_intercept=False, solver=solver, max_iter=round(iterations), tol=1e-12
        )
        cpu = time.process_time()
        model.fit(x.astype(np.float64), y)
        last = time.process_time() - cpu
        weights = model.coef_ if len(model.coef_) > 1 else np.vstack([-model.coef_, model.coef_]) / 2
        if _objective(x, y, weights, l2, "log") <= (1 + TARGET) * optimum:
            return {"cpu": last, "iterations": round(iterations)}
        iterations *= 1.5
    return {"cpu": None, "over": last, "iterations": round(iterations)}


def compare(
    name: str, data: str | None, l2: float, l1: float, loss: str, solvers: list[str], skip_peer: bool
) -> Any:
    shared = {"name": name, "data": data, "l2": l2}
    ours = {s: in_child(__file__, "partwise", **shared, l1=l1, loss=loss, solver=s) for s in solvers}
    peers = {}
    if not skip_peer and name != "embeddings" and loss == "log" and not l1:
        optimum = max(run["dual"] for run in ours.values())
        for solver in PEERS if "sparse" not in name else ("lbfgs", "newton-cg", "saga"):
            peers[solver] = in_child(__file__, "sklearn", **shared, solver=solver, optimum=optimum)
    rows = [
        [s, run["solver"], f"{run['cpu']:.2f}", f"{run['passes']:.1f}", f"{run['gap']:.1e}"]
        for s, run in ours.items()
    ]
    for solver, run in peers.items():
        seconds = f"{run['cpu']:.2f}" if run["cpu"] else f"> {run['over']:.0f}"
        rows.append([f"scikit-learn {solver}", "", seconds, str(run["iterations"]), "-"])
    print(f"\n{name}, {loss}, l2 = {l2:g}" + (f", l1 = {l1:g}" if l1 else ""))
    print(table(rows, ["solver", "is", "CPU s", "passes", "gap"]), flush=True)
    return {"name": name, "l2": l2, "l1": l1, "loss": loss, "partwise": ours, "sklearn": peers}


def main() -> None:
    options = arguments(
        __doc__, solvers="auto,lbfgs", more={"--problems": None, "--loss": "log", "--l1": 0}
    )  # --l2 replaces the strengths of each problem
    if options.task:
        print(json.dumps(globals()[f"task_{options.task}"](**json.loads(options.options))))
        return
    names = list(CLASSES) + (["embeddings", "mnist dense", "mnist sparse"] if options.data else [])
    results = []
    for name in options.problems.split(",") if options.problems else names:
        strengths = STRENGTHS.get(name.split()[0], (1.0,))
        for l2 in map(float, options.l2.split(",")) if options.l2 else strengths:
            solvers = options.solvers.split(",")
            given = l2, float(options.l1), options.loss, solvers, options.skip_peer
            results.append(compare(name, options.data, *given))
    write_json(options.json, results)


if __name__ == "__main__":
    sys.exit(main())
