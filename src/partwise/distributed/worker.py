"""A worker: some shards, and the vectors that the driver sends to all workers; the same for every engine."""

from __future__ import annotations

import os
import traceback
from typing import Any, NamedTuple

import numpy as np

from partwise.core.problem import Problem
from partwise.distributed.shard import RoundReply, Shard, Sums
from partwise.distributed.split import Common, whole
from partwise.distributed.wire import Packed
from partwise.errors import InputError
from partwise.solvers.base import BlockAscent
from partwise.storage.atomic import write_atomically


class Failed(NamedTuple):
    """An exception of a worker, as it is sent to the driver."""

    kind: str
    words: str
    trace: str


class Worker:
    """Answers one request after another, each a method's name and its arguments."""

    def __init__(self) -> None:
        self.shards: dict[int, Shard] = {}
        self.vectors: dict[str, tuple[int, np.ndarray]] = {}

    def answer(self, method: str, *arguments: Any) -> Any:
        """The result of the method, or its exception."""
        try:
            return getattr(self, method)(*arguments)
        except Exception as error:
            kind = next((k for k in (InputError, MemoryError) if isinstance(error, k)), type(error))
            return Failed(kind.__name__, str(error), traceback.format_exc())

    def process(self) -> int:
        """The number of the worker's process, for those who look after a cluster."""
        return os.getpid()

    def set_up(self, common: Common, solver: BlockAscent | None, seed: int) -> None:
        """Before any shard."""
        self.common, self.solver, self.seed = common, solver, seed

    def init_shard(self, number: int, problem: Problem, snapshot: Any = None) -> bool:
        """Take a shard on, at its initial α or at a snapshot; returns whether its v is zero."""
        shard = Shard(number, whole(problem, self.common), self.solver, self.seed)
        self.shards[number] = shard
        if snapshot is not None:
            self.restore(number, snapshot)
        return shard.is_at_zero()

    def receive(self, slot: str, version: int, base: int | None, vector: Packed) -> None:
        """Take a vector: the change since version `base`, or the whole vector."""
        if base is None:
            self.vectors[slot] = version, vector.whole().copy()
            return
        held, target = self.vectors[slot]
        if held == base:
            vector.put_into(target)
            self.vectors[slot] = version, target
        elif held != version:
            raise RuntimeError(f"the worker holds version {held} of {slot}, not {base}")

    def run_round(self, number: int, round_id: int, sigma: float, pull: float, n_passes: int) -> RoundReply:
        return self.shards[number].run_round(self.vectors["v"][1], round_id, sigma, pull, n_passes)

    def settle(self, number: int, n_weights: int) -> tuple[Packed, float]:
        return self.shards[number].settle(n_weights)

    def losses(self, number: int) -> float:
        return self.shards[number].losses(self.vectors["weights"][1])

    def evaluate(self, number: int, settings: tuple[Any, ...]) -> Sums:
        return self.shards[number].evaluate(self.vectors["weights"][1], settings)

    def snapshot(self, number: int, path: str | None) -> Any:
        """The shard's state: written to a file, or returned."""
        arrays: dict[str, Any] = self.shards[number].snapshot()
        if path is None:
            return arrays
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_atomically(path, lambda handle: np.savez(handle, **arrays))
        return path

    def restore(self, number: int, snapshot: str | dict[str, np.ndarray]) -> None:
        if isinstance(snapshot, str):
            try:
                with np.load(snapshot, allow_pickle=False) as file:
                    snapshot = {name: file[name] for name in file.files}
                self.shards[number].restore(snapshot)
            except Exception as error:  # a damaged archive can raise nearly anything
                raise InputError(
                    "is not a whole snapshot of this shard; delete it to start again", snapshot
                ) from error
        else:
            self.shards[number].restore(snapshot)
