"""partwise: structured prediction trained in the dual, with a certificate.

Names load on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partwise.core.losses import Loss
    from partwise.errors import InputError
    from partwise.estimators.entities import Entity
    from partwise.estimators.on_disk.dataset import EncodedDataset, open_dataset
    from partwise.estimators.regularization_path.path import RegularizationPath
    from partwise.estimators.tagger import Tagger
    from partwise.solvers.dual.simplex_convex import simplex_convex
    from partwise.solvers.dual.simplex_qp import simplex_qp
    from partwise.storage.model_file import load
    from partwise.tasks.classes.classifier import Classifier
    from partwise.tasks.classes.kernel import KernelClassifier
    from partwise.tasks.constituents.parser import ConstituencyParser
    from partwise.tasks.dependencies.parser import DependencyParser
    from partwise.tasks.graphs.labeler import GraphLabeler
    from partwise.tasks.label_sets.classifier import MultilabelClassifier
    from partwise.tasks.segments.labeler import SegmentLabeler
    from partwise.tasks.sequences.crf import CRF
    from partwise.tasks.sequences.crfsuite_model import read_crfsuite
    from partwise.tasks.sequences.kernel import KernelSequenceLabeler
    from partwise.tasks.sequences.labeler import SequenceLabeler
    from partwise.tasks.sequences.per_position import PerPosition
    from partwise.tasks.sequences.tagger import SequenceTagger

__version__ = "0.1.0"
__all__ = [
    "CRF",
    "Classifier",
    "ConstituencyParser",
    "DependencyParser",
    "EncodedDataset",
    "Entity",
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
    "SequenceTagger",
    "Tagger",
    "__version__",
    "load",
    "open_dataset",
    "read_crfsuite",
    "simplex_convex",
    "simplex_qp",
]

_HOMES = {  # of public names that are no estimators, whose homes the registry of tasks knows
    "EncodedDataset": "partwise.estimators.on_disk.dataset",
    "Entity": "partwise.estimators.entities",
    "InputError": "partwise.errors",
    "Loss": "partwise.core.losses",
    "PerPosition": "partwise.tasks.sequences.per_position",
    "RegularizationPath": "partwise.estimators.regularization_path.path",
    "SequenceTagger": "partwise.tasks.sequences.tagger",
    "Tagger": "partwise.estimators.tagger",
    "load": "partwise.storage.model_file",
    "open_dataset": "partwise.estimators.on_disk.dataset",
    "read_crfsuite": "partwise.tasks.sequences.crfsuite_model",
    "simplex_convex": "partwise.solvers.dual.simplex_convex",
    "simplex_qp": "partwise.solvers.dual.simplex_qp",
}


def __getattr__(name: str) -> Any:
    if name in ("crfsuite", "metrics", "scorers"):
        return import_module(f"partwise.{name}")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    else:
        value = import_module("partwise.tasks").estimator_class(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
