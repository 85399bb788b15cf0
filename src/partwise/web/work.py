"""Predictions for several requests at once, each within a time limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any


class Busy(Exception):
    """All places were taken for the whole time limit."""


class TooSlow(Exception):
    """The work did not end within the time limit."""


class Workers:
    """Runs work in threads of its own, so many at once.

    What takes longer than the limit cannot be stopped: its request is answered, and its place stays taken until it
    ends. Nothing else waits for it, the end of the program neither.

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
        """What `work` returns; whatever it raises is raised here."""
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
