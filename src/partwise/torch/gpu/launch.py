"""Launches without what Triton would find out anew at every one of them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

from partwise.torch.gpu.triton_hooks import KeptLaunch, kept_launch


class RepeatedLaunch:
    """Launches of one kernel with arguments that differ only in what it is not specialised to.

    Triton specialises to types, to pointers and integers that 16 divides, and to integers that are 1.
    """

    def __init__(self, kernel: Any, **constants: Any):
        self.kernel, self.constants = kernel, constants
        self.kept: KeptLaunch | None = None

    def __call__(self, grid: tuple[int, ...], *arguments: Any) -> None:
        if self.kept is None:
            compiled = self.kernel[grid](*arguments, **self.constants)
            self.kept = kept_launch(self.kernel, compiled, self.constants)
        else:
            self.kept(grid, arguments)

    def each(self, grid: tuple[int, ...], arguments: list[Any], at: int, values: range) -> None:
        """One launch for each of some values of argument number `at`, which the kernel is not specialised to."""
        for value in values:
            if self.kept is not None:
                break
            arguments[at] = value
            self(grid, *arguments)
            values = values[1:]
        if self.kept is not None:
            # The launcher need not look up the addresses of tensors if it gets addresses.
            inputs = [each.data_ptr() if isinstance(each, torch.Tensor) else each for each in arguments]
            for inputs[at] in values:
                self.kept(grid, inputs)


class Ready:
    """Launches of several kernels, kept by name."""

    def __init__(self) -> None:
        self.found: dict[str, RepeatedLaunch] = {}

    def __call__(self, kernel: Any, grid: tuple[int, ...], *arguments: Any, **constants: Any) -> None:
        self.of(kernel, **constants)(grid, *arguments)

    def of(self, kernel: Any, **constants: Any) -> RepeatedLaunch:
        """The launches of one of them."""
        name = kernel.__name__
        if name not in self.found:
            self.found[name] = RepeatedLaunch(kernel, **constants)
        return self.found[name]


@lru_cache(maxsize=512)
def ready(*key: Any) -> Ready:
    """What is kept for calls with this key, which must hold all that Triton specialises to."""
    return Ready()


def kind(tensor: torch.Tensor | None) -> Any:
    """What Triton specialises to in a tensor that users give."""
    return None if tensor is None else (tensor.dtype, tensor.device, tensor.data_ptr() % 16 == 0)
