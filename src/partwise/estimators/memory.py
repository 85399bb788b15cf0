"""What memory training takes, estimated before it begins."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.core.problem import Problem

# Arrays over all parts that solvers keep, and arrays over all weights; most others keep less than these.
_PARTS = {
    "eg-primal": 0,
    "lbfgs": 0,
    "cg": 0,
    "sgd": 0,
    "mira": 0,
    "kbest-mira": 0,
    "perceptron": 0,
    "bmrm": 0,
}
_PARTS |= {"bcfw": 0, "svm-struct": 0}
_WEIGHTS = {"lbfgs": 24, "bmrm": 40}
_USUAL_PARTS, _USUAL_WEIGHTS = 2, 6


def memory_words(problem: Problem, solver: Any) -> str:
    """One line: the features of all rows, what the solver keeps for every part, and vectors of weights."""
    rows = sum(
        array.nbytes for kind in problem.scorer.kinds for array in kind if isinstance(array, np.ndarray)
    )
    width = 4 if getattr(solver, "precision", "double") == "single" else 8
    parts = _PARTS.get(solver.name, _USUAL_PARTS) * width * problem.n_parts + problem.cost.nbytes
    weights = 8 * _WEIGHTS.get(solver.name, _USUAL_WEIGHTS) * problem.n_weights
    return (
        f"memory for training, about {_megabytes(rows + parts + weights)}: {_megabytes(rows)} of features, "
        f"{_megabytes(parts)} for {problem.n_parts:,} parts, {_megabytes(weights)} for {problem.n_weights:,} weights "
        f"({solver.name})"
    )


def _megabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.0f} MB" if n_bytes >= 1e7 else f"{n_bytes / 1e6:,.1f} MB"
