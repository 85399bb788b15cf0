"""What a fitted sequence model answers: best labels, probabilities, k best, samples; constraints on all."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable
from itertools import chain as joined
from itertools import pairwise
from operator import eq
from typing import Any, NamedTuple

import numpy as np

from partwise.core.arrays import offsets
from partwise.core.losses import Loss
from partwise.core.randomness import random_generator
from partwise.core.scorer import Scorer
from partwise.errors import InputError
from partwise.estimators.base import n_threads
from partwise.estimators.checks import check_ordered, checked_weights
from partwise.estimators.encoded import Encoded
from partwise.estimators.encoders import as_sequences
from partwise.estimators.labels import encode_labels, flat_labels, place, split
from partwise.estimators.model import Excluded, LinearModel
from partwise.estimators.probabilities import Probabilities
from partwise.estimators.protocol import not_fitted
from partwise.structures import Chain
from partwise.tasks.sequences.data import lengths_of


class Query(NamedTuple):
    """Sequences encoded for a model, with the constraints on their labels.

    Attributes
    ----------
    lengths : int64 array, shape (n_sequences,)
        Zeros included; the scorer has the other sequences only.
    model : LinearModel
        With the masks of `forbid` added.
    fixed : int64 array, shape (n_positions,), or None
    """

    lengths: np.ndarray
    model: LinearModel
    scorer: Scorer
    fixed: np.ndarray | None

    @property
    def excluded(self) -> Excluded | None:
        """What `fixed` leaves no labelling."""
        if self.fixed is None:
            return None
        return Excluded.all_but(self.fixed, self.scorer.shapes.lengths, self.model.structure.kinds[0].width)

    def spread(self, results: Iterable[Any], empty: Any) -> list[Any]:
        """Results of the sequences of the scorer, with `empty` at those that have no positions."""
        left = iter(results)
        return [next(left) if length else empty for length in self.lengths]

    def require_possible(self, values: np.ndarray) -> None:
        if (values == -np.inf).any():
            sequence = int(np.flatnonzero(self.lengths)[np.argmax(values == -np.inf)])
            raise InputError(
                f"X: sequence {sequence}: no labelling satisfies fixed, forbid and the model's masks"
            )


class PredictionMixin(Probabilities):
    """Predictions of an estimator that has `_encoder`, `_model`, `_loss` and `classes_`.

    Wherever they appear, `fixed` gives per sequence a list of labels, None where a position is free, and
    `forbid` is a list of pairs (before, after) of labels that may not follow each other.
    """

    _encoder: Any
    _model: LinearModel
    _loss: Loss
    classes_: np.ndarray
    n_jobs: int | None
    random_state: Any

    def predict(self, X: Any, fixed: Any = None, forbid: Any = None) -> list[list[Any]]:
        """The best labelling of every sequence: a list of lists of labels."""
        query = self._query(X, fixed, forbid)
        codes, values = query.model.best(query.scorer, query.excluded, n_threads(self.n_jobs))
        query.require_possible(values)
        return split(self._named(codes), query.lengths)

    def predict_single(self, x: Any) -> list[Any]:
        """The best labelling of one sequence."""
        return self.predict([x])[0]

    def predict_marginals_array(self, X: Any, fixed: Any = None, forbid: Any = None) -> list[np.ndarray]:
        """Probability of every label at every position: arrays (length, n_labels), ordered as `classes_`."""
        query = self._query(X, fixed, forbid)
        counts, log_totals = query.model.counts(
            query.scorer, self._sharpness(), excluded=query.excluded, n_jobs=n_threads(self.n_jobs)
        )
        query.require_possible(log_totals)
        return split(counts.reshape(-1, len(self.classes_)), query.lengths)

    def predict_marginals(
        self, X: Any, fixed: Any = None, forbid: Any = None
    ) -> list[list[dict[Any, float]]]:
        """Probability of every label at every position: per sequence a list of dicts {label: probability}.

        Probabilities are ∝ exp(β · score), the model that the loss belongs to; for β = ∞ (hinge,
        perceptron) there is none, and the call is refused.
        """
        arrays = self.predict_marginals_array(X, fixed, forbid)
        labels = self.classes_.tolist()
        return [[dict(zip(labels, row, strict=True)) for row in array.tolist()] for array in arrays]

    def predict_marginals_single(self, x: Any) -> list[dict[Any, float]]:
        """Probabilities of the labels of one sequence."""
        return self.predict_marginals([x])[0]

    def predict_edge_marginals(self, X: Any, fixed: Any = None, forbid: Any = None) -> list[np.ndarray]:
        """Probability of every pair of neighbouring labels: arrays (length − 1, n_labels, n_labels)."""
        query = self._query(X, fixed, forbid)
        chain, n_labels = _chain(query.model), len(self.classes_)
        if chain.order > 1:
            raise InputError("edge marginals are of pairs of neighbours; this model's order is above 1")
        nodes, edges = self._scores(query, self._sharpness())
        marginals = chain.marginals(nodes, edges) if nodes else []
        return query.spread((each.edge for each in marginals), np.zeros((0, n_labels, n_labels)))

    def predict_kbest(
        self, X: Any, k: int = 5, fixed: Any = None, forbid: Any = None
    ) -> list[list[tuple[list[Any], float]]]:
        """The k best labellings of every sequence, best first.

        Returns
        -------
        list of lists of (labels, value)
            The value is the labelling's probability; for β = ∞, where there is none, its score.
        """
        query = self._query(X, fixed, forbid)
        chain = _chain(query.model)
        nodes, edges = self._scores(query, self._scale())
        found = chain.kbest(nodes, edges, k) if nodes else []
        log_totals = np.zeros(len(found))
        if not self._loss.is_hard and nodes:
            log_totals = chain.log_partition(nodes, edges)
        results = []
        for paths, log_total in zip(found, log_totals.tolist(), strict=True):
            values = [value if self._loss.is_hard else float(np.exp(value - log_total)) for _, value in paths]
            results.append([(self._named(y), value) for (y, _), value in zip(paths, values, strict=True)])
        return query.spread(results, [])

    def predict_log_proba_of(self, X: Any, y: Any) -> np.ndarray:
        """Log-probability of given labellings, (n_sequences,), summed over positions where `y` is None."""
        query = self._query(X, y, None)
        sharpness, n_jobs = self._sharpness(), n_threads(self.n_jobs)
        _, free = query.model.counts(query.scorer, sharpness, what="nothing", n_jobs=n_jobs)
        _, held = query.model.counts(
            query.scorer, sharpness, excluded=query.excluded, what="nothing", n_jobs=n_jobs
        )
        result = np.zeros(len(query.lengths))
        result[query.lengths > 0] = np.minimum(held - free, 0.0)
        return result

    def sample(
        self, X: Any, n_samples: int = 1, random_state: Any = None, fixed: Any = None, forbid: Any = None
    ) -> list[list[list[Any]]]:
        """Labellings drawn from the model: per sequence a list of `n_samples` lists of labels."""
        query = self._query(X, fixed, forbid)
        nodes, edges = self._scores(query, self._sharpness())
        generator = random_generator(random_state)
        drawn = _chain(query.model).sample(nodes, edges, n_samples, generator) if nodes else []
        return query.spread(
            ([self._named(row) for row in labels] for labels in drawn), [[] for _ in range(n_samples)]
        )

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of positions labelled right; positions where `y` is None do not count.

        Labels that were not in training can never be predicted and count as errors; a warning names them.
        """
        X = as_sequences(X)
        predicted = self.predict(X)
        lengths = np.array([len(each) for each in predicted], np.int64)
        flat = flat_labels(y, lengths)
        try:
            unknown = set(flat) - {None, *self.classes_.tolist()}
        except TypeError:
            at = next(k for k, label in enumerate(flat) if not isinstance(label, Hashable))
            raise InputError(f"{place(at, lengths)}: the label {flat[at]!r:.60} is not hashable") from None
        if unknown:
            names = ", ".join(sorted(map(repr, unknown))[:5])
            warnings.warn(
                f"y has labels that were not in training and so count as errors: {names}", stacklevel=2
            )
        counted = np.array([label is not None for label in flat], bool)
        right = np.fromiter(map(eq, flat, joined.from_iterable(predicted)), bool, len(flat))
        weights = np.repeat(checked_weights(sample_weight, len(lengths)), lengths) * counted
        total = float(weights.sum())
        return float(weights @ right / total) if total else 0.0

    # -- shared ---------------------------------------------------------------------------------

    def _query(self, X: Any, fixed: Any, forbid: Any) -> Query:
        if not hasattr(self, "_model"):
            raise not_fitted(self)
        X = as_sequences(X)
        lengths, codes, model = lengths_of(X), None, self._model
        if fixed is not None:
            flat = flat_labels(fixed, lengths, "fixed")
            codes = encode_labels(flat, self.classes_.tolist(), lengths, "fixed")
        if forbid is not None:
            model = model.under(self._without(forbid))
        encoded: Encoded = self._encoder.transform(X)
        return Query(lengths, model, model.scorer(encoded), codes)

    def _without(self, forbid: Any) -> Chain:
        """The chain with more transitions forbidden."""
        chain = _chain(self._model)
        index = {label: k for k, label in enumerate(self.classes_.tolist())}
        allowed = np.ones((chain.n_labels,) * 2, bool) if chain.allowed is None else chain.allowed.copy()
        check_ordered(forbid, "forbid", "a list of pairs (before, after) of labels")
        for k, pair in enumerate(forbid):
            is_pair = isinstance(pair, (tuple, list)) and len(pair) == 2
            if not is_pair or any(not isinstance(each, Hashable) or each not in index for each in pair):
                raise InputError(
                    f"forbid[{k}] is {pair!r:.60}; it must be a pair (before, after) of known labels"
                )
            allowed[index[pair[0]], index[pair[1]]] = False
        return Chain(
            chain.n_labels,
            tied=chain.tied,
            order=chain.order,
            allowed=allowed,
            allowed_start=chain.allowed_start,
            allowed_end=chain.allowed_end,
        )

    def _scores(self, query: Query, scale: float) -> tuple[list[np.ndarray], Any]:
        """Node and edge scores of the sequences that have positions, as `Chain` reads them."""
        chain, scorer = _chain(query.model), query.scorer
        n_labels, lengths = chain.n_labels, scorer.shapes.lengths
        parts = scale * scorer.scores(query.model.weights, n_threads(self.n_jobs))
        nodes, edges = [], []
        for (first, last), length in zip(
            pairwise(scorer.batch.part_ptr.tolist()), lengths.tolist(), strict=True
        ):
            middle = first + length * n_labels
            nodes.append(parts[first:middle].reshape(length, n_labels))
            edges.append(parts[middle:last])
        if query.fixed is not None:
            for scores, labels in zip(nodes, np.split(query.fixed, offsets(lengths)[1:-1]), strict=True):
                known = np.flatnonzero(labels >= 0)
                kept = scores[known, labels[known]]
                scores[known] = -np.inf
                scores[known, labels[known]] = kept
        if not chain.tied:
            return nodes, [edge.reshape(-1, n_labels, n_labels) for edge in edges]
        shape = (n_labels,) * 2 if chain.order == 1 else (n_labels + 1,) * chain.order + (n_labels,)
        return nodes, (scale * query.model.tied_weights).reshape(shape)

    def _named(self, codes: np.ndarray) -> list[Any]:
        return self.classes_[codes].tolist()


def _chain(model: LinearModel) -> Chain:
    assert isinstance(model.structure, Chain)
    return model.structure
