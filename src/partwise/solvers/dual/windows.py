"""`windows`: dual coordinate ascent on the marginals of chains, a few positions at a time, for finite β."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from partwise.compiled.examples import Batch, Scratch
from partwise.compiled.rows import FIRST_ROW, KIND, N_ROWS, packed_rows
from partwise.core.arrays import offsets, ranges
from partwise.core.problem import Problem
from partwise.errors import InputError
from partwise.solvers.base import Certificate, StepInfo, check_precision, state_type
from partwise.solvers.dual.window_choice import cut_windows
from partwise.solvers.dual.window_pass import Chains, WindowPoint, WindowRule, window_pass, window_room
from partwise.solvers.dual.window_store import settle_pass
from partwise.solvers.needs import Needs, is_first_order
from partwise.solvers.sampling import most_due, note_visits
from partwise.structures.chain.chain import Chain
from partwise.structures.chain.forward_backward import ChainSpecification, chain_specification
from partwise.structures.contract import PositionLabels

_CHUNKS = 15  # of a pass; gaps learnt in one steer the next
_FLOOR = 1e-3  # of the mean: what a gap measured as zero may have become
_NOISE = 997  # random numbers that cuts are drawn with


class WindowState(NamedTuple):
    """A :class:`WindowPoint`, when each position was visited (see `sampling.py`), the mean of v over the last pass."""

    mu: np.ndarray
    v: np.ndarray
    gap: np.ndarray
    step: np.ndarray
    doubt: np.ndarray
    node_entropy: np.ndarray
    edge_entropy: np.ndarray
    norm: np.ndarray
    value: np.ndarray
    seen: np.ndarray
    waited: np.ndarray
    clock: np.ndarray
    average: np.ndarray
    n_averaged: np.ndarray

    def point(self) -> WindowPoint:
        return WindowPoint(*self[:9])


class Layout(NamedTuple):
    """What visits read besides a batch; made once for each problem's examples."""

    chains: Chains
    specification: ChainSpecification
    rows: Any
    held: Any
    part_ptr: np.ndarray


@dataclass(frozen=True)
class WindowAscent:
    """Mixes the marginals of a window of a chain with the model's, the neighbours' marginals held fixed.

    After a first pass over everything, those windows come next whose gaps are estimated to be largest. Windows are cut
    anew each time, where labels are certain, so that no border stays. The best mixture is found to about a tenth
    without another sum over labellings.

    Parameters
    ----------
    size : int
        About how many positions a window has.
    precision : {"auto", "single", "double"}
        Of the state; "auto" follows `tol`. Certificates are always computed in double precision.

    Notes
    -----
    A sentence of n positions and L labels takes n·L + (n − 1)·L² numbers, also where transitions are tied. A pass is as
    many visits to positions as there are; step sizes tried cost no sum over labellings and are not counted.
    """

    size: int = 8
    precision: Literal["auto", "single", "double"] = "auto"
    name = "windows"
    needs = Needs(loss="smooth", features=True, first_order=True, whole_labels=True, exact=True, ridge=True)

    def check(self, problem: Problem) -> None:
        check_precision(self.precision)
        if not (isinstance(self.size, (int, np.integer)) and self.size >= 1):
            raise InputError(f"size must be a whole number of at least 1, not {self.size!r}")

    # -- start ----------------------------------------------------------------------------------

    def init(self, problem: Problem, random: np.random.Generator) -> WindowState:
        chains, dtype = _layout(problem).chains, state_type(self.precision)
        n = int(chains.position_ptr[-1])
        v, average = np.zeros((2, problem.n_weights), dtype)
        return WindowState(
            mu=_true_marginals(problem, chains, dtype),
            v=v,
            gap=np.ones(n),
            step=np.full(n, 0.5),
            doubt=np.zeros(n),
            node_entropy=np.zeros(n),
            edge_entropy=np.zeros(n),
            norm=np.zeros(1),
            value=np.zeros(1),
            seen=np.full(n, -1.0),
            waited=np.ones(n),
            clock=np.zeros(1),
            average=average,
            n_averaged=np.zeros(1),
        )

    def carry_over(self, problem: Problem, state: WindowState, changed: Set[str]) -> WindowState:
        """Marginals stay; what was learnt of gaps was of another problem."""
        self._settle(problem, state)
        state.average[:], state.n_averaged[0] = state.v, 0.0
        state.clock[0], state.seen[:], state.waited[:] = 0.0, -1.0, 1.0
        return state

    # -- passes ---------------------------------------------------------------------------------

    def step(
        self, problem: Problem, state: WindowState, random: np.random.Generator
    ) -> tuple[WindowState, StepInfo]:
        layout, point, n = _layout(problem), state.point(), len(state.gap)
        batch, scratch = self._windowed(problem, layout), problem.scratch(state.v.dtype)
        longest = min(2 * self.size, int(problem.lengths.max()))
        rule, room = self._rule(problem, state), window_room(layout.specification, longest)
        state.n_averaged[0], visits = 0.0, 0
        for windows, order in self._chunks(problem, layout, state, random):
            window_pass(
                batch, layout.chains, layout.specification, windows, order, point, rule, room, scratch
            )
            i, first, last = windows[order].T
            note_visits(
                ranges(layout.chains.position_ptr[i] + first, last - first + 1),
                state.seen, state.waited, state.clock,
            )  # fmt: skip
            visits += int((last - first + 1).sum())
            state.n_averaged[0] += 1.0
            state.average[:] += (state.v - state.average) * state.v.dtype.type(1.0 / state.n_averaged[0])
        return state, StepInfo(visits / n, self._dual(problem, state), self._estimated_gap(problem, state))

    def _rule(self, problem: Problem, state: WindowState) -> WindowRule:
        single, loss = state.v.dtype == np.float32, problem.loss
        tolerance, threshold = (1e-7, 1e-8) if single else (1e-9, 1e-12)
        return WindowRule(loss.beta, loss.gamma, problem.l2, tolerance, threshold)

    def _chunks(
        self, problem: Problem, layout: Layout, state: WindowState, random: np.random.Generator
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Windows, and which of them to visit in which order, for about one pass."""
        n_examples, n = problem.n_examples, len(state.gap)
        windows, due = np.empty((n, 3), np.int64), np.empty(n)
        if state.clock[0] < 1.0 - 0.5 / _CHUNKS:
            for here in np.array_split(random.permutation(n_examples), min(_CHUNKS, n_examples)):
                count = self._cut(problem, layout, state, here, random, windows, due)
                yield windows[:count], np.arange(count)
            return
        everyone, end = np.arange(n_examples), state.clock[0] + 1.0 - 0.5 / _CHUNKS
        while state.clock[0] < end:
            count = self._cut(problem, layout, state, everyone, random, windows, due)
            yield windows[:count], most_due(due[:count], max(1, count // _CHUNKS), random)

    def _cut(
        self,
        problem: Problem,
        layout: Layout,
        state: WindowState,
        examples: np.ndarray,
        random: np.random.Generator,
        windows: np.ndarray,
        due: np.ndarray,
    ) -> int:
        now, floor = float(state.clock[0]), _FLOOR * float(state.gap.mean())
        return cut_windows(
            examples, self.size, layout.chains.position_ptr, problem.batch.example_weight, state.doubt, state.gap,
            state.seen, state.waited, now, floor, random.random(_NOISE), windows, due,
        )  # fmt: skip

    def _windowed(self, problem: Problem, layout: Layout) -> Batch:
        """One example, the window of the moment; and the next."""
        return problem.batch._replace(rows=layout.rows, part_ptr=layout.part_ptr)

    def _dual(self, problem: Problem, state: WindowState) -> float:
        return float(state.value[0] - state.norm[0] / (2.0 * problem.l2))

    def _estimated_gap(self, problem: Problem, state: WindowState) -> float:
        """Windows know nothing of what is to be gained across their borders; the driver learns by how much."""
        weight = np.repeat(problem.batch.example_weight, problem.lengths)
        return float((weight * state.gap) @ ((state.clock[0] - state.seen) / state.waited))

    # -- certificate ----------------------------------------------------------------------------

    def certificate(self, problem: Problem, state: WindowState) -> tuple[WindowState, Certificate]:
        kept = self._dual(problem, state)
        v = self._settle(problem, state)
        dual = float(state.value[0]) - problem.squared_norm(v) / (2.0 * problem.l2)
        weights = problem.weights_at(state.average.astype(np.float64) if state.n_averaged[0] else v)
        return state, Certificate(problem.primal(weights), dual, weights, abs(kept - dual))

    def _settle(self, problem: Problem, state: WindowState) -> np.ndarray:
        """Make marginals consistent and recompute all that follows from them; returns v unrounded."""
        layout = _layout(problem)
        tied, n_labels = layout.specification.tied, layout.specification.n_labels
        point, cost = state.point(), np.zeros(problem.n_examples)

        def work(first: int, last: int, scratch: Scratch, v: np.ndarray) -> None:
            for piece in problem.pieces(first, last, v=v):
                settle_pass(*piece, layout.chains, n_labels, tied, point, v, cost, scratch)

        v = problem.settled(problem.over_examples(np.float64, work, ("sums",)))
        loss, length = problem.loss, problem.lengths
        alone = np.repeat(length == 1, length)
        entropy = np.add.reduceat(
            state.edge_entropy - np.where(alone, -1.0, 1.0) * state.node_entropy,
            layout.chains.position_ptr[:-1],
        )
        state.v[:], state.norm[0] = v, problem.squared_norm(v)
        state.value[0] = problem.batch.example_weight @ (entropy / loss.beta + loss.gamma * cost)
        return v


def n_marginals(problem: Problem) -> int:
    """Numbers that a state holds for the nodes and the pairs of neighbours of all examples; 0 for other structures."""
    return int(_layout(problem).chains.mu_ptr[-1]) if is_first_order(problem.structure) else 0


def _layout(problem: Problem) -> Layout:
    return problem.kept("windows", lambda: _lay_out(problem))


def _lay_out(problem: Problem) -> Layout:
    structure, scorer, length = problem.structure, problem.scorer, problem.lengths.astype(np.int64)
    assert isinstance(structure, PositionLabels)
    n_labels = structure.n_labels
    specification = chain_specification(n_labels, tied=False)
    if isinstance(structure, Chain):
        masks = structure.allowed, structure.allowed_start, structure.allowed_end
        specification = chain_specification(n_labels, structure.tied, *masks)
    example = np.repeat(np.arange(problem.n_examples), np.diff(scorer.run_ptr))
    first_rows = np.zeros((2, problem.n_examples), np.int64)
    first_rows[scorer.runs[:, KIND], example] = scorer.runs[:, FIRST_ROW]
    n_kinds = len(scorer.kinds)
    runs = np.zeros((2 * n_kinds, 4), np.int64)
    runs[:, KIND] = np.tile(np.arange(n_kinds), 2)
    runs[runs[:, KIND] > 0, N_ROWS] = 1  # of tied edges
    rows, held = packed_rows(list(scorer.kinds), n_kinds * np.arange(3), runs)
    chains = Chains(
        length=length,
        position_ptr=offsets(length),
        mu_ptr=offsets(length * n_labels + (length - 1) * n_labels**2),
        part_ptr=problem.batch.part_ptr,
        node_row=first_rows[0],
        edge_row=first_rows[1],
        runs=held[0].runs,
    )
    most = int(np.diff(problem.batch.part_ptr).max())
    return Layout(chains, specification, rows, held, np.array([0, most, most]))


def _true_marginals(problem: Problem, chains: Chains, dtype: Any) -> np.ndarray:
    """Those of the true labels."""
    structure = problem.structure
    assert isinstance(structure, PositionLabels)
    n_labels, length = structure.n_labels, chains.length
    labels = np.asarray(structure.decode_all(problem.gold, problem.scorer.shapes), np.int64)
    mu = np.zeros(int(chains.mu_ptr[-1]), dtype)
    positions = np.arange(len(labels)) - np.repeat(chains.position_ptr[:-1], length)
    start = np.repeat(chains.mu_ptr[:-1], length)
    mu[start + positions * n_labels + labels] = 1.0
    pairs = np.flatnonzero(positions > 0)
    edges = start + np.repeat(length, length) * n_labels + (positions - 1) * n_labels**2
    mu[edges[pairs] + labels[pairs - 1] * n_labels + labels[pairs]] = 1.0
    return mu
