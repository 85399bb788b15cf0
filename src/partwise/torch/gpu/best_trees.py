"""Best trees on a GPU, in the form that layers return."""

from __future__ import annotations

from typing import Any

import torch
import triton

from partwise.structures.trees.projective import Projective
from partwise.torch.gpu import best_projective_kernel, best_spanning_kernel
from partwise.torch.layouts.base import ScoreBatch

_WARPS_PROJECTIVE = {16: 2, 32: 4, 64: 8, 128: 8, 256: 16}
_WARPS_SPANNING = {16: 1, 32: 1, 64: 1, 128: 1, 256: 2}


def best(batch: ScoreBatch) -> list[torch.Tensor]:
    """Largest scores, and indicators of the arcs, and relations, of a tree that has each."""
    heads, relations, value = _best(batch)
    known = (heads >= 0) & (value > -torch.inf)[:, None]
    counts = torch.zeros_like(batch.scores[0])
    counts[:, :, 1:].scatter_(1, heads.clamp(min=0)[:, None], known[:, None].to(counts.dtype))
    if relations is None:
        return [value, counts]
    more = torch.zeros_like(batch.scores[1])
    return [value, counts, more.scatter_(3, _chosen(batch.scores[1]).indices, counts[..., None])]


def best_labels(batch: ScoreBatch) -> tuple[Any, torch.Tensor]:
    """Heads of a best tree, int64 (B, n) with −1 in the padding, or a pair of these and relations; and scores (B,)."""
    heads, relations, value = _best(batch)
    if batch.lengths is not None:
        longest = int(batch.lengths.max())
        heads = heads[:, :longest]
        relations = None if relations is None else relations[:, :longest]
    return (heads if relations is None else (heads, relations)), value


def _chosen(relations: torch.Tensor) -> Any:
    """Scores and indices of the best relation of every arc, (B, N, N, 1)."""
    return relations.max(-1, keepdim=True)


def _best(batch: ScoreBatch) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor]:
    """Heads (B, n), relations or None, scores (B,)."""
    arcs, structure = batch.scores[0], batch.layout.structure
    if len(batch.scores) > 1:
        found = _chosen(batch.scores[1])
        arcs = arcs + found.values[..., 0]
    search = _projective if isinstance(structure, Projective) else _spanning
    heads, value = search(arcs.contiguous(), batch.lengths, bool(structure.single_root))  # type: ignore[attr-defined]
    if len(batch.scores) == 1:
        return heads, None, value
    relations = found.indices[:, :, 1:, 0].gather(1, heads.clamp(min=0)[:, None])[:, 0]
    return heads, torch.where(heads >= 0, relations, -1), value


def _empty_answers(arcs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Empty tensors for heads and scores."""
    n, size = arcs.shape[:2]
    return torch.empty(n, size - 1, dtype=torch.int64, device=arcs.device), arcs.new_empty(n)


def _projective(
    arcs: torch.Tensor, lengths: torch.Tensor | None, single_root: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    n, size = arcs.shape[:2]
    heads, value = _empty_answers(arcs)
    workspace = arcs.new_empty(n, 6, size, size)
    places = torch.empty(n, 3, size, size, dtype=torch.int16, device=arcs.device)
    marks = torch.zeros(n, 4, size, size, dtype=torch.int8, device=arcs.device)
    rows = max(16, triton.next_power_of_2(size))
    best_projective_kernel.best[(n,)](
        arcs, lengths, workspace, places, marks, heads, value, size, SINGLE=single_root, RAGGED=lengths is not None,
        ROWS=rows, COLUMNS=min(rows, 32), num_warps=_WARPS_PROJECTIVE[rows],
    )  # fmt: skip
    return heads, value


def _spanning(
    arcs: torch.Tensor, lengths: torch.Tensor | None, single_root: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    n, size = arcs.shape[:2]
    heads, value = _empty_answers(arcs)
    place = torch.arange(size, device=arcs.device)
    missing = place[:, None] == place  # nothing is its own head
    if lengths is not None:
        missing = missing | (place > lengths[:, None, None])
    rows = arcs.transpose(1, 2).double().masked_fill(missing, -torch.inf).contiguous()
    gain, first = rows.max(2)
    if single_root:  # the root only if there is no other head
        gain, first = rows[:, :, 1:].max(2)
        alone = gain == -torch.inf
        gain, first = torch.where(alone, rows[:, :, 0], gain), torch.where(alone, 0, first + 1)
    origins, members = torch.zeros(2, n, size, size, dtype=torch.int16, device=arcs.device)
    width = max(16, triton.next_power_of_2(size))
    best_spanning_kernel.best[(n,)](
        arcs, lengths, rows, origins, members, first, gain, heads, value, size, SINGLE=single_root,
        RAGGED=lengths is not None, ROWS=width, num_warps=_WARPS_SPANNING[width],
    )  # fmt: skip
    return heads, value
