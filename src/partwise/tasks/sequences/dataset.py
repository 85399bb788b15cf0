"""Labelled sequences that `partwise encode sequence` wrote to a folder."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.errors import InputError
from partwise.estimators.encoders import encoder_from
from partwise.estimators.on_disk.checks import Verifier, expect_entries
from partwise.estimators.on_disk.dataset import EncodedDataset
from partwise.storage.folder import Folder


class EncodedSequences(EncodedDataset):
    """Labelled sequences."""

    task, _noun, _label_types = "sequence", "sequence", (str,)
    _settled = ("template", "min_count", "hash_size", "pairs")

    def _lengths(self, folder: Folder) -> np.ndarray:
        lengths = folder.read("lengths") if "lengths" in folder.arrays else np.zeros(0)
        fits = lengths.dtype == np.int64 and lengths.shape == (self.n_examples,)
        if not fits or lengths.min() < 1 or lengths.max() >= 2**31:
            raise InputError("array 'lengths' does not fit the number of sequences")
        if lengths.sum(dtype=np.float64) >= 2**48:
            raise InputError("array 'lengths' adds up to more than there can be")
        return lengths

    def _open(self, folder: Folder, check: Verifier) -> None:
        stored: Any = expect_entries(self.header, "encoder")[0]
        small = {n: folder.read(n) for n in folder.arrays if n.startswith("encoder.")}
        self.encoder = encoder = encoder_from(stored, small)
        n_labels, n_positions = len(self.labels), len(self.codes.array)
        self.rows = {"node": check.rows("node", n_labels, encoder.n_attributes, n_positions)}
        if not encoder.tied:
            n_edges = n_positions - len(self.lengths)
            self.rows["edge"] = check.rows("edge", n_labels**2, encoder.n_edge_attributes, n_edges)

    def _sizes(self) -> list[str]:
        n_examples, n_labels = super()._sizes()
        return [n_examples, f"{len(self.codes.array):,} positions", n_labels]
