"""Structures as PyTorch layers: sums, marginals, best labellings and losses of padded batches of scores.

Every function takes a structure of :mod:`partwise.structures`, then its scores as tensors with a batch in front, and
``lengths=``. What a structure's scores are, and their order, is what its own methods take; ``docs/neural.md`` has the
table. All of it is differentiable, twice where sums are concerned, on CPU and GPU. :class:`CRF` is a layer with its
own transitions, in the form of pytorch-crf. :func:`distribution` has all answers as one object. :func:`fit_head`
trains the last layer of a frozen network to a certified optimum; :func:`to_module` makes a module of a trained model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    import torch as _torch  # noqa: F401
except ImportError as error:  # pragma: no cover - the suite runs with or without torch
    raise ImportError("partwise.torch needs PyTorch: pip install 'partwise[torch]'") from error

from partwise.torch.crf import CRF
from partwise.torch.distributions import StructureDistribution, distribution
from partwise.torch.functions import argmax, entropy, kbest, log_partition, marginals, max_score, sample
from partwise.torch.loss import StructuredLoss

if TYPE_CHECKING:
    from partwise.torch.export import ModelModule, to_module
    from partwise.torch.head import Head, fit_head

__all__ = [
    "CRF",
    "Head",
    "ModelModule",
    "StructureDistribution",
    "StructuredLoss",
    "argmax",
    "distribution",
    "entropy",
    "fit_head",
    "kbest",
    "log_partition",
    "marginals",
    "max_score",
    "sample",
    "to_module",
]

# Names that need solvers or estimators are loaded on first use.
_HOMES = {"Head": "head", "fit_head": "head", "ModelModule": "export", "to_module": "export"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(f"partwise.torch.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
