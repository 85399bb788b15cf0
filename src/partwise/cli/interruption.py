"""Ctrl-C while training: a step ends first, the model so far is saved, and no request is lost.

An exception raised wherever the program happens to be can vanish (Python prints and drops those raised in
callbacks from C and in destructors, which compiling is full of), leave the compiler confused, or a step half
done. The request is therefore noted and looked at after every step; before the first step the exception is
raised, but not inside a callback.
"""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType
from typing import Any

_ONE_REQUEST = 2.0  # seconds within which several signals are one request
_PUT_OFF_FOR = 0.1  # seconds until a signal within a callback of the compiler is tried again
_CALLBACKS = ("__del__", "_raw_object_cache_notify", "_raw_object_cache_getbuffer")
_COMPILER = ("numba", "llvmlite")
_LOOP = "partwise.solvers.driver"


class Interrupted(Exception):
    """The user stopped a command. The message says what happened to the model; it is empty if that was printed."""


def ignore_further() -> None:
    """Ignore further Ctrl-C, so that an interrupted command can end."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class Interruption:
    """Handles SIGINT within a ``with`` block, where the main thread runs it and nobody chose to ignore it.

    Attributes
    ----------
    asked : bool
        Whether the user asked to stop.
    trained : bool
        Whether a step was completed.
    """

    def __init__(self) -> None:
        self.trained = False
        self._first: float | None = None
        self._saving = False
        self._put_off = False
        self._previous: Any = None

    @property
    def asked(self) -> bool:
        return self._first is not None

    def __enter__(self) -> Interruption:
        in_main_thread = threading.current_thread() is threading.main_thread()
        if in_main_thread and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            self._previous = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        if self._previous is not None:
            # After the first request, the command prints what happened to the model; nothing may cut that short.
            signal.signal(signal.SIGINT, signal.SIG_IGN if self.asked else self._previous)
            self._previous = None

    def heed(self) -> None:
        """Raise KeyboardInterrupt if the user asked to stop; called after every step."""
        self.trained = True
        if self.asked:
            raise KeyboardInterrupt

    def save(self) -> None:
        """From here to the end of the block nothing is interrupted: the file is put in place first."""
        self._saving = True

    def _handle(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        is_first, self._put_off = self._first is None or self._put_off, False
        if self._first is None:
            self._first = now
        if self._saving or (not is_first and now < self._first + _ONE_REQUEST):
            return
        if is_first and (self.trained or _in_a_step(frame)):
            return  # the step ends, or what comes after all steps goes on to saving
        if not _in_a_callback(frame):
            raise KeyboardInterrupt
        self._put_off = True
        timer = threading.Timer(_PUT_OFF_FOR, signal.raise_signal, (signal.SIGINT,))
        timer.daemon = True
        timer.start()


def _in_a_callback(frame: FrameType | None) -> bool:
    """Whether an exception would be dropped: in a destructor, or where LLVM hands over what it compiled."""
    while frame is not None:
        if frame.f_code.co_name in _CALLBACKS or frame.f_globals.get("__name__") == "weakref":
            return True
        frame = frame.f_back
    return False


def _in_a_step(frame: FrameType | None) -> bool:
    """Whether training is at a step whose end can be waited for; compiling comes before any training."""
    in_loop = False
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.partition(".")[0] in _COMPILER:
            return False
        in_loop = in_loop or module == _LOOP
        frame = frame.f_back
    return in_loop
