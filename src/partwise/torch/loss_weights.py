"""Weights of labels, positions and examples in a loss, and reductions over a batch."""

from __future__ import annotations

from typing import Any

import torch

from partwise.core.losses import Loss
from partwise.errors import InputError
from partwise.structures.chain.chain import Chain
from partwise.structures.contract import Structure
from partwise.torch.layouts.base import ScoreBatch, is_checked


def checked_weights(given: Any, name: str, shape: tuple[int, ...], checked: bool) -> torch.Tensor:
    """Weights as a floating tensor of this shape; raises :class:`InputError` if they are not finite and at least 0."""
    try:
        weights = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"{name} must be numbers of shape {shape}, not {type(given).__name__}") from None
    if tuple(weights.shape) != shape or weights.is_complex():
        raise InputError(f"{name} has shape {tuple(weights.shape)}, expected {shape}")
    if not weights.is_floating_point():
        weights = weights.to(torch.get_default_dtype())
    if checked and not bool(((weights >= 0) & (weights < torch.inf)).all()):
        raise InputError(f"{name} must be finite and at least 0")
    return weights


def label_weights_of(structure: Structure, loss: Loss, given: Any) -> torch.Tensor:
    """The weights of the labels of a chain."""
    if not isinstance(structure, Chain):
        raise InputError("weights of labels and positions are for chains")
    _require_weighable(loss)
    return checked_weights(given, "label_weights", (structure.n_labels,), True)


def _require_weighable(loss: Loss) -> None:
    if loss.is_hard and not loss.gamma:
        raise InputError(
            "weights of labels and positions multiply costs or probabilities, and the perceptron loss has neither"
        )


def on_positions(
    batch: ScoreBatch,
    labels: torch.Tensor,
    label_weights: torch.Tensor | None,
    position_weights: Any,
    loss: Loss,
    checked: bool,
) -> torch.Tensor:
    """The weight of every position that counts, (B, T)."""
    _require_weighable(loss)
    like = batch.scores[0]
    weights = torch.ones_like(labels, dtype=like.dtype)
    if label_weights is not None:
        weights = label_weights.to(like)[labels]
    if position_weights is not None:
        shape = tuple(labels.shape) if batch.kept is None else tuple(batch.kept.mask.shape)
        own = checked_weights(position_weights, "position_weights", shape, checked).to(like)
        weights = weights * (own if batch.kept is None else batch.kept.front(own))
    return weights


def reduced(
    values: torch.Tensor,
    batch: ScoreBatch,
    reduction: str,
    length_average: bool,
    sample_weights: Any,
    validate: bool | None,
) -> torch.Tensor:
    """The losses (B,) of a batch as one number, or weighted if `reduction` is "none"."""
    weights = None
    if sample_weights is not None:
        checked = is_checked(validate, values.device)
        weights = checked_weights(sample_weights, "sample_weights", tuple(values.shape), checked).to(values)
        values = values * weights
    if length_average:
        values = values / _amounts(batch, values).clamp(min=1.0)
    if reduction == "none":
        return values
    if reduction == "sum":
        return values.sum()
    if reduction == "mean":
        return values.mean() if weights is None else values.sum() / weights.sum().clamp(min=1e-30)
    amounts = _amounts(batch, values)
    total = amounts.sum() if weights is None else (weights * amounts).sum()
    return values.sum() / total.clamp(min=1e-30)


def _amounts(batch: ScoreBatch, like: torch.Tensor) -> torch.Tensor:
    """The number of positions of each example that count, (B,)."""
    if batch.kept is not None:
        return batch.kept.amounts().to(like)
    if batch.lengths is not None:
        return batch.lengths.to(like)
    return torch.full_like(like, batch.layout.longest(batch.sizes))
