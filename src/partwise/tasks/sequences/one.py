"""Answers for one sequence in microseconds: a few Python operations per token, and one call of compiled code.

Functions return None if a sequence is not of a simple kind, or wrong, or longer than memory is kept for. The methods
for many sequences then answer, or say what is wrong.
"""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from partwise.core.attribute_codes import UnusualError
from partwise.structures.chain.spans import ChainSpans, chain_pairs_of_work


def best_labels(estimator: Any, x: Any) -> list[Any] | None:
    """The best labels of a sequence."""
    labels = best_codes(estimator, x)
    return None if labels is None else [*map(estimator.classes_.tolist().__getitem__, labels)]


def best_codes(estimator: Any, x: Any) -> list[int] | None:
    """The numbers of the best labels of a sequence."""
    if (codes := _codes(estimator, x)) is None:
        return None
    pool, length = estimator._model.one_at_a_time, len(x)
    one = pool.take()
    is_found = one.best(length, codes) > -inf  # it is NaN if the sequence cannot be answered here
    labels = one.labels[:length].tolist() if is_found else []  # no memory is made for long sequences
    pool.give_back(one)
    return labels if is_found else None


def marginals(estimator: Any, x: Any) -> np.ndarray | None:
    """Probability of every label at every position, (length, n_labels)."""
    scale = estimator._sharpness()
    if (codes := _codes(estimator, x)) is None:
        return None
    pool, n_labels = estimator._model.one_at_a_time, estimator._model.structure.kinds[0].width
    one = pool.take()
    is_found = one.sums(len(x), codes, scale) > -inf
    found = one.counts[: len(x) * n_labels].reshape(-1, n_labels).copy() if is_found else None
    pool.give_back(one)
    return found


def spans(estimator: Any, x: Any) -> ChainSpans | None:
    """The posterior of the spans of a sequence, for chains of order 1 with tied transitions."""
    chain, scale = estimator._model.structure, estimator._sharpness()
    if not chain.tied or chain.order > 1 or (codes := _codes(estimator, x)) is None:
        return None
    pool, length, n_labels = estimator._model.one_at_a_time, len(x), chain.n_labels
    one = pool.take()
    is_found = one.sums(length, codes, scale) > -inf
    nodes = one.counts[: length * n_labels].reshape(-1, n_labels).copy()
    pairs = chain_pairs_of_work(one.work, length, n_labels) if is_found else nodes
    pool.give_back(one)
    # If scaled sums underflowed, counts come from sums on logarithms, and the workspace does not have the pairs.
    if not is_found or not np.allclose(pairs[1:].sum(axis=1), nodes[1:], rtol=0.0, atol=1e-9):
        return None
    return ChainSpans(estimator._entity_rules().rules, np.array([length]), nodes, pairs, n_labels)


def _codes(estimator: Any, x: Any) -> bytes | None:
    """The coded attributes of a sequence."""
    codes_of = getattr(estimator._encoder, "codes", None)
    if codes_of is None or type(x) not in (list, tuple) or not x:
        return None
    try:
        return codes_of(x)
    except UnusualError:
        return None
