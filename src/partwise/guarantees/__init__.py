"""Theory in numbers: rates of convergence, known before training, and a bound on the loss of unseen data."""

from __future__ import annotations

from partwise.guarantees.generalization import GeneralizationBound, generalization_bound
from partwise.guarantees.rates import (
    Order,
    Rate,
    beside_what_happened,
    orders_of_convergence,
    predicted_rates,
)

__all__ = [
    "GeneralizationBound",
    "Order",
    "Rate",
    "beside_what_happened",
    "generalization_bound",
    "orders_of_convergence",
    "predicted_rates",
]
