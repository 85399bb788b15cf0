"""The lean dual point, whose tied potentials take one byte each: its arrays, its reference, and its evaluation.

Tied parts (pairs of labels, rules) may be most of what an example keeps. At the optimum their potentials are β times
the tied weights, the same for all examples. A lean point keeps each potential as the distance from a reference, which
certificates renew. The distance takes one byte and is rounded at random, so that small steps are not lost. A visit
computes the marginals from these potentials; v follows exactly, and certificates are as true as others."""

from __future__ import annotations

import numpy as np

from partwise.compiled.examples import Scratch
from partwise.compiled.simd import LANES
from partwise.core.problem import Problem
from partwise.solvers.dual.coded_pass import CodedPoint, coded_pass, model_point_pass, recode_pass

_NOTHING = np.zeros(0)


def codes(problem: Problem, n_tied: int) -> dict[str, np.ndarray]:
    """The arrays of a state for `n_tied` tied potentials of each example, all zero."""
    n = problem.n_examples
    return {
        "code": problem.zeros(np.arange(n + 1) * n_tied, np.int8).reshape(n, n_tied),
        "scale": np.zeros(n),
        "share": np.zeros(n),
        "reference": np.zeros(n_tied),
        "turn": np.zeros(n, np.uint32),
    }


def no_codes() -> dict[str, np.ndarray]:
    """The same arrays, empty, for a state that stores tied potentials as they are."""
    none = np.zeros(0)
    return {
        "code": np.zeros((0, 0), np.int8),
        "scale": none,
        "share": none,
        "reference": none,
        "turn": np.zeros(0, np.uint32),
    }


def tied_scores(problem: Problem, weights: np.ndarray) -> np.ndarray:
    """Scores of the tied parts, the same for all examples, (n_tied,)."""
    kinds = zip(problem.structure.kinds, problem.scorer.kinds, strict=True)
    return np.concatenate(
        [weights[own.first_weight : own.first_weight + kind.width] for kind, own in kinds if kind.tied]
    )


def with_workspace(problem: Problem, point: CodedPoint) -> CodedPoint:
    """The point with its own workspace for one example, which every thread needs."""
    most = int(np.diff(problem.batch.part_ptr).max()) + 2 * LANES
    n_tied = problem.batch.n_tied
    return point._replace(mu=np.zeros(most), trial=np.zeros(n_tied, np.int8), trial_scale=np.zeros(1))


def recode(problem: Problem, point: CodedPoint) -> None:
    """Make the present tied scores the reference. This rounds potentials: everything else must be computed again."""
    weights = problem.weights_at(tied_scores(problem, point.v).astype(np.float64))

    def work(first: int, last: int, scratch: Scratch, v: np.ndarray) -> None:
        recode_pass(problem.batch, first, last, point, weights, scratch)

    problem.over_examples(np.float64, work, ())
    point.reference[:] = weights


def move_to_model(problem: Problem, point: CodedPoint, weights: np.ndarray) -> None:
    """α_i = p_i(weights): potentials are the model's own scores, and the tied ones are the reference."""
    read, loss = problem.scoring(weights), problem.loss

    def work(first: int, last: int, scratch: Scratch, v: np.ndarray) -> None:
        for piece in problem.pieces(first, last, read):
            model_point_pass(*piece, read, loss.beta, loss.gamma, point.theta, scratch)

    problem.over_examples(np.float64, work, ())
    point.reference[:] = tied_scores(problem, weights)
    point.share[:], point.scale[:], point.code[:] = loss.beta, 0.0, 0


def coded_refresh(
    problem: Problem, point: CodedPoint, weights: np.ndarray = _NOTHING
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Recompute everything that follows from the potentials, in double precision.

    Returns
    -------
    v : ndarray (n_weights,)
        Unrounded.
    loss, inner : ndarray (n_examples,)
        As :meth:`Problem.losses` returns them, if there are `weights`.
    """
    loss, inner = np.zeros((2, problem.n_examples))
    read = problem.scoring(weights) if weights.size else weights
    scored = read if weights.size else None

    def work(first: int, last: int, scratch: Scratch, v: np.ndarray) -> None:
        for piece in problem.pieces(first, last, scored, v):
            coded_pass(*piece, point, read, problem.loss.beta, problem.loss.gamma, v, inner, loss, scratch)

    v = problem.settled(problem.over_examples(np.float64, work, ("sums",)))
    point.v[:] = v
    point.norm[0] = problem.squared_norm(v)
    return v, loss, inner
