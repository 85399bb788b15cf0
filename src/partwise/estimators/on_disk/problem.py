"""The problem of data that lie on disk, whatever the structure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from partwise.core.arrays import offsets
from partwise.core.losses import Loss
from partwise.core.products import NONE_EQUAL
from partwise.core.streamed import Shards, StreamedProblem, scorer_on_disk, shards_of
from partwise.estimators.base import n_threads
from partwise.estimators.on_disk.dataset import EncodedDataset
from partwise.estimators.on_disk.room import room_for
from partwise.structures.contract import PartLists, Structure

_AT_ONCE = 1 << 18  # positions


def problem_on_disk(
    estimator: Any, data: EncodedDataset, structure: Structure, weights: np.ndarray | None
) -> StreamedProblem:
    """Data of a folder bound to a structure, and to the loss that an estimator's parameters ask for.

    Parameters
    ----------
    weights : float64 array, shape (n_examples,), or None
        Of the examples, where not all are one.
    """
    shapes = structure.shapes(data.lengths)
    scorer = scorer_on_disk(structure, shapes, data.rows, n_threads(estimator.n_jobs))
    loss, part_ptr = Loss.of(estimator.loss), scorer.batch.part_ptr
    gold_ptr = offsets(structure.most_parts(shapes))
    # θ and μ in single precision, or one of them in double, costs, true labels
    state_bytes = (12 if loss.gamma else 8) * int(part_ptr[-1]) + 8 * int(gold_ptr[-1])
    room = room_for(data, estimator, scorer, state_bytes)
    n_bytes = data.n_bytes + (0 if room.state_dir is None else state_bytes)
    held = shards_of(part_ptr, n_bytes, room.shard_bytes, room.state_dir)
    for kind, counts in zip(data.rows, structure.row_counts(shapes), strict=True):
        held.add_rows(data.rows[kind], offsets(counts))
    if held.n_shards > 1:  # equal rows lie in different shards
        scorer.distinct_rows.update((k, NONE_EQUAL) for k in range(len(scorer.kinds)))
    gold, cost = _true_parts(
        structure, estimator.cost, data, held, gold_ptr, part_ptr if loss.gamma else None
    )
    weights = np.ones(data.n_examples) if weights is None else weights
    l2, l1 = estimator._l2, float(estimator.l1)
    return StreamedProblem(scorer, gold, cost, weights, loss, l2, l1, held=held, n_bytes=n_bytes)


def label_blocks(data: EncodedDataset) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """Lengths and labels of consecutive examples, and the number of those before them."""
    for first, last, codes in _blocks(data, offsets(data.lengths), 0, data.n_examples):
        yield data.lengths[first:last], codes, first


def _blocks(
    data: EncodedDataset, ptr: np.ndarray, first: int, end: int
) -> Iterator[tuple[int, int, np.ndarray]]:
    """First and last of a few examples at a time, those of i from ptr[i] on, and the labels of their positions."""
    while first < end:
        last = int(np.searchsorted(ptr, ptr[first] + _AT_ONCE, side="right")) - 1
        last = min(max(last, first + 1), end)
        yield first, last, data.codes.array[ptr[first] : ptr[last]].astype(np.int64)
        data.codes.leave(int(ptr[first]), int(ptr[last]))
        first = last


def _true_parts(
    structure: Structure, cost: Any, data: EncodedDataset, held: Shards, gold_ptr: np.ndarray, part_ptr: Any
) -> tuple[PartLists, np.ndarray]:
    """The parts of the true labels and, with `part_ptr`, the costs of all parts."""
    costs = structure.read_cost(cost)
    part = held.zeros(gold_ptr, np.int64)
    cost_of_part = np.zeros(0, np.float32) if part_ptr is None else held.zeros(part_ptr, np.float32)
    position_ptr = offsets(data.lengths)
    for begin, end in held.in_order(0, data.n_examples):
        for first, last, codes in _blocks(data, position_ptr, begin, end):
            shapes = structure.shapes(data.lengths[first:last])
            gold = structure.encode_all(codes, shapes)
            part[gold_ptr[first] : gold_ptr[last]] = gold.part
            if part_ptr is not None:
                found = structure.costs_of_parts(codes, shapes, costs, gold)
                cost_of_part[part_ptr[first] : part_ptr[last]] = found[: part_ptr[last] - part_ptr[first]]
    return PartLists(gold_ptr, part), cost_of_part
