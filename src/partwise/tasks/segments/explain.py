"""Why these segments: exact contributions of every feature and transition; the largest weights of a model."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from partwise.core.arrays import offsets
from partwise.core.maps import FeatureMap
from partwise.core.rows import AttributeRows
from partwise.errors import InputError
from partwise.estimators.encoded import Encoded, OwnRows
from partwise.estimators.explain import Contribution, Explanation, weight_of
from partwise.estimators.model import LinearModel
from partwise.structures.segments.tags import segments_of_tags
from partwise.tasks.segments.data import Segment, iob2, read_segments
from partwise.tasks.segments.encoder import SegmentEncoder
from partwise.tasks.segments.predictions import label_numbers


class SegmentExplanationMixin:
    """Explanations of an estimator that has `_encoder`, `_model`, `classes_` and `outside`."""

    _encoder: SegmentEncoder
    _model: LinearModel
    classes_: np.ndarray
    outside: str
    max_length_: int

    def explain(self, x: Any, y: Any = None, against: Any = None) -> Explanation:
        """Contributions to the score of one sequence's segments; they add up to it.

        Parameters
        ----------
        x : one sequence, as in X
        y : list of segments or of labels, optional
            By default the best segments.
        against : "runner-up", or list of segments or of labels, optional
            Explain the difference to the second best segmentation (the best other than `y`), or to a given one. A
            positive contribution speaks for `y`.

        Returns
        -------
        Explanation
            Its labels are those of positions in the scheme IOB2. Features of a segment stand at its first position,
            their names begin with ``first..last:``.
        """
        encoded: Encoded = self._encoder.transform([x])
        length = int(encoded.lengths[0])
        segments = self._given(y, length, "y") if y is not None else self.predict([x])[0]  # type: ignore[attr-defined]
        other = None
        if isinstance(against, str) and against == "runner-up":
            best = self.predict_kbest([x], k=2)[0]  # type: ignore[attr-defined]
            other = next((found for found, _ in best if found != segments), None)
            if other is None:
                raise InputError("this sequence has no other segmentation to compare with")
        elif against is not None:
            other = self._given(against, length, "against")
        terms = self._terms(encoded, segments)
        if other is not None:
            theirs = self._terms(encoded, other)
            shared = {each[:3] for each in terms} & {each[:3] for each in theirs}
            negative = [each._replace(contribution=-each.contribution) for each in theirs]
            terms = [each for each in terms + negative if each[:3] not in shared]
        terms = sorted(terms, key=lambda each: each.position)
        labels = None if other is None else iob2(other, length)
        total = math.fsum(each.contribution for each in terms)
        return Explanation(iob2(segments, length), labels, total, terms)

    def _given(self, y: Any, length: int, name: str) -> list[Segment]:
        [segments] = read_segments([y], np.array([length]), name)
        longest = max((last - first + 1 for first, last, _ in segments), default=0)
        if longest > self.max_length_:
            raise InputError(
                f"{name} has a segment of {longest} positions; the model's have at most {self.max_length_}"
            )
        return segments

    def _terms(self, encoded: Encoded, segments: list[Segment]) -> list[Contribution]:
        labels, length = self.classes_.tolist(), int(encoded.lengths[0])
        tags = label_numbers(segments, length, labels, self.outside)
        rows = segments_of_tags(tags).tolist() if length else []
        n_here = np.minimum(self.max_length_, length - np.arange(length))
        first_row, terms = offsets(n_here).tolist(), []
        segment_names, token_names = self._names_by_kind()
        for first, last, code in rows:
            row, place = first_row[first] + last - first, f"{first}..{last}: "
            for attribute, value, weight in self._weights(encoded.own[0], "segment", row, code):
                name = place + segment_names[attribute]
                terms.append(Contribution(first, name, labels[code], value, weight, weight * value))
        for t, tag in enumerate(tags.tolist()):
            code, label = tag // 2 + tag % 2 * len(labels), self._token_label(tag)
            for attribute, value, weight in self._weights(encoded.own[1], "token", t, code):
                terms.append(Contribution(t, token_names[attribute], label, value, weight, weight * value))
        transitions = self._model.tied_weights.reshape(len(labels), len(labels))
        for (_, _, before), (first, _, after) in pairwise(rows):
            weight = float(transitions[before, after])
            if weight:
                pair = labels[before], labels[after]
                terms.append(Contribution(first, "(transition)", pair, 1.0, weight, weight))
        return terms

    def _weights(self, own: OwnRows, kind: str, row: int, code: int) -> list[tuple[int, float, float]]:
        """Attributes, values and weights other than zero of one row for one of its parts."""
        feature_map, weights, found = self._model.maps[kind], self._model.weights_of(kind), []
        entries: list[tuple[int, float]] = []
        if own.dense is not None:
            entries += [(k, float(value)) for k, value in enumerate(own.dense[row]) if value]
        if own.sparse is not None:
            entries += [(feature_map.n_dense + k, value) for k, value in _entries(own.sparse, row)]
        for attribute, value in entries:
            weight = weight_of(feature_map, weights, attribute, code)
            if weight:
                found.append((attribute, value, weight))
        return found

    def _token_label(self, tag: int) -> str:
        """The label of a position with this tag, in the scheme IOB2."""
        label = self.classes_.tolist()[tag // 2]
        if label == self.outside:
            return str(label)
        return ("I" if tag % 2 else "B") + (f"-{label}" if label != "" else "")

    def _names_by_kind(self) -> tuple[list[str], list[str]]:
        """Names of the features of segments and of positions; made once per model."""
        if getattr(self._encoder, "_names_made", None) is None:
            self._encoder._names_made = self._encoder.segments.names(), self._encoder.tokens.names()  # type: ignore[attr-defined]
        return self._encoder._names_made  # type: ignore[attr-defined, no-any-return]

    def top_features(self, n: int = 10, label: Any = None) -> list[tuple[str, Any, float]]:
        """The `n` largest weights by size: (feature, label, weight), of one label if given.

        Features of positions have labels in the scheme IOB2, features of segments the label of the segment.
        """
        self._require_fitted()  # type: ignore[attr-defined]
        labels = self.classes_.tolist()
        if label is not None and label not in labels:
            raise InputError(f"label {label!r:.60} was not in training")
        only = None if label is None else labels.index(label)
        segment_names, token_names = self._names_by_kind()
        found = [(segment_names[a], labels[c], w) for a, c, w in self._largest("segment", n, only)]
        for a, c, w in self._largest("token", n, only):
            found.append((token_names[a], self._token_label(2 * (c % len(labels)) + c // len(labels)), w))
        return sorted(found, key=lambda each: -abs(each[2]))[:n]

    def _largest(self, kind: str, n: int, only: int | None) -> list[tuple[int, int, float]]:
        feature_map: FeatureMap = self._model.maps[kind]
        attribute, code, index = feature_map.pairs()
        weight = self._model.weights_of(kind)[index]
        chosen = np.arange(len(code)) if only is None else np.flatnonzero(code % len(self.classes_) == only)
        order = chosen[np.argsort(-np.abs(weight[chosen]), kind="stable")[:n]]
        rows = zip(attribute[order].tolist(), code[order].tolist(), weight[order].tolist(), strict=True)
        return [each for each in rows if each[2]]

    def top_transitions(self, n: int = 10) -> list[tuple[Any, Any, float]]:
        """The `n` largest transition weights by size: (before, after, weight)."""
        self._require_fitted()  # type: ignore[attr-defined]
        weights = self.transition_coef_  # type: ignore[attr-defined]
        labels, n_labels = self.classes_.tolist(), len(self.classes_)
        order = np.argsort(-np.abs(weights.ravel()), kind="stable")[:n].tolist()
        found = [(labels[k // n_labels], labels[k % n_labels], float(weights.flat[k])) for k in order]
        return [each for each in found if each[2]]


def _entries(rows: AttributeRows, row: int) -> list[tuple[int, float]]:
    """Attributes and values of one sparse row."""
    first, last = int(rows.row_ptr[row]), int(rows.row_ptr[row + 1])
    values = [1.0] * (last - first) if rows.values is None else rows.values[first:last].tolist()
    return list(zip(rows.ids[first:last].tolist(), values, strict=True))
