"""Scores and labels as `PackedSequence`, the output of recurrent networks."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from partwise.errors import InputError


def unpacked(scores: tuple[Any, ...], lengths: Any) -> tuple[tuple[Any, ...], Any]:
    """Scores and lengths, with packed scores padded. Differentiable."""
    if not any(isinstance(each, PackedSequence) for each in scores):
        return scores, lengths
    if lengths is not None:
        raise InputError("packed scores bring their lengths along: lengths are not taken besides")
    if not isinstance(scores[0], PackedSequence) or any(
        isinstance(each, PackedSequence) for each in scores[1:]
    ):
        raise InputError("the first of the scores may be packed, by position; the others are tensors")
    first, lengths = pad_packed_sequence(scores[0], batch_first=True)
    return (first, *scores[1:]), lengths


def padded_target(target: Any) -> torch.Tensor | Any:
    """Labels; packed ones are padded with −1."""
    if isinstance(target, PackedSequence):
        return pad_packed_sequence(target, batch_first=True, padding_value=-1)[0]
    return target
