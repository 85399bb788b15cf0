"""Masks with holes: the positions of a batch that count, moved to the front, and results moved back."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from partwise.errors import InputError


class Kept(NamedTuple):
    """The positions of each example that a mask keeps.

    An example that keeps none is computed as one position with scores of zero, since compiled code needs a position.
    Its results are then replaced: value 0, no labels.

    Attributes
    ----------
    mask : Tensor of bool (B, T)
    index : Tensor of int64 (B, K)
        Where the kept positions were, in order. Entries behind them are other positions.
    lengths : Tensor of int64 (B,)
        Kept positions of each example, at least 1.
    is_empty : Tensor of bool (B,), or None if that is known to be nowhere
    """

    mask: torch.Tensor
    index: torch.Tensor
    lengths: torch.Tensor
    is_empty: torch.Tensor | None

    @classmethod
    def of(cls, mask: torch.Tensor, on_host: bool) -> Kept:
        """The kept positions of a Boolean mask (B, T). `on_host` says that numbers may be looked at without a wait."""
        count = mask.sum(1)
        index = (~mask).to(torch.uint8).argsort(dim=1, stable=True)
        is_empty: torch.Tensor | None = count == 0
        if on_host and len(mask):
            index = index[:, : max(int(count.max()), 1)]
            is_empty = is_empty if bool((count == 0).any()) else None
        return cls(mask, index, count.clamp(min=1), is_empty)

    def front(self, values: torch.Tensor) -> torch.Tensor:
        """Values (B, T, …) of the kept positions, (B, K, …)."""
        return values.gather(1, _like(self.index, values))

    def front_scores(self, scores: torch.Tensor) -> torch.Tensor:
        """Like :meth:`front`, with zeros for examples without positions."""
        scores = self.front(scores)
        return scores if self.is_empty is None else scores.masked_fill(_as(self.is_empty, scores), 0.0)

    def front_pairs(self, scores: torch.Tensor) -> torch.Tensor:
        """Scores (B, T − 1, …) of transitions: a kept position keeps the scores of the transition into it."""
        into = (self.index[:, 1:] - 1).clamp(min=0)
        return scores.gather(1, _like(into, scores)) if scores.shape[1] else scores

    def back(self, values: torch.Tensor, fill: float = 0.0) -> torch.Tensor:
        """Values (B, K, …), which are `fill` behind the kept positions, in their places (B, T, …)."""
        index = self.index[:, : values.shape[1]]
        whole = values.new_full((*self.mask.shape, *values.shape[2:]), fill)
        whole = whole.scatter(1, _like(index, values), values)
        return whole if self.is_empty is None else whole.masked_fill(_as(self.is_empty, whole), fill)

    def back_pairs(self, values: torch.Tensor) -> torch.Tensor:
        """Values (B, K − 1, …) of transitions between kept positions, at the position they lead to: (B, T − 1, …)."""
        index = self.index[:, 1 : values.shape[1] + 1]
        whole = values.new_zeros(*self.mask.shape, *values.shape[2:])
        return whole.scatter(1, _like(index, values), values)[:, 1:]

    def values(self, values: torch.Tensor) -> torch.Tensor:
        """Values (B,): the only labelling of no positions has score 0."""
        return values if self.is_empty is None else values.masked_fill(self.is_empty, 0.0)

    def amounts(self) -> torch.Tensor:
        """The number of kept positions, (B,), which may be 0."""
        return self.mask.sum(1)


def read_mask(
    mask: Any,
    lengths: torch.Tensor | None,
    n_examples: int,
    longest: int,
    device: torch.device,
    checked: bool,
) -> tuple[Kept | None, torch.Tensor]:
    """The kept positions and lengths (B,). The former is None if the mask is known to keep the first positions.

    Parameters
    ----------
    mask : Tensor of bool (B, T), or of the numbers 0 and 1
    lengths : Tensor of int64 (B,), optional
        Positions behind these are not kept.
    """
    try:
        given = torch.as_tensor(mask)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"mask must be a tensor of True and False, not {type(mask).__name__}") from None
    if tuple(given.shape) != (n_examples, longest):
        raise InputError(f"the mask has shape {tuple(given.shape)}, expected ({n_examples}, {longest})")
    if given.dtype != torch.bool:
        if given.is_complex() or (checked and bool(((given != 0) & (given != 1)).any())):
            raise InputError("the mask must hold True and False, or 1 and 0")
        given = given != 0
    if lengths is not None:
        given = given & (torch.arange(longest, device=given.device) < lengths.to(given.device)[:, None])
    on_host = given.device.type == "cpu" and not torch.compiler.is_compiling()
    has_holes = not on_host or not n_examples or bool((given[:, 1:] & ~given[:, :-1]).any())
    if not has_holes and bool(given[:, 0].all()):
        return None, given.sum(1).to(device)
    kept = Kept.of(given, on_host)
    if device != given.device:
        kept = Kept(*(None if each is None else each.to(device) for each in kept))  # type: ignore[arg-type]
    return kept, kept.lengths


def _like(index: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """An index (B, K) of the second axis of `values`, with the other axes of `values`."""
    return index.reshape(*index.shape, *[1] * (values.ndim - 2)).expand(*index.shape, *values.shape[2:])


def _as(chosen: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """A choice of examples (B,) with the number of axes of `values`."""
    return chosen.reshape(-1, *[1] * (values.ndim - 1))
