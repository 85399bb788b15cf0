"""Dependency trees: `arc_scores` (B, n + 1, n + 1) by [head, modifier], and with relations `relation_scores`
(B, n + 1, n + 1, R)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from partwise.core.arrays import block_of, offsets
from partwise.errors import InputError
from partwise.structures.trees.trees import Trees
from partwise.torch.layouts.arrangement import Arrangement
from partwise.torch.layouts.base import Layout, blocks, padded, require_tensor, unpadded
from partwise.torch.layouts.part_map import PartMap


class TreeLayout(Layout):
    """Lengths count words, without the root. A batch of trees is int64 heads (B, n), or a pair of heads and relations,
    −1 behind each."""

    names = ("arc_scores", "relation_scores")
    structure: Trees

    def read(self, scores: tuple[Any, ...]) -> tuple[tuple[torch.Tensor, ...], int, bool]:
        n_relations = self.structure.n_relations
        expected = 1 + self.structure.labelled
        if len(scores) != expected:
            wanted = "arc_scores and relation_scores" if self.structure.labelled else "arc_scores"
            raise InputError(f"{self.structure!r} takes {wanted}")
        arcs = require_tensor(scores[0], "arc_scores", (None, None, None), "(batch, n + 1, n + 1)")
        n, size = arcs.shape[:2]
        if arcs.shape[2] != size or size < 2:
            raise InputError(
                f"arc_scores has shape {tuple(arcs.shape)}, expected (batch, n + 1, n + 1), n ≥ 1"
            )
        if not self.structure.labelled:
            return (arcs,), n, False
        shape = (n, size, size, n_relations)
        return (arcs, require_tensor(scores[1], "relation_scores", shape, str(shape))), n, False

    def longest(self, sizes: tuple[tuple[int, ...], ...]) -> int:
        return sizes[0][1] - 1

    def arrange(self, sizes: tuple[tuple[int, ...], ...], lengths: np.ndarray) -> Arrangement:
        structure, size = self.structure, sizes[0][1]
        shapes = structure.shapes(lengths)
        arcs, n_arcs = structure.arcs_of(shapes), structure.n_arcs(shapes)
        example = block_of(offsets(n_arcs))
        entry = (example * size + arcs.head) * size + arcs.modifier
        within = np.arange(len(example)) - offsets(n_arcs)[example]
        width = structure.n_relations
        counts = [n_arcs, n_arcs * width] if structure.labelled else [n_arcs]
        part_ptr, firsts = blocks(counts)
        places = [PartMap.of(firsts[0][example] + within, entry)]
        if structure.labelled:
            places.append(PartMap(firsts[1][example] + within * width, entry * width, width))
        return Arrangement(structure, structure.specification(), shapes, part_ptr, tuple(places))

    def flat_labels(self, target: Any, lengths: np.ndarray) -> np.ndarray:
        if not self.structure.labelled:
            return unpadded(target, lengths)
        if not isinstance(target, (tuple, list)) or len(target) != 2:
            raise InputError("target must be a pair of heads and relations where n_relations is above 1")
        heads, relations = (unpadded(each, lengths) for each in target)
        if relations.size and (relations.min() < 0 or relations.max() >= self.structure.n_relations):
            raise InputError(f"target holds relation {relations.max()} of {self.structure.n_relations}")
        return heads * self.structure.n_relations + relations

    def labels(self, found: Any, lengths: np.ndarray, device: torch.device) -> Any:
        return self.stacked(
            [self.structure.from_codes(each) for each in np.split(found, np.cumsum(lengths)[:-1])],
            lengths,
            device,
        )

    def example(self, arrays: list[np.ndarray], i: int, length: int) -> tuple[Any, ...]:
        return tuple(each[i, : length + 1, : length + 1] for each in arrays)

    def stacked(self, given: list[Any], lengths: np.ndarray, device: torch.device) -> Any:
        longest = int(lengths.max(initial=0))
        if not self.structure.labelled:
            return padded(given[: len(lengths)], longest, device)
        return tuple(padded([pair[k] for pair in given[: len(lengths)]], longest, device) for k in (0, 1))
