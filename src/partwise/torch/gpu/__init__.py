"""Sums, best and random labellings on a GPU: classes by PyTorch, other structures by kernels in Triton.

`function.py` says what every module of kernels offers (read it first). `chain.py`, `trees.py`, `segments.py` and
others prepare inputs and launch; `*_kernel.py` are the kernels. Few and long chains (`long_chain.py`) use PyTorch
only. `launch.py` makes repeated launches cheap, `triton_hooks.py` holds all uses of Triton's private parts. Batches
that no kernel takes go to compiled code on the CPU.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from partwise.torch.layouts.base import Layout, ScoreBatch
from partwise.torch.layouts.chains import ChainLayout
from partwise.torch.layouts.classes import ClassLayout
from partwise.torch.layouts.grammars import GrammarLayout
from partwise.torch.layouts.segments import SegmentLayout
from partwise.torch.layouts.trees import TreeLayout

_MODULES: dict[type[Layout], tuple[str, ...]] = {
    ClassLayout: ("classes",),
    ChainLayout: ("long_chain", "chain", "tied_steps", "wide_chain"),
    TreeLayout: ("trees",),
    SegmentLayout: ("segments",),
    GrammarLayout: ("grammar",),
}


@cache
def _modules(layout: type[Layout]) -> tuple[Any, ...]:
    return tuple(import_module(f"partwise.torch.gpu.{name}") for name in _MODULES.get(layout, ()))


def kernels_for(batch: ScoreBatch) -> Any:
    """The module whose kernels take this batch; None if there is none.

    A module has ``fits`` and ``SUMS``, a class like :class:`partwise.torch.gpu.function.DeviceSums`. It may have
    ``best`` (largest scores with indicators of a best labelling), ``best_labels``, and ``drawn`` (random labellings).
    """
    return next((kernels for kernels in _modules(type(batch.layout)) if kernels.fits(batch)), None)


def ranking_for(batch: ScoreBatch, k: int) -> Any:
    """The module whose kernel finds the k best labellings of this batch; None if there is none."""
    if not isinstance(batch.layout, ChainLayout):
        return None
    kernels = [import_module(f"partwise.torch.gpu.{name}") for name in ("long_paths", "ranked_chains")]
    return next((each for each in kernels if each.fits(batch, k)), None)
