"""Chains on a GPU, up to `MOST_LABELS` labels."""

from __future__ import annotations

import torch
import triton

from partwise.torch.gpu.chain_each_kernel import backward_each, forward_each, join_each
from partwise.torch.gpu.chain_kernel import backward, forward, join
from partwise.torch.gpu.launch import launcher_for, specialisation
from partwise.torch.gpu.viterbi_kernel import viterbi
from partwise.torch.layouts.base import ScoreBatch
from partwise.torch.layouts.chain_truth import masked

# Warps of a program, and blocks of transitions under way, by the padded number of labels.
_WARPS = {16: 1, 32: 1, 64: 2, 128: 4}
_WARPS_BACKWARD = {16: 1, 32: 1, 64: 2, 128: 8}
_EACH = {
    16: {"num_warps": 1, "AHEAD": 3},
    32: {"num_warps": 1, "AHEAD": 3},
    64: {"num_warps": 2, "AHEAD": 1},
    128: {"num_warps": 8, "AHEAD": 1},
}
MOST_LABELS = 128  # Labels whose table of transitions fits into the registers of one program.


def fits(batch: ScoreBatch) -> bool:
    """Whether the kernels take this batch."""
    return 1 <= batch.scores[0].shape[2] <= MOST_LABELS and batch.n_examples > 0


class ChainSums:
    """Sums over the label sequences of a batch."""

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
            *map(specialisation, (self.node, self.edge, self.lengths)),
        )
        self.launch = launcher_for("chain", *self.key)

    def forward(self) -> torch.Tensor:
        """Values (B,). The workspace (α̂ or sums, then shifts, then forms) is kept for the backward pass."""
        n, T, L = self.n, self.length, self.n_labels
        self.workspace, value = self.node.new_empty(n * (T * (L + 1) + 2)), self.node.new_empty(n)
        inputs = self.node, self.edge, self.lengths, self.workspace
        if self.per_position:
            options = _EACH[self.lanes]
            self.launch(forward_each, (2 * n,), *inputs, T, L, **options, **self.common)
            warps = options["num_warps"]
            self.launch(join_each, (n,), *inputs, value, T, L, BLOCK=128, num_warps=warps, **self.common)
        else:
            options = {"num_warps": _WARPS[self.lanes], **self.common}
            self.launch(forward, (2 * n,), *inputs, T, L, self.edge_stride, **options)
            self.launch(join, (n,), *inputs, value, T, L, self.edge_stride, BLOCK=128, **options)
        return value

    def lost_digits(self, value: torch.Tensor) -> bool:
        """Never: the kernels use logarithms for such sequences."""
        return False

    def backward(
        self, value: torch.Tensor, weight: torch.Tensor, together: bool = False
    ) -> list[torch.Tensor]:
        """Counts of nodes and edges, times `weight` (B,)."""
        n, T, L = self.n, self.length, self.n_labels
        node_count = torch.empty_like(self.node)
        inputs = self.node, self.edge, self.lengths, self.workspace, value, weight, weight.stride(0)
        launch = launcher_for("chain backward", *self.key, weight.stride(0), specialisation(weight))
        if self.per_position:
            edge_count = self.node.new_empty(n, T - 1, L, L)
            launch(
                backward_each,
                (2 * n,),
                *inputs,
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
                backward, (2 * n,), *inputs, node_count, sides, T, L, self.edge_stride,
                num_warps=_WARPS_BACKWARD[self.lanes], **self.common,
            )  # fmt: skip
            edge_count = sides.sum((0, 1) if together else 1)
        return [node_count, edge_count]


def best(batch: ScoreBatch) -> list[torch.Tensor]:
    """Largest scores and indicators of the parts of a best labelling."""
    inputs = ChainSums(batch, batch.scores)
    labels, value = _best_labels(inputs)
    return [value, *indicators(labels, inputs.node, inputs.edge)]


def indicators(labels: torch.Tensor, node: torch.Tensor, edge: torch.Tensor) -> list[torch.Tensor]:
    """Counts of the parts of labellings (B, T), −1 in the padding, in the shapes of the scores."""
    (n, length, L), node_count = node.shape, torch.zeros_like(node)
    known, inside = labels.clamp(min=0), (labels >= 0).to(node.dtype)
    node_count.scatter_(2, known[:, :, None], inside[:, :, None])
    pair = known[:, :-1] * L + known[:, 1:]
    if edge.ndim == 4:
        edge_count = node.new_zeros(n, length - 1, L * L)
        edge_count.scatter_(2, pair[:, :, None], inside[:, 1:, None])
        return [node_count, edge_count.view(n, length - 1, L, L)]
    edge_count = node.new_zeros(n, L * L).scatter_add_(1, pair, inside[:, 1:])
    return [node_count, edge_count.view(n, L, L)]


def best_labels(batch: ScoreBatch) -> tuple[torch.Tensor, torch.Tensor]:
    """A best labelling, int64 (B, T) with −1 in the padding, and its score (B,)."""
    labels, value = _best_labels(ChainSums(batch, batch.scores))
    return trimmed(labels, batch.lengths), value


def trimmed(labels: torch.Tensor, lengths: torch.Tensor | None) -> torch.Tensor:
    """Labels without the padding that all examples share. Waits for the device if there are lengths."""
    return labels if lengths is None else labels[:, : int(lengths.max())]


def drawn(
    batch: ScoreBatch, n_samples: int, generator: torch.Generator
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Random labellings, n_samples times (B, T) with −1 in the padding, and log-partitions (B,)."""
    from partwise.torch.gpu import wide_chain  # its sums, from left to right, are kept

    return wide_chain.drawn(batch, n_samples, generator)


def _best_labels(inputs: ChainSums) -> tuple[torch.Tensor, torch.Tensor]:
    label = torch.empty(inputs.n, inputs.length, dtype=torch.int64, device=inputs.node.device)
    back = torch.empty(inputs.node.shape, dtype=torch.int16, device=inputs.node.device)
    value = inputs.node.new_empty(inputs.n)
    step = inputs.n_labels**2 if inputs.per_position else 0
    viterbi[(inputs.n,)](
        inputs.node, inputs.edge, inputs.lengths, back, label, value, inputs.length, inputs.n_labels,
        inputs.edge_stride, step, num_warps=_WARPS[inputs.lanes], **inputs.common,
    )  # fmt: skip
    return label, value


SUMS = ChainSums
