"""Segments on a GPU: scores with what the structure forbids taken out."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

from partwise.structures.segments.semi_markov import SemiMarkov
from partwise.torch.gpu.segment_sums import SegmentSums
from partwise.torch.layouts.base import ScoreBatch


def fits(batch: ScoreBatch) -> bool:
    """Whether the kernels take this batch."""
    return batch.n_examples > 0 and batch.scores[0].shape[1] > 0


@lru_cache(maxsize=16)
def _masks(structure: SemiMarkov, device: torch.device) -> tuple[torch.Tensor | None, ...]:
    """What is too long, (D, L), and what may not follow, stand first and last, on the device; None for nothing."""
    lengths = torch.as_tensor(structure.label_lengths, device=device)
    too_long = torch.arange(structure.max_length, device=device)[:, None] >= lengths
    masks = structure.allowed, structure.allowed_start, structure.allowed_end
    rest = (None if each is None else ~torch.as_tensor(each, device=device) for each in masks)
    return too_long if bool(too_long.any()) else None, *rest


def _masked(
    batch: ScoreBatch, segment: torch.Tensor, edge: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores with −inf where the structure allows nothing."""
    too_long, between, first, last = _masks(batch.layout.structure, segment.device)  # type: ignore[arg-type]
    if too_long is not None:
        segment = segment.masked_fill(too_long, -torch.inf)
    if between is not None:
        edge = edge.masked_fill(between, -torch.inf)
    if first is not None:
        segment = segment.clone()
        segment[:, 0].masked_fill_(first, -torch.inf)
    if last is not None:
        T, D = segment.shape[1:3]
        position = torch.arange(T, device=segment.device)[:, None] + torch.arange(D, device=segment.device)
        end = (
            torch.tensor(T, device=segment.device) if batch.lengths is None else batch.lengths[:, None, None]
        )
        segment = segment.masked_fill(
            (position == end - 1).expand(len(segment), T, D)[..., None] & last, -torch.inf
        )
    return segment, edge


class SegmentationSums(SegmentSums):
    """Scores with masks applied: what all launches share."""

    def __init__(self, batch: ScoreBatch, scores: tuple[torch.Tensor, ...]):
        super().__init__(*_masked(batch, *scores), batch.lengths)


def best(batch: ScoreBatch) -> list[torch.Tensor]:
    """Largest scores, and indicators of the parts of a best segmentation."""
    return SegmentationSums(batch, batch.scores).best()


def best_labels(batch: ScoreBatch) -> tuple[list[torch.Tensor], torch.Tensor]:
    """A best segmentation of every example, (k, 3) each, and their scores (B,)."""
    tags, value = SegmentationSums(batch, batch.scores).best_tags()
    return _segmentations(tags), value


def drawn(batch: ScoreBatch, n_samples: int, generator: torch.Generator) -> tuple[list[Any], torch.Tensor]:
    """Random segmentations, n_samples times those of the batch, and log-partitions (B,)."""
    inputs = SegmentationSums(batch, batch.scores)
    value = inputs.forward()
    return [_segmentations(tags) for tags in inputs.drawn_tags(n_samples, generator)], value


def _segmentations(tags: torch.Tensor) -> list[torch.Tensor]:
    """Segments (k, 3) of every example: all at once, and without a copy."""
    begins = (tags >= 0) & (tags % 2 == 0)
    example, first = begins.nonzero(as_tuple=True)
    beyond = (tags >= 0).sum(1)[example]
    follows = example[1:] == example[:-1]
    beyond[:-1] = torch.where(follows, first[1:], beyond[:-1])
    rows = torch.stack([first, beyond - 1, tags[example, first] // 2], 1)
    return list(rows.split(begins.sum(1).tolist()))


SUMS = SegmentationSums
