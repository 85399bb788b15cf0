"""Scores of some examples in the form of compiled code, and the answers about them. Methods for users run on this."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from partwise.compiled.simd import LANES
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
        """Values (n,) of the oracle's "sums" or "best", and counts (part_ptr[n],) if they are wanted.

        Threads share the examples; a long example has two threads to itself.
        """
        n = len(self.part_ptr) - 1
        values, counts = np.empty(n), np.empty(self.part_ptr[-1] * wants_counts)
        long = self.structure.long_examples(self.shapes)
        if not len(long):
            self._by_oracle(which, wants_counts, n_threads, (0, n), values, counts)
            return values, counts

        def answer(i: int) -> None:
            first, last = self.part_ptr[i : i + 2].tolist()
            shape = self.shapes.values[self.shapes.ptr[i] : self.shapes.ptr[i + 1]]
            values[i] = self.structure.long_answer(
                which, self.specification, shape, self.scores[first : last + LANES],
                counts[first:last] if wants_counts else None, n_threads,
            )  # fmt: skip

        values[:] = np.nan
        with ThreadPoolExecutor(max(1, n_threads // 2)) as pool:
            list(pool.map(answer, long.tolist()))
        cuts = np.flatnonzero(np.diff(np.isnan(values), prepend=False, append=False))
        for bounds in cuts.reshape(-1, 2).tolist():
            self._by_oracle(which, wants_counts, n_threads, bounds, values, counts)
        return values, counts

    def _by_oracle(
        self, which: str, wants_counts: int, n_threads: int, bounds: Sequence[int],
        values: np.ndarray, counts: np.ndarray,
    ) -> None:  # fmt: skip
        """Write the answers of a range of examples."""
        from partwise.compiled.background_compile import obtain
        from partwise.compiled.boundary import addresses, pack
        from partwise.compiled.inference import answer_all

        call = addresses([obtain(self.structure.oracle.task(which))])
        shapes = self.shapes.take(np.arange(*bounds))

        def share(first: int, last: int) -> None:
            room = self.structure.workspace(shapes, self.specification)
            answer_all(
                call, pack(self.specification), pack(room), wants_counts,
                self.shapes.ptr[first : last + 1], self.shapes.values, self.part_ptr[first : last + 1],
                self.scores, counts if wants_counts else self.scores, values[first:last],
            )  # fmt: skip
            del room  # held until here

        begin, end = bounds
        if n_threads <= 1 or end - begin < 2:
            share(begin, end)
            return
        sizes = self.part_ptr[begin : end + 1]
        cuts = begin + np.searchsorted(
            sizes, np.linspace(sizes[0], sizes[-1], min(n_threads, end - begin) + 1)
        )
        cuts[0], cuts[-1] = begin, end
        with ThreadPoolExecutor(len(cuts) - 1) as pool:
            list(pool.map(share, cuts[:-1].tolist(), cuts[1:].tolist()))

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
        return self.labels(counts)

    def labels(self, counts: np.ndarray) -> Any:
        """Labels of labellings with these part counts, as the structure decodes them."""
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
