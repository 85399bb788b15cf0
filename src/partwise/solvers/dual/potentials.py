"""The dual point of solvers that keep potentials: its start, its evaluation and its certificate."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from partwise.core.problem import Problem
from partwise.solvers.base import Certificate
from partwise.solvers.dual.coded import coded_refresh, codes
from partwise.solvers.dual.coded_pass import CodedPoint
from partwise.solvers.dual.online_pass import DualPoint

# By which θ of the true label's rows exceeds others at the start: a probability near one.
GOLD_POTENTIAL = 6.0


class EGState(NamedTuple):
    """A :class:`DualPoint`, times of visits (see `sampling.py`), a mean of v with its number of points, and the
    progress of the run.

    `passes` is the number of passes (for annealing), in so many `rounds`. `step_l2` is the l2 that step sizes belong
    to, and `beta` the present sharpness. The fields from `holds` to `previous` belong to `acceleration.py`: whether it
    holds some weights; the round after which it holds all, or −1; the last gaps; and two vectors of weights, empty
    without acceleration. The last five fields are empty if tied potentials are stored. Otherwise the point is a
    :class:`CodedPoint`, with potentials of all other parts and no μ.
    """

    theta: np.ndarray
    mu: np.ndarray
    v: np.ndarray
    entropy: np.ndarray
    cost: np.ndarray
    gap: np.ndarray
    step: np.ndarray
    visited: np.ndarray
    norm: np.ndarray
    seen: np.ndarray
    waited: np.ndarray
    clock: np.ndarray
    average: np.ndarray
    n_averaged: np.ndarray
    passes: np.ndarray
    step_l2: np.ndarray
    beta: np.ndarray
    rounds: np.ndarray
    holds: np.ndarray
    since: np.ndarray
    recent: np.ndarray
    anchor: np.ndarray
    previous: np.ndarray
    code: np.ndarray
    scale: np.ndarray
    share: np.ndarray
    reference: np.ndarray
    turn: np.ndarray

    def point(self) -> AnyPoint:
        if not self.code.size:
            return DualPoint(*self[:9])
        own = {name: getattr(self, name) for name in CodedPoint._fields[:-3]}
        return CodedPoint(**own, mu=np.zeros(0), trial=np.zeros(0, np.int8), trial_scale=np.zeros(0))


AnyPoint: TypeAlias = DualPoint | CodedPoint


def starting_point(
    problem: Problem, start: str, dtype: type, gold_potential: float = GOLD_POTENTIAL
) -> DualPoint:
    """α at the true labels ("gold"), near them ("smoothed") or uniform, with its evaluation."""
    batch, n = problem.batch, problem.n_examples
    theta, mu = problem.zeros(batch.part_ptr, dtype), problem.zeros(batch.part_ptr, dtype)
    for first, last in problem.in_order() if start != "uniform" else ():
        begin, gold = batch.part_ptr[first], problem.gold_indices(first, last)
        n_parts, tied = np.diff(batch.part_ptr[first : last + 1]), np.full(last - first, batch.n_tied)
        is_row = np.repeat(
            np.tile([True, False], last - first), np.column_stack([n_parts - tied, tied]).ravel()
        )
        theta[begin : begin + len(is_row)][is_row] = -0.5 * gold_potential  # as in `add_gold_rows`
        theta[gold[is_row[gold - begin]]] = 0.5 * gold_potential
        if start == "gold":
            np.add.at(mu, gold, 1)
    visited = np.full(n, start != "gold", np.uint8)
    # The gap of an example without a visit is unknown. If it were infinite, no other example would be visited.
    point = DualPoint(
        theta=theta,
        mu=mu,
        v=np.zeros(problem.n_weights, dtype),
        entropy=np.zeros(n),
        cost=np.zeros(n),
        gap=np.ones(n),
        step=np.zeros(n),
        visited=visited,
        norm=np.zeros(1),
    )
    if start != "gold":
        refresh(problem, point)
    return point


def starting_coded_point(
    problem: Problem, start: str, dtype: type, gold_potential: float = GOLD_POTENTIAL
) -> CodedPoint:
    """The same with one byte for each tied potential; they are all zero."""
    batch, n = problem.batch, problem.n_examples
    own_ptr = batch.part_ptr - np.arange(n + 1) * batch.n_tied
    theta = problem.zeros(own_ptr, dtype)
    for first, last in problem.in_order() if start != "uniform" else ():
        theta[own_ptr[first] : own_ptr[last]] = -0.5 * gold_potential  # as in `add_gold_rows`
        parts = batch.gold_part[batch.gold_ptr[first] : batch.gold_ptr[last]]
        example = np.repeat(np.arange(first, last), np.diff(batch.gold_ptr[first : last + 1]))
        is_row = parts < np.diff(own_ptr)[example]
        theta[(own_ptr[example] + parts)[is_row]] = 0.5 * gold_potential
    point = CodedPoint(
        theta=theta,
        **codes(problem, batch.n_tied),
        v=np.zeros(problem.n_weights, dtype),
        entropy=np.zeros(n),
        cost=np.zeros(n),
        gap=np.ones(n),
        step=np.zeros(n),
        visited=np.full(n, start != "gold", np.uint8),
        norm=np.zeros(1),
        mu=np.zeros(0),
        trial=np.zeros(0, np.int8),
        trial_scale=np.zeros(0),
    )
    if start != "gold":
        refresh(problem, point)
    return point


def refresh(problem: Problem, point: AnyPoint) -> np.ndarray:
    """Recompute everything that follows from the potentials in double precision; returns v unrounded."""
    if isinstance(point, CodedPoint):
        return coded_refresh(problem, point)[0]
    exact = problem.at_potentials(point.theta, point.visited, point.mu)
    point.v[:] = exact.v
    point.entropy[:] = exact.entropy
    point.cost[:] = exact.cost
    point.norm[0] = problem.squared_norm(exact.v)
    return exact.v


def certify(problem: Problem, point: AnyPoint, v: np.ndarray, weights: np.ndarray) -> Certificate:
    """The certificate of P(weights) and D of a refreshed point; every gap g_i becomes exact."""
    if isinstance(point, CodedPoint):
        v, loss, inner = coded_refresh(problem, point, weights)
    else:
        loss, inner = problem.losses(weights, point.mu)
    value = problem.loss.inverse_beta * point.entropy + problem.loss.gamma * point.cost
    example_weight = problem.batch.example_weight
    point.gap[:] = np.maximum(loss - inner - problem.loss.inverse_beta * point.entropy, 0.0)
    dual = float(example_weight @ value) - problem.squared_norm(v) / (2.0 * problem.l2)
    primal = float(example_weight @ loss) + problem.penalty(weights)
    return Certificate(primal, dual, weights)
