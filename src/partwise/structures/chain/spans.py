"""Probabilities of spans of a chain: runs of labels that stand for one entity.

Rules say between which labels a span of a type starts, goes on and ends. The posterior of a chain is a Markov chain
itself: with p_t(h) the probability of the state h at t, and p_t(h, j) that of h before t and the label j at t, the
label at t given h has the probability p_t(h, j) / p_{t-1}(h). So the probability that a span of a type starts at s and
goes on to t is a vector over states that is multiplied by one small matrix for each position:

    a_s(j) = Σ_h p_s(h, j) [a span starts between h and j],   a_t(j) = Σ_h a_{t-1}(h) p_t(j | h) [it goes on]

and the span s … t has the probability Σ_h a_t(h) Σ_j p_{t+1}(j | h) [it ends between h and j].

Σ_h a_t(h) never grows with t and is never below the probability of a span that ends at t or later. Spans that start
at s are therefore followed until it falls below the threshold. No span above the threshold is missed, and there are at
most 1 / threshold of them for each start and type.

A state is the last label, or the last k labels in a chain of order k.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from partwise.core.arrays import offsets, ranges
from partwise.structures.packed import Packed
from partwise.structures.scaling import INVERSE_LIFT
from partwise.structures.span_table import SpanTable


class SpanRules(NamedTuple):
    """Between which labels spans start, go on and end.

    Attributes
    ----------
    starts : bool array, shape (n_labels + 1, n_labels)
        Whether a span starts at label j after label i. The last row is the start of the sequence.
    closes : bool array, shape (n_labels, n_labels)
        Whether a span that holds label i ends before label j.
    kind : int64 array, shape (n_labels,)
        The type of the spans that hold a label, −1 if none does.
    n_kinds : int
    """

    starts: np.ndarray
    closes: np.ndarray
    kind: np.ndarray
    n_kinds: int

    @property
    def goes_on(self) -> np.ndarray:
        """Whether a span that holds label i holds label j, too: bool (n_labels, n_labels)."""
        return ~self.closes & (self.kind[:, None] == self.kind) & (self.kind >= 0)

    def spans(self, codes: np.ndarray, lengths: np.ndarray) -> SpanTable:
        """The spans of given labels, flat over all positions of all examples; their probabilities are 1."""
        ptr, n_labels = offsets(lengths), len(self.kind)
        is_first, is_last = _ends(ptr)
        before = np.where(is_first, n_labels, np.append(n_labels, codes[:-1])) if len(codes) else codes
        after = np.append(codes[1:], 0)[: len(codes)]
        start = np.flatnonzero(self.starts[before, codes])
        closed = np.flatnonzero(is_last | ~self.goes_on[codes, after])
        last = closed[np.searchsorted(closed, start)] if len(start) else start
        example = np.searchsorted(ptr, start, side="right") - 1
        kind = self.kind[codes[start]]
        return SpanTable(example, start - ptr[example], last - ptr[example], kind, np.ones(len(start)))


class ChainSpans:
    """The posterior of some sequences, asked for spans.

    Parameters
    ----------
    rules : SpanRules
    lengths : int64 array, shape (n_examples,)
        Zeros are examples without positions.
    states : float64 array, shape (n_positions, n_states)
        Probability of every state at every position. The last label of state h is ``h % base``.
    joint : float64 array, shape (n_positions, n_states, n_labels)
        Probability of every state before a position with every label at it; not read at first positions.
    base : int
        Labels that a history counts: n_labels, or one more for "before the start".
    """

    def __init__(
        self, rules: SpanRules, lengths: np.ndarray, states: np.ndarray, joint: np.ndarray, base: int
    ):
        self.rules, self._states, self._joint, self._base = rules, states, joint, base
        self._ptr = offsets(lengths)
        n_states = states.shape[1]
        label, padding = np.arange(n_states) % base, ((0, base - len(rules.kind)),)
        self._goes_on = np.pad(rules.goes_on, (*padding, (0, 0)))[label]
        self._kind = np.pad(rules.kind, padding, constant_values=-1)[label]
        is_first, self._is_last = _ends(self._ptr)
        starts = np.pad(rules.starts[:-1], (*padding, (0, 0)))[label]
        self._start = self._fold(np.einsum("nhj,hj->nhj", joint, starts)) if base > len(rules.kind) else (
            np.einsum("nhj,hj->nj", joint, starts)
        )  # fmt: skip
        at_start = np.pad(rules.starts[-1], padding)[label]
        self._start[is_first] = states[is_first] * at_start
        closes = np.pad(rules.closes, (*padding, (0, 0)))[label]
        self._end = np.ones(states.shape)
        inner = np.flatnonzero(~self._is_last)
        closing = np.einsum("nhj,hj->nh", joint[inner + 1], closes)
        self._end[inner] = _ratio(closing, states[inner])

    def expected(self) -> np.ndarray:
        """Expected number of spans of each type, float64 (n_examples, n_kinds)."""
        totals = np.concatenate([np.zeros((1, self.rules.n_kinds)), np.cumsum(self._start_mass(), axis=0)])
        return np.maximum(np.diff(totals[self._ptr], axis=0), 0.0)

    def candidates(self, threshold: float) -> SpanTable:
        """All spans with a probability of at least `threshold`, which is above 0."""
        at, kind = np.nonzero(self._start_mass() >= threshold)
        start, mass = at, self._start[at] * (self._kind == kind[:, None])
        found = []
        while len(at):
            p = np.minimum((mass * self._end[at]).sum(axis=1), 1.0)
            hit = p >= threshold
            found.append((start[hit], at[hit], kind[hit], p[hit]))
            kept = np.flatnonzero(~self._is_last[at])
            start, at, kind, mass = start[kept], at[kept], kind[kept], self._grown(mass[kept], at[kept])
            kept = np.flatnonzero(mass.sum(axis=1) >= threshold)
            start, at, kind, mass = start[kept], at[kept] + 1, kind[kept], mass[kept]
        if not found:
            return SpanTable.empty()
        first, last, kind, p = (np.concatenate(column) for column in zip(*found, strict=True))
        example = np.searchsorted(self._ptr, first, side="right") - 1
        return SpanTable.of(example, first - self._ptr[example], last - self._ptr[example], kind, p)

    def probability(self, spans: SpanTable) -> np.ndarray:
        """Probability of each of some spans, float64 (n_spans,). Spans of type −1 have none: zero."""
        first, last = (self._ptr[spans.example] + column for column in (spans.first, spans.last))
        p, left, at = np.zeros(len(first)), np.arange(len(first)), first
        mass = self._start[first] * ((self._kind == spans.kind[:, None]) & (spans.kind[:, None] >= 0))
        while len(left):
            done = at == last[left]
            p[left[done]] = (mass[done] * self._end[at[done]]).sum(axis=1)
            left, at, mass = left[~done], at[~done] + 1, self._grown(mass[~done], at[~done])
        return np.minimum(p, 1.0)

    def _start_mass(self) -> np.ndarray:
        """Probability that a span of each type starts at each position, (n_positions, n_kinds)."""
        return self._start @ (self._kind[:, None] == np.arange(self.rules.n_kinds)).astype(float)

    def _grown(self, mass: np.ndarray, at: np.ndarray) -> np.ndarray:
        """The vectors over states at the positions behind `at`, of spans that go on."""
        conditional = _ratio(self._joint[at + 1], self._states[at][:, :, None])
        return self._fold(mass[:, :, None] * conditional * self._goes_on)

    def _fold(self, joint: np.ndarray) -> np.ndarray:
        """From states before and labels, (n, n_states, n_labels), to states: the oldest label is forgotten."""
        n, n_states, n_labels = joint.shape
        if not n:
            return np.zeros((0, n_states))
        kept = joint.reshape(n, self._base, n_states // self._base, n_labels).sum(axis=1)
        return np.pad(kept, ((0, 0), (0, 0), (0, self._base - n_labels))).reshape(n, n_states)


def chain_spans(packed: Packed, rules: SpanRules, lengths: np.ndarray) -> tuple[ChainSpans, np.ndarray]:
    """The posterior of packed chains, and the log-partitions of the examples that have positions.

    Parameters
    ----------
    lengths : int64 array, shape (n_examples,)
        Of all examples: `packed` has those that are not zero.
    """
    chain: Any = packed.structure
    order = chain.order
    states, joint, values = _first_order(packed) if order == 1 else _high_order(packed, order)
    base = len(rules.kind) + (order > 1)
    return ChainSpans(rules, lengths, states, joint, base), values


def _first_order(packed: Packed) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Marginals of labels, of pairs of neighbours by the position of the second, and log-partitions."""
    chain: Any = packed.structure
    lengths, part_ptr, n_labels, tied = packed.lengths, packed.part_ptr, chain.n_labels, chain.tied
    square, n = n_labels**2, int(lengths.sum())
    pairs, pair_ptr = np.zeros((n + 1) * square), offsets(lengths * square)
    if tied:
        from partwise.structures.chain.pairs import chain_pairs_of_all

        counts, values = np.empty(part_ptr[-1]), np.empty(len(lengths))
        # The pairs of a sequence begin one block late: its first position has none.
        chain_pairs_of_all(
            packed.specification, lengths, part_ptr, packed.scores, counts, pair_ptr, pairs[square:], values,
            packed.room(),
        )  # fmt: skip
    else:
        values, counts = packed.answers("sums", 1)
        sizes = (lengths - 1) * square
        pairs[ranges(pair_ptr[:-1] + square, sizes)] = counts[
            ranges(part_ptr[:-1] + lengths * n_labels, sizes)
        ]
    nodes = counts[ranges(part_ptr[:-1], lengths * n_labels)].reshape(n, n_labels)
    return nodes, pairs[: n * square].reshape(n, n_labels, n_labels), values


def chain_pairs_of_work(work: Any, length: int, n_labels: int) -> np.ndarray:
    """Probabilities of pairs of neighbours that scaled sums left in a workspace: f_{t-1}(i) m(i, j) n_t(j) b_t(j).

    Returns
    -------
    float64 array, shape (length, n_labels, n_labels)
        By the position of the second label; zeros at the first position.
    """
    forward, behind = (
        rows.reshape(-1, work.edges.size // n_labels)[:length] for rows in (work.forward, work.nodes)
    )
    edges = work.edges.reshape(n_labels, -1)[:, :n_labels] * INVERSE_LIFT
    pairs = np.zeros((length, n_labels, n_labels))
    pairs[1:] = forward[:-1, :n_labels, None] * edges * behind[1:, None, :n_labels]
    return pairs


def _high_order(packed: Packed, order: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same for histories of `order` labels, on logarithms: from right to left, then probabilities back."""
    chain: Any = packed.structure
    n_labels, lengths = chain.n_labels, packed.lengths
    base, n, values = n_labels + 1, int(lengths.sum()), np.empty(len(lengths))
    states, joint = np.zeros((n, base**order)), np.zeros((n, base**order, n_labels))
    newest, first = np.arange(base**order) % base, 0
    for i, length in enumerate(lengths.tolist()):
        scores = packed.scores[packed.part_ptr[i] : packed.part_ptr[i + 1]]
        nodes = scores[: length * n_labels].reshape(length, n_labels)
        edges = _masked(chain, scores[length * n_labels :].reshape(-1, n_labels), newest)
        here = slice(first, first + length)
        values[i] = _posterior(nodes, edges, chain, base, states[here], joint[here])
        first += length
    return states, joint, values


def _masked(chain: Any, edges: np.ndarray, newest: np.ndarray) -> np.ndarray:
    """Scores of labels behind histories, −inf where a mask forbids the pair."""
    n_labels = edges.shape[1]
    allowed, start = chain.allowed, chain.allowed_start
    mask = np.ones((n_labels + 1, n_labels), bool)
    mask[:-1] = True if allowed is None else allowed
    mask[-1] = True if start is None else start
    return np.where(mask[newest], edges, -np.inf)


def _posterior(
    nodes: np.ndarray, edges: np.ndarray, chain: Any, base: int, states: np.ndarray, joint: np.ndarray
) -> float:
    """Fill `states` and `joint` of one sequence; returns the log-partition."""
    length, n_labels = nodes.shape
    n_states = len(edges)
    end = chain.allowed_end
    after = np.zeros((n_states // base, base))
    after[:, :n_labels] = 0.0 if end is None else np.where(end, 0.0, -np.inf)
    after = np.tile(after[:, :n_labels], (base, 1))
    for t in range(length - 1, -1, -1):
        joint[t] = nodes[t] + edges + after
        total = _log_sum(joint[t])
        with np.errstate(invalid="ignore"):
            joint[t] = np.where(total[:, None] > -np.inf, np.exp(joint[t] - total[:, None]), 0.0)
        after = np.tile(total.reshape(-1, base)[:, :n_labels], (base, 1))
    before = np.zeros(n_states)
    before[-1] = 1.0  # "before the start", as often as the order is
    for t in range(length):
        joint[t] *= before[:, None]
        kept = joint[t].reshape(base, n_states // base, n_labels).sum(axis=0)
        before = np.pad(kept, ((0, 0), (0, base - n_labels))).ravel()
        states[t] = before
    return float(total[-1])


def _log_sum(rows: np.ndarray) -> np.ndarray:
    top = rows.max(axis=1)
    shift = np.where(top > -np.inf, top, 0.0)
    with np.errstate(divide="ignore"):
        return shift + np.log(np.exp(rows - shift[:, None]).sum(axis=1))


def _ends(ptr: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whether each position is the first, and the last, of its example."""
    is_first, is_last = np.zeros(ptr[-1] + 1, bool), np.zeros(ptr[-1] + 1, bool)
    some = np.flatnonzero(np.diff(ptr))
    is_first[ptr[some]] = True
    is_last[ptr[some + 1] - 1] = True
    return is_first[:-1], is_last[:-1]


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """part / whole, 0 where the whole is 0."""
    return np.divide(part, whole, out=np.zeros(part.shape), where=whole > 0.0)
