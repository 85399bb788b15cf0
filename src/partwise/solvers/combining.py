# mypy: ignore-errors
"""Adds up the changes of v that threads made to their copies (see `threads.py`)."""

from __future__ import annotations

from partwise.compiled.dispatch import entry

BLOCK = 1024  # entries that stay near the processor between the loops


@entry
def combine_pass(v, copies, inverse, l1, first, last, workspace, sums):  # type: ignore
    """v ← v + Σ_k d_k with d_k = (u_k − v) · inverse, for entries first … last − 1.

    Adds ‖Σ_k d_k‖², Σ_k ‖d_k‖² and ‖shrink(v, l1)‖² to `sums`; `workspace` is for BLOCK numbers. Sums have loops
    without stores (see the traps in `compiled/__init__.py`).
    """
    together, apart, norm = 0.0, 0.0, 0.0
    for start in range(first, last, BLOCK):
        count = min(BLOCK, last - start)
        for j in range(count):
            workspace[j] = 0.0
        for k in range(copies.shape[0]):
            for j in range(count):
                change = copies[k, start + j] - v[start + j]
                apart += change * change
            for j in range(count):
                workspace[j] += copies[k, start + j] - v[start + j]
        for j in range(count):
            together += workspace[j] * workspace[j]
        for j in range(count):
            v[start + j] += inverse * workspace[j]
        for j in range(count):
            value = v[start + j]
            shrunk = value - min(max(value, -l1), l1)
            norm += shrunk * shrunk
    sums[0] += inverse * inverse * together
    sums[1] += inverse * inverse * apart
    sums[2] += norm
