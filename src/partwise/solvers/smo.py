"""Factored SMO on marginals, `smo` (Taskar, Guestrin, Koller 2004), and `smo-eg`, which goes on with online
exponentiated gradient from where SMO stopped (Bartlett, Collins, Taskar, McAllester 2004, §6). Both are for β = ∞.

SMO keeps marginals, which its steps need position by position: a chain with tied transitions is seen as one without
(`untied.py`), which costs n·L² numbers for a sentence of length n.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from partwise.errors import InputError
from partwise.kernels.smo_pass import MarginalPoint, smo_pass
from partwise.problem import Problem
from partwise.solvers.base import Certificate, StepInfo
from partwise.solvers.exponentiated_gradient import GOLD_POTENTIAL, EGState, ExponentiatedGradient, draw_by_gap
from partwise.solvers.untied import untied
from partwise.structures.base import positions
from partwise.structures.chain import Chain
from partwise.structures.multiclass import Multiclass


class SMOState(NamedTuple):
    """A :class:`MarginalPoint`, the weighted mean of v so far, and how many points went into it."""

    marginals: np.ndarray
    v: np.ndarray
    cost: np.ndarray
    gap: np.ndarray
    norm: np.ndarray
    average: np.ndarray
    n_averaged: np.ndarray

    def point(self) -> MarginalPoint:
        return MarginalPoint(*self[:5])


@dataclass(frozen=True)
class SMO:
    """Moves mass between two labellings of one example at a time, in the space of marginals; no step size.

    Parameters
    ----------
    n_exchanges : int
        Moves on an example before the next one; each counts as a visit.

    Notes
    -----
    Taskar et al. move the mass that the distribution of largest entropy puts on a labelling. Marginals of a tree allow
    more, the least marginal of the parts that lose, and all of it is used here: the plateau at which Bartlett et al.
    saw SMO stop does not come from the dual.
    """

    n_exchanges: int = 3
    name = "smo"

    def check(self, problem: Problem) -> None:
        _check(problem, self.name)
        if isinstance(self.n_exchanges, bool) or not isinstance(self.n_exchanges, int) or self.n_exchanges < 1:
            raise InputError(f"n_exchanges must be an integer of at least 1, not {self.n_exchanges!r}")

    def init(self, problem: Problem, random: np.random.Generator) -> SMOState:
        view, n = untied(problem), problem.n_examples
        v, average = np.zeros((2, view.n_weights))
        return SMOState(_gold(view), v, np.zeros(n), np.full(n, np.nan), np.zeros(1), average, np.zeros(1))

    def step(
        self, problem: Problem, state: SMOState, random: np.random.Generator
    ) -> tuple[SMOState, StepInfo]:
        view, point, n = untied(problem), state.point(), problem.n_examples
        scratch, visits, chunk = view.scratch(np.float64), 0, max(1, n // 10)
        known = not np.isnan(point.gap).any()
        order = random.permutation(n)
        for first in range(0, n, chunk):
            here = order[first : first + chunk]
            if known:
                here = draw_by_gap(point.gap, view.batch.example_weight, len(here), random)
            visits += smo_pass(view.batch, here, point, view.loss.gamma, view.l2, self.n_exchanges, scratch)
            state.n_averaged[0] += 1.0
            state.average[:] += (point.v - state.average) * (8.0 / (state.n_averaged[0] + 7.0))
        gap = float(view.batch.example_weight @ point.gap)
        return state, StepInfo(visits / n, _dual(view, point), gap)

    def certificate(self, problem: Problem, state: SMOState) -> tuple[SMOState, Certificate]:
        """Marginals are made consistent again on the way, by way of their conditionals."""
        view, point = untied(problem), state.point()
        kept = _dual(view, point)
        everywhere = np.ones(view.n_examples, np.uint8)
        exact = view.at_potentials(conditional_potentials(view, point.mu), everywhere, point.mu)
        point.v[:], point.cost[:], point.norm[0] = exact.v, exact.cost, exact.v @ exact.v
        dual = _dual(view, point)
        candidates = [point.v / view.l2]
        if state.n_averaged[0]:
            candidates.insert(0, state.average / view.l2)
        best_primal, best_weights = np.inf, candidates[0]
        for weights in candidates:
            loss, inner = view.losses(weights, point.mu)
            primal = float(view.batch.example_weight @ loss + 0.5 * view.l2 * (weights @ weights))
            if primal < best_primal:
                best_primal, best_weights = primal, weights
        point.gap[:] = np.maximum(loss - inner, 0.0)  # at w(α), the last candidate
        return state, Certificate(best_primal, dual, best_weights[: problem.n_weights].copy(), abs(kept - dual))


def _check(problem: Problem, name: str) -> None:
    if not problem.loss.is_hard:
        raise InputError(
            f"solver {name!r} is for beta = inf and loss={problem.loss.name!r} has beta = {problem.loss.beta:g}: "
            "use an 'eg' solver"
        )
    structure = problem.structure
    if not isinstance(structure, Multiclass) and not (isinstance(structure, Chain) and structure.order == 1):
        raise InputError(
            f"solver {name!r} keeps marginals of classes, or of neighbours in a chain of order 1, and "
            f"{structure!r} has other parts: use 'bcfw' or an 'eg' solver"
        )


def _gold(problem: Problem) -> np.ndarray:
    """Marginals of the true labels."""
    batch, mu = problem.batch, np.zeros(problem.n_parts)
    mu[np.repeat(batch.part_ptr[:-1], np.diff(batch.gold_ptr)) + batch.gold_part] = 1.0
    return mu


def _dual(problem: Problem, point: MarginalPoint) -> float:
    cost = problem.loss.gamma * (problem.batch.example_weight @ point.cost)
    return float(cost - point.norm[0] / (2.0 * problem.l2))


# -- from marginals to potentials ------------------------------------------------------------------


def conditional_potentials(problem: Problem, mu: np.ndarray) -> np.ndarray:
    """θ whose marginals are `mu` again: log μ of the first node, then log of μ(t−1, t) / μ(t−1) on the edges.

    Parts without mass have θ = −inf, whatever their condition.

    Parameters
    ----------
    mu : ndarray (n_parts,)
        Consistent marginals of classes, or of an untied chain.
    """
    batch, width = problem.batch, problem.structure.n_labels
    theta = np.full(problem.n_parts, -np.inf)
    first = batch.part_ptr[:-1, None] + np.arange(width)
    edges = _edge_parts(problem)
    nodes = np.repeat(batch.part_ptr[:-1], batch.length) + positions(batch.length) * width
    theta[nodes[:, None] + np.arange(width)] = 0.0
    pairs = mu[edges].reshape(-1, width, width)
    with np.errstate(divide="ignore", invalid="ignore"):
        theta[first] = np.log(mu[first])
        theta[edges] = np.log(pairs / pairs.sum(axis=2, keepdims=True)).reshape(edges.shape)
    theta[np.isnan(theta)] = -np.inf
    return theta


def _edge_parts(problem: Problem) -> np.ndarray:
    """Part numbers of every edge block, (n_edges, L²)."""
    batch, width = problem.batch, problem.structure.n_labels
    n_edges = batch.length - 1
    first = np.repeat(batch.part_ptr[:-1] + batch.length * width, n_edges)
    return (first + positions(n_edges) * width**2)[:, None] + np.arange(width**2)
