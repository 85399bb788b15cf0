"""partwise: structured prediction trained in the dual, with a certificate.

Names load on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partwise.core.losses import Loss
    from partwise.errors import InputError
    from partwise.estimators.classify.classifier import Classifier
    from partwise.estimators.classify.kernel import KernelClassifier
    from partwise.estimators.constituency.parser import ConstituencyParser
    from partwise.estimators.graph.labeler import GraphLabeler
    from partwise.estimators.multilabel.classifier import MultilabelClassifier
    from partwise.estimators.on_disk.dataset import EncodedDataset, open_dataset
    from partwise.estimators.parsing.parser import DependencyParser
    from partwise.estimators.path.path import RegularizationPath
    from partwise.estimators.segments.labeler import SegmentLabeler
    from partwise.estimators.sequence.crf import CRF
    from partwise.estimators.sequence.kernel import KernelSequenceLabeler
    from partwise.estimators.sequence.labeler import SequenceLabeler
    from partwise.estimators.sequence.per_position import PerPosition
    from partwise.solvers.dual.simplex_qp import simplex_qp
    from partwise.storage.model_file import load

__version__ = "0.1.0"
__all__ = [
    "CRF",
    "Classifier",
    "ConstituencyParser",
    "DependencyParser",
    "EncodedDataset",
    "GraphLabeler",
    "InputError",
    "KernelClassifier",
    "KernelSequenceLabeler",
    "Loss",
    "MultilabelClassifier",
    "PerPosition",
    "RegularizationPath",
    "SegmentLabeler",
    "SequenceLabeler",
    "__version__",
    "load",
    "open_dataset",
    "simplex_qp",
]

_HOMES = {
    "CRF": "partwise.estimators.sequence.crf",
    "Classifier": "partwise.estimators.classify.classifier",
    "ConstituencyParser": "partwise.estimators.constituency.parser",
    "DependencyParser": "partwise.estimators.parsing.parser",
    "EncodedDataset": "partwise.estimators.on_disk.dataset",
    "GraphLabeler": "partwise.estimators.graph.labeler",
    "InputError": "partwise.errors",
    "KernelClassifier": "partwise.estimators.classify.kernel",
    "KernelSequenceLabeler": "partwise.estimators.sequence.kernel",
    "Loss": "partwise.core.losses",
    "MultilabelClassifier": "partwise.estimators.multilabel.classifier",
    "PerPosition": "partwise.estimators.sequence.per_position",
    "RegularizationPath": "partwise.estimators.path.path",
    "SegmentLabeler": "partwise.estimators.segments.labeler",
    "SequenceLabeler": "partwise.estimators.sequence.labeler",
    "load": "partwise.storage.model_file",
    "open_dataset": "partwise.estimators.on_disk.dataset",
    "simplex_qp": "partwise.solvers.dual.simplex_qp",
}


def __getattr__(name: str) -> Any:
    if name in ("metrics", "scorers"):
        return import_module(f"partwise.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
