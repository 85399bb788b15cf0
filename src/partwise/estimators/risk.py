"""Risk control: leave out entities so that the share of wrong ones stays below a limit.

A threshold is accepted if calibration data show that the risk is at most α (Learn then Test: Angelopoulos, Bates,
Candès, Jordan and Lei 2021). The risk is the expected number of wrong entities over that of entities returned. A
sequence that has more than three counts as three, each of its entities less: without a bound on what one sequence adds,
nothing can be proved from a finite number of them.

The hypothesis that the risk is larger is tested by betting against it (Waudby-Smith and Ramdas 2024). A sequence with w
wrong entities of r returned has Z = min(1, 3 / r) (w − α r). If the hypothesis holds, E[Z] ≥ 0. A capital that is
multiplied by 1 − b Z for each sequence then does not grow on average, for any stake b < 1 / (3 (1 − α)). It exceeds
1 / δ with a probability of at most δ. The mean over several stakes is such a capital as well. Sequences are the unit,
so entities within one may depend on each other.

Thresholds are tested from the largest to the smaller ones, from several starts, until a test fails. Each start has the
same share of δ. All accepted thresholds have the limit together with probability 1 − δ; the smallest is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from partwise.errors import InputError

_GRID = np.arange(99, 0, -1) / 100.0
_STARTS = (0.99, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
_STAKES = np.array([0.9, 0.6, 0.4, 0.25, 0.15, 0.1, 0.05, 0.02])  # shares of the largest stake
_MOST_OF_ONE = 3.0  # entities that one sequence counts as at most


class RiskControl(NamedTuple):
    """What :meth:`control_risk` found.

    Attributes
    ----------
    risk, delta : float
        The share of wrong entities is at most `risk`, with probability 1 − `delta`.
    threshold : float
        The smallest probability of an entity that is returned.
    n_examples : int
        Calibration sequences.
    n_entities, n_returned, n_wrong : int
        Entities of their best labellings, those that are returned, and those of them that are wrong.
    """

    risk: float
    delta: float
    threshold: float
    n_examples: int
    n_entities: int
    n_returned: int
    n_wrong: int

    @classmethod
    def from_state(cls, stored: Any) -> RiskControl:
        """From a file, checked."""
        try:
            found = cls(**stored)
            rates = all(0.0 < float(each) < 1.0 for each in found[:3])
            if rates and all(type(n) is int and n >= 0 for n in found[3:]):
                return found
        except (TypeError, ValueError):
            pass
        raise InputError("the risk control of this model is damaged")


def controlled(
    p: np.ndarray, is_true: np.ndarray, example: np.ndarray, n_examples: int, risk: float, delta: float
) -> RiskControl:
    """The smallest threshold of probabilities that keeps the risk, from the entities of calibration data.

    Parameters
    ----------
    p, is_true, example : arrays, shape (n,)
        Entities, and the sequences that they are from.
    """
    for name, value in (("risk", risk), ("delta", delta)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 < value < 1.0:
            raise InputError(f"{name} must be a number between 0 and 1, not {value!r:.40}")
    needed = np.log(len(_STARTS) / delta)
    accepted = [float(t) for t in _GRID if _log_capital(p >= t, is_true, example, risk) >= needed]
    reached = []
    for start in _STARTS:
        for t in _GRID[start >= _GRID].tolist():
            if t not in accepted:
                break
            reached.append(t)
    if not reached:
        raise InputError(
            f"no threshold keeps the share of wrong entities below {risk:g} with probability {1 - delta:g}, by these "
            f"{n_examples} sequences with {len(p)} entities: use more data, or a larger risk or delta"
        )
    threshold = min(reached)
    kept = p >= threshold
    counts = n_examples, len(p), int(kept.sum()), int((kept & ~is_true).sum())
    return RiskControl(float(risk), float(delta), threshold, *counts)


def _log_capital(kept: np.ndarray, is_true: np.ndarray, example: np.ndarray, risk: float) -> float:
    """Logarithm of the capital of a bet that the risk of the entities kept is below `risk`."""
    if not kept.any():
        return -np.inf
    wrong = np.bincount(example[kept], ~is_true[kept])
    returned = np.bincount(example[kept])
    some = returned > 0
    z = np.minimum(1.0, _MOST_OF_ONE / returned[some]) * (wrong - risk * returned)[some]
    stakes = _STAKES / (_MOST_OF_ONE * (1.0 - risk))
    logs = np.log1p(-stakes[:, None] * z).sum(axis=1)
    return float(logs.max() + np.log(np.exp(logs - logs.max()).mean()))


def stored_risks(record: Mapping[str, Any]) -> dict[float, RiskControl]:
    """The risk controls of a model file."""
    stored = record.get("risks") or []
    if not isinstance(stored, list):
        raise InputError("the risk control of this model is damaged")
    found = [RiskControl.from_state(each) for each in stored]
    return {each.risk: each for each in found}
