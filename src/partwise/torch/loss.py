"""The losses (β, γ) of Martins et al. 2010 as a layer on top of any structure."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from partwise.core.losses import Loss
from partwise.errors import InputError
from partwise.structures.contract import Structure
from partwise.torch.functions import not_compiled, read_batch
from partwise.torch.layouts.base import ScoreBatch
from partwise.torch.packed import padded_target
from partwise.torch.sums import values_of


class StructuredLoss(torch.nn.Module):
    """ℓ = (1/β) log Σ_y exp β( score(y) − score(true) + γ cost(y) ), the maximum for β = ∞.

    Parameters
    ----------
    structure : Structure
    loss : str or Loss
        "log" (negative log-likelihood), "hinge", "softmax_margin", "perceptron", or ``Loss(beta, gamma)``.
    cost : str or array_like
        What the structure's training takes: "hamming" counts wrong labels, for trees also "heads" or "labelled".
    reduction : {"mean", "sum", "none"}
        Over the examples of a batch.
    validate : bool, optional
        See :func:`log_partition`.

    Examples
    --------
    >>> criterion = StructuredLoss(Chain(3), "hinge")
    >>> criterion(torch.zeros(2, 4, 3), torch.zeros(3, 3), target=torch.zeros(2, 4, dtype=torch.long))
    tensor(4.)
    """

    def __init__(
        self,
        structure: Structure,
        loss: str | Loss = "log",
        cost: Any = "hamming",
        reduction: str = "mean",
        validate: bool | None = None,
    ):
        super().__init__()
        self.structure, self.loss, self.cost = structure, Loss.of(loss), cost
        if reduction not in ("mean", "sum", "none"):
            raise InputError(f"reduction must be 'mean', 'sum' or 'none', not {reduction!r}")
        self.reduction, self.validate = reduction, validate

    @not_compiled
    def forward(self, *scores: Any, target: Any, lengths: Any = None) -> torch.Tensor:
        """The loss of the true labels `target`, as :func:`argmax` gives labels, under scores; +inf where they are
        impossible."""
        batch, target = read_batch(self.structure, scores, lengths, self.validate), padded_target(target)
        gold, costs, base = batch.layout.truth(batch, target, self.cost if self.loss.gamma else None)
        totals = self._values(batch, costs)
        values = torch.where(totals == -torch.inf, torch.inf, totals - gold)
        if base is not None:
            values = values - self.loss.gamma * base
        return {"mean": values.mean, "sum": values.sum, "none": lambda: values}[self.reduction]()

    def _values(self, batch: ScoreBatch, costs: tuple[torch.Tensor, ...] | np.ndarray | None) -> torch.Tensor:
        beta, gamma = self.loss.beta, self.loss.gamma
        if isinstance(costs, np.ndarray):
            batch = batch._replace(costs=gamma * costs)
        elif costs is not None:
            scores = tuple(own + gamma * cost for own, cost in zip(batch.scores, costs, strict=True))
            batch = batch._replace(scores=scores, unexpanded=())
        if self.loss.is_hard:
            return values_of(batch, "best")
        if beta == 1.0:
            return values_of(batch, "sums")
        scaled = tuple(beta * own for own in batch.scores)
        own_costs = None if batch.costs is None else beta * batch.costs
        return values_of(batch._replace(scores=scaled, unexpanded=(), costs=own_costs), "sums") / beta

    def extra_repr(self) -> str:
        return f"{self.structure!r}, loss={self.loss.name}, cost={self.cost!r}, reduction={self.reduction!r}"
