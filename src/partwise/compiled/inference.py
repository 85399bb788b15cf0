# mypy: ignore-errors
"""The oracles over many examples in one call: what the structures' own methods run on."""

from __future__ import annotations

from partwise.compiled.dispatch import kernel
from partwise.compiled.oracles import best, expectations, labelling, log_partition


@kernel
def log_partition_of_all(specification, layout_ptr, layout, part_ptr, scores, values, work):  # type: ignore
    """Fill `values` (n,); `scores` is (part_ptr[n] + slack,)."""
    for i in range(values.size):
        own = layout[layout_ptr[i] : layout_ptr[i + 1]]
        values[i] = log_partition(specification, own, scores[part_ptr[i] :], work)


@kernel
def expectations_of_all(specification, layout_ptr, layout, part_ptr, scores, counts, values, work):  # type: ignore
    """Fill `values` (n,) with log-partitions and `counts` (part_ptr[n],) with expected counts."""
    for i in range(values.size):
        first, own = part_ptr[i], layout[layout_ptr[i] : layout_ptr[i + 1]]
        values[i] = expectations(specification, own, scores[first:], counts[first:], work)


@kernel
def best_of_all(specification, layout_ptr, layout, part_ptr, scores, counts, values, work):  # type: ignore
    """Fill `values` (n,) with maxima and `counts` (part_ptr[n],) with the parts of a maximiser."""
    for i in range(values.size):
        first, own = part_ptr[i], layout[layout_ptr[i] : layout_ptr[i + 1]]
        values[i] = best(specification, own, scores[first:], counts[first:], work)


@kernel
def labellings_of_all(specification, layout_ptr, layout, part_ptr, counts, position_ptr, labels):  # type: ignore
    """Fill `labels` (position_ptr[n],) with the labellings whose parts `counts` marks."""
    for i in range(part_ptr.size - 1):
        own = layout[layout_ptr[i] : layout_ptr[i + 1]]
        labelling(specification, own, counts[part_ptr[i] :], labels[position_ptr[i] :])
