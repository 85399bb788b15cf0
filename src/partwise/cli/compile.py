"""`partwise compile`: compile code before the first training, for container images and CI."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from partwise.compiled.clock import kernels_compiled, seconds_compiling, telling

if TYPE_CHECKING:
    from partwise.tasks.task import SmallProblem

_LOSSES = ("log", "hinge")
_FEWEST_PASSES = 3  # enough for every solver to run all of its code


def compile_ahead(
    all: Annotated[
        bool,
        typer.Option("--all", help="Every structure, loss, solver and precision, not only the usual ones."),
    ] = False,
) -> None:
    """Compile ahead, so that the first training on this machine starts at once.

    Code that is not in the library of the wheel is compiled when it is first used, and kept on disk: in the folder
    that PARTWISE_CACHE_DIR names, or in the user's cache folder. This command runs small problems that compile the
    code of `train` and `predict`, with log and hinge loss.
    """
    from partwise.report.output import error_console

    console = error_console()
    assert console is not None
    begin = seconds_compiling()
    runs = list(_every_run() if all else _usual_runs())
    for number, (problem, loss, solver) in enumerate(runs, 1):
        name = f"{problem.name}, {loss} loss, {_solver_name(solver)}"
        before = seconds_compiling()
        with telling(None, name):
            was_possible = _run(problem, loss, solver)
        took = f"{seconds_compiling() - before:5.1f} s" if was_possible else "not possible"
        console.print(f"{number:>4} of {len(runs)}  {took}  {name}", highlight=False, soft_wrap=True)
    total = seconds_compiling() - begin
    console.print(
        f"{kernels_compiled()} functions compiled, {total:.1f} s with loading what had been compiled",
        highlight=False,
    )


def _run(problem: SmallProblem, loss: str, solver: Any) -> bool:
    """Train, save, load and predict; False if the solver cannot train the problem."""
    import tempfile
    from pathlib import Path

    import partwise
    from partwise.errors import InputError

    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore", UserWarning)
        try:
            estimator = problem.estimator(
                loss=loss, solver=solver, max_passes=_FEWEST_PASSES, **problem.parameters
            )
            estimator.fit(problem.X, problem.y)
        except InputError:
            if solver == "auto":  # auto finds a solver for every problem
                raise
            return False
        estimator.save(Path(folder) / "model")
        loaded = partwise.load(Path(folder) / "model")
        for answer in problem.answers:
            # Losses with beta = inf have no probabilities, and say so.
            for X in (problem.X, problem.X[:1]):  # a single example has code of its own
                with suppress(InputError, AttributeError):
                    getattr(loaded, answer)(X)
    return True


def _small_problems() -> list[SmallProblem]:
    """The small problems of all tasks."""
    from partwise.tasks import TASKS, task_class

    return [problem for name in TASKS for problem in task_class(name).small_problems()]


def _usual_runs() -> Iterator[tuple[SmallProblem, str, Any]]:
    for problem in _small_problems():
        if problem.is_usual:
            for loss in _LOSSES:
                yield problem, loss, "auto"


def _every_run() -> Iterator[tuple[SmallProblem, str, Any]]:
    """The usual ones first, then all others; the same solver may come in two precisions."""
    from partwise.solvers import SOLVERS

    yield from _usual_runs()
    for problem in _small_problems():
        any_solver = problem.estimator._has_weights
        solvers = [each for each in SOLVERS.values() if any_solver or not each.needs.features]
        for loss in _LOSSES:
            for each in solvers:
                for solver in _precisions(each):
                    yield problem, loss, solver


def _precisions(solver: Any) -> list[Any]:
    if "precision" not in [field.name for field in fields(solver)]:
        return [solver]
    return [replace(solver, precision=precision) for precision in ("single", "double")]


def _solver_name(solver: Any) -> str:
    if isinstance(solver, str):
        return f"solver {solver}"
    precision = getattr(solver, "precision", None)
    return f"solver {solver.name}" + (f" in {precision} precision" if precision else "")
