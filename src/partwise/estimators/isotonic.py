"""Isotonic calibration: a function that never falls, from probabilities to how often they are right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from partwise.errors import InputError


class IsotonicMap(NamedTuple):
    """A piecewise linear function that never falls, from [0, 1] to [0, 1].

    Attributes
    ----------
    p, q : float64 arrays, shape (n_knots,)
        Probabilities of the model, rising from 0 to 1, and calibrated ones.
    """

    p: np.ndarray
    q: np.ndarray

    def __call__(self, probability: np.ndarray) -> np.ndarray:
        return np.interp(probability, self.p, self.q)

    def least(self, threshold: float) -> float:
        """The smallest probability of the model that is at least `threshold` when calibrated; above 1 if none is."""
        above = np.flatnonzero(self.q >= threshold)
        if not len(above):
            return 2.0
        k = int(above[0])
        if k == 0 or self.q[k] == threshold:
            return float(self.p[k])
        share = (threshold - self.q[k - 1]) / (self.q[k] - self.q[k - 1])
        return float(self.p[k - 1] + share * (self.p[k] - self.p[k - 1])) * (1.0 - 1e-12)

    @classmethod
    def fit(cls, probability: np.ndarray, is_true: np.ndarray) -> IsotonicMap:
        """Least squares among functions that never fall, by pooling adjacent violators (Ayer et al. 1955).

        Between the means of the pools the function is linear, so that it keeps the order of entities.
        """
        order = np.argsort(probability, kind="stable")
        pools: list[list[float]] = []  # number, mean of p, mean of truth
        for p, truth in zip(probability[order].tolist(), is_true[order].astype(float).tolist(), strict=True):
            pools.append([1.0, p, truth])
            while len(pools) > 1 and pools[-2][2] >= pools[-1][2]:
                n, *last = pools.pop()
                m = pools[-1][0]
                pools[-1] = [
                    m + n,
                    *((m * a + n * b) / (m + n) for a, b in zip(pools[-1][1:], last, strict=True)),
                ]
        number, p_mean, share = np.array(pools or np.zeros((0, 3))).T.reshape(3, -1)
        # One more entity of each pool, as true as the model says: no probability becomes 0 or 1 by few data.
        means = np.column_stack([p_mean, (number * share + p_mean) / (number + 1.0)])
        inner = means[(means[:, 0] > 0.0) & (means[:, 0] < 1.0)]
        knots = np.vstack(
            [[0.0, 0.0], inner, [1.0, max([*inner[-1:, 1].tolist(), 0.0]) if len(inner) else 1.0]]
        )
        p, first = np.unique(knots[:, 0], return_index=True)
        return cls(p, np.maximum.accumulate(knots[first, 1]))

    def state(self) -> dict[str, list[float]]:
        """JSON values for a model file."""
        return {"p": self.p.tolist(), "q": self.q.tolist()}

    @classmethod
    def from_state(cls, stored: Any) -> IsotonicMap:
        """From a file, checked."""
        values = [stored.get(name) for name in ("p", "q")] if isinstance(stored, Mapping) else [None, None]
        try:
            p, q = (np.array(each, np.float64) for each in values)
        except (TypeError, ValueError):
            p = q = np.zeros(0)
        fits = p.ndim == 1 and len(p) >= 2 and p.shape == q.shape and p[0] == 0.0 and p[-1] == 1.0
        if not (fits and (np.diff(p) > 0).all() and (np.diff(q) >= 0).all() and q[0] >= 0 and q[-1] <= 1):
            raise InputError("the calibration of entities is damaged")
        return cls(p, q)
