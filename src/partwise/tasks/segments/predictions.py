"""What a fitted segment model answers: best segments, probabilities, k best, samples; F1 against the truth."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from partwise.compiled.simd import LANES
from partwise.core.arrays import offsets
from partwise.core.losses import Loss
from partwise.core.randomness import random_generator
from partwise.core.scorer import Scorer
from partwise.errors import InputError
from partwise.estimators.base import n_threads
from partwise.estimators.checks import checked_weights
from partwise.estimators.encoders import as_sequences
from partwise.estimators.model import LinearModel
from partwise.estimators.probabilities import Probabilities
from partwise.estimators.protocol import not_fitted
from partwise.structures import SemiMarkov
from partwise.structures.checks import checked_count
from partwise.structures.packed import Packed
from partwise.structures.segments.tags import segments_of_tags
from partwise.tasks.segments.data import Segment, iob2, pieces, read_segments
from partwise.tasks.segments.encoder import SegmentEncoder
from partwise.tasks.sequences.data import lengths_of

_POSITIONS_AT_ONCE = 20_000


class SegmentQuery(NamedTuple):
    """Some sequences encoded for a model; the scorer has those that have positions."""

    lengths: np.ndarray
    scorer: Scorer

    def spread(self, results: list[Any], empty: Callable[[], Any]) -> list[Any]:
        """Results of the sequences of the scorer, with something empty at those that have no positions."""
        left = iter(results)
        return [next(left) if length else empty() for length in self.lengths]


class SegmentMixin(Probabilities):
    """Predictions of an estimator that has `_encoder`, `_model`, `_loss`, `classes_` and `outside`.

    Segments are triples (first, last, label), `last` included; positions outside are in none.
    """

    _encoder: SegmentEncoder
    _model: LinearModel
    _loss: Loss
    classes_: np.ndarray
    outside: str
    n_jobs: int | None

    def predict(self, X: Any) -> list[list[Segment]]:
        """The best segments of every sequence."""
        found: list[list[Segment]] = []
        for query in self._queries(X):
            tags, _ = self._model.best(query.scorer, None, n_threads(self.n_jobs))
            found += [self._named(tags[a:b]) for a, b in pairwise(offsets(query.lengths).tolist())]
        return found

    def predict_labels(self, X: Any) -> list[list[str]]:
        """The best segments as labels of all positions in the scheme IOB2."""
        X = as_sequences(X)
        return [iob2(each, n) for each, n in zip(self.predict(X), lengths_of(X).tolist(), strict=True)]

    def predict_marginals_array(self, X: Any) -> list[np.ndarray]:
        """Probability of every segment: arrays (length, max_length_, n_labels) by [first, last − first, label].

        Labels are ordered as `classes_`. Probabilities are ∝ exp(β · score), the model that the loss belongs to; for
        β = ∞ (hinge, perceptron) there is none, and the call is refused.
        """
        beta, width, found = self._sharpness(), len(self.classes_), []
        longest = self._chain.max_length
        for query in self._queries(X):
            counts, _ = self._model.counts(query.scorer, beta, n_jobs=n_threads(self.n_jobs))
            rows, first = counts.reshape(-1, width), 0
            for length in query.lengths.tolist():
                fits = np.arange(length)[:, None] + np.arange(longest) < length
                array, n_rows = np.zeros((length, longest, width)), int(fits.sum())
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
        for array in self.predict_marginals_array(X):
            # At least so long: what begins d positions before, and reaches here.
            reaching = array[:, ::-1].cumsum(axis=1)[:, ::-1]
            goes_on = np.zeros((len(array), array.shape[2]))
            for d in range(1, min(array.shape[1], len(array))):
                goes_on[d:] += reaching[:-d, d]
            results.append(np.concatenate([reaching[:, 0], goes_on[:, int(is_outside) :]], axis=1))
        return results

    def predict_kbest(self, X: Any, k: int = 5) -> list[list[tuple[list[Segment], float]]]:
        """The k best segmentations of every sequence, best first.

        Returns
        -------
        list of lists of (segments, value)
            The value is the segmentation's probability; for β = ∞, where there is none, its score.
        """
        k, found = checked_count(k, "k"), []
        hard = self._loss.is_hard
        for query in self._queries(X):
            packed = self._packed(query, self._scale())
            totals = np.zeros(len(packed.lengths)) if hard else packed.log_partition()
            ranked = []
            for (tags, values), total in zip(self._chain.kbest_tags(packed, k), totals, strict=True):
                values = values if hard else np.exp(values - total)
                ranked.append([(self._named(t), float(v)) for t, v in zip(tags, values, strict=True)])
            found += query.spread(ranked, list)
        return found

    def sample(self, X: Any, n_samples: int = 1, random_state: Any = None) -> list[list[list[Segment]]]:
        """Segmentations drawn from the model: per sequence a list of `n_samples` lists of segments."""
        beta, generator, found = self._sharpness(), random_generator(random_state), []
        n_samples = checked_count(n_samples, "n_samples")
        for query in self._queries(X):
            drawn = self._chain.sample_tags(self._packed(query, beta), n_samples, generator)
            named = [[self._named(tags) for tags in each] for each in drawn]
            found += query.spread(named, lambda: [[] for _ in range(n_samples)])
        return found

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """F1 of segments: 2 · both / (true + predicted), a segment being right if borders and label are."""
        X = as_sequences(X)
        lengths = lengths_of(X)
        true = [set(each) for each in read_segments(y, lengths)]
        predicted = [set(each) for each in self.predict(X)]
        weights = checked_weights(sample_weight, len(lengths))
        both = np.array([len(a & b) for a, b in zip(true, predicted, strict=True)])
        either = np.array([len(a) + len(b) for a, b in zip(true, predicted, strict=True)])
        total = float(weights @ either)
        return 2.0 * float(weights @ both) / total if total else 1.0

    # -- shared ---------------------------------------------------------------------------------

    @property
    def _chain(self) -> SemiMarkov:
        structure = self._model.structure
        assert isinstance(structure, SemiMarkov)
        return structure

    def _queries(self, X: Any) -> Iterator[SegmentQuery]:
        """The sequences in pieces, encoded."""
        if not hasattr(self, "_model"):
            raise not_fitted(self)
        X = as_sequences(X)
        for some in pieces(X, lengths_of(X), _POSITIONS_AT_ONCE):
            encoded = self._encoder.transform(some)
            yield SegmentQuery(encoded.lengths, self._model.scorer(encoded))

    def _packed(self, query: SegmentQuery, scale: float) -> Packed:
        """Scores of all parts."""
        scorer = query.scorer
        scores = scale * scorer.scores(self._model.weights, n_threads(self.n_jobs))
        part_ptr, flat = scorer.batch.part_ptr, np.append(scores, np.zeros(LANES))
        return Packed(self._chain, self._chain.specification(), scorer.shapes, part_ptr, flat, False)

    def _named(self, tags: np.ndarray) -> list[Segment]:
        """Segments of one sequence, without those outside."""
        labels = self.classes_.tolist()
        rows = segments_of_tags(tags).tolist() if len(tags) else []
        named = [(first, last, labels[code]) for first, last, code in rows]
        return [segment for segment in named if segment[2] != self.outside]


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
