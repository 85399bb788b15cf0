"""The values and gradients that passes compute at a dual point or at weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Evaluation:
    """A dual point or weights, evaluated on all examples.

    Attributes
    ----------
    v : ndarray (n_weights,)
        Σ_i weight_i (φ(true) − expected φ).
    entropy, cost, log_total, gold : ndarray (n_examples,)
        H(α_i), expected cost, log-partition (or maximum), and the score of the true label at the potentials.
    """

    v: np.ndarray
    entropy: np.ndarray
    cost: np.ndarray
    log_total: np.ndarray
    gold: np.ndarray
