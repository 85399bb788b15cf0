"""All uses of PyTorch that its documentation does not promise, each with what happens if PyTorch lacks it.

The hooks are on for the versions in `KNOWN`, which are those that the extra `torch` in `pyproject.toml` allows, and
only if PyTorch has the attribute. Without them every call takes the slower way that transformations need.
"""

from __future__ import annotations

import re
from typing import Any

import torch

# The first PyTorch version whose private parts are known, and the first that is not.
KNOWN = ((2, 4), (2, 14))
_IS_KNOWN = KNOWN[0] <= tuple(map(int, re.findall(r"\d+", torch.__version__)[:2])) < KNOWN[1]
_functorch: Any = getattr(torch._C, "_functorch", None) if _IS_KNOWN else None
_is_wrapped: Any = getattr(_functorch, "is_functorch_wrapped_tensor", None)
_is_batched: Any = getattr(_functorch, "is_batchedtensor", None)


def is_transformed(tensors: tuple[torch.Tensor, ...]) -> bool:
    """Whether `torch.func` or forward-mode differentiation follows the tensors; True if that is not known."""
    if _is_wrapped is None:
        return True
    level = getattr(torch.autograd.forward_ad, "_current_level", 0)  # −1 outside forward-mode differentiation
    return level >= 0 or any(_is_wrapped(each) for each in tensors)


def is_batched(value: Any) -> bool:
    """Whether `torch.func.vmap` has hidden an axis of the value; False if that is not known."""
    return _is_batched is not None and isinstance(value, torch.Tensor) and _is_batched(value)
