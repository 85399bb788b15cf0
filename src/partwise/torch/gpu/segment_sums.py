"""Sums over segmentations, for segments and for chains of many labels."""

from __future__ import annotations

from typing import Any

import torch
import triton

from partwise.torch.gpu import segment_kernel, segment_paths_kernel
from partwise.torch.gpu.launch import launcher_for, specialisation

_WARPS = {16: 1, 32: 2, 64: 8}
_PROGRAMS = 1024  # Programs that share the counts of transitions: enough to fill a GPU.


class SegmentSums:
    """Sums over the segmentations of a batch.

    Parameters
    ----------
    segment : Tensor (B, T, D, L)
        By [start, length − 1, label].
    edge : Tensor (B, L, L), or with D = 1 (B, T − 1, L, L)
    lengths : Tensor of int64 (B,), or None
    """

    def __init__(self, segment: torch.Tensor, edge: torch.Tensor, lengths: torch.Tensor | None):
        self.n, self.length, self.longest, self.n_labels = segment.shape
        self.segment, self.lengths, self.per_position = segment.contiguous(), lengths, edge.ndim == 4
        is_shared = not self.per_position and edge.stride() == (0, self.n_labels, 1)
        self.edge = edge if is_shared else edge.contiguous()
        self.strides = (0 if is_shared else self.edge.stride(0), self.n_labels**2 if self.per_position else 0)
        self.tile = min(64, max(16, triton.next_power_of_2(self.n_labels)))
        self.common = {"TILE": self.tile, "RAGGED": lengths is not None, "num_warps": _WARPS[self.tile]}
        self.span = min(16, triton.next_power_of_2(self.longest))
        self.sizes = self.length, self.longest, self.n_labels
        self.key = (*self.sizes, *self.strides, *map(specialisation, (self.segment, self.edge, lengths)))

    def forward(self, value: torch.Tensor | None = None) -> torch.Tensor:
        """Values (B,); entries of sequences of length 0 are not written. Keeps the sums for all other methods."""
        n, T, L = self.n, self.length, self.n_labels
        self.alpha, self.into = self.segment.new_empty(n, T, L), self.segment.new_empty(n, T, L)
        self.shift = self.segment.new_empty(n, T + 1, dtype=torch.float64)
        value = self.segment.new_empty(n) if value is None else value
        launcher_for("segments", *self.key)(
            segment_kernel.forward, (n,), self.segment, self.edge, self.lengths, self.alpha, self.into, self.shift,
            value, *self.sizes, *self.strides, SPAN=self.span, **self.common,
        )  # fmt: skip
        return value

    def lost_digits(self, value: torch.Tensor) -> bool:
        """Never: sums are computed on logarithms."""
        return False

    def backward(
        self, value: torch.Tensor, weight: torch.Tensor, together: bool = False
    ) -> list[torch.Tensor]:
        """Counts (B, T, D, L) of segments and of transitions, in the shape of their scores, times `weight` (B,)."""
        inputs = value, weight, weight.stride(0)
        launch = launcher_for("segments backward", *self.key, weight.stride(0), specialisation(weight))
        count, rest = torch.zeros_like(self.segment), torch.empty_like(self.alpha)
        launch(
            segment_kernel.backward, (self.n,), self.segment, self.edge, self.lengths, self.alpha, self.into,
            self.shift, *inputs, torch.empty_like(rest), rest, count, *self.sizes, *self.strides,
            SPAN=self.span, **self.common,
        )  # fmt: skip
        return [count, self._transitions(launch, rest, inputs, together)]

    def _transitions(self, launch: Any, rest: torch.Tensor, inputs: Any, together: bool) -> torch.Tensor:
        n, T, L = self.n, self.length, self.n_labels
        n_tiles = triton.cdiv(L, self.tile) ** 2
        first = self.edge, self.lengths, self.alpha, self.shift, rest, *inputs
        if self.per_position:
            count = rest.new_empty(n, T - 1, L, L)
            if T > 1:
                grid = n * (T - 1), n_tiles
                launch(segment_kernel.transitions_each, grid, *first, count, T, L, **self.common)
            return count
        n_groups = min(n, triton.cdiv(_PROGRAMS, n_tiles)) if together else n
        count = rest.new_empty(n_groups, L, L)
        launch(
            segment_kernel.transitions, (n_groups, n_tiles), *first, count, n, T, L, self.strides[0],
            **self.common,
        )  # fmt: skip
        return count.sum(0) if together else count

    # -- single segmentations as tags: 2·label at the start of a segment, 2·label + 1 inside it, −1 in the padding

    def best_tags(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Tags (B, T) of a best segmentation, and its score (B,)."""
        n, T, L = self.n, self.length, self.n_labels
        workspace, places = (
            self.segment.new_empty(2, n, T, L),
            self.segment.new_empty(2, n, T, L, dtype=torch.int32),
        )
        tag, value = self.segment.new_empty(n, T, dtype=torch.int64), self.segment.new_empty(n)
        segment_paths_kernel.best[(n,)](
            self.segment, self.edge, self.lengths, *workspace, *places, tag, value, *self.sizes, *self.strides,
            SPAN=self.span, **self.common,
        )  # fmt: skip
        return tag, value

    def drawn_tags(self, n_samples: int, generator: torch.Generator) -> torch.Tensor:
        """Random tags (n_samples, B, T); :meth:`forward` must have run."""
        size = n_samples, self.n, self.length
        uniform = torch.rand(*size, 2, generator=generator, dtype=torch.float64, device=self.segment.device)
        tag = self.segment.new_empty(size, dtype=torch.int64)
        segment_paths_kernel.draw[(n_samples * self.n,)](
            self.segment, self.edge, self.lengths, self.alpha, self.into, self.shift, uniform, tag, self.n,
            *self.sizes, *self.strides, SPAN=self.span, **self.common,
        )  # fmt: skip
        return tag

    def best(self) -> list[torch.Tensor]:
        """Largest scores, and how often a segmentation that has them uses each segment and transition."""
        tag, value = self.best_tags()
        n, T, L = self.n, self.length, self.n_labels
        label, position = tag.clamp(min=0) // 2, torch.arange(T, device=tag.device).expand(n, T)
        begins = tag % 2 == 0  # −1 is odd
        start = torch.where(begins, position, 0).cummax(1).values
        follows = torch.cat([tag[:, 1:], tag.new_full((n, 1), -1)], 1)
        ends = (tag >= 0) & ((follows < 0) | (follows % 2 == 0))
        place = (start * self.longest + (position - start) * ends) * L + label
        count = self.segment.new_zeros(n, T * self.longest * L).scatter_add_(1, place, ends.to(value.dtype))
        pair, used = label[:, :-1] * L + label[:, 1:], begins[:, 1:].to(value.dtype)
        if self.per_position:
            between = value.new_zeros(n, T - 1, L * L).scatter_(2, pair[:, :, None], used[:, :, None])
        else:
            between = value.new_zeros(n, L * L).scatter_add_(1, pair, used)
        return [value, count.view(self.segment.shape), between.view(*between.shape[:-1], L, L)]
