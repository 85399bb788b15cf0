"""Scikit-learn estimators over structures, losses and solvers; names load on first use."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "CRF": "crf",
    "Classifier": "classifier",
    "DependencyParser": "dependency",
    "Explanation": "explain",
    "KernelClassifier": "kernel_classifier",
    "KernelSequenceLabeler": "kernel_sequence",
    "PerPosition": "per_position",
    "SequenceLabeler": "sequence",
}
__all__ = [
    "CRF",
    "Classifier",
    "DependencyParser",
    "Explanation",
    "KernelClassifier",
    "KernelSequenceLabeler",
    "PerPosition",
    "SequenceLabeler",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
