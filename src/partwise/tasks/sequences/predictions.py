"""What a fitted sequence model answers: best labels, probabilities, k best, samples; constraints on all."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import chain as joined
from itertools import pairwise
from typing import Any

import numpy as np

from partwise.core.randomness import random_generator
from partwise.errors import InputError
from partwise.estimators.checks import check_choice, check_ordered, checked_weights
from partwise.estimators.encoders import as_sequences
from partwise.estimators.entities import DECODERS
from partwise.estimators.explain import TopKind, Use
from partwise.estimators.labels import (
    check_hashable,
    encode_labels,
    flat_labels,
    labels_of_one,
    share_right,
    split,
)
from partwise.estimators.model import Excluded
from partwise.estimators.predictions import Predictions, Query
from partwise.scoring.labelling import looks_like_chunks
from partwise.scoring.metrics import chunk_scores, token_accuracy
from partwise.structures import Chain
from partwise.tasks.sequences.chain_scores import chain_of_model, chain_scores
from partwise.tasks.sequences.data import lengths_of
from partwise.tasks.sequences.entities import SequenceEntities
from partwise.tasks.sequences.one import best_labels, marginals
from partwise.tasks.sequences.tagger import SequenceTagger


class SequencePredictions(SequenceEntities, Predictions):
    """Predictions of an estimator that has `classes_`.

    Wherever they appear, `fixed` gives per sequence a list of labels, None where a position is free, and
    `forbid` is a list of pairs (before, after) of labels that may not follow each other.
    """

    classes_: np.ndarray
    random_state: Any
    _impossible = "sequence {}: no labelling satisfies fixed, forbid and the model's masks"

    def tagger(self) -> SequenceTagger:
        """The fitted model for one sequence at a time, as services need it; threads may share it."""
        return SequenceTagger(self)

    def predict(
        self, X: Any, fixed: Any = None, forbid: Any = None, decode: str = "viterbi"
    ) -> list[list[Any]]:
        """Labels of every sequence: a list of lists of labels.

        Parameters
        ----------
        X
            As for `fit`.
        fixed, forbid
            Constraints, see above.
        decode : {"viterbi", "marginal", "mbr"}
            What the labels are best at. "viterbi" is the most probable labelling. "marginal" is the most probable
            label of each position, which has the largest expected accuracy, and may break a chunk scheme. "mbr" has
            the entities with the largest expected F1 (see `predict_entities`), and is otherwise the most probable
            labelling with these.
        """
        check_choice("decode", decode, DECODERS)
        if decode != "viterbi":
            other = self._most_probable if decode == "marginal" else self._with_best_entities
            return other(X, fixed, forbid)
        if fixed is None and forbid is None and (found := self._of_only_one(X, best_labels)) is not None:
            return found
        return self._over(self._best, X, fixed, forbid)

    def _most_probable(self, X: Any, fixed: Any, forbid: Any) -> list[list[Any]]:
        """The most probable label of each position."""
        arrays = self.predict_marginals_array(X, fixed, forbid)
        return [self.classes_[each.argmax(axis=1)].tolist() for each in arrays]

    def predict_single(self, x: Any) -> list[Any]:
        """The best labelling of one sequence."""
        return self.predict([x])[0]

    def predict_marginals_array(self, X: Any, fixed: Any = None, forbid: Any = None) -> list[np.ndarray]:
        """Probability of every label at every position: arrays (length, n_labels), ordered as `classes_`."""
        if fixed is None and forbid is None and (found := self._of_only_one(X, marginals)) is not None:
            return found
        return self._over(self._marginals, X, fixed, forbid)

    predict_proba = predict_marginals_array  # scikit-learn's name

    def _marginals(self, query: Query) -> list[np.ndarray]:
        return split(self._counts(query).reshape(-1, len(self.classes_)), query.lengths)

    def predict_marginals(
        self, X: Any, fixed: Any = None, forbid: Any = None
    ) -> list[list[dict[Any, float]]]:
        """Probability of every label at every position: per sequence a list of dicts {label: probability}.

        Probabilities are ∝ exp(β · score), the model that the loss belongs to; for β = ∞ (hinge,
        perceptron) there is none, and the call is refused.
        """
        arrays = self.predict_marginals_array(X, fixed, forbid)
        labels, named = self.classes_.tolist(), []
        for array in arrays:
            flat = iter(array.ravel().tolist())
            # Labels come first in `zip`, so that it takes no more numbers than there are labels.
            named.append([dict(zip(labels, flat)) for _ in range(len(array))])  # noqa: B905
        return named

    def predict_marginals_single(self, x: Any) -> list[dict[Any, float]]:
        """Probabilities of the labels of one sequence."""
        return self.predict_marginals([x])[0]

    def predict_edge_marginals(self, X: Any, fixed: Any = None, forbid: Any = None) -> list[np.ndarray]:
        """Probability of every pair of neighbouring labels: arrays (length − 1, n_labels, n_labels)."""
        return self._over(self._edge_marginals, X, fixed, forbid)

    def _edge_marginals(self, query: Query) -> list[np.ndarray]:
        chain, n_labels = chain_of_model(query.model), len(self.classes_)
        if chain.order > 1:
            raise InputError("edge marginals are of pairs of neighbours; this model's order is above 1")
        nodes, edges = chain_scores(query, self._sharpness())
        marginals = chain.marginals(nodes, edges) if nodes else []
        return query.spread((each.edge for each in marginals), lambda: np.zeros((0, n_labels, n_labels)))

    def predict_kbest(
        self, X: Any, k: int = 5, fixed: Any = None, forbid: Any = None
    ) -> list[list[tuple[list[Any], float]]]:
        """The k best labellings of every sequence, best first.

        Returns
        -------
        list of lists of (labels, value)
            The value is the labelling's probability; for β = ∞, where there is none, its score.
        """
        return self._ranked(X, k, fixed, forbid)

    def _kbest_labels(self, query: Query, k: int, scale: float) -> list[list[tuple[np.ndarray, float]]]:
        nodes, edges = chain_scores(query, scale)
        return chain_of_model(query.model).kbest(nodes, edges, k) if nodes else []

    def predict_log_proba_of(self, X: Any, y: Any) -> np.ndarray:
        """Log-probability of given labellings, (n_sequences,), summed over positions where `y` is None."""
        [query] = self._queries(X, y)
        free = replace(query, excluded=None)
        (_, held), (_, all_of_them) = (each.counts(self._sharpness(), "nothing") for each in (query, free))
        result = np.zeros(len(query.lengths))
        result[query.lengths > 0] = np.minimum(held - all_of_them, 0.0)
        return result

    def sample(
        self, X: Any, n_samples: int = 1, random_state: Any = None, fixed: Any = None, forbid: Any = None
    ) -> list[list[list[Any]]]:
        """Labellings drawn from the model: per sequence a list of `n_samples` lists of labels."""
        generator = random_generator(random_state)
        return self._over(partial(self._samples, n=n_samples, generator=generator), X, fixed, forbid)

    def _samples(self, query: Query, n: int, generator: Any) -> list[list[list[Any]]]:
        nodes, edges = chain_scores(query, self._sharpness())
        drawn = chain_of_model(query.model).sample(nodes, edges, n, generator) if nodes else []
        named = ([self._labelling(codes, query, i) for codes in own] for i, own in enumerate(drawn))
        return query.spread(named, lambda: [[] for _ in range(n)])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of positions labelled right; positions where `y` is None do not count.

        Labels that were not in training can never be predicted and count as errors; a warning names them.
        """
        X = as_sequences(X)
        predicted = self.predict(X)
        lengths = np.array([len(each) for each in predicted], np.int64)
        flat = flat_labels(y, lengths)
        check_hashable(flat, lengths)
        weights = np.repeat(checked_weights(sample_weight, len(lengths)), lengths)
        return share_right(flat, joined.from_iterable(predicted), self.classes_.tolist(), weights)

    def _of_only_one(self, X: Any, answer: Callable[[Any, Any], Any]) -> list[Any] | None:
        """The answers if X is a single sequence of a simple kind, by a way without the arrays that many need."""
        kind: Any = type(self)
        if type(X) is not list or len(X) != 1 or not hasattr(self, "_model") or _is_special(kind):
            return None
        found = answer(self, X[0])
        return None if found is None else [found]

    # -- examples and labellings ----------------------------------------------------------------

    def _source(self, X: Any) -> Any:
        X = as_sequences(X)
        lengths_of(X)  # checks them
        return X

    def _constrained(self, query: Query, fixed: Any = None, forbid: Any = None) -> Query:
        model, excluded = query.model, None
        if fixed is not None:
            flat = flat_labels(fixed, query.lengths, "fixed")
            codes = encode_labels(flat, self.classes_.tolist(), query.lengths, "fixed")
            n_labels = model.structure.kinds[0].width
            excluded = Excluded.all_but(codes, query.lengths[query.lengths > 0], n_labels)
        if forbid is not None:
            model = model.under(self._without(forbid))
        return replace(query, model=model, excluded=excluded)

    def _without(self, forbid: Any) -> Chain:
        """The chain with more transitions forbidden."""
        chain = chain_of_model(self._model)
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

    def _labelling(self, codes: np.ndarray, query: Query, i: int) -> list[Any]:
        return self.classes_[codes].tolist()

    def _labellings(self, codes: np.ndarray, query: Query) -> list[list[Any]]:
        return split(self.classes_[codes].tolist(), query.lengths)

    # -- scores ---------------------------------------------------------------------------------

    def _with_truth(self, X: Any, y: Any) -> tuple[Any, Any]:
        return self._source(X), y

    def _score_of(self, true: list[list[Any]], predicted: list[list[Any]]) -> float:
        """Chunk F1 where labels look like chunks, else accuracy."""
        in_chunks = looks_like_chunks(self.classes_.tolist())
        return chunk_scores(true, predicted).f1 if in_chunks else token_accuracy(true, predicted)

    # -- explanations ---------------------------------------------------------------------------

    def _given(self, query: Query, y: Any, name: str) -> tuple[list[Any], np.ndarray]:
        labels, length = labels_of_one(y, name), int(query.lengths[0])
        if len(labels) != length:
            raise InputError(f"y has {len(labels)} labels, but x has {length} positions")
        codes = encode_labels(labels, self.classes_.tolist(), query.lengths)
        if (codes < 0).any():
            raise InputError("y must give a label at every position")
        return labels, codes

    def _uses(self, query: Query, labels: np.ndarray) -> Iterator[Use]:
        chain, names, codes = chain_of_model(query.model), self.classes_.tolist(), labels.tolist()
        for t, code in enumerate(codes):
            yield Use("node", t, code, t, names[code])
        if not chain.tied:
            for t, (before, here) in enumerate(pairwise(codes), start=1):
                yield Use("edge", t - 1, before * chain.n_labels + here, t, (names[before], names[here]))
            return
        # The number of a run of labels counts them in base n_labels, or n_labels + 1 with "before the start".
        base, order, first = chain.n_labels + (chain.order > 1), chain.order, int(chain.order == 1)
        padded = [chain.n_labels] * (order - first) + codes
        for t in range(first, len(codes)):
            run, number = padded[t - first : t - first + order + 1], 0
            for code in run[:-1]:
                number = number * base + code
            column = number * chain.n_labels + run[-1]
            shown = tuple("(start)" if code == chain.n_labels else names[code] for code in run)
            yield Use("transition", 0, column, t, shown, "(transition)")

    def _top_kinds(self) -> list[TopKind]:
        return [TopKind("node", self.classes_.tolist(), self.classes_.tolist())]


@cache
def _is_special(estimator: Any) -> bool:
    """Whether a class reads or answers sequences in a way of its own, which the way for one would leave out."""
    hooks = ("_source", "_encode", "_constrained", "_counts", "_best", "_marginals", "_labellings")
    return any(getattr(estimator, hook) is not getattr(SequencePredictions, hook) for hook in hooks)
