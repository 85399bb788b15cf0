# mypy: ignore-errors
"""Whether given heads are trees of a kind, over a whole corpus."""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import entry

FINE, CYCLE, SECOND_ROOT, CROSSING = 0, 1, 2, 3


@entry(allocates=True)
def first_fault(lengths, heads, single_root, projective):  # type: ignore
    """The first thing wrong with heads that are in range: what, in which example, at which position, and another.

    The last number is the word at the other end of a crossing arc, or the other root.
    """
    start = 0
    for example in range(lengths.size):
        n = lengths[example]
        own = heads[start : start + n]
        root = -1
        for m in range(n):
            if own[m] == 0:
                if single_root and root >= 0:
                    return SECOND_ROOT, example, m, root
                root = m
        reaches = np.zeros(n, np.bool_)
        for m in range(n):
            word, steps = m, 0
            while own[word] != 0 and not reaches[own[word] - 1] and steps <= n:
                word, steps = own[word] - 1, steps + 1
            if steps > n:
                return CYCLE, example, m, 0
            reaches[m] = True
        if projective:
            for m in range(n):
                low, high = min(own[m], m + 1), max(own[m], m + 1)
                for other in range(m):
                    left, right = min(own[other], other + 1), max(own[other], other + 1)
                    if low < left < high < right or left < low < right < high:
                        return CROSSING, example, m, other
        start += n
    return FINE, 0, 0, 0
