# mypy: ignore-errors
"""Where the parts of a semi-Markov chain lie, and the scores of its segments: sums over parts, −inf if masked.

Parts of a semi-Markov chain of n positions, L labels and segments of at most D positions, in this order:

- L for every (start, length) that fits, ordered by start, then by length;
- if `tokens` is set, 2·L for every position: the label begins here, the label continues here;
- L×L transitions from the label of a segment to that of the next, shared by all neighbours.

A segment scores its own part, plus "begins" of its first position and "continues" of all others. These are summed
along the segment as its length grows. Differences of prefix sums would be wrong for scores of a million or of −inf.
"""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import inner


def n_segments(lengths: np.ndarray, max_length: int) -> np.ndarray:
    """How many (start, length) fit into sentences of these lengths, int64 (n,)."""
    longest = np.minimum(lengths, max_length)
    return lengths * longest - longest * (longest - 1) // 2


@inner
def first_segment(length, longest, start):  # type: ignore
    """Number of the segment of one position that begins at `start`; longer ones follow.

    `longest` is the smaller of D and n. Starts after n − D have fewer and fewer segments.
    """
    short = max(start - (length - longest), 0)
    return start * longest - short * (short - 1) // 2


@inner
def fill_rows(specification, length, scores, work):  # type: ignore
    """Scores of all segments into `work.rows`, −inf if the label may not be that long."""
    n_labels, stride = specification.n_labels, specification.stride
    rows, sums, too_long = work.rows, work.sums, specification.too_long
    longest = min(specification.max_length, length)
    first_token = (length * longest - longest * (longest - 1) // 2) * n_labels
    for start in range(length):
        segment = first_segment(length, longest, start)
        for k in range(min(longest, length - start)):
            target, source, mask = (segment + k) * stride, (segment + k) * n_labels, k * stride
            if specification.tokens:
                token = first_token + 2 * (start + k) * n_labels
                if k == 0:
                    for j in range(n_labels):
                        sums[j] = scores[token + j]
                else:
                    for j in range(n_labels):
                        sums[j] += scores[token + n_labels + j]
                for j in range(n_labels):
                    rows[target + j] = scores[source + j] + sums[j] + too_long[mask + j]
            else:
                for j in range(n_labels):
                    rows[target + j] = scores[source + j] + too_long[mask + j]


@inner
def first_transition(specification, length):  # type: ignore
    """Number of the first part of the transitions."""
    longest = min(specification.max_length, length)
    n_rows = length * longest - longest * (longest - 1) // 2
    tokens = 2 * length if specification.tokens else 0
    return (n_rows + tokens) * specification.n_labels


@inner
def fill_edges(specification, length, scores, work):  # type: ignore
    """Scores of transitions into `work.edges`, −inf if masked and in the padding."""
    n_labels, stride, edges = specification.n_labels, specification.stride, work.edges
    first = first_transition(specification, length)
    for i in range(n_labels):
        for j in range(n_labels):
            is_allowed = specification.allowed[i * stride + j] > 0.0
            edges[i * stride + j] = scores[first + i * n_labels + j] if is_allowed else -np.inf
        for j in range(n_labels, stride):
            edges[i * stride + j] = -np.inf


@inner
def add_token_counts(specification, length, counts):  # type: ignore
    """Counts of positions from those of segments: all segments that begin here, all that continue here."""
    n_labels = specification.n_labels
    longest = min(specification.max_length, length)
    first_token = (length * longest - longest * (longest - 1) // 2) * n_labels
    for k in range(2 * length * n_labels):
        counts[first_token + k] = 0.0
    for start in range(length):
        segment = first_segment(length, longest, start)
        for j in range(n_labels):
            total = 0.0
            for k in range(min(longest, length - start) - 1, 0, -1):
                total += counts[(segment + k) * n_labels + j]
                counts[first_token + (2 * (start + k) + 1) * n_labels + j] += total
            counts[first_token + 2 * start * n_labels + j] = total + counts[segment * n_labels + j]
