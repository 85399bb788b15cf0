"""Workers as actors of a Ray cluster: vectors and data go through its object store."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any

from partwise.distributed.backend import Lost
from partwise.distributed.worker import Worker
from partwise.errors import InputError

_REACHING = 60.0  # seconds that the connection to a cluster may take
_ANSWERING = 60.0  # seconds that the cluster itself may take for anything but data and answers of workers


class RayActors:
    """A `Backend` of actors with one processor each.

    Parameters
    ----------
    address : str or None
        The cluster; None starts one on this machine.
    timeout : float
        Seconds that data or an answer may take to arrive once it is ready.
    """

    folder: str | None = None

    def __init__(self, address: str | None = None, timeout: float = 600.0):
        try:
            import ray
        except ImportError:
            raise InputError("engine='ray' needs Ray: pip install 'partwise[ray]'") from None
        self._ray, self._is_own = ray, not ray.is_initialized()
        if self._is_own:
            _connect(ray, address)
        self._timeout = timeout
        self._actors: dict[int, Any] = {}
        self._under_way: dict[int, Any] = {}
        self._kind = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(Worker)
        self._caller = _Caller(ray, address)

    def most_workers(self) -> int:
        resources = self._caller.call(_ANSWERING, self._ray.cluster_resources)
        return max(1, int(resources.get("CPU", 1)))

    def put(self, value: Any) -> Any:
        return self._caller.call(_ANSWERING + self._timeout, self._ray.put, value)

    def drop(self, handle: Any) -> None:
        """Ray counts references."""

    def start(self, worker: int) -> None:
        def start() -> None:
            self._actors[worker] = self._kind.remote()

        self._caller.call(_ANSWERING, start)

    def send(self, worker: int, method: str, arguments: tuple[Any, ...]) -> None:
        def send() -> None:
            self._under_way[worker] = self._actors[worker].answer.remote(method, *arguments)

        self._caller.call(_ANSWERING + self._timeout, send)

    def wait(self, workers: set[int], timeout: float) -> list[int]:
        waiting = {self._under_way[worker]: worker for worker in workers}

        def ready(n: int, seconds: float) -> list[Any]:
            found, _ = self._ray.wait(list(waiting), num_returns=n, timeout=seconds, fetch_local=False)
            return found

        found = self._caller.call(_ANSWERING + timeout, ready, 1, timeout)
        if found:  # others may have answered as well
            found = self._caller.call(_ANSWERING, ready, len(waiting), 0)
        return [waiting[reference] for reference in found]

    def collect(self, worker: int, keep: bool = False) -> Any:
        reference = self._under_way.pop(worker)
        if keep:  # it stays on its node; a later request finds out whether it can still be read
            return reference

        def get() -> Any:
            try:
                return self._ray.get(reference, timeout=self._timeout)
            except (self._ray.exceptions.RayError, TimeoutError) as error:
                raise Lost(_first_line(error)) from None

        return self._caller.call(_ANSWERING + self._timeout, get)

    def kill(self, worker: int) -> None:
        self._under_way.pop(worker, None)
        actor = self._actors.pop(worker, None)
        if actor is not None:
            with contextlib.suppress(self._ray.exceptions.RayError):
                self._caller.call(_ANSWERING, self._ray.kill, actor)

    def close(self) -> None:
        """End what can still be reached; a cluster that does not answer ends the workers of a lost driver itself."""
        with contextlib.suppress(InputError):
            for worker in list(self._actors):
                self.kill(worker)
            if self._is_own:
                self._caller.call(_ANSWERING, self._ray.shutdown)
        self._caller.close()


class _Caller:
    """A thread that calls Ray, because Ray waits for a cluster behind a cut network without end.

    After a call that has not returned in time, all calls raise InputError at once.
    """

    def __init__(self, ray: Any, address: str | None):
        self._ray, self._where = ray, "" if address is None else f" at {address}"
        self._asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._silent = ""
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while (asked := self._asked.get()) is not None:
            function, arguments, reply = asked
            try:
                reply.put((function(*arguments), None))
            except BaseException as error:  # Ray raises many things, and they belong to the caller
                reply.put((None, error))
            del asked, function, arguments, reply  # they may hold the last reference to an object of Ray

    def call(self, seconds: float, function: Callable[..., Any], *arguments: Any) -> Any:
        """The result of the call, or its exception."""
        reply: queue.SimpleQueue[Any] = queue.SimpleQueue()
        if not self._silent:
            self._asked.put((function, arguments, reply))
            try:
                found, error = reply.get(timeout=seconds)
            except queue.Empty:
                self._silent = f"has not answered for {seconds:.0f} s"
                _end_without(self._ray)
            else:
                if isinstance(error, (ConnectionError, self._ray.exceptions.RaySystemError)):
                    self._silent = f"is lost: {_first_line(error)}"
                elif error is not None:
                    raise error
                else:
                    return found
        raise InputError(
            f"the Ray cluster{self._where} {self._silent}; a run with a checkpoint can be resumed on any cluster"
        )

    def close(self) -> None:
        self._asked.put(None)


def _end_without(ray: Any) -> None:
    """Leave out what Ray does when this process ends: it waits for the cluster too, and crashes beside a stuck call."""
    atexit.unregister(ray.shutdown)
    system = ctypes.CDLL(None)
    if hasattr(system, "on_exit"):  # Linux: the exit code goes to `_exit`, before destructors of Ray run
        system.on_exit(system._exit, None)


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def _connect(ray: Any, address: str | None) -> None:
    """Start a cluster on this machine, or join the one at `address`; Ray itself would try for minutes."""
    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if address is None:
        path = os.pathsep.join(filter(None, sys.path))
        ray.init(include_dashboard=False, runtime_env={"env_vars": {"PYTHONPATH": path}}, **settings)
        return
    failures: list[BaseException] = []

    def join() -> None:
        try:
            ray.init(address=address, **settings)
        except BaseException as error:  # Ray raises many things, and this is a thread of its own
            failures.append(error)

    thread = threading.Thread(target=join, daemon=True)
    thread.start()
    thread.join(_REACHING)
    if thread.is_alive() or failures:
        why = _first_line(failures[0]) if failures else f"no answer for {_REACHING:.0f} s"
        raise InputError(f"cannot reach the Ray cluster at {address!r}: {why}")
