"""How far probabilities can be believed: reliability diagrams and calibration errors of part marginals.

A model is calibrated where, of all parts that it gives probability p, a share p is in the truth. Parts are whatever
the model has marginals of: labels of positions, segments, arcs, constituents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from partwise.errors import InputError

_ROUNDING = 1e-6  # marginals are sums, and may come out above 1 by that much


@dataclass(frozen=True)
class Reliability:
    """Parts gathered in bins by their probability; bins without parts are left out.

    Attributes
    ----------
    lower, upper : float64 arrays (n_bins,)
        Bounds of the bins; a part belongs to the bin with ``lower < p <= upper``, and p = 0 to the first.
    count : int64 array (n_bins,)
    probability : float64 array (n_bins,)
        Mean probability of the bin's parts.
    frequency : float64 array (n_bins,)
        Share of the bin's parts that are in the truth.
    brier : float
        Mean of (p − truth)² over all parts.
    """

    lower: np.ndarray
    upper: np.ndarray
    count: np.ndarray
    probability: np.ndarray
    frequency: np.ndarray
    brier: float

    @property
    def n_parts(self) -> int:
        return int(self.count.sum())

    @property
    def gaps(self) -> np.ndarray:
        """|frequency − probability| of every bin, float64 (n_bins,)."""
        return np.abs(self.frequency - self.probability)

    @property
    def expected_error(self) -> float:
        """Expected calibration error: the mean of `gaps`, each bin counted by its parts."""
        return float(self.count @ self.gaps / self.n_parts) if self.n_parts else 0.0

    @property
    def largest_error(self) -> float:
        """The largest of `gaps`."""
        return float(self.gaps.max(initial=0.0))

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        names = ("lower", "upper", "count", "probability", "frequency")
        bins = zip(*(getattr(self, name).tolist() for name in names), strict=True)
        return {
            "n_parts": self.n_parts,
            "expected_error": self.expected_error,
            "largest_error": self.largest_error,
            "brier": self.brier,
            "bins": [dict(zip(names, values, strict=True)) for values in bins],
        }


def reliability(probability: Any, is_true: Any, n_bins: int = 15, equal: str = "width") -> Reliability:
    """Gather parts in bins by their probability.

    Parameters
    ----------
    probability : array_like (n_parts,)
        Between 0 and 1.
    is_true : array_like (n_parts,)
        Whether each part is in the truth.
    n_bins : int
    equal : {"width", "count"}
        Bins of equal width, or of about equally many parts; parts of one probability are never torn apart.

    Returns
    -------
    Reliability
    """
    p, truth = _checked(probability, is_true)
    if isinstance(n_bins, bool) or not isinstance(n_bins, (int, np.integer)) or n_bins < 1:
        raise InputError(f"n_bins must be a whole number >= 1, not {n_bins!r:.40}")
    if equal not in ("width", "count"):
        raise InputError(f"equal must be 'width' or 'count', not {equal!r:.40}")
    edges = np.linspace(0.0, 1.0, int(n_bins) + 1)
    if equal == "count" and len(p):
        inner = np.quantile(p, edges[1:-1], method="inverted_cdf")
        edges = np.unique(np.concatenate([[0.0], inner, [1.0]]))
    n = len(edges) - 1
    # The first edge is 0, which belongs to the first bin, as every other edge belongs to the bin below it.
    own = np.clip(np.searchsorted(edges, p, side="left") - 1, 0, n - 1)
    count = np.bincount(own, minlength=n)
    used = np.flatnonzero(count)
    mean, share = (np.bincount(own, values, n)[used] / count[used] for values in (p, truth))
    brier = float(np.mean((p - truth) ** 2)) if len(p) else 0.0
    return Reliability(edges[:-1][used], edges[1:][used], count[used], mean, share, brier)


def _checked(probability: Any, is_true: Any) -> tuple[np.ndarray, np.ndarray]:
    p, truth = np.asarray(probability, np.float64), np.asarray(is_true)
    if p.ndim != 1 or truth.shape != p.shape:
        raise InputError(f"probability {p.shape} and is_true {truth.shape} must be vectors of one length")
    if truth.dtype.kind not in "biuf" or not np.isin(truth, (0, 1)).all():
        raise InputError("is_true must hold booleans, or zeros and ones")
    if len(p) and not (np.isfinite(p).all() and p.min() >= -_ROUNDING and p.max() <= 1 + _ROUNDING):
        raise InputError("probability must hold numbers between 0 and 1")
    return np.clip(p, 0.0, 1.0), truth.astype(np.float64)
