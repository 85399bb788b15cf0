"""The common part of solvers for β = ∞ that keep a distribution over labellings for each example."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Set
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from partwise.compiled.examples import Batch, Scratch
from partwise.core.batch_pass import loss_pass
from partwise.core.problem import Problem
from partwise.solvers.base import BlockAscent, Certificate
from partwise.solvers.dual.frank_wolfe_pass import mixture_pass
from partwise.solvers.sampling import note_exact

_PARTS_AT_ONCE = 2**21  # parts whose expected counts are written out together, if a state does not keep them
COUNTS_BYTES = 8 * _PARTS_AT_ONCE

# Gives expected counts of some examples, (n_parts,), and the batch whose parts begin with those of the first example.
Counts: TypeAlias = Callable[[Batch, int, int], tuple[Batch, np.ndarray]]


class HardAscent(BlockAscent):
    """Block-coordinate ascent for β = ∞ whose states keep, for every example, shares of labellings.

    States also have `average` and `n_averaged`, the weighted mean of v and the number of points in it, and the method
    ``add_counts(problem, batch, first, last, mu)``, unless a solver has its own `_counts`.
    """

    def _point(self, problem: Problem, state: Any) -> Any:
        """What visits change: v, norm, cost and gap among others."""
        return state.point()

    @abstractmethod
    def _shares(self, problem: Problem, state: Any) -> np.ndarray:
        """Shares of the labellings that a state keeps, one row for an example or a position."""

    def _counts(self, problem: Problem, state: Any) -> Counts | np.ndarray:
        """Expected part counts of the shares."""

        def counts(batch: Batch, first: int, last: int) -> tuple[Batch, np.ndarray]:
            start, end = batch.part_ptr[[first, last]]
            batch = batch._replace(part_ptr=batch.part_ptr - start, cost=batch.cost[start:])
            mu = np.zeros(end - start)
            state.add_counts(problem, batch, first, last, mu)
            return batch, mu

        return counts

    def carry_over(self, problem: Problem, state: Any, changed: Set[str]) -> Any:
        """Labellings and their shares stay."""
        settle(problem, self._counts(problem, state), self._point(problem, state))
        forget_averages(state)
        return state

    def exact_v(self, problem: Problem, state: Any) -> np.ndarray:
        shares = self._shares(problem, state)
        shares /= shares.sum(axis=1, keepdims=True)
        return settle(problem, state.expected_counts(problem), self._point(problem, state))

    def exact_losses(self, problem: Problem, state: Any, weights: np.ndarray) -> float:
        loss, inner = problem.losses(weights, state.expected_counts(problem))
        state.gap[:] = np.maximum(loss - inner, 0.0)
        note_exact(state.seen, state.waited, state.clock)
        return float(problem.batch.example_weight @ loss)

    def certificate(self, problem: Problem, state: Any) -> tuple[Any, Certificate]:
        """Shares are made to add up to one, and what follows from them is computed anew."""
        point, shares = self._point(problem, state), self._shares(problem, state)
        counts, kept = self._counts(problem, state), hard_dual(problem, point)
        for first, last in problem.in_order():
            shares[first:last] /= shares[first:last].sum(axis=1, keepdims=True)
        v = settle(problem, counts, point)
        average = state.average if state.n_averaged[0] else None
        certificate = hard_certificate(problem, counts, point, v, kept, average)
        note_exact(state.seen, state.waited, state.clock)
        return state, certificate


def _counted(
    batch: Batch, first: int, last: int, counts: Counts | np.ndarray
) -> Iterator[tuple[tuple[Batch, int, int], np.ndarray]]:
    """Arguments of passes for a few examples at a time, with their expected counts."""
    while first < last:
        until = int(np.searchsorted(batch.part_ptr, batch.part_ptr[first] + _PARTS_AT_ONCE, "right")) - 1
        until = min(max(until, first + 1), last)
        own, mu = (batch, counts) if isinstance(counts, np.ndarray) else counts(batch, first, until)
        yield (own, first, until), mu
        first = until


def hard_dual(problem: Problem, point: Any) -> float:
    """The dual from the costs and the norm that a point keeps."""
    cost = problem.loss.gamma * (problem.batch.example_weight @ point.cost)
    return float(cost - point.norm[0] / (2.0 * problem.l2))


def add_to_average(average: np.ndarray, n_averaged: np.ndarray, v: np.ndarray) -> None:
    """Add v to the mean, in which the k-th v weighs like k to the seventh."""
    n_averaged[0] += 1.0
    share = 8.0 / (n_averaged[0] + 7.0)
    average += (v - average) * average.dtype.type(share)


def forget_averages(state: Any) -> None:
    """After a change of the problem: the mean of the iterates starts again, and all gaps are unknown.

    The caller has settled the point's v already.
    """
    state.average[:], state.n_averaged[0] = state.v[: len(state.average)], 0.0
    state.gap[:], state.seen[:], state.waited[:], state.clock[0] = np.nan, -1.0, 1.0, 0.0


def image_of(problem: Problem, mu: np.ndarray) -> np.ndarray:
    """v of expected part counts, (n_weights,)."""
    point = _Image(np.zeros(problem.n_weights), np.zeros(problem.n_examples), np.zeros(1))
    return settle(problem, mu, point)


class _Image(NamedTuple):
    v: np.ndarray
    cost: np.ndarray
    norm: np.ndarray


def settle(problem: Problem, counts: Counts | np.ndarray, point: Any) -> np.ndarray:
    """Recompute a point's v, costs and norm from expected part counts; returns v in double precision."""

    def work(first: int, last: int, scratch: Scratch, v: np.ndarray) -> None:
        for piece in problem.pieces(first, last, v=v):
            for few, mu in _counted(*piece, counts):
                mixture_pass(*few, mu, v, point.cost, scratch)

    v = problem.settled(problem.over_examples(np.float64, work))
    point.v[:], point.norm[0] = v, problem.squared_norm(v)
    return v


def _losses(
    problem: Problem, weights: np.ndarray, counts: Counts | np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """As :meth:`Problem.losses`."""
    loss, inner = np.zeros((2, problem.n_examples))
    weights, beta, gamma = problem.scoring(weights), problem.loss.beta, problem.loss.gamma

    def work(first: int, last: int, scratch: Scratch, v: np.ndarray) -> None:
        for piece in problem.pieces(first, last, weights):
            for few, mu in _counted(*piece, counts):
                loss_pass(*few, weights, 1.0, beta, gamma, mu, inner, loss, scratch)

    problem.over_examples(np.float64, work)
    return loss, inner


def hard_certificate(
    problem: Problem,
    counts: Counts | np.ndarray,
    point: Any,
    v: np.ndarray,
    kept: float,
    average: np.ndarray | None,
) -> Certificate:
    """The certificate of w(α) or of the mean of the iterates, whichever is better; the point's gaps become exact.

    Parameters
    ----------
    counts : ndarray (n_parts,) or Counts
        Marginals of α.
    v : ndarray (n_weights,) of float64
        v of α.
    kept : float
        The dual as visits kept it.
    average : ndarray (n_weights,) or None
    """
    dual = hard_dual(problem, point)
    candidates = [problem.weights_at(v)]
    if average is not None:
        candidates.insert(0, problem.weights_at(problem.settled(average.astype(np.float64))))
    best_primal, best_weights = np.inf, candidates[0]
    for weights in candidates:
        loss, inner = _losses(problem, weights, counts)
        primal = float(problem.batch.example_weight @ loss) + problem.penalty(weights)
        if primal < best_primal:
            best_primal, best_weights = primal, weights
    point.gap[:] = np.maximum(loss - inner, 0.0)  # at w(α), the last candidate
    return Certificate(best_primal, dual, best_weights, abs(kept - dual))
