"""The same problem with frequent attributes scaled down, for visits that hold their weights near an anchor.

A weight with l2 + κ_j instead of l2 is a weight of the feature √(l2 / (l2 + κ_j)) φ_j. So visits only read other values
of the same rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from partwise.compiled.rows import KindRows
from partwise.core.problem import Problem

_STRENGTH, _POWER = 0.1, 0.4  # κ / l2 is _STRENGTH · (uses ^ _POWER − 1); uses are Σ x² · β / l2


class Rescaled(NamedTuple):
    """The problem that visits see, and the factors on some of its features.

    Attributes
    ----------
    problem : Problem
    held : ndarray (n_held,) of int64
        Weights of frequent attributes.
    root : ndarray (n_held,) of float64
        Factor on their feature values; it is 1 for all other weights.
    """

    problem: Problem
    held: np.ndarray
    root: np.ndarray


def rescaled(problem: Problem) -> Rescaled | None:
    """The rescaled problem, kept for an l2 and a loss; None if values cannot be replaced or none is frequent."""
    made: dict[tuple[float, float], Rescaled | None] = problem.kept("rescaled", dict)
    key = problem.l2, problem.loss.beta
    if key not in made:
        made.clear()
        made[key] = _rescaled(problem)
    found = made[key]
    if found is not None:
        found.problem.scorer.n_jobs = problem.n_jobs
    return found


def n_scaled(problem: Problem) -> int:
    """Number of values kept beside those of the rows; 0 if rows are not in memory."""
    kinds = problem.scorer.kinds if problem.visits_read_rows else ()
    return sum(rows.wide_start.size + rows.narrow_start.size for rows in kinds)


def _rescaled(problem: Problem) -> Rescaled | None:
    if not n_scaled(problem):
        return None
    curvature = problem.loss.beta * float(problem.example_weight.mean()) / problem.l2
    root = np.ones(problem.n_weights, np.float32)
    kinds: list[KindRows] = []
    for rows, kind in zip(problem.scorer.kinds, problem.structure.kinds, strict=True):
        often = float(problem.structure.most_tied(problem.scorer.shapes).sum()) if kind.tied else 1.0
        uses = curvature * often * squared_values(rows)
        own = root[rows.first_weight : rows.first_weight + rows.n_weights]
        exponent = -0.5 * np.log2(1.0 + _STRENGTH * np.maximum(uses**_POWER - 1.0, 0.0))
        own[:] = np.exp2(np.round(exponent))  # powers of two do not round values
        kinds.append(_scaled(rows, own))
    held = np.flatnonzero(root < 1.0)
    if not len(held):
        return None
    scorer = replace(problem.scorer, kinds=tuple(kinds))
    return Rescaled(replace(problem, scorer=scorer, _kept={}), held, root[held].astype(np.float64))


def squared_values(rows: KindRows) -> np.ndarray:
    """Σ x² over rows of the attribute of each weight, (n_weights,); 0 for dense ones."""
    wide = np.bincount(
        rows.wide_start // rows.stride, _squares(rows.wide_value), rows.narrow_first // rows.stride
    )
    sums = np.zeros(rows.n_weights)
    sums[: rows.narrow_first] = np.repeat(wide, rows.stride)
    if rows.narrow_start.size:
        start, attribute = np.unique(rows.narrow_start, return_inverse=True)
        narrow = np.bincount(attribute, _squares(rows.narrow_value), len(start))
        of_weight = np.searchsorted(start, np.arange(rows.narrow_first, rows.n_weights), side="right") - 1
        sums[rows.narrow_first :] = narrow[np.maximum(of_weight, 0)]
    return sums


def _squares(values: np.ndarray) -> np.ndarray | None:
    return values.astype(np.float64) ** 2 if values.size else None


def _scaled(rows: KindRows, root: np.ndarray) -> KindRows:
    """Rows with values times the factors of their attributes."""
    if root.min() == 1.0:
        return rows
    wide, narrow = root[rows.wide_start], root[rows.narrow_start]
    return rows._replace(
        wide_value=wide * rows.wide_value if rows.wide_value.size else wide,
        narrow_value=narrow * rows.narrow_value if rows.narrow_value.size else narrow,
    )
