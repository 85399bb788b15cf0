"""`chain-cd`: dual coordinate ascent on the pair marginals of chains, for β = ∞.

A direction moves mass from one labelling of a run of positions to another. The steps are those of dual coordinate
descent for linear classifiers (Hsieh, Chang, Lin, Keerthi, Sundararajan 2008); the pair marginals are those of Taskar,
Guestrin and Koller (2004).
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from partwise.compiled.examples import Batch
from partwise.core.arrays import offsets
from partwise.core.problem import Problem
from partwise.core.time_limit import visited_in_time
from partwise.errors import InputError
from partwise.mercer.problem import KernelProblem
from partwise.solvers.base import Memory, StepInfo, check_precision, state_type, vectors_bytes
from partwise.solvers.dual.chain_cd_pass import chain_cd_pass, sweep
from partwise.solvers.dual.chain_cd_point import ChainView, PairPoint, PathWorkspace, pair_counts
from partwise.solvers.dual.chain_cd_space import FeatureSpace, KernelSpace, close_space, kernel_space
from partwise.solvers.dual.chain_cd_store import (
    ENTRY,
    EXAMPLE,
    FIRST,
    GAIN,
    N_ENTRIES,
    N_PAIRS,
    OLDER,
    PATH,
    DirectionStore,
    enlarged,
    make_store,
)
from partwise.solvers.dual.hard import (
    COUNTS_BYTES,
    HardAscent,
    add_to_average,
    hard_dual,
)
from partwise.solvers.dual.smo import n_labels_of
from partwise.solvers.needs import Needs
from partwise.solvers.sampling import due_chunks, expected_gap, note_visits
from partwise.solvers.work_model import passes_of_exact_ascent

_FEW_SLOTS = 4  # pairs of labels that a position has space for at the start; runs double it when they need to
# Sweeps visit directions whose last gain exceeds this share of the mean: 90 % of what sweeps gain.
_WORTH_WHILE = 0.2
# Estimate of what a run remembers in the end: a direction at each position for so many labels, in bytes for itself and
# for each attribute. Measured on tagging and chunking; it depends on the data.
_LABELS_A_DIRECTION, _OF_DIRECTION, _OF_ATTRIBUTE = 11, 104, 24
_SWEPT = 15.0  # nanoseconds that the sweeps of a pass take for each entry of directions of dense attributes
_UNIFORM_SHARE = 0.1  # share of the other directions that a sweep visits too, at random


class ChainState(NamedTuple):
    """A :class:`PairPoint`, a :class:`DirectionStore`, times of visits (see `sampling.py`), and a weighted mean of v.

    `n_averaged` points are in the mean. With kernel functions v holds the coefficients and their image, and the mean
    is that of the coefficients alone.
    """

    pair: np.ndarray
    mass: np.ndarray
    v: np.ndarray
    cost: np.ndarray
    gap: np.ndarray
    norm: np.ndarray
    used: np.ndarray
    head: np.ndarray
    number: np.ndarray
    path: np.ndarray
    entry: np.ndarray
    value: np.ndarray
    newest: np.ndarray
    seen: np.ndarray
    waited: np.ndarray
    clock: np.ndarray
    average: np.ndarray
    n_averaged: np.ndarray

    def point(self) -> PairPoint:
        return PairPoint(*self[:6])

    def store(self) -> DirectionStore:
        return DirectionStore(*self[6:13])

    def expected_counts(self, problem: Problem) -> np.ndarray:
        """μ of all parts, (n_parts,)."""
        mu = np.zeros(problem.n_parts)
        self.add_counts(problem, problem.batch, 0, problem.n_examples, mu)
        return mu

    def add_counts(self, problem: Problem, batch: Batch, first: int, last: int, mu: np.ndarray) -> None:
        """Add those of the examples `first` … `last` − 1, whose parts lie where `batch` says."""
        pair_counts(batch, first, last, _chain_view(problem), self.point(), mu)

    def growing(self) -> tuple[str, ...]:
        """Names of the arrays that grow during a run."""
        return "pair", "mass", "head", "number", "path", "entry", "value"

    def is_sound(self) -> bool:
        """Whether all indices read from a file lie within their arrays; compiled code does not check bounds."""
        n_directions, n_pairs, n_entries = (int(count) for count in self.used)
        head, n_positions = self.head[:n_directions], len(self.pair)
        return bool(
            self.pair.shape == self.mass.shape
            and len(self.head) == len(self.number)
            and len(self.entry) == len(self.value)
            and min(n_directions, n_pairs, n_entries) >= 0
            and n_directions <= len(self.head)
            and n_pairs <= len(self.path)
            and n_entries <= len(self.entry)
            and (head[:, :OLDER] >= 0).all()
            and (head[:, EXAMPLE] < len(self.gap)).all()
            and (head[:, FIRST] + head[:, N_PAIRS] <= n_positions).all()
            and (head[:, PATH] + 2 * head[:, N_PAIRS] <= n_pairs).all()
            and (head[:, ENTRY] + head[:, N_ENTRIES] <= n_entries).all()
            and (head[:, OLDER] >= -1).all()
            and (head[:, OLDER] < np.arange(n_directions)).all()
            and (self.newest >= -1).all()
            and (self.newest < n_directions).all()
            and (self.entry[:n_entries] >= 0).all()
            and (self.entry[:n_entries] < len(self.average)).all()
        )

    def with_slots(self) -> ChainState:
        """The same state with twice as many slots for each position."""
        free = np.full_like(self.pair, -1)
        return self._replace(
            pair=np.hstack([self.pair, free]), mass=np.hstack([self.mass, np.zeros_like(self.mass)])
        )


@dataclass(frozen=True)
class ChainCoordinateAscent(HardAscent):
    """Moves mass between two labellings of a run of positions by exact line search; no step size at all.

    A visit takes a step along each run of positions in which the best labelling of an example differs from the worst
    labelling in use. Every direction is kept with its difference of features. After every tenth of a pass, sweeps go
    over the directions that still gain. Sweeps need no search for labellings, and they balance examples that share
    features. The solver was called `segments` before; that name still works.

    Parameters
    ----------
    n_sweeps : int
        Sweeps after each tenth of a pass. More sweeps take fewer passes.
    precision : {"auto", "single", "double"}
        Precision of v; "auto" follows `tol`. Certificates are always in double precision.

    Notes
    -----
    A position keeps the pairs of labels that have mass, mostly one. A direction keeps one number for each feature in
    which its two labellings differ. The number of directions grows with the run, to a few for every example.
    """

    n_sweeps: int = 2
    precision: Literal["auto", "single", "double"] = "auto"
    name = "chain-cd"
    needs = Needs(loss="hard", first_order=True, whole_labels=True, exact=True, ridge=True)

    def check(self, problem: Problem) -> None:
        check_precision(self.precision)
        if self.n_sweeps < 0:
            raise InputError(f"n_sweeps must be >= 0, not {self.n_sweeps}")
        if not problem.is_in_memory and problem.has_features:
            raise InputError(
                "solver 'chain-cd' moves between all examples at any time and needs them in memory: raise shard_mb, or "
                "use 'eg-gap' or 'bcfw'"
            )
        if not problem.is_in_memory:
            raise InputError(
                "solver 'chain-cd' keeps the scores of all points up to date and needs the whole kernel matrix in "
                "memory: raise cache_mb, or use 'bcfw'"
            )

    def memory_needed(self, problem: Problem) -> Memory:
        """An estimate for as many directions as runs on real data keep."""
        kinds = zip(problem.scorer.kinds, problem.structure.kinds, strict=True)
        own = [rows for rows, kind in kinds if not kind.tied]
        n_entries = sum(len(rows.wide_start) + len(rows.narrow_start) + rows.dense.size for rows in own)
        n_directions = max(n_labels_of(problem) / _LABELS_A_DIRECTION, 1.0)
        n_positions = int(problem.lengths.sum())
        kept = int(n_directions * (_OF_DIRECTION * n_positions + _OF_ATTRIBUTE * n_entries))
        return Memory(kept + COUNTS_BYTES, vectors_bytes(problem))

    def passes_expected(self, problem: Problem) -> float:
        return passes_of_exact_ascent(problem)

    def pass_work(self, problem: Problem, state: ChainState | None = None) -> float:
        """That of visits and of sweeps over the entries of all directions, at first as many as dense rows have."""
        n_dense = sum(rows.dense.size for rows in problem.scorer.kinds)
        return super().pass_work(problem) + _SWEPT * float(n_dense if state is None else state.used[2])

    def _shares(self, problem: Problem, state: ChainState) -> np.ndarray:
        return state.mass

    def init(self, problem: Problem, random: np.random.Generator) -> ChainState:
        # Scores of kernels take more small steps than weights, and need little memory beside the kernel matrix.
        precision = self.precision if problem.has_features else "double"
        n, dtype = problem.n_examples, state_type(precision)
        pair = np.full((int(problem.lengths.sum()), _FEW_SLOTS), -1, np.int32)
        pair[:, 0] = _gold_pairs(problem)
        mass = np.zeros(pair.shape)
        mass[:, 0] = 1.0
        v = np.zeros(problem.n_weights, dtype)
        point = PairPoint(pair, mass, v, np.zeros(n), np.full(n, np.nan), np.zeros(1))
        store = _empty_store(n, dtype)
        return ChainState(
            **point._asdict(),
            **store._asdict(),
            seen=np.full(n, -1.0),
            waited=np.ones(n),
            clock=np.zeros(1),
            average=v[: problem.n_sums].copy(),
            n_averaged=np.zeros(1),
        )

    def carry_over(self, problem: Problem, state: ChainState, changed: Set[str]) -> ChainState:
        """Pairs of labels and their mass stay. Directions stay if only l2 has changed: they hold features and costs."""
        if changed != {"l2"}:
            state = state._replace(**_empty_store(problem.n_examples, state.v.dtype)._asdict())
        carried: ChainState = super().carry_over(problem, state, changed)
        return carried

    def step(
        self, problem: Problem, state: ChainState, random: np.random.Generator
    ) -> tuple[ChainState, StepInfo]:
        weight, space = problem.batch.example_weight, _space(problem, state)
        for here in due_chunks(state, problem, random):
            state = self._visit(problem, state, here, space)
            note_visits(here, state.seen, state.waited, state.clock)
            for _ in range(self.n_sweeps):
                state = self._sweep(problem, state, space, random)
            add_to_average(state.average, state.n_averaged, state.v[: problem.n_sums])
        if isinstance(space, KernelSpace):
            close_space(space, state.v)
        gap = expected_gap(state.gap, state.seen, state.waited, float(state.clock[0]))
        return state, StepInfo(1.0, hard_dual(problem, state.point()), float(weight @ gap))

    def _visit(self, problem: Problem, state: ChainState, here: np.ndarray, space: Any) -> ChainState:
        for piece in visited_in_time(here):
            state = self._visit_piece(problem, state, piece, space)
        return state

    def _visit_piece(self, problem: Problem, state: ChainState, here: np.ndarray, space: Any) -> ChainState:
        scratch, chain, done = problem.scorer.scratch(state.v.dtype, asks=("best",)), _chain_view(problem), 0
        while done < len(here):
            workspace = _path_workspace(problem, state)
            visited, has_no_slot = chain_cd_pass(
                problem.batch, here[done:], chain, _scored_point(problem, state), state.store(), problem.loss.gamma,
                problem.l2, space, workspace, scratch,
            )  # fmt: skip
            done += visited
            if has_no_slot:
                state = state.with_slots()
            if done < len(here):
                state = state._replace(**enlarged(state.store())._asdict())
        return state

    def _sweep(
        self, problem: Problem, state: ChainState, space: Any, random: np.random.Generator
    ) -> ChainState:
        gain = state.number[: state.used[0], GAIN]
        is_due = gain > _WORTH_WHILE * gain.mean() if len(gain) else np.zeros(0, bool)
        order = random.permutation(np.flatnonzero(is_due | (random.random(len(gain)) < _UNIFORM_SHARE)))
        weight, gamma, l2 = problem.batch.example_weight, problem.loss.gamma, problem.l2
        has_no_slot = sweep(order, _scored_point(problem, state), state.store(), weight, gamma, l2, space)
        return state.with_slots() if has_no_slot else state


def _scored_point(problem: Problem, state: ChainState) -> PairPoint:
    """The point with the v that scores are read from: with kernel functions, the image of the coefficients."""
    point = state.point()
    return point if problem.has_features else point._replace(v=state.v[problem.n_sums :])


def _space(problem: Problem, state: ChainState) -> FeatureSpace | KernelSpace:
    if isinstance(problem, KernelProblem):
        return kernel_space(problem, state.v)
    return FeatureSpace(np.zeros(problem.n_weights))


def _chain_view(problem: Problem) -> ChainView:
    return ChainView(n_labels_of(problem), offsets(problem.lengths))


def _empty_store(n: int, dtype: Any) -> DirectionStore:
    return make_store(n, 4 * n, 16 * n, 256 * n, dtype)


def _gold_pairs(problem: Problem) -> np.ndarray:
    """The pair of true labels at every position, int (n_positions,)."""
    labels = problem.structure.decode_all(problem.gold, problem.scorer.shapes)
    before = np.concatenate([[0], labels[:-1]])
    before[offsets(problem.lengths)[:-1]] = 0
    return before * n_labels_of(problem) + labels


def _path_workspace(problem: Problem, state: ChainState) -> PathWorkspace:
    longest, n_slots = int(problem.lengths.max()), state.pair.shape[1]
    labels = np.zeros((2, longest), np.int64)
    return PathWorkspace(
        np.zeros((longest, n_slots)), np.zeros((longest, n_slots), np.int32), labels[0], labels[1]
    )


SegmentAscent = ChainCoordinateAscent  # the name before, for programs that use it
