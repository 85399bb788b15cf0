"""Labels that are known in part, bound to a problem: unobserved labels, sets of labels, distributions over labels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from partwise.compiled.simd import LANES
from partwise.core.arrays import block_of, offsets, positions, ranges
from partwise.core.losses import Loss
from partwise.core.partial import Gaps, PartialProblem
from partwise.core.problem import Problem
from partwise.errors import InputError
from partwise.estimators.alternatives import NONE, Alternatives
from partwise.estimators.model import Excluded
from partwise.structures.contract import PartLists
from partwise.structures.costs import cost_matrix
from partwise.structures.packed import Packed


def with_gaps(
    problem: Problem, codes: np.ndarray, sets: Alternatives = NONE, cost: Any = "hamming"
) -> Problem:
    """The problem that sums over all labels that are possible; the same one where all labels are known.

    Parameters
    ----------
    problem : Problem
        With any possible labels in place of those that are not known.
    codes : int64 array, shape (n_positions,)
        Labels; −1 where not observed, or where there is a set of them.
    sets : Alternatives
    cost : str or ndarray
        The estimator's cost, which sets need. A wrong label costs what it costs beside the possible label that it is
        cheapest beside.
    """
    unknown = np.flatnonzero(codes < 0)
    if not unknown.size:
        return problem
    width, position_ptr = problem.structure.kinds[0].width, offsets(problem.lengths)
    example = block_of(position_ptr)[unknown]
    hidden: np.ndarray = np.zeros(problem.n_examples, np.uint8)
    hidden[example] = 1
    if problem.cost.size:  # no label costs anything where none was observed
        own_cost = problem.cost.copy()
        of_positions = ranges(problem.batch.part_ptr[:-1], problem.lengths * width)
        if np.count_nonzero(own_cost) > np.count_nonzero(own_cost[of_positions]):
            raise InputError(
                "y has unobserved labels (None, or sets): costs of pairs of labels need all labels"
            )
        first = problem.batch.part_ptr[example] + positions(problem.lengths)[unknown] * width
        rows = np.zeros((len(unknown), width))
        if sets:
            rows[np.searchsorted(unknown, sets.at)] = _costs_of_sets(sets, cost, width)
        own_cost[first[:, None] + np.arange(width)] = rows
        problem = replace(problem, cost=own_cost)
    excluded = _excluded(codes, sets, problem.lengths, width)
    return PartialProblem.of(problem, Gaps(hidden, *excluded))


def _costs_of_sets(sets: Alternatives, cost: Any, width: int) -> np.ndarray:
    """Costs (k, width) of labels at positions with a set; those of the set cost nothing."""
    if isinstance(cost, dict):
        raise InputError("y has sets of labels: cost must be 'hamming' or a matrix, not a dict of kinds")
    return np.minimum.reduceat(cost_matrix(cost, width)[sets.label], sets.ptr[:-1], axis=0)


def _excluded(codes: np.ndarray, sets: Alternatives, lengths: np.ndarray, width: int) -> Excluded:
    """The parts of labels that are not possible."""
    known = Excluded.all_but(codes, lengths, width)
    if not sets:
        return known
    is_out: np.ndarray = np.ones((len(sets.at), width), bool)
    is_out[np.repeat(np.arange(len(sets.at)), sets.sizes), sets.label] = False
    place, label = np.nonzero(is_out)
    at = sets.at[place]
    example = np.concatenate([block_of(known.ptr), block_of(offsets(lengths))[at]])
    part = np.concatenate([known.part, positions(lengths)[at] * width + label])
    order = np.argsort(example, kind="stable")
    return Excluded(offsets(np.bincount(example, minlength=len(lengths))), np.ascontiguousarray(part[order]))


def with_shares(problem: Problem, codes: np.ndarray, shares: Alternatives) -> Problem:
    """The problem with expected part counts in the place of the true ones; the same one without distributions.

    Labels of positions are independent of each other in these expectations. The loss of an example is then the
    expectation of its loss, log Σ_y exp β s(y) / β − Σ_y q(y) s(y): linear in the counts, and as convex as ever.

    Parameters
    ----------
    problem : Problem
        With any labels in place of distributions.
    codes : int64 array, shape (n_positions,)
        Labels of positions that have no distribution.
    """
    if not shares:
        return problem
    structure, lengths, gold = problem.structure, problem.lengths, problem.gold
    width, of_position = structure.kinds[0].width, block_of(offsets(lengths))
    touched = np.unique(of_position[shares.at])
    shapes = problem.scorer.shapes.take(touched)
    part_ptr = offsets(structure.n_parts(shapes))
    own = np.zeros(problem.n_examples, np.int64)
    own[touched] = part_ptr[:-1]
    inside = np.flatnonzero(np.isin(of_position, touched))
    first = own[of_position] + positions(lengths) * width
    scores = np.zeros(part_ptr[-1] + LANES)
    scores[first[inside][:, None] + np.arange(width)] = -np.inf
    plain = np.setdiff1d(inside, shares.at)
    scores[first[plain] + codes[plain]] = 0.0
    scores[np.repeat(first[shares.at], shares.sizes) + shares.label] = np.log(shares.share)
    _, counts = Packed(structure, structure.specification(), shapes, part_ptr, scores, False).answers("sums")
    used = np.flatnonzero(counts)
    block = block_of(part_ptr)[used]
    is_touched: np.ndarray = np.zeros(problem.n_examples, bool)
    is_touched[touched] = True
    old = block_of(gold.ptr)
    kept = ~is_touched[old]
    amount = gold.amount if gold.amount.size else np.ones(len(gold.part))
    example = np.concatenate([old[kept], touched[block]])
    order = np.argsort(example, kind="stable")
    part = np.concatenate([gold.part[kept], used - part_ptr[block]])[order]
    amount = np.concatenate([amount[kept], counts[used]])[order]
    ptr = offsets(np.bincount(example, minlength=problem.n_examples))
    return problem.with_gold(PartLists(ptr, part, amount))


def check_loss_for_gaps(loss: Loss, codes: np.ndarray, shares: Alternatives = NONE) -> None:
    """Raise where labels are known in part and the loss cannot sum over them, or has no expectation."""
    if loss.is_hard and (codes < 0).any():
        raise InputError(
            f"y has unobserved labels (None, or sets of labels), and loss={loss.name!r} has beta = inf: summing "
            "over them needs a finite beta: 'log', 'softmax_margin' or Loss(beta, gamma)"
        )
    if shares and (loss.is_hard or loss.gamma):
        raise InputError(
            f"y has distributions over labels (dicts), and loss={loss.name!r} has no expectation that is linear in "
            "them: use 'log', or Loss(beta) with a finite beta and without costs"
        )


def check_not_mixed(lengths: np.ndarray, codes: np.ndarray, shares: Alternatives) -> None:
    """Raise at a sequence with a distribution over labels in one place and an unknown label in another."""
    of_position = block_of(offsets(lengths))
    both = np.intersect1d(of_position[codes < 0], of_position[shares.at])
    if len(both):
        raise InputError(
            f"y: sequence {both[0]} has distributions over labels (dicts) beside unobserved labels (None, or sets); "
            "use one of them in a sequence: a dict can name every label"
        )
