"""The k best label sequences of chains on a GPU, in the form of the layers."""

from __future__ import annotations

from typing import Any

import torch
import triton

from partwise.structures.checks import require_possible
from partwise.torch.gpu import chain
from partwise.torch.gpu.kbest_kernel import kbest as kbest_of_each
from partwise.torch.layouts.base import ScoreBatch

MOST = 32  # Sequences per example: the kernel keeps their scores for two positions and their back-pointers for all.
_WARPS = {16: 1, 32: 2, 64: 8, 128: 16}


def fits(batch: ScoreBatch, k: int) -> bool:
    """Whether the kernel takes this batch."""
    return k <= MOST and chain.fits(batch)


def kbest(batch: ScoreBatch, k: int) -> list[list[tuple[Any, float]]]:
    """Labels, int64 arrays, and scores of the k best of every example, best first; fewer if an example has fewer."""
    inputs = chain.ChainSums(batch, batch.scores)
    n, length, width, workspace = inputs.n, inputs.length, inputs.n_labels, max(2, triton.next_power_of_2(k))
    whole = {"dtype": torch.int16, "device": inputs.node.device}
    back, label = (
        torch.empty(n, length, workspace, width, **whole),
        torch.zeros(n, workspace, length, **whole),
    )
    ways, value = inputs.node.new_empty(n, 2, workspace, width), inputs.node.new_empty(n, workspace)
    step = width**2 if inputs.per_position else 0
    kbest_of_each[(n,)](
        inputs.node, inputs.edge, inputs.lengths, ways, back, label, value, length, width, inputs.edge_stride, step,
        K=workspace, num_warps=_WARPS[inputs.lanes], **inputs.common,
    )  # fmt: skip
    labels, values = label[:, :k].cpu().numpy().astype("int64"), value[:, :k].double().cpu().numpy()
    require_possible(values[:, 0], False)
    return [
        [(row[:m].copy(), float(score)) for row, score in zip(own, scores, strict=True) if score > -torch.inf]
        for own, scores, m in zip(labels, values, batch.host_lengths().tolist(), strict=True)
    ]
