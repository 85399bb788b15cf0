"""Sums over trees on a GPU. `best_trees.py` has the best trees."""

from __future__ import annotations

from typing import Any

import torch
import triton

from partwise.structures.trees.projective import Projective
from partwise.torch.gpu import eisner_kernel, matrix_tree_kernel
from partwise.torch.gpu.best_trees import best, best_labels
from partwise.torch.gpu.launch import launcher_for, specialisation
from partwise.torch.layouts.base import ScoreBatch

__all__ = ["SUMS", "best", "best_labels", "fits"]

MOST_WORDS = 255  # Words of a sentence: one program has a lane for each word and the root.
MOST_STRAIN = 600.0  # Logarithm of the ratio from which derivatives may leave the range of double precision.


def fits(batch: ScoreBatch) -> bool:
    """Whether the kernels take this batch."""
    return batch.n_examples > 0 and batch.scores[0].shape[1] - 1 <= MOST_WORDS


class TreeSums:
    """Sums over trees. Relations are summed into the scores of their arcs first."""

    def __init__(self, batch: ScoreBatch, scores: tuple[torch.Tensor, ...]):
        structure: Any = batch.layout.structure
        arcs = scores[0]
        self.relations = scores[1] if len(scores) > 1 else None
        if self.relations is not None:
            self.totals = torch.logsumexp(self.relations, -1)
            arcs = arcs + self.totals
        self.arcs, self.lengths = arcs.contiguous(), batch.lengths
        self.n, self.size = arcs.shape[:2]
        self.projective = isinstance(batch.layout.structure, Projective)
        rows = max(16, triton.next_power_of_2(self.size if self.projective else self.size - 1))
        self.common = {
            "SINGLE": bool(structure.single_root),
            "RAGGED": batch.lengths is not None,
            "ROWS": rows,
        }
        if self.projective:
            self.common |= {
                "COLUMNS": min(rows, 32),
                "num_warps": {16: 2, 32: 4, 64: 8, 128: 8, 256: 16}[rows],
            }
        else:
            self.common |= {"TILE": 16, "num_warps": {16: 2, 32: 4, 64: 4, 128: 8, 256: 8}[rows]}

        # The offset of the counts in the workspace of the backward pass depends on the number of sentences.
        self.key = (
            self.projective,
            structure.single_root,
            self.n,
            self.size,
            specialisation(self.arcs),
            specialisation(self.lengths),
        )
        self.launch = launcher_for("trees", *self.key)

    def forward(self) -> torch.Tensor:
        """Values (B,). Keeps its workspace for the backward pass."""
        value = self.arcs.new_empty(self.n)
        if self.projective:
            self.workspace = self.arcs.new_empty(self.n, 7, self.size, self.size)
            self.launch(
                eisner_kernel.forward,
                (self.n,),
                self.arcs,
                self.lengths,
                self.workspace,
                value,
                self.size,
                **self.common,
            )
            return value
        self.workspace = torch.empty(self.arcs.shape, dtype=torch.float64, device=self.arcs.device)
        self.strain = self.workspace.new_empty(self.n)
        self.launch(
            matrix_tree_kernel.forward, (self.n,), self.arcs, self.lengths, self.workspace, value, self.strain,
            self.size, **self.common,
        )  # fmt: skip
        return value

    def lost_digits(self, value: torch.Tensor) -> bool:
        """Whether rounding spoiled the sums of a spanning tree. Waits for the device."""
        capturing = self.arcs.is_cuda and torch.cuda.is_current_stream_capturing()
        return not (self.projective or capturing) and not self.strain.max().item() < MOST_STRAIN

    def backward(
        self, value: torch.Tensor, weight: torch.Tensor, together: bool = False
    ) -> list[torch.Tensor]:
        """Counts of arcs, and of relations, times `weight` (B,)."""
        launch = launcher_for("trees backward", *self.key, weight.stride(0), specialisation(weight))
        first = self.arcs, self.lengths, self.workspace, value, weight, weight.stride(0)
        if self.projective:
            zeros = self.arcs.new_zeros(self.n * 7, self.size, self.size)
            shares, counts = zeros[: self.n * 6], zeros[self.n * 6 :]
            launch(eisner_kernel.backward, (self.n,), *first, shares, counts, self.size, **self.common)
        else:
            counts = torch.empty_like(self.arcs)
            shares = torch.empty_like(self.workspace)
            launch(matrix_tree_kernel.backward, (self.n,), *first, shares, counts, self.size, **self.common)
        if self.relations is None:
            return [counts]
        return [counts, counts[..., None] * torch.softmax(self.relations, -1).nan_to_num(0.0)]


SUMS = TreeSums
