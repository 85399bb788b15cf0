"""Launches without what Triton would find out anew at every one of them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
import triton

# Versions of Triton whose compiled kernels hand the launcher what is given here as it is, arguments and constants in
# the order of the parameters. With others every launch is looked up anew, which takes longer and is right in any case.
_KNOWN = ("3.4.", "3.5.", "3.6.", "3.7.", "3.8.", "3.9.")
KEEPS = triton.__version__.startswith(_KNOWN)


class Repeated:
    """Launches of one kernel with arguments that differ only in what it is not specialised to.

    Triton specialises to types, to pointers and integers that 16 divides, and to integers that are 1.
    """

    def __init__(self, kernel: Any, **constants: Any):
        self.kernel, self.constants = kernel, constants
        self.compiled: Any = None

    def __call__(self, grid: tuple[int, ...], *arguments: Any) -> None:
        if self.compiled is None:
            compiled = self.kernel[grid](*arguments, **self.constants)  # None where it is interpreted
            if compiled is not None and KEEPS:
                names = [each.name for each in self.kernel.params if each.is_constexpr]
                self.compiled, self.values = compiled, [self.constants[name] for name in names]
        else:
            self.compiled[(*grid, 1, 1)[:3]](*arguments, *self.values)

    def each(self, grid: tuple[int, ...], arguments: list[Any], at: int, values: range) -> None:
        """One launch for each of some values of argument number `at`, which the kernel is not specialised to."""
        for value in values:
            if self.compiled is not None:
                break
            arguments[at] = value
            self(grid, *arguments)
            values = values[1:]
        if values:
            # Addresses will do, which the launcher need not look up.
            given = [each.data_ptr() if isinstance(each, torch.Tensor) else each for each in arguments]
            run = self.compiled[(*grid, 1, 1)[:3]]
            for given[at] in values:
                run(*given, *self.values)


class Ready:
    """Launches of several kernels, kept by name."""

    def __init__(self) -> None:
        self.found: dict[str, Repeated] = {}

    def __call__(self, kernel: Any, grid: tuple[int, ...], *arguments: Any, **constants: Any) -> None:
        self.of(kernel, **constants)(grid, *arguments)

    def of(self, kernel: Any, **constants: Any) -> Repeated:
        """The launches of one of them."""
        name = kernel.__name__
        if name not in self.found:
            self.found[name] = Repeated(kernel, **constants)
        return self.found[name]


@lru_cache(maxsize=512)
def ready(*key: Any) -> Ready:
    """What is kept for calls with this key, which must hold all that Triton specialises to."""
    return Ready()


def kind(tensor: torch.Tensor | None) -> Any:
    """What Triton specialises to in a tensor that users give."""
    return None if tensor is None else (tensor.dtype, tensor.device, tensor.data_ptr() % 16 == 0)
