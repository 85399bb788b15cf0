"""Why a prediction: exact contributions of every feature and transition; the largest weights of a model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from partwise.core.maps import FeatureMap
from partwise.errors import InputError
from partwise.estimators.encoded import Encoded
from partwise.estimators.labels import encode_labels, labels_of_one
from partwise.estimators.model import LinearModel
from partwise.structures import Chain


class Contribution(NamedTuple):
    """One term of a score: ``weight * value``.

    Attributes
    ----------
    position : int
        For a transition, of its last label.
    attribute : str
        "(transition)" for the weights of label pairs alone.
    label : label, or tuple of labels
        The pair (or run) of labels for transitions and edge attributes, oldest first.
    value, weight, contribution : float
        In an explanation of a difference, the terms of the other labelling are subtracted: their contribution
        is ``-weight * value``.
    """

    position: int
    attribute: str
    label: Any
    value: float
    weight: float
    contribution: float


@dataclass(frozen=True)
class Explanation:
    """The score of a labelling, or its difference to another, term by term.

    Attributes
    ----------
    labels : list
    against : list or None
        The other labelling.
    score : float
        Sum of all contributions.
    contributions : list of Contribution
        In order of position; terms that two labellings share are left out of a difference.
    """

    labels: list[Any]
    against: list[Any] | None
    score: float
    contributions: list[Contribution]

    def top(self, n: int = 10, position: int | None = None) -> list[Contribution]:
        """The `n` largest contributions by size, of one position if given."""
        chosen = [each for each in self.contributions if position is None or each.position == position]
        return sorted(chosen, key=lambda each: -abs(each.contribution))[:n]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "labels": self.labels,
            "against": self.against,
            "score": self.score,
            "contributions": [each._asdict() for each in self.contributions],
        }

    def __str__(self) -> str:
        """A table of the largest contributions at every position."""
        head = f"score {self.score:+.4f} of {' '.join(map(str, self.labels))}"
        if self.against is not None:
            head = f"{head}\nabove {' '.join(map(str, self.against))}"
        lines = [head]
        for position, label in enumerate(self.labels):
            terms = [each for each in self.contributions if each.position == position]
            if not terms:
                continue
            total = math.fsum(each.contribution for each in terms)
            other = ""
            if self.against is not None and self.against[position] != label:
                other = f" (not {self.against[position]})"
            lines.append(f"{position:4d}  {label}{other}  {total:+.4f}")
            shown = self.top(8, position)
            lines += [f"        {t.contribution:+9.4f}  {_term(t)}" for t in shown]
            if len(terms) > len(shown):
                rest = math.fsum(t.contribution for t in self.top(len(terms), position)[len(shown) :])
                lines.append(f"        {rest:+9.4f}  in {len(terms) - len(shown)} smaller terms")
        return "\n".join(lines)


class ExplanationMixin:
    """Explanations of an estimator that has `_encoder`, `_model` and `classes_`."""

    _encoder: Any
    _model: LinearModel
    classes_: np.ndarray

    def explain(self, x: Any, y: Any = None, against: Any = None) -> Explanation:
        """Contributions to the score of a labelling of one sequence; they add up to it.

        Parameters
        ----------
        x : one sequence, as in X
        y : list of labels, optional
            By default the best labelling.
        against : "runner-up" or list of labels, optional
            Explain the difference to the second best labelling (the best other than `y`), or to a given one.
            A positive contribution speaks for `y`.
        """
        [labels] = self.predict([x]) if y is None else [labels_of_one(y, "y")]  # type: ignore[attr-defined]
        other = None
        if isinstance(against, str):
            if against != "runner-up":
                raise InputError(f"against must be 'runner-up' or a list of labels, not {against!r}")
            best = self.predict_kbest([x], k=2)[0]  # type: ignore[attr-defined]
            other = next((found for found, _ in best if found != labels), None)
            if other is None:
                raise InputError("this sequence has no other labelling to compare with")
        elif against is not None:
            other = labels_of_one(against, "against")
        terms = self._terms(x, labels)
        if other is not None:
            theirs = self._terms(x, other)
            shared = {each[:3] for each in terms} & {each[:3] for each in theirs}
            negative = [each._replace(contribution=-each.contribution) for each in theirs]
            terms = [each for each in terms + negative if each[:3] not in shared]
        terms = sorted(terms, key=lambda each: each.position)
        return Explanation(labels, other, math.fsum(each.contribution for each in terms), terms)

    def _terms(self, x: Any, y: Sequence[Any]) -> list[Contribution]:
        encoded: Encoded = self._encoder.transform([x])
        length, model = int(encoded.lengths[0]), self._model
        if len(y) != length:
            raise InputError(f"y has {len(y)} labels, but x has {length} positions")
        codes = encode_labels(list(y), self.classes_.tolist(), encoded.lengths).tolist()
        if min(codes, default=0) < 0:
            raise InputError("y must give a label at every position")
        terms, names = [], self._names_of_attributes()
        for t, code in enumerate(codes):
            for attribute, value in _row(encoded, self._encoder.n_dense, t):
                weight = weight_of(model.maps["node"], model.weights_of("node"), attribute, code)
                if weight:
                    terms.append(Contribution(t, names[attribute], y[t], value, weight, weight * value))
        return terms + self._edge_terms(encoded, codes, y)

    def _edge_terms(self, encoded: Encoded, codes: list[int], y: Sequence[Any]) -> list[Contribution]:
        model, chain = self._model, self._model.structure
        assert isinstance(chain, Chain)
        if chain.tied:
            return [
                Contribution(t, "(transition)", run, 1.0, weight, weight)
                for t, run, weight in _tied_terms(chain, model.tied_weights, codes, y)
                if weight
            ]
        terms, names = [], self._encoder.edge_names()
        rows = encoded.edge_rows
        if rows is None:
            return []
        edge_map, edge_weights = model.maps["edge"], model.weights_of("edge")
        for t, (before, here) in enumerate(pairwise(codes), start=1):
            for k in range(rows.row_ptr[t - 1], rows.row_ptr[t]):
                attribute = int(rows.ids[k])
                weight = weight_of(edge_map, edge_weights, attribute, before * chain.n_labels + here)
                value = 1.0 if rows.values is None else float(rows.values[k])
                name = "(transition)" if names[attribute] == "(always)" else names[attribute]
                if weight:
                    terms.append(Contribution(t, name, (y[t - 1], y[t]), value, weight, weight * value))
        return terms

    def _names_of_attributes(self) -> list[str]:
        """Dense attributes first, then sparse ones; made once per model."""
        if getattr(self._encoder, "_names_made", None) is None:
            self._encoder._names_made = self._encoder.names()
        return self._encoder._names_made

    def top_features(self, n: int = 10, label: Any = None) -> list[tuple[str, Any, float]]:
        """The `n` largest weights by size: (attribute, label, weight), of one label if given."""
        self._require_fitted()  # type: ignore[attr-defined]
        model, labels = self._model, self.classes_.tolist()
        attribute, code, index = model.maps["node"].pairs()
        weight = model.weights_of("node")[index]
        if label is not None:
            if label not in labels:
                raise InputError(f"label {label!r} was not in training")
            chosen = np.flatnonzero(code == labels.index(label))
            attribute, code, weight = attribute[chosen], code[chosen], weight[chosen]
        order = np.argsort(-np.abs(weight), kind="stable")[:n]
        names = self._names_of_attributes()
        return [(names[attribute[k]], labels[code[k]], float(weight[k])) for k in order if weight[k]]

    def top_transitions(self, n: int = 10) -> list[tuple[Any, Any, float]]:
        """The `n` largest transition weights by size: (before, after, weight)."""
        self._require_fitted()  # type: ignore[attr-defined]
        weights = self.transition_coef_  # type: ignore[attr-defined]
        if weights.ndim > 2:
            raise InputError("top_transitions is for models of order 1; see transition_coef_")
        labels, n_labels = self.classes_.tolist(), len(self.classes_)
        order = np.argsort(-np.abs(weights.ravel()), kind="stable")[:n]
        return [
            (labels[k // n_labels], labels[k % n_labels], float(weights.flat[k]))
            for k in order
            if weights.flat[k]
        ]

    @property
    def state_features_(self) -> dict[tuple[str, Any], float]:
        """All weights of attributes, as sklearn_crfsuite gives them: {(attribute, label): weight}."""
        self._require_fitted()  # type: ignore[attr-defined]
        model, labels, names = self._model, self.classes_.tolist(), self._names_of_attributes()
        attribute, code, index = model.maps["node"].pairs()
        weights = model.weights_of("node")[index]
        rows = zip(attribute.tolist(), code.tolist(), weights.tolist(), strict=True)
        return {(names[a], labels[c]): w for a, c, w in rows if w}

    @property
    def transition_features_(self) -> dict[tuple[Any, Any], float]:
        """All weights of transitions, as sklearn_crfsuite gives them: {(before, after): weight}."""
        n_labels = len(getattr(self, "classes_", ()))
        return {(before, after): weight for before, after, weight in self.top_transitions(n_labels**2)}


def weight_of(feature_map: FeatureMap, weights: np.ndarray, attribute: int, label: int) -> float:
    """Weight of one pair, dense attributes counted first; 0 where there is none."""
    if attribute < feature_map.n_dense:
        return float(weights[attribute * feature_map.stride + label])
    attribute -= feature_map.n_dense
    start, count = int(feature_map.start[attribute]), int(feature_map.count[attribute])
    if count == 0:
        return float(weights[start + label])
    first = start - feature_map.narrow_first
    for k in range(max(count, 0)):
        if feature_map.narrow_label[first + k] == label:
            return float(weights[start + k])
    return 0.0


def _row(encoded: Encoded, n_dense: int, t: int) -> list[tuple[int, float]]:
    """Attributes and values of position t."""
    row: list[tuple[int, float]] = []
    if encoded.node_dense is not None:
        row += [(k, float(value)) for k, value in enumerate(encoded.node_dense[t]) if value]
    rows = encoded.node_rows
    if rows is not None:
        for k in range(int(rows.row_ptr[t]), int(rows.row_ptr[t + 1])):
            value = 1.0 if rows.values is None else float(np.float32(rows.values[k]))
            row.append((n_dense + int(rows.ids[k]), value))
    return row


def _tied_terms(
    chain: Chain, weights: np.ndarray, codes: list[int], y: Sequence[Any]
) -> list[tuple[int, tuple[Any, ...], float]]:
    """(position, run of labels, weight) of every transition."""
    n_labels, order = chain.n_labels, chain.order
    if order == 1:
        table = weights.reshape(n_labels, n_labels)
        return [(t, (y[t - 1], y[t]), float(table[codes[t - 1], codes[t]])) for t in range(1, len(codes))]
    table = weights.reshape((n_labels + 1,) * order + (n_labels,))
    padded, names = [n_labels] * order + codes, ["(start)"] * order + list(y)
    return [
        (t, tuple(names[t : t + order + 1]), float(table[tuple(padded[t : t + order + 1])]))
        for t in range(len(codes))
    ]


def _term(term: Contribution) -> str:
    label = " ".join(map(str, term.label)) if isinstance(term.label, tuple) else str(term.label)
    from_other = term.weight * term.value != term.contribution
    return f"{term.attribute} → {label}" + ("  (of the other)" if from_other else "")
