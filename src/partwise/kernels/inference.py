"""The oracles over many examples in one call: what the structures' own methods run on."""

from __future__ import annotations

from partwise.kernels.dispatch import kernel
from partwise.kernels.oracles import best, expectations, log_partition


@kernel
def log_partition_of_all(specification, lengths, part_ptr, scores, values, work):  # type: ignore
    """Fill `values` (n,); `scores` is (part_ptr[n] + slack,)."""
    for i in range(lengths.size):
        values[i] = log_partition(specification, lengths[i], scores[part_ptr[i] :], work)


@kernel
def expectations_of_all(specification, lengths, part_ptr, scores, counts, values, work):  # type: ignore
    """Fill `values` (n,) with log-partitions and `counts` (part_ptr[n],) with expected counts."""
    for i in range(lengths.size):
        first = part_ptr[i]
        values[i] = expectations(specification, lengths[i], scores[first:], counts[first:], work)


@kernel
def best_of_all(specification, lengths, part_ptr, scores, counts, values, work):  # type: ignore
    """Fill `values` (n,) with maxima and `counts` (part_ptr[n],) with the parts of a maximiser."""
    for i in range(lengths.size):
        first = part_ptr[i]
        values[i] = best(specification, lengths[i], scores[first:], counts[first:], work)


@kernel
def largest_nodes(lengths, part_ptr, counts, width, labels):  # type: ignore
    """Fill `labels` (lengths.sum(),) with the largest of the first parts, `width` for each position."""
    at = 0
    for i in range(lengths.size):
        for t in range(lengths[i]):
            row, label = part_ptr[i] + t * width, 0
            for j in range(width):
                if counts[row + j] > counts[row + label]:
                    label = j
            labels[at] = label
            at += 1
