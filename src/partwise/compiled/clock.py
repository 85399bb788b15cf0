"""Time spent compiling, so that it is not taken for training; and word of it while it lasts.

Numba compiles a function when it is first called, which happens once per machine: later processes find the
code on disk. This module does not import Numba; `listen` is called when compiled code is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Tell = Callable[[str, float, bool], None]

_WORTH_TELLING = 1.0  # seconds of compiling from which somebody waits
_BETWEEN_WORDS = 0.5


class CompileClock:
    """Adds up the time in which some thread compiles, or loads compiled code."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._own = threading.local()
        self._n_threads, self._since = 0, 0.0
        self._wall, self._cpu = 0.0, 0.0
        self.n_passes = 0  # of the compiler; what is loaded from disk needs none

    def start(self) -> None:
        """The calling thread begins; calls may be nested."""
        self._own.depth = getattr(self._own, "depth", 0) + 1
        if self._own.depth > 1:
            return
        self._own.cpu = time.thread_time()
        with self._lock:
            if self._n_threads == 0:
                self._since = time.perf_counter()
            self._n_threads += 1

    def stop(self) -> None:
        """The calling thread ends what it began last."""
        self._own.depth -= 1
        if self._own.depth > 0:
            return
        with self._lock:
            self._cpu += time.thread_time() - self._own.cpu
            self._n_threads -= 1
            if self._n_threads == 0:
                self._wall += time.perf_counter() - self._since

    @property
    def is_running(self) -> bool:
        return self._n_threads > 0

    def wall(self) -> float:
        """Seconds so far, those of a compilation under way included."""
        with self._lock:
            return self._wall + (time.perf_counter() - self._since if self._n_threads else 0.0)

    def cpu(self) -> float:
        """CPU seconds of all compilations that have ended."""
        with self._lock:
            return self._cpu


_CLOCK = CompileClock()
_subjects: list[str] = []
_watches: list[_Watch] = []


def seconds_compiling() -> float:
    """Wall seconds that this process has spent compiling and loading compiled code."""
    return _CLOCK.wall()


@contextmanager
def compiling() -> Iterator[None]:
    """For time that is spent waiting for another process that compiles."""
    _CLOCK.start()
    try:
        yield
    finally:
        _CLOCK.stop()


def working_time() -> tuple[float, float]:
    """Wall and CPU clocks, in seconds, that stand still while code is compiled; only differences mean something."""
    return time.perf_counter() - _CLOCK.wall(), time.process_time() - _CLOCK.cpu()


def listen() -> None:
    """Have Numba report what it compiles; called once, when Numba is there."""
    from numba.core import event

    class Passes(event.Listener):
        def on_start(self, event: Any) -> None:
            _CLOCK.n_passes += 1

        def on_end(self, event: Any) -> None:
            pass

    class Lock(event.Listener):
        # The lock is held for functions and callbacks alike, and while one is loaded from the cache.
        def on_start(self, event: Any) -> None:
            _CLOCK.start()

        def on_end(self, event: Any) -> None:
            _CLOCK.stop()

    event.register("numba:compiler_lock", Lock())
    event.register("numba:run_pass", Passes())


@contextmanager
def telling(tell: Tell | None, subject: str = "") -> Iterator[None]:
    """While code is compiled in this context, say so.

    Contexts may be nested: the innermost that has a `tell` tells, and its time is not told again outside.

    Parameters
    ----------
    tell : callable (subject, seconds, is_done), or None to name the subject only
        Called from another thread, twice a second once compiling has taken more than a second, and then at
        the end of the context with the total.
    subject : str
        The kind of problem that code is compiled for.
    """
    watch = None if tell is None else _Watch(tell)
    if watch is not None:
        _watches.append(watch)
        watch.start()
    if subject:
        _subjects.append(subject)
    try:
        yield
    finally:
        if subject:
            _subjects.remove(subject)
        if watch is not None:
            _watches.remove(watch)
            watch.end()


def is_told() -> bool:
    """Whether somebody tells of compiling already."""
    return bool(_watches)


class _Watch(threading.Thread):
    """Looks at the clock now and then, and tells."""

    def __init__(self, tell: Tell):
        super().__init__(name="partwise-compile-watch", daemon=True)
        self.tell, self.begin, self.told = tell, _CLOCK.wall(), ""
        self.passes_before = _CLOCK.n_passes
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(_BETWEEN_WORDS):
            seconds = _CLOCK.wall() - self.begin
            is_compiling = _CLOCK.is_running and _CLOCK.n_passes > self.passes_before
            if _watches[-1:] == [self] and is_compiling and seconds > _WORTH_TELLING:
                self.told = _subjects[-1] if _subjects else "this kind of problem"
                self.tell(self.told, seconds, False)

    def end(self) -> None:
        self.ended.set()
        self.join()
        seconds = _CLOCK.wall() - self.begin
        for outer in _watches:
            outer.begin += seconds
        if self.told:
            self.tell(self.told, seconds, True)
