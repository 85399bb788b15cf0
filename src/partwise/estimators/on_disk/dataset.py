"""`open_dataset`: a folder that `partwise encode` wrote, checked, ready to be trained on."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from partwise.core.mapped import MappedArray, memory_there_is
from partwise.core.streamed import RowsOnDisk
from partwise.errors import InputError
from partwise.estimators.on_disk.checks import Verifier, expect_entries
from partwise.storage.checks import expect_number, expect_parameters, expect_text
from partwise.storage.folder import Folder

TASKS = ("sequence",)
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
        have no names and go with the process. None keeps it in memory.
    shard_mb : float or None
        Megabytes of data and state to hold in memory at a time; about three times as much is in use while one shard
        is trained on, the next is read and the last is written. None is all where that is less than half of the free
        memory, else an eighth of it.
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
        return EncodedDataset(folder, state_dir, shard_mb, tell)
    except InputError as error:
        raise InputError(f"damaged dataset: {error.message}", path) from None
    except _NONSENSE as error:
        raise InputError(f"damaged dataset: its parts do not fit together ({error!r:.100})", path) from None


class EncodedDataset:
    """Training data on disk; made by :func:`open_dataset`.

    Attributes
    ----------
    path : str
    parameters : dict
        Those of the estimator that the data were encoded with; an estimator must have the same.
    labels : list
        In the order of their numbers.
    encoder
        What numbers attributes.
    lengths : int64 array, shape (n_examples,)
    weights : float64 array, shape (n_examples,), or None
    codes : MappedArray of int32, shape (n_positions,)
        The label of every position.
    rows : dict of RowsOnDisk
        By the name of their kind.
    """

    def __init__(
        self,
        folder: Folder,
        state_dir: str | os.PathLike[str] | None,
        shard_mb: float | None,
        tell: Callable[[str, int], None],
    ):
        from partwise.estimators.sequence.files import encoder_from

        self.path, self.state_dir, self.shard_mb, self.header = (
            folder.path,
            state_dir,
            shard_mb,
            folder.header,
        )
        expect_text(self.header, "task", TASKS)
        parameters, labels, _ = expect_entries(self.header, "parameters", "labels", "encoder")
        if not isinstance(parameters, dict) or not set(parameters) >= {
            "template",
            "min_count",
            "hash_size",
            "pairs",
        }:
            raise InputError("its header does not say what it was encoded with")
        expect_parameters(parameters)
        if not isinstance(labels, list) or not labels or not all(isinstance(each, str) for each in labels):
            raise InputError("the labels are missing")
        if len(set(labels)) != len(labels):
            raise InputError("a label is there twice")
        self.parameters, self.labels = parameters, labels
        small = {n: folder.read(n) for n in folder.arrays if n.startswith("encoder.")}
        self.encoder = encoder_from(self.header["encoder"], small)
        check = Verifier(folder, tell)
        self.lengths = self._lengths(folder)
        self.weights = self._weights(folder)
        n_positions, n_labels = int(self.lengths.sum()), len(labels)
        self.codes: MappedArray = check.mapped("labels", np.int32, n_positions)
        check.within("labels", self.codes, 0, n_labels)
        self.rows: dict[str, RowsOnDisk] = {
            "node": check.rows("node", n_labels, self.encoder.n_attributes, n_positions)
        }
        if not self.encoder.tied:
            n_edges = n_positions - len(self.lengths)
            self.rows["edge"] = check.rows("edge", n_labels**2, self.encoder.n_edge_attributes, n_edges)

    def _lengths(self, folder: Folder) -> np.ndarray:
        n = expect_number(self.header, "n_examples", 1, 2**48, whole=True)
        lengths = folder.read("lengths") if "lengths" in folder.arrays else np.zeros(0)
        if lengths.dtype != np.int64 or lengths.shape != (n,) or lengths.min() < 1 or lengths.max() >= 2**31:
            raise InputError("array 'lengths' does not fit the number of sequences")
        if lengths.sum(dtype=np.float64) >= 2**48:
            raise InputError("array 'lengths' adds up to more than there can be")
        return lengths

    def _weights(self, folder: Folder) -> np.ndarray | None:
        if "weights" not in folder.arrays:
            return None
        weights = folder.read("weights")
        fits = weights.dtype == np.float64 and weights.shape == self.lengths.shape
        if not fits or not np.isfinite(weights).all() or weights.min() < 0 or not weights.any():
            raise InputError("array 'weights' must hold a finite weight >= 0 for every sequence")
        return weights

    @property
    def n_examples(self) -> int:
        return len(self.lengths)

    @property
    def n_bytes(self) -> int:
        """Of the rows on disk."""
        return sum(each.n_bytes for rows in self.rows.values() for each in rows.arrays.values())

    def shard_bytes(self, n_bytes: int) -> float:
        """How much of `n_bytes` to have in memory at a time."""
        if self.shard_mb is not None:
            return 1e6 * self.shard_mb
        there_is = memory_there_is()
        return float(n_bytes) if n_bytes <= 0.5 * there_is else 0.125 * there_is

    def check_estimator(self, estimator: Any) -> None:
        """Raise unless an estimator's parameters are those that the data were encoded with."""
        found = estimator._parameters_state()
        for name, value in self.parameters.items():
            if found[name] != value:
                raise InputError(
                    f"this dataset was encoded with {name}={value!r:.60}, and the estimator has "
                    f"{found[name]!r:.60}: give it the parameters of the dataset",
                    self.path,
                )

    def __repr__(self) -> str:
        sizes = (
            f"{self.n_examples:,} sequences, {int(self.lengths.sum()):,} positions, {len(self.labels)} labels"
        )
        return f"EncodedDataset({self.path!r}: {sizes})"
