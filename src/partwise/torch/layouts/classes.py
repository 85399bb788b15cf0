"""Plain classes: `scores` (B, K)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from partwise.errors import InputError
from partwise.structures.multiclass.multiclass import Multiclass
from partwise.torch.layouts.arrangement import Arrangement
from partwise.torch.layouts.base import Layout, on_host, require_tensor, whole_numbers
from partwise.torch.layouts.part_map import PartMap


class ClassLayout(Layout):
    """One tensor, one example per row. A labelling is a class, and a batch of them int64 (B,)."""

    names = ("scores",)
    structure: Multiclass

    def read(self, scores: tuple[Any, ...]) -> tuple[tuple[torch.Tensor, ...], int, bool]:
        if len(scores) != 1:
            raise InputError(f"{self.structure!r} takes one tensor of scores, not {len(scores)}")
        width = self.structure.n_labels
        given = require_tensor(scores[0], "scores", (None, width), f"(batch, {width})")
        return (given,), len(given), False

    def longest(self, sizes: tuple[tuple[int, ...], ...]) -> int:
        return 1

    def arrange(self, sizes: tuple[tuple[int, ...], ...], lengths: np.ndarray) -> Arrangement:
        structure, n = self.structure, len(lengths)
        part_ptr = np.arange(n + 1) * structure.n_labels
        everything = np.arange(part_ptr[-1])
        return Arrangement(
            structure,
            structure.specification(),
            structure.shapes(lengths),
            part_ptr,
            (PartMap.of(everything, everything),),
        )

    def flat_labels(self, target: Any, lengths: np.ndarray) -> np.ndarray:
        array = on_host(whole_numbers(target, "target"))
        if array.shape != lengths.shape or array.dtype.kind not in "iu":
            raise InputError(
                f"target must be {len(lengths)} whole numbers, not {array.dtype} of shape {array.shape}"
            )
        return array.astype(np.int64)

    def labels(self, found: Any, lengths: np.ndarray, device: torch.device) -> torch.Tensor:
        return torch.from_numpy(np.asarray(found, np.int64)).to(device)

    def example(self, arrays: list[np.ndarray], i: int, length: int) -> tuple[Any, ...]:
        return (arrays[0][i],)

    def stacked(self, given: list[Any], lengths: np.ndarray, device: torch.device) -> torch.Tensor:
        return self.labels(given, lengths, device)
