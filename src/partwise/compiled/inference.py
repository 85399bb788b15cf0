# mypy: ignore-errors
"""One oracle over many examples in one call, for the methods of structures."""

from __future__ import annotations

from partwise.compiled.boundary import address_of, call_address, record_address
from partwise.compiled.dispatch import entry


@entry
def answer_all(call, specification, work, wants_counts, shape_ptr, shape, part_ptr, scores, counts, values):  # type: ignore
    """Fill `values` (n,) with log-partitions or maxima, and `counts` (part_ptr[n],) if `wants_counts`.

    `call` (1,) has the address of an oracle's function. `scores` is (part_ptr[n] + ``simd.LANES``,).
    """
    for i in range(values.size):
        first, own = part_ptr[i], shape_ptr[i]
        values[i] = call_address(
            call[0],
            (
                record_address(specification),
                record_address(work),
                address_of(shape, own),
                shape_ptr[i + 1] - own,
                address_of(scores, first),
                address_of(counts, first),
                part_ptr[i + 1] - first,
                wants_counts,
            ),
        )
