"""The handwritten words of Taskar, Guestrin and Koller (2003) as arrays; see letter.data.gz."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

N_FOLDS = 10


class Letters(NamedTuple):
    """One row per letter, words one after another.

    Attributes
    ----------
    pixels : ndarray (n_letters, 128) of float32
        0 or 1.
    labels : ndarray (n_letters,) of int64
        0 … 25.
    lengths : ndarray (n_words,) of int64
    """

    pixels: np.ndarray
    labels: np.ndarray
    lengths: np.ndarray

    def words(self) -> tuple[list[np.ndarray], list[list[int]]]:
        """The same as a list of matrices and a list of labels, one per word."""
        cuts = np.cumsum(self.lengths)[:-1]
        return np.split(self.pixels, cuts), [list(y) for y in np.split(self.labels, cuts)]


def read_letters(folder: Path) -> tuple[Letters, np.ndarray]:
    """All letters, and the fold of every word."""
    with gzip.open(folder / "letter.data.gz", "rt") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    pixels = np.array([row[6:] for row in rows], np.uint8).astype(np.float32)
    labels = np.array([ord(row[1]) - ord("a") for row in rows])
    _, first, lengths = np.unique([int(row[3]) for row in rows], return_index=True, return_counts=True)
    assert (np.diff(first) > 0).all()  # words lie in order
    fold = np.array([int(rows[start][5]) for start in first])
    return Letters(pixels, labels, lengths), fold


def select(letters: Letters, words: np.ndarray) -> Letters:
    """The words where `words` (n_words,) is true."""
    keep = np.repeat(words, letters.lengths)
    return Letters(letters.pixels[keep], letters.labels[keep], letters.lengths[words])


def explicit_problem(
    letters: Letters, l2: float, loss: str = "hinge", chain: bool = True, constant: bool = True
) -> Any:
    """Pixels and, if asked for, a constant as dense attributes; shared transitions."""
    from partwise.core.maps import FeatureMap
    from partwise.core.problem import Problem
    from partwise.core.rows import RowData
    from partwise.structures import Chain, Multiclass, Structure

    dense = letters.pixels
    if constant:
        dense = np.hstack([dense, np.ones((len(dense), 1), np.float32)])
    lengths = letters.lengths if chain else np.ones(len(letters.labels), np.int64)
    structure: Structure = Chain(26) if chain else Multiclass(26)
    feature_map = FeatureMap.build(26, 0, dense.shape[1])
    return Problem.build(
        structure, letters.labels, lengths, {"node": RowData(feature_map, None, dense)}, loss=loss, l2=l2
    )
