# mypy: ignore-errors
"""Which windows next: sentences cut where labels are certain, and what of the gap each piece is expected to hold."""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import entry, inner

_NOISE = 1e-3  # of a doubt: cuts fall elsewhere each time where all labels are as good as certain


@inner
def _cut(length, at, start, size, doubt, noise, turn):  # type: ignore
    """The last position of the window that begins at `start`: of those near `size` away, the one at whose border the
    more certain of two labels is most certain. Two parts of a sentence that are nearly independent."""
    if length - start <= size + size // 2:
        return length - 1
    best, least = start + size - 1, np.inf
    nearest = start + (size // 2 if start > 0 else size // 4)
    for last in range(max(nearest, start + 1) - 1, start + size + size // 2 - 1):
        here = min(doubt[at + last], doubt[at + last + 1]) + _NOISE * noise[(turn + last) % noise.size]
        if here < least:
            best, least = last, here
    return best


@entry
def cut_windows(
    examples, size, position_ptr, weight, doubt, gap, seen, waited, now, floor, noise, windows, due
):  # type: ignore
    """Cut `examples` into windows of about `size` positions; returns how many there are.

    Writes `windows` (most, 3), example, first and last position, and `due` (most,), the sum over positions of their
    share of a gap, which is taken to grow linearly since the last visit, as in `sampling.expected_gap`.
    """
    count, turn = 0, 0
    for k in range(examples.size):
        i = examples[k]
        at, start = position_ptr[i], 0
        length = position_ptr[i + 1] - at
        turn += length
        while start < length:
            last = _cut(length, at, start, size, doubt, noise, turn)
            total = 0.0
            for t in range(at + start, at + last + 1):
                total += (gap[t] + floor) * (now - seen[t]) / waited[t]
            windows[count, 0], windows[count, 1], windows[count, 2] = i, start, last
            due[count] = weight[i] * total
            count, start = count + 1, last + 1
    return count
