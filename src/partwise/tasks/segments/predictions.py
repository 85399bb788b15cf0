"""What a fitted segment model answers: best segments, probabilities, k best, samples; F1 against the truth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from partwise.core.arrays import offsets
from partwise.core.randomness import random_generator
from partwise.errors import InputError
from partwise.estimators.checks import check_targets, checked_weights
from partwise.estimators.encoders import as_sequences
from partwise.estimators.entities import EntityAnswers, EntityLists
from partwise.estimators.explain import TopKind, Use
from partwise.estimators.labels import split, warn_of_unknown
from partwise.estimators.predictions import Predictions, Query
from partwise.estimators.tagger import EntityTagger
from partwise.structures import SemiMarkov
from partwise.structures.checks import checked_samples
from partwise.structures.segments.factored import FactoredSemiMarkov
from partwise.structures.segments.spans import SegmentSpans
from partwise.structures.segments.tags import segments_of_tags
from partwise.structures.span_table import SpanTable
from partwise.tasks.segments.data import Segment, iob2, labels_of, read_segments
from partwise.tasks.segments.encoder import SegmentEncoder
from partwise.tasks.sequences.data import lengths_of, pieces

_POSITIONS_AT_ONCE = 20_000


class SegmentPredictions(EntityAnswers, Predictions):
    """Predictions of an estimator that has `classes_`, `outside` and `max_length_`.

    Segments are triples (first, last, label), `last` included; positions outside are in none.
    """

    _encoder: SegmentEncoder
    classes_: np.ndarray
    outside: str
    max_length_: int
    _words = ("sequence", "segmentation")

    def tagger(self) -> EntityTagger:
        """The fitted model for one sequence at a time, as services need it; threads may share it."""
        return EntityTagger(self)

    def predict(self, X: Any) -> list[list[Segment]]:
        """The best segments of every sequence."""
        return self._over(self._best, X)

    def predict_labels(self, X: Any) -> list[list[str]]:
        """The best segments as labels of all positions in the scheme IOB2."""
        X = as_sequences(X)
        return [iob2(each, n) for each, n in zip(self.predict(X), lengths_of(X).tolist(), strict=True)]

    def predict_marginals_array(self, X: Any) -> list[np.ndarray]:
        """Probability of every segment: arrays (length, max_length_, n_labels) by [first, last − first, label].

        Labels are ordered as `classes_`. Probabilities are ∝ exp(β · score), the model that the loss belongs to; for
        β = ∞ (hinge, perceptron) there is none, and the call is refused.
        """
        return self._over(self._marginals, X)

    def _marginals(self, query: Query) -> list[np.ndarray]:
        self._require_rows(query)
        rows, longest = self._counts(query).reshape(-1, len(self.classes_)), self._chain.max_length
        found, first = [], 0
        for length in query.lengths.tolist():
            fits = np.arange(length)[:, None] + np.arange(longest) < length
            array, n_rows = np.zeros((length, longest, rows.shape[1])), int(fits.sum())
            array[fits] = rows[first : first + n_rows]
            found.append(array)
            first += n_rows
        return found

    def predict_marginals(self, X: Any, threshold: float = 0.01) -> list[dict[Segment, float]]:
        """Probabilities of segments, at least `threshold`: per sequence {(first, last, label): p}, largest first."""
        labels, results = self.classes_.tolist(), []
        for array in self.predict_marginals_array(X):
            if labels[0] == self.outside:
                array[:, :, 0] = 0.0
            at = np.argwhere(array >= max(threshold, 1e-300))
            p = array[tuple(at.T)]
            order = np.argsort(-p, kind="stable")
            rows = zip(at[order].tolist(), p[order].tolist(), strict=True)
            results.append({(s, s + k, labels[j]): value for (s, k, j), value in rows})
        return results

    def position_labels(self) -> list[str]:
        """The labels of positions in the scheme IOB2: B of every class, then I of every class but `outside`."""
        kinds = [str(label) for label in self.classes_.tolist()]
        is_outside = kinds[0] == self.outside
        begins, goes_on = ([prefix + (f"-{kind}" if kind else "") for kind in kinds] for prefix in "BI")
        return [self.outside, *begins[1:], *goes_on[1:]] if is_outside else begins + goes_on

    def predict_position_marginals_array(self, X: Any) -> list[np.ndarray]:
        """Probability of every label at every position: arrays (length, n) ordered as `position_labels()`."""
        results, is_outside = [], self.classes_.tolist()[0] == self.outside
        self._require_model()
        if self._is_factored:
            return self._over(partial(self._token_marginals, n_bare=int(is_outside)), X)
        for array in self.predict_marginals_array(X):
            # At least so long: what begins d positions before, and reaches here.
            reaching = array[:, ::-1].cumsum(axis=1)[:, ::-1]
            goes_on = np.zeros((len(array), array.shape[2]))
            for d in range(1, min(array.shape[1], len(array))):
                goes_on[d:] += reaching[:-d, d]
            results.append(np.concatenate([reaching[:, 0], goes_on[:, int(is_outside) :]], axis=1))
        return results

    def predict_entities(
        self,
        X: Any,
        threshold: float | None = None,
        decode: str = "viterbi",
        risk: float | None = None,
    ) -> EntityLists:
        """The segments of every sequence as entities, each with the probability of exactly this segment.

        Parameters
        ----------
        threshold : float, optional
            Return all segments with at least this probability, also those that are in no best segmentation. They may
            overlap.
        decode : {"viterbi", "mbr"}
            Which segments are returned without `threshold`: those of the best segmentation, or the set with the
            largest expected F1 over all sequences of the call.
        risk : float, optional
            Leave out segments of the best segmentation so that at most this share of those returned is wrong; see
            :meth:`control_risk`, which must have been called with this risk.

        Returns
        -------
        EntityLists
            A list of lists of `Entity`, named tuples (first, last, type, probability) in order of position; `last` is
            included. Its method ``to_frame(words)`` makes a DataFrame.
        """
        if decode == "marginal":
            raise InputError(
                "decode='marginal' is for labels of positions: use 'viterbi' or 'mbr' for segments"
            )
        return self._entities(X, threshold, decode, risk=risk)

    def _token_marginals(self, query: Query, n_bare: int) -> list[np.ndarray]:
        tokens, n_labels = self._counts(query).reshape(-1, 2 * len(self.classes_)), len(self.classes_)
        return split(np.delete(tokens, np.arange(n_labels, n_labels + n_bare), axis=1), query.lengths)

    def predict_kbest(self, X: Any, k: int = 5) -> list[list[tuple[list[Segment], float]]]:
        """The k best segmentations of every sequence, best first.

        Returns
        -------
        list of lists of (segments, value)
            The value is the segmentation's probability; for β = ∞, where there is none, its score.
        """
        return self._ranked(X, k)

    def sample(self, X: Any, n_samples: int = 1, random_state: Any = None) -> list[list[list[Segment]]]:
        """Segmentations drawn from the model: per sequence a list of `n_samples` lists of segments."""
        n_samples = checked_samples(n_samples)
        generator = random_generator(random_state)
        return self._over(partial(self._samples, n=n_samples, generator=generator), X)

    def _samples(self, query: Query, n: int, generator: Any) -> list[list[list[Segment]]]:
        drawn = self._chain.sample_tags(query.packed(self._sharpness()), n, generator)
        named = ([self._labelling(tags, query, i) for tags in own] for i, own in enumerate(drawn))
        return query.spread(named, lambda: [[] for _ in range(n)])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """F1 of segments: 2 · both / (true + predicted), a segment being right if borders and label are.

        Labels that were not in training can never be predicted and count as errors; a warning names them.
        """
        X = as_sequences(X)
        lengths = lengths_of(X)
        true, weights = read_segments(y, lengths), checked_weights(sample_weight, len(lengths))
        warn_of_unknown(labels_of(true), self._known_labels())  # type: ignore[attr-defined]
        return _f1(true, self.predict(X), weights)

    # -- entities -------------------------------------------------------------------------------

    @property
    def _n_outside(self) -> int:
        return int(self.classes_.tolist()[0] == self.outside)

    def _entity_types(self) -> list[Any]:
        self._require_model()
        return self.classes_.tolist()[self._n_outside :]

    def _entity_queries(self, X: Any, *constraints: Any) -> Iterator[Query]:
        return self._queries(X)

    def _span_posterior(self, query: Query) -> SegmentSpans:
        self._require_rows(query)
        rows = self._counts(query).reshape(-1, len(self.classes_))
        return SegmentSpans(query.lengths, self._chain.max_length, rows, self._n_outside)

    def _decoded_spans(self, query: Query, decode: str) -> SpanTable:
        tags, values = query.best()
        self._require_possible(query, values)
        first = np.flatnonzero(tags % 2 == 0)
        ptr, last = offsets(query.lengths), np.append(first[1:], len(tags)) - 1
        example = np.searchsorted(ptr, first, side="right") - 1
        kind = tags[first] // 2 - self._n_outside
        columns = example, first - ptr[example], last - ptr[example], kind
        return SpanTable(*columns, np.ones(len(first))).take(kind >= 0)

    def _true_spans(self, X: Any, y: Any) -> SpanTable:
        lengths = lengths_of(self._source(X))
        check_targets(y, type(self).__name__)
        index = {label: k for k, label in enumerate(self._entity_types())}
        segments = enumerate(read_segments(y, lengths))
        rows = [(i, a, b, index.get(kind, -1)) for i, own in segments for a, b, kind in own]
        example, first, last, kind = np.array(rows, np.int64).reshape(-1, 4).T
        return SpanTable(example, first, last, kind, np.ones(len(rows)))

    def _true_labellings(self, X: Any, y: Any) -> list[list[Segment]]:
        check_targets(y, type(self).__name__)
        return read_segments(y, lengths_of(self._source(X)))

    def _may_follow(self) -> np.ndarray:
        allowed, n = self._chain.allowed, self._n_outside
        n_labels = len(self.classes_)
        return (np.ones((n_labels, n_labels), bool) if allowed is None else allowed)[n:, n:]

    # -- examples and labellings ----------------------------------------------------------------

    @property
    def _chain(self) -> SemiMarkov | FactoredSemiMarkov:
        structure = self._model.structure
        assert isinstance(structure, SemiMarkov | FactoredSemiMarkov)
        return structure

    @property
    def _is_factored(self) -> bool:
        return isinstance(self._chain, FactoredSemiMarkov)

    def _require_rows(self, query: Query) -> None:
        """Raise if no table has the probabilities of all segments."""
        if self._is_factored:
            raise InputError(
                "segment_template='durations' has no probabilities of all segments; predict_position_marginals_array "
                "has those of positions"
            )

    def _source(self, X: Any) -> Any:
        return as_sequences(X)

    def _pieces(self, source: Any) -> Iterable[Any]:
        return pieces(source, lengths_of(source), _POSITIONS_AT_ONCE)

    def _labelling(self, codes: np.ndarray, query: Query, i: int) -> list[Segment]:
        return self._named(codes)

    def _named(self, tags: np.ndarray) -> list[Segment]:
        """Segments of one sequence, without those outside."""
        labels = self.classes_.tolist()
        rows = segments_of_tags(tags).tolist() if len(tags) else []
        named = [(first, last, labels[code]) for first, last, code in rows]
        return [segment for segment in named if segment[2] != self.outside]

    def _kbest_labels(self, query: Query, k: int, scale: float) -> list[list[tuple[np.ndarray, float]]]:
        found = self._chain.kbest_tags(query.packed(scale), k)
        return [list(zip(tags, values.tolist(), strict=True)) for tags, values in found]

    # -- scores ---------------------------------------------------------------------------------

    def _with_truth(self, X: Any, y: Any) -> tuple[Any, list[list[Segment]]]:
        X = self._source(X)
        return X, read_segments(y, lengths_of(X))

    _score_name = "F1"

    def _score_of(self, true: list[list[Segment]], predicted: list[list[Segment]]) -> float:
        """F1 of segments."""
        return _f1(true, predicted, np.ones(len(true)))

    # -- explanations ---------------------------------------------------------------------------

    def _given(self, query: Query, y: Any, name: str) -> tuple[list[str], np.ndarray]:
        """Labels of positions in the scheme IOB2, and tags."""
        length = int(query.lengths[0])
        [segments] = read_segments([y], np.array([length]), name)
        longest = max((last - first + 1 for first, last, _ in segments), default=0)
        if longest > self.max_length_:
            raise InputError(
                f"{name} has a segment of {longest} positions; the model's have at most {self.max_length_}"
            )
        tags = label_numbers(segments, length, self.classes_.tolist(), self.outside)
        return iob2(segments, length), tags

    def _uses(self, query: Query, labels: np.ndarray) -> Iterator[Use]:
        """Features of a segment stand at its first position, and their names begin with ``first..last:``."""
        names, n_labels, of_tags = self.classes_.tolist(), len(self.classes_), self._labels_of_tags()
        segments = segments_of_tags(labels).tolist() if len(labels) else []
        n_here = np.minimum(self.max_length_, len(labels) - np.arange(len(labels)))
        first_row = offsets(n_here).tolist()
        for first, last, code in segments:
            if self._is_factored:
                column = (last - first) * n_labels + code
                yield Use("duration", 0, column, first, names[code], f"(length {last - first + 1})")
                continue
            yield Use(
                "segment", first_row[first] + last - first, code, first, names[code], f"{first}..{last}: "
            )
        for t, tag in enumerate(labels.tolist()):
            column = tag // 2 + tag % 2 * n_labels
            yield Use("token", t, column, t, of_tags[column])
        for (_, _, before), (first, _, after) in pairwise(segments):
            pair = names[before], names[after]
            yield Use("transition", 0, before * n_labels + after, first, pair, "(transition)")

    def _labels_of_tags(self) -> list[str]:
        """The label of a position in the scheme IOB2, by the column of its part: B of every class, then I."""
        return [
            str(label) if label == self.outside else prefix + (f"-{label}" if label != "" else "")
            for prefix in "BI"
            for label in self.classes_.tolist()
        ]

    def _top_kinds(self) -> list[TopKind]:
        labels = self.classes_.tolist()
        of_tokens = TopKind("token", self._labels_of_tags(), labels * 2)
        return [of_tokens] if self._is_factored else [TopKind("segment", labels, labels), of_tokens]


def _f1(true: list[list[Segment]], predicted: list[list[Segment]], weights: np.ndarray) -> float:
    """2 · both / (true + predicted)."""
    pairs = [(set(a), set(b)) for a, b in zip(true, predicted, strict=True)]
    either = float(weights @ np.array([len(a) + len(b) for a, b in pairs]))
    return 2.0 * float(weights @ np.array([len(a & b) for a, b in pairs])) / either if either else 1.0


def label_numbers(segments: list[Segment], length: int, labels: list[Any], outside: str) -> np.ndarray:
    """Tags of given segments, positions between them outside; raises at what the model cannot have."""
    tags, covered = np.zeros(length, np.int64), np.zeros(length, bool)
    index = {label: k for k, label in enumerate(labels)}
    for segment in segments:
        first, last, label = segment
        if label not in index or label == outside:
            raise InputError(f"the label {label!r:.60} was not in training")
        tags[first : last + 1] = 2 * index[label] + 1
        tags[first] -= 1
        covered[first : last + 1] = True
    if not covered.all() and labels[0] != outside:
        raise InputError(f"position {int((~covered).argmax())} is in no segment, as none was in training")
    return tags
