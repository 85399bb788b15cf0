"""Entities of sequences with exact probabilities: what sequence and segment models answer in the same words."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np

from partwise.errors import InputError
from partwise.estimators.checks import check_choice
from partwise.estimators.expected_f1 import best_spans
from partwise.estimators.predictions import Query
from partwise.structures.span_table import SpanTable

# Candidates of the choice by expected F1: spans that are less probable are never chosen in practice, since a span is
# worth it if its probability is above half of the expected F1.
_LEAST_CHOSEN = 0.01
DECODERS = ("viterbi", "marginal", "mbr")


class Entity(NamedTuple):
    """A labelled span of one sequence.

    Attributes
    ----------
    first, last : int
        Positions, `last` included.
    type : object
        The type: a string if labels are those of a chunk scheme, otherwise a label.
    probability : float
        Probability that the sequence has exactly this entity: these borders and this type.
    """

    first: int
    last: int
    type: Any
    probability: float


class SpanPosterior(Protocol):
    """Probabilities of the spans of some examples."""

    def expected(self) -> np.ndarray: ...

    def candidates(self, threshold: float) -> SpanTable: ...

    def probability(self, spans: SpanTable) -> np.ndarray: ...


class Found(NamedTuple):
    """Entities of some examples.

    Attributes
    ----------
    spans : SpanTable
    n_examples : int
    expected : float64 array, shape (n_examples, n_kinds)
        Expected number of entities of each type.
    """

    spans: SpanTable
    n_examples: int
    expected: np.ndarray


class EntityAnswers:
    """Entities and their probabilities, of a model whose labellings have spans.

    A task says which types there are (`_entity_types`), and gives the posterior of spans (`_span_posterior`) and the
    spans of labellings (`_decoded_spans`) of a query.
    """

    def _entity_types(self) -> list[Any]:
        """The types of entities, in the order of their numbers."""
        raise NotImplementedError

    def _entity_queries(self, X: Any, *constraints: Any) -> Iterator[Query]:
        """The examples in pieces whose posteriors fit in memory, each under its constraints."""
        raise NotImplementedError

    def _span_posterior(self, query: Query) -> SpanPosterior:
        raise NotImplementedError

    def _decoded_spans(self, query: Query, decode: str) -> SpanTable:
        """The spans of the labelling that `decode`, "viterbi" or "marginal", finds."""
        raise NotImplementedError

    def _may_follow(self) -> np.ndarray:
        """Whether a span of the second type may begin right behind one of the first: bool (n_kinds, n_kinds)."""
        raise NotImplementedError

    # -- generic --------------------------------------------------------------------------------

    def _entities(
        self, X: Any, threshold: float | None, decode: str, *constraints: Any
    ) -> list[list[Entity]]:
        """What `predict_entities` returns."""
        found = self._found(X, threshold, decode, *constraints)
        types, p = self._entity_types(), found.spans.probability.tolist()
        rows = zip(*(column.tolist() for column in found.spans[1:4]), p, strict=True)
        entities = [Entity(first, last, types[kind], value) for first, last, kind, value in rows]
        ptr = found.spans.by_example(found.n_examples).tolist()
        return [entities[a:b] for a, b in pairwise(ptr)]

    def _found(self, X: Any, threshold: float | None, decode: str, *constraints: Any) -> Found:
        """All candidates from `threshold` on; without one, those that `decode` chooses."""
        check_choice("decode", decode, DECODERS)
        least = _LEAST_CHOSEN
        if threshold is not None:
            least = checked_threshold(threshold)
            if decode != "viterbi":
                raise InputError(
                    "threshold asks for all candidates, decode for a choice among them: leave one out"
                )

        def spans(query: Query, posterior: SpanPosterior) -> SpanTable:
            if threshold is None and decode != "mbr":
                own = self._decoded_spans(query, decode)
                return own._replace(probability=posterior.probability(own))
            return posterior.candidates(least)

        found = self._over_posteriors(spans, X, *constraints)
        if decode == "mbr":
            chosen = best_spans(found.spans, float(found.expected.sum()), self._may_follow())
            return found._replace(spans=found.spans.take(chosen))
        return found

    def _over_posteriors(self, spans: Any, X: Any, *constraints: Any) -> Found:
        """The spans that a function of query and posterior finds in all examples."""
        self._sharpness()  # type: ignore[attr-defined]  # raises if the loss has no probabilities
        tables, expected, n = [], [], 0
        for query in self._entity_queries(X, *constraints):
            posterior = self._span_posterior(query)
            own = spans(query, posterior)
            tables.append(own._replace(example=own.example + n))
            expected.append(posterior.expected())
            n += len(query.lengths)
        columns = zip(*tables, strict=True) if tables else SpanTable.empty()
        joined = SpanTable(*(np.concatenate(each) for each in columns)) if tables else SpanTable.empty()
        counts = np.concatenate(expected) if expected else np.zeros((0, len(self._entity_types())))
        return Found(joined, n, counts)

    def predict_entity_counts(self, X: Any) -> list[dict[Any, float]]:
        """Expected number of entities of each type: per sequence a dict {type: number}.

        The number counts all possible entities, each with its exact probability.
        """
        found = self._over_posteriors(lambda query, posterior: SpanTable.empty(), X)
        types = self._entity_types()
        return [dict(zip(types, row, strict=True)) for row in found.expected.tolist()]


def checked_threshold(threshold: Any) -> float:
    """A threshold of probabilities: above 0 and at most 1."""
    is_number = isinstance(threshold, (int, float, np.number)) and not isinstance(threshold, bool)
    if not is_number or not 0.0 < threshold <= 1.0:
        raise InputError(f"threshold must be a probability above 0 and at most 1, not {threshold!r:.40}")
    return float(threshold)
