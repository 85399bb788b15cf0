"""Predictions for several requests at once, each within a time limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any


class Busy(Exception):
    """No thread became free within the time limit."""


class TooSlow(Exception):
    """The work took longer than the time limit."""


class _Job:
    """A piece of work, its result, and a lock that is free when it is done."""

    def __init__(self, work: Callable[[], Any]):
        self._work = work
        self.done = threading.Lock()
        self.done.acquire()
        self.value: Any = None
        self.error: BaseException | None = None

    def carry_out(self) -> None:
        try:
            self.value = self._work()
        except BaseException as error:  # handed over, whatever it is
            self.error = error


class Workers:
    """Runs pieces of work in threads of its own, which limits how many are at work at once.

    Work that takes longer than the time limit cannot be stopped. Its request gets an error at once, and its thread
    counts until the work ends. The end of the program does not wait for it.

    Parameters
    ----------
    most : int
        Threads.
    seconds : float
        Limit for waiting and working together.
    """

    def __init__(self, most: int, seconds: float):
        self.seconds = seconds
        self._places = threading.BoundedSemaphore(most)
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        for _ in range(most):
            threading.Thread(target=self._work, daemon=True).start()

    def run(self, work: Callable[[], Any]) -> Any:
        """Return what `work` returns, and raise what it raises."""
        end = time.monotonic() + self.seconds
        if not self._places.acquire(timeout=self.seconds):
            raise Busy
        job = _Job(work)
        self._jobs.put(job)
        if not job.done.acquire(timeout=max(end - time.monotonic(), 0.0)):
            raise TooSlow
        if job.error is not None:
            raise job.error
        return job.value

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            job.carry_out()
            self._places.release()
            job.done.release()
            del job  # its work may hold large data
