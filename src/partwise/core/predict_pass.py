# mypy: ignore-errors
"""Passes for prediction: best labellings, probabilities and log-partitions of a corpus in one call.

Passes take a range of examples, so that threads can share the work. ``excluded_part[excluded_ptr[i]:excluded_ptr[i +
1]]`` are the parts that no labelling of example i may have. An empty `excluded_ptr` excludes none.
"""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import entry, fragment
from partwise.compiled.examples import add_cost, add_gold, scatter_example, score_example
from partwise.compiled.oracles import best, expectations, log_partition


@fragment
def exclude(i, excluded_ptr, excluded_part, scores):  # type: ignore
    """Set the scores of excluded parts to −inf."""
    if excluded_ptr.size > 0:
        for k in range(excluded_ptr[i], excluded_ptr[i + 1]):
            scores[excluded_part[k]] = -np.inf


@entry
def decode_pass(  # type: ignore
    batch, first, last, weights, excluded_ptr, excluded_part, found_ptr, found, n_found, values, scratch
):
    """Best labellings, and their scores `values` (n_examples,).

    The distinct parts of example i, in ascending order, are the first ``n_found[i]`` of ``found[found_ptr[i]:]``.
    """
    for i in range(first, last):
        count = score_example(batch, i, weights, 1.0, scratch.scores, scratch)
        exclude(i, excluded_ptr, excluded_part, scratch.scores)
        values[i] = best(batch, i, scratch.scores, scratch.counts, scratch)
        at = found_ptr[i]
        if values[i] > -np.inf:
            for j in range(count):
                if scratch.counts[j] > 0.5:
                    found[at] = j
                    at += 1
        n_found[i] = at - found_ptr[i]


@entry
def counts_pass(  # type: ignore
    batch, first, last, weights, scale, cost_scale, excluded_ptr, excluded_part, count_ptr, counts, log_total,
    scratch,
):  # fmt: skip
    """Log-partitions and expected counts at scale · scores + cost_scale · cost.

    Example i stores its first ``count_ptr[i + 1] - count_ptr[i]`` counts. If `counts` is empty, only log-partitions
    are computed.
    """
    for i in range(first, last):
        score_example(batch, i, weights, scale, scratch.scores, scratch)
        add_cost(batch, i, cost_scale, scratch.scores)
        exclude(i, excluded_ptr, excluded_part, scratch.scores)
        if counts.size == 0:
            log_total[i] = log_partition(batch, i, scratch.scores, scratch)
        else:
            log_total[i] = expectations(batch, i, scratch.scores, scratch.counts, scratch)
            start = count_ptr[i]
            for j in range(count_ptr[i + 1] - start):
                counts[start + j] = scratch.counts[j]


@entry
def gold_features(batch, vector, scratch):  # type: ignore
    """vector += Σ_i φ(x_i, y_i)."""
    for i in range(batch.example_weight.size):
        for j in range(batch.part_ptr[i + 1] - batch.part_ptr[i]):
            scratch.delta[j] = 0.0
        add_gold(batch, i, 1.0, scratch.delta)
        scatter_example(batch, i, vector, 1.0, scratch.delta, 0.0, scratch)
