"""The interface of engines: start workers, send requests, report which workers have answered and which are lost."""

from __future__ import annotations

from typing import Any, Protocol


class Lost(Exception):
    """A worker has ended without an answer."""


class Backend(Protocol):
    """Workers by number, each with at most one request under way.

    Attributes
    ----------
    folder : str or None
        Folder for snapshots that outlive the workers; None if only the backend itself can keep snapshots.
    """

    folder: str | None

    def most_workers(self) -> int:
        """How many workers can run at the same time."""

    def put(self, value: Any) -> Any:
        """Store a value that all workers will read; returns a handle, to be passed as an argument."""

    def drop(self, handle: Any) -> None:
        """Forget a stored value."""

    def start(self, worker: int) -> None:
        """Start a worker, also to replace a lost one."""

    def send(self, worker: int, method: str, arguments: tuple[Any, ...]) -> None:
        """Ask for a method of `Worker`; returns at once."""

    def wait(self, workers: set[int], timeout: float) -> list[int]:
        """The workers that have answered or are lost, after at most `timeout` seconds."""

    def collect(self, worker: int, keep: bool = False) -> Any:
        """The answer, or with `keep` a handle of it if it is large; raises `Lost`."""

    def kill(self, worker: int) -> None:
        """End a worker at once."""

    def close(self) -> None:
        """End all workers and remove all stored values."""
