"""Kernels for GPUs, in Triton; what has none is computed on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType

import torch

from partwise.torch.layouts.base import Batch
from partwise.torch.layouts.chains import ChainLayout
from partwise.torch.layouts.trees import TreeLayout


def kernel_for(batch: Batch, which: str) -> Callable[[Batch], list[torch.Tensor]] | None:
    """What computes values and counts of "sums" or "best" on the device, None where nothing does."""
    return getattr(_kernels(batch), which, None)


def log_partition_for(batch: Batch) -> type[torch.autograd.Function] | None:
    """The log-partition with a gradient of one launch, None where there is none."""
    return getattr(_kernels(batch), "LogPartition", None)


def _kernels(batch: Batch) -> ModuleType | None:
    for layout, name in ((ChainLayout, "chain"), (TreeLayout, "trees")):
        if isinstance(batch.layout, layout):
            kernels = import_module(f"partwise.torch.kernels.{name}")
            return kernels if kernels.fits(batch) else None
    return None
