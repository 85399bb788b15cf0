"""Structures as PyTorch layers: sums, marginals, best labellings and losses of padded batches of scores.

Every function takes a structure of :mod:`partwise.structures`, then its scores as tensors with a batch in front, and
``lengths=``. What a structure's scores are, and their order, is what its own methods take; ``docs/neural.md`` has the
table. All of it is differentiable, twice where sums are concerned, on CPU and GPU.
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ImportError as error:  # pragma: no cover - the suite runs with or without torch
    raise ImportError("partwise.torch needs PyTorch: pip install 'partwise[torch]'") from error

from partwise.torch.functions import argmax, entropy, kbest, log_partition, marginals, max_score, sample
from partwise.torch.loss import StructuredLoss

__all__ = [
    "StructuredLoss",
    "argmax",
    "entropy",
    "kbest",
    "log_partition",
    "marginals",
    "max_score",
    "sample",
]
