"""Online learners without a learning rate: `mira`, `kbest-mira` and `perceptron` (Martins et al. 2010, §4).

They pass over the data and return the average of their iterates. Their fixed point is *not* the regularised optimum: l2
only bounds how far one example moves the weights. Train them for a few passes (`max_passes`). They rarely reach the
tolerance; the certificate tells how far from the optimum they stopped.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from partwise.core.arrays import offsets
from partwise.core.problem import Problem
from partwise.errors import InputError
from partwise.solvers.base import Certificate, Solver, StepInfo, evaluate_model, model_primal
from partwise.solvers.needs import Needs
from partwise.solvers.primal.mira_pass import HalfSpaces, augmented_scores, half_space_visit, mira_pass
from partwise.solvers.sampling import shuffled_chunks


class OnlineState(NamedTuple):
    """Weights, the moments of their average, and for β = ∞ a dual point.

    Attributes
    ----------
    weights : ndarray (n_weights,)
        The weights after the last visit.
    moments : ndarray (n_weights,)
        Σ_t t (w_t − w_{t−1}) over all visits t.
    n_visits, n_passes : ndarray (1,) of int64
    v : ndarray (n_weights,)
        v(α) of the mean over passes of the labels met; empty for finite β.
    cost : ndarray (1,)
        Its Σ_r μ_r e_r, summed over examples.
    """

    weights: np.ndarray
    moments: np.ndarray
    n_visits: np.ndarray
    n_passes: np.ndarray
    v: np.ndarray
    cost: np.ndarray

    def average(self) -> np.ndarray:
        """The mean of the weights over all visits, (n_weights,)."""
        return self.weights + (self.weights - self.moments) / max(int(self.n_visits[0]), 1)


class _Averaged(Solver):
    """The common part: a new order in every pass, the average, and the certificate.

    For finite β the dual point is α_i = p_i(average w). For β = ∞ it is a mean of the labels found for i, one in each
    pass, and later passes weigh more. The point is then moved towards the true labels as far as that raises D.
    """

    minimises = False
    needs = Needs(features=True, ridge=True)

    def init(self, problem: Problem, random: np.random.Generator) -> OnlineState:
        weights, moments = np.zeros((2, problem.n_weights))
        v = np.zeros(problem.n_weights if problem.loss.is_hard else 0)
        return OnlineState(weights, moments, np.zeros(1, np.int64), np.zeros(1, np.int64), v, np.zeros(1))

    def carry_over(self, problem: Problem, state: OnlineState, changed: Set[str]) -> OnlineState:
        """The weights and their average stay; labels found are no dual point of another problem."""
        state.v[:], state.cost[0], state.n_passes[0] = 0.0, 0.0, 0
        return state

    def step(
        self, problem: Problem, state: OnlineState, random: np.random.Generator
    ) -> tuple[OnlineState, StepInfo]:
        v, cost = np.zeros_like(state.v), 0.0
        for here in shuffled_chunks(problem, random):
            cost += self._visit(problem, state, here, v)
            state.n_visits[0] += len(here)
        state.n_passes[0] += 1
        share = 2.0 / (1.0 + state.n_passes[0])  # weighs pass t by t
        state.v[:] += share * (v - state.v)
        state.cost[0] += share * (cost - state.cost[0])
        return state, StepInfo(1.0)

    def _visit(self, problem: Problem, state: OnlineState, order: np.ndarray, v: np.ndarray) -> float:
        """Update on the examples of `order`; add v of the labels found to `v` unless it is empty; return their cost."""
        raise NotImplementedError

    def weights(self, problem: Problem, state: OnlineState) -> np.ndarray:
        return state.average()

    def certificate(self, problem: Problem, state: OnlineState) -> tuple[OnlineState, Certificate]:
        weights, loss, v = state.average(), problem.loss, state.v
        if loss.is_hard and state.n_passes[0] > 0:
            primal, linear = problem.primal(weights), loss.gamma * float(state.cost[0])
        else:
            point = evaluate_model(problem, weights)
            primal, v = model_primal(problem, weights, point), point.v
            value = loss.inverse_beta * point.entropy + loss.gamma * point.cost
            linear = float(problem.batch.example_weight @ value)
        return state, Certificate(
            primal, _dual_towards_truth(linear, problem.inner(v, v), problem.l2), weights
        )


def _dual_towards_truth(linear: float, norm: float, l2: float) -> float:
    """The largest D of (1 − s)·truth + s·α over s in [0, 1]; for finite β a lower bound of it.

    At the true labels D and v are zero and entropy is concave, so D is at least s·linear − s²·norm/(2 l2).
    """
    share = 1.0 if norm <= linear * l2 else linear * l2 / norm
    return share * linear - share * share * norm / (2.0 * l2)


def _run_pass(
    problem: Problem,
    state: OnlineState,
    order: np.ndarray,
    v: np.ndarray,
    unit: bool,
    beta: float,
    gamma: float,
    hard: bool,
) -> float:
    asks = ("best",) if hard else ("sums",)  # the perceptron needs the best label for every loss
    return float(
        mira_pass(
            problem.batch, order, state.weights, state.moments, int(state.n_visits[0]), 1.0 / problem.l2,
            unit, beta, gamma, hard, v, problem.scorer.scratch(np.float64, asks=asks),
        )
    )  # fmt: skip


@dataclass(frozen=True)
class MIRA(_Averaged):
    """w ← w − min(1/l2, ℓ_i(w)/‖g‖²) g with g = ∇ℓ_i(w), for every loss; returns the average of the iterates.

    With the hinge loss this is 1-best MIRA (max-loss updates, Crammer et al. 2006), with the log loss its CRF
    form. An example's weight multiplies 1/l2.
    """

    name = "mira"

    def _visit(self, problem: Problem, state: OnlineState, order: np.ndarray, v: np.ndarray) -> float:
        loss = problem.loss
        beta = 1.0 if loss.is_hard else loss.beta
        return _run_pass(problem, state, order, v, False, beta, loss.gamma, loss.is_hard)


@dataclass(frozen=True)
class Perceptron(_Averaged):
    """w ← w + φ(true) − φ(predicted) if the prediction is wrong; averaged (Collins 2002).

    The updates are those of β = ∞ and γ = 0 for every loss, and do not depend on l2. The loss and l2 decide only what
    the certificate measures. The weight of an example multiplies its update.
    """

    name = "perceptron"

    def _visit(self, problem: Problem, state: OnlineState, order: np.ndarray, v: np.ndarray) -> float:
        return _run_pass(problem, state, order, v, True, 1.0, 0.0, True)


@dataclass(frozen=True)
class KBestMIRA(_Averaged):
    """MIRA with the half-spaces of the k best labels; the small quadratic programme is solved by exchanging pairs.

    Parameters
    ----------
    k : int
        Number of labels for each example; k = 1 is `mira`.
    labels : {"augmented", "predicted"}
        The labels with the best score plus cost, or with the best score: the prediction-based variant of Crammer et al.
        (2006), whose updates still require margins as large as the cost.

    Notes
    -----
    All half-spaces of an example share one slack, as in min (l2/2)‖w' − w‖² + ℓ_i(w'), the problem that they
    approximate. The structure's `kbest` ranks labels outside compiled code, so that it is slower than `mira`.
    """

    k: int = 5
    labels: Literal["augmented", "predicted"] = "augmented"
    name = "kbest-mira"
    needs = Needs(loss="hard", features=True, whole_labels=True, exact=True, ridge=True)

    def check(self, problem: Problem) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int) or self.k < 1:
            raise InputError(f"k must be an integer of at least 1, not {self.k!r}")
        if self.labels not in ("augmented", "predicted"):
            raise InputError(f"labels must be augmented or predicted, not {self.labels!r}")

    def _visit(self, problem: Problem, state: OnlineState, order: np.ndarray, v: np.ndarray) -> float:
        scratch, gamma = problem.scratch(np.float64), problem.loss.gamma
        ranked_gamma = gamma if self.labels == "augmented" else 0.0
        workspace = self._workspace(problem, len(scratch.delta))
        first_visit, cost = int(state.n_visits[0]) + 1, 0.0
        shape, shape_ptr = problem.batch.shape, problem.batch.shape_ptr
        for t, i in enumerate(order, first_visit):
            count = augmented_scores(problem.batch, i, state.weights, ranked_gamma, scratch)
            parts = problem.structure.kbest_parts(
                shape[shape_ptr[i] : shape_ptr[i + 1]], scratch.potentials[:count].copy(), self.k
            )
            ptr = offsets([len(p) for p in parts])
            cost += half_space_visit(
                problem.batch, i, ptr, np.concatenate(parts), state.weights, state.moments, t,
                1.0 / problem.l2, gamma, v, workspace, scratch,
            )  # fmt: skip
        return cost

    def _workspace(self, problem: Problem, size: int) -> HalfSpaces:
        rows = self.k + 1
        return HalfSpaces(
            np.zeros(problem.n_weights), np.zeros((rows, size)), np.zeros((rows, rows)), np.zeros(rows),
            np.zeros(rows),
        )  # fmt: skip
