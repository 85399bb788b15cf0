"""`crammer-singer`: exact coordinate ascent on the labels of one example after another, for classes and β = ∞.

Crammer and Singer 2001; as dual coordinate descent Keerthi, Sundararajan, Chang, Hsieh and Lin 2008.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from partwise.compiled.examples import Batch, Scratch
from partwise.core.problem import Problem
from partwise.solvers.base import Memory, StepInfo, check_precision, state_type, vectors_bytes
from partwise.solvers.dual.crammer_singer_pass import ClassPoint, class_pass, squared_features
from partwise.solvers.dual.hard import HardAscent, add_to_average, hard_dual
from partwise.solvers.needs import Needs
from partwise.solvers.sampling import expected_gap, note_visits
from partwise.solvers.work_model import FIXED, passes_of_exact_ascent

_LEAST_STEP, _LEAST_VISITS = 0.5, 1000  # least passes and least visits of a step,
_MOST_PASSES = 4  # which takes at most so many passes if examples are few
# Chunks of a sweep, after each of which v goes into the mean; least visits of a chunk.
_N_CHUNKS, _LEAST_CHUNK = 10, 100


class ClassState(NamedTuple):
    """A :class:`ClassPoint`, times of visits (see `sampling.py`) and of the last full sweep, and the weighted mean of v
    with its number of points."""

    mu: np.ndarray
    v: np.ndarray
    cost: np.ndarray
    gap: np.ndarray
    norm: np.ndarray
    seen: np.ndarray
    waited: np.ndarray
    clock: np.ndarray
    full_at: np.ndarray
    average: np.ndarray
    n_averaged: np.ndarray

    def point(self) -> ClassPoint:
        return ClassPoint(*self[:5])

    def expected_counts(self, problem: Problem) -> np.ndarray:
        """μ of all parts, (n_parts,)."""
        return self.mu


@dataclass(frozen=True)
class CrammerSinger(HardAscent):
    """Finds the best distribution of one example over all labels, the others fixed; no step size at all.

    Most examples end at their true label with a margin to spare. Sweeps over the examples that gained at their last
    visit alternate with passes over all examples, which become rare later in a run.

    Parameters
    ----------
    precision : {"auto", "single", "double"}
        Precision of v; "auto" follows `tol`. Certificates are always in double precision.
    """

    precision: Literal["auto", "single", "double"] = "auto"
    name = "crammer-singer"
    needs = Needs(loss="hard", features=True, classes=True, ridge=True)

    def check(self, problem: Problem) -> None:
        check_precision(self.precision)

    def memory_needed(self, problem: Problem) -> Memory:
        in_memory = 0 if problem.keeps_state_on_disk else problem.n_parts
        return Memory(8 * in_memory, vectors_bytes(problem))

    def _shares(self, problem: Problem, state: ClassState) -> np.ndarray:
        return state.mu.reshape(problem.n_examples, -1)

    def _counts(self, problem: Problem, state: ClassState) -> np.ndarray:
        return state.mu

    def init(self, problem: Problem, random: np.random.Generator) -> ClassState:
        n = problem.n_examples
        v: np.ndarray = np.zeros(problem.n_weights, state_type(self.precision))
        mu, amount = problem.zeros(problem.batch.part_ptr, np.float64), problem.batch.gold_amount
        for first, last in problem.in_order():
            own = amount[problem.batch.gold_ptr[first] : problem.batch.gold_ptr[last]]
            np.add.at(mu, problem.gold_indices(first, last), own if amount.size else 1.0)
        point = ClassPoint(mu, v, np.zeros(n), np.full(n, np.nan), np.zeros(1))
        return ClassState(
            **point._asdict(),
            seen=np.full(n, -1.0),
            waited=np.ones(n),
            clock=np.zeros(1),
            full_at=np.zeros(1),
            average=v.copy(),
            n_averaged=np.zeros(1),
        )

    def passes_expected(self, problem: Problem) -> float:
        return passes_of_exact_ascent(problem)

    def pass_work(self, problem: Problem, state: ClassState | None = None) -> float:
        """The passes of a step share its fixed work."""
        n_passes = max(_least_visits(problem.n_examples) / problem.n_examples, 1.0)
        return super().pass_work(problem) - FIXED + FIXED / n_passes

    def carry_over(self, problem: Problem, state: ClassState, changed: Set[str]) -> ClassState:
        """Distributions stay, and the next sweep is over all examples."""
        super().carry_over(problem, state, changed)
        state.full_at[0] = 0.0
        return state

    def step(
        self, problem: Problem, state: ClassState, random: np.random.Generator
    ) -> tuple[ClassState, StepInfo]:
        point, weight = state.point(), problem.batch.example_weight
        squared = problem.kept("squared features", lambda: _squared_features(problem))

        def run(batch: Batch, order: np.ndarray, v: np.ndarray, scratch: Scratch) -> None:
            own = point._replace(v=v)
            class_pass(batch, order, own, squared, problem.loss.gamma, problem.l2, scratch)

        done = 0
        n = problem.n_examples
        while done < _least_visits(n):
            order, is_full = _next_sweep(state, random)
            for own in _by_shard(problem, order, random):
                for here in np.array_split(own, min(max(len(own) // _LEAST_CHUNK, 1), _N_CHUNKS)):
                    problem.visits(here, point.v, run, asks=())
                    note_visits(here, state.seen, state.waited, state.clock)
                    add_to_average(state.average, state.n_averaged, point.v)
            state.full_at[:] = state.clock if is_full else state.full_at
            done += len(order)
        gap = expected_gap(point.gap, state.seen, state.waited, float(state.clock[0]))
        return state, StepInfo(done / n, hard_dual(problem, point), float(weight @ gap))


def _least_visits(n: int) -> float:
    """Visits of a step for `n` examples."""
    return max(_LEAST_STEP * n, min(_LEAST_VISITS, _MOST_PASSES * n))


def _next_sweep(state: ClassState, random: np.random.Generator) -> tuple[np.ndarray, bool]:
    """The examples to visit next, in order, and whether these are all; if they are few, each occurs several times."""
    active = np.flatnonzero(state.gap > 0.0)
    now, full_at = float(state.clock[0]), float(state.full_at[0])
    is_full = not active.size or np.isnan(state.gap).any() or now - full_at >= max(1.0, now / 3.0)
    if is_full:
        return random.permutation(len(state.gap)), True
    sweeps = [random.permutation(active) for _ in range(-(-min(_LEAST_CHUNK, len(state.gap)) // len(active)))]
    return np.concatenate(sweeps), False


def _by_shard(problem: Problem, order: np.ndarray, random: np.random.Generator) -> Iterator[np.ndarray]:
    """The visits of `order`, grouped by the shards that are in memory together."""
    if problem.is_in_memory:
        yield order
        return
    for shard in problem.shards(random):
        is_here = np.zeros(problem.n_examples, bool)
        is_here[shard] = True
        if is_here[order].any():
            yield order[is_here[order]]


def _squared_features(problem: Problem) -> np.ndarray:
    """‖φ(x_i, r)‖², (n_examples, n_labels), or (n_examples, 1) if all pairs of attribute and label have weights."""
    (kind,) = problem.scorer.kinds
    is_full = kind.mask.size == 0 and kind.narrow_label.size == 0
    squared = np.zeros((problem.n_examples, 1 if is_full else kind.width))
    for first, last in problem.in_order():
        squared_features(problem.batch, first, last, squared)
    return squared
