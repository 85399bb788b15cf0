"""What `dependency.py` runs in processes of their own: one training run, one curve, one path.

Not to be called by hand: `python benchmarks/dependency_tasks.py --task NAME --options JSON` prints JSON.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import peak_megabytes, trajectory

FILES = {
    "ud-en-ewt": ("train.conllu.gz", "dev.conllu.gz", "test.conllu.gz"),
    "ptb-sample": ("train.dp", "dev.dp", "test.dp"),
    "cdt-da": ("train.conll.gz", "dev.conll.gz", "test.conll.gz"),
    "conll2007-es": ("esp.train.gz", None, "esp.test"),
}
HELD_OUT = 500  # last training sentences that are dev where a data set has none
PROJECTIVE = ("ptb-sample", "conll2007-es")
WARM_UP = 30  # sentences on which everything is compiled, or loaded, before the clock starts
DEV_EVERY = 1.15  # dev accuracy along a curve: again after so many times the passes


def read(folder: str, part: int, limit: int | None = None) -> Any:
    """Train, dev or test (0, 1, 2), or the first `limit` sentences of it."""
    import numpy as np

    from partwise.data import read_dependencies

    names = FILES[Path(folder).name]
    corpus = read_dependencies(Path(folder) / (names[part] or names[0]))
    first, last = 0, corpus.n_sentences
    if names[1] is None and part == 0:
        last -= HELD_OUT
    if names[part] is None:
        first = last - HELD_OUT
    if limit is not None:
        last = min(last, first + limit)
    whole = (first, last) == (0, corpus.n_sentences)
    return corpus if whole else corpus.subset(np.arange(first, last))


def parser_for(folder: str, **settings: Any) -> Any:
    from partwise import DependencyParser, Loss

    structure = "projective" if Path(folder).name in PROJECTIVE else "spanning"
    loss = settings.pop("loss", "log")
    if isinstance(loss, list):
        loss = Loss(*map(float, loss))
    return DependencyParser(loss=loss, **{"structure": structure, **settings})


def scores(parser: Any, corpus: Any) -> dict[str, Any]:
    """Attachment in percent, with and without punctuation, and the speed of parsing."""
    from partwise.scoring.attachment import attachment_scores

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
        "n_words": corpus.n_words,
    }


def with_weights(parser: Any, problem: Any, encoder: Any, weights: Any) -> Any:
    """The parser, ready to predict with weights that a solver called by hand found."""
    from partwise.estimators.model import compact

    parser._encoder, parser._model = compact(problem.structure, encoder, problem.scorer.maps, weights)
    parser._loss = problem.loss
    return parser


def task_accuracy(folder: str, limit: int | None = None, **settings: Any) -> dict[str, Any]:
    """Train as a user would, and score on dev and test."""
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
        result[name] = scores(parser, corpus)
        recall = parser.pruning_recall(corpus)
        result[name]["pruning_recall"] = None if recall is None else 100 * recall.recall
    return result


def task_optimum(
    folder: str, limit: int | None, tol: float, max_passes: float, **settings: Any
) -> dict[str, Any]:
    """Primal and dual between which the optimum lies."""
    from partwise.solvers import BlockFrankWolfe, ExponentiatedGradient, Solver, solve

    problem, _ = parser_for(folder, **settings).problem_for(read(folder, 0, limit))
    solver: Solver = ExponentiatedGradient("gap", "newton", precision="double")
    if problem.loss.is_hard:
        solver = BlockFrankWolfe(precision="double")
    solution = solve(problem, solver, tol=tol, max_passes=max_passes)
    return {"primal": solution.certificate.primal, "dual": solution.certificate.dual}


def task_trajectory(
    folder: str,
    limit: int | None,
    solver: str,
    optimum: float,
    targets: list[float],
    max_passes: float,
    max_seconds: float,
    **settings: Any,
) -> dict[str, Any]:
    """The primal objective after every step, with passes, CPU seconds and now and then accuracy on dev."""
    from partwise.solvers import solve

    small, _ = parser_for(folder, **settings).problem_for(read(folder, 0, WARM_UP))
    solve(small, solver_named(small, solver), tol=1e-9, max_passes=2)
    parser = parser_for(folder, **settings)
    problem, encoder = parser.problem_for(read(folder, 0, limit))
    watch = _dev_watch(parser, problem, encoder, read(folder, 1))
    curve = trajectory(
        problem,
        solver_named(problem, solver),
        optimum,
        max_passes,
        tuple(targets),
        max_cpu=max_seconds,
        watch=watch,
    )
    return {**curve, "megabytes": peak_megabytes()}


def solver_named(problem: Any, name: str) -> Any:
    """As the library calls them, and "eg-sharpen", which approaches β = ∞ through finite β."""
    from partwise.solvers import ExponentiatedGradient, solver_for

    if name == "eg-sharpen":
        return ExponentiatedGradient("gap", "newton", sharpen=True)
    return solver_for(problem, name)


def _dev_watch(parser: Any, problem: Any, encoder: Any, dev: Any) -> Callable[..., float | None]:
    last = 0.0

    def watch(passes: float, weights: Any) -> float | None:
        nonlocal last
        if passes < DEV_EVERY * last:
            return None
        last = passes
        return scores(with_weights(parser, problem, encoder, weights), dev)["uas"]

    return watch


def task_path(
    folder: str,
    limit: int | None,
    l2s: list[float],
    tol: float,
    max_passes: float,
    cold: bool,
    **settings: Any,
) -> dict[str, Any]:
    """From strong to weak regularisation, each from the last one's dual variables, and afresh if `cold`."""
    from partwise.solvers import solve, solver_for

    parser = parser_for(folder, l2=l2s[0], **settings)
    problem, encoder = parser.problem_for(read(folder, 0, limit))
    parts = {"dev": read(folder, 1), "test": read(folder, 2)}
    solve(problem, solver_for(problem, "auto"), tol=1.0, max_passes=0.1)
    rows: list[dict[str, Any]] = []
    before = None
    for l2 in l2s:
        at = problem.with_l2(l2)

        def run(start_at: Any, at: Any = at) -> tuple[Any, dict[str, float]]:
            start = time.process_time()
            solver = solver_for(at, "auto", tol)
            found = solve(at, solver, tol=tol, max_passes=max_passes, warm_start=start_at)
            gap = found.certificate.relative_gap
            return found, {"passes": found.passes, "cpu": time.process_time() - start, "relative_gap": gap}

        row: dict[str, Any] = {"l2": l2}
        if cold:
            row["cold"] = run(None)[1]
        solution, row["warm"] = run(before)
        before = solution
        with_weights(parser, at, encoder, solution.weights)
        rows.append({**row, **{name: scores(parser, corpus) for name, corpus in parts.items()}})
    return {"rows": rows}


def best_on_dev(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The row of a path that dev takes; what test says of the others is not to be looked at."""
    return max(rows, key=lambda row: row["dev"]["uas"])


def main() -> None:
    task, settings = sys.argv[sys.argv.index("--task") + 1], json.loads(sys.argv[-1])
    print(json.dumps(globals()[f"task_{task}"](**settings)))


if __name__ == "__main__":
    main()
