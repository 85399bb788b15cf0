"""Sequences and labels, checked and numbered; and the chain structure for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from partwise.core.arrays import after_the_first, offsets
from partwise.core.maps import FeatureMap
from partwise.core.rows import AttributeRows
from partwise.data.conll import Columns
from partwise.errors import InputError
from partwise.estimators.alternatives import NONE, Alternatives, LabelLists, Targets
from partwise.estimators.checks import check_choice, check_targets, checked_weights, training_weights
from partwise.estimators.encoded import Encoded
from partwise.estimators.encoders import as_sequences
from partwise.estimators.gaps import check_not_mixed
from partwise.estimators.labels import (
    check_masks,
    checked_classes,
    distinct_labels,
    encode_labels,
    flat_labels,
    place,
)
from partwise.estimators.predictions import blocks
from partwise.structures import Chain, transition_mask

MOST_TRANSITIONS = 2**28  # weights; a solver keeps several numbers for each


@dataclass(frozen=True)
class SequenceData:
    """Sequences with their labels.

    Attributes
    ----------
    X : list of sequences, 3-D array or Columns
    lengths : int64 array, shape (n_sequences,)
    classes : list
        The labels in the order of their numbers.
    codes : int64 array, shape (n_positions,)
        Numbers of the labels; −1 where one was not observed, or where there is a set of possible ones; the most
        probable one of a distribution.
    sample_weight : float64 array, shape (n_sequences,), or None
    sets, shares : Alternatives
        Sets of possible labels, and distributions over labels.
    """

    X: Any
    lengths: np.ndarray
    classes: list[Any]
    codes: np.ndarray
    sample_weight: np.ndarray | None
    sets: Alternatives = NONE
    shares: Alternatives = NONE

    @classmethod
    def read(cls, X: Any, y: Any, sample_weight: Any, classes: Any = None) -> SequenceData:
        """Check everything; `classes` are those of y unless they are given."""
        X, lengths = read_sequences(X, y, "SequenceLabeler")
        labels = _own_labels(X) if y is None else flat_labels(y, lengths)
        check_positions(lengths)
        weights = training_weights(sample_weight, lengths > 0)
        targets = Targets.read(labels, lambda at: place(at, lengths))
        known = checked_classes(classes) if classes is not None else None
        if known is None:
            known = distinct_labels(targets.every_label(), lengths)
        codes = encode_labels(targets.labels, known, lengths)
        sets, shares = targets.numbered(known, lambda at: place(at, lengths))
        codes[shares.at] = shares.likeliest()
        check_not_mixed(lengths, codes, shares)
        return cls(X, lengths, known, codes, weights, sets, shares)

    def weights(self) -> np.ndarray | None:
        """Of the sequences that have positions."""
        return None if self.sample_weight is None else self.sample_weight[self.lengths > 0]

    def label_lists(self) -> LabelLists | None:
        """All labels that positions may have; None if no position has several."""
        if not self.sets and not self.shares:
            return None
        return LabelLists.of(self.codes, self.sets, self.shares)

    def completed(self, structure: Chain) -> np.ndarray:
        """Codes with unobserved labels filled in, such that the masks allow them."""
        codes = self.codes
        if (codes >= 0).all():
            return codes
        lengths = self.lengths[self.lengths > 0]
        nodes = np.zeros((len(codes), structure.n_labels))
        known = np.flatnonzero(codes >= 0)
        nodes[known] = -np.inf
        nodes[known, codes[known]] = 0.0
        nodes[self.sets.at] = -np.inf
        nodes[np.repeat(self.sets.at, self.sets.sizes), self.sets.label] = 0.0
        first_order = Chain(
            structure.n_labels,
            allowed=structure.allowed,
            allowed_start=structure.allowed_start,
            allowed_end=structure.allowed_end,
        )
        ends = np.cumsum(lengths)
        edges = np.zeros((structure.n_labels, structure.n_labels))
        try:
            return np.concatenate(first_order.argmax(np.split(nodes, ends[:-1]), edges))
        except InputError as error:
            if not self.sets:
                raise
            raise InputError(
                f"y has sets of labels that the scheme or the transitions rule out: {error}"
            ) from None

    def with_more(self, other: SequenceData) -> SequenceData:
        """Both, one after the other."""
        weights = None
        if self.sample_weight is not None or other.sample_weight is not None:
            weights = np.concatenate(
                [checked_weights(each.sample_weight, len(each.lengths)) for each in (self, other)]
            )
        X = _as_list(self.X) + _as_list(other.X)
        lengths = np.concatenate([self.lengths, other.lengths])
        codes = np.concatenate([self.codes, other.codes])
        sets = self.sets.with_more(other.sets, len(self.codes))
        shares = self.shares.with_more(other.shares, len(self.codes))
        return SequenceData(X, lengths, self.classes, codes, weights, sets, shares)


def read_sequences(X: Any, y: Any, estimator: str) -> tuple[Any, np.ndarray]:
    """Sequences as lists or arrays, and their lengths; raises if X, or y without own labels of X, is missing."""
    if X is None:
        raise InputError("X is missing: a list of sequences")
    if not isinstance(X, Columns):
        check_targets(y, estimator)
    X = as_sequences(X)
    return X, lengths_of(X)


def check_positions(lengths: np.ndarray) -> None:
    """Raise if all sequences are empty."""
    if lengths.sum() == 0:
        raise InputError("X has no positions to train on")


def _own_labels(X: Columns) -> list[Any]:
    """The labels that columns carry, which are flat already."""
    if X.labels is None:
        raise InputError("these sequences were read without a label column")
    if len(X.labels) != X.n_tokens:
        raise InputError(f"{len(X.labels)} labels for {X.n_tokens} tokens")
    return list(X.labels)


def _as_list(X: Any) -> list[Any]:
    return X.row_sequences() if isinstance(X, Columns) else list(X)


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


def chain_of(
    estimator: Any,
    labels: list[Any],
    encoder: Any,
    blocks: Callable[[], Iterable[tuple[np.ndarray, np.ndarray, int]]],
    lists: LabelLists | None = None,
) -> Chain:
    """The structure that an estimator's parameters ask for, after checking the labels against its masks.

    Parameters
    ----------
    blocks : callable
        Returns blocks of sequences: their lengths, numbers of their labels, and how many sequences come before.
    lists : LabelLists, optional
        Where positions of a single block have several labels.
    """
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
            if lists is not None:
                _, before, here = lists.pairs(at)
                seen[before, here] = True
                continue
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
    structure: Chain,
    encoder: Any,
    encoded: Encoded,
    codes: np.ndarray,
    pairs: Any,
    lists: LabelLists | None = None,
) -> FeatureMap:
    """Weights of edge attributes; the one that every edge has gets all pairs of labels."""
    rows, n_labels = encoded.own[1].sparse, structure.n_labels
    assert rows is not None
    at = after_the_first(encoded.lengths)
    before, here = codes[at - 1], codes[at]
    row_labels = np.where((before >= 0) & (here >= 0), before * n_labels + here, -1)
    if lists is not None:
        rows, row_labels = lists.edge_rows(rows, at, n_labels)
    if encoder.always:
        every = np.arange(n_labels**2)
        always = np.full(len(every), encoder.n_edge_attributes - 1, np.int32)
        row_ptr = np.concatenate([rows.row_ptr, rows.row_ptr[-1] + 1 + every])
        rows = AttributeRows(row_ptr, np.concatenate([rows.ids, always]))
        row_labels = np.concatenate([row_labels, every])
    return FeatureMap.build(n_labels**2, encoder.n_edge_attributes, 0, rows, row_labels, pairs)


def pieces(X: Any, lengths: np.ndarray, most_positions: int) -> Iterator[Any]:
    """X in pieces of about that many positions, so that memory does not grow with it."""
    total = offsets(lengths)
    for first, last in blocks(lengths, most_positions):
        if isinstance(X, Columns):
            columns = [column[total[first] : total[last]] for column in X.columns]
            yield Columns(columns, None, total[first : last + 1] - total[first], np.array([0, last - first]))
        else:
            yield X[first:last]
