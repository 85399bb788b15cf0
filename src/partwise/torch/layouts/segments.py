"""Segments: `segment_scores` (B, T, D, L) by [start, length − 1, label], `transition_scores` (L, L) or (B, L, L)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from partwise.errors import InputError
from partwise.structures.segments.scores import n_segments
from partwise.structures.segments.semi_markov import SemiMarkov
from partwise.structures.segments.tags import segments_of_tags, tags_of_segments
from partwise.torch.layouts.arrangement import Arrangement
from partwise.torch.layouts.base import Layout, blocks, on_host, require_tensor, whole_numbers
from partwise.torch.layouts.part_map import PartMap


class SegmentLayout(Layout):
    """A batch of segmentations is a list of int64 tensors (k, 3): first, last, label."""

    names = ("segment_scores", "transition_scores")
    structure: SemiMarkov

    def __init__(self, structure: SemiMarkov):
        if len(structure.kinds) > 2:
            raise InputError("layers are for segments without scores of positions (tokens=False)")
        super().__init__(structure)

    def read(self, scores: tuple[Any, ...]) -> tuple[tuple[torch.Tensor, ...], int, bool]:
        if len(scores) != 2:
            raise InputError(f"{self.structure!r} takes segment_scores and transition_scores")
        D, L = self.structure.max_length, self.structure.n_labels
        what = f"(batch, length, {D}, {L})"
        own = require_tensor(scores[0], "segment_scores", (None, None, D, L), what)
        n, between = len(own), scores[1]
        if isinstance(between, torch.Tensor) and between.ndim == 3:
            return (
                (own, require_tensor(between, "transition_scores", (n, L, L), f"({n}, {L}, {L})")),
                n,
                False,
            )
        what = f"({L}, {L}) or ({n}, {L}, {L})"
        return (own, require_tensor(between, "transition_scores", (L, L), what)), n, True

    def arrange(self, sizes: tuple[tuple[int, ...], ...], lengths: np.ndarray) -> Arrangement:
        structure, (n, longest, D, L) = self.structure, sizes[0]
        position = np.arange(longest)[:, None] + np.arange(D)
        rows, columns = np.nonzero((position < lengths[:, None, None]).reshape(n, longest * D))
        counts = n_segments(lengths, D) * L
        part_ptr, (segment_part, transition_part) = blocks([counts, np.full(n, L * L)])
        entry = ((rows * longest * D + columns)[:, None] * L + np.arange(L)).ravel()
        start = np.repeat(segment_part - np.cumsum(counts) + counts, counts)
        example = np.arange(n)[:, None] * L * L + np.arange(L * L)
        places = (
            PartMap.of(start + np.arange(len(entry)), entry),
            PartMap.of((transition_part[:, None] + np.arange(L * L)).ravel(), example.ravel()),
        )
        shapes = structure.shapes(lengths)
        return Arrangement(structure, structure.specification(), shapes, part_ptr, places)

    def flat_labels(self, target: Any, lengths: np.ndarray) -> np.ndarray:
        if len(target) != len(lengths):
            raise InputError(f"target has {len(target)} segmentations for {len(lengths)} examples")
        tags = [
            tags_of_segments(
                on_host(whole_numbers(each, f"target[{i}]")), self.structure.n_labels, f"target[{i}]"
            )
            for i, each in enumerate(target)
        ]
        for i, (each, length) in enumerate(zip(tags, lengths.tolist(), strict=True)):
            if len(each) != length:
                raise InputError(f"target[{i}] covers {len(each)} of {length} positions")
        return np.concatenate([np.zeros(0, np.int64), *tags])

    def labels(self, found: Any, lengths: np.ndarray, device: torch.device) -> list[torch.Tensor]:
        pieces = np.split(found, np.cumsum(lengths)[:-1])[: len(lengths)]
        return self.stacked([segments_of_tags(each) for each in pieces], lengths, device)

    def example(self, arrays: list[np.ndarray], i: int, length: int) -> tuple[Any, ...]:
        return arrays[0][i, :length], arrays[1][i]

    def stacked(self, given: list[Any], lengths: np.ndarray, device: torch.device) -> list[torch.Tensor]:
        return [torch.from_numpy(np.ascontiguousarray(each)).to(device) for each in given]
