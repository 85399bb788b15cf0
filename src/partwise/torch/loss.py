"""The losses (β, γ) of Martins et al. 2010 as a layer on top of any structure."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from partwise.core.losses import Loss
from partwise.errors import InputError
from partwise.structures.contract import Structure
from partwise.torch.functions import layout_for, read_batch, traced_for_chains
from partwise.torch.label_sets import costs_of_sets, is_set, known_scores
from partwise.torch.layouts.base import ScoreBatch, is_checked, whole_numbers
from partwise.torch.layouts.chain_truth import TrueLabels, true_labels, weighted_log_losses
from partwise.torch.layouts.chains import ChainLayout
from partwise.torch.loss_weights import label_weights_of, on_positions, reduced
from partwise.torch.packed import padded_target, unpacked
from partwise.torch.sums import values_of

REDUCTIONS = ("mean", "sum", "none", "token_mean")


class StructuredLoss(torch.nn.Module):
    """ℓ = (1/β) log Σ_y exp β( score(y) − score(true) + γ cost(y) ), the maximum for β = ∞.

    Parameters
    ----------
    structure : Structure
    loss : str or Loss
        "log" (negative log-likelihood), "hinge", "softmax_margin", "perceptron", or ``Loss(beta, gamma)``.
    cost : str or array_like
        What the structure's training takes: "hamming" counts wrong labels, for trees also "heads" or "labelled".
    reduction : {"mean", "sum", "none", "token_mean"}
        Over the examples of a batch. "token_mean" is the sum over the number of positions that count.
    validate : bool, optional
        See :func:`log_partition`.
    ignore_index : int or None
        Of chains, positions whose target is this are left out, as by a mask with holes. None: no label means that. On
        a GPU this saves moving scores, where no position is to be ignored.
    label_weights : array_like (n_labels,), optional
        Of chains, the weight of each true label; see Notes.
    length_average : bool
        Whether the loss of an example is divided by its number of positions.

    Notes
    -----
    The weight w_t of a position is the weight of its true label times its entry of ``position_weights``. If γ > 0,
    weights multiply the cost of a wrong label. If the loss is "log", −log p(y) is a sum over positions of −log p(y_t |
    y_1 … y_{t−1}), and weights multiply its terms. A "perceptron" has neither. This form of "log" takes a step of
    PyTorch for each position, and is slower than the others.

    Examples
    --------
    >>> criterion = StructuredLoss(Chain(3), "hinge")
    >>> criterion(torch.zeros(2, 4, 3), torch.zeros(3, 3), target=torch.zeros(2, 4, dtype=torch.long))
    tensor(4.)
    """

    label_weights: torch.Tensor | None

    def __init__(
        self,
        structure: Structure,
        loss: str | Loss = "log",
        cost: Any = "hamming",
        reduction: str = "mean",
        validate: bool | None = None,
        ignore_index: int | None = -100,
        label_weights: Any = None,
        length_average: bool = False,
    ):
        super().__init__()
        self.structure, self.loss, self.cost = structure, Loss.of(loss), cost
        self.reduction, self.validate = checked_reduction(reduction, length_average), validate
        self.ignore_index, self.length_average = ignore_index, length_average
        weights = None if label_weights is None else label_weights_of(structure, self.loss, label_weights)
        self.register_buffer("label_weights", weights, persistent=False)

    @traced_for_chains
    def forward(
        self,
        *scores: Any,
        target: Any,
        lengths: Any = None,
        mask: Any = None,
        position_weights: Any = None,
        sample_weights: Any = None,
    ) -> torch.Tensor:
        """The loss of the true labels under scores; +inf where they are impossible.

        Parameters
        ----------
        *scores, lengths, mask
            See :func:`log_partition`.
        target : Tensor, or what :func:`argmax` gives
            True labels. Or a tensor of the shape of the first scores, for a chain (B, T, L). If Boolean, it says which
            labels are allowed at each position; the loss is that of all labellings of allowed labels together. If
            floating, it is the likelihood q_t(y) of each label, and the loss is −log Σ_y p(y) Π_t q_t(y_t).
        position_weights : Tensor (B, T), optional
            Of chains: see Notes.
        sample_weights : Tensor (B,), optional
            Weights of the examples. "mean" divides by their sum, "token_mean" by that of weights times positions.
        """
        values, batch = self.values(scores, target, lengths, mask, position_weights)
        return reduced(values, batch, self.reduction, self.length_average, sample_weights, self.validate)

    def values(
        self, scores: tuple[Any, ...], target: Any, lengths: Any, mask: Any, position_weights: Any = None
    ) -> tuple[torch.Tensor, ScoreBatch]:
        """The loss of every example, (B,), and the batch of scores."""
        scores, lengths = unpacked(scores, lengths)
        target = padded_target(target)
        if is_set(target, scores):
            batch = read_batch(self.structure, scores, lengths, self.validate, mask)
            if position_weights is not None or self.label_weights is not None:
                raise InputError("weights of labels and positions need one true label at each position")
            return batch.values(self._of_sets(batch, target)), batch
        batch = read_batch(
            self.structure, scores, lengths, self.validate, self._unignored(scores, target, mask)
        )
        return batch.values(self._of_labels(batch, target, position_weights)), batch

    def _unignored(self, scores: tuple[Any, ...], target: Any, mask: Any) -> Any:
        """The mask without positions whose target is ignored."""
        if self.ignore_index is None or not layout_for(self.structure).can_skip:
            return mask
        labels = whole_numbers(target, "target")
        first = scores[0] if scores else None
        if labels.ndim != 2 or not isinstance(first, torch.Tensor) or labels.shape[0] != first.shape[0]:
            return mask  # what does not fit is refused where shapes are read
        ignored = labels == self.ignore_index
        if is_checked(None, ignored.device) and not bool(ignored.any()):
            return mask
        counts = first.new_zeros(first.shape[:2], dtype=torch.bool)
        width = min(first.shape[1], labels.shape[1])
        counts[:, :width] = ~ignored[:, :width]
        return counts if mask is None else counts & (torch.as_tensor(mask, device=counts.device) != 0)

    def _of_labels(self, batch: ScoreBatch, target: Any, position_weights: Any) -> torch.Tensor:
        checked = self._is_checked(batch)
        weights = None
        if position_weights is not None or self.label_weights is not None:
            if not isinstance(batch.layout, ChainLayout):
                raise InputError("weights of labels and positions are for chains")
            true = true_labels(batch, target, checked)
            weights = on_positions(
                batch, true.labels, self.label_weights, position_weights, self.loss, checked
            )
            if not self.loss.gamma:
                return self._weighted_log_losses(batch, true, weights)
        cost = self.cost if self.loss.gamma else None
        gold, costs, base = batch.layout.truth(batch, target, cost, checked, weights)
        totals = self._sums(self._with_costs(batch, costs))
        values = torch.where(totals == -torch.inf, torch.inf, totals - gold)
        return values if base is None else values - self.loss.gamma * base

    def _weighted_log_losses(
        self, batch: ScoreBatch, true: TrueLabels, weights: torch.Tensor
    ) -> torch.Tensor:
        beta = self.loss.beta
        scaled = tuple(beta * own for own in batch.scores)
        batch = batch._replace(scores=scaled, unexpanded=())
        return weighted_log_losses(batch, true, weights, self._is_checked(batch)) / beta

    def _of_sets(self, batch: ScoreBatch, target: torch.Tensor) -> torch.Tensor:
        """(1/β) [ A(β(s + γ cost)) − A(βs restricted to what is known) ]; labels that are allowed cost nothing."""
        known = known_scores(batch, target, self.loss, self._is_checked(batch))
        costs = costs_of_sets(batch, target, self.cost) if self.loss.gamma else None
        totals, agreeing = self._sums(self._with_costs(batch, costs)), self._sums(known)
        impossible = (totals == -torch.inf) | (agreeing == -torch.inf)
        return torch.where(impossible, torch.inf, totals - agreeing)

    def _with_costs(self, batch: ScoreBatch, costs: Any) -> ScoreBatch:
        """The batch with γ times the costs of entries, or of parts, added to its scores."""
        gamma = self.loss.gamma
        if costs is None:
            return batch
        if isinstance(costs, np.ndarray):
            return batch._replace(costs=gamma * costs)

        def added(scores: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
            pairs = zip(scores, costs, strict=True)
            return tuple(own if cost is None else own + gamma * cost for own, cost in pairs)

        # Scores that all examples share stay so if they have no costs.
        unexpanded = added(batch.unexpanded) if batch.unexpanded and None in costs[1:] else ()
        return batch._replace(scores=added(batch.scores), unexpanded=unexpanded)

    def _sums(self, batch: ScoreBatch) -> torch.Tensor:
        """(1/β) log Σ_y exp β score(y), (B,)."""
        beta = self.loss.beta
        if self.loss.is_hard:
            return values_of(batch, "best")
        if beta == 1.0:
            return values_of(batch, "sums")
        scaled = tuple(beta * own for own in batch.scores)
        own_costs = None if batch.costs is None else beta * batch.costs
        return values_of(batch._replace(scores=scaled, unexpanded=(), costs=own_costs), "sums") / beta

    def _is_checked(self, batch: ScoreBatch) -> bool:
        return is_checked(self.validate, batch.scores[0].device)

    def extra_repr(self) -> str:
        return f"{self.structure!r}, loss={self.loss.name}, cost={self.cost!r}, reduction={self.reduction!r}"


def checked_reduction(reduction: str, length_average: bool) -> str:
    """The name of a reduction; raises :class:`InputError` if there is none of that name."""
    if reduction not in REDUCTIONS:
        names = ", ".join(repr(each) for each in REDUCTIONS)
        raise InputError(f"reduction must be one of {names}, not {reduction!r}")
    if length_average and reduction == "token_mean":
        raise InputError(
            "token_mean divides by all positions, so that length_average has no meaning beside it"
        )
    return reduction
