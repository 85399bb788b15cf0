"""Compiling what is called by address in a second process, while this one compiles the passes that call it.

A *task* is the name of something to compile: an oracle's answer, score or scatter for some precision, or a pass that
is called with nothing to do (`core/precompile.py`).
Whoever compiles a task claims it by creating a file; the result lies in the cache on disk, where the other process
finds it. A process that waits for a task of the other compiles unclaimed ones meanwhile. Where there is one core only,
or no cache that both can use, everything is compiled here.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from partwise.compiled.clock import compiling
from partwise.compiled.dispatch import IS_OFF

_POLL = 0.02  # seconds between looks at what the other process has done
_done: dict[str, Any] = {}
_helpers: list[_Helper] = []


class _Helper:
    """A process that compiles tasks, and the folder of claims that it shares with this one."""

    def __init__(self, tasks: list[str]):
        self.tasks, self.folder = tasks, Path(tempfile.mkdtemp(prefix="partwise-compiling-"))
        self.own: set[str] = set()  # claimed by this process
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, "-m", "partwise.compiled.background_compile", str(self.folder), *tasks]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        atexit.register(self.stop)

    def has_claimed(self, task: str) -> bool:
        """Whether the other process has the task in hand; if not, it is this process's from now on."""
        if task not in self.tasks or task in self.own or self.process.poll() is not None:
            return False
        if _claim(self.folder, task):
            self.own.add(task)
        return task not in self.own

    def has_finished(self, task: str) -> bool:
        return (self.folder / f"{_file_name(task)}.done").exists() or self.process.poll() is not None

    def stop(self) -> None:
        """End the process, if it has not ended, and remove the folder."""
        atexit.unregister(self.stop)
        with contextlib.suppress(OSError):
            self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def start(tasks: Iterable[str]) -> None:
    """Have a second process compile those tasks that are not on disk, if that is of any use."""
    if IS_OFF:
        return
    missing = [task for task in tasks if task not in _done and not _load(task)]
    if len(missing) > 1 and (os.cpu_count() or 1) > 1 and _is_python(sys.executable):
        with contextlib.suppress(OSError):
            _helpers.append(_Helper(missing))


def _is_python(executable: str | None) -> bool:
    """Whether a second process can be started: a frozen or embedding program would start itself."""
    return bool(executable) and not hasattr(sys, "frozen") and "python" in Path(str(executable)).name.lower()


def obtain(task: str) -> Any:
    """The compiled function of a task, which has an `address`."""
    if IS_OFF:
        return _prepared(task)
    while task not in _done:
        helper = next((each for each in _helpers if each.has_claimed(task)), None)
        if helper is None:
            compiled = _prepared(task)
            compiled.compile()
            _done[task] = compiled
        elif helper.has_finished(task):
            helper.own.add(task)  # to be read from the cache, or compiled here if that fails
        else:
            _help(helper)
    return _done[task]


def finish() -> None:
    """See to it that all that was started is there, before it is needed piece by piece."""
    while _helpers:
        helper = _helpers[-1]
        for task in list(helper.tasks):
            obtain(task)
        _helpers.remove(helper)
        helper.stop()


def _help(helper: _Helper) -> None:
    """Compile something else that is still to be done, or wait a moment."""
    for other in helper.tasks:
        if other not in _done and not helper.has_claimed(other):
            obtain(other)
            return
    with compiling():
        time.sleep(_POLL)


def _load(task: str) -> bool:
    """Whether the task was on disk; it is loaded then."""
    compiled = _prepared(task)
    if compiled.is_cached():
        _done[task] = compiled
    return task in _done


@cache
def _prepared(task: str) -> Any:
    """What a task's name stands for: ``module:attribute:argument``, called with the argument."""
    module, attribute, argument = task.split(":")
    return getattr(import_module(module), attribute)(argument)


def _claim(folder: Path, task: str) -> bool:
    """Whether this call has created the task's claim."""
    try:
        os.close(os.open(folder / _file_name(task), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except OSError:
        return False
    return True


def _file_name(task: str) -> str:
    return task.replace(":", "-")


def main(folder: Path, tasks: list[str]) -> None:
    """Compile what nobody has claimed."""
    for task in tasks:
        if _claim(folder, task):
            _prepared(task).compile()
            (folder / f"{_file_name(task)}.done").touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
