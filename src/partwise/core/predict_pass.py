# mypy: ignore-errors
"""Passes for prediction: best labels, probabilities and log-partitions of a corpus in one call.

All take a range of examples, so that threads can share the work. `fixed` has one entry per position: the
label it must have, or −1; an empty array leaves all of them free.
"""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import fragment, kernel
from partwise.compiled.examples import add_cost, add_gold, layout_of, scatter_example, score_example
from partwise.compiled.oracles import best, expectations, labelling, log_partition


@fragment
def _fix(batch, i, fixed, scores):  # type: ignore
    """−inf for every label but the one a position must have."""
    if fixed.size > 0:
        width, first = batch.node.width, batch.node.row_ptr[i]
        for t in range(batch.node.row_ptr[i + 1] - first):
            label = fixed[first + t]
            if label >= 0:
                for j in range(width):
                    if j != label:
                        scores[t * width + j] = -np.inf


@kernel
def decode_pass(batch, first, last, weights, fixed, position_ptr, labels, values, scratch):  # type: ignore
    """Fill `labels` (n_positions,) with best labellings and `values` (n_examples,) with their scores."""
    for i in range(first, last):
        score_example(batch, i, weights, 1.0, scratch.scores, scratch.row)
        _fix(batch, i, fixed, scratch.scores)
        values[i] = best(
            batch.specification, layout_of(batch, i), scratch.scores, scratch.counts, scratch.structure
        )
        labelling(batch.specification, layout_of(batch, i), scratch.counts, labels[position_ptr[i] :])


@kernel
def counts_pass(  # type: ignore
    batch, first, last, weights, scale, cost_scale, fixed, count_ptr, counts, log_total, scratch
):
    """Log-partitions and expected counts at scale · scores + cost_scale · cost.

    Example i stores its first ``count_ptr[i + 1] - count_ptr[i]`` counts, nodes before edges; where
    `counts` is empty only the log-partitions are computed.
    """
    for i in range(first, last):
        score_example(batch, i, weights, scale, scratch.scores, scratch.row)
        add_cost(batch, i, cost_scale, scratch.scores)
        _fix(batch, i, fixed, scratch.scores)
        if counts.size == 0:
            log_total[i] = log_partition(
                batch.specification, layout_of(batch, i), scratch.scores, scratch.structure
            )
        else:
            log_total[i] = expectations(
                batch.specification, layout_of(batch, i), scratch.scores, scratch.counts, scratch.structure
            )
            start = count_ptr[i]
            for j in range(count_ptr[i + 1] - start):
                counts[start + j] = scratch.counts[j]


@kernel
def gold_features(batch, vector, scratch):  # type: ignore
    """vector += Σ_i φ(x_i, y_i)."""
    for i in range(batch.length.size):
        for j in range(batch.part_ptr[i + 1] - batch.part_ptr[i]):
            scratch.delta[j] = 0.0
        add_gold(batch, i, 1.0, scratch.delta)
        scatter_example(batch, i, vector, 1.0, scratch.delta, 0.0, scratch.row)
