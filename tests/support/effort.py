"""How much Python has to do, counted instead of timed: the same on every machine."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines_executed(action: Callable[[], Any]) -> int:
    """The lines of Python that a call executes in this thread; a loop's lines count once per turn.

    Call `action` once before, so that imports and compilation are not counted.
    """
    n_lines = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal n_lines
        n_lines += event == "line"
        return trace

    before = sys.gettrace()
    gc.collect()
    gc.disable()  # Callbacks of the collector are Python, too, and run at any moment.
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
        gc.enable()
    return n_lines
