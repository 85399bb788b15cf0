"""`open_dataset`: a folder that `partwise encode` wrote, checked, ready to be trained on."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from partwise.core.mapped import MappedArray
from partwise.core.streamed import RowsOnDisk
from partwise.errors import InputError
from partwise.estimators.on_disk.checks import Verifier, expect_entries
from partwise.storage.checks import expect_number, expect_parameters, expect_text
from partwise.storage.folder import Folder

_NONSENSE = (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError)


def open_dataset(
    path: str | os.PathLike[str],
    *,
    state_dir: str | os.PathLike[str] | None = None,
    shard_mb: float | None = None,
    tell: Callable[[str, int], None] = lambda what, n: None,
) -> EncodedDataset:
    """Open training data that ``partwise encode`` wrote; give it to `fit` in place of X.

    All of it is read once, to check it. It must not be changed while it is in use.

    Parameters
    ----------
    path : path
        The folder.
    state_dir : path or None
        A folder for what training keeps for every part of every example: true labels, costs and dual state. Its files
        have no names and go with the process. None keeps it in memory, or in the dataset's own folder where the
        estimator's `memory_limit`, or a limit of the process or its container, leaves no room for it.
    shard_mb : float or None
        Megabytes of data and state to hold in memory at a time; about three times as much is in use while one shard
        is trained on, the next is read and the last is written. None is what those limits leave, and where there are
        none everything if that is less than half of the free memory, else an eighth of it.
    tell : callable
        Hears what is checked, and how far.

    Returns
    -------
    EncodedDataset
    """
    if shard_mb is not None and not 0 < shard_mb < np.inf:
        raise InputError(f"shard_mb must be a number > 0, not {shard_mb!r:.60}")
    if state_dir is not None and not (os.path.isdir(state_dir) and os.access(state_dir, os.W_OK | os.X_OK)):
        raise InputError("state_dir must be a folder that can be written to", os.fspath(state_dir))
    folder = Folder(path)
    try:
        tasks = import_module("partwise.tasks")  # by name: tasks stand on estimators
        command = expect_text(folder.header, "task", tuple(tasks.datasets()))
        return tasks.dataset_class(command)(folder, state_dir, shard_mb, tell)
    except InputError as error:
        raise InputError(f"damaged dataset: {error.message}", path) from None
    except _NONSENSE as error:
        raise InputError(f"damaged dataset: its parts do not fit together ({error!r:.100})", path) from None


class EncodedDataset(ABC):
    """Training data on disk; made by :func:`open_dataset`.

    Attributes
    ----------
    path : str
    task : str
        What it is for, as ``partwise encode`` names it.
    parameters : dict
        Those of the estimator that the data were encoded with; an estimator must have the same.
    labels : list
        In the order of their numbers.
    encoder
        What numbers attributes; None where these are columns of numbers.
    lengths : int64 array, shape (n_examples,)
    weights : float64 array, shape (n_examples,), or None
    codes : MappedArray of int32, shape (n_positions,)
        The label of every position.
    rows : dict of RowsOnDisk
        By the name of their kind.
    """

    task: str
    _settled: tuple[str, ...]  # parameters of the estimator
    _label_types: tuple[type, ...]
    _noun: str
    encoder: Any = None
    rows: dict[str, RowsOnDisk]

    def __init__(
        self,
        folder: Folder,
        state_dir: str | os.PathLike[str] | None,
        shard_mb: float | None,
        tell: Callable[[str, int], None],
    ):
        self.path, self.header = folder.path, folder.header
        self.state_dir, self.shard_mb = state_dir, shard_mb
        parameters, labels = expect_entries(self.header, "parameters", "labels")
        if not isinstance(parameters, dict) or not set(parameters) >= set(self._settled):
            raise InputError("its header does not say what it was encoded with")
        expect_parameters(parameters)
        if (
            not isinstance(labels, list)
            or not labels
            or {type(each) for each in labels} - {*self._label_types}
        ):
            raise InputError("the labels are missing")
        if len(set(labels)) != len(labels):
            raise InputError("a label is there twice")
        self.parameters, self.labels = parameters, labels
        self.n_examples = expect_number(self.header, "n_examples", 1, 2**48, whole=True)
        self.lengths = self._lengths(folder)
        self.weights = self._weights(folder)
        check = Verifier(folder, tell)
        self.codes: MappedArray = check.mapped("labels", np.int32, int(self.lengths.sum()))
        check.within("labels", self.codes, 0, len(labels))
        self._open(folder, check)

    @abstractmethod
    def _open(self, folder: Folder, check: Verifier) -> None:
        """What there is of `encoder` and `rows`."""

    @abstractmethod
    def _lengths(self, folder: Folder) -> np.ndarray:
        """Positions of each example."""

    def _weights(self, folder: Folder) -> np.ndarray | None:
        if "weights" not in folder.arrays:
            return None
        weights = folder.read("weights")
        fits = weights.dtype == np.float64 and weights.shape == self.lengths.shape
        if not fits or not np.isfinite(weights).all() or weights.min() < 0 or not weights.any():
            raise InputError(f"array 'weights' must hold a finite weight >= 0 for every {self._noun}")
        return weights

    @property
    def n_bytes(self) -> int:
        """Of the rows on disk."""
        return sum(each.n_bytes for rows in self.rows.values() for each in rows.arrays.values())

    def check_use(self, estimator: Any, task: str, y: Any, sample_weight: Any) -> None:
        """Raise unless this is what an estimator trains on, and has its parameters."""
        if task != self.task:
            raise InputError(
                f"this dataset was encoded by `partwise encode {self.task}`, which {type(estimator).__name__} cannot "
                "be trained on",
                self.path,
            )
        if y is not None or sample_weight is not None:
            raise InputError(
                "a dataset on disk has its own labels and weights: give neither y nor sample_weight"
            )
        found = estimator._parameters_state()
        for name, value in self.parameters.items():
            if found[name] != value:
                raise InputError(
                    f"this dataset was encoded with {name}={value!r:.60}, and the estimator has "
                    f"{found[name]!r:.60}: give it the parameters of the dataset",
                    self.path,
                )

    def __repr__(self) -> str:
        return f"EncodedDataset({self.path!r}: {', '.join(self._sizes())})"

    def _sizes(self) -> list[str]:
        return [f"{self.n_examples:,} {self._noun}s", f"{len(self.labels):,} labels"]
