"""Chains of order 1: `node_scores` (B, T, L), `edge_scores` (L, L), (B, L, L) or (B, T − 1, L, L), and optional
`start_scores` and `end_scores` (L,)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from partwise.errors import InputError
from partwise.structures.chain.chain import Chain
from partwise.structures.costs import cost_matrix
from partwise.torch.layouts.arrangement import Arrangement
from partwise.torch.layouts.base import (
    Layout,
    ScoreBatch,
    blocks,
    padded,
    require_tensor,
    unpadded,
)
from partwise.torch.layouts.chain_truth import gold_scores, true_labels
from partwise.torch.layouts.kept import Kept
from partwise.torch.layouts.part_map import PartMap


class ChainLayout(Layout):
    """Edges are shared by all positions, (B, L, L), or each pair of neighbours has its own, (B, T − 1, L, L).

    Start and end scores are added to the nodes before anything else is done, as gradients pass through that.
    A batch of labellings is int64 (B, T), −1 behind each.
    """

    names = ("node_scores", "edge_scores", "start_scores", "end_scores")
    can_skip = True
    structure: Chain

    def __init__(self, structure: Chain, per_position: bool = False):
        if structure.order != 1:
            raise InputError(f"layers are for chains of order 1, not {structure!r}")
        masks = structure.allowed, structure.allowed_start, structure.allowed_end
        super().__init__(
            structure
            if structure.tied != per_position or torch.compiler.is_compiling()  # operators read scores alone
            else Chain(
                structure.n_labels,
                tied=not per_position,
                allowed=masks[0],
                allowed_start=masks[1],
                allowed_end=masks[2],
            )
        )
        self.original, self.per_position = structure, per_position

    def _key(self) -> tuple[Any, ...]:
        return id(self.original), self.per_position

    def read(self, scores: tuple[Any, ...]) -> tuple[tuple[torch.Tensor, ...], int, bool]:
        if not 2 <= len(scores) <= 4:
            raise InputError(
                "a chain takes node_scores and edge_scores, and may take start_scores and end_scores"
            )
        L = self.structure.n_labels
        node = require_tensor(scores[0], "node_scores", (None, None, L), f"(batch, length, {L})")
        n, length = node.shape[:2]
        if not length:
            raise InputError("node_scores has no positions; a sequence needs at least one")
        edge = scores[1]
        # Sizes in a text would make them constants of a graph.
        batch, pairs = ("batch", "length - 1") if torch.compiler.is_compiling() else (n, length - 1)
        if isinstance(edge, torch.Tensor) and edge.ndim == 4:
            edge = require_tensor(edge, "edge_scores", (n, length - 1, L, L), f"({batch}, {pairs}, {L}, {L})")
        elif isinstance(edge, torch.Tensor) and edge.ndim == 3:
            edge = require_tensor(edge, "edge_scores", (n, L, L), f"({batch}, {L}, {L})")
        else:
            what = f"({L}, {L}), ({batch}, {L}, {L}) or ({batch}, {pairs}, {L}, {L})"
            edge = require_tensor(edge, "edge_scores", (L, L), what)
        ends = [
            require_tensor(each, name, (L,), f"({L},)")
            for each, name in zip(scores[2:], self.names[2:], strict=False)
            if each is not None
        ]
        return (node, edge, *ends), n, edge.ndim == 2

    def batch(self, scores: tuple[Any, ...], lengths: Any, validate: bool | None) -> ScoreBatch:
        """With start and end scores within those of nodes."""
        layout = self
        if len(scores) > 1 and isinstance(scores[1], torch.Tensor) and scores[1].ndim == 4:
            layout = ChainLayout(self.original, per_position=True)
        batch = Layout.batch(layout, scores, lengths, validate)
        if len(scores) == 2:
            return batch
        given = dict(zip(self.names[2:], scores[2:], strict=False))
        node, edge, *rest = batch.scores
        remaining = iter(rest)
        start, end = (None if given.get(name) is None else next(remaining) for name in self.names[2:])
        node = with_ends(node, start, end, batch.lengths)
        return batch._replace(scores=(node, edge), unexpanded=(node, batch.unexpanded[1]))

    def keep(self, scores: tuple[Any, ...], kept: Kept) -> tuple[Any, ...]:
        """The chain connects kept positions. Own edges of a pair are those into the later position."""
        node, edge, *ends = scores
        return kept.front_scores(node), kept.front_pairs(edge) if edge.ndim == 4 else edge, *ends

    def back(self, found: tuple[torch.Tensor, ...], kept: Kept) -> tuple[torch.Tensor, ...]:
        """Marginals of nodes and of pairs of neighbours, in the places of the positions before some were left out."""
        return kept.back(found[0]), *(kept.back_pairs(each) for each in found[1:])

    def truth(
        self, batch: ScoreBatch, target: Any, cost: Any, checked: bool = True, weights: Any = None
    ) -> tuple[torch.Tensor, Any, torch.Tensor | None]:
        """By PyTorch's own operations, unless costs are of kinds of rows. `weights` (B, T) multiply costs."""
        true = true_labels(batch, target, checked)
        own, pairs = gold_scores(batch, true, checked)
        gold = own.sum(1) + pairs.sum(1)
        if cost is None:
            return gold, None, None
        if isinstance(cost, Mapping):
            if weights is not None:
                raise InputError(
                    "weights of labels and positions multiply a matrix of costs, not those of kinds"
                )
            return gold, *super().truth(batch, true.labels, cost)[1:]
        matrix = torch.as_tensor(cost_matrix(cost, self.structure.n_labels)).to(batch.scores[0])
        costs = torch.where(true.counts[:, :, None], matrix[true.labels], 0.0)
        return gold, (costs if weights is None else costs * weights[:, :, None], None), None

    def arrange(self, sizes: tuple[tuple[int, ...], ...], lengths: np.ndarray) -> Arrangement:
        structure, (n, longest, L) = self.structure, sizes[0]
        n_nodes = lengths * L
        n_edges = (lengths - 1) * L * L if self.per_position else np.full(n, L * L)
        part_ptr, (node_part, edge_part) = blocks([n_nodes, n_edges])
        edge_stride = (longest - 1) * L * L if self.per_position else L * L
        example = np.arange(n)
        places = (
            PartMap.runs(node_part, example * longest * L, n_nodes),
            PartMap.runs(edge_part, example * edge_stride, n_edges),
        )
        shapes = structure.shapes(lengths)
        return Arrangement(structure, structure.specification(), shapes, part_ptr, places)

    def flat_labels(self, target: Any, lengths: np.ndarray) -> np.ndarray:
        return unpadded(target, lengths)

    def labels(self, found: Any, lengths: np.ndarray, device: torch.device) -> torch.Tensor:
        longest = int(lengths.max(initial=0))
        result = np.full((len(lengths), longest), -1, np.int64)
        result[np.arange(longest) < lengths[:, None]] = found
        return torch.from_numpy(result).to(device)

    def example(self, arrays: list[np.ndarray], i: int, length: int) -> tuple[Any, ...]:
        edges = arrays[1][i, : length - 1] if self.per_position else arrays[1][i]
        return arrays[0][i, :length], edges

    def stacked(self, given: list[Any], lengths: np.ndarray, device: torch.device) -> torch.Tensor:
        return padded(given, int(lengths.max(initial=0)), device)

    def for_marginals(self, batch: ScoreBatch) -> ScoreBatch:
        """Edges of all positions, also where their scores are shared."""
        if self.per_position:
            return batch
        node, edge = batch.scores
        n, length, L = node.shape
        spread = edge[:, None].expand(n, length - 1, L, L)
        return ScoreBatch(
            ChainLayout(self.original, per_position=True), (node, spread), batch.lengths, kept=batch.kept
        )


def with_ends(
    node: torch.Tensor, start: torch.Tensor | None, end: torch.Tensor | None, lengths: torch.Tensor | None
) -> torch.Tensor:
    """Node scores with `start` (L,) added at the first and `end` at the last position, in one copy."""
    if (start is None and end is None) or not node.shape[0]:
        return node
    n, length, width = node.shape
    zeros = node.new_zeros(width)
    start, end = (zeros if each is None else each for each in (start, end))
    last = torch.full((n,), length, device=node.device) if lengths is None else lengths
    last = (last - 1).clamp(0, length - 1)  # lengths that were not checked
    is_one = (last == 0)[
        :, None
    ]  # both at one position: added together, so that the order is always the same
    added = torch.stack([start + torch.where(is_one, end, 0.0), torch.where(is_one, 0.0, end)], dim=1)
    index = torch.stack([torch.zeros_like(last), last], dim=1)[:, :, None]
    return node.scatter_add(1, index.expand(n, 2, width), added)
