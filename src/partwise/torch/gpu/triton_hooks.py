"""All uses of Triton that its documentation does not promise, with what happens if Triton lacks it.

A compiled kernel can be launched again without Triton looking up types and sizes. Versions in `KNOWN` hand the
launcher the arguments as they are, arguments and constants in the order of the parameters. With another version every
launch is looked up: it takes longer and gives the same result. PyTorch brings Triton, so PyTorch's range caps it.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import triton

KNOWN = ((3, 4), (3, 10))  # the first Triton version whose launches are known, and the first whose are not
KEEPS: bool = KNOWN[0] <= tuple(map(int, re.findall(r"\d+", triton.__version__)[:2])) < KNOWN[1]


class KeptLaunch(NamedTuple):
    """A compiled kernel, and the values of its constants in the order of the parameters."""

    compiled: Any
    values: list[Any]

    def __call__(self, grid: tuple[int, ...], arguments: Any) -> None:
        self.compiled[(*grid, 1, 1)[:3]](*arguments, *self.values)


def kept_launch(kernel: Any, compiled: Any, constants: dict[str, Any]) -> KeptLaunch | None:
    """How to launch a kernel again; None if it is interpreted or this Triton has no such way."""
    parameters = getattr(kernel, "params", None)
    if not KEEPS or parameters is None or not hasattr(compiled, "__getitem__"):
        return None
    try:
        return KeptLaunch(compiled, [constants[each.name] for each in parameters if each.is_constexpr])
    except (AttributeError, KeyError):
        return None
