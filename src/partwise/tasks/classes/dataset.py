"""Classified rows that `partwise encode classify` wrote to a folder."""

from __future__ import annotations

import numpy as np

from partwise.errors import InputError
from partwise.estimators.on_disk.checks import Verifier
from partwise.estimators.on_disk.dataset import EncodedDataset
from partwise.storage.checks import expect_number, expect_text
from partwise.storage.folder import Folder


class EncodedClasses(EncodedDataset):
    """Rows of numbers with a class each.

    Attributes
    ----------
    n_features : int
        Columns, of which the rows have one more where there is an intercept.
    """

    task, _noun, _label_types = "classify", "row", (str, int, bool)
    _settled = ("fit_intercept", "pairs")

    def _lengths(self, folder: Folder) -> np.ndarray:
        if folder.arrays["labels"].shape != (self.n_examples,):
            raise InputError("array 'labels' does not fit the number of rows")
        return np.ones(self.n_examples, np.int64)

    def _open(self, folder: Folder, check: Verifier) -> None:
        self.n_features = expect_number(self.header, "n_features", 0, 2**31 - 2, whole=True)
        storage = expect_text(self.header, "storage", ("dense", "sparse"))
        width = self.n_features + int(bool(self.parameters["fit_intercept"]))
        n_attributes, n_dense = (0, width) if storage == "dense" else (width, 0)
        self.rows = {"node": check.rows("node", len(self.labels), n_attributes, self.n_examples, n_dense)}

    def class_counts(self) -> np.ndarray:
        """How many rows were read of each class, (n_classes,); equal ones are one row with a weight."""
        return np.bincount(self.codes.array, self.weights, minlength=len(self.labels))

    def weights_by_class(self, factors: np.ndarray) -> np.ndarray:
        """The weights of all rows, (n_examples,), times a factor (n_classes,) for each class."""
        found = factors[self.codes.array] * (1.0 if self.weights is None else self.weights)
        if not found.any():
            raise InputError("class_weight leaves no example with a weight above zero")
        return found

    def _sizes(self) -> list[str]:
        return [*super()._sizes(), f"{self.n_features:,} features"]
