"""Log-partitions by kernels as one differentiable operation."""

from __future__ import annotations

from typing import Any, Protocol

import torch

from partwise.torch.layouts.base import ScoreBatch
from partwise.torch.sums import as_first, gradient_by_sums, host_answer


class DeviceSums(Protocol):
    """Log-partitions and counts of a batch by the kernels of one structure."""

    def __init__(self, batch: ScoreBatch, scores: tuple[torch.Tensor, ...]) -> None: ...

    def forward(self) -> torch.Tensor:
        """Log-partitions (B,)."""

    def lost_digits(self, value: torch.Tensor) -> bool:
        """Whether rounding spoiled the result, so that the CPU must compute it. May wait for the device."""

    def backward(
        self, value: torch.Tensor, weight: torch.Tensor, together: bool = False
    ) -> list[torch.Tensor]:
        """Counts in the shapes of the scores, times `weight` (B,). With `together` all examples share the second
        scores, and their counts are summed over examples."""


class LogPartition(torch.autograd.Function):
    """log Z and its gradient by kernels; its second derivative by `Sums`.

    Takes ``batch.unexpanded``, so that shared scores have one gradient instead of one per example.
    """

    @staticmethod
    def forward(ctx: Any, kind: type[DeviceSums], batch: ScoreBatch, *inputs: torch.Tensor) -> torch.Tensor:
        launched = kind(batch, batch.scores)
        value = launched.forward()
        ctx.batch, ctx.launched, ctx.counts = ScoreBatch(batch.layout, (), batch.lengths), launched, None
        ctx.together = len(inputs) > 1 and inputs[1].ndim < batch.scores[1].ndim
        if launched.lost_digits(value):
            value, *ctx.counts = host_answer(batch, "sums")
        ctx.save_for_backward(*inputs, value)
        return value

    @staticmethod
    def backward(ctx: Any, weight: torch.Tensor) -> tuple[Any, ...]:
        *scores, value = ctx.saved_tensors
        if ctx.counts is None and not torch.is_grad_enabled():
            return (None, None, *ctx.launched.backward(value, weight, ctx.together))
        if torch.is_grad_enabled():
            if ctx.together:
                scores[1] = scores[1].expand(len(value), *scores[1].shape)
            counts = gradient_by_sums(ctx.batch, scores, weight)
        else:
            counts = [each * as_first(weight, each) for each in ctx.counts]
        if ctx.together:
            counts[1] = counts[1].sum(0)
        return (None, None, *counts)


def sums_by(kind: type[DeviceSums], batch: ScoreBatch) -> list[torch.Tensor]:
    """Log-partitions and counts."""
    sums = kind(batch, batch.scores)
    value = sums.forward()
    if sums.lost_digits(value):
        return host_answer(batch, "sums")
    return [value, *sums.backward(value, torch.ones_like(value))]
