"""What solvers that keep a distribution of each example for β = ∞ have in common."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.compiled.examples import Scratch
from partwise.core.problem import Problem
from partwise.solvers.base import Certificate
from partwise.solvers.dual.frank_wolfe_pass import mixture_pass
from partwise.solvers.sampling import note_exact


def hard_dual(problem: Problem, point: Any) -> float:
    """The dual from the costs and the norm a point keeps."""
    cost = problem.loss.gamma * (problem.batch.example_weight @ point.cost)
    return float(cost - point.norm[0] / (2.0 * problem.l2))


def add_to_average(average: np.ndarray, n_averaged: np.ndarray, v: np.ndarray) -> None:
    """The mean of the v so far, where the k-th counts like k to the seventh."""
    n_averaged[0] += 1.0
    share = 8.0 / (n_averaged[0] + 7.0)
    average += (v - average) * average.dtype.type(share)


def forget_averages(state: Any) -> None:
    """The problem has changed: the mean of the iterates begins anew, and all gaps are unknown.

    The point's v must have been settled already.
    """
    state.average[:], state.n_averaged[0] = state.v[: len(state.average)], 0.0
    state.gap[:], state.seen[:], state.waited[:], state.clock[0] = np.nan, -1.0, 1.0, 0.0


def settle(problem: Problem, mu: np.ndarray, point: Any) -> np.ndarray:
    """Recompute a point's v, costs and norm from the expected part counts `mu`; returns v in double precision."""

    def work(first: int, last: int, scratch: Scratch, v: np.ndarray) -> None:
        for piece in problem.pieces(first, last, v=v):
            mixture_pass(*piece, mu, v, point.cost, scratch)

    v = problem.settled(problem.over_examples(np.float64, work))
    point.v[:], point.norm[0] = v, problem.squared_norm(v)
    return v


def hard_certificate(
    problem: Problem, mu: np.ndarray, point: Any, v: np.ndarray, kept: float, average: np.ndarray | None
) -> Certificate:
    """The better of w(α) and of the mean of the iterates; the point's gaps are found on the way.

    Parameters
    ----------
    mu : ndarray (n_parts,)
        Marginals of α.
    v : ndarray (n_weights,) of float64
        That of α.
    kept : float
        The dual as it was kept up.
    average : ndarray (n_weights,) or None
    """
    dual = hard_dual(problem, point)
    candidates = [problem.weights_at(v)]
    if average is not None:
        candidates.insert(0, problem.weights_at(problem.settled(average.astype(np.float64))))
    best_primal, best_weights = np.inf, candidates[0]
    for weights in candidates:
        loss, inner = problem.losses(weights, mu)
        primal = float(problem.batch.example_weight @ loss) + problem.penalty(weights)
        if primal < best_primal:
            best_primal, best_weights = primal, weights
    point.gap[:] = np.maximum(loss - inner, 0.0)  # at w(α), the last candidate
    return Certificate(best_primal, dual, best_weights, abs(kept - dual))


def certificate_of_mixture(
    problem: Problem, state: Any, point: Any, shares: np.ndarray
) -> tuple[Any, Certificate]:
    """The certificate of a state that keeps, for every example, `shares` (n_examples, …) of labellings.

    Shares are made to add up to one, and what follows from them is computed anew.
    """
    kept = hard_dual(problem, point)
    shares /= shares.sum(axis=1, keepdims=True)
    mu = state.expected_counts(problem)
    v = settle(problem, mu, point)
    average = state.average if state.n_averaged[0] else None
    certificate = hard_certificate(problem, mu, point, v, kept, average)
    note_exact(state.seen, state.waited, state.clock)
    return state, certificate
