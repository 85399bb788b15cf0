"""Workers in this process, one after another: the reference for all other engines, and for trials."""

from __future__ import annotations

from typing import Any

from partwise.distributed.worker import Worker


class InThisProcess:
    """A `Backend` without a second process; nothing is ever lost."""

    folder: str | None = None

    def __init__(self) -> None:
        self._workers: dict[int, Worker] = {}
        self._replies: dict[int, Any] = {}

    def most_workers(self) -> int:
        return 1

    def put(self, value: Any) -> Any:
        return value

    def drop(self, handle: Any) -> None:
        """Nothing was kept."""

    def start(self, worker: int) -> None:
        self._workers[worker] = Worker()

    def send(self, worker: int, method: str, arguments: tuple[Any, ...]) -> None:
        self._replies[worker] = self._workers[worker].answer(method, *arguments)

    def wait(self, workers: set[int], timeout: float) -> list[int]:
        return list(workers)

    def collect(self, worker: int, keep: bool = False) -> Any:
        return self._replies.pop(worker)

    def kill(self, worker: int) -> None:
        self._workers.pop(worker, None)

    def close(self) -> None:
        self._workers.clear()
