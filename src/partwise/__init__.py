"""partwise: structured prediction trained in the dual, with a certificate.

Names load on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partwise.errors import InputError
    from partwise.estimators.classifier import Classifier
    from partwise.estimators.crf import CRF
    from partwise.estimators.dependency import DependencyParser
    from partwise.estimators.kernel_classifier import KernelClassifier
    from partwise.estimators.kernel_sequence import KernelSequenceLabeler
    from partwise.estimators.per_position import PerPosition
    from partwise.estimators.sequence import SequenceLabeler
    from partwise.losses import Loss
    from partwise.model_file import load
    from partwise.solvers.simplex_qp import simplex_qp

__version__ = "0.1.0"
__all__ = [
    "CRF",
    "Classifier",
    "DependencyParser",
    "InputError",
    "KernelClassifier",
    "KernelSequenceLabeler",
    "Loss",
    "PerPosition",
    "SequenceLabeler",
    "__version__",
    "load",
    "simplex_qp",
]

_HOMES = {
    "CRF": "partwise.estimators.crf",
    "Classifier": "partwise.estimators.classifier",
    "DependencyParser": "partwise.estimators.dependency",
    "InputError": "partwise.errors",
    "KernelClassifier": "partwise.estimators.kernel_classifier",
    "KernelSequenceLabeler": "partwise.estimators.kernel_sequence",
    "Loss": "partwise.losses",
    "PerPosition": "partwise.estimators.per_position",
    "SequenceLabeler": "partwise.estimators.sequence",
    "load": "partwise.model_file",
    "simplex_qp": "partwise.solvers.simplex_qp",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
