# mypy: ignore-errors
"""Answers about dense matrices of many sentences in one call, for the methods of the structures.

Sentences are numbers of words, and flat arrays of (n + 1, n + 1) matrices by [head, modifier], one after another.
Relations are (n + 1, n + 1, n_relations), followed by ``LANES`` entries of slack.
"""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import entry, fragment, inner
from partwise.compiled.simd import maximum
from partwise.structures.trees.arc_tables import (
    arc_log_partition,
    arc_marginals,
    best_heads,
    largest,
    soft_total,
    spread,
    stride_of,
    tree_workspace,
)


@inner
def read_dense(n, arcs, first, relations, n_relations, hard, work):  # type: ignore
    """Fill ``work.scores`` from the matrix at `first`. Returns False if it has NaN or +inf."""
    stride, size, fits = stride_of(n), n + 1, True
    for h in range(size):
        for m in range(size):
            score = arcs[first + h * size + m]
            fits = fits and score < np.inf
            work.scores[m * stride + h] = score
    if n_relations > 1:
        for m in range(1, size):
            for h in range(size):
                if h != m and work.scores[m * stride + h] > -np.inf:
                    at = (first + h * size + m) * n_relations
                    if hard:
                        work.scores[m * stride + h] += maximum(relations, at, n_relations)
                    else:
                        total = soft_total(relations, at, n_relations, work.relations)
                        work.scores[m * stride + h] += total
    for m in range(size):
        work.scores[m] = -np.inf  # The root has no head.
        work.scores[m * stride + m] = -np.inf
    return fits


@inner
def _longest(lengths):  # type: ignore
    found = np.int64(0)
    for i in range(lengths.size):
        found = max(found, lengths[i])
    return found


@entry(allocates=True)
def log_partitions_of_matrices(specification, lengths, arcs, relations, values):  # type: ignore
    """Fill `values` (sentences,). Returns the first sentence with NaN or +inf, or −1."""
    # A literal 0 would be another type and compile everything twice.
    work, first = tree_workspace(specification, _longest(lengths)), np.int64(0)
    for i in range(lengths.size):
        n = lengths[i]
        if not read_dense(n, arcs, first, relations, specification.n_relations, False, work):
            return i
        values[i] = arc_log_partition(specification, n, work)
        first += (n + 1) * (n + 1)
    return -1


@entry(allocates=True)
def marginals_of_matrices(  # type: ignore
    specification, lengths, arcs, relations, marginals, relation_marginals, values, entropies
):
    """Fill marginals, values and entropies. Returns the first sentence with NaN or +inf, or −1.

    Stops at the first sentence without a possible tree.
    """
    work, first = tree_workspace(specification, _longest(lengths)), np.int64(0)
    n_relations = specification.n_relations
    for i in range(lengths.size):
        n = lengths[i]
        if not read_dense(n, arcs, first, relations, n_relations, False, work):
            return i
        values[i] = arc_marginals(specification, n, work)
        if values[i] == -np.inf:
            break
        stride, size, expected = stride_of(n), n + 1, 0.0
        for h in range(size):
            marginals[first + h * size] = 0.0
            for m in range(1, size):
                at = first + h * size + m
                amount = 0.0
                if h != m:
                    amount = work.marginals[m * stride + h]
                marginals[at] = amount
                expected += amount * arcs[at] if amount > 0.0 else 0.0
        if n_relations > 1:
            expected += _relation_marginals(
                n, first, marginals, relations, n_relations, relation_marginals, work
            )
        entropies[i] = max(values[i] - expected, 0.0)
        first += size * size
    return -1


@inner
def _relation_marginals(n, first, marginals, relations, n_relations, out, work):  # type: ignore
    """Divide the marginals of arcs among relations. Returns the relations' expected score."""
    expected = 0.0
    for a in range(first, first + (n + 1) * (n + 1)):
        at = a * n_relations
        spread(marginals[a], n_relations, relations, at, out, at, work.relations)
        for j in range(at, at + n_relations):
            expected += out[j] * relations[j] if out[j] > 0.0 else 0.0
    return expected


@entry(allocates=True)
def best_of_matrices(specification, lengths, arcs, relations, heads, labels, values):  # type: ignore
    """Fill `heads` and, if there are relations, `labels`. Returns the first sentence with NaN or +inf, or −1."""
    work, first, word = tree_workspace(specification, _longest(lengths)), np.int64(0), np.int64(0)
    n_relations = specification.n_relations
    for i in range(lengths.size):
        n = lengths[i]
        if not read_dense(n, arcs, first, relations, n_relations, True, work):
            return i
        values[i] = best_heads(specification, n, work)
        if values[i] == -np.inf:
            break
        _write_heads(n, first, relations, n_relations, work, heads[word:], labels[word:])
        first += (n + 1) * (n + 1)
        word += n
    return -1


@fragment
def _write_heads(n, first, relations, n_relations, work, heads, labels):  # type: ignore
    for m in range(1, n + 1):
        h = work.heads[m]
        heads[m - 1] = h
        if n_relations > 1:
            labels[m - 1] = largest(relations, (first + h * (n + 1) + m) * n_relations, n_relations)
