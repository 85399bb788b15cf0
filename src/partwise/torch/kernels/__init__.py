"""Kernels for GPUs, in Triton; what has none is computed on the CPU."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from partwise.torch.layouts.base import Batch
from partwise.torch.layouts.chains import ChainLayout
from partwise.torch.layouts.grammars import GrammarLayout
from partwise.torch.layouts.trees import TreeLayout

_MODULES = {ChainLayout: "chain", TreeLayout: "trees", GrammarLayout: "grammar"}


def kernels_for(batch: Batch) -> Any:
    """The module whose kernels take this batch, None where there is none.

    Each has ``fits``, a class ``Given`` as :class:`partwise.torch.kernels.function.Launches` says, and may have
    ``best``, largest scores with indicators of a best labelling, and ``best_labels``.
    """
    name = _MODULES.get(type(batch.layout))
    if name is None:
        return None
    kernels: Any = import_module(f"partwise.torch.kernels.{name}")
    return kernels if kernels.fits(batch) else None
