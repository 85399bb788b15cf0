"""Scores of some examples in the form of compiled code, and the answers about them. Methods for users run on this."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from partwise.structures.checks import require_possible
from partwise.structures.contract import PartLists, Shapes, Structure


class Packed(NamedTuple):
    """Scores of some examples.

    Attributes
    ----------
    structure : Structure
    specification : NamedTuple
        That of the structure, or one for scores of another form.
    shapes : Shapes
    part_ptr : int64 array, shape (n + 1,)
    scores : float64 array, shape (part_ptr[n] + slack,)
    single : bool
        One example was given, not a list of one.
    """

    structure: Structure
    specification: Any
    shapes: Shapes
    part_ptr: np.ndarray
    scores: np.ndarray
    single: bool

    @property
    def lengths(self) -> np.ndarray:
        return self.shapes.lengths

    def room(self) -> Any:
        return self.structure.workspace(self.shapes, self.specification)

    def answers(self, which: str, wants_counts: int = 1, n_threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Values (n,) of the oracle's "sums" or "best", and counts (part_ptr[n],) if they are wanted."""
        from partwise.compiled.background_compile import obtain
        from partwise.compiled.boundary import addresses, pack
        from partwise.compiled.inference import answer_all

        n = len(self.part_ptr) - 1
        values, counts = np.empty(n), np.empty(self.part_ptr[-1] * wants_counts)
        call = addresses([obtain(self.structure.oracle.task(which))])

        def share(first: int, last: int) -> None:
            answer_all(
                call, pack(self.specification), pack(room := self.room()), wants_counts,
                self.shapes.ptr[first : last + 1], self.shapes.values, self.part_ptr[first : last + 1],
                self.scores, counts if wants_counts else self.scores, values[first:last],
            )  # fmt: skip
            del room  # held until here

        if n_threads <= 1 or n < 2:
            share(0, n)
            return values, counts
        cuts = np.searchsorted(self.part_ptr, np.linspace(0, self.part_ptr[-1], min(n_threads, n) + 1))
        cuts[0], cuts[-1] = 0, n
        with ThreadPoolExecutor(len(cuts) - 1) as pool:
            list(pool.map(share, cuts[:-1].tolist(), cuts[1:].tolist()))
        return values, counts

    def log_partition(self) -> Any:
        """A float, or float64 (n,)."""
        values, _ = self.answers("sums", 0)
        return float(values[0]) if self.single else values

    def expectations(self) -> tuple[np.ndarray, np.ndarray]:
        """Log-partitions (n,) and expected counts (part_ptr[n],); raises if no labelling is possible."""
        values, counts = self.answers("sums", 1)
        require_possible(values, self.single)
        return values, counts

    def best(self) -> Any:
        """Labels of maximisers, as the structure decodes them."""
        values, counts = self.answers("best", 1)
        require_possible(values, self.single)
        used = np.flatnonzero(counts > 0.5)
        ptr = np.searchsorted(used, self.part_ptr)
        first = np.repeat(self.part_ptr[:-1], np.diff(ptr))
        return self.structure.decode_all(PartLists(ptr, used - first), self.shapes)

    def entropy(self) -> Any:
        """Entropy in nats: a float, or float64 (n,)."""
        log_totals, counts = self.expectations()
        scores = np.where(counts > 0.0, self.scores[: len(counts)], 0.0)
        expected = np.add.reduceat(scores * counts, self.part_ptr[:-1]) if len(log_totals) else log_totals
        # The difference of two large numbers may come out just below zero.
        entropies = np.maximum(log_totals - expected, 0.0)
        return float(entropies[0]) if self.single else entropies
