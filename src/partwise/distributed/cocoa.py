"""The constants of CoCoA+ rounds (Ma et al. 2015, γ = 1): σ′, and the pull κ of accelerated rounds.

All shards add their Δ_k to v. The dual rises by at least the sum of their own gains if σ′ is the number of shards:
‖Σ Δ_k‖² ≤ σ′ Σ ‖Δ_k‖² is Jensen's inequality then. Progress is slow because each shard moves towards the weights of its
own examples. So rounds work on P(w) + (κ/2) ‖w − z‖², which keeps shards closer together, and z follows with momentum,
as in `solvers/dual/acceleration.py`.
"""

from __future__ import annotations

import math

_REST = 3  # rounds before acceleration begins
_PULL = 10.0  # κ / l2


def sigma(n_shards: int) -> float:
    """σ′: each shard assumes that the others take the same steps."""
    return float(n_shards)


def pull(l2: float, n_rounds: int) -> float:
    """κ of the round after `n_rounds` rounds."""
    return _PULL * l2 if n_rounds >= _REST else 0.0


def begins(n_rounds: int) -> bool:
    """Whether z becomes the weights after this round."""
    return n_rounds == _REST


def momentum(l2: float, kappa: float) -> float:
    """How far z lies beyond the weights, as a share of their last step."""
    root = math.sqrt(l2 / (l2 + kappa))
    return (1.0 - root) / (1.0 + root)
