"""Chains on a GPU: what the kernels are given, and the log-partition with a backward pass of one launch."""

from __future__ import annotations

from typing import Any

import torch
import triton

from partwise.torch.kernels.chain_each_kernel import backward_each, forward_each, join
from partwise.torch.kernels.chain_kernel import backward, forward
from partwise.torch.kernels.viterbi_kernel import viterbi
from partwise.torch.layouts.base import Batch
from partwise.torch.layouts.chains import is_last
from partwise.torch.sums import gradient_by_sums

# Warps of a program by the padded number of labels.
_WARPS = {16: 1, 32: 1, 64: 2, 128: 4}
_WARPS_EACH = {16: 1, 32: 1, 64: 2, 128: 8}
MOST_LABELS = 128  # their table of transitions stays in the registers of one program


def fits(batch: Batch) -> bool:
    """Whether the kernels take this batch."""
    return 1 <= batch.scores[0].shape[2] <= MOST_LABELS and batch.n_examples > 0


class _Given:
    """Scores with masks applied, lengths and sizes: what all launches share."""

    def __init__(self, batch: Batch, scores: tuple[torch.Tensor, ...] | None = None):
        structure: Any = batch.layout.structure
        node, edge = batch.scores if scores is None else scores
        self.n, self.length, self.n_labels = node.shape
        self.lengths, self.ragged = batch.lengths, batch.lengths is not None
        self.per_position = edge.ndim == 4
        if structure.allowed is not None:
            edge = edge.masked_fill(~_mask(structure.allowed, node), -torch.inf)
        if structure.allowed_start is not None:
            node = node.clone()
            node[:, 0].masked_fill_(~_mask(structure.allowed_start, node), -torch.inf)
        if structure.allowed_end is not None:
            last = is_last(node, self.lengths).bool()
            node = node.masked_fill(last & ~_mask(structure.allowed_end, node), -torch.inf)
        self.node = node.contiguous()
        stride = edge.stride()
        shared = not self.per_position and stride == (0, self.n_labels, 1)
        self.edge = edge if shared else edge.contiguous()
        self.edge_stride = 0 if shared else self.edge.stride(0)
        self.lanes = max(16, triton.next_power_of_2(self.n_labels))
        warps = _WARPS_EACH if self.per_position else _WARPS
        self.common = {"LANES": self.lanes, "RAGGED": self.ragged, "num_warps": warps[self.lanes]}
        self.ahead = 1 if self.lanes > 32 else 3

    def forward(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Room that the backward pass reads (α̂, shifts, forms, one after another) and values (B,)."""
        n, T, L = self.n, self.length, self.n_labels
        room, value = self.node.new_empty(n * T * L + n * T + n), self.node.new_empty(n)
        sizes = (T, L)
        if self.per_position:
            shared = (self.node, self.edge, self.lengths, room, room[n * T * L :])
            forward_each[(2 * n,)](*shared, *sizes, AHEAD=self.ahead, **self.common)
            join[(n,)](*shared, value, *sizes, BLOCK=128, **self.common)
        else:
            forward[(n,)](
                self.node, self.edge, self.lengths, room, room[n * T * L :], room[n * T * (L + 1) :], value,
                *sizes, self.edge_stride, **self.common,
            )  # fmt: skip
        return room, value

    def backward(self, room: torch.Tensor, value: torch.Tensor, weight: torch.Tensor) -> list[torch.Tensor]:
        """Counts of nodes and edges, times `weight` (B,)."""
        n, T, L = self.n, self.length, self.n_labels
        node_count = torch.empty_like(self.node)
        stride = weight.stride(0)
        if self.per_position:
            edge_count = self.node.new_empty(n, T - 1, L, L)
            backward_each[(2 * n,)](
                self.node, self.edge, self.lengths, room, room[n * T * L :], value, weight, stride,
                node_count, edge_count, T, L, AHEAD=self.ahead, **self.common,
            )  # fmt: skip
        else:
            edge_count = self.node.new_empty(n, L, L)
            backward[(n,)](
                self.node, self.edge, self.lengths, room, room[n * T * L :], room[n * T * (L + 1) :], value,
                weight, stride, node_count, edge_count, T, L, self.edge_stride, **self.common,
            )  # fmt: skip
        return [node_count, edge_count]


def _mask(allowed: Any, like: torch.Tensor) -> torch.Tensor:
    return torch.as_tensor(allowed, device=like.device)


def sums(batch: Batch) -> list[torch.Tensor]:
    """Log-partitions and counts."""
    given = _Given(batch)
    room, value = given.forward()
    return [value, *given.backward(room, value, torch.ones_like(value))]


def best(batch: Batch) -> list[torch.Tensor]:
    """Largest scores and indicators of the parts of a best labelling."""
    given = _Given(batch)
    labels, value = best_labels(batch, given)
    node_count, L = torch.zeros_like(given.node), given.n_labels
    known = labels.clamp(min=0)
    inside = (labels >= 0).to(node_count.dtype)
    node_count.scatter_(2, known[:, :, None], inside[:, :, None])
    pair = known[:, :-1] * L + known[:, 1:]
    if given.per_position:
        edge_count = given.node.new_zeros(given.n, given.length - 1, L * L)
        edge_count.scatter_(2, pair[:, :, None], inside[:, 1:, None])
        return [value, node_count, edge_count.view(given.n, given.length - 1, L, L)]
    edge_count = given.node.new_zeros(given.n, L * L).scatter_add_(1, pair, inside[:, 1:])
    return [value, node_count, edge_count.view(given.n, L, L)]


def best_labels(batch: Batch, given: _Given | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """A best labelling, int64 (B, T) with −1 in the padding, and its score (B,)."""
    given = _Given(batch) if given is None else given
    label = torch.empty(given.n, given.length, dtype=torch.int64, device=given.node.device)
    back = torch.empty(given.node.shape, dtype=torch.int16, device=given.node.device)
    value = given.node.new_empty(given.n)
    step = given.n_labels**2 if given.per_position else 0
    viterbi[(given.n,)](
        given.node, given.edge, given.lengths, back, label, value, given.length, given.n_labels,
        given.edge_stride, step, **given.common,
    )  # fmt: skip
    return label, value


class LogPartition(torch.autograd.Function):
    """log Z by one launch, its gradient by another; a gradient of that by `Sums`."""

    @staticmethod
    def forward(ctx: Any, batch: Batch, *scores: torch.Tensor) -> torch.Tensor:
        given = _Given(batch, scores)
        room, value = given.forward()
        ctx.batch, ctx.given = batch._replace(scores=()), given
        ctx.save_for_backward(*scores, room, value)
        return value

    @staticmethod
    def backward(ctx: Any, weight: torch.Tensor) -> tuple[Any, ...]:
        *scores, room, value = ctx.saved_tensors
        if torch.is_grad_enabled():
            return gradient_by_sums(ctx.batch, scores, weight)
        return (None, *ctx.given.backward(room, value, weight))
