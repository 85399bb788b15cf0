"""The loss family (β, γ) of Martins et al. 2010, and the costs that go with γ > 0."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real

from partwise.errors import InputError

# Bounds β, γ, costs and example weights: squares of larger numbers would round away all other terms.
LARGEST_SIZE = 1e15


@dataclass(frozen=True)
class Loss:
    """ℓ(w) = (1/β) log Σ_y exp β( score(y) − score(true) + γ cost(y) ).

    Parameters
    ----------
    beta : float
        Sharpness, from 1e-15 to 1e15; ``inf`` replaces the soft maximum by the maximum.
    gamma : float
        Factor of the costs, from 0 to 1e15.
    """

    beta: float
    gamma: float

    def __post_init__(self) -> None:
        if not isinstance(self.beta, Real) or not self.beta > 0:
            raise InputError(f"Loss beta must be a number > 0 (inf is allowed), not {self.beta!r:.60}")
        if not isinstance(self.gamma, Real) or not 0 <= self.gamma < math.inf:
            raise InputError(f"Loss gamma must be a finite number >= 0, not {self.gamma!r:.60}")
        if self.beta != math.inf and not 1 / LARGEST_SIZE <= self.beta <= LARGEST_SIZE:
            raise InputError(
                f"Loss beta must be from {1 / LARGEST_SIZE:g} to {LARGEST_SIZE:g}, or inf, not {self.beta!r:.60}"
            )
        if self.gamma > LARGEST_SIZE:
            raise InputError(f"Loss gamma must be at most {LARGEST_SIZE:g}, not {self.gamma!r:.60}")
        object.__setattr__(self, "beta", float(self.beta))
        object.__setattr__(self, "gamma", float(self.gamma))

    @property
    def is_hard(self) -> bool:
        """Whether β = ∞: argmax instead of marginals, no entropy in the dual."""
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
