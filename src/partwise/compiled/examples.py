# mypy: ignore-errors
"""One example as compiled passes see it: scores, costs, true parts and scatter."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from partwise.compiled.boundary import address_of, call_address, record_address
from partwise.compiled.dispatch import fragment
from partwise.compiled.lock import acquire, release
from partwise.compiled.oracles import SCATTER, SCORE


class Batch(NamedTuple):
    """All examples of a problem as flat arrays.

    Attributes
    ----------
    rows : int64 array
        The packed :class:`~partwise.compiled.rows.Rows`, or a record in their place, for score and scatter.
    shape_ptr, shape : int64 array (n_examples + 1,), int32 array
        Offsets, and the shape of each example: its length, then further integers that its structure needs.
    part_ptr : int64 array (n_examples + 1,)
        Offsets of the examples in every flat array over parts.
    n_tied : int
        The number of tied parts of an example, fed by rows that all examples share. They are its last parts.
    gold_ptr, gold_part : int64 array
        Offsets, and the parts of the true labels, counted within the example, with repetition.
    gold_amount : float64 array
        The count of each of these parts, if true labels are known only in expectation; empty if every count is 1.
    cost : float32 array (n_parts,)
        The cost of each part; empty if the loss has no cost. The cost of a labelling is the cost of its parts minus
        the cost of the true parts.
    example_weight : float64 array (n_examples,)
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
    """The workspace for one example, and the functions to call; one per thread.

    Attributes
    ----------
    calls : int64 array (4,)
        Addresses of the compiled functions sums, best, score and scatter.
    specification, structure : int64 array
        The structure's packed specification and workspace.
    scores, potentials, counts, delta : float64 array (most parts of an example + ``simd.LANES``,)
    row : array (``simd_dense.ROWS_AT_ONCE`` · longest padded row,)
        A few rows of weights, in the type of the weights.
    lock : int64 array (0,) or (1,)
        Held while weights change that several threads share; empty if no thread shares them.
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
    """Whether other threads change the same weights."""
    return scratch.lock.size > 0


@fragment
def begin_change(scratch):  # type: ignore
    """Wait until no other thread changes the weights, so that the growth that scatter returns is exact."""
    if scratch.lock.size > 0:
        acquire(scratch.lock)


@fragment
def end_change(scratch):  # type: ignore
    """Let other threads change the weights again."""
    if scratch.lock.size > 0:
        release(scratch.lock)


@fragment
def length_of(batch, example):  # type: ignore
    """The number of positions of the example."""
    return np.int64(batch.shape[batch.shape_ptr[example]])


@fragment
def score_example(batch, example, weights, scale, scores, scratch):  # type: ignore
    """Write scale · (part scores under `weights`). Returns the number of parts."""
    return score_before(batch, example, -1, weights, scale, scores, scratch)


@fragment
def score_before(batch, example, following, weights, scale, scores, scratch):  # type: ignore
    """As `score_example`, and prefetch the features of the example `following`, unless it is −1."""
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
    """weights += scale · Σ_r delta_r φ(x, r). Returns the growth of ‖weights‖².

    Rows that moved by no more than `threshold` are left out, and their entries of `delta` are set to zero. The caller
    then keeps their old marginals, so that the movement is made up for at a later visit.
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
    """Σ_r (counts_r − true counts_r) cost_r."""
    total = 0.0
    if batch.cost.size > 0:
        start = batch.part_ptr[example]
        for j in range(batch.part_ptr[example + 1] - start):
            total += counts[j] * batch.cost[start + j]
        total -= gold_score(batch, example, batch.cost[start:])
    return total


@fragment
def gold_score(batch, example, scores):  # type: ignore
    """The score of the true label under part scores `scores`."""
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
    """Raise the parts of the true label by half the amount, and lower all other parts by half the amount.

    A wrong label may have all true parts and others besides, so raising the true parts alone would not prefer the true
    label. Tied parts do not change: a label uses them many times, so every label would change.
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
    """Σ a_j b_j over all b_j ≠ 0: a score of −inf with count zero contributes nothing."""
    total = 0.0
    for j in range(count):
        total += a[j] * b[j] if b[j] != 0.0 else 0.0
    return total
