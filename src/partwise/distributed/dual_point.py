"""What all solvers that visit examples keep, asked for in one way: v of α exactly, the dual's linear part, gaps."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.core.problem import Problem
from partwise.solvers.dual.block_coordinate import BlockFrankWolfe, CornerState
from partwise.solvers.dual.crammer_singer import ClassState, CrammerSinger
from partwise.solvers.dual.exponentiated_gradient import ExponentiatedGradient
from partwise.solvers.dual.hard import settle
from partwise.solvers.dual.potentials import EGState, certify, refresh
from partwise.solvers.dual.segments import SegmentAscent, SegmentState
from partwise.solvers.sampling import note_exact

VISITORS = (ExponentiatedGradient, BlockFrankWolfe, CrammerSinger, SegmentAscent)


def linear_part(problem: Problem, state: Any) -> float:
    """Σ_i weight_i (H(α_i)/β + γ expected cost), as kept up by visits."""
    value = problem.loss.gamma * state.cost
    if isinstance(state, EGState):
        value = value + problem.loss.inverse_beta * state.entropy
    return float(problem.batch.example_weight @ value)


def settled(problem: Problem, state: Any) -> np.ndarray:
    """v of α in double precision, (n_weights,); costs and entropies are made exact on the way."""
    if isinstance(state, EGState):
        return refresh(problem, state.point())
    shares = _shares(problem, state)
    shares /= shares.sum(axis=1, keepdims=True)
    return settle(problem, state.expected_counts(problem), _point(problem, state))


def noted_losses(problem: Problem, state: Any, weights: np.ndarray) -> float:
    """Σ_i weight_i ℓ_i at `weights`, which belong to α where gaps are to be true; they are brought up to date."""
    if isinstance(state, EGState):
        point, nothing = state.point(), np.zeros(0)
        found = certify(problem, point, nothing, weights).primal - problem.penalty(weights)
        if problem.loss.is_hard and state.beta[0] < np.inf:  # gaps of the sharpened problem are wanted
            point.gap[:] = np.maximum(point.gap - point.entropy / state.beta[0], 0.0)
    else:
        loss, inner = problem.losses(weights, state.expected_counts(problem))
        state.gap[:] = np.maximum(loss - inner, 0.0)
        found = float(problem.batch.example_weight @ loss)
    note_exact(state.seen, state.waited, state.clock)
    return found


def _shares(problem: Problem, state: Any) -> np.ndarray:
    """Of the labellings that a state keeps, one row an example or a position."""
    if isinstance(state, CornerState):
        return state.alpha
    if isinstance(state, SegmentState):
        return state.mass
    assert isinstance(state, ClassState)
    return state.mu.reshape(problem.n_examples, -1)


def _point(problem: Problem, state: Any) -> Any:
    return state.point(problem) if isinstance(state, CornerState) else state.point()
