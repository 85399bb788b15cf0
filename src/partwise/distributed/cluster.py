"""The shards of a problem on their workers: rounds, sums and snapshots.

Sums are made in the order of the shards, for every engine and every number of workers, so that equal shards give equal
bits.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

import numpy as np

from partwise.core.problem import Problem
from partwise.distributed.backend import Backend
from partwise.distributed.cocoa import sigma
from partwise.distributed.pool import Request, Tell, WorkerPool
from partwise.distributed.shard import RoundReply, Sums
from partwise.distributed.split import common_of, cut, deal
from partwise.distributed.wire import Packed
from partwise.solvers.base import BlockAscent


class Cluster:
    """The shards as the driver sees them.

    Parameters
    ----------
    solver : Solver or None
        The solver that climbs each shard's dual; None if shards only evaluate.
    n_shards, n_workers : int or None
        None is as many as can run at the same time.
    folder : str or None
        Folder of snapshots for later runs; all workers must be able to read and write there.
    tell : callable
        Called with a line about progress or lost workers.

    Attributes
    ----------
    shards : list of int64 arrays
        The examples of every shard.
    place : tuple of int
        The run and the round of the shards.
    stale : bool
        Whether v no longer belongs to the shards' α: a shard was lost and is at an earlier round.
    seconds : list of float
        Processor time of every shard in the last round.
    """

    def __init__(
        self,
        backend: Backend,
        problem: Problem,
        solver: BlockAscent | None,
        n_shards: int | None,
        n_workers: int | None,
        timeout: float,
        folder: str | None,
        tell: Tell,
    ):
        self.backend, self.problem, self.solver, self.folder = backend, problem, solver, folder
        n_workers = n_workers or backend.most_workers()
        self.shards = deal(problem, min(n_shards or n_workers, problem.n_examples))
        self.n_shards = len(self.shards)
        n_workers = min(n_workers, self.n_shards)
        self.pool = WorkerPool(backend, self.n_shards, n_workers, timeout, tell, self._prepare, self._lost)
        self.place, self.stale, self.seconds = (-1, -1), False, [0.0] * self.n_shards
        self._seed, self._common = 0, None
        self._data: list[Any] = []
        self._snapshots: dict[int, Any] = {}

    # -- beginning ------------------------------------------------------------------------------------

    def begin(self, run: int, at_round: int, seed: int) -> None:
        """Bring all shards to the snapshots of a round, or to their initial α if there are none."""
        if self._common is None:
            self._common = self.backend.put(common_of(self.problem))
            for examples in self.shards:
                self._data.append(self.backend.put(cut(self.problem, examples)))
            self.pool.start()
        self.place, self._seed, self._snapshots = (run, at_round), seed, {}
        if self.folder is not None and at_round:
            paths = {k: self._path(self.folder, k, at_round) for k in range(self.n_shards)}
            self._snapshots = {k: path for k, path in paths.items() if os.path.exists(path)}
        is_at_zero = self.pool.prepare_all()
        is_exact = all(is_at_zero) if at_round == 0 else len(self._snapshots) == self.n_shards
        self.stale = not is_exact

    def _prepare(self, worker: int) -> list[Request]:
        requests = [Request("set_up", (self._common, self.solver, self._seed))]
        for k in self.pool.shards_of(worker):
            requests.append(Request("init_shard", (k, self._data[k], self._snapshots.get(k)), k))
        return requests

    def _lost(self, worker: int, again: bool) -> None:
        self.stale = self.solver is not None
        if again and self.folder is None:  # its snapshots may be what is lost
            for k in self.pool.shards_of(worker):
                self._snapshots.pop(k, None)

    # -- the dual -------------------------------------------------------------------------------------

    def run_round(self, round_id: int, pull: float, n_passes: int) -> list[RoundReply]:
        """A round on all shards from the vector "v"; lost shards take no part."""
        asked = round_id, sigma(self.n_shards), pull, n_passes
        replies = self.pool.ask("run_round", lambda k: asked, "v", is_repeated=False)
        self.place = self.place[0], round_id
        found: list[RoundReply] = [reply for reply in replies if isinstance(reply, RoundReply)]
        self.seconds = [0.0 if reply is None else reply.seconds for reply in replies]
        self.pool.n_bytes += sum(reply.change.nbytes for reply in found)
        return found

    def settle(self) -> tuple[np.ndarray, float]:
        """The exact v of all α and the linear part of the dual, at whatever round each shard is."""
        v, linear = np.zeros(self.problem.n_weights), 0.0
        while True:
            self.stale = False
            replies: list[tuple[Packed, float]] = self.pool.ask("settle", lambda k: (len(v),))
            if not self.stale:
                break  # else a shard was lost after it had answered for another state
        for own, value in replies:
            own.add_to(v)
            self.pool.n_bytes += own.nbytes
            linear += value
        return v, linear

    def losses(self, weights: np.ndarray) -> float:
        """Σ_i weight_i ℓ_i over all examples."""
        self.pool.hold("weights", weights)
        return sum(self.pool.ask("losses", lambda k: (), "weights"))

    # -- sums -----------------------------------------------------------------------------------------

    def evaluate(self, weights: np.ndarray, settings: tuple[Any, ...]) -> list[Sums]:
        """The sums of every shard at `weights`."""
        self.pool.hold("weights", weights)
        found: list[Sums] = self.pool.ask("evaluate", lambda k: (settings,), "weights")
        self.pool.n_bytes += sum(each.v.nbytes for each in found)
        return found

    # -- snapshots ------------------------------------------------------------------------------------

    def snapshot(self) -> bool:
        """Keep the state of all shards at this round; whether all of them could be kept."""
        _, at_round = self.place
        folder = self.folder or self.backend.folder

        def where(k: int) -> tuple[str | None]:
            return (None if folder is None else self._path(folder, k, at_round),)

        if self.stale:
            return False
        found = self.pool.ask("snapshot", where, keep=folder is None, is_repeated=False)
        self._snapshots.update({k: each for k, each in enumerate(found) if each is not None})
        if folder is not None:
            self._forget_older(folder)
        return not self.stale

    def _path(self, folder: str, number: int, at_round: int) -> str:
        return f"{folder}/shard-{self.place[0]:x}-{number}-{at_round}.npz"

    def _forget_older(self, folder: str) -> None:
        """Remove all but the last two snapshots of every shard: the driver may not have saved the newer round yet."""
        rounds: dict[tuple[str, str], list[int]] = {}
        for name in os.listdir(folder):
            word, *numbers = name.removesuffix(".npz").split("-")
            if word == "shard" and len(numbers) == 3:
                rounds.setdefault((numbers[0], numbers[1]), []).append(int(numbers[2]))
        for (run, number), found in rounds.items():
            for old in sorted(found)[:-2]:
                with contextlib.suppress(OSError):
                    os.unlink(f"{folder}/shard-{run}-{number}-{old}.npz")

    def close(self) -> None:
        self.backend.close()
