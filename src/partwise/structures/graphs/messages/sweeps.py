# mypy: ignore-errors
"""Passing messages until they agree: reweighted belief propagation, one factor after another.

With weights ρ_f (all 1: loopy belief propagation) and beliefs b, the messages m_fv and what comes back are

    log b_v = θ_v + Σ_f ρ_f m_fv,       n_vf = log b_v − m_fv,       m_fv = sums over θ_f / ρ_f + Σ_u n_uf,

(Wainwright, Jaakkola and Willsky 2005, eq. 28; Kschischang et al. 2001 where ρ = 1). A sweep visits all factors, in
turn from the first to the last and back; a visit renews all messages of a factor and the beliefs of its vertices, so
that the next factor sees them. Where messages have stopped coming closer, they are moved less far.

A state that a factor has no room for has belief −inf, which stays; its messages are kept finite.
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
from partwise.structures.graphs.messages.workspace import COUNT, TABLE, FactorRoom, log_total

_PATIENCE = 10  # sweeps after which messages must have come closer
_SMOOTH = 1.0  # change of messages below which they are accelerated
_ASTRAY = 10.0  # times the smallest change so far, above which acceleration begins anew
_SMALLEST_STEP = 0.05


@inner
def gather(f, beliefs, work):  # type: ignore
    """Fill ``room.incoming`` with what the vertices of a factor say to it."""
    room = load_record(FactorRoom, work)
    base, incoming, messages = room.message[room.slot[f]], room.incoming, room.messages
    for s in range(room.slot[f], room.slot[f + 1]):
        first, at = room.first[room.vertex[s]], room.message[s]
        for x in range(room.message[s + 1] - at):
            incoming[at - base + x] = beliefs[first + x] - messages[at + x]


@inner
def outgoing_of(f, shape, work):  # type: ignore
    """Fill ``room.outgoing`` with a factor's messages, each up to a constant, from ``room.incoming``."""
    room = load_record(FactorRoom, work)
    code, place, first, arity = room.code[f], room.place[f], room.slot[f], room.slot[f + 1] - room.slot[f]
    incoming, outgoing = room.incoming, room.outgoing
    if code == TABLE:
        inverse = 1.0 / room.weight[f]
        if arity == 2:
            at = room.message[first]
            rows, columns = room.message[first + 1] - at, room.message[first + 2] - room.message[first + 1]
            pair_in_logs(rows, columns, room.logs, place, inverse, incoming, outgoing)
        else:
            table_outgoing(
                f, room.slot, room.message, room.logs, place, inverse, incoming, outgoing, room.sums
            )
    elif code == COUNT:
        count_outgoing(shape, place, arity, incoming, outgoing, room.levels)
    else:
        tree_outgoing(code, shape, place, arity, incoming, outgoing, work)


@inner
def total_of(f, shape, work):  # type: ignore
    """log Σ_x exp( θ_f(x) / ρ_f + Σ_v n_v(x_v) ) of ``room.incoming``."""
    room = load_record(FactorRoom, work)
    code, place, arity = room.code[f], room.place[f], room.slot[f + 1] - room.slot[f]
    if code == TABLE:
        return table_total(f, room.slot, room.message, room.logs, place, 1.0 / room.weight[f], room.incoming)
    if code == COUNT:
        return count_forward(shape, place, arity, False, room.incoming, room.levels)
    return tree_outgoing(code, shape, place, arity, room.incoming, room.outgoing, work)


@inner
def renew(f, step, work):  # type: ignore
    """Move a factor's messages towards ``room.outgoing``; returns the largest change, inf where a state died."""
    room = load_record(FactorRoom, work)
    base, change = room.message[room.slot[f]], 0.0
    for s in range(room.slot[f], room.slot[f + 1]):
        first, at = room.first[room.vertex[s]], room.message[s]
        own = renew_slot(
            first, at, room.message[s + 1] - at, room.outgoing, at - base, room.weight[f], step,
            room.beliefs, room.messages,
        )  # fmt: skip
        change = max(change, own)
    return change


@inner
def collect_beliefs(work):  # type: ignore
    """Beliefs from messages, without what rounding has added up; impossible states stay so."""
    room = load_record(FactorRoom, work)
    beliefs, messages, scores = room.beliefs, room.messages, room.scores
    for j in range(room.sizes[3]):
        if beliefs[j] > -np.inf:
            beliefs[j] = scores[j]
    for f in range(room.sizes[1]):
        weight = room.weight[f]
        for s in range(room.slot[f], room.slot[f + 1]):
            first, at = room.first[room.vertex[s]], room.message[s]
            for x in range(room.message[s + 1] - at):
                beliefs[first + x] += weight * messages[at + x]


@inner
def is_possible(work):  # type: ignore
    """Whether every vertex has a state left."""
    room = load_record(FactorRoom, work)
    for v in range(room.sizes[0]):
        top = -np.inf
        for j in range(room.first[v], room.first[v + 1]):
            top = max(top, room.beliefs[j])
        if not top > -np.inf:
            return False
    return True


@inner
def sweep(shape, backwards, step, work):  # type: ignore
    """Visit all factors once; returns the largest change that a message should make."""
    room = load_record(FactorRoom, work)
    n_factors, largest = room.sizes[1], 0.0
    first, vertex, message, beliefs, messages = (
        room.first,
        room.vertex,
        room.message,
        room.beliefs,
        room.messages,
    )
    code, slot, room_at, weight, tables = room.code, room.slot, room.room_at, room.weight, room.tables
    incoming, outgoing, exponents, sums = room.incoming, room.outgoing, room.exponents, room.sums
    for k in range(n_factors):
        f = n_factors - 1 - k if backwards else k
        s, change = slot[f], -1.0
        if code[f] == TABLE and slot[f + 1] == s + 2:
            u, v, at_u, at_v = first[vertex[s]], first[vertex[s + 1]], message[s], message[s + 1]
            rows, columns = at_v - at_u, message[s + 2] - at_v
            if rows == 2 and columns == 2:
                change = visit_square(
                    u, v, at_u, at_v, tables, room_at[f], weight[f], step, beliefs, messages
                )
            else:
                change = visit_pair(
                    u, v, at_u, at_v, rows, columns, tables, room_at[f], room.logs, room.place[f], weight[f], step,
                    beliefs, messages, incoming, outgoing, exponents, sums,
                )  # fmt: skip
        if change < 0.0:
            gather(f, beliefs, work)
            outgoing_of(f, shape, work)
            change = renew(f, step, work)
        largest = max(largest, change)
    return largest


@inner
def start_messages(work):  # type: ignore
    """Messages that say nothing."""
    room = load_record(FactorRoom, work)
    for j in range(room.message[room.sizes[2]]):
        room.messages[j] = 0.0
    for j in range(room.sizes[3]):
        room.beliefs[j] = room.scores[j]


@inner
def converge(shape, tolerance, max_iterations, step, work):  # type: ignore
    """Sweep until messages change by no more than `tolerance`; False where some vertex has no state left.

    Iterations and the last change are left in ``room.report``.
    """
    room = load_record(FactorRoom, work)
    prepare_tables(work)
    before, change, best, done, kept = np.inf, np.inf, np.inf, 0, 0
    n, messages, point = room.message[room.sizes[2]], room.messages, room.point
    while done < max_iterations and change > tolerance:
        for j in range(n):
            point[j] = messages[j]
        sweep(shape, False, step, work)
        change = sweep(shape, True, step, work)
        done += 2
        if change < np.inf and change > tolerance:
            best = min(best, change)
            kept = kept + 1 if change < _SMOOTH and change < _ASTRAY * best else 0
            if kept > 0:
                combine(point, messages, n, kept - 1, room.history)
        collect_beliefs(work)
        if change == np.inf and not is_possible(work):
            room.report[0], room.report[1] = done, 0.0
            return False
        if done % _PATIENCE == 0:
            if change >= before:
                step = max(0.5 * step, _SMALLEST_STEP)
                kept, best = 0, change
            before = change
    room.report[0], room.report[1] = done, change
    return is_possible(work)


@inner
def weighted_value(shape, work):  # type: ignore
    """Σ_f ρ_f log Z_f + Σ_v (1 − Σ_f ρ_f) log Z_v: the free energy where messages agree, Bethe's where ρ = 1."""
    room = load_record(FactorRoom, work)
    value, first, beliefs, share = 0.0, room.first, room.beliefs, room.sums
    for v in range(room.sizes[0]):
        share[v] = 1.0
    for f in range(room.sizes[1]):
        for s in range(room.slot[f], room.slot[f + 1]):
            share[room.vertex[s]] -= room.weight[f]
    for v in range(room.sizes[0]):
        value += share[v] * log_total(beliefs, first[v], first[v + 1] - first[v])
    for f in range(room.sizes[1]):
        gather(f, beliefs, work)
        value += room.weight[f] * total_of(f, shape, work)
    return value


@inner
def forest_value(shape, work):  # type: ignore
    """Σ_T share_T log Z_T with θ split over the forests T as the messages say: an upper bound at any messages.

    On forest T the scores are log b_v at vertices and θ_f / ρ_f − Σ_v m_fv at its factors; over all forests they add
    up to θ. log Z_T is summed from the leaves to the roots, in the beliefs' place.
    """
    room = load_record(FactorRoom, work)
    value, n_states, beliefs, kept = 0.0, room.sizes[3], room.beliefs, room.saved_beliefs
    for j in range(n_states):
        kept[j] = beliefs[j]
    for t in range(room.sizes[7]):
        constant = 0.0
        for k in range(room.forest[t], room.forest[t + 1]):
            f, s = room.order[k], room.parent[k]
            gather(f, beliefs, work)
            total = total_of(f, shape, work)
            if not total > -np.inf:
                return -np.inf
            outgoing_of(f, shape, work)
            constant += _send(s, s - room.slot[f], total, work)
            for r in range(room.slot[f], room.slot[f + 1]):
                if r != s:  # it has been summed out
                    v = room.vertex[r]
                    for j in range(room.first[v], room.first[v + 1]):
                        beliefs[j] = np.nan
        log_z = constant
        for v in range(room.sizes[0]):
            first = room.first[v]
            if beliefs[first] == beliefs[first]:
                log_z += log_total(beliefs, first, room.first[v + 1] - first)
        value += room.share[t] * log_z
        for j in range(n_states):
            beliefs[j] = kept[j]
    return value


@inner
def _send(s, position, total, work):  # type: ignore
    """Replace slot s's message in its vertex's belief by ``room.outgoing``; returns the constant that it lacks."""
    room = load_record(FactorRoom, work)
    first, at = room.first[room.vertex[s]], room.message[s]
    n, base = room.message[s + 1] - at, room.message[s - position]
    beliefs, outgoing, sums = room.beliefs, room.outgoing, room.sums
    for x in range(n):
        sums[x] = outgoing[at - base + x] + room.incoming[at - base + x]
    for x in range(n):
        if beliefs[first + x] > -np.inf:
            beliefs[first + x] += outgoing[at - base + x] - room.messages[at + x]
    return total - log_total(sums, 0, n)
