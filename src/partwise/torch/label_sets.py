"""Targets that are sets of allowed labels, or likelihoods of labels: partial annotation, crowds, weak supervision."""

from __future__ import annotations

from typing import Any

import torch

from partwise.core.losses import Loss
from partwise.errors import InputError
from partwise.structures.costs import cost_matrix
from partwise.torch.layouts.base import ScoreBatch
from partwise.torch.layouts.chains import ChainLayout
from partwise.torch.layouts.classes import ClassLayout


def is_set(target: Any, scores: tuple[Any, ...]) -> bool:
    """Whether a target says something of every label: it has the number of axes of the first scores."""
    return (
        isinstance(target, torch.Tensor)
        and bool(scores)
        and isinstance(scores[0], torch.Tensor)
        and target.ndim == scores[0].ndim
        and (target.dtype == torch.bool or target.is_floating_point())
    )


def _front(batch: ScoreBatch, target: torch.Tensor) -> torch.Tensor:
    """The target of the positions that count, in the shape of the first scores."""
    size = tuple(batch.scores[0].shape)
    if batch.kept is not None:
        size = (*batch.kept.mask.shape, *size[2:])
    if tuple(target.shape) != size:
        raise InputError(f"target has shape {tuple(target.shape)}, expected {size}, that of the scores")
    target = target.to(batch.scores[0].device)
    return target if batch.kept is None else batch.kept.front(target)


def known_scores(batch: ScoreBatch, target: torch.Tensor, loss: Loss, checked: bool) -> ScoreBatch:
    """The scores of labellings that agree with the target, −inf for others; likelihoods are added to scores."""
    target, own = _front(batch, target), batch.scores[0]
    soft = target.is_floating_point()
    if soft and (loss.is_hard or loss.gamma):
        raise InputError(
            f"likelihoods of labels have no {loss.name} loss; it needs a finite beta and gamma 0"
        )
    if checked and soft and not bool(((target >= 0) & (target < torch.inf)).all()):
        raise InputError("target holds likelihoods of labels; they must be finite and at least 0")
    possible = target > 0 if soft else target
    if checked and isinstance(batch.layout, ChainLayout):
        _refuse_empty(batch, possible)
    if soft:
        logs = torch.where(possible, target, 1.0).to(own).log() / loss.beta
        own = own + logs
    first = own.masked_fill(~possible, -torch.inf)
    unexpanded = (first, *batch.unexpanded[1:]) if batch.unexpanded else ()
    return batch._replace(scores=(first, *batch.scores[1:]), unexpanded=unexpanded)


def _refuse_empty(batch: ScoreBatch, possible: torch.Tensor) -> None:
    """Raise at the first position that no label is allowed at."""
    wrong = ~possible.any(2)
    if batch.lengths is not None:
        wrong &= torch.arange(wrong.shape[1], device=wrong.device) < batch.lengths[:, None]
    if batch.kept is not None and batch.kept.is_empty is not None:
        wrong &= ~batch.kept.is_empty[:, None]
    if bool(wrong.any()):
        example, position = (int(each) for each in wrong.nonzero()[0])
        position = position if batch.kept is None else int(batch.kept.index[example, position])
        raise InputError(
            f"target: example {example}, position {position} allows no label; leave it out with mask="
        )


def costs_of_sets(batch: ScoreBatch, target: torch.Tensor, cost: Any) -> tuple[torch.Tensor | None, ...]:
    """Costs of the entries of the scores: the least cost of a label against those allowed, which cost nothing."""
    if not isinstance(batch.layout, ChainLayout | ClassLayout):
        raise InputError("sets of allowed labels have costs for chains and classes; others need gamma 0")
    if isinstance(cost, dict):
        raise InputError("sets of allowed labels take a matrix of costs, not costs of kinds")
    allowed, own = _front(batch, target), batch.scores[0]
    matrix = torch.as_tensor(cost_matrix(cost, own.shape[-1])).to(own)
    if isinstance(cost, str):
        least = (~allowed).to(own)
    else:
        least = torch.full_like(own, torch.inf)
        for i in range(own.shape[-1]):
            least = torch.minimum(least, torch.where(allowed[..., i : i + 1], matrix[i], torch.inf))
    least = torch.where(allowed | (least == torch.inf), 0.0, least)
    return least, *(None for _ in batch.scores[1:])
