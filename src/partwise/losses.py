"""The loss family (β, γ) of Martins et al. 2010, and the costs that go with γ > 0."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from partwise.errors import InputError


@dataclass(frozen=True)
class Loss:
    """ℓ(w) = (1/β) log Σ_y exp β( score(y) − score(true) + γ cost(y) ).

    Parameters
    ----------
    beta : float
        Sharpness, > 0; ``inf`` takes the maximum instead of the soft maximum.
    gamma : float
        How much the cost of a label widens its margin, ≥ 0.
    """

    beta: float
    gamma: float

    def __post_init__(self) -> None:
        if not (isinstance(self.beta, (int, float)) and self.beta > 0):
            raise InputError(f"Loss beta must be a number > 0 (inf is allowed), not {self.beta!r}")
        if not (isinstance(self.gamma, (int, float)) and 0 <= self.gamma < math.inf):
            raise InputError(f"Loss gamma must be a finite number >= 0, not {self.gamma!r}")
        object.__setattr__(self, "beta", float(self.beta))
        object.__setattr__(self, "gamma", float(self.gamma))

    @property
    def is_hard(self) -> bool:
        """True when β = ∞: argmax instead of marginals, no entropy in the dual."""
        return math.isinf(self.beta)

    @property
    def inverse_beta(self) -> float:
        return 0.0 if self.is_hard else 1.0 / self.beta

    @property
    def name(self) -> str:
        """The usual name, or the two numbers."""
        for name, loss in NAMED_LOSSES.items():
            if loss == self:
                return name
        return f"Loss({self.beta:g}, {self.gamma:g})"

    @classmethod
    def of(cls, loss: str | Loss) -> Loss:
        """A named loss, or the loss itself."""
        if isinstance(loss, Loss):
            return loss
        if isinstance(loss, str) and loss in NAMED_LOSSES:
            return NAMED_LOSSES[loss]
        raise InputError(
            f"loss must be one of {', '.join(NAMED_LOSSES)} or a Loss(beta, gamma), not {loss!r}"
        )


NAMED_LOSSES = {
    "log": Loss(1.0, 0.0),
    "hinge": Loss(math.inf, 1.0),
    "softmax_margin": Loss(1.0, 1.0),
    "perceptron": Loss(math.inf, 0.0),
}


def cost_matrix(cost: str | np.ndarray, n_labels: int) -> np.ndarray:
    """Cost of predicting label j where i is true.

    Parameters
    ----------
    cost : "hamming", "zero_one" or ndarray (n_labels, n_labels)
        Hamming counts wrong labels; for plain classes it is the 0-1 cost. A matrix [true, predicted]
        must be finite, non-negative, and zero on the diagonal.

    Returns
    -------
    ndarray (n_labels, n_labels) of float64
    """
    if isinstance(cost, str):
        if cost not in ("hamming", "zero_one"):
            raise InputError(
                f"cost must be 'hamming', 'zero_one' or a matrix [true, predicted], not {cost!r}"
            )
        return 1.0 - np.eye(n_labels)
    matrix = np.asarray(cost, np.float64)
    if matrix.shape != (n_labels, n_labels):
        raise InputError(f"cost has shape {matrix.shape}; {n_labels} labels need ({n_labels}, {n_labels})")
    if not np.isfinite(matrix).all() or (matrix < 0).any() or np.diag(matrix).any():
        raise InputError("cost must be finite and non-negative, with zeros on the diagonal")
    return matrix
