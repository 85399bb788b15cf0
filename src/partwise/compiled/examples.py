# mypy: ignore-errors
"""One example in compiled code: its data, its scores, its cost, its gold parts, its scatter."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from partwise.compiled.boundary import address_of, call_address, record_address
from partwise.compiled.dispatch import fragment
from partwise.compiled.lock import acquire, release
from partwise.compiled.oracles import SCATTER, SCORE


class Batch(NamedTuple):
    """All examples of a problem as flat arrays; passes see nothing else.

    Attributes
    ----------
    rows : ndarray of int64
        The packed rows and runs, which score and scatter read.
    shape_ptr, shape : ndarray (n_examples + 1,) of int64, ndarray of int32
        What the structure's compiled code knows of each example: its length, then whatever else it asks for.
    part_ptr : ndarray (n_examples + 1,) of int64
        Offsets of the examples in every flat array over parts.
    n_tied : int
        How many of an example's parts, the last ones, are fed by rows that all examples share.
    gold_ptr, gold_part : ndarray of int64
        The parts of the true labels, counted within the example, with repetition.
    gold_amount : ndarray of float64
        How often each of them counts, where true labels are known only in expectation; empty when always once.
    cost : ndarray (n_parts,) of float32
        Cost of each part; empty when the loss has no cost. A labelling's cost is that of its parts minus that of the
        true label's.
    example_weight : ndarray (n_examples,) of float64
    """

    rows: np.ndarray
    shape_ptr: np.ndarray
    shape: np.ndarray
    part_ptr: np.ndarray
    n_tied: int
    gold_ptr: np.ndarray
    gold_part: np.ndarray
    gold_amount: np.ndarray
    cost: np.ndarray
    example_weight: np.ndarray


class Scratch(NamedTuple):
    """Room for one example, with slack for vector loads, and who answers; one per thread.

    Attributes
    ----------
    calls : ndarray of int64
        Addresses of the compiled functions that answer: sums, best, score, scatter.
    specification, structure : ndarray of int64
        The structure's packed specification and workspace.
    scores, potentials, counts, delta : ndarray (most parts + slack,)
    row : ndarray (a few of the widest rows,)
        Of the weights' type.
    lock : ndarray (0,) or (1,) of int64
        Held while weights change that several threads share; empty where none do.
    """

    calls: Any
    specification: Any
    structure: Any
    scores: np.ndarray
    potentials: np.ndarray
    counts: np.ndarray
    delta: np.ndarray
    row: np.ndarray
    lock: np.ndarray


@fragment
def is_shared(scratch):  # type: ignore
    """Whether other threads change the same weights meanwhile."""
    return scratch.lock.size > 0


@fragment
def begin_change(scratch):  # type: ignore
    """Wait until no other thread changes the weights: what scatter returns then is what the change is worth."""
    if scratch.lock.size > 0:
        acquire(scratch.lock)


@fragment
def end_change(scratch):  # type: ignore
    """The change is kept, or undone."""
    if scratch.lock.size > 0:
        release(scratch.lock)


@fragment
def length_of(batch, example):  # type: ignore
    """Positions of the example."""
    return np.int64(batch.shape[batch.shape_ptr[example]])


@fragment
def score_example(batch, example, weights, scale, scores, scratch):  # type: ignore
    """Write scale · (part scores under `weights`); returns the number of parts."""
    return score_before(batch, example, -1, weights, scale, scores, scratch)


@fragment
def score_before(batch, example, following, weights, scale, scores, scratch):  # type: ignore
    """The same, while the features of the example `following` are fetched from memory; −1 is none."""
    count = batch.part_ptr[example + 1] - batch.part_ptr[example]
    call_address(
        scratch.calls[SCORE],
        (
            record_address(batch.rows),
            example,
            address_of(weights, 0),
            weights.size,
            np.float64(scale),
            address_of(scores, 0),
            count,
            address_of(scratch.row, 0),
            scratch.row.size,
            following,
        ),
    )
    return count


@fragment
def scatter_example(batch, example, weights, scale, delta, threshold, scratch):  # type: ignore
    """weights += scale · Σ_r delta_r φ(x, r); returns the growth of ‖weights‖².

    Rows that moved by no more than `threshold` are left out and their part of `delta` set to zero, so that
    the caller keeps their old marginals and the movement is not lost but waits.
    """
    return call_address(
        scratch.calls[SCATTER],
        (
            record_address(batch.rows),
            example,
            address_of(weights, 0),
            weights.size,
            np.float64(scale),
            address_of(delta, 0),
            batch.part_ptr[example + 1] - batch.part_ptr[example],
            np.float64(threshold),
            address_of(scratch.row, 0),
            scratch.row.size,
        ),
    )


@fragment
def add_cost(batch, example, scale, scores):  # type: ignore
    """scores += scale · cost."""
    if batch.cost.size > 0:
        start = batch.part_ptr[example]
        for j in range(batch.part_ptr[example + 1] - start):
            scores[j] += scale * batch.cost[start + j]


@fragment
def expected_cost(batch, example, counts):  # type: ignore
    """Σ_r (counts_r − those of the true label) cost_r."""
    total = 0.0
    if batch.cost.size > 0:
        start = batch.part_ptr[example]
        for j in range(batch.part_ptr[example + 1] - start):
            total += counts[j] * batch.cost[start + j]
        total -= gold_score(batch, example, batch.cost[start:])
    return total


@fragment
def gold_score(batch, example, scores):  # type: ignore
    """Score of the true label; with costs in the scores, that of both."""
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
    """Raise the parts of the true label by half the amount and lower all others by as much.

    Another label may have all parts of the true one and more: raising those alone would not favour the true one. Tied
    parts, used many times over, would pull on every label and stay as they are.
    """
    n_row_parts = batch.part_ptr[example + 1] - batch.part_ptr[example] - batch.n_tied
    for j in range(n_row_parts):
        out[j] -= 0.5 * amount
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
