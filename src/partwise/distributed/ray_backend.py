"""Workers as actors of a Ray cluster: vectors and data go through its object store."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from typing import Any

from partwise.distributed.backend import Lost
from partwise.distributed.worker import Worker
from partwise.errors import InputError

_GETTING = 600.0  # seconds that an answer may take to arrive once it is ready
_REACHING = 60.0  # seconds that the connection to a cluster may take


class RayActors:
    """A `Backend` of actors with one processor each, on the cluster at `address` or on a new one."""

    folder: str | None = None

    def __init__(self, address: str | None = None):
        try:
            import ray
        except ImportError:
            raise InputError("engine='ray' needs Ray: pip install 'partwise[ray]'") from None
        self._ray, self._is_own = ray, not ray.is_initialized()
        if self._is_own:
            _connect(ray, address)
        self._actors: dict[int, Any] = {}
        self._under_way: dict[int, Any] = {}
        self._kind = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(Worker)

    def most_workers(self) -> int:
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def put(self, value: Any) -> Any:
        return self._ray.put(value)

    def drop(self, handle: Any) -> None:
        """Ray counts references."""

    def start(self, worker: int) -> None:
        self._actors[worker] = self._kind.remote()

    def send(self, worker: int, method: str, arguments: tuple[Any, ...]) -> None:
        self._under_way[worker] = self._actors[worker].answer.remote(method, *arguments)

    def wait(self, workers: set[int], timeout: float) -> list[int]:
        waiting = {self._under_way[worker]: worker for worker in workers}
        ready, _ = self._ray.wait(list(waiting), num_returns=1, timeout=timeout, fetch_local=False)
        if ready:  # others may have answered as well
            ready, _ = self._ray.wait(list(waiting), num_returns=len(waiting), timeout=0, fetch_local=False)
        return [waiting[reference] for reference in ready]

    def collect(self, worker: int, keep: bool = False) -> Any:
        reference = self._under_way.pop(worker)
        if keep:  # it stays on its node; a later request finds out whether it can still be read
            return reference
        try:
            return self._ray.get(reference, timeout=_GETTING)
        except (self._ray.exceptions.RayError, TimeoutError) as error:
            raise Lost(str(error).strip().splitlines()[0][:200]) from None

    def kill(self, worker: int) -> None:
        self._under_way.pop(worker, None)
        actor = self._actors.pop(worker, None)
        if actor is not None:
            with contextlib.suppress(self._ray.exceptions.RayError):
                self._ray.kill(actor)

    def close(self) -> None:
        for worker in list(self._actors):
            self.kill(worker)
        if self._is_own:
            self._ray.shutdown()


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
        why = str(failures[0]).strip().splitlines()[:1] if failures else [f"no answer for {_REACHING:.0f} s"]
        raise InputError(f"cannot reach the Ray cluster at {address!r}: {' '.join(why)}")
