"""Theory in numbers: rates of convergence, known before training, and a bound on the loss of unseen data."""

from __future__ import annotations

from partwise.guarantees.generalization import GeneralizationBound, generalization_bound
from partwise.guarantees.rates import Rate, beside_what_happened, predicted_rates

__all__ = [
    "GeneralizationBound",
    "Rate",
    "beside_what_happened",
    "generalization_bound",
    "predicted_rates",
]
