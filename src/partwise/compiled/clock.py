"""The time spent compiling, which training times and limits leave out, and messages while it lasts.

A kernel that is not in the shipped library is compiled at its first call, once per machine. Later processes load the
code from disk.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Tell = Callable[[str, float, bool], None]

_FIRST_MESSAGE = 1.0  # Seconds of compiling before the first message: shorter waits need no explanation.
_BETWEEN_MESSAGES = (
    0.5  # Seconds between two messages: a moving number shows that the program has not stopped.
)


class CompileClock:
    """The time during which at least one thread compiles, or loads compiled code."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._own = threading.local()
        self._n_threads, self._since = 0, 0.0
        self._wall, self._cpu = 0.0, 0.0
        self.n_kernels = 0  # kernels compiled so far; loading code is not counted

    def start(self) -> None:
        """The calling thread starts to compile. Calls may be nested."""
        self._own.depth = getattr(self._own, "depth", 0) + 1
        if self._own.depth > 1:
            return
        self._own.cpu = time.thread_time()
        with self._lock:
            if self._n_threads == 0:
                self._since = time.perf_counter()
            self._n_threads += 1

    def stop(self) -> None:
        """The calling thread ends its last start."""
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
        """Wall seconds so far, including a compilation that is running."""
        with self._lock:
            return self._wall + (time.perf_counter() - self._since if self._n_threads else 0.0)

    def cpu(self) -> float:
        """CPU seconds of all finished compilations."""
        with self._lock:
            return self._cpu


_CLOCK = CompileClock()
_subjects: list[str] = []
_watches: list[_Watch] = []


def kernels_compiled() -> int:
    """How many kernels this process has compiled; those that it loaded are not counted."""
    return _CLOCK.n_kernels


def seconds_compiling() -> float:
    """Wall seconds that this process has spent compiling and loading compiled code."""
    return _CLOCK.wall()


@contextmanager
def compiling(kernels: int = 0) -> Iterator[None]:
    """Count this context as compiling: this process compiles some kernels, loads code, or waits for another process."""
    _CLOCK.n_kernels += kernels
    _CLOCK.start()
    try:
        yield
    finally:
        _CLOCK.stop()


def working_time() -> tuple[float, float]:
    """Wall and CPU clocks in seconds that stand still while code is compiled. Only differences have a meaning."""
    return time.perf_counter() - _CLOCK.wall(), time.process_time() - _CLOCK.cpu()


@contextmanager
def telling(tell: Tell | None, subject: str = "") -> Iterator[None]:
    """Report compiling in this context.

    Contexts may be nested. Only the innermost context with a `tell` reports; the outer ones leave out its time.

    Parameters
    ----------
    tell : callable (subject, seconds, is_done), or None to name the subject only
        Called from another thread, twice a second after the first second of compiling, and at the end of the context
        with the total.
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
    """Whether a context reports compiling already."""
    return bool(_watches)


class _Watch(threading.Thread):
    """A thread that reads the clock and reports."""

    def __init__(self, tell: Tell):
        super().__init__(name="partwise-compile-watch", daemon=True)
        self.tell, self.begin, self.told = tell, _CLOCK.wall(), ""
        self.kernels_before = _CLOCK.n_kernels
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(_BETWEEN_MESSAGES):
            seconds = _CLOCK.wall() - self.begin
            is_compiling = _CLOCK.is_running and _CLOCK.n_kernels > self.kernels_before
            if _watches[-1:] == [self] and is_compiling and seconds > _FIRST_MESSAGE:
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
