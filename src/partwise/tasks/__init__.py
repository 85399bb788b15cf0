"""Everything about one kind of data in one place: a folder per task.

Read `task` first: it says what a task is, and the command line, reports and the server use nothing else. A folder holds
the public estimator (`labeler`, `classifier` or `parser`), its data and predictions, and the task itself (`task`).
`TASKS` is the only list of tasks. A new task is one file and one line of it, or a call of `register`
(docs/add_a_task.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from partwise.errors import InputError

if TYPE_CHECKING:
    from partwise.tasks.options import TrainOptions
    from partwise.tasks.task import Task


class Entry(NamedTuple):
    """A task in the registry. Each class is given as "module:Class" within this folder, or as the class itself.

    Attributes
    ----------
    command : str
        NAME of ``partwise train NAME``.
    task : str or subclass of Task
    options : str or subclass of TrainOptions
        What ``partwise train NAME`` offers. The docstring is the help of the command. Help loads nothing else.
    estimators : tuple of str or class
        The classes whose models are of this task; ``partwise train`` makes the first one.
    encoding : str or subclass of TrainOptions, optional
        What ``partwise encode NAME`` offers.
    dataset : str or class, optional
        Reads the folders of ``partwise encode NAME``.
    drop_ins : tuple of str or class, optional
        Estimators with the parameters of another library's.
    """

    command: str
    task: str | type
    options: str | type
    estimators: tuple[str | type, ...]
    encoding: str | type | None = None
    dataset: str | type | None = None
    drop_ins: tuple[str | type, ...] = ()


TASKS: dict[str, Entry] = {
    "sequences": Entry(
        "sequence",
        "sequences.task:Sequences",
        "sequences.options:SequenceOptions",
        ("sequences.labeler:SequenceLabeler", "sequences.kernel:KernelSequenceLabeler"),
        "sequences.options:EncodeOptions",
        "sequences.dataset:EncodedSequences",
        ("sequences.crf:CRF",),
    ),
    "segments": Entry(
        "segments",
        "segments.task:Segments",
        "segments.options:SegmentOptions",
        ("segments.labeler:SegmentLabeler",),
    ),
    "classes": Entry(
        "classify",
        "classes.task:Classes",
        "classes.options:ClassOptions",
        ("classes.classifier:Classifier", "classes.kernel:KernelClassifier"),
        "classes.options:EncodeOptions",
        "classes.dataset:EncodedClasses",
    ),
    "dependencies": Entry(
        "dependency",
        "dependencies.task:DependencyTrees",
        "dependencies.options:DependencyOptions",
        ("dependencies.parser:DependencyParser",),
    ),
    "graphs": Entry(
        "graph",
        "graphs.task:LabelledGraphs",
        "graphs.options:GraphOptions",
        ("graphs.labeler:GraphLabeler",),
    ),
    "constituents": Entry(
        "constituency",
        "constituents.task:ConstituentTrees",
        "constituents.options:ConstituentOptions",
        ("constituents.parser:ConstituencyParser",),
    ),
    "label_sets": Entry(
        "multilabel",
        "label_sets.task:LabelSets",
        "label_sets.options:LabelSetOptions",
        ("label_sets.classifier:MultilabelClassifier",),
    ),
}


# What reads model files of other programs, by the bytes that these begin with: header and arrays of the model file
# that partwise would write.
FOREIGN_MODELS: dict[bytes, str] = {
    b"lCRF": "sequences.crfsuite_model:as_model_file",
}


def foreign_reader(start: bytes) -> Callable[[bytes], tuple[dict[str, Any], dict[str, Any]]] | None:
    """What reads the model file that begins with `start`, if another program wrote it."""
    found = (where for magic, where in FOREIGN_MODELS.items() if start.startswith(magic))
    return _loaded(next(found, None))


def register(name: str, task: type[Task], options: type[TrainOptions], *estimators: type) -> None:
    """Add a task of your own; its estimators have ``_task = name``.

    Models of these classes can then be loaded, and the command line, reports and the server know the task.

    Parameters
    ----------
    name : str
    task : subclass of Task
    options : subclass of TrainOptions
        What ``partwise train`` offers.
    *estimators : classes
        ``partwise train`` makes the first one.
    """
    TASKS[name] = Entry(task.command, task, options, estimators)


def task_class(name: str) -> type[Task]:
    """The `Task` called `name` in the registry."""
    return _loaded(TASKS[name].task)


def train_options(name: str) -> type[TrainOptions]:
    """What ``partwise train`` offers for the task called `name`."""
    return _loaded(TASKS[name].options)


def encode_options(name: str) -> type[TrainOptions] | None:
    """What ``partwise encode`` offers for the task called `name`; None if its data cannot be encoded."""
    return _loaded(TASKS[name].encoding)


def tasks_by_command() -> dict[str, str]:
    """The names of all tasks, by what ``partwise train`` calls them."""
    return {entry.command: name for name, entry in TASKS.items()}


def trained_class(name: str) -> Any:
    """The estimator that ``partwise train`` makes for a task."""
    return _loaded(TASKS[name].estimators[0])


def estimator_names(drop_ins: bool = False) -> list[str]:
    """The names of all estimators, as model files have them; with `drop_ins`, also those of other libraries'."""
    return [name for name, where in _estimators() if drop_ins or not _is_drop_in(where)]


def estimator_class(name: str) -> Any:
    """The estimator of this name; KeyError if no task has one."""
    return _loaded(dict(_estimators())[name])


def datasets() -> dict[str, Any]:
    """What reads the folders of ``partwise encode``, as "module:Class" or class, by the name of the command."""
    return {entry.command: entry.dataset for entry in TASKS.values() if entry.dataset is not None}


def dataset_class(command: str) -> Any:
    """The class of a folder that ``partwise encode`` wrote."""
    return _loaded(datasets()[command])


def task_of(estimator: Any, model: object = "") -> type[Task]:
    """The task of an estimator; an error if files cannot hold its data."""
    if estimator._task is None:
        raise InputError(
            f"{type(estimator).__name__} has data that are not read from files: use it from Python", model
        )
    return task_class(estimator._task)


def _is_drop_in(where: str | type) -> bool:
    return any(where in entry.drop_ins for entry in TASKS.values())


def _estimators() -> Iterator[tuple[str, str | type]]:
    for entry in TASKS.values():
        for where in (*entry.estimators, *entry.drop_ins):
            yield where.partition(":")[2] if isinstance(where, str) else where.__name__, where


def _loaded(where: str | type | None) -> Any:
    if not isinstance(where, str):
        return where
    module, _, name = where.partition(":")
    return getattr(import_module(f"partwise.tasks.{module}"), name)
