"""A second process compiles the functions that are called by address, while this one compiles the passes.

A *task* is the name of a function to compile: an oracle's answer, score or scatter for one precision, or a pass
(`core/precompile.py`). A process claims a task by creating a file, and leaves the compiled code in the cache on disk.
A process that waits for a claimed task compiles unclaimed ones meanwhile. On a single core, or without a shared cache,
this process compiles everything.
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
from partwise.compiled.kernels import IS_OFF

_POLL = 0.02  # Seconds between two checks whether the other process has finished a task: short against compiling one.
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
        """Whether the other process has claimed the task. If not, this process claims it."""
        if task not in self.tasks or task in self.own or self.process.poll() is not None:
            return False
        if _claim(self.folder, task):
            self.own.add(task)
        return task not in self.own

    def has_finished(self, task: str) -> bool:
        """Whether the task is on disk, or never will be."""
        return (self.folder / f"{_file_name(task)}.done").exists() or self.process.poll() is not None

    def stop(self) -> None:
        """End the process and remove the folder."""
        atexit.unregister(self.stop)
        with contextlib.suppress(OSError):
            self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def start(tasks: Iterable[str]) -> None:
    """Start a second process for the tasks that are not on disk, if there are several and the machine has two cores."""
    if IS_OFF:
        return
    missing = [task for task in tasks if task not in _done and not _load(task)]
    if len(missing) > 1 and (os.cpu_count() or 1) > 1 and _is_python(sys.executable):
        with contextlib.suppress(OSError):
            _helpers.append(_Helper(missing))


def _is_python(executable: str | None) -> bool:
    """Whether the executable is Python: a frozen or embedding program would start itself."""
    return bool(executable) and not hasattr(sys, "frozen") and "python" in Path(str(executable)).name.lower()


def obtain(task: str) -> Any:
    """The compiled function of a task, which has an `address`."""
    if IS_OFF:
        return kernel_of_task(task)
    while task not in _done:
        helper = next((each for each in _helpers if each.has_claimed(task)), None)
        if helper is None:
            compiled = kernel_of_task(task)
            compiled.compile()
            _done[task] = compiled
        elif helper.has_finished(task):
            helper.own.add(task)  # load it from the cache, or compile it here if that fails
        else:
            _help(helper)
    return _done[task]


def finish() -> None:
    """Wait for all tasks that were started, and compile here those that nobody has claimed."""
    while _helpers:
        helper = _helpers[-1]
        for task in list(helper.tasks):
            obtain(task)
        _helpers.remove(helper)
        helper.stop()


def _help(helper: _Helper) -> None:
    """Compile a task that the other process has not claimed, or wait a moment."""
    for other in helper.tasks:
        if other not in _done and not helper.has_claimed(other):
            obtain(other)
            return
    with compiling():
        time.sleep(_POLL)


def _load(task: str) -> bool:
    """Load the task from disk; False if it is not there."""
    compiled = kernel_of_task(task)
    if compiled.is_cached():
        _done[task] = compiled
    return task in _done


@cache
def kernel_of_task(task: str) -> Any:
    """The function of a task, not compiled yet. The task ``module:attribute:argument`` is that attribute, called."""
    module, attribute, argument = task.split(":")
    kernel = getattr(import_module(module), attribute)(argument)
    if kernel.is_addressed:
        kernel.task = task
    return kernel


def _claim(folder: Path, task: str) -> bool:
    """Whether this call created the claim of the task."""
    try:
        os.close(os.open(folder / _file_name(task), os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except OSError:
        return False
    return True


def _file_name(task: str) -> str:
    return task.replace(":", "-")


def main(folder: Path, tasks: list[str]) -> None:
    """Compile the tasks that nobody has claimed."""
    for task in tasks:
        if _claim(folder, task):
            kernel_of_task(task).compile()
            (folder / f"{_file_name(task)}.done").touch()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
