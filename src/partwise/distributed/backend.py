"""What an engine must be able to do: start workers, carry requests, tell which have answered and which are gone."""

from __future__ import annotations

from typing import Any, Protocol


class Lost(Exception):
    """A worker has ended without an answer."""


class Backend(Protocol):
    """Workers by number, each with at most one request under way.

    Attributes
    ----------
    folder : str or None
        Where workers may write snapshots that outlive them; None where only the backend itself can keep them.
    """

    folder: str | None

    def most_workers(self) -> int:
        """How many can work at the same time."""

    def put(self, value: Any) -> Any:
        """Something that all workers will read, as a handle to be used as an argument."""

    def drop(self, handle: Any) -> None:
        """It is not needed any more."""

    def start(self, worker: int) -> None:
        """Start a worker, or another in the place of one that was lost."""

    def send(self, worker: int, method: str, arguments: tuple[Any, ...]) -> None:
        """Ask for a method of `Worker`; returns at once."""

    def wait(self, workers: set[int], timeout: float) -> list[int]:
        """Those of `workers` that have answered or are lost, after at most `timeout` seconds."""

    def collect(self, worker: int, keep: bool = False) -> Any:
        """The answer, with `keep` as a handle where it is large; raises `Lost`."""

    def kill(self, worker: int) -> None:
        """End a worker, whatever it does."""

    def close(self) -> None:
        """End all, and leave nothing behind."""
