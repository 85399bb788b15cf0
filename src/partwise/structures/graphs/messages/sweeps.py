# mypy: ignore-errors
"""Belief propagation with reweighted factors, one factor after another, until messages converge.

With weights ρ_f (all 1: loopy belief propagation) and beliefs b, the messages m_fv and what comes back are

    log b_v = θ_v + Σ_f ρ_f m_fv,       n_vf = log b_v − m_fv,       m_fv = sums over θ_f / ρ_f + Σ_u n_uf,

(Wainwright, Jaakkola and Willsky 2005, eq. 28; Kschischang et al. 2001 for ρ = 1). Sweeps go from the first factor to
the last and back in turn. A visit updates all messages of a factor and the beliefs of its vertices, so the next factor
uses the new beliefs. If messages stop converging, the step is halved.

If a factor makes a state impossible, the belief of the state becomes −inf and stays so. Its messages stay finite.
"""

from __future__ import annotations

import numpy as np

from partwise.compiled.boundary import load_record
from partwise.compiled.dispatch import inner
from partwise.structures.graphs.messages.acceleration import combine
from partwise.structures.graphs.messages.counts import count_forward, count_outgoing
from partwise.structures.graphs.messages.soft import (
    pair_in_logs,
    prepare_tables,
    renew_slot,
    table_outgoing,
    table_total,
    visit_pair,
    visit_square,
)
from partwise.structures.graphs.messages.trees import tree_outgoing
from partwise.structures.graphs.messages.workspace import COUNT, TABLE, FactorWorkspace, log_total
from partwise.structures.semirings import LOGS

# Every so many sweeps, the step is halved if the change of messages has not become smaller.
_PATIENCE = 10
# Messages are accelerated if they change by less than this, in nats.
_SMOOTH = 1.0
# Acceleration starts anew if the change of messages exceeds this multiple of the smallest change so far.
_ASTRAY = 10.0
# The step is never smaller than this share of the full step: sweeps would take too long.
_SMALLEST_STEP = 0.05


@inner
def gather(f, beliefs, address):  # type: ignore
    """Fill ``work.incoming`` with the messages of its vertices to a factor."""
    work = load_record(FactorWorkspace, address)
    base, incoming, messages = work.message[work.slot[f]], work.incoming, work.messages
    for s in range(work.slot[f], work.slot[f + 1]):
        first, at = work.first[work.vertex[s]], work.message[s]
        for x in range(work.message[s + 1] - at):
            incoming[at - base + x] = beliefs[first + x] - messages[at + x]


@inner
def outgoing_of(f, shape, address):  # type: ignore
    """Fill ``work.outgoing`` with a factor's messages, each up to a constant, from ``work.incoming``."""
    work = load_record(FactorWorkspace, address)
    code, place, first, arity = work.code[f], work.place[f], work.slot[f], work.slot[f + 1] - work.slot[f]
    incoming, outgoing = work.incoming, work.outgoing
    if code == TABLE:
        inverse = 1.0 / work.weight[f]
        if arity == 2:
            at = work.message[first]
            rows, columns = work.message[first + 1] - at, work.message[first + 2] - work.message[first + 1]
            pair_in_logs(rows, columns, work.logs, place, inverse, incoming, outgoing)
        else:
            table_outgoing(
                f, work.slot, work.message, work.logs, place, inverse, incoming, outgoing, work.sums
            )
    elif code == COUNT:
        count_outgoing(shape, place, arity, incoming, outgoing, work.levels)
    else:
        tree_outgoing(code, shape, place, arity, incoming, outgoing, address)


@inner
def total_of(f, shape, address):  # type: ignore
    """log Σ_x exp( θ_f(x) / ρ_f + Σ_v n_v(x_v) ) of ``work.incoming``."""
    work = load_record(FactorWorkspace, address)
    code, place, arity = work.code[f], work.place[f], work.slot[f + 1] - work.slot[f]
    if code == TABLE:
        return table_total(f, work.slot, work.message, work.logs, place, 1.0 / work.weight[f], work.incoming)
    if code == COUNT:
        return count_forward(LOGS, shape, place, arity, work.incoming, work.levels)
    return tree_outgoing(code, shape, place, arity, work.incoming, work.outgoing, address)


@inner
def renew(f, step, address):  # type: ignore
    """Move a factor's messages towards ``work.outgoing``. Returns the largest change, inf if a state is lost."""
    work = load_record(FactorWorkspace, address)
    base, change = work.message[work.slot[f]], 0.0
    for s in range(work.slot[f], work.slot[f + 1]):
        first, at = work.first[work.vertex[s]], work.message[s]
        own = renew_slot(
            first, at, work.message[s + 1] - at, work.outgoing, at - base, work.weight[f], step,
            work.beliefs, work.messages,
        )  # fmt: skip
        change = max(change, own)
    return change


@inner
def collect_beliefs(address):  # type: ignore
    """Compute beliefs from messages, without accumulated rounding. Impossible states stay impossible."""
    work = load_record(FactorWorkspace, address)
    beliefs, messages, scores = work.beliefs, work.messages, work.scores
    for j in range(work.sizes[3]):
        if beliefs[j] > -np.inf:
            beliefs[j] = scores[j]
    for f in range(work.sizes[1]):
        weight = work.weight[f]
        for s in range(work.slot[f], work.slot[f + 1]):
            first, at = work.first[work.vertex[s]], work.message[s]
            for x in range(work.message[s + 1] - at):
                beliefs[first + x] += weight * messages[at + x]


@inner
def is_possible(address):  # type: ignore
    """Whether every vertex has a possible state."""
    work = load_record(FactorWorkspace, address)
    for v in range(work.sizes[0]):
        top = -np.inf
        for j in range(work.first[v], work.first[v + 1]):
            top = max(top, work.beliefs[j])
        if not top > -np.inf:
            return False
    return True


@inner
def sweep(shape, backwards, step, address):  # type: ignore
    """Visit all factors once. Returns the largest change of a message, before it is damped."""
    work = load_record(FactorWorkspace, address)
    n_factors, largest = work.sizes[1], 0.0
    first, vertex, message, beliefs, messages = (
        work.first,
        work.vertex,
        work.message,
        work.beliefs,
        work.messages,
    )
    code, slot, exponential_at, weight, tables = (
        work.code,
        work.slot,
        work.exponential_at,
        work.weight,
        work.tables,
    )
    incoming, outgoing, exponents, sums = work.incoming, work.outgoing, work.exponents, work.sums
    for k in range(n_factors):
        f = n_factors - 1 - k if backwards else k
        s, change = slot[f], -1.0
        if code[f] == TABLE and slot[f + 1] == s + 2:
            u, v, at_u, at_v = first[vertex[s]], first[vertex[s + 1]], message[s], message[s + 1]
            rows, columns = at_v - at_u, message[s + 2] - at_v
            if rows == 2 and columns == 2:
                change = visit_square(
                    u, v, at_u, at_v, tables, exponential_at[f], weight[f], step, beliefs, messages
                )
            else:
                change = visit_pair(
                    u, v, at_u, at_v, rows, columns, tables, exponential_at[f], work.logs, work.place[f], weight[f],
                    step, beliefs, messages, incoming, outgoing, exponents, sums,
                )  # fmt: skip
        if change < 0.0:
            gather(f, beliefs, address)
            outgoing_of(f, shape, address)
            change = renew(f, step, address)
        largest = max(largest, change)
    return largest


@inner
def start_messages(address):  # type: ignore
    """Set all messages to zero."""
    work = load_record(FactorWorkspace, address)
    for j in range(work.message[work.sizes[2]]):
        work.messages[j] = 0.0
    for j in range(work.sizes[3]):
        work.beliefs[j] = work.scores[j]


@inner
def converge(shape, tolerance, max_iterations, step, address):  # type: ignore
    """Sweep until messages change by at most `tolerance`. Returns False if a vertex has no possible state.

    Writes the number of iterations and the last change to ``work.report``.
    """
    work = load_record(FactorWorkspace, address)
    prepare_tables(address)
    before, change, best, done, kept = np.inf, np.inf, np.inf, 0, 0
    n, messages, point = work.message[work.sizes[2]], work.messages, work.point
    while done < max_iterations and change > tolerance:
        for j in range(n):
            point[j] = messages[j]
        sweep(shape, False, step, address)
        change = sweep(shape, True, step, address)
        done += 2
        if change < np.inf and change > tolerance:
            best = min(best, change)
            kept = kept + 1 if change < _SMOOTH and change < _ASTRAY * best else 0
            if kept > 0:
                combine(point, messages, n, kept - 1, work.history)
        collect_beliefs(address)
        if change == np.inf and not is_possible(address):
            work.report[0], work.report[1] = done, 0.0
            return False
        if done % _PATIENCE == 0:
            if change >= before:
                step = max(0.5 * step, _SMALLEST_STEP)
                kept, best = 0, change
            before = change
    work.report[0], work.report[1] = done, change
    return is_possible(address)


@inner
def weighted_value(shape, address):  # type: ignore
    """Σ_f ρ_f log Z_f + Σ_v (1 − Σ_f ρ_f) log Z_v: the free energy if messages have converged, Bethe's for ρ = 1."""
    work = load_record(FactorWorkspace, address)
    value, first, beliefs, share = 0.0, work.first, work.beliefs, work.sums
    for v in range(work.sizes[0]):
        share[v] = 1.0
    for f in range(work.sizes[1]):
        for s in range(work.slot[f], work.slot[f + 1]):
            share[work.vertex[s]] -= work.weight[f]
    for v in range(work.sizes[0]):
        value += share[v] * log_total(beliefs, first[v], first[v + 1] - first[v])
    for f in range(work.sizes[1]):
        gather(f, beliefs, address)
        value += work.weight[f] * total_of(f, shape, address)
    return value


@inner
def forest_value(shape, address):  # type: ignore
    """Σ_T share_T log Z_T, with θ split over the forests T by the messages: an upper bound for any messages.

    On forest T the scores are log b_v at vertices and θ_f / ρ_f − Σ_v m_fv at its factors; over all forests they add
    up to θ. log Z_T is summed from the leaves to the roots, in the array of beliefs.
    """
    work = load_record(FactorWorkspace, address)
    value, n_states, beliefs, kept = 0.0, work.sizes[3], work.beliefs, work.saved_beliefs
    for j in range(n_states):
        kept[j] = beliefs[j]
    for t in range(work.sizes[7]):
        constant = 0.0
        for k in range(work.forest[t], work.forest[t + 1]):
            f, s = work.order[k], work.parent[k]
            gather(f, beliefs, address)
            total = total_of(f, shape, address)
            if not total > -np.inf:
                return -np.inf
            outgoing_of(f, shape, address)
            constant += _send(s, s - work.slot[f], total, address)
            for r in range(work.slot[f], work.slot[f + 1]):
                if r != s:  # NaN marks vertices that have been summed out.
                    v = work.vertex[r]
                    for j in range(work.first[v], work.first[v + 1]):
                        beliefs[j] = np.nan
        log_z = constant
        for v in range(work.sizes[0]):
            first = work.first[v]
            if beliefs[first] == beliefs[first]:
                log_z += log_total(beliefs, first, work.first[v + 1] - first)
        value += work.share[t] * log_z
        for j in range(n_states):
            beliefs[j] = kept[j]
    return value


@inner
def _send(s, position, total, address):  # type: ignore
    """Replace slot s's message in its vertex's belief by ``work.outgoing``. Returns its missing constant."""
    work = load_record(FactorWorkspace, address)
    first, at = work.first[work.vertex[s]], work.message[s]
    n, base = work.message[s + 1] - at, work.message[s - position]
    beliefs, outgoing, sums = work.beliefs, work.outgoing, work.sums
    for x in range(n):
        sums[x] = outgoing[at - base + x] + work.incoming[at - base + x]
    for x in range(n):
        if beliefs[first + x] > -np.inf:
            beliefs[first + x] += outgoing[at - base + x] - work.messages[at + x]
    return total - log_total(sums, 0, n)
