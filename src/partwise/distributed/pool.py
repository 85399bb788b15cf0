"""Requests to all shards, one at a time to each worker, and the replacement of slow or lost workers.

Every wait ends: a worker that has not answered within `timeout` seconds counts as lost, like a worker that has ended,
and another worker replaces it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from partwise.distributed.backend import Backend, Lost
from partwise.distributed.wire import Packed, packed, what_changed
from partwise.distributed.worker import Failed
from partwise.errors import InputError

_MOST_LOSSES = 3  # times that one worker may be lost in one request before training ends
_SILENCE = 10.0  # seconds between two lines of progress
_POLL = 0.5  # seconds that a wait for answers lasts before the clock is read again

Tell = Callable[[str], None]


@dataclass
class Request:
    """A method of `Worker` with its arguments; `shard` is the shard whose answer is wanted, or None."""

    method: str
    arguments: tuple[Any, ...]
    shard: int | None = None
    begun: float = 0.0


@dataclass
class _Vector:
    """A vector that all workers hold, its version, and its last change if that is known.

    `handles` are those of the stored change (True) and of the stored whole vector (False).
    """

    version: int
    value: np.ndarray
    change: Packed | None
    handles: dict[bool, Any] = field(default_factory=dict)


class WorkerPool:
    """Workers and their shards.

    Parameters
    ----------
    prepare : callable
        The first requests to a new worker, by its number.
    lost : callable
        Called with the number of a lost worker, and whether it was lost before, before its replacement is prepared.
    """

    def __init__(
        self,
        backend: Backend,
        n_shards: int,
        n_workers: int,
        timeout: float,
        tell: Tell,
        prepare: Callable[[int], list[Request]],
        lost: Callable[[int, bool], None],
    ):
        self.backend, self.n_shards, self.n_workers = backend, n_shards, n_workers
        self.timeout, self.tell, self._prepare, self._lost = timeout, tell, prepare, lost
        self.n_bytes = 0
        self._first: dict[int, deque[Request]] = {worker: deque() for worker in range(n_workers)}
        self._under_way: dict[int, Request] = {}
        self._vectors: dict[str, _Vector] = {}
        self._held: dict[tuple[str, int], int] = {}
        self._troubles: dict[
            int, tuple[str, int]
        ] = {}  # the method at which a worker was lost, and how often in a row

    def shards_of(self, worker: int) -> range:
        """The numbers of the shards of a worker."""
        return range(worker, self.n_shards, self.n_workers)

    def start(self) -> None:
        """Start all workers; they are prepared with the first request."""
        for worker in range(self.n_workers):
            self.backend.start(worker)

    def prepare_all(self) -> list[Any]:
        """Prepare all workers, also again; returns the answers of their shards."""
        for worker in range(self.n_workers):
            self._first[worker] = deque(self._prepare(worker))
        return self.ask("", lambda k: None)

    def hold(self, name: str, value: np.ndarray) -> None:
        """Have all workers hold a vector (n_weights,); only numbers that have changed are sent."""
        old, value = self._vectors.get(name), value.copy()  # solvers change theirs in place
        for handle in old.handles.values() if old else ():
            self.backend.drop(handle)
        change = (
            what_changed(old.value, value) if old is not None and old.value.dtype == value.dtype else None
        )
        self._vectors[name] = _Vector(old.version + 1 if old else 1, value, change)

    def ask(
        self,
        method: str,
        arguments: Callable[[int], Any],
        vector: str | None = None,
        *,
        keep: bool = False,
        is_repeated: bool = True,
    ) -> list[Any]:
        """The answers of all shards, in their order.

        Parameters
        ----------
        arguments : callable
            The arguments after the shard's number, by that number; None only prepares the workers.
        vector : str or None
            The vector that workers must hold.
        is_repeated : bool
            Whether lost shards are asked again; otherwise their answers are None.
        """
        self._finish_what_is_under_way()
        answers: dict[int, Any] = {}
        waiting: dict[int, deque[Request]] = {}

        def asked(worker: int) -> deque[Request]:
            found = ((k, arguments(k)) for k in self.shards_of(worker))
            return deque(Request(method, (k, *each), k) for k, each in found if each is not None)

        for worker in range(self.n_workers):
            waiting[worker] = asked(worker)
        begun = told = time.monotonic()
        while self._dispatch(waiting, vector):
            for worker, at, why in self._collect(method or "init_shard", answers, keep):
                self._replace(worker, at, why)
                waiting[worker] = asked(worker) if is_repeated else deque()
                for k in self.shards_of(worker):
                    answers.pop(k, None)
            if time.monotonic() > told + _SILENCE:
                told = time.monotonic()
                self._tell_progress(method, len(answers), told - begun)
        return [answers.get(k) for k in range(self.n_shards)]

    def _dispatch(self, waiting: dict[int, deque[Request]], vector: str | None) -> bool:
        """Send every idle worker its next request; whether any request is under way."""
        for worker in range(self.n_workers):
            if worker in self._under_way:
                continue
            if self._first[worker]:
                request = self._first[worker].popleft()
            elif waiting[worker]:
                request = self._vector_for(worker, vector) or waiting[worker].popleft()
            else:
                continue
            request.begun = time.monotonic()
            self._under_way[worker] = request
            self.backend.send(worker, request.method, request.arguments)
        return bool(self._under_way)

    def _vector_for(self, worker: int, name: str | None) -> Request | None:
        """The request that brings a worker's vector up to date; None if it is."""
        if name is None:
            return None
        vector, held = self._vectors[name], self._held.get((name, worker))
        if held == vector.version:
            return None
        is_change = vector.change is not None and held == vector.version - 1
        message = vector.change if is_change and vector.change is not None else packed(vector.value)
        if is_change not in vector.handles:
            vector.handles[is_change] = self.backend.put(message)
        self.n_bytes += message.nbytes
        self._held[name, worker] = vector.version
        base = held if is_change else None
        return Request("receive", (name, vector.version, base, vector.handles[is_change]))

    def _collect(self, method: str, answers: dict[int, Any], keep: bool) -> list[tuple[int, str, str]]:
        """Take the answers that have arrived; returns the lost workers, each with the method and the reason."""
        lost = []
        for worker in self.backend.wait(set(self._under_way), _POLL):
            request = self._under_way.pop(worker)
            is_wanted = request.shard is not None and request.method == method
            try:
                reply = self.backend.collect(worker, keep and is_wanted)
            except Lost as error:
                lost.append((worker, request.method, str(error)))
                continue
            _raise_if_failed(request, reply)
            if request.shard is not None and is_wanted:
                answers[request.shard] = reply
            if self._troubles.get(worker, ("", 0))[0] == request.method:
                del self._troubles[worker]
        now = time.monotonic()
        for worker, request in list(self._under_way.items()):
            if now > request.begun + self.timeout * 2 ** self._troubles.get(worker, ("", 0))[1]:
                del self._under_way[worker]
                lost.append((worker, request.method, f"has not answered for {now - request.begun:.0f} s"))
        return lost

    def _replace(self, worker: int, method: str, why: str) -> None:
        """Replace a lost worker."""
        n_losses = self._troubles.get(worker, ("", 0))[1] + 1
        self._troubles[worker] = method, n_losses
        if n_losses >= _MOST_LOSSES:
            raise InputError(
                f"worker {worker} was lost {n_losses} times at {method}; the last one {why}: it may need more memory "
                f"(more shards and workers), a processor that the cluster lacks, or a timeout above {self.timeout:g} s"
            )
        shards = ", ".join(map(str, self.shards_of(worker)))
        self.tell(f"worker {worker} (shards {shards}) is lost: it {why}; another worker replaces it")
        self.backend.kill(worker)
        self._lost(worker, n_losses > 1)
        for name in self._vectors:
            self._held.pop((name, worker), None)
        self.backend.start(worker)
        self._first[worker] = deque(self._prepare(worker))

    def _finish_what_is_under_way(self) -> None:
        """After an interruption: take the answers that are no longer wanted."""
        while self._under_way:
            for worker, at, why in self._collect("", {}, False):
                self._replace(worker, at, why)

    def _tell_progress(self, method: str, n_done: int, seconds: float) -> None:
        shards = [str(each.shard) for each in self._under_way.values() if each.shard is not None]
        now = f", now shards {', '.join(shards)}" if shards else ""
        self.tell(
            f"{_WORDS.get(method, method)}: {n_done} of {self.n_shards} shards after {seconds:.0f} s{now}"
        )


_WORDS = {"": "preparing", "run_round": "round", "settle": "certificate", "losses": "certificate"}


def _raise_if_failed(request: Request, reply: Any) -> None:
    if not isinstance(reply, Failed):
        return
    if reply.kind == "InputError":
        raise InputError(reply.words)
    if reply.kind == "MemoryError":
        raise MemoryError(reply.words)
    raise RuntimeError(f"a worker failed in {request.method}:\n{reply.trace}")
