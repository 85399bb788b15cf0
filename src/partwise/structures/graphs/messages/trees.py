# mypy: ignore-errors
"""Messages of tree rules: the vertices are arcs, and the arcs with state 1 form a dependency tree.

The log-odds a = n(1) − n(0) of every arc are its score. The compiled oracles of `structures/trees` are called by
address and give the arc's probability μ. The message is logit(μ) − a. A rule's numbers in the shape are: single_root,
then the shape of the tree: n and the arcs (head, modifier) in order of modifier.
"""

from __future__ import annotations

import math

import numpy as np

from partwise.compiled.boundary import address_of, call_address, load_record, record_address, row_address
from partwise.compiled.dispatch import inner
from partwise.structures.graphs.messages.workspace import PROJECTIVE_TREE, FactorWorkspace

_SMALLEST = 1e-300
_SUMS, _BEST = 0, 1


@inner
def _ask(which, code, shape, at, n_arcs, address):  # type: ignore
    """The tree oracle on ``work.arc_scores``; fills ``work.arc_counts``."""
    work = load_record(FactorWorkspace, address)
    specification = row_address(work.tree_specifications, 2 * (code - PROJECTIVE_TREE) + shape[at])
    own, scores, counts = (
        address_of(shape, at + 1),
        address_of(work.arc_scores, 0),
        address_of(work.arc_counts, 0),
    )
    if code == PROJECTIVE_TREE:
        return call_address(
            work.tree_calls[which],
            (
                specification, record_address(work.projective_work), own, 1 + 2 * n_arcs,
                scores, counts, n_arcs, np.int64(1),
            ),
        )  # fmt: skip
    return call_address(
        work.tree_calls[2 + which],
        (
            specification, record_address(work.spanning_work), own, 1 + 2 * n_arcs,
            scores, counts, n_arcs, np.int64(1),
        ),
    )  # fmt: skip


@inner
def read_odds(shape, at, n_arcs, incoming, arc_scores):  # type: ignore
    """Fill the scores of arcs. Returns the score that all trees share, −inf if two arcs into one word are required."""
    common, first = 0.0, 0
    while first < n_arcs:
        last, forced, modifier = first, -1, shape[at + 3 + 2 * first]
        while last < n_arcs and shape[at + 3 + 2 * last] == modifier:
            if incoming[2 * last] == -np.inf:  # The arc is required.
                if forced >= 0 or incoming[2 * last + 1] == -np.inf:
                    return -np.inf
                forced = last
            last += 1
        for a in range(first, last):
            off, on = incoming[2 * a], incoming[2 * a + 1]
            if forced < 0:
                arc_scores[a] = on - off
                common += off
            else:
                arc_scores[a] = 0.0 if a == forced else -np.inf
                common += on if a == forced else off
        first = last
    return common


@inner
def tree_outgoing(code, shape, at, n_arcs, incoming, outgoing, address):  # type: ignore
    """Fill outgoing (2 n_arcs,); returns the log-partition over trees, −inf if no tree is possible."""
    work = load_record(FactorWorkspace, address)
    scores, counts = work.arc_scores, work.arc_counts
    common = read_odds(shape, at, n_arcs, incoming, scores)
    total = common
    if common > -np.inf:
        total += _ask(_SUMS, code, shape, at, n_arcs, address)
    if not total > -np.inf:
        for j in range(2 * n_arcs):
            outgoing[j] = -np.inf
        return -np.inf
    first = 0
    while first < n_arcs:
        last, before = first, 0.0
        while last < n_arcs and shape[at + 3 + 2 * last] == shape[at + 3 + 2 * first]:
            outgoing[2 * last] = before  # probability of the earlier arcs into the same word
            before += counts[last]
            last += 1
        after = 0.0
        for a in range(last - 1, first - 1, -1):
            others, own = outgoing[2 * a] + after, counts[a]
            after += own
            outgoing[2 * a] = 0.0
            if incoming[2 * a] == -np.inf:
                outgoing[2 * a + 1] = 0.0
            elif scores[a] == -np.inf:
                outgoing[2 * a + 1] = -np.inf if incoming[2 * a + 1] > -np.inf else 0.0
            elif others == 0.0 and last == first + 1:
                outgoing[2 * a], outgoing[2 * a + 1] = -np.inf, 0.0  # the only arc into a word
            else:
                outgoing[2 * a + 1] = (
                    math.log(max(own, _SMALLEST)) - math.log(max(others, _SMALLEST)) - scores[a]
                )
        first = last
    return total


@inner
def tree_best(code, shape, at, n_arcs, incoming, choice, address):  # type: ignore
    """Fill choice (n_arcs,) with the best tree. Returns its score, −inf if no tree is possible."""
    work = load_record(FactorWorkspace, address)
    total = read_odds(shape, at, n_arcs, incoming, work.arc_scores)
    if total > -np.inf:
        total += _ask(_BEST, code, shape, at, n_arcs, address)
    if total > -np.inf:
        for a in range(n_arcs):
            choice[a] = 1 if work.arc_counts[a] > 0.5 else 0
    return total
