"""Sums and maxima over labellings as one differentiable operation on score tensors.

An answer is a pair: log-partitions A and expected counts μ, or maxima and indicators of a best labelling. The
gradient of A is μ. The gradient of μ is the Hessian of A. Its product with a direction v is the derivative of μ(s +
h·v) at h = 0, which the four-point rule computes from four further answers. So all structures have second and third
derivatives without recursions for them. The steps are scaled by the largest change that v makes to the score of a
labelling; relative to that, the error in double precision is about 1e-11.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch

from partwise.compiled.simd import LANES
from partwise.structures.checks import require_possible
from partwise.structures.packed import Packed
from partwise.torch.layouts.base import ScoreBatch
from partwise.torch.layouts.chain_truth import masked
from partwise.torch.torch_hooks import is_transformed

# Step h of the four-point rule in each precision: the error h⁴ of the rule equals the rounding error over h.
_STEPS = {torch.float64: 2e-3, torch.float32: 5e-2}


class Sums(torch.autograd.Function):
    """(A, *μ) of a batch. Counts have the shapes of the scores."""

    @staticmethod
    def forward(ctx: Any, batch: ScoreBatch, *scores: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = tuple(compute(batch._replace(scores=scores, unexpanded=()), "sums"))
        _keep_sums(ctx, (batch, *scores), found)
        return found

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[Any, ...]:
        saved = ctx.saved_tensors  # read once, as checkpointing requires
        n = len(saved) // 2
        scores, counts = saved[:n], saved[n:]
        total: list[Any] = [None] * n
        if grads[0] is not None:
            total = [each * as_first(grads[0], each) for each in counts]
        if any(each is not None for each in grads[1:]):
            direction = [
                torch.zeros_like(s) if g is None else g for g, s in zip(grads[1:], scores, strict=True)
            ]
            product = hessian_product(ctx.batch, scores, direction)
            total = [p if t is None else t + p for t, p in zip(total, product, strict=True)]
        return (None, *total)


class Best(torch.autograd.Function):
    """(max, *indicators of a best labelling): piecewise linear; the indicators are a subgradient."""

    @staticmethod
    def forward(ctx: Any, batch: ScoreBatch, *scores: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = tuple(compute(batch._replace(scores=scores, unexpanded=()), "best"))
        _keep_best(ctx, (batch, *scores), found)
        return found

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[Any, ...]:
        return (None, *(each * as_first(grads[0], each) for each in ctx.saved_tensors))


def _keep_sums(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
    batch, *scores = inputs
    ctx.batch = batch._replace(scores=(), unexpanded=())
    ctx.save_for_backward(*scores, *output[1:])
    ctx.set_materialize_grads(False)


def _keep_best(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
    ctx.save_for_backward(*output[1:])
    ctx.mark_non_differentiable(*output[1:])


class TransformedSums(torch.autograd.Function):
    """:class:`Sums` in the form that `torch.func` needs, which takes longer to call."""

    @staticmethod
    def forward(batch: ScoreBatch, *scores: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(compute(batch._replace(scores=scores, unexpanded=()), "sums"))

    setup_context = staticmethod(_keep_sums)
    backward = staticmethod(Sums.backward)


class TransformedBest(torch.autograd.Function):
    """:class:`Best` in the form that `torch.func` needs."""

    @staticmethod
    def forward(batch: ScoreBatch, *scores: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(compute(batch._replace(scores=scores, unexpanded=()), "best"))

    setup_context = staticmethod(_keep_best)
    backward = staticmethod(Best.backward)


def answer(batch: ScoreBatch, which: str) -> tuple[torch.Tensor, ...]:
    """Differentiable values (B,), and counts in the shapes of the scores. `which` is "sums" or "best"."""
    if torch.compiler.is_compiling():
        return traced_answer(batch, which)
    plain, transformed = (Sums, TransformedSums) if which == "sums" else (Best, TransformedBest)
    function = transformed if is_transformed(batch.scores) else plain
    return function.apply(batch, *batch.scores)


def values_of(batch: ScoreBatch, which: str) -> torch.Tensor:
    """Log-partitions or largest scores, (B,). Counts are computed only if a gradient is needed."""
    if torch.compiler.is_compiling():
        return traced_answer(batch, which)[0]
    if which == "sums" and not is_transformed(
        batch.scores
    ):  # the largest score needs a best labelling anyway
        kernels = device_kernels(batch)
        if kernels is not None:
            return _log_partition().apply(kernels.SUMS, batch, *(batch.unexpanded or batch.scores))
        wanted = torch.is_grad_enabled() and any(each.requires_grad for each in batch.scores)
        if not wanted and batch.scores[0].device.type == "cpu":
            values, _ = pack(batch).answers("sums", 0, torch.get_num_threads())
            return torch.from_numpy(values).to(batch.scores[0].dtype)
    return answer(batch, which)[0]


def traced_answer(batch: ScoreBatch, which: str) -> tuple[torch.Tensor, ...]:
    """As :func:`answer`, for code that is being traced: see :mod:`partwise.torch.operators`."""
    operators = torch.ops.partwise
    operator = operators.chain_sums if which == "sums" else operators.chain_best
    return operator(*_traced_inputs(batch))


def _traced_inputs(batch: ScoreBatch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Scores of chains, −inf for forbidden labels; edges that all examples share without a batch axis."""
    return *masked(batch, batch.scores[0], (batch.unexpanded or batch.scores)[1]), batch.lengths


def best_labels(batch: ScoreBatch) -> Any:
    """A best labelling of every example, without the positions that a mask leaves out."""
    if torch.compiler.is_compiling():
        return torch.ops.partwise.chain_labels(*_traced_inputs(batch))
    kernels = device_kernels(batch)
    if hasattr(kernels, "best_labels"):
        labels, values = kernels.best_labels(batch)
        require_possible(values.cpu().numpy(), False)
        return labels
    packed = pack(batch)
    values, counts = packed.answers("best", 1, torch.get_num_threads())
    require_possible(values, False)
    return batch.layout.labels(packed.labels(counts), batch.host_lengths(), batch.scores[0].device)


@cache
def _log_partition() -> Any:
    from partwise.torch.gpu.function import LogPartition

    return LogPartition


def gradient_by_sums(batch: ScoreBatch, scores: Any, weight: torch.Tensor) -> list[torch.Tensor]:
    """The gradient of log-partitions weighted by `weight` (B,), itself differentiable."""
    return [each * as_first(weight, each) for each in Sums.apply(batch, *scores)[1:]]


def hessian_product(
    batch: ScoreBatch, scores: tuple[torch.Tensor, ...], direction: list[torch.Tensor]
) -> list[torch.Tensor]:
    """The derivative of the counts along `direction`."""
    batch = batch._replace(scores=scores)
    if not batch.n_examples:
        return list(direction)
    size = torch.stack(
        [each.detach().abs().flatten(1).amax(1) for each in direction if each[0].numel()]
    ).amax(0)
    step = _STEPS[scores[0].dtype] / (size * batch.layout.most_parts(batch)).clamp(min=1e-30)
    total: list[Any] = [0.0] * len(scores)
    for distance, weight in ((1.0, 8.0), (-1.0, -8.0), (2.0, -1.0), (-2.0, 1.0)):
        moved = [s + (distance * as_first(step, s)) * v for s, v in zip(scores, direction, strict=True)]
        counts = answer(batch._replace(scores=tuple(moved)), "sums")[1:]
        total = [t + c * as_first(weight / (12.0 * step), c) for t, c in zip(total, counts, strict=True)]
    return total


def as_first(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Values (B,) with the number of axes of `like`."""
    return values.reshape(-1, *([1] * (like.ndim - 1)))


def compute(batch: ScoreBatch, which: str) -> list[torch.Tensor]:
    """Values and counts, by a kernel of the device if there is one, else by compiled code on the CPU."""
    kernels = device_kernels(batch)
    if kernels is None or (which == "best" and not hasattr(kernels, "best")):
        return host_answer(batch, which)
    if which == "best":
        return kernels.best(batch)
    from partwise.torch.gpu.function import sums_by

    return sums_by(kernels.SUMS, batch)


def device_kernels(batch: ScoreBatch) -> Any:
    """The module whose kernels take this batch on its device; None if there is none."""
    if batch.scores[0].device.type == "cpu" or batch.costs is not None:
        return None
    from partwise.torch.gpu import kernels_for

    return kernels_for(batch)


def device_ranking(batch: ScoreBatch, k: int) -> Any:
    """The module whose kernel finds the k best labellings on the batch's device; None if there is none."""
    if batch.scores[0].device.type == "cpu":
        return None
    from partwise.torch.gpu import ranking_for

    return ranking_for(batch, k)


def host_answer(batch: ScoreBatch, which: str) -> list[torch.Tensor]:
    """Values and counts by compiled code on the CPU, in double precision."""
    plan, like = batch.arrangement(), batch.scores[0]
    values, counts = pack(batch).answers(which, 1, torch.get_num_threads())
    impossible = values == -np.inf
    if impossible.any():
        counts[np.repeat(impossible, np.diff(plan.part_ptr))] = 0.0
    kind = np.float32 if like.dtype == torch.float32 else np.float64
    arrays = [values, *plan.to_tensors(counts, batch.sizes, kind)]
    return [torch.from_numpy(each).to(dtype=like.dtype, device=like.device) for each in arrays]


def pack(batch: ScoreBatch) -> Packed:
    """The batch as compiled code reads it."""
    plan = batch.arrangement()
    flat = np.zeros(int(plan.part_ptr[-1]) + LANES)
    for places, scores in zip(plan.maps, batch.scores, strict=True):
        places.to_parts(scores.detach().cpu().numpy().reshape(-1), flat)
    if batch.costs is not None:
        flat[: len(batch.costs)] += batch.costs
    return Packed(plan.structure, plan.specification, plan.shapes, plan.part_ptr, flat, False)
