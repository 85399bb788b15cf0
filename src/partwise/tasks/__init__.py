"""Everything about one kind of data in one place: a folder per task.

`task` is the protocol that commands use, `page` the one that reports and the server use. In every folder, the public
estimator is in `labeler`, `classifier` or `parser`; `commands` reads and writes the task's files; `page` shows one
example. A new task is one folder and one line of `TASKS`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple

from partwise.errors import InputError


class Classes(NamedTuple):
    """Names of a task's classes: its `Task` in `commands`, its `Explorer` in `page`."""

    commands: str
    page: str


TASKS = {
    "sequences": Classes("Sequences", "SequenceExplorer"),
    "segments": Classes("Segments", "SegmentExplorer"),
    "classes": Classes("ClassifiedRows", "ClassExplorer"),
    "dependencies": Classes("DependencyTrees", "TreeExplorer"),
    "constituents": Classes("Constituents", "ConstituentExplorer"),
    "graphs": Classes("LabelledGraphs", "GraphExplorer"),
}


def class_of(estimator: Any, module: str, model: object = "") -> Any:
    """The class of an estimator's task in `module`, "commands" or "page"; an error if files cannot hold its data."""
    if estimator._task is None:
        raise InputError(
            f"{type(estimator).__name__} has data that are not read from files: use it from Python", model
        )
    name = getattr(TASKS[estimator._task], module)
    return getattr(import_module(f"partwise.tasks.{estimator._task}.{module}"), name)
