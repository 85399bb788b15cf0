"""Chains on a GPU: what the kernels are given."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
import triton

from partwise.structures.chain.chain import Chain
from partwise.torch.gpu.chain_each_kernel import backward_each, forward_each, join_each
from partwise.torch.gpu.chain_kernel import backward, forward, join
from partwise.torch.gpu.launch import kind, ready
from partwise.torch.gpu.viterbi_kernel import viterbi
from partwise.torch.layouts.base import ScoreBatch
from partwise.torch.layouts.chains import is_last

# Warps of a program, and blocks of transitions under way, by the padded number of labels.
_WARPS = {16: 1, 32: 1, 64: 2, 128: 4}
_WARPS_BACKWARD = {16: 1, 32: 1, 64: 2, 128: 8}
_EACH = {
    16: {"num_warps": 1, "AHEAD": 3},
    32: {"num_warps": 1, "AHEAD": 3},
    64: {"num_warps": 2, "AHEAD": 1},
    128: {"num_warps": 8, "AHEAD": 1},
}
MOST_LABELS = 128  # their table of transitions stays in the registers of one program


def fits(batch: ScoreBatch) -> bool:
    """Whether the kernels take this batch."""
    return 1 <= batch.scores[0].shape[2] <= MOST_LABELS and batch.n_examples > 0


@lru_cache(maxsize=16)
def _masks(structure: Chain, device: torch.device) -> tuple[torch.Tensor | None, ...]:
    """What is not allowed between neighbours, at the first position and at the last, on the device."""
    masks = structure.allowed, structure.allowed_start, structure.allowed_end
    return tuple(None if each is None else ~torch.as_tensor(each, device=device) for each in masks)


def masked(batch: ScoreBatch, node: torch.Tensor, edge: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores with −inf where the structure allows nothing."""
    structure: Any = batch.layout.structure
    if structure.allowed is structure.allowed_start is structure.allowed_end is None:
        return node, edge
    between, first, last = _masks(structure, node.device)
    if between is not None:
        is_shared = edge.ndim == 3 and edge.stride(0) == 0  # and stays so
        edge = (edge[:1] if is_shared else edge).masked_fill(between, -torch.inf).expand(edge.shape)
    if first is not None:
        node = node.clone()
        node[:, 0].masked_fill_(first, -torch.inf)
    if last is not None:
        node = node.masked_fill(is_last(node, batch.lengths).bool() & last, -torch.inf)
    return node, edge


class ChainSums:
    """Scores with masks applied, lengths and sizes: what all launches share."""

    def __init__(self, batch: ScoreBatch, scores: tuple[torch.Tensor, ...]):
        node, edge = masked(batch, *scores)
        self.n, self.length, self.n_labels = node.shape
        self.lengths, self.per_position = batch.lengths, edge.ndim == 4
        self.node = node.contiguous()
        is_shared = not self.per_position and edge.stride() == (0, self.n_labels, 1)
        self.edge = edge if is_shared else edge.contiguous()
        self.edge_stride = 0 if is_shared else self.edge.stride(0)
        self.lanes = max(16, triton.next_power_of_2(self.n_labels))
        self.common = {"LANES": self.lanes, "RAGGED": batch.lengths is not None}
        self.key = (
            self.length,
            self.n_labels,
            self.edge_stride,
            *map(kind, (self.node, self.edge, self.lengths)),
        )
        self.launch = ready("chain", *self.key)

    def forward(self) -> torch.Tensor:
        """Values (B,); leaves room (α̂ or sums, shifts, forms, one after another) that the backward pass reads."""
        n, T, L = self.n, self.length, self.n_labels
        self.room, value = self.node.new_empty(n * (T * (L + 1) + 2)), self.node.new_empty(n)
        given = self.node, self.edge, self.lengths, self.room
        if self.per_position:
            options = _EACH[self.lanes]
            self.launch(forward_each, (2 * n,), *given, T, L, **options, **self.common)
            warps = options["num_warps"]
            self.launch(join_each, (n,), *given, value, T, L, BLOCK=128, num_warps=warps, **self.common)
        else:
            options = {"num_warps": _WARPS[self.lanes], **self.common}
            self.launch(forward, (2 * n,), *given, T, L, self.edge_stride, **options)
            self.launch(join, (n,), *given, value, T, L, self.edge_stride, BLOCK=128, **options)
        return value

    def lost_digits(self, value: torch.Tensor) -> bool:
        """Never: the kernels do such sequences on logarithms."""
        return False

    def backward(
        self, value: torch.Tensor, weight: torch.Tensor, together: bool = False
    ) -> list[torch.Tensor]:
        """Counts of nodes and edges, times `weight` (B,)."""
        n, T, L = self.n, self.length, self.n_labels
        node_count = torch.empty_like(self.node)
        given = self.node, self.edge, self.lengths, self.room, value, weight, weight.stride(0)
        launch = ready("chain backward", *self.key, weight.stride(0), kind(weight))
        if self.per_position:
            edge_count = self.node.new_empty(n, T - 1, L, L)
            launch(
                backward_each,
                (2 * n,),
                *given,
                node_count,
                edge_count,
                T,
                L,
                **_EACH[self.lanes],
                **self.common,
            )
        else:
            sides = self.node.new_empty(n, 2, L, L)
            launch(
                backward, (2 * n,), *given, node_count, sides, T, L, self.edge_stride,
                num_warps=_WARPS_BACKWARD[self.lanes], **self.common,
            )  # fmt: skip
            edge_count = sides.sum((0, 1) if together else 1)
        return [node_count, edge_count]


def best(batch: ScoreBatch) -> list[torch.Tensor]:
    """Largest scores and indicators of the parts of a best labelling."""
    given = ChainSums(batch, batch.scores)
    labels, value = _best_labels(given)
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


def best_labels(batch: ScoreBatch) -> tuple[torch.Tensor, torch.Tensor]:
    """A best labelling, int64 (B, T) with −1 in the padding, and its score (B,)."""
    labels, value = _best_labels(ChainSums(batch, batch.scores))
    return trimmed(labels, batch.lengths), value


def trimmed(labels: torch.Tensor, lengths: torch.Tensor | None) -> torch.Tensor:
    """Without the padding that all examples have; waits for the device where there are lengths."""
    return labels if lengths is None else labels[:, : int(lengths.max())]


def drawn(
    batch: ScoreBatch, n_samples: int, generator: torch.Generator
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Random labellings, n_samples times (B, T) with −1 in the padding, and log-partitions (B,)."""
    from partwise.torch.gpu import wide_chain  # its sums go from left to right, and stay

    return wide_chain.drawn(batch, n_samples, generator)


def _best_labels(given: ChainSums) -> tuple[torch.Tensor, torch.Tensor]:
    label = torch.empty(given.n, given.length, dtype=torch.int64, device=given.node.device)
    back = torch.empty(given.node.shape, dtype=torch.int16, device=given.node.device)
    value = given.node.new_empty(given.n)
    step = given.n_labels**2 if given.per_position else 0
    viterbi[(given.n,)](
        given.node, given.edge, given.lengths, back, label, value, given.length, given.n_labels,
        given.edge_stride, step, num_warps=_WARPS[given.lanes], **given.common,
    )  # fmt: skip
    return label, value


SUMS = ChainSums
