# mypy: ignore-errors
"""Vectors of weights as `chain-cd` sees them: entries of features, or combinations of training rows under a kernel.

The difference d of a direction is a short list of entries and values. With features, entries are weights. With a kernel
function, entry (row, label) stands for φ(row) ⊗ label. Inner products of d with the weights are read off the table of
scores of all rows. Lengths and moves use the kernel matrix, which must be in memory. The table is kept label by label,
so that a move of one row and label adds a multiple of one row of the matrix.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.compiled.boundary import load_record, record_address
from partwise.compiled.dispatch import chosen_by_type, inner
from partwise.compiled.rows import FIRST_ROW, KIND, N_ROWS, Rows
from partwise.mercer.problem import KernelProblem


class FeatureSpace(NamedTuple):
    """Entries are weights.

    Attributes
    ----------
    tally : ndarray (n_weights,)
        Zero before and after every call.
    """

    tally: np.ndarray


class KernelSpace(NamedTuple):
    """Entries are rows and labels; tied weights are a kind whose one row is similar to itself only.

    Attributes
    ----------
    tally : ndarray (n_sums,)
        Zero before and after every call.
    coefficient : ndarray (n_sums,)
        b, kept up with the tables.
    first, stride : ndarray (2,) of int64
        Where the entries of nodes and of edges start, and how many a row has.
    nodes, edges : ndarray (n_rows, n_rows)
        Kernel matrices.
    node_scores, edge_scores : ndarray (stride, n_rows)
        l2 times the scores of all rows, by label.
    """

    tally: np.ndarray
    coefficient: np.ndarray
    first: np.ndarray
    stride: np.ndarray
    nodes: np.ndarray
    edges: np.ndarray
    node_scores: np.ndarray
    edge_scores: np.ndarray


@chosen_by_type
def squared_length(space, entry, value, start, end):  # type: ignore
    """‖d‖² of the entries from `start` to `end`, each weight or row and label occurring once."""
    raise TypeError


@chosen_by_type
def product_along(space, v, entry, value, start, end):  # type: ignore
    """v · d."""
    raise TypeError


@chosen_by_type
def move_along(space, v, entry, value, start, end, shift):  # type: ignore
    """v ← v − shift · d."""
    raise TypeError


@chosen_by_type
def bring_up(space, v, batch, i):  # type: ignore
    """Write the scores that example i reads into v."""
    raise TypeError


# -- features ----------------------------------------------------------------------------------------


@squared_length.register(FeatureSpace)
@inner
def _squared_length_of_features(space, entry, value, start, end):  # type: ignore
    squared = 0.0
    for k in range(start, end):
        squared += value[k] * value[k]
    return squared


@product_along.register(FeatureSpace)
@inner
def _product_along_features(space, v, entry, value, start, end):  # type: ignore
    product = 0.0
    for k in range(start, end):
        product += value[k] * v[entry[k]]
    return product


@move_along.register(FeatureSpace)
@inner
def _move_along_features(space, v, entry, value, start, end, shift):  # type: ignore
    for k in range(start, end):
        v[entry[k]] -= shift * value[k]


@bring_up.register(FeatureSpace)
@inner
def _weights_are_there(space, v, batch, i):  # type: ignore
    pass


# -- kernel functions ----------------------------------------------------------------------------------


@inner
def _kind_of(space, entry):  # type: ignore
    """Kind, row and label of an entry."""
    kind = 1 if entry >= space.first[1] else 0
    at, stride = entry - space.first[kind], space.stride[kind]
    return kind, at // stride, at % stride


@squared_length.register(KernelSpace)
@inner
def _squared_length_of_rows(space, entry, value, start, end):  # type: ignore
    squared = 0.0
    for j in range(start, end):
        kind, row, label = _kind_of(space, entry[j])
        for k in range(start, end):
            other_kind, other, other_label = _kind_of(space, entry[k])
            if kind == other_kind and label == other_label:
                similarity = space.nodes[row, other] if kind == 0 else space.edges[row, other]
                squared += value[j] * value[k] * similarity
    return squared


@product_along.register(KernelSpace)
@inner
def _product_along_rows(space, v, entry, value, start, end):  # type: ignore
    product = 0.0
    for k in range(start, end):
        kind, row, label = _kind_of(space, entry[k])
        product += value[k] * (space.node_scores[label, row] if kind == 0 else space.edge_scores[label, row])
    return product


@inner
def _add_multiple(scores, similarity, amount):  # type: ignore
    for q in range(scores.size):
        scores[q] += amount * similarity[q]


@move_along.register(KernelSpace)
@inner
def _move_along_rows(space, v, entry, value, start, end, shift):  # type: ignore
    for k in range(start, end):
        kind, row, label = _kind_of(space, entry[k])
        amount = -shift * value[k]
        space.coefficient[entry[k]] += amount
        if kind == 0:
            _add_multiple(space.node_scores[label], space.nodes[row], amount)
        else:
            _add_multiple(space.edge_scores[label], space.edges[row], amount)


@bring_up.register(KernelSpace)
@inner
def _bring_up_scores(space, v, batch, i):  # type: ignore
    table = load_record(Rows, record_address(batch.rows))
    for r in range(table.run_ptr[i], table.run_ptr[i + 1]):
        run = table.runs[r]
        kind = run[KIND]
        for row in range(run[FIRST_ROW], run[FIRST_ROW] + run[N_ROWS]):
            at = space.first[kind] + row * space.stride[kind]
            for label in range(space.stride[kind]):
                v[at + label] = space.node_scores[label, row] if kind == 0 else space.edge_scores[label, row]


def kernel_space(problem: KernelProblem, v: np.ndarray) -> KernelSpace:
    """The space with its own tables, for the coefficients and their image `v` (n_weights,)."""
    half, (nodes, *others) = problem.n_sums, problem.scorer.kinds
    gram = problem.grams["node"].kept
    first, stride, image = np.array([nodes.first_weight, half]), np.array([nodes.stride, 1]), v[half:]
    edges = gram[:0]
    if others:
        first[1], stride[1] = others[0].first_weight, others[0].stride
        edges = problem.grams["edge"].kept if "edge" in problem.grams else np.ones((1, 1), gram.dtype)
    tables = [
        np.ascontiguousarray(part.reshape(-1, width).T)
        for part, width in zip(np.split(image, first[1:]), stride, strict=True)
    ]
    return KernelSpace(np.zeros(half), v[:half], first, stride, gram, edges, *tables)


def close_space(space: KernelSpace, v: np.ndarray) -> None:
    """Write the tables back into the image."""
    image = v[len(space.coefficient) :]
    np.concatenate([space.node_scores.T.ravel(), space.edge_scores.T.ravel()], out=image)
