"""Models as the commands load them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from partwise.tasks.data_options import DataOptions

if TYPE_CHECKING:
    from partwise.tasks.task import Task


def load_with_header(path: str) -> tuple[Any, dict[str, Any]]:
    """The estimator in a model file, and the file's header."""
    from partwise.storage.model_file import estimator_from, load_model

    header, arrays = load_model(path)
    return estimator_from(header, arrays, path), header


def load_task(path: str, format: str | None) -> Task:
    """The model in a file with what reads its data, by the model's own options but for a format that is given."""
    from partwise.tasks.task import task_of

    estimator, header = load_with_header(path)
    return task_of(estimator, DataOptions.of(header, path), path, format)
