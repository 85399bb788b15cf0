"""`LinearEstimator`: estimators whose scores are linear in features, with one weight per feature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from partwise.estimators.base import StructuredEstimator


@dataclass(eq=False, repr=False, kw_only=True)
class LinearEstimator(StructuredEstimator):
    """Base of the estimators with features and weights.

    Parameters
    ----------
    l1 : float
        Strength of an additional l1 term, l1·‖w‖₁, which makes most weights zero.
    engine : None, "processes", "ray" or Engine
        Where training runs: None is this process. "processes" trains on shards of the data in several processes of
        this machine, "ray" in those of a Ray cluster. A ``partwise.distributed.ProcessEngine`` or ``RayEngine`` has
        more settings.
    """

    l1: float = 0.0
    engine: Any = None


@dataclass(eq=False, repr=False, kw_only=True)
class WarmStarting(LinearEstimator):
    """Base of the linear estimators that can continue from the last fit.

    Parameters
    ----------
    warm_start : bool
        Continue from the dual state of the last fit if the data are the same, also with another `l2`.
    """

    warm_start: bool = False
