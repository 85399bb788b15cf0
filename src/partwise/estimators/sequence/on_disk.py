"""A sequence labeler's problem on data that lie on disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from partwise.core.arrays import offsets
from partwise.core.losses import Loss
from partwise.core.streamed import Shards, StreamedProblem, scorer_on_disk, shards_of
from partwise.estimators.base import n_threads
from partwise.estimators.on_disk.dataset import EncodedDataset
from partwise.estimators.sequence.data import chain_of
from partwise.estimators.sequence.encoding import cut
from partwise.structures import Chain
from partwise.structures.contract import PartLists

_AT_ONCE = 1 << 18  # positions


def problem_on_disk(estimator: Any, data: EncodedDataset) -> StreamedProblem:
    """Data of a folder bound to the chain and the loss that an estimator's parameters ask for."""
    data.check_estimator(estimator)
    structure = chain_of(estimator, data.labels, data.encoder, lambda: _label_blocks(data))
    shapes = structure.shapes(data.lengths)
    scorer = scorer_on_disk(structure, shapes, data.rows, n_threads(estimator.n_jobs))
    loss, part_ptr = Loss.of(estimator.loss), scorer.batch.part_ptr
    gold_ptr = offsets(structure.most_parts(shapes))
    n_bytes = data.n_bytes
    if data.state_dir is not None:  # θ and μ in single precision, costs, true labels
        n_bytes += (12 if loss.gamma else 8) * int(part_ptr[-1]) + 8 * int(gold_ptr[-1])
    held = shards_of(part_ptr, n_bytes, data.shard_bytes(n_bytes), data.state_dir)
    for kind, counts in zip(data.rows, structure.row_counts(shapes), strict=True):
        held.add_rows(data.rows[kind], offsets(counts))
    gold, cost = _true_parts(
        structure, estimator.cost, data, held, gold_ptr, part_ptr if loss.gamma else None
    )
    weights = np.ones(data.n_examples) if data.weights is None else data.weights
    l2, l1 = estimator._l2, float(estimator.l1)
    return StreamedProblem(scorer, gold, cost, weights, loss, l2, l1, held=held)


def _label_blocks(data: EncodedDataset) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """Lengths and labels of consecutive sequences, and the number of those before them."""
    ptr = offsets(data.lengths)
    for first, last in cut(data.lengths, _AT_ONCE):
        codes = data.codes.array[ptr[first] : ptr[last]].astype(np.int64)
        yield data.lengths[first:last], codes, first
        data.codes.leave(int(ptr[first]), int(ptr[last]))


def _true_parts(
    structure: Chain, cost: Any, data: EncodedDataset, held: Shards, gold_ptr: np.ndarray, part_ptr: Any
) -> tuple[PartLists, np.ndarray]:
    """The parts of the true labels and, with `part_ptr`, the costs of all parts."""
    costs = structure.checked_cost(cost)
    part = held.zeros(gold_ptr, np.int64)
    cost_of_part = np.zeros(0, np.float32) if part_ptr is None else held.zeros(part_ptr, np.float32)
    ptr = offsets(data.lengths)
    for begin, end in held.in_order(0, data.n_examples):
        for first, last in cut(data.lengths[begin:end], _AT_ONCE):
            first, last = begin + first, begin + last
            codes = data.codes.array[ptr[first] : ptr[last]].astype(np.int64)
            shapes = structure.shapes(data.lengths[first:last])
            part[gold_ptr[first] : gold_ptr[last]] = structure.encode_all(codes, shapes).part
            if part_ptr is not None:
                found = structure.part_costs(codes, shapes, costs)
                cost_of_part[part_ptr[first] : part_ptr[last]] = found[: part_ptr[last] - part_ptr[first]]
            data.codes.leave(int(ptr[first]), int(ptr[last]))
    return PartLists(gold_ptr, part), cost_of_part
