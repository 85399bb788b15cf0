"""`bcfw`: pairwise block-coordinate Frank–Wolfe for β = ∞ (Lacoste-Julien et al. 2013, Osokin et al. 2016)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from partwise.compiled.examples import Batch, Scratch
from partwise.core.problem import Problem
from partwise.errors import InputError
from partwise.solvers.base import Memory, StepInfo, check_precision, state_type, vectors_bytes
from partwise.solvers.dual.frank_wolfe_pass import CornerPoint, corner_counts, frank_wolfe_pass
from partwise.solvers.dual.hard import (
    COUNTS_BYTES,
    HardAscent,
    add_to_average,
    hard_dual,
)
from partwise.solvers.needs import Needs
from partwise.solvers.sampling import due_chunks, expected_gap, note_visits
from partwise.solvers.threads import Threads


class CornerState(NamedTuple):
    """A :class:`CornerPoint`, times of visits (see `sampling.py`), and the weighted mean of v with its number of
    points."""

    alpha: np.ndarray
    corners: np.ndarray
    v: np.ndarray
    cost: np.ndarray
    gap: np.ndarray
    norm: np.ndarray
    seen: np.ndarray
    waited: np.ndarray
    clock: np.ndarray
    average: np.ndarray
    n_averaged: np.ndarray

    def point(self, problem: Problem) -> CornerPoint:
        return CornerPoint(*self[:6], problem.labelling_ptr())

    def expected_counts(self, problem: Problem) -> np.ndarray:
        """μ of all parts, (n_parts,)."""
        mu = np.zeros(problem.n_parts)
        self.add_counts(problem, problem.batch, 0, problem.n_examples, mu)
        return mu

    def add_counts(self, problem: Problem, batch: Batch, first: int, last: int, mu: np.ndarray) -> None:
        """Add those of the examples `first` … `last` − 1, whose parts lie where `batch` says."""
        corner_counts(batch, first, last, self.point(problem), mu)


@dataclass(frozen=True)
class BlockFrankWolfe(HardAscent):
    """Moves mass from each example's worst labelling to its best by exact line search; no step size at all.

    Parameters
    ----------
    order : {"gap", "permuted", "random", "cyclic"}
        Order of visits; "gap" takes examples first whose last visits promise the largest gap.
    n_slots : int
        Labellings kept for each example; with too few, long sequences do not reach the optimum.
    n_cached : int
        Further steps of a visit, among the kept labellings only.
    precision : {"auto", "single", "double"}
        Precision of v; "auto" follows `tol`. Certificates are always in double precision.
    """

    order: Literal["gap", "permuted", "random", "cyclic"] = "gap"
    n_slots: int = 32
    n_cached: int = 2
    precision: Literal["auto", "single", "double"] = "auto"
    name = "bcfw"
    needs = Needs(loss="hard", whole_labels=True, exact=True)

    def check(self, problem: Problem) -> None:
        check_precision(self.precision)
        if self.order not in ("gap", "permuted", "random", "cyclic"):
            raise InputError(f"order must be gap, permuted, random or cyclic, not {self.order!r}")
        if self.n_slots < 2 or self.n_cached < 0:
            raise InputError(
                f"n_slots must be >= 2 and n_cached >= 0, not {self.n_slots} and {self.n_cached}"
            )

    def memory_needed(self, problem: Problem) -> Memory:
        labellings = 4 * int(problem.labelling_ptr()[-1]) + 8 * problem.n_examples
        return Memory(self.n_slots * labellings + COUNTS_BYTES, vectors_bytes(problem))

    def _point(self, problem: Problem, state: CornerState) -> CornerPoint:
        return state.point(problem)

    def _shares(self, problem: Problem, state: CornerState) -> np.ndarray:
        return state.alpha

    def init(self, problem: Problem, random: np.random.Generator) -> CornerState:
        batch, n = problem.batch, problem.n_examples
        n_slots, n_classes = self.n_slots, problem.structure.n_classes
        if n_classes:  # there are no more labellings than classes
            n_slots = min(n_slots, max(2, n_classes))
        alpha = np.zeros((n, n_slots))
        alpha[:, 0] = 1.0
        corner_ptr, n_gold = problem.labelling_ptr(), np.diff(batch.gold_ptr)
        corners = np.full((n_slots, corner_ptr[-1]), -1, np.int32)
        at = np.arange(len(batch.gold_part)) + np.repeat(corner_ptr[:-1] - batch.gold_ptr[:-1], n_gold)
        corners[0, at] = batch.gold_part
        v: np.ndarray = np.zeros(problem.n_weights, state_type(self.precision))
        return CornerState(
            alpha,
            corners,
            v,
            np.zeros(n),
            np.full(n, np.nan),
            np.zeros(1),
            np.full(n, -1.0),
            np.ones(n),
            np.zeros(1),
            v.copy(),
            np.zeros(1),
        )

    def step(
        self, problem: Problem, state: CornerState, random: np.random.Generator
    ) -> tuple[CornerState, StepInfo]:
        point = state.point(problem)
        most_parts, n_slots = int(np.diff(point.corner_ptr).max()), point.alpha.shape[1]

        def run(batch: Batch, order: np.ndarray, own: CornerPoint, scratch: Scratch) -> None:
            parts, values = np.zeros(most_parts, np.int32), np.zeros(n_slots)
            frank_wolfe_pass(
                batch, order, own, problem.loss.gamma, problem.l2, self.n_cached, parts, values, scratch
            )

        with Threads(problem) as threads:
            for here in self._chunks(problem, state, random):
                threads.visit(here, point, run)
                note_visits(here, state.seen, state.waited, state.clock)
                add_to_average(state.average, state.n_averaged, point.v)
        gap = expected_gap(point.gap, state.seen, state.waited, float(state.clock[0]))
        estimate = float(problem.batch.example_weight @ gap)
        return state, StepInfo(1.0, hard_dual(problem, point), estimate)

    def _chunks(
        self, problem: Problem, state: CornerState, random: np.random.Generator
    ) -> Iterator[np.ndarray]:
        if self.order == "gap":
            yield from due_chunks(state, problem, random)
            return
        all_seen = not np.isnan(state.gap).any()
        for shard in problem.shards(random):
            n = len(shard)
            if self.order == "random" and all_seen:
                order = random.integers(n, size=n)
            else:
                order = np.arange(n) if self.order == "cyclic" else random.permutation(n)
            chunk = max(1, n // 10)
            for first in range(0, n, chunk):
                yield shard[order[first : first + chunk]]
