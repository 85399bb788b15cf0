"""What a pass of a solver costs, counted from the data and not from a clock, so that equal runs decide alike.

The unit is about a nanosecond; only ratios matter. The numbers are from runs of `benchmarks/regret.py`.
"""

from __future__ import annotations

import numpy as np

from partwise.core.problem import Problem
from partwise.core.products import n_distinct
from partwise.solvers.primal.curvature import has_whole_blocks, is_worthwhile

_A_PASS, _A_VISIT = 2e5, 800.0  # of an online solver: sampling and the like; one example, in random order
_A_CHUNK, _FEWEST_CHUNKS, _MOST_CHUNKS = 3e5, 3, 10  # of visits, between which the next ones are chosen
_AN_EVALUATION = 2e5  # of all examples at once, whatever their number
_ENTRY_ONLINE, _ENTRY_IN_BLOCK = 0.3, 0.1  # scored and scattered in a visit; dense ones of several rows
_ENTRY_SHARED = 1.3  # scattered where another thread may have changed it last
_ENTRY_DOUBLE, _ENTRY_DENSE = 0.9, 0.35  # the same in double precision; dense ones as products of matrices
_A_WEIGHT_ONLINE, _A_WEIGHT = 4.0, 25.0  # averaging; the directions and bounds of L-BFGS
_SHAPED, _PARTLY_SHAPED, _UNSHAPED = (
    25.0,
    50.0,
    70.0,
)  # evaluations to 1e-3 from where an online solver leaves

_CLOSE_BY = 15.0  # the same from a gap of some per cent, where also sparse attributes have a curvature
_EASY = 2e-4  # stiffness from which on evaluations grow, about as its fourth root
_STEEP = 40.0  # times l2, an l1 from which on online steps get nowhere in a hundred passes
_SAMPLE = 4096  # rows that the size of features is estimated from


def online_pass_effort(problem: Problem) -> float:
    """Of a pass of online exponentiated gradient."""
    return _A_PASS + visits_effort(problem) + _A_WEIGHT_ONLINE * problem.n_weights


def visits_effort(problem: Problem) -> float:
    """Of the visits alone of such a pass."""
    return float(problem.kept("effort of visits", lambda: _visits_effort(problem)))


def _visits_effort(problem: Problem) -> float:
    padded = _padded_dense(problem) if problem.lengths.max(initial=1) > 1 else 0
    entries = _ENTRY_ONLINE * (problem.n_touched - padded) + _ENTRY_IN_BLOCK * padded
    return (
        _A_VISIT * problem.n_examples + entries + 1.2 * problem.structure.sums_effort(problem.scorer.shapes)
    )


def chunks_worthwhile(problem: Problem) -> int:
    """Into how many chunks the visits of a pass are cut, so that what lies between takes little beside them."""
    return int(np.clip(visits_effort(problem) / _A_CHUNK, _FEWEST_CHUNKS, _MOST_CHUNKS))


def scatter_effort(problem: Problem) -> float:
    """Of the part of such a pass that changes weights, where several threads read and change them."""
    return _ENTRY_SHARED * problem.n_touched


def evaluation_effort(problem: Problem) -> float:
    """Of one evaluation of P and its gradient, and what L-BFGS makes of it."""
    dense = sum(
        n_distinct(problem.scorer, k) * kind.dense.shape[1] * kind.width
        for k, kind in enumerate(problem.scorer.kinds)
    )
    entries = _ENTRY_DENSE * dense + _ENTRY_DOUBLE * (problem.n_touched - _padded_dense(problem))
    sums = problem.structure.sums_effort(problem.scorer.shapes)
    return _AN_EVALUATION + entries + _A_WEIGHT * problem.n_weights + sums


def evaluations_expected(problem: Problem, is_close: bool = False) -> float:
    """How many evaluations L-BFGS may need, by how much of the curvature it is told.

    Told part of it, it needs the more the weaker l2 is for the rest; and where that is so weak that online steps suffer
    more, it is worth a try all the same. Not so where all attributes are in blocks, or where the optimum `is_close`.
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
    """Whether the weights that a pass reads are nearly all those of dense attributes."""
    return _padded_dense(problem) > 0.9 * problem.n_touched


def stiffness(problem: Problem) -> float:
    """β Σ ‖x‖² over the rows of an example, by l2 · n: above one, the visits of examples undo one another."""
    weight = float(problem.example_weight.sum())
    return problem.loss.beta * pull_of_an_example(problem) / max(weight, 1e-300)


def is_steep(problem: Problem) -> bool:
    """Whether weights, (|v| − l1) / l2, are small differences of large numbers: online steps make them leap."""
    return problem.l1 > _STEEP * problem.l2


def pull_of_an_example(problem: Problem) -> float:
    """Σ ‖x‖² over its rows, by l2: how far its scores move when it changes its mind."""
    return squared_features(problem) / max(problem.l2 * problem.n_examples, 1e-300)


def squared_features(problem: Problem) -> float:
    """Σ ‖x‖² over all rows, that of dense attributes from some of them."""
    return sum(_squares(problem))


def dense_share(problem: Problem) -> float:
    """Of Σ ‖x‖², that of dense attributes."""
    dense, sparse = _squares(problem)
    return dense / max(dense + sparse, 1e-300)


def _squares(problem: Problem) -> tuple[float, float]:
    """Σ x² over dense attributes and over the others."""

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
    """Of the weights that a pass reads or writes, those of dense attributes."""
    return sum(kind.dense.size * kind.stride for kind in problem.scorer.kinds)
