"""Memory of training, estimated before it starts, and the solver that stays within a limit."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from partwise.core.memory_limits import machine_bytes, memory_limits, physical_bytes
from partwise.core.problem import Problem
from partwise.errors import InputError
from partwise.solvers.base import STATE_VECTORS, Solver
from partwise.solvers.choice import FRUGAL, solver_for
from partwise.solvers.needs import refusal

_OF_WEIGHTS = 4  # vectors as long as the weights that certificates hold, in double precision
_OF_EXAMPLES = 16  # numbers kept for each example
_COMPILED = 4e6  # bytes of machine code that training reads
_OWN_SHARE = 0.5  # share of the machine's memory that training takes if there is no limit

_UNITS = {
    "": 1.0,
    "b": 1.0,
    "k": 1e3,
    "kb": 1e3,
    "m": 1e6,
    "mb": 1e6,
    "g": 1e9,
    "gb": 1e9,
    "t": 1e12,
    "tb": 1e12,
}
_BINARY = {"kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30, "tib": 2.0**40}


class MemoryEstimate(NamedTuple):
    """Bytes that training takes.

    Attributes
    ----------
    data : int
        Rows of features, shapes, true labels and costs that do not lie on disk; they are in memory already.
    weights : int
        Weights and other vectors of this length, numbers kept for each example, and compiled code.
    parts : int
        The dual state of the solver: numbers for every part of every example, or labellings.
    solver : str
    resident : int
        Memory of the process at the time of the estimate, data included.
    streamed : int
        Memory for data and state on disk, as much of them as is in memory at a time.
    on_disk : str
        What lies on disk, in words; empty if nothing does.
    """

    data: int
    weights: int
    parts: int
    solver: str
    resident: int
    streamed: int = 0
    on_disk: str = ""

    @property
    def total(self) -> int:
        """Bytes of data, weights and dual state."""
        return self.data + self.weights + self.parts + self.streamed

    @property
    def peak(self) -> int:
        """The largest memory of the process during training."""
        return self.resident + self.weights + self.parts + self.streamed

    def __str__(self) -> str:
        streamed = (
            f"; {self.on_disk}, of which {shown_bytes(self.streamed)} at a time" if self.on_disk else ""
        )
        return (
            f"memory: about {shown_bytes(self.peak)} at the peak of training (the process has "
            f"{shown_bytes(self.resident)} now, of which data {shown_bytes(self.data)}; weights "
            f"{shown_bytes(self.weights)}; dual state of {self.solver} {shown_bytes(self.parts)}{streamed})"
        )


def memory_estimate(
    problem: Problem,
    solver: str | Solver = "auto",
    tol: float = 1e-3,
    memory_limit: float | str | None = None,
) -> MemoryEstimate:
    """The memory that training `problem` by `solver` takes.

    Parameters
    ----------
    tol : float
        Decides between single and double precision if the solver leaves it open.
    memory_limit : float, str or None
        As in :func:`solver_within`.
    """
    return _estimate(problem, solver_within(problem, solver, tol, memory_limit))


def solver_within(
    problem: Problem,
    solver: str | Solver = "auto",
    tol: float = 1e-3,
    memory_limit: float | str | None = None,
) -> Solver:
    """The solver of :func:`solver_for`, in a form that stays within a memory limit.

    Some solvers have a form with less memory that takes more time (`Solver.leaner`). "auto" also tries the solvers of
    `choice.FRUGAL`, the last of which have no dual state.

    Parameters
    ----------
    memory_limit : float, str or None
        Bytes that the whole process may take, or a text such as "1.5GB". None is half of the machine's memory: above
        it solvers named become lean, and nothing is refused.

    Raises
    ------
    InputError
        If no solver stays within a limit that was given.
    """
    chosen, limit = solver_for(problem, solver, tol), bytes_of(memory_limit)
    may_choose = solver == "auto"
    if limit is None:
        limit = _OWN_SHARE * machine_bytes()
        is_enough = _estimate(problem, chosen).peak <= limit
        lean = None if is_enough or not isinstance(solver, str) else chosen.leaner(problem)
        return lean or chosen
    estimates = []
    for each in _frugal(problem, chosen, tol, may_choose):
        estimates.append(_estimate(problem, each, worst=True))
        if estimates[-1].peak <= limit:
            return each
    least = min(estimates, key=lambda estimate: estimate.peak)
    raise InputError(
        f"memory_limit is {shown_bytes(limit)}, and training by {least.solver!r} takes about {shown_bytes(least.peak)} "
        f"({shown_bytes(least.resident)} now, weights {shown_bytes(least.weights)}, dual state "
        f"{shown_bytes(least.parts)}): raise it, or use fewer labels, features or examples"
        + ("" if may_choose else ", or solver='auto'")
    )


def bytes_of(limit: float | str | None) -> float | None:
    """A memory limit as a number of bytes."""
    if limit is None:
        return None
    found = None
    if isinstance(limit, str):
        parts = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([a-z]*)\s*", limit.lower())
        units = _UNITS | _BINARY
        try:
            found = float(parts[1]) * units[parts[2]] if parts else None
        except (KeyError, ValueError):
            found = None
    elif isinstance(limit, (int, float, np.integer, np.floating)) and not isinstance(limit, bool):
        found = float(limit)
    if found is None or not 0.0 < found < np.inf:
        raise InputError(f"memory_limit must be bytes, or a text such as '1.5GB', not {limit!r:.60}")
    return found


def limit_below_machine(memory_limit: float | str | None) -> float | None:
    """The smallest of `memory_limit` and the limits of process and container; None if none is below the machine."""
    given = bytes_of(memory_limit)
    least = min([*memory_limits(), *([] if given is None else [given])], default=np.inf)
    return least if least < physical_bytes() else None


def bytes_beside(n_weights: int, n_examples: int, n_jobs: int) -> int:
    """Memory of a process that trains from disk, beside data and dual state."""
    vectors = 8 * (_OF_WEIGHTS + n_jobs) + 4 * STATE_VECTORS
    return resident_bytes() + vectors * n_weights + 8 * _OF_EXAMPLES * n_examples + int(_COMPILED)


def resident_bytes() -> int:
    """Memory of the process now."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def shown_bytes(n_bytes: Any) -> str:
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.0f} MB"


def _frugal(problem: Problem, chosen: Solver, tol: float, may_choose: bool) -> Iterator[Solver]:
    """Solvers to try, the fastest first: each with its leaner forms, which take less memory."""
    yield from _with_leaner(problem, chosen)
    for each in FRUGAL if may_choose and problem.certified != "local" else ():
        if refusal(problem, each.needs) is None:
            yield from _with_leaner(problem, solver_for(problem, each, tol))


def _with_leaner(problem: Problem, solver: Solver) -> Iterator[Solver]:
    form: Solver | None = solver
    while form is not None:
        yield form
        form = form.leaner(problem)


def _estimate(problem: Problem, solver: Solver, worst: bool = False) -> MemoryEstimate:
    """The memory that `solver` takes; with `worst`, also vectors that only some runs need."""
    scorer = problem.scorer
    arrays = [array for kind in scorer.kinds for array in kind if isinstance(array, np.ndarray)]
    arrays += [scorer.runs, scorer.run_ptr, *scorer.shapes, *problem.gold]
    n_own = problem.n_parts - problem.n_examples * problem.batch.n_tied
    streamed, mapped = problem.streamed_bytes
    n_bytes = sum(array.nbytes for array in arrays) + (4 * n_own if problem.cost.size else 0) - mapped
    needed, of_all = solver.memory_needed(problem), 8 * (_OF_WEIGHTS + problem.n_jobs) * problem.n_weights
    of_examples = 8 * _OF_EXAMPLES * problem.n_examples
    return MemoryEstimate(
        max(n_bytes, 0),
        of_all + needed.weights + (needed.seldom if worst else 0) + of_examples + int(_COMPILED),
        needed.parts,
        solver.name + (", lean" if getattr(solver, "lean", False) else ""),
        resident_bytes(),
        streamed,
        ""
        if not mapped
        else "data on disk"
        if needed.parts or not problem.keeps_state_on_disk
        else "data and state on disk",
    )
