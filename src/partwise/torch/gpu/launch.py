"""Launches of kernels, repeated without Triton's look-up of types and sizes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch

from partwise.torch.gpu.triton_hooks import KeptLaunch, kept_launch


class RepeatedLaunch:
    """Launches of one kernel. All arguments that the kernel is specialised to must be the same at every launch.

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


class Launcher:
    """Launches of several kernels, by name."""

    def __init__(self) -> None:
        self.found: dict[str, RepeatedLaunch] = {}

    def __call__(self, kernel: Any, grid: tuple[int, ...], *arguments: Any, **constants: Any) -> None:
        self.of(kernel, **constants)(grid, *arguments)

    def of(self, kernel: Any, **constants: Any) -> RepeatedLaunch:
        """The repeated launches of one kernel."""
        name = kernel.__name__
        if name not in self.found:
            self.found[name] = RepeatedLaunch(kernel, **constants)
        return self.found[name]


@lru_cache(maxsize=512)
def launcher_for(*key: Any) -> Launcher:
    """The launcher for calls with this key, which must contain everything that Triton specialises to."""
    return Launcher()


def specialisation(tensor: torch.Tensor | None) -> Any:
    """The properties of a user's tensor that Triton specialises to."""
    return None if tensor is None else (tensor.dtype, tensor.device, tensor.data_ptr() % 16 == 0)
