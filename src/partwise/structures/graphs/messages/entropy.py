# mypy: ignore-errors
"""The entropy of beliefs, Σ_v (1 − Σ_f ρ_f) H(b_v) + Σ_f ρ_f H(b_f), with the first Σ_f over the factors of v.

If messages have converged, this is the log-partition minus the expected score. That difference would multiply the
rounding of beliefs by the scores: 1e-10 · 1e6 for large scores.
"""

from __future__ import annotations

import math

from partwise.compiled.boundary import load_record, record_address
from partwise.compiled.dispatch import entry, inner
from partwise.structures.graphs.messages.counts import count_entropy
from partwise.structures.graphs.messages.soft import belief_logs
from partwise.structures.graphs.messages.sweeps import gather, total_of
from partwise.structures.graphs.messages.trees import read_odds
from partwise.structures.graphs.messages.workspace import (
    COUNT,
    TABLE,
    FactorWorkspace,
    PackedFactorWorkspace,
    log_total,
)


@entry
def belief_entropy(shape, workspace):  # type: ignore
    """Entropy in nats of the beliefs from the last sums on this packed workspace."""
    address = record_address(load_record(PackedFactorWorkspace, record_address(workspace)).packed)
    work = load_record(FactorWorkspace, address)
    share, entropy = work.sums, 0.0
    for v in range(work.sizes[0]):
        share[v] = 1.0
    for f in range(work.sizes[1]):
        for s in range(work.slot[f], work.slot[f + 1]):
            share[work.vertex[s]] -= work.weight[f]
    for v in range(work.sizes[0]):
        first = work.first[v]
        entropy += share[v] * _entropy(work.beliefs, first, work.first[v + 1] - first)
    for f in range(work.sizes[1]):
        gather(f, work.beliefs, address)
        entropy += work.weight[f] * _factor_entropy(f, shape, address)
    return entropy


@inner
def _entropy(logs, first, n):  # type: ignore
    """Entropy of probabilities proportional to exponentials."""
    total, entropy = log_total(logs, first, n), 0.0
    for j in range(first, first + n):
        if logs[j] > -math.inf:
            entropy -= math.exp(logs[j] - total) * (logs[j] - total)
    return entropy


@inner
def _factor_entropy(f, shape, address):  # type: ignore
    """Entropy of a factor's belief, from ``work.incoming``."""
    work = load_record(FactorWorkspace, address)
    code, place, arity = work.code[f], work.place[f], work.slot[f + 1] - work.slot[f]
    if code == TABLE:
        return _entropy(work.levels, 0, belief_logs(f, work.levels, address))
    if code == COUNT:
        return count_entropy(shape, place, arity, work.incoming, work.levels)
    common = read_odds(shape, place, arity, work.incoming, work.arc_scores)
    entropy = total_of(f, shape, address) - common
    for a in range(arity):
        if work.arc_counts[a] > 0.0:
            entropy -= work.arc_counts[a] * work.arc_scores[a]
    return entropy
