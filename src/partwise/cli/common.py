"""Loading models for the commands."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partwise.tasks.task import Task


def load_with_header(path: str) -> tuple[Any, dict[str, Any]]:
    """The estimator in a model file, and the file's header."""
    from partwise.storage.model_file import estimator_from, load_model

    header, arrays = load_model(path)
    return estimator_from(header, arrays, path), header


def warn_of_unknown(task: Task, X: Any, truths: Any, path: str) -> None:
    """A line on standard error that names all labels of a file that training did not have."""
    words = task.unknown_labels(X, truths)
    if words and sys.stderr is not None:
        with suppress(OSError):
            print(f"partwise: warning: {path} has {words}", file=sys.stderr)


def load_task(path: str, format: str | None) -> Task:
    """The model in a file with its task. `format` is that of new files, if it differs from the training data's."""
    from partwise.tasks.task import opened_task

    estimator, header = load_with_header(path)
    return opened_task(estimator, header, path, format)
