"""Scikit-learn estimators over structures, losses and solvers; names load on first use."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "CRF": "sequence.crf",
    "Classifier": "classify.classifier",
    "DependencyParser": "parsing.parser",
    "Explanation": "explain",
    "GraphLabeler": "graph.labeler",
    "KernelClassifier": "classify.kernel",
    "KernelSequenceLabeler": "sequence.kernel",
    "MultilabelClassifier": "multilabel.classifier",
    "PerPosition": "sequence.per_position",
    "SequenceLabeler": "sequence.labeler",
}
__all__ = [
    "CRF",
    "Classifier",
    "DependencyParser",
    "Explanation",
    "GraphLabeler",
    "KernelClassifier",
    "KernelSequenceLabeler",
    "MultilabelClassifier",
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
