"""How shards that work at the same time keep from undoing each other's work: σ′, and the pull of accelerated rounds.

All shards add their Δ_k to v, which raises the dual by at least what they gained on their own where σ′ is the number
of shards: ‖Σ Δ_k‖² ≤ σ′ Σ ‖Δ_k‖² then is Jensen's inequality (CoCoA+, Ma et al. 2015, γ = 1). What makes that slow is
that each moves towards the weights of its own examples. So rounds work on P(w) + (κ/2) ‖w − z‖², where they compete
less, and z follows with momentum, as in `solvers/dual/acceleration.py`.
"""

from __future__ import annotations

import math

_REST = 3  # rounds before acceleration begins
_PULL = 10.0  # κ / l2


def sigma(n_shards: int) -> float:
    """σ′, by which each shard takes the others' steps to be like its own."""
    return float(n_shards)


def pull(l2: float, n_rounds: int) -> float:
    """κ of the round after `n_rounds`."""
    return _PULL * l2 if n_rounds >= _REST else 0.0


def begins(n_rounds: int) -> bool:
    """Whether z is the weights after this round."""
    return n_rounds == _REST


def momentum(l2: float, kappa: float) -> float:
    """How far z goes beyond the weights, as a share of their last step."""
    root = math.sqrt(l2 / (l2 + kappa))
    return (1.0 - root) / (1.0 + root)
