"""Chains: scores and weighted losses of true labels by PyTorch's own operations, on any device."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch.nn.functional import pad

from partwise.errors import InputError
from partwise.structures.chain.chain import Chain
from partwise.torch.layouts.base import ScoreBatch, whole_numbers


@lru_cache(maxsize=16)
def _masks(structure: Chain, device: torch.device) -> tuple[torch.Tensor | None, ...]:
    """Forbidden pairs of neighbours, first labels and last labels, on the device."""
    masks = structure.allowed, structure.allowed_start, structure.allowed_end
    return tuple(None if each is None else ~torch.as_tensor(each, device=device) for each in masks)


def _masks_on(structure: Chain, device: torch.device) -> tuple[torch.Tensor | None, ...]:
    """The same. Tensors of traced code are not kept."""
    if not torch.compiler.is_compiling():
        return _masks(structure, device)
    if torch.compiler.is_dynamo_compiling():
        return _masks.__wrapped__(structure, device)
    # torch.export knows tensors that are made of lists as constants, but not those that share memory with arrays.
    masks = structure.allowed, structure.allowed_start, structure.allowed_end
    return tuple(None if each is None else ~torch.tensor(each.tolist(), device=device) for each in masks)


def masked(batch: ScoreBatch, node: torch.Tensor, edge: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores, with −inf for labels and pairs that the structure's masks forbid."""
    structure: Any = batch.layout.structure
    if structure.allowed is structure.allowed_start is structure.allowed_end is None:
        return node, edge
    between, first, last = _masks_on(structure, node.device)
    if between is not None:
        is_shared = edge.ndim == 3 and edge.stride(0) == 0  # and stays so
        edge = (edge[:1] if is_shared else edge).masked_fill(between, -torch.inf).expand(edge.shape)
    if first is not None:
        node = node.clone()
        node[:, 0].masked_fill_(first, -torch.inf)
    if last is not None:
        node = node.masked_fill(is_last(node, batch.lengths).bool() & last, -torch.inf)
    return node, edge


def is_last(node: torch.Tensor, lengths: torch.Tensor | None) -> torch.Tensor:
    """Whether each position is the last of its example: bool (B or 1, T, 1)."""
    position = torch.arange(node.shape[1], device=node.device)
    last = position == node.shape[1] - 1 if lengths is None else position[None] == (lengths[:, None] - 1)
    return last.reshape(-1, node.shape[1], 1)


class TrueLabels(NamedTuple):
    """True labels of a batch.

    Attributes
    ----------
    labels : Tensor of int64 (B, T)
        In the range of labels everywhere, so that they may be indices; 0 where nothing counts.
    counts : Tensor of bool (B, T)
        Whether each position counts.
    wrong : Tensor of bool (B, T)
        Whether the label given at a position that counts is none. Nowhere if that was checked.
    """

    labels: torch.Tensor
    counts: torch.Tensor
    wrong: torch.Tensor


def true_labels(batch: ScoreBatch, target: Any, checked: bool) -> TrueLabels:
    """The labels of a target (B, T)."""
    node, longest = batch.scores[0], batch.scores[0].shape[1]
    given = whole_numbers(target, "target")
    if (
        given.ndim != 2
        or given.shape[0] != node.shape[0]
        or given.dtype == torch.bool
        or given.is_floating_point()
    ):
        kind = str(given.dtype).removeprefix("torch.")
        raise InputError(
            f"target must be whole numbers of shape ({len(node)}, length), not {kind} of {tuple(given.shape)}"
        )
    given = given.to(device=node.device, dtype=torch.int64)
    if batch.kept is not None:
        if tuple(given.shape) != tuple(batch.kept.mask.shape):
            raise InputError(
                f"target has shape {tuple(given.shape)}, expected {tuple(batch.kept.mask.shape)}"
            )
        given = batch.kept.front(given)
    position = torch.arange(longest, device=node.device)
    counts = (
        position < batch.lengths[:, None]
        if batch.lengths is not None
        else (position >= 0).expand(node.shape[0], -1)
    )
    if batch.kept is not None and batch.kept.is_empty is not None:
        counts = counts & ~batch.kept.is_empty[:, None]
    if checked and given.shape[1] < longest and len(node) and bool(counts[:, given.shape[1] :].any()):
        needed = int(batch.host_lengths().max())
        raise InputError(f"target has {given.shape[1]} positions for an example of length {needed}")
    given = pad(given, (0, longest - given.shape[1]), value=-1)  # cuts it off if it is longer
    n_labels = node.shape[2]
    wrong = counts & ((given < 0) | (given >= n_labels))
    if checked and bool(wrong.any()):
        i, t, where = _position(batch, wrong)
        raise InputError(f"{where} has label {int(given[i, t])}, but labels run from 0 to {n_labels - 1}")
    labels = torch.where(counts, given, 0)
    return TrueLabels(labels if checked else labels.clamp(0, n_labels - 1), counts, wrong)


def gold_scores(batch: ScoreBatch, true: TrueLabels, checked: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores of the true label at every position, (B, T), and of its pair with the label before, (B, T − 1).

    Both are 0 where nothing counts. Forbidden ones are −inf, or raise if `checked`; wrong labels have NaN.
    """
    labels, counts, wrong = true
    node, edge = batch.scores[0], (batch.unexpanded or batch.scores)[1]
    own = node.gather(2, labels[:, :, None])[:, :, 0]
    before, after = labels[:, :-1], labels[:, 1:]
    row = torch.arange(node.shape[0], device=node.device)[:, None]
    if edge.ndim == 2:
        pairs = edge[before, after]
    elif edge.ndim == 3:
        pairs = edge[row, before, after]
    else:
        pairs = edge.flatten(2).gather(2, (before * edge.shape[-1] + after)[:, :, None])[:, :, 0]
    structure: Any = batch.layout.structure
    if not structure.allowed is structure.allowed_start is structure.allowed_end is None:
        between, first, last = _masks_on(structure, node.device)
        rules = [torch.zeros_like(counts) for _ in range(3)]
        if first is not None:
            rules[0][:, 0] = first[labels[:, 0]]
        if between is not None:
            rules[1][:, 1:] = between[before, after]
        if last is not None:
            rules[2] = is_last(node, batch.lengths)[:, :, 0] & last[labels]
        rules = [each & counts for each in rules]
        if checked:
            _refuse_forbidden(batch, labels, (rules[0], rules[1], rules[2]))
        own = own.masked_fill(rules[0] | rules[2], -torch.inf)
        pairs = pairs.masked_fill(rules[1][:, 1:], -torch.inf)
    if not checked:
        own = own.masked_fill(wrong, torch.nan)
    return torch.where(counts, own, 0.0), torch.where(counts[:, 1:], pairs, 0.0)


def _position(batch: ScoreBatch, wrong: torch.Tensor) -> tuple[int, int, str]:
    """Example and position of the first True of `wrong` (B, T), and both in words, before positions were left out."""
    example, position = (int(each) for each in wrong.nonzero()[0])
    given = position if batch.kept is None else int(batch.kept.index[example, position])
    return example, position, f"target: example {example}, position {given}"


def _refuse_forbidden(
    batch: ScoreBatch, labels: torch.Tensor, by_rule: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
) -> None:
    """Raise if a label may not stand first, follow the one before it, or stand last; (B, T) each."""
    wrong = by_rule[0] | by_rule[1] | by_rule[2]
    if not bool(wrong.any()):
        return
    i, t, where = _position(batch, wrong)
    label, before = int(labels[i, t]), int(labels[i, t - 1])
    why = (
        f"label {label} may not stand first (allowed_start)",
        f"label {label} may not follow label {before} (allowed)",
        f"label {label} may not stand last (allowed_end)",
    )
    raise InputError(f"{where}: {next(text for text, rule in zip(why, by_rule, strict=True) if rule[i, t])}")


def weighted_log_losses(
    batch: ScoreBatch, true: TrueLabels, weights: torch.Tensor, checked: bool
) -> torch.Tensor:
    """Σ_t w_t (−log p(y_t | y_1 … y_{t−1})) of every example, (B,). With weights 1 this is −log p(y).

    p(y_t | y_{t−1}) ∝ exp(node_t(y_t) + edge(y_{t−1}, y_t) + b_t(y_t)), where b_t(i) is the log-sum over all labels
    behind position t if label t is i. Its sum over y_t is exp b_{t−1}(y_{t−1}).
    """
    own, pairs = gold_scores(batch, true, checked)
    labels, counts, _ = true
    node, edge = masked(batch, torch.where(counts[:, :, None], batch.scores[0], 0.0), batch.scores[1])
    length = node.shape[1]
    behind = [torch.zeros_like(node[:, 0])]
    for t in range(length - 2, -1, -1):
        block = edge[:, t] if edge.ndim == 4 else edge
        following = _log_sum(block + (node[:, t + 1] + behind[-1])[:, None, :])
        behind.append(torch.where(counts[:, t + 1, None], following, 0.0))
    total = _log_sum(node[:, 0] + behind[-1])
    ahead = torch.stack(behind[::-1], dim=1).gather(2, labels[:, :, None])[:, :, 0]
    before = torch.cat([total[:, None], ahead[:, :-1]], dim=1)
    terms = before - own - pad(pairs, (1, 0)) - ahead
    losses = (weights * torch.where(counts, terms, 0.0)).sum(1)
    return torch.where(total == -torch.inf, torch.inf, losses)


def _log_sum(scores: torch.Tensor) -> torch.Tensor:
    """log Σ exp over the last axis. Unlike that of `torch.logsumexp`, the gradient is 0 where all scores are −inf."""
    top = scores.detach().amax(-1, keepdim=True)
    top = torch.where(top == -torch.inf, 0.0, top)
    total = (scores - top).exp().sum(-1)
    possible = total > 0
    return torch.where(possible, torch.where(possible, total, 1.0).log() + top[..., 0], -torch.inf)
