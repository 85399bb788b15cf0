"""The cost of a pass of a solver, estimated from sizes and not from a clock, so that equal runs decide alike.

The unit is about a nanosecond, and only ratios matter. The constants were fitted to runs of `benchmarks/regret.py`.
"""

from __future__ import annotations

import numpy as np

from partwise.core.problem import Problem
from partwise.core.products import n_distinct
from partwise.solvers.primal.curvature import has_whole_blocks, is_worthwhile

_A_PASS, _A_VISIT = 2e5, 800.0  # of an online solver: work once in a pass, and once for each example
_A_CHUNK, _FEWEST_CHUNKS, _MOST_CHUNKS = 3e5, 3, 10  # effort of visits chosen together; chunks in a pass
_AN_EVALUATION = 2e5  # fixed part of an evaluation of all examples
# To score and scatter a weight in a visit: alone, or in dense blocks.
_ENTRY_ONLINE, _ENTRY_IN_BLOCK = 0.3, 0.1
_ENTRY_SHARED = 1.3  # to scatter a weight that another thread may have changed last
_ENTRY_DOUBLE, _ENTRY_DENSE = 0.9, 0.35  # the same in double precision: sparse, or dense as a product
_A_WEIGHT_ONLINE, _A_WEIGHT = 4.0, 25.0  # for each weight: averaging; directions and bounds of L-BFGS
# Evaluations of L-BFGS to a relative gap of 1e-3 after an online solver: if it knows the curvature of all attributes,
# of some, or of none.
_SHAPED, _PARTLY_SHAPED, _UNSHAPED = 25.0, 50.0, 70.0
_CLOSE_BY = 15.0  # the same from a relative gap of a few per cent
_EASY = 2e-4  # stiffness above which the number of evaluations grows, about as its fourth root
_STEEP = 40.0  # if l1 / l2 is larger, online steps do not converge in a hundred passes
_SAMPLE = 4096  # dense rows that the size of features is estimated from


def online_pass_effort(problem: Problem) -> float:
    """Effort of a pass of online exponentiated gradient."""
    return _A_PASS + visits_effort(problem) + _A_WEIGHT_ONLINE * problem.n_weights


def visits_effort(problem: Problem) -> float:
    """Effort of the visits of such a pass."""
    return float(problem.kept("effort of visits", lambda: _visits_effort(problem)))


def _visits_effort(problem: Problem) -> float:
    padded = _padded_dense(problem) if problem.lengths.max(initial=1) > 1 else 0
    entries = _ENTRY_ONLINE * (problem.n_touched - padded) + _ENTRY_IN_BLOCK * padded
    return (
        _A_VISIT * problem.n_examples + entries + 1.2 * problem.structure.sums_effort(problem.scorer.shapes)
    )


def chunks_worthwhile(problem: Problem) -> int:
    """Number of chunks of a pass, so that the choice of the next examples takes little of its time."""
    return int(np.clip(visits_effort(problem) / _A_CHUNK, _FEWEST_CHUNKS, _MOST_CHUNKS))


def scatter_effort(problem: Problem) -> float:
    """Effort of the part of such a pass that changes weights, if several threads share them."""
    return _ENTRY_SHARED * problem.n_touched


def evaluation_effort(problem: Problem) -> float:
    """Effort of one evaluation of P and its gradient, and of the step of L-BFGS that follows."""
    dense = sum(
        n_distinct(problem.scorer, k) * kind.dense.shape[1] * kind.width
        for k, kind in enumerate(problem.scorer.kinds)
    )
    entries = _ENTRY_DENSE * dense + _ENTRY_DOUBLE * (problem.n_touched - _padded_dense(problem))
    sums = problem.structure.sums_effort(problem.scorer.shapes)
    return _AN_EVALUATION + entries + _A_WEIGHT * problem.n_weights + sums


def evaluations_expected(problem: Problem, is_close: bool = False) -> float:
    """Evaluations that L-BFGS may need to a relative gap of 1e-3, by how much of the curvature it knows.

    If it knows a part of the curvature, it needs more evaluations the weaker l2 is for the rest. If l2 is so weak that
    online steps suffer more, no more are expected. The same holds if all attributes are in blocks, or if the optimum
    `is_close`.
    """
    if is_close and not is_mostly_dense(problem):
        return _CLOSE_BY
    if not is_worthwhile(problem):
        return _UNSHAPED
    if is_mostly_dense(problem):
        return _SHAPED
    if has_whole_blocks(problem):
        return _PARTLY_SHAPED
    weakness = (1.0 - dense_share(problem)) * stiffness(problem) / _EASY
    return _PARTLY_SHAPED * (weakness**0.25 if 1.0 < weakness < 1.0 / _EASY else 1.0)


def is_mostly_dense(problem: Problem) -> bool:
    """Whether dense attributes have nearly all weights that a pass reads."""
    return _padded_dense(problem) > 0.9 * problem.n_touched


def stiffness(problem: Problem) -> float:
    """β Σ ‖x‖² over the rows of an example, divided by l2 · n. Above one, visits of examples undo each other."""
    weight = float(problem.example_weight.sum())
    return problem.loss.beta * pull_of_an_example(problem) / max(weight, 1e-300)


def is_steep(problem: Problem) -> bool:
    """Whether weights, (|v| − l1) / l2, are small differences of large numbers, so that online steps overshoot."""
    return problem.l1 > _STEEP * problem.l2


def pull_of_an_example(problem: Problem) -> float:
    """Σ ‖x‖² over the rows of an example, divided by l2: how far a visit moves its own scores."""
    return squared_features(problem) / max(problem.l2 * problem.n_examples, 1e-300)


def squared_features(problem: Problem) -> float:
    """Σ ‖x‖² over all rows; dense attributes are sampled."""
    return sum(_squares(problem))


def dense_share(problem: Problem) -> float:
    """The share of dense attributes in Σ ‖x‖²."""
    dense, sparse = _squares(problem)
    return dense / max(dense + sparse, 1e-300)


def _squares(problem: Problem) -> tuple[float, float]:
    """Σ x² over dense attributes and over all others."""

    def count() -> tuple[float, float]:
        dense = sparse = 0.0
        for kind in problem.scorer.kinds:
            every = max(1, len(kind.dense) // _SAMPLE)
            sample = kind.dense[::every]
            dense += every * float(np.vdot(sample, sample))
            for value, n_entries in (
                (kind.wide_value, len(kind.wide_start)),
                (kind.narrow_value, len(kind.narrow_start)),
            ):
                sparse += float(np.vdot(value, value)) if value.size else n_entries
        return dense, sparse

    found: tuple[float, float] = problem.kept("squared features in all", count)
    return found


def _padded_dense(problem: Problem) -> int:
    """Weights of dense attributes that a pass reads or writes."""
    return sum(kind.dense.size * kind.stride for kind in problem.scorer.kinds)
