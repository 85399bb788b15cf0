# mypy: ignore-errors
"""Plain classes: a label is one part, the sum over labels a softmax."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from partwise.compiled.boundary import Reals
from partwise.compiled.dispatch import inner
from partwise.compiled.oracles import Oracle
from partwise.compiled.simd import exponential_row, maximum, padded


class MulticlassSpecification(NamedTuple):
    """`n_labels` classes, in rows of `stride` numbers."""

    n_labels: int
    stride: int


class MulticlassWorkspace(NamedTuple):
    """One padded row."""

    row: Reals


def multiclass_specification(n_labels: int) -> MulticlassSpecification:
    return MulticlassSpecification(n_labels, padded(n_labels))


def multiclass_workspace(specification: MulticlassSpecification) -> MulticlassWorkspace:
    return MulticlassWorkspace(np.zeros(specification.stride))


@inner
def multiclass_expectations(specification, shape, scores, counts, work):  # type: ignore
    n_labels = specification.n_labels
    shift = maximum(scores, 0, n_labels)
    if shift == -np.inf:
        for j in range(n_labels):
            counts[j] = 0.0
        return shift
    exponential_row(work.row, 0, scores, 0, n_labels, specification.stride, shift)
    total = 0.0
    for j in range(specification.stride):
        total += work.row[j]
    inverse = 1.0 / total
    for j in range(n_labels):
        counts[j] = work.row[j] * inverse
    return shift + math.log(total)


@inner
def multiclass_log_partition(specification, shape, scores, work):  # type: ignore
    shift = maximum(scores, 0, specification.n_labels)
    if shift == -np.inf:
        return shift
    exponential_row(work.row, 0, scores, 0, specification.n_labels, specification.stride, shift)
    total = 0.0
    for j in range(specification.stride):
        total += work.row[j]
    return shift + math.log(total)


@inner
def multiclass_best(specification, shape, scores, counts, work):  # type: ignore
    winner = 0
    for j in range(specification.n_labels):
        counts[j] = 0.0
        if scores[j] > scores[winner]:
            winner = j
    counts[winner] = 1.0
    return scores[winner]


MULTICLASS = Oracle(
    "multiclass",
    MulticlassSpecification,
    MulticlassWorkspace,
    multiclass_expectations,
    multiclass_log_partition,
    multiclass_best,
)
