# mypy: ignore-errors
"""The entropy of beliefs, Σ_v (1 − Σ_f ρ_f) H(b_v) + Σ_f ρ_f H(b_f), where f sums over the factors of v.

Where messages agree, this is the log-partition minus the expected score. That difference would multiply the rounding
of beliefs by the scores: 1e-10 · 1e6 for large ones.
"""

from __future__ import annotations

import math

from partwise.compiled.boundary import load_record, record_address
from partwise.compiled.dispatch import entry, inner
from partwise.structures.graphs.messages.counts import count_entropy
from partwise.structures.graphs.messages.soft import belief_logs
from partwise.structures.graphs.messages.sweeps import gather, total_of
from partwise.structures.graphs.messages.trees import read_odds
from partwise.structures.graphs.messages.workspace import COUNT, TABLE, FactorRoom, FactorWorkspace, log_total


@entry
def belief_entropy(shape, workspace):  # type: ignore
    """Entropy in nats of the beliefs that the last sums on this packed workspace ended with."""
    work = record_address(load_record(FactorWorkspace, record_address(workspace)).packed)
    room = load_record(FactorRoom, work)
    share, entropy = room.sums, 0.0
    for v in range(room.sizes[0]):
        share[v] = 1.0
    for f in range(room.sizes[1]):
        for s in range(room.slot[f], room.slot[f + 1]):
            share[room.vertex[s]] -= room.weight[f]
    for v in range(room.sizes[0]):
        first = room.first[v]
        entropy += share[v] * _entropy(room.beliefs, first, room.first[v + 1] - first)
    for f in range(room.sizes[1]):
        gather(f, room.beliefs, work)
        entropy += room.weight[f] * _factor_entropy(f, shape, work)
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
def _factor_entropy(f, shape, work):  # type: ignore
    """Entropy of a factor's belief, given ``room.incoming``."""
    room = load_record(FactorRoom, work)
    code, place, arity = room.code[f], room.place[f], room.slot[f + 1] - room.slot[f]
    if code == TABLE:
        return _entropy(room.levels, 0, belief_logs(f, room.levels, work))
    if code == COUNT:
        return count_entropy(shape, place, arity, room.incoming, room.levels)
    common = read_odds(shape, place, arity, room.incoming, room.arc_scores)
    entropy = total_of(f, shape, work) - common
    for a in range(arity):
        if room.arc_counts[a] > 0.0:
            entropy -= room.arc_counts[a] * room.arc_scores[a]
    return entropy
