"""Sequences and labels as they came, checked; the chain they call for; warm starts on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from partwise.core.arrays import after_the_first
from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem
from partwise.core.randomness import random_generator
from partwise.core.rows import AttributeRows
from partwise.data.conll import Columns
from partwise.errors import InputError
from partwise.estimators.base import Training
from partwise.estimators.checks import check_choice, real_numbers
from partwise.estimators.encoded import Encoded
from partwise.estimators.encoders import as_sequences
from partwise.estimators.labels import check_masks, distinct_labels, encode_labels, flat_labels
from partwise.structures import Chain, transition_mask

MOST_TRANSITIONS = 2**28  # weights; a solver keeps several numbers for each


@dataclass(frozen=True)
class SequenceData:
    """Sequences with their labels.

    Attributes
    ----------
    X : list of sequences, 3-D array or Columns
    lengths : int64 array, shape (n_sequences,)
    labels : list, length n_positions
    sample_weight : float64 array, shape (n_sequences,), or None
    """

    X: Any
    lengths: np.ndarray
    labels: list[Any]
    sample_weight: np.ndarray | None

    @classmethod
    def read(cls, X: Any, y: Any, sample_weight: Any) -> SequenceData:
        if X is None:
            raise InputError("X is missing: a list of sequences")
        if y is None and not isinstance(X, Columns):
            raise InputError("a SequenceLabeler requires y to be passed, but the target y is None")
        X = as_sequences(X)
        lengths = lengths_of(X)
        labels = _own_labels(X) if y is None else flat_labels(y, lengths)
        if lengths.sum() == 0:
            raise InputError("X has no positions to train on")
        if sample_weight is not None:
            sample_weight = checked_weights(sample_weight, lengths)
            if not sample_weight[lengths > 0].any():
                raise InputError("sample_weight is zero for all sequences")
        return cls(X, lengths, labels, sample_weight)

    def distinct(self) -> list[Any]:
        return distinct_labels(self.labels, self.lengths)

    def codes(self, labels: list[Any]) -> np.ndarray:
        return encode_labels(self.labels, labels, self.lengths)

    def weights(self) -> np.ndarray | None:
        """Of the sequences that have positions."""
        return None if self.sample_weight is None else self.sample_weight[self.lengths > 0]

    def completed(self, structure: Chain, codes: np.ndarray) -> np.ndarray:
        """Codes with unobserved labels filled in, such that the masks allow them."""
        if (codes >= 0).all():
            return codes
        lengths = self.lengths[self.lengths > 0]
        nodes = np.zeros((len(codes), structure.n_labels))
        known = np.flatnonzero(codes >= 0)
        nodes[known] = -np.inf
        nodes[known, codes[known]] = 0.0
        first_order = Chain(
            structure.n_labels,
            allowed=structure.allowed,
            allowed_start=structure.allowed_start,
            allowed_end=structure.allowed_end,
        )
        ends = np.cumsum(lengths)
        edges = np.zeros((structure.n_labels, structure.n_labels))
        return np.concatenate(first_order.argmax(np.split(nodes, ends[:-1]), edges))

    def with_more(self, other: SequenceData) -> SequenceData:
        """Both, one after the other."""
        weights = None
        if self.sample_weight is not None or other.sample_weight is not None:
            weights = np.concatenate([each._weights_or_ones() for each in (self, other)])
        X = _as_list(self.X) + _as_list(other.X)
        lengths = np.concatenate([self.lengths, other.lengths])
        return SequenceData(X, lengths, self.labels + other.labels, weights)

    def _weights_or_ones(self) -> np.ndarray:
        return checked_weights(self.sample_weight, self.lengths)


def _own_labels(X: Columns) -> list[Any]:
    """The labels that columns carry, which are flat already."""
    if X.labels is None:
        raise InputError("these sequences were read without a label column")
    if len(X.labels) != X.n_tokens:
        raise InputError(f"{len(X.labels)} labels for {X.n_tokens} tokens")
    return list(X.labels)


def _as_list(X: Any) -> list[Any]:
    return X.row_sequences() if isinstance(X, Columns) else list(X)


def checked_weights(sample_weight: Any, lengths: np.ndarray) -> np.ndarray:
    """One finite weight ≥ 0 a sequence, float64 (n_sequences,); all 1 for None."""
    if sample_weight is None:
        return np.ones(len(lengths))
    weights = real_numbers(sample_weight, "sample_weight")
    if weights.shape != lengths.shape:
        raise InputError(f"sample_weight has shape {weights.shape}, but X has {len(lengths)} sequences")
    wrong = ~np.isfinite(weights) | (weights < 0)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InputError(f"sample_weight[{at}] is {weights[at]}; weights are finite and >= 0")
    return weights


def lengths_of(X: Any) -> np.ndarray:
    """Positions of every sequence, int64 (n_sequences,)."""
    if isinstance(X, Columns):
        return X.lengths
    if getattr(X, "ndim", 3) < 3:
        raise InputError(
            f"X has shape {X.shape}: a labeler of sequences reads one (length, d) matrix per sequence; put a "
            "single sequence into a list, [X]. Reshape your data if each row is a sequence of its own"
        )
    for i, each in enumerate(X):
        wrong = isinstance(each, (str, bytes, dict, set, frozenset))
        if wrong or not (hasattr(each, "__len__") or hasattr(each, "shape")):
            raise InputError(f"X[{i}] is {each!r:.60}; it must be a sequence of tokens, or a matrix")
    sizes = [each.shape[0] if hasattr(each, "shape") and each.shape else len(each) for each in X]
    return np.array(sizes, np.int64)


def chain_for(
    estimator: Any, labels: list[Any], encoder: Any, data: SequenceData, codes: np.ndarray
) -> Chain:
    """The structure that an estimator's parameters ask for, after checking the labels against its masks."""
    return chain_of(estimator, labels, encoder, lambda: [(data.lengths, codes, 0)])


def chain_of(
    estimator: Any,
    labels: list[Any],
    encoder: Any,
    blocks: Callable[[], Iterable[tuple[np.ndarray, np.ndarray, int]]],
) -> Chain:
    """The same of labels that come in blocks: lengths of sequences, numbers of labels, sequences before the block."""
    check_choice("transitions", estimator.transitions, ("all", "observed"))
    check_choice("pairs", estimator.pairs, ("all", "observed"))
    check_order(estimator.order, len(labels))
    masks: dict[str, Any] = {}
    if estimator.scheme is not None:
        if not isinstance(estimator.scheme, str):
            raise InputError(
                f"scheme must be None or the name of one, such as 'IOB2', not {estimator.scheme!r:.60}"
            )
        masks = transition_mask([str(label) for label in labels], estimator.scheme)._asdict()
    if estimator.transitions == "observed":
        seen = np.zeros((len(labels), len(labels)), bool)
        for lengths, codes, _ in blocks():
            at = after_the_first(lengths)
            at = at[(codes[at] >= 0) & (codes[at - 1] >= 0)]
            seen[codes[at - 1], codes[at]] = True
        masks["allowed"] = seen & masks.get("allowed", True)
    if estimator.order != 1 and not encoder.tied:
        raise InputError("order must be 1 with a template that has edge attributes, or none for transitions")
    chain = Chain(len(labels), tied=encoder.tied, order=estimator.order, **masks)
    for lengths, codes, first in blocks() if masks else ():
        check_masks(chain, codes, lengths, labels, f"scheme={estimator.scheme!r}", first)
    return chain


def check_order(order: Any, n_labels: int) -> None:
    """Raise at more transition weights than a computer has room for, before they are counted out."""
    whole = isinstance(order, (int, np.integer)) and not isinstance(order, bool)
    if not whole or order < 1:
        raise InputError(f"order must be an integer of at least 1, not {order!r:.60}")
    exponent = (int(order) + 1) * math.log(n_labels + (order > 1))
    if exponent > math.log(MOST_TRANSITIONS):
        many = f"10^{exponent / math.log(10):.0f}"
        raise InputError(
            f"order={order} with {n_labels} labels makes about {many} transition weights; at most "
            f"{MOST_TRANSITIONS:,} are possible: use a smaller order, or fewer labels"
        )


def edge_map_for(
    structure: Chain, encoder: Any, encoded: Encoded, codes: np.ndarray, pairs: Any
) -> FeatureMap:
    """Weights of edge attributes; the one that every edge has gets all pairs of labels."""
    rows, n_labels = encoded.edge_rows, structure.n_labels
    assert rows is not None
    at = after_the_first(encoded.lengths)
    before, here = codes[at - 1], codes[at]
    row_labels = np.where((before >= 0) & (here >= 0), before * n_labels + here, -1)
    if encoder.always:
        every = np.arange(n_labels**2)
        always = np.full(len(every), encoder.n_edge_attributes - 1, np.int32)
        row_ptr = np.concatenate([rows.row_ptr, rows.row_ptr[-1] + 1 + every])
        rows = AttributeRows(row_ptr, np.concatenate([rows.ids, always]))
        row_labels = np.concatenate([row_labels, every])
    return FeatureMap.build(n_labels**2, encoder.n_edge_attributes, 0, rows, row_labels, pairs)


def warm_state(estimator: Any, problem: Problem, previous: Training | None) -> Any:
    """What was learnt on earlier data, for the driver to carry over; None if there is nothing.

    Potentials are kept for the sequences that were trained on before, also where others have joined them.
    """
    if previous is None:
        return None
    from partwise.solvers.base import WarmStart

    solver = estimator._solver_for(problem)
    old, state = previous.problem, previous.state
    if type(solver) is not type(previous.solver) or old.structure.kinds != problem.structure.kinds:
        return None
    if _begins_with(problem, old) and _has_grown(problem, old):
        grown = solver.grown(problem, old, state, random_generator(estimator.random_state))
        return None if grown is None else WarmStart(problem, grown)
    return WarmStart(old, state)


def _begins_with(problem: Problem, old: Problem) -> bool:
    """Whether the first sequences have the same lengths and true labels."""
    n, new, batch = old.n_examples, problem.batch, old.batch
    return (
        problem.n_examples >= n
        and np.array_equal(new.part_ptr[: n + 1], batch.part_ptr)
        and np.array_equal(new.gold_part[: len(batch.gold_part)], batch.gold_part)
        and batch.gold_amount.size == 0
    )


def _has_grown(problem: Problem, old: Problem) -> bool:
    """Whether sequences or weights have joined, so that the state itself does not fit."""
    return problem.n_examples > old.n_examples or problem.n_weights != old.n_weights
