"""Which values of l2 a path tries, and when it has gone far enough."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from partwise.core.checks import check_positive
from partwise.errors import InputError

START, STOP = 100.0, 0.1
N_VALUES = 9  # of cross-validation, unless values are given
MOST_VALUES = 1000


def geometric_values(start: float, stop: float, ratio: float) -> list[float]:
    """start, start · ratio, start · ratio² ... down to `stop`, give or take a hundredth of a step.

    Parameters
    ----------
    start, stop : float
        The largest value and the smallest that is allowed.
    ratio : float
        Between two neighbours, below 1.
    """
    check_positive("ratio", ratio)
    _check_ends(start, stop)
    if ratio >= 1:
        raise InputError(f"ratio must lie between 0 and 1, not {ratio!r:.40}")
    n = math.floor(math.log(stop / start) / math.log(ratio) + 0.01) + 1  # values of l2 come rounded
    if n > MOST_VALUES:
        raise InputError(f"start={start:g}, stop={stop:g} and ratio={ratio:g} make {n:,} values of l2")
    return checked_values([float(start) * float(ratio) ** k for k in range(n)])


def spaced_values(start: float, stop: float, n: int) -> list[float]:
    """`n` values from `start` to `stop`, both included, at equal ratios."""
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or not 2 <= n <= MOST_VALUES:
        raise InputError(f"a path has 2 to {MOST_VALUES} values of l2, not {n!r:.40}")
    _check_ends(start, stop)
    return checked_values(np.geomspace(start, stop, n).tolist())


def _check_ends(start: float, stop: float) -> None:
    check_positive("start", start)
    check_positive("stop", stop)
    if stop > start:
        raise InputError(
            f"a path of l2 goes from large to small: start={start:g} lies below stop={stop:g}; exchange them"
        )


def checked_values(values: Any) -> list[float]:
    """Values of l2 from large to small, each once; InputError at fewer than two or at one that cannot be."""
    try:
        array = np.asarray(values, float)
    except (TypeError, ValueError):
        raise InputError(f"l2 values must be numbers, not {values!r:.60}") from None
    if array.ndim != 1:
        raise InputError(f"l2 values must be a list of numbers, not {values!r:.60}")
    for each in array.tolist():
        check_positive("l2", each)
    found = sorted(set(array.tolist()), reverse=True)
    if len(found) < 2:
        raise InputError(
            f"a path of l2 needs at least two different values, not {found!r:.40}; for one, set l2 of the estimator"
        )
    return found


def best_of(scores: np.ndarray) -> int:
    """The number of the best value by mean score, of equal ones that with the largest l2."""
    return int(np.argmax(np.nan_to_num(_means(scores), nan=-np.inf)))


def has_turned(scores: np.ndarray, n_examples: int, patience: int) -> bool:
    """Whether the last `patience` values all score clearly below the best one before them.

    Clearly is by more than one standard error of the difference where several folds score the same values, and by
    more than half of √(s (1 − s) / n), the standard error of a share, where one dev set of n examples does: the same
    examples score both models, so that much of that error is common to both.

    Parameters
    ----------
    scores : ndarray (n_values, n_folds)
        From 0 to 1, in the order of the path.
    """
    best = best_of(scores)
    if len(scores) - 1 - best < patience:
        return False
    fall = scores[best] - np.nan_to_num(scores[-patience:], nan=0.0)
    if scores.shape[1] > 1:
        noise = fall.std(axis=1, ddof=1) / math.sqrt(scores.shape[1])
    else:
        share = min(max(float(scores[best, 0]), 0.0), 1.0)
        noise = np.full(patience, 0.5 * math.sqrt(share * (1.0 - share) / max(n_examples, 1)))
    return bool((fall.mean(axis=1) > noise).all())


def _means(scores: np.ndarray) -> np.ndarray:
    return scores.mean(axis=1)
