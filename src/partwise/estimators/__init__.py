"""The estimators' common base: parameters, fitting, prediction and model files, for all tasks.

Read `base` first: `StructuredEstimator.fit` reads data, builds a problem and solves it. `linear` adds features and
weights, `kernel_base` kernel functions, `warm_start` fits that continue, `saving` model files. `encoders` turn tokens
into rows of features, and `model` is a trained model without its training data. `predictions` and `explain` are what
all linear models answer, `tagger` is a model for one example at a time. `entities` are spans with probabilities;
`isotonic`, `conformal` and `risk` calibrate answers by labelled data. The public classes are in the folders of
`partwise.tasks`; their former names here still work.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_PUBLIC = (
    "CRF", "Classifier", "DependencyParser", "GraphLabeler", "KernelClassifier", "KernelSequenceLabeler",
    "MultilabelClassifier", "PerPosition", "SequenceLabeler",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module("partwise"), name)
    if name == "Explanation":
        return import_module(f"{__name__}.explain").Explanation
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
