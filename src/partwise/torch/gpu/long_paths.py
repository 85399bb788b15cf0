"""Best and random labellings of few and long chains, parallel in time. `long_chain.py` has the blocks and the tree.

Every label of every position gets its predecessor: the best one, or one drawn in proportion to f_{t−1}(i) X(i, j).
Going back over a block is then a map from labels to labels. Maps are composed for all blocks at once, which gives the
label at the end of every block. The labels inside follow, again for all blocks at once.
"""

from __future__ import annotations

from typing import Any

import torch

from partwise.structures.checks import require_possible
from partwise.torch.gpu import long_chain
from partwise.torch.gpu.chain import indicators, trimmed
from partwise.torch.gpu.long_chain import Blocks, LongChainSums, forward_rows, normal, scan
from partwise.torch.layouts.base import ScoreBatch

_ROOM = 2**23  # Numbers of a table of three labels that are kept at once; more only if the scores are more.


def fits(batch: ScoreBatch, k: int) -> bool:
    """Whether `kbest` takes this batch."""
    return k == 1 and long_chain.fits(batch)


def kbest(batch: ScoreBatch, k: int) -> list[list[tuple[Any, float]]]:
    """The best labels of every example, an int64 array, and their score."""
    labels, value = (each.cpu().numpy() for each in _best(batch))
    require_possible(value, False)
    lengths = batch.host_lengths().tolist()
    return [[(row[:m], float(score))] for row, score, m in zip(labels, value, lengths, strict=True)]


def best(batch: ScoreBatch) -> list[torch.Tensor]:
    """Largest scores and indicators of the parts of a best labelling."""
    labels, value = _best(batch)
    return [value.to(batch.scores[0].dtype), *indicators(labels, *batch.scores)]


def best_labels(batch: ScoreBatch) -> tuple[torch.Tensor, torch.Tensor]:
    """A best labelling, int64 (B, T) with −1 in the padding, and its score (B,)."""
    labels, value = _best(batch)
    return trimmed(labels, batch.lengths), value


def drawn(
    batch: ScoreBatch, n_samples: int, generator: torch.Generator
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Random labellings, n_samples times (B, T) with −1 in the padding, and log-partitions (B,)."""
    sums = LongChainSums(batch, batch.scores)
    value, blocks = sums.forward(), sums.blocks
    whole = slice(0, blocks.n_blocks)
    rows, _ = forward_rows(blocks, blocks.factors(), normal(sums.left), whole)
    if sums.lost_digits(value) or not bool(rows.isfinite().all()):
        from partwise.torch.gpu import wide_chain

        return wide_chain.drawn(batch, n_samples, generator)
    found = []
    for _ in range(n_samples):
        uniform = torch.rand(rows.shape[:3], generator=generator, dtype=rows.dtype, device=rows.device)
        last = torch.rand(blocks.n, generator=generator, dtype=rows.dtype, device=rows.device)
        before = [_drawn_before(blocks, step, rows[step], uniform[step]) for step in range(blocks.size)]
        labels = _choice(rows[-1][:, -1].cumsum(1), last[:, None])
        found.append(trimmed(_trace(blocks, before, labels), batch.lengths))
    return found, value


def _drawn_before(blocks: Blocks, step: int, before: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """A predecessor of every label at a step, int16 (B, K, L)."""
    table = blocks.table_at(step) if blocks.per_position else blocks.table[:, None]
    found = _choice((before[..., None] * table).cumsum(2).mT, uniform[..., None, None])
    return _within(blocks, step, found)


def _choice(sums: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """The index that a uniform number in [0, 1) picks, from cumulative sums of weights in the last axis."""
    level = sums[..., -1:] * uniform.clamp(min=1e-300)
    return (sums < level).sum(-1)


def _best(batch: ScoreBatch) -> tuple[torch.Tensor, torch.Tensor]:
    """Best labels, int64 (B, T), and their scores in double precision."""
    blocks = Blocks(batch, batch.scores)
    value, left, _ = scan(_block_maxima(blocks), _maxima, torch.amax)
    before, now = [], left
    for step in range(blocks.size):
        scores = blocks.node[:, :, step].double()
        top, source = (now[..., None] + _edges(blocks, step)).max(2)
        if step == 0:
            top[:, 0] = 0.0
        before.append(_within(blocks, step, source))
        now = blocks.keep(step, top + scores, now)
    labels = _trace(blocks, before, now[:, -1].argmax(1))
    return labels, value


def _block_maxima(blocks: Blocks) -> torch.Tensor:
    """The best score of what leads from each label before a block to each at its end, float64 (B, K, L, L)."""
    n, K, L = blocks.n, blocks.n_blocks, blocks.n_labels
    same = torch.full((L, L), -torch.inf, dtype=torch.float64, device=blocks.node.device)
    same.fill_diagonal_(0.0)
    first = _edges(blocks, 0).expand(n, K, L, L).clone()
    first[:, 0] = 0.0
    now = blocks.keep(0, first + blocks.node[:, :, 0, None].double(), same)
    for step in range(1, blocks.size):
        new = _maxima(now, _edges(blocks, step).expand(n, K, L, L))
        now = blocks.keep(step, new + blocks.node[:, :, step, None].double(), now)
    return now


def _edges(blocks: Blocks, step: int) -> torch.Tensor:
    """Scores of the edges at a step, float64 (B, K or 1, L, L)."""
    return (blocks.edges_at(step) if blocks.per_position else blocks.edge[:, None]).double()


def _maxima(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """max_k one(i, k) + other(k, j) for matrices (B, K, L, L), some of them at a time."""
    n, count, L = one.shape[:3]
    at_once = max(1, _ROOM // (n * L**3))
    pieces = [
        (one[:, k : k + at_once, :, :, None] + other[:, k : k + at_once, None]).amax(3)
        for k in range(0, count, at_once)
    ]
    return torch.cat(pieces, 1) if len(pieces) > 1 else pieces[0]


def _within(blocks: Blocks, step: int, source: torch.Tensor) -> torch.Tensor:
    """Predecessors as int16; behind the end of a sequence every label goes on."""
    if blocks.valid is not None:
        same = torch.arange(blocks.n_labels, device=source.device)
        source = blocks.keep(step, source, same)
    return source.to(torch.int16)


def _trace(blocks: Blocks, before: list[torch.Tensor], last: torch.Tensor) -> torch.Tensor:
    """Labels int64 (B, T), −1 in the padding, from predecessors by step and the last labels (B,)."""
    maps = torch.arange(blocks.n_labels, device=last.device).expand(before[0].shape)
    for step in range(blocks.size - 1, -1, -1):
        maps = before[step].long().gather(2, maps)
    distance = 1
    while distance < blocks.n_blocks:  # each map over twice as many blocks as before
        maps = torch.cat([maps[:, :-distance].gather(2, maps[:, distance:]), maps[:, -distance:]], 1)
        distance *= 2
    ends = maps[:, 1:].gather(2, last[:, None, None].expand(-1, blocks.n_blocks - 1, 1))[:, :, 0]
    label, found = torch.cat([ends, last[:, None]], 1), []
    for step in range(blocks.size - 1, -1, -1):
        found.append(label)
        label = before[step].long().gather(2, label[:, :, None])[:, :, 0]
    labels = torch.stack(found[::-1], 2)
    if blocks.valid is not None:
        labels = torch.where(blocks.valid, labels, -1)
    return labels.flatten(1)[:, : blocks.length]
