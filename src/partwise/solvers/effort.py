"""What a pass of a solver costs, counted from the data and not from a clock, so that equal runs decide alike.

The unit is about a nanosecond; only ratios matter. The numbers are from runs of `benchmarks/regret.py`.
"""

from __future__ import annotations

import numpy as np

from partwise.core.problem import Problem
from partwise.solvers.primal.curvature import is_worthwhile
from partwise.structures.chain.chain import Chain
from partwise.structures.multiclass.multiclass import Multiclass

_A_PASS, _A_VISIT = 1e6, 800.0  # of an online solver: sampling and the like; one example, in random order
_AN_EVALUATION = 2e5  # of all examples at once, whatever their number
_ENTRY_ONLINE, _ENTRY_DOUBLE, _ENTRY_DENSE = (
    0.3,
    0.9,
    0.35,
)  # scored and scattered; dense ones as products of matrices
_A_WEIGHT_ONLINE, _A_WEIGHT = 4.0, 60.0  # averaging; the directions and bounds of L-BFGS
_A_POSITION, _A_CELL, _A_PART = 150.0, 1.0, 10.0  # of sums over labellings
_SHAPED, _PARTLY_SHAPED, _UNSHAPED = (
    25.0,
    50.0,
    70.0,
)  # evaluations to 1e-3 from where an online solver leaves


def online_pass_effort(problem: Problem) -> float:
    """Of a pass of online exponentiated gradient."""
    visits = _A_PASS + _A_VISIT * problem.n_examples
    entries = _ENTRY_ONLINE * problem.n_touched + _A_WEIGHT_ONLINE * problem.n_weights
    return visits + entries + 1.2 * _sums_effort(problem)


def evaluation_effort(problem: Problem) -> float:
    """Of one evaluation of P and its gradient, and what L-BFGS makes of it."""
    dense = sum(kind.dense.size * kind.width for kind in problem.scorer.kinds)
    padded = sum(kind.dense.size * kind.stride for kind in problem.scorer.kinds)
    entries = _ENTRY_DENSE * dense + _ENTRY_DOUBLE * (problem.n_touched - padded)
    return _AN_EVALUATION + entries + _A_WEIGHT * problem.n_weights + _sums_effort(problem)


def evaluations_expected(problem: Problem) -> float:
    """How many evaluations L-BFGS may need, by how much of the curvature it is told."""
    if not is_worthwhile(problem):
        return _UNSHAPED
    padded = sum(kind.dense.size * kind.stride for kind in problem.scorer.kinds)
    return _SHAPED if padded > 0.9 * problem.n_touched else _PARTLY_SHAPED


def _sums_effort(problem: Problem) -> float:
    """Of sums over the labellings of all examples."""
    structure, n_positions = problem.structure, float(problem.lengths.sum())
    if isinstance(structure, Multiclass):
        return _A_PART * problem.n_parts
    if isinstance(structure, Chain):
        return n_positions * (_A_POSITION + _A_CELL * float(structure.n_labels) ** (structure.order + 1))
    parts = np.diff(problem.batch.part_ptr).astype(float)
    return 3.0 * float(parts @ problem.lengths)
