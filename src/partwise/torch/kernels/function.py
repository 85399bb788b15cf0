"""Log-partitions by kernels as one differentiable operation: launches forward, launches backward."""

from __future__ import annotations

from typing import Any, Protocol

import torch

from partwise.torch.layouts.base import Batch
from partwise.torch.sums import as_first, gradient_by_sums, host_answer


class Launches(Protocol):
    """What kernels of one structure are given, and what they leave for each other."""

    def __init__(self, batch: Batch, scores: tuple[torch.Tensor, ...]) -> None: ...

    def forward(self) -> torch.Tensor:
        """Log-partitions (B,)."""

    def lost_digits(self, value: torch.Tensor) -> bool:
        """Whether the batch must be done otherwise; asking may wait for the device."""

    def backward(self, value: torch.Tensor, weight: torch.Tensor) -> list[torch.Tensor]:
        """Counts in the shapes of the scores, times `weight` (B,)."""


class LogPartition(torch.autograd.Function):
    """log Z and its gradient by launches; a gradient of that by `Sums`."""

    @staticmethod
    def forward(ctx: Any, launches: type[Launches], batch: Batch, *scores: torch.Tensor) -> torch.Tensor:
        given = launches(batch, scores)
        value = given.forward()
        ctx.batch, ctx.given, ctx.counts = batch._replace(scores=()), given, None
        if given.lost_digits(value):
            value, *ctx.counts = host_answer(batch._replace(scores=scores), "sums")
        ctx.save_for_backward(*scores, value)
        return value

    @staticmethod
    def backward(ctx: Any, weight: torch.Tensor) -> tuple[Any, ...]:
        *scores, value = ctx.saved_tensors
        if torch.is_grad_enabled():
            return (None, *gradient_by_sums(ctx.batch, scores, weight))
        if ctx.counts is not None:
            return (None, None, *(each * as_first(weight, each) for each in ctx.counts))
        return (None, None, *ctx.given.backward(value, weight))


def sums_by(launches: type[Launches], batch: Batch) -> list[torch.Tensor]:
    """Log-partitions and counts."""
    given = launches(batch, batch.scores)
    value = given.forward()
    if given.lost_digits(value):
        return host_answer(batch, "sums")
    return [value, *given.backward(value, torch.ones_like(value))]
