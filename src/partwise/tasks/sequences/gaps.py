"""Sequences with labels that were not observed, as a problem whose labels are known in part."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from partwise.core.arrays import block_of, offsets, positions, ranges
from partwise.core.losses import Loss
from partwise.core.partial import Gaps, PartialProblem
from partwise.core.problem import Problem
from partwise.errors import InputError
from partwise.estimators.model import Excluded


def with_gaps(problem: Problem, codes: np.ndarray) -> Problem:
    """The problem that sums over unobserved labels; the same one where there are none.

    Parameters
    ----------
    problem : Problem
        With any labels that fit in place of the unobserved ones.
    codes : int64 array, shape (n_positions,)
        Labels; −1 where not observed.
    """
    unknown = np.flatnonzero(codes < 0)
    if not unknown.size:
        return problem
    width, position_ptr = problem.structure.kinds[0].width, offsets(problem.lengths)
    example = block_of(position_ptr)[unknown]
    hidden: np.ndarray = np.zeros(problem.n_examples, np.uint8)
    hidden[example] = 1
    if problem.cost.size:  # no label costs anything where none was observed
        cost = problem.cost.copy()
        of_positions = ranges(problem.batch.part_ptr[:-1], problem.lengths * width)
        if np.count_nonzero(cost) > np.count_nonzero(cost[of_positions]):
            raise InputError("y has unobserved labels (None): costs of pairs of labels need all labels")
        first = problem.batch.part_ptr[example] + positions(problem.lengths)[unknown] * width
        cost[first[:, None] + np.arange(width)] = 0.0
        problem = replace(problem, cost=cost)
    return PartialProblem.of(problem, Gaps(hidden, *Excluded.all_but(codes, problem.lengths, width)))


def check_loss_for_gaps(loss: Loss, codes: np.ndarray) -> None:
    """Raise where labels are unobserved and the loss cannot sum over them."""
    if loss.is_hard and (codes < 0).any():
        raise InputError(
            f"y has unobserved labels (None), and loss={loss.name!r} has beta = inf: summing over "
            "them needs a finite beta: 'log', 'softmax_margin' or Loss(beta, gamma)"
        )
