"""What a label is made of: inference for every structure; names load on first use."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "Structure": "base",
    "Brute": "brute",
    "Multiclass": "multiclass",
    "Chain": "chain",
    "ChainMarginals": "chain",
    "LabelledHeads": "tree_parts",
    "Projective": "projective",
    "Spanning": "spanning",
    "TreeMarginals": "tree_parts",
    "transition_mask": "masks",
}
__all__ = [
    "Brute",
    "Chain",
    "ChainMarginals",
    "LabelledHeads",
    "Multiclass",
    "Projective",
    "Spanning",
    "Structure",
    "TreeMarginals",
    "transition_mask",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
