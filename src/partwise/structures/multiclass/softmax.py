# mypy: ignore-errors
"""Plain classes: a label is one part, the sum over labels a softmax."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from partwise.compiled.dispatch import kernel
from partwise.compiled.oracles import best, expectations, labelling, largest_nodes, log_partition
from partwise.compiled.simd import exponential_row, maximum, padded


class MulticlassSpecification(NamedTuple):
    """`n_labels` classes, in rows of `stride` numbers."""

    n_labels: int
    stride: int


class MulticlassWorkspace(NamedTuple):
    """One padded row."""

    row: np.ndarray


def multiclass_specification(n_labels: int) -> MulticlassSpecification:
    return MulticlassSpecification(n_labels, padded(n_labels))


def multiclass_workspace(specification: MulticlassSpecification, longest: int) -> MulticlassWorkspace:
    return MulticlassWorkspace(np.zeros(specification.stride))


@expectations.register(MulticlassSpecification)
@kernel
def multiclass_expectations(specification, layout, scores, counts, work):  # type: ignore
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


@log_partition.register(MulticlassSpecification)
@kernel
def multiclass_log_partition(specification, layout, scores, work):  # type: ignore
    shift = maximum(scores, 0, specification.n_labels)
    if shift == -np.inf:
        return shift
    exponential_row(work.row, 0, scores, 0, specification.n_labels, specification.stride, shift)
    total = 0.0
    for j in range(specification.stride):
        total += work.row[j]
    return shift + math.log(total)


@best.register(MulticlassSpecification)
@kernel
def multiclass_best(specification, layout, scores, counts, work):  # type: ignore
    winner = 0
    for j in range(specification.n_labels):
        counts[j] = 0.0
        if scores[j] > scores[winner]:
            winner = j
    counts[winner] = 1.0
    return scores[winner]


@labelling.register(MulticlassSpecification)
@kernel
def multiclass_labelling(specification, layout, counts, labels):  # type: ignore
    largest_nodes(layout[0], specification.n_labels, counts, labels)
