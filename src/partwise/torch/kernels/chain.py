"""Chains on a GPU: what the kernels are given."""

from __future__ import annotations

from functools import lru_cache

import torch
import triton

from partwise.structures.chain.chain import Chain
from partwise.torch.kernels.chain_each_kernel import backward_each, forward_each, join
from partwise.torch.kernels.chain_kernel import backward, forward
from partwise.torch.kernels.viterbi_kernel import viterbi
from partwise.torch.layouts.base import Batch
from partwise.torch.layouts.chains import is_last

# Warps of a program, and blocks of transitions under way, by the padded number of labels.
_WARPS = {16: 1, 32: 1, 64: 2, 128: 4}
_EACH = {
    16: {"num_warps": 1, "AHEAD": 4},
    32: {"num_warps": 1, "AHEAD": 4},
    64: {"num_warps": 2, "AHEAD": 3},
    128: {"num_warps": 8, "AHEAD": 3},
}
MOST_LABELS = 128  # their table of transitions stays in the registers of one program


def fits(batch: Batch) -> bool:
    """Whether the kernels take this batch."""
    return 1 <= batch.scores[0].shape[2] <= MOST_LABELS and batch.n_examples > 0


@lru_cache(maxsize=16)
def _masks(structure: Chain, device: torch.device) -> tuple[torch.Tensor | None, ...]:
    """What is not allowed between neighbours, at the first position and at the last, on the device."""
    masks = structure.allowed, structure.allowed_start, structure.allowed_end
    return tuple(None if each is None else ~torch.as_tensor(each, device=device) for each in masks)


def _masked(batch: Batch, node: torch.Tensor, edge: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores with −inf where the structure allows nothing."""
    between, first, last = _masks(batch.layout.structure, node.device)
    if between is not None:
        edge = edge.masked_fill(between, -torch.inf)
    if first is not None:
        node = node.clone()
        node[:, 0].masked_fill_(first, -torch.inf)
    if last is not None:
        node = node.masked_fill(is_last(node, batch.lengths).bool() & last, -torch.inf)
    return node, edge


class Given:
    """Scores with masks applied, lengths and sizes: what all launches share."""

    def __init__(self, batch: Batch, scores: tuple[torch.Tensor, ...]):
        node, edge = _masked(batch, *scores)
        self.n, self.length, self.n_labels = node.shape
        self.lengths, self.per_position = batch.lengths, edge.ndim == 4
        self.node = node.contiguous()
        is_shared = not self.per_position and edge.stride() == (0, self.n_labels, 1)
        self.edge = edge if is_shared else edge.contiguous()
        self.edge_stride = 0 if is_shared else self.edge.stride(0)
        self.lanes = max(16, triton.next_power_of_2(self.n_labels))
        self.common = {"LANES": self.lanes, "RAGGED": batch.lengths is not None}

    def forward(self) -> torch.Tensor:
        """Values (B,); leaves room (α̂ or sums, shifts, forms, one after another) that the backward pass reads."""
        n, T, L = self.n, self.length, self.n_labels
        self.room, value = self.node.new_empty(n * (T * (L + 1) + 1)), self.node.new_empty(n)
        given = self.node, self.edge, self.lengths, self.room
        if self.per_position:
            options = _EACH[self.lanes]
            forward_each[(2 * n,)](*given, T, L, **options, **self.common)
            join[(n,)](*given, value, T, L, BLOCK=128, num_warps=4, **self.common)
        else:
            forward[(n,)](*given, value, T, L, self.edge_stride, num_warps=_WARPS[self.lanes], **self.common)
        return value

    def lost_digits(self, value: torch.Tensor) -> bool:
        """Never: the kernels do such sequences on logarithms."""
        return False

    def backward(self, value: torch.Tensor, weight: torch.Tensor) -> list[torch.Tensor]:
        """Counts of nodes and edges, times `weight` (B,)."""
        n, T, L = self.n, self.length, self.n_labels
        node_count = torch.empty_like(self.node)
        given = self.node, self.edge, self.lengths, self.room, value, weight, weight.stride(0)
        if self.per_position:
            edge_count = self.node.new_empty(n, T - 1, L, L)
            backward_each[(2 * n,)](
                *given, node_count, edge_count, T, L, **_EACH[self.lanes], **self.common
            )
        else:
            edge_count = self.node.new_empty(n, L, L)
            backward[(n,)](
                *given, node_count, edge_count, T, L, self.edge_stride, num_warps=_WARPS[self.lanes],
                **self.common,
            )  # fmt: skip
        return [node_count, edge_count]


def best(batch: Batch) -> list[torch.Tensor]:
    """Largest scores and indicators of the parts of a best labelling."""
    given = Given(batch, batch.scores)
    labels, value = best_labels(given)
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


def best_labels(given: Given) -> tuple[torch.Tensor, torch.Tensor]:
    """A best labelling, int64 (B, T) with −1 in the padding, and its score (B,)."""
    label = torch.empty(given.n, given.length, dtype=torch.int64, device=given.node.device)
    back = torch.empty(given.node.shape, dtype=torch.int16, device=given.node.device)
    value = given.node.new_empty(given.n)
    step = given.n_labels**2 if given.per_position else 0
    viterbi[(given.n,)](
        given.node, given.edge, given.lengths, back, label, value, given.length, given.n_labels,
        given.edge_stride, step, num_warps=_WARPS[given.lanes], **given.common,
    )  # fmt: skip
    return label, value
