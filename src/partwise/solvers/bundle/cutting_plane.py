"""Cutting planes: `svm-struct` (a working set for each example) and `bmrm` (one bundle for the whole loss).

Both solve the problem over the planes found so far, ask the oracle at the solution, and add the plane found there. The
solution is a dual point, which gives the certificate. A pass is one call of the oracle for all examples.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from partwise.compiled.examples import Scratch
from partwise.core.problem import Problem
from partwise.errors import InputError
from partwise.solvers.base import (
    Certificate,
    Memory,
    Solver,
    StepInfo,
    evaluate_model,
    model_primal,
    vectors_bytes,
)  # fmt: skip
from partwise.solvers.bundle.active_set import maximise_on_simplex
from partwise.solvers.bundle.cutting_plane_pass import (
    REPLACED,
    Planes,
    find_planes,
    planes_pass,
    sweep_planes,
)
from partwise.solvers.needs import Needs

_MAX_SWEEPS = 300  # sweeps over the working sets in a step
_SWEEP_TARGET = 0.1  # share of the last gap below which a new plane gains more than further sweeps


def _check_memory(memory: int, least: int) -> None:
    if isinstance(memory, bool) or not isinstance(memory, int) or memory < least:
        raise InputError(f"memory must be an integer of at least {least}, not {memory!r}")


# -- n slacks ---------------------------------------------------------------------------------------


class PlanesState(NamedTuple):
    """The :class:`Planes` of all examples, v(α), and the last known gap (inf before the first)."""

    part: np.ndarray
    cost: np.ndarray
    share: np.ndarray
    gram: np.ndarray
    n_used: np.ndarray
    v: np.ndarray
    gap: np.ndarray

    def planes(self, problem: Problem) -> Planes:
        return Planes(*self[:5], problem.labelling_ptr())


@dataclass(frozen=True)
class SVMStruct(Solver):
    """SVM-struct with n slacks and margin rescaling, for β = ∞ (Tsochantaridis et al. 2005).

    Parameters
    ----------
    memory : int
        Labels kept for each example besides the true one, which takes memory² numbers for each example. If there are
        more, one without a share is dropped. If all have shares, the one whose share another can take over at the
        least loss is dropped, and then the gap may not close.

    Notes
    -----
    The programme over the working sets is solved block by block, by exact exchanges of two labels, until its own gap is
    a tenth of the last gap over all labels. These sweeps call no oracle and do not count as passes.
    """

    memory: int = 20
    name = "svm-struct"
    needs = Needs(loss="hard", features=True, whole_labels=True, exact=True, ridge=True)

    def check(self, problem: Problem) -> None:
        _check_memory(self.memory, 2)

    def init(self, problem: Problem, random: np.random.Generator) -> PlanesState:
        n, width = problem.n_examples, self.memory + 1
        share = np.zeros((n, width))
        share[:, 0] = 1.0
        return PlanesState(
            part=np.full((self.memory, problem.labelling_ptr()[-1]), -1, np.int32),
            cost=np.zeros((n, width)),
            share=share,
            gram=np.zeros((n, width, width)),
            n_used=np.ones(n, np.int64),
            v=np.zeros(problem.n_weights),
            gap=np.full(1, np.inf),
        )

    def carry_over(self, problem: Problem, state: PlanesState, changed: Set[str]) -> PlanesState:
        """Planes are differences of features and costs from the true labels, and hold for any l2."""
        if changed == {"l2"}:
            state.gap[0] = np.inf
            return state
        return self.init(problem, np.random.default_rng(0))

    def step(
        self, problem: Problem, state: PlanesState, random: np.random.Generator
    ) -> tuple[PlanesState, StepInfo]:
        self._solve(problem, state, random)
        dual = self._dual(problem, state)
        gap, outcome = self._ask(problem, state)
        state.gap[0] = problem.batch.example_weight @ gap
        if (outcome == REPLACED).any():
            state.v[:] = _planes_image(problem, state.planes(problem))
        return state, StepInfo(1.0, dual, max(float(state.gap[0]), 0.0))

    def _solve(self, problem: Problem, state: PlanesState, random: np.random.Generator) -> None:
        """Sweeps over the working sets until their own gap is small beside the gap over all labels."""
        slope, before = np.zeros((2, self.memory + 1))
        for _ in range(_MAX_SWEEPS if state.n_used.max() > 1 else 0):
            inner_gap = sweep_planes(
                problem.batch, random.permutation(problem.n_examples), state.v, problem.l2,
                problem.loss.gamma, state.planes(problem), slope, before, problem.scratch(np.float64),
            )  # fmt: skip
            if inner_gap <= _SWEEP_TARGET * state.gap[0]:
                break

    def _ask(self, problem: Problem, state: PlanesState) -> tuple[np.ndarray, np.ndarray]:
        """The gap of every example at w(α), and what happened to the label found there."""
        loss, gap = np.zeros((2, problem.n_examples))
        outcome, planes = np.zeros(problem.n_examples, np.uint8), state.planes(problem)

        def work(first: int, last: int, scratch: Scratch, workspace: np.ndarray) -> None:
            find_planes(
                problem.batch, first, last, state.v, problem.l2, problem.loss.gamma, planes, loss, gap,
                outcome, workspace, scratch,
            )  # fmt: skip

        problem.over_examples(np.float64, work)
        return gap, outcome

    def _dual(self, problem: Problem, state: PlanesState) -> float:
        cost = problem.loss.gamma * np.einsum("ij,ij->i", state.share, state.cost)
        return float(problem.batch.example_weight @ cost - (state.v @ state.v) / (2.0 * problem.l2))

    def certificate(self, problem: Problem, state: PlanesState) -> tuple[PlanesState, Certificate]:
        kept = self._dual(problem, state)
        state.v[:] = _planes_image(problem, state.planes(problem))
        dual, weights = self._dual(problem, state), state.v / problem.l2
        return state, Certificate(problem.primal(weights), dual, weights, abs(kept - dual))


def _planes_image(problem: Problem, planes: Planes) -> np.ndarray:
    """v(α), recomputed."""
    truth = np.zeros(planes.cost.shape[1])
    truth[0] = 1.0

    def work(first: int, last: int, scratch: Scratch, v: np.ndarray) -> None:
        planes_pass(problem.batch, first, last, planes, truth, v, scratch)

    return problem.over_examples(np.float64, work)


# -- one slack --------------------------------------------------------------------------------------


class BundleState(NamedTuple):
    """Planes below Σ_i ℓ_i, the solution over them, and the best weights so far.

    Attributes
    ----------
    v : ndarray (memory, n_weights)
        v(α_k) of the model's distributions at past weights; a plane is w ↦ offset_k − v_k·w.
    offset : ndarray (memory,)
        Σ_i H(α_k,i)/β + γ Σ_r μ_r e_r.
    gram : ndarray (memory, memory)
        v_k·v_l.
    share : ndarray (memory,)
        λ, the solution over the bundle.
    idle : ndarray (memory,) of int64
        Steps since the plane last had a share; −1 without a plane.
    weights, best : ndarray (n_weights,)
        Σ_k λ_k v_k / l2, and the weights with the lowest objective met.
    value : ndarray (1,)
        Their objective; inf before the first.
    """

    v: np.ndarray
    offset: np.ndarray
    gram: np.ndarray
    share: np.ndarray
    idle: np.ndarray
    weights: np.ndarray
    best: np.ndarray
    value: np.ndarray


@dataclass(frozen=True)
class BMRM(Solver):
    """The bundle method with one slack, for every loss (Teo, Vishwanathan, Smola, Le 2010).

    Parameters
    ----------
    memory : int
        Planes kept, each a vector of weights. If there are more, one without a share is dropped, or the two with the
        smallest shares are merged, which does not change the dual.

    Notes
    -----
    The dual point is the mixture Σ_k λ_k α_k of the models at past weights. Its entropy is at least the mixture of
    their entropies, so the objective of the bundle, Σ_k λ_k offset_k − ‖Σ_k λ_k v_k‖²/(2 l2), is a lower bound of D. An
    active-set method solves the small programme (``active_set.py``).
    """

    memory: int = 100
    name = "bmrm"
    needs = Needs(ridge=True)
    shards = "sums"
    runs_on_gpu = True

    def check(self, problem: Problem) -> None:
        _check_memory(self.memory, 3)

    def memory_needed(self, problem: Problem) -> Memory:
        return Memory(weights=vectors_bytes(problem, self.memory))

    def init(self, problem: Problem, random: np.random.Generator) -> BundleState:
        offset, share = np.zeros((2, self.memory))
        idle = np.full(self.memory, -1)
        share[0], idle[0] = 1.0, 0  # the plane of the true labels: no loss is below zero
        weights, best = np.zeros((2, problem.n_weights))
        v, gram = np.zeros((self.memory, problem.n_weights)), np.zeros((self.memory, self.memory))
        return BundleState(v, offset, gram, share, idle, weights, best, np.full(1, np.inf))

    def carry_over(self, problem: Problem, state: BundleState, changed: Set[str]) -> BundleState:
        """The best weights stay, and the next plane is found there. Planes hold for any l2."""
        if changed == {"l2"}:
            state.value[0] = np.inf
            _solve_bundle(state, problem.l2)
            return state
        fresh = self.init(problem, np.random.default_rng(0))
        return fresh._replace(weights=state.best.copy(), best=state.best)

    def step(
        self, problem: Problem, state: BundleState, random: np.random.Generator
    ) -> tuple[BundleState, StepInfo]:
        point = evaluate_model(problem, state.weights)
        primal = model_primal(problem, state.weights, point)
        if primal < state.value[0]:
            state.value[0], state.best[:] = primal, state.weights
        value = problem.loss.inverse_beta * point.entropy + problem.loss.gamma * point.cost
        _add_plane(problem, state, point.v, float(problem.batch.example_weight @ value))
        _solve_bundle(state, problem.l2)
        dual = _bundle_dual(state, problem.l2)
        return state, StepInfo(1.0, dual, max(float(state.value[0]) - dual, 0.0))

    def certificate(self, problem: Problem, state: BundleState) -> tuple[BundleState, Certificate]:
        """From the evaluation of the best weights, in double precision; a pass only if there is no evaluation yet."""
        primal = float(state.value[0])
        if not np.isfinite(primal):
            primal = problem.primal(state.best)
        v = state.share @ state.v
        dual = float(state.share @ state.offset - problem.inner(v, v) / (2.0 * problem.l2))
        drift = abs(_bundle_dual(state, problem.l2) - dual)
        return state, Certificate(primal, dual, state.best.copy(), drift)


def _bundle_dual(state: BundleState, l2: float) -> float:
    return float(state.share @ state.offset - state.share @ state.gram @ state.share / (2.0 * l2))


def _solve_bundle(state: BundleState, l2: float) -> None:
    """Solve for λ and the weights."""
    used = np.flatnonzero(state.idle >= 0)
    matrix = state.gram[np.ix_(used, used)] / l2
    if not (np.isfinite(matrix).all() and np.isfinite(state.offset[used]).all()):
        return  # out of range: the certificate reports it
    state.share[used] = maximise_on_simplex(matrix, state.offset[used], state.share[used])
    state.idle[used] = np.where(state.share[used] > 0.0, 0, state.idle[used] + 1)
    state.weights[:] = state.share @ state.v / l2


def _add_plane(problem: Problem, state: BundleState, v: np.ndarray, offset: float) -> None:
    """Store a plane with share zero in a free slot, that of the plane idle longest, or one that a merger frees."""
    empty = np.flatnonzero(state.idle < 0)
    if len(empty):
        slot = int(empty[0])
    elif state.idle.max() > 0:
        slot = int(state.idle.argmax())
    else:
        slot, into = (int(k) for k in np.argsort(state.share)[:2])
        _merge(problem, state, slot, into)
    state.v[slot], state.offset[slot] = v, offset
    state.share[slot], state.idle[slot] = 0.0, 0
    _update_gram(problem, state, slot)


def _merge(problem: Problem, state: BundleState, source: int, into: int) -> None:
    """Replace two planes by their mean, weighted by their shares."""
    total = state.share[source] + state.share[into]
    part = state.share[source] / total
    state.v[into] += part * (state.v[source] - state.v[into])
    state.offset[into] += part * (state.offset[source] - state.offset[into])
    state.share[into] = total
    _update_gram(problem, state, into)


def _update_gram(problem: Problem, state: BundleState, slot: int) -> None:
    row = [problem.inner(v, state.v[slot]) for v in state.v]
    state.gram[slot] = state.gram[:, slot] = row
