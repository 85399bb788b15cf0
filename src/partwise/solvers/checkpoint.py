"""Save a run and go on from it exactly. Files hold arrays and JSON only, nothing that can execute."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Set
from typing import TYPE_CHECKING, Any

import numpy as np

from partwise.core.problem import Problem
from partwise.errors import InputError
from partwise.solvers.base import Record, Solver
from partwise.solvers.fingerprint import fingerprint
from partwise.storage.atomic import write_atomically

# Values that errors show; the others are hashes.
_IN_WORDS = ("solver", "loss", "l2", "n_examples", "n_parts", "n_weights")

if TYPE_CHECKING:
    from partwise.solvers.driver import Run


def _made_with(problem: Problem, solver: Solver) -> dict[str, str]:
    """Everything that must be the same for a run to go on; precision "auto" may follow another tol."""
    return {"solver": repr(solver), **fingerprint(problem)}


def with_present_names(solver: Any) -> Any:
    """The text of a solver, as a file holds it, with the names that solvers have now; anything else as it is."""
    is_text = isinstance(solver, str)
    return solver.replace("SegmentAscent(", "ChainCoordinateAscent(") if is_text else solver


def save_checkpoint(
    path: str | os.PathLike[str],
    problem: Problem,
    solver: Solver,
    run: Run,
    random: np.random.Generator,
    state: Any,
) -> None:
    """Write the whole run to `path`, atomically."""
    header = {
        "problem": _made_with(problem, solver),
        "random": random.bit_generator.state,
        "schedule": run.schedule.learnt(),
        "run": [run.passes, run.seconds, run.cpu_seconds],
        "history": [record.as_dict() for record in run.history],
    }
    arrays: dict[str, Any] = {f"state.{name}": np.asarray(value) for name, value in state._asdict().items()}
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    write_atomically(path, lambda handle: np.savez(handle, header=text, **arrays))


def load_checkpoint(
    path: str | os.PathLike[str],
    problem: Problem,
    solver: Solver,
    run: Run,
    random: np.random.Generator,
    template: Callable[[Problem, Set[str]], Any],
) -> Any:
    """Read a run back into `run` and `random`; returns the solver's state, laid out like `Solver.template`."""
    damaged = InputError("is not a whole partwise checkpoint; delete it to start again", path)
    try:
        with np.load(path, allow_pickle=False) as file:
            header = json.loads(file["header"].tobytes())
            arrays = {n.removeprefix("state."): file[n] for n in file.files if n.startswith("state.")}
        made_with = dict(header["problem"])
        made_with["solver"] = with_present_names(made_with["solver"])
    except Exception as error:  # a damaged archive can raise nearly anything
        raise damaged from error
    for name, value in _made_with(problem, solver).items():
        if made_with.get(name) != value:
            values = f" ({made_with.get(name)} then, {value} now)" if name in _IN_WORDS else ""
            raise InputError(
                f"was made with another {name}{values}: use the same settings and data, or delete it to start again",
                path,
            )
    try:
        state = state_like(template(problem, arrays.keys()), arrays)
        random.bit_generator.state = header["random"]
        schedule = run.schedule
        schedule.last, schedule.next, schedule.log_gap, schedule.correction = header["schedule"]
        run.passes, run.seconds, run.cpu_seconds = header["run"]
        run.history = [Record(**record) for record in header["history"]]
    except (KeyError, TypeError, ValueError) as error:
        raise damaged from error
    return state


def state_like(template: Any, arrays: dict[str, np.ndarray]) -> Any:
    """A state of the template's class; ValueError unless names, shapes and types are the same.

    Arrays that its `growing` names may be larger than in the template. Single precision becomes
    double if the template has double.
    """
    growing = template.growing() if hasattr(template, "growing") else ()
    fitting = {}
    for name, value in template._asdict().items():
        found = arrays[name]
        may_grow = (
            name in growing and found.ndim == value.ndim and np.greater_equal(found.shape, value.shape).all()
        )
        if not (may_grow or found.shape == value.shape) or not _fits(found.dtype, value.dtype):
            raise ValueError(name)
        fitting[name] = found.astype(np.promote_types(found.dtype, value.dtype), copy=False)
    state = template._replace(**fitting)
    if hasattr(state, "is_sound") and not state.is_sound():
        raise ValueError("arrays do not fit together")
    return state


def copied(state: Any) -> Any:
    """A copy of a state: steps change states in place."""
    return state._replace(**{name: np.array(array) for name, array in state._asdict().items()})


def _fits(found: np.dtype, wanted: np.dtype) -> bool:
    """Whether the types are equal, or are two floating-point precisions."""
    return found == wanted or {found, wanted} == {np.dtype(np.float32), np.dtype(np.float64)}
