"""Predictions for several requests at once, each within a time limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any


class Busy(Exception):
    """No thread became free within the time limit."""


class TooSlow(Exception):
    """The work took longer than the time limit."""


class Workers:
    """Runs each piece of work in a thread of its own, with a limit on threads.

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

    def run(self, work: Callable[[], Any]) -> Any:
        """Return what `work` returns, and raise what it raises."""
        end = time.monotonic() + self.seconds
        if not self._places.acquire(timeout=self.seconds):
            raise Busy
        result: dict[str, Any] = {}
        done = threading.Event()

        def carry_out() -> None:
            try:
                result["value"] = work()
            except BaseException as error:  # handed over, whatever it is
                result["error"] = error
            finally:
                self._places.release()
                done.set()

        threading.Thread(target=carry_out, daemon=True).start()
        if not done.wait(max(end - time.monotonic(), 0.0)):
            raise TooSlow
        if "error" in result:
            raise result["error"]
        return result["value"]
