"""`engine=`: the processes that train on shards of the examples, and the solver to run there."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from partwise.core.problem import Problem
from partwise.distributed.ascent import ShardedAscent
from partwise.distributed.backend import Backend
from partwise.distributed.cluster import Cluster
from partwise.distributed.processes import LocalProcesses
from partwise.distributed.ray_backend import RayActors
from partwise.distributed.reduced import ReducedProblem
from partwise.distributed.sequential import InThisProcess
from partwise.errors import InputError
from partwise.solvers.base import BlockAscent, Solver
from partwise.solvers.registry import SOLVERS

ENGINES = ("processes", "ray")
_RUN = "run.npz"  # the driver's own file in a folder of checkpoints


@dataclass(frozen=True)
class Engine(ABC):
    """The settings of all engines.

    Parameters
    ----------
    n_shards : int or None
        Number of shards that the examples are dealt into, at most one for each example. Results depend only on it and
        on the seed. None is as many shards as workers.
    n_workers : int or None
        Number of processes, at most the number of shards. None is one for every processor.
    passes_a_round : int
        Passes over each shard between two exchanges of weights. More of them make fewer rounds and more passes.
    timeout : float
        Seconds that a worker may take for one request before another worker replaces it.
    checkpoint : path or None
        Folder of the run; all workers must be able to read and write there.
    resume : bool
        Go on with the run in `checkpoint`, if there is one.
    snapshot_every : int
        Rounds between two checkpoints. The shards of a lost worker go back by at most so many rounds.
    """

    n_shards: int | None = None
    n_workers: int | None = None
    passes_a_round: int = 1
    timeout: float = 600.0
    checkpoint: str | os.PathLike[str] | None = None
    resume: bool = False
    snapshot_every: int = 5
    name = ""

    def __post_init__(self) -> None:
        for name in ("n_shards", "n_workers", "passes_a_round", "snapshot_every"):
            value = getattr(self, name)
            may_be_none = name in ("n_shards", "n_workers")
            is_whole = isinstance(value, int) and not isinstance(value, bool) and value >= 1
            if not (is_whole or (value is None and may_be_none)):
                raise InputError(f"{name} must be a whole number of at least 1, not {value!r:.40}")
        if not isinstance(self.timeout, (int, float)) or not 0 < self.timeout < float("inf"):
            raise InputError(f"timeout must be a number of seconds above 0, not {self.timeout!r:.40}")
        if self.resume and self.checkpoint is None:
            raise InputError("resume=True needs checkpoint, the folder of the run to go on with")

    @abstractmethod
    def backend(self) -> Backend:
        """The workers, not started yet."""


@dataclass(frozen=True)
class ProcessEngine(Engine):
    """Workers are processes of this machine."""

    name = "processes"

    def backend(self) -> Backend:
        return LocalProcesses()


@dataclass(frozen=True)
class SequentialEngine(Engine):
    """All shards in this process, one after another, for trials and for debugging."""

    name = "sequential"

    def backend(self) -> Backend:
        return InThisProcess()


@dataclass(frozen=True)
class RayEngine(Engine):
    """Workers are actors of a Ray cluster, with one processor each.

    Parameters
    ----------
    address : str or None
        Address of the cluster; "auto" is the cluster of this machine. None starts a cluster on this machine.
    """

    address: str | None = None
    name = "ray"

    def backend(self) -> Backend:
        return RayActors(self.address, self.timeout)


def engine_of(value: Any) -> Engine | None:
    """The engine of that name, or the engine given; None is this process."""
    if value is None or isinstance(value, Engine):
        return value
    if value == "processes":
        return ProcessEngine()
    if value == "ray":
        return RayEngine()
    raise InputError(
        f"engine must be None, {' or '.join(map(repr, ENGINES))}, or an Engine, not {value!r:.60}"
    )


class AtWork(NamedTuple):
    """Arguments for `solve` while an engine is open: problem, solver, and settings of the checkpoint."""

    problem: Problem
    solver: Solver
    settings: dict[str, Any]


@contextmanager
def at_work_on(
    engine: Engine | None, problem: Problem, solver: Solver, tell: Callable[[str], None] | None = None
) -> Iterator[AtWork]:
    """Open an engine for a problem and a solver; the workers end with the block.

    Parameters
    ----------
    engine : Engine or None
        None is this process, which opens nothing.
    tell : callable or None
        Called with a line about shards that take long and workers that are lost; None writes to standard error.
    """
    if engine is None:
        yield AtWork(problem, solver, {})
        return
    inner = distributed_solver(problem, solver)
    ascent = inner if isinstance(inner, BlockAscent) else None
    settings = _kept_in(engine)
    folder = None if engine.checkpoint is None else os.path.abspath(engine.checkpoint)
    cluster = Cluster(
        engine.backend(), problem, ascent, engine.n_shards, engine.n_workers,
        engine.timeout, folder, tell or _tell,
    )  # fmt: skip
    try:
        if ascent is not None:
            passes, every = engine.passes_a_round, engine.snapshot_every
            sharded = ShardedAscent(ascent, cluster.n_shards, passes, every, cluster)
            yield AtWork(problem, sharded, settings)
        else:
            yield AtWork(ReducedProblem.of(problem, cluster), inner, settings)
    finally:
        cluster.close()


def distributed_solver(problem: Problem, solver: Solver) -> Solver:
    """The solver to use instead on shards; InputError if there is none."""
    if not problem.has_features:
        raise InputError(
            "an engine needs features, and this problem has a kernel function in their place: use engine=None"
        )
    if problem.certified == "local":
        raise InputError("an engine needs labels that are known whole: use engine=None")
    found = solver.on_shards(problem)
    if found is None:
        able = ", ".join(repr(name) for name, each in SOLVERS.items() if each.shards)
        raise InputError(f"solver {solver.name!r} cannot work on shards: use 'auto', {able}, or engine=None")
    return found


def _kept_in(engine: Engine) -> dict[str, Any]:
    """The settings of `solve` that keep the run in the engine's folder."""
    if engine.checkpoint is None:
        return {}
    folder = os.fspath(engine.checkpoint)
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot keep a run here: {error.strerror or error}", folder) from None
    path = os.path.join(folder, _RUN)
    if os.path.exists(path) and not engine.resume:
        raise InputError("there is a run in this folder: go on with it (resume), or name another", folder)
    return {"checkpoint": path, "resume": engine.resume}


def _tell(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
