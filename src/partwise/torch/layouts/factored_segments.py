"""Segments from factors: `position_scores` (B, T, L), `duration_scores` (D, L) or (B, D, L), `transition_scores` (L, L)
or (B, L, L), and optional `begin_scores` (B, T, L)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from partwise.errors import InputError
from partwise.structures.segments.factored import FactoredSemiMarkov
from partwise.structures.segments.tags import segments_of_tags, tags_of_segments
from partwise.torch.layouts.arrangement import Arrangement
from partwise.torch.layouts.base import Layout, ScoreBatch, blocks, on_host, require_tensor, whole_numbers
from partwise.torch.layouts.part_map import PartMap


class FactoredLayout(Layout):
    """Positions have two scores for every label, (B, T, 2, L): a segment begins here, a segment continues here.

    These are made from position and begin scores before anything else is done, as gradients pass through that. A batch
    of segmentations is a list of int64 tensors (k, 3): first, last, label.
    """

    names = ("position_scores", "duration_scores", "transition_scores", "begin_scores")
    structure: FactoredSemiMarkov

    def read(self, scores: tuple[Any, ...]) -> tuple[tuple[torch.Tensor, ...], int, bool]:
        if not 3 <= len(scores) <= 4:
            raise InputError(
                f"{self.structure!r} takes {', '.join(self.names[:3])}, and may take begin_scores"
            )
        D, L = self.structure.max_length, self.structure.n_labels
        own = require_tensor(scores[0], "position_scores", (None, None, L), f"(batch, length, {L})")
        n, length = own.shape[:2]
        if not length:
            raise InputError("position_scores has no positions; a sequence needs at least one")
        tables = []
        for name, each, tail in zip(self.names[1:3], scores[1:3], ((D, L), (L, L)), strict=True):
            shape = (n, *tail) if isinstance(each, torch.Tensor) and each.ndim == 3 else tail
            tables.append(require_tensor(each, name, shape, f"{tail} or {(n, *tail)}"))
        begins = scores[3:] if scores[3:] != (None,) else ()
        rows = [
            require_tensor(each, "begin_scores", tuple(own.shape), f"{tuple(own.shape)}") for each in begins
        ]
        return (own, *tables, *rows), n, False

    def batch(self, scores: tuple[Any, ...], lengths: Any, validate: bool | None) -> ScoreBatch:
        """With two scores for every position, and tables for every example."""
        batch = super().batch(scores, lengths, validate)
        own, durations, transitions, *begin = batch.scores
        first = own + begin[0] if begin else own
        n = len(own)
        tables = [each.expand(n, *each.shape[-2:]) for each in (durations, transitions)]
        return batch._replace(scores=(torch.stack([first, own], 2), *tables), unexpanded=())

    def _numbers(self, batch: ScoreBatch) -> ScoreBatch:
        """Zeros in place of NaN and +inf behind the lengths; raises if there are others."""
        own = batch.scores[0]
        lengths = torch.from_numpy(batch.host_lengths()).to(own.device)
        inside = torch.arange(own.shape[1], device=own.device) < lengths[:, None]
        clean = []
        for k, (name, each) in enumerate(zip(self.names, batch.scores, strict=False)):
            wrong, is_row = ~(each < torch.inf), k in (0, 3)
            if bool((wrong & inside[..., None] if is_row else wrong).any()):
                raise InputError(f"{name} contains NaN or +inf; scores may be any number or −inf")
            clean.append(torch.where(wrong, torch.zeros_like(each), each))
        return batch._replace(scores=tuple(clean), unexpanded=tuple(clean))

    def arrange(self, sizes: tuple[tuple[int, ...], ...], lengths: np.ndarray) -> Arrangement:
        structure, (n, longest, _, L) = self.structure, sizes[0]
        counts = [2 * lengths * L, np.full(n, structure.max_length * L), np.full(n, L * L)]
        part_ptr, firsts = blocks(counts)
        strides = 2 * longest * L, structure.max_length * L, L * L
        places = tuple(
            PartMap.runs(first, np.arange(n) * stride, count)
            for first, stride, count in zip(firsts, strides, counts, strict=True)
        )
        return Arrangement(structure, structure.specification(), structure.shapes(lengths), part_ptr, places)

    def flat_labels(self, target: Any, lengths: np.ndarray) -> np.ndarray:
        if len(target) != len(lengths):
            raise InputError(f"target has {len(target)} segmentations for {len(lengths)} examples")
        tags = []
        for i, (each, length) in enumerate(zip(target, lengths.tolist(), strict=True)):
            name = f"target[{i}]"
            tags.append(tags_of_segments(on_host(whole_numbers(each, name)), self.structure.n_labels, name))
            if len(tags[-1]) != length:
                raise InputError(f"{name} covers {len(tags[-1])} of {length} positions")
        return np.concatenate([np.zeros(0, np.int64), *tags])

    def labels(self, found: Any, lengths: np.ndarray, device: torch.device) -> list[torch.Tensor]:
        pieces = np.split(found, np.cumsum(lengths)[:-1])[: len(lengths)]
        return self.stacked([segments_of_tags(each) for each in pieces], lengths, device)

    def example(self, arrays: list[np.ndarray], i: int, length: int) -> tuple[Any, ...]:
        first, own = arrays[0][i, :length].swapaxes(0, 1)
        with np.errstate(invalid="ignore"):
            begin = np.where(own > -np.inf, first - own, 0.0)
        return own, arrays[1][i], arrays[2][i], begin

    def stacked(self, given: list[Any], lengths: np.ndarray, device: torch.device) -> list[torch.Tensor]:
        return [torch.from_numpy(np.ascontiguousarray(each)).to(device) for each in given]
