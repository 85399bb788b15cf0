"""The set of spans with the largest expected F1 (decoding by minimum Bayes risk).

F1 of a set S against the true set G is 2 |S ∩ G| / (|S| + |G|), over all sequences together. Its expectation is
replaced by the ratio of expectations: 2 Σ_{s ∈ S} p_s / (|S| + E|G|), with exact p_s and E|G|. For many sequences the
two agree, since both sums are close to their means.

The ratio is maximised exactly, by Dinkelbach's method (Management Science 13, 1967): for a given λ, the set that
maximises Σ (p_s − λ) is found by dynamic programming over spans that do not overlap. Its ratio is the next 2 λ. λ
rises until it stays. Then a span is worth it if its probability is above half of the expected F1 (Ye et al. 2012).
"""

from __future__ import annotations

import numpy as np

from partwise.structures.span_table import SpanTable

_MOST_ROUNDS = 100  # Dinkelbach's method takes about five; the number only bounds the loop.


def best_spans(spans: SpanTable, expected: float, may_follow: np.ndarray) -> np.ndarray:
    """Which of the candidates are chosen, bool (n_spans,).

    Parameters
    ----------
    spans : SpanTable
        Candidates, sorted by example and first position.
    expected : float
        Expected number of true spans.
    may_follow : bool array, shape (n_kinds, n_kinds)
        Whether a span of the second type may begin right behind one of the first.
    """
    half, chosen = 0.0, np.zeros(len(spans.example), bool)
    for _ in range(_MOST_ROUNDS):
        found = _heaviest(spans, half, may_follow)
        total = found.sum() + expected
        ratio = float(spans.probability[found].sum() / total) if total else 0.0
        if ratio <= half and half > 0.0:
            break
        half, chosen = ratio, found
        if not ratio:
            break
    return chosen


def _heaviest(spans: SpanTable, price: float, may_follow: np.ndarray) -> np.ndarray:
    """The set of spans of each example that maximises Σ (p − price), bool (n_spans,)."""
    gain = spans.probability - price
    chosen = gain > 0.0
    own = np.flatnonzero(chosen)
    # Examples whose gainful spans neither overlap nor touch have all of them.
    same = spans.example[own[1:]] == spans.example[own[:-1]]
    touches = same & (spans.first[own[1:]] <= spans.last[own[:-1]] + 1)
    for example in np.unique(spans.example[own[1:][touches]]).tolist():
        first, end = np.searchsorted(spans.example[own], [example, example + 1])
        here = own[first:end]
        chosen[here] = False
        chosen[here[_best_chain(spans.take(here), gain[here], may_follow)]] = True
    return chosen


def _best_chain(spans: SpanTable, gain: np.ndarray, may_follow: np.ndarray) -> list[int]:
    """The spans of one example with the largest total gain that do not overlap."""
    order = np.argsort(spans.last, kind="stable")
    total, before = np.zeros(len(order)), np.full(len(order), -1)
    for place, k in enumerate(order.tolist()):
        others = order[:place]
        distance = spans.first[k] - spans.last[others]
        fits = (distance > 1) | ((distance == 1) & may_follow[spans.kind[others], spans.kind[k]])
        candidates = others[fits]
        total[k] = gain[k]
        if len(candidates):
            before[k] = candidates[total[candidates].argmax()]
            total[k] += total[before[k]]
    chosen, k = [], int(total.argmax())
    while k >= 0:
        chosen.append(k)
        k = int(before[k])
    return chosen
