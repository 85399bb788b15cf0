# mypy: ignore-errors
"""One example in compiled code: its data, its scores, its cost, its gold parts, its scatter."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from partwise.compiled.dispatch import fragment
from partwise.compiled.rows import RowGroup, scatter_group, score_group
from partwise.compiled.simd import LANES


class Batch(NamedTuple):
    """All examples of a problem as flat arrays; kernels see nothing else.

    Attributes
    ----------
    specification : NamedTuple
        The structure's.
    node, edge : RowGroup
        The rows that feed node and edge parts; `edge` has no rows when transitions are tied.
    tied_first, tied_size : int
        Weights that are used directly as the last parts of every example.
    length : ndarray (n_examples,) of int64
        Positions of each example.
    layout_ptr, layout : ndarray (n_examples + 1,) of int64, ndarray of int32
        What the structure's kernels know of each example: its length, then whatever else they ask for.
    part_ptr : ndarray (n_examples + 1,) of int64
        Offsets of the examples in every flat array over parts.
    gold_ptr, gold_part : ndarray of int64
        The parts of the true labels, counted within the example, with repetition.
    cost : ndarray (n_parts,) of float32
        Cost of each part; empty when the loss has no cost.
    example_weight : ndarray (n_examples,) of float64
    gold_amount : ndarray of float64
        How often each part of `gold_part` counts, where true labels are known only in expectation; empty
        when always once.
    """

    specification: Any
    node: RowGroup
    edge: RowGroup
    tied_first: int
    tied_size: int
    length: np.ndarray
    layout_ptr: np.ndarray
    layout: np.ndarray
    part_ptr: np.ndarray
    gold_ptr: np.ndarray
    gold_part: np.ndarray
    cost: np.ndarray
    example_weight: np.ndarray
    gold_amount: np.ndarray = np.zeros(0)


class Scratch(NamedTuple):
    """Room for one example, with slack for vector loads; one per thread."""

    structure: Any
    scores: np.ndarray
    potentials: np.ndarray
    counts: np.ndarray
    delta: np.ndarray
    row: np.ndarray


def make_scratch(batch: Batch, structure_workspace: Any, dtype: Any) -> Scratch:
    """Allocate for the largest example of `batch`; weights will be of type `dtype`."""
    size = int(np.diff(batch.part_ptr).max(initial=0)) + 2 * LANES
    flat = [np.zeros(size) for _ in range(4)]
    row = np.zeros(max(batch.node.stride, batch.edge.stride, LANES), dtype)
    return Scratch(structure_workspace, *flat, row)


@fragment
def layout_of(batch, example):  # type: ignore
    """The example's own slice of the layouts."""
    return batch.layout[batch.layout_ptr[example] : batch.layout_ptr[example + 1]]


@fragment
def score_example(batch, example, weights, scale, scores, row):  # type: ignore
    """Write scale · (part scores under `weights`); returns the number of parts."""
    offset = score_group(batch.node, example, weights, scale, scores, 0, row)
    if batch.edge.width > 0:
        offset = score_group(batch.edge, example, weights, scale, scores, offset, row)
    for j in range(batch.tied_size):
        scores[offset + j] = scale * weights[batch.tied_first + j]
    return offset + batch.tied_size


@fragment
def scatter_example(batch, example, weights, scale, delta, threshold, row):  # type: ignore
    """weights += scale · Σ_r delta_r φ(x, r); returns the growth of ‖weights‖²."""
    growth, offset = scatter_group(batch.node, example, weights, scale, delta, 0, threshold, row)
    if batch.edge.width > 0:
        more, offset = scatter_group(batch.edge, example, weights, scale, delta, offset, threshold, row)
        growth += more
    # A sum beside a store is added up in vectors or one by one, depending on what lies behind the arrays in memory.
    for j in range(batch.tied_size):
        old, change = weights[batch.tied_first + j], scale * delta[offset + j]
        growth += change * (old + old + change)
    for j in range(batch.tied_size):
        weights[batch.tied_first + j] += scale * delta[offset + j]
    return growth


@fragment
def add_cost(batch, example, scale, scores):  # type: ignore
    """scores += scale · cost."""
    if batch.cost.size > 0:
        start = batch.part_ptr[example]
        for j in range(batch.part_ptr[example + 1] - start):
            scores[j] += scale * batch.cost[start + j]


@fragment
def expected_cost(batch, example, counts):  # type: ignore
    """Σ_r counts_r cost_r."""
    total = 0.0
    if batch.cost.size > 0:
        start = batch.part_ptr[example]
        for j in range(batch.part_ptr[example + 1] - start):
            total += counts[j] * batch.cost[start + j]
    return total


@fragment
def gold_score(batch, example, scores):  # type: ignore
    """Score of the true label."""
    total = 0.0
    whole = batch.gold_amount.size == 0
    for k in range(batch.gold_ptr[example], batch.gold_ptr[example + 1]):
        total += scores[batch.gold_part[k]] * (1.0 if whole else batch.gold_amount[k])
    return total


@fragment
def add_gold(batch, example, amount, out):  # type: ignore
    """out += amount · (part counts of the true label)."""
    whole = batch.gold_amount.size == 0
    for k in range(batch.gold_ptr[example], batch.gold_ptr[example + 1]):
        out[batch.gold_part[k]] += amount * (1.0 if whole else batch.gold_amount[k])


@fragment
def add_gold_rows(batch, example, amount, out):  # type: ignore
    """The same for row parts only: tied parts, used many times over, would pull on every label."""
    n_row_parts = batch.part_ptr[example + 1] - batch.part_ptr[example] - batch.tied_size
    whole = batch.gold_amount.size == 0
    for k in range(batch.gold_ptr[example], batch.gold_ptr[example + 1]):
        if batch.gold_part[k] < n_row_parts:
            out[batch.gold_part[k]] += amount * (1.0 if whole else batch.gold_amount[k])


@fragment
def finite_dot(a, b, count):  # type: ignore
    """Σ a_j b_j where b_j is not zero: a score of −inf with count zero contributes nothing."""
    total = 0.0
    for j in range(count):
        total += a[j] * b[j] if b[j] != 0.0 else 0.0
    return total
