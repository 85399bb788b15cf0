"""Chains of many labels with shared transitions on a GPU: products of matrices, one launch per position."""

from __future__ import annotations

import torch
import triton

from partwise.torch.gpu import tied_steps_kernel as kernel
from partwise.torch.gpu import wide_chain
from partwise.torch.gpu.launch import launcher_for, specialisation
from partwise.torch.gpu.segment_sums import SegmentSums
from partwise.torch.layouts.base import ScoreBatch
from partwise.torch.layouts.chain_truth import masked

best, best_labels, drawn = wide_chain.best, wide_chain.best_labels, wide_chain.drawn

_TILE = 32
_BLOCK = 256


def fits(batch: ScoreBatch) -> bool:
    """Whether the kernels take this batch."""
    node, edge = batch.scores
    return wide_chain.fits(batch) and edge.ndim == 3 and edge.stride(0) == 0 and node.dtype == torch.float32


class TiedChainSums:
    """Sums over label sequences, by one matrix product per position."""

    def __init__(self, batch: ScoreBatch, scores: tuple[torch.Tensor, ...]):
        node, edge = masked(batch, *scores)
        self.node, self.edge, self.lengths = node.contiguous(), edge, batch.lengths
        self.n, self.length, self.n_labels = node.shape
        self.padded = triton.cdiv(self.n_labels, _TILE) * _TILE
        self.grid = triton.cdiv(self.n, kernel.ROWS), self.padded // _TILE, 2
        self.ragged = {"RAGGED": batch.lengths is not None}
        self.tiles = {"PADDED": self.padded, "TILE": _TILE, "num_warps": 4, **self.ragged}
        self.key = self.length, self.n_labels, specialisation(self.node), specialisation(self.lengths)
        self.half = (self.length + 1) // 2  # positions of the longer side

    def forward(self) -> torch.Tensor:
        """Values (B,). Keeps sums, and one of the two factors of every pair, for the backward pass."""
        n, T, L = self.n, self.length, self.n_labels
        launch, empty = launcher_for("tied steps", *self.key), self.node.new_empty
        self.top = self.edge[0].max()
        self.table = torch.exp(self.edge[0] - torch.where(self.top == -torch.inf, 0.0, self.top))
        self.tables = self.node.new_zeros(2, self.padded, self.padded)
        self.tables[0, :L, :L], self.tables[1, :L, :L] = self.table, self.table.T
        largest, self.sums, moved = self.node.amax(2), empty(n, T, L), empty(n, T)
        self.left, self.right = self.node.new_zeros(2, n, T, self.padded).unbind()
        strained = torch.zeros(n, dtype=torch.int32, device=self.node.device)
        inputs = (
            self.node,
            largest,
            self.tables,
            self.lengths,
            self.sums,
            self.left,
            self.right,
            moved,
            strained,
        )
        launch.of(kernel.forward, **self.tiles).each(self.grid, [*inputs, n, 0, T, L], 10, range(self.half))
        self.between, self.whole, value = empty(n, 3, L), empty(n), empty(n)
        left_over = torch.empty(n, dtype=torch.int64, device=self.node.device)
        launch(
            kernel.middle, self.grid, self.tables, self.lengths, self.left, self.right, self.between, n, T, L,
            **self.tiles,
        )  # fmt: skip
        launch(
            kernel.join, (n,), self.lengths, self.between, moved, strained, self.top, self.whole, left_over, value,
            T, L, BLOCK=_BLOCK, num_warps=4, **self.ragged,
        )  # fmt: skip
        self.rest = SegmentSums(self.node[:, :, None], self.edge, left_over)
        return self.rest.forward(value)

    def lost_digits(self, value: torch.Tensor) -> bool:
        """Never: `SegmentSums` computes such sequences on logarithms."""
        return False

    def backward(
        self, value: torch.Tensor, weight: torch.Tensor, together: bool = False
    ) -> list[torch.Tensor]:
        """Counts of nodes and edges, times `weight` (B,)."""
        n, T, L = self.n, self.length, self.n_labels
        launch = launcher_for("tied steps backward", *self.key, weight.stride(0), specialisation(weight))
        count, edge_count = self.rest.backward(value, weight, together)
        node_count = count[:, :, 0]
        launch(
            kernel.begin, (n,), self.lengths, self.sums, self.left, self.right, self.between, self.whole, weight,
            weight.stride(0), node_count, T, L, PADDED=self.padded, BLOCK=_BLOCK, num_warps=4, **self.ragged,
        )  # fmt: skip
        inputs = self.tables, self.lengths, self.sums, self.left, self.right, self.whole, node_count
        launch.of(kernel.backward, **self.tiles).each(
            self.grid, [*inputs, n, 1, T, L], 8, range(1, self.half)
        )
        if together:  # rows of neighbours lie side by side; those of two sequences meet in a row of zeros
            pairs = self.left.view(-1, self.padded)[:-1].T @ self.right.view(-1, self.padded)[1:]
        else:
            pairs = self.left[:, :-1].transpose(1, 2) @ self.right[:, 1:]
        return [node_count, edge_count + self.table * pairs[..., :L, :L]]


SUMS = TiedChainSums
