"""Chains as segments of one position each, for more labels than fit into registers and for random labellings."""

from __future__ import annotations

import torch

from partwise.torch.gpu.chain import MOST_LABELS, trimmed
from partwise.torch.gpu.segment_sums import SegmentSums
from partwise.torch.layouts.base import ScoreBatch
from partwise.torch.layouts.chain_truth import masked


def fits(batch: ScoreBatch) -> bool:
    """Whether the kernels take this batch."""
    return batch.scores[0].shape[2] > MOST_LABELS and batch.n_examples > 0


class WideChainSums(SegmentSums):
    """Sums over label sequences as segmentations of length-1 segments."""

    def __init__(self, batch: ScoreBatch, scores: tuple[torch.Tensor, ...]):
        node, edge = masked(batch, *scores)
        super().__init__(node[:, :, None], edge, batch.lengths)

    def backward(
        self, value: torch.Tensor, weight: torch.Tensor, together: bool = False
    ) -> list[torch.Tensor]:
        node_count, edge_count = super().backward(value, weight, together)
        return [node_count[:, :, 0], edge_count]


def best(batch: ScoreBatch) -> list[torch.Tensor]:
    """Largest scores and indicators of the parts of a best labelling."""
    value, node_count, edge_count = WideChainSums(batch, batch.scores).best()
    return [value, node_count[:, :, 0], edge_count]


def best_labels(batch: ScoreBatch) -> tuple[torch.Tensor, torch.Tensor]:
    """A best labelling, int64 (B, T) with −1 in the padding, and its score (B,)."""
    tags, value = WideChainSums(batch, batch.scores).best_tags()
    return trimmed(tags // 2, batch.lengths), value


def drawn(
    batch: ScoreBatch, n_samples: int, generator: torch.Generator
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Random labellings, n_samples times (B, T) with −1 in the padding, and log-partitions (B,)."""
    inputs = WideChainSums(batch, batch.scores)
    value = inputs.forward()
    return [trimmed(tags // 2, batch.lengths) for tags in inputs.drawn_tags(n_samples, generator)], value


SUMS = WideChainSums
