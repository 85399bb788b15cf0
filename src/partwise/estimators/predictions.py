"""What every estimator predicts: examples encoded piece by piece, best labellings, the k best, expected counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from math import exp
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from partwise.core.arrays import block_of, offsets
from partwise.core.losses import Loss
from partwise.core.problem import Problem
from partwise.core.scorer import Scorer
from partwise.errors import InputError
from partwise.estimators.base import n_threads
from partwise.estimators.encoded import Encoded
from partwise.estimators.model import Excluded, LinearModel
from partwise.estimators.probabilities import Probabilities
from partwise.estimators.protocol import not_fitted
from partwise.structures.checks import checked_count
from partwise.structures.contract import PartLists, Structure

if TYPE_CHECKING:
    from partwise.structures.packed import Packed


@dataclass
class Query:
    """Some examples encoded for a model.

    Attributes
    ----------
    model : LinearModel
    encoded : Encoded
    n_jobs : int
    source : object
        The examples as the task read them.
    excluded : Excluded or None
        Parts that no labelling may have.
    """

    model: LinearModel
    encoded: Encoded
    n_jobs: int = 1
    source: Any = None
    excluded: Excluded | None = None

    @cached_property
    def scorer(self) -> Scorer:
        """The rows bound to the weights; examples without positions are left out."""
        return self.model.scorer(self.encoded)

    @property
    def lengths(self) -> np.ndarray:
        """Positions of each example, int64 (n_examples,); zeros included."""
        return self.encoded.lengths

    def best(self) -> tuple[Any, np.ndarray]:
        """Best labels, as the structure has them, and their scores (n,); no labels if an example has none."""
        return self.model.best(self.scorer, self.excluded, self.n_jobs)

    def counts(self, scale: float, what: str = "first") -> tuple[np.ndarray, np.ndarray]:
        """Expected counts at scale · scores, and log-partitions; `what` is that of `LinearModel.counts`."""
        return self.model.counts(self.scorer, scale, None, self.excluded, what, self.n_jobs)

    def scores(self, scale: float = 1.0) -> np.ndarray:
        """Scores of all parts, (n_parts,); −inf if excluded."""
        scores = scale * self.scorer.scores(self.model.weights, self.n_jobs)
        if self.excluded is not None:
            first = self.scorer.batch.part_ptr[block_of(self.excluded.ptr)]
            scores[first + self.excluded.part] = -np.inf
        return scores

    def packed(self, scale: float) -> Packed:
        """The same in the form that the structure's own methods read."""
        return self.model.packed(self.scorer, scale, None, self.excluded, self.n_jobs)

    def kbest(self, k: int, scale: float) -> list[list[tuple[Any, float]]]:
        """The k best labels of every example of the scorer, as the structure has them, with their scores."""
        structure, shapes, ptr = self.model.structure, self.scorer.shapes, self.scorer.batch.part_ptr
        scores, results = self.scores(scale), []
        for i in range(self.scorer.n_examples):
            own, shape = scores[ptr[i] : ptr[i + 1]], shapes.take(np.array([i]))
            found = structure.kbest_parts(shape.values, own, k)
            results.append([(_decoded(structure, parts, shape), float(own[parts].sum())) for parts in found])
        return results

    def spread(self, results: Iterable[Any], empty: Callable[[], Any] = list) -> list[Any]:
        """Results of the examples of the scorer, with something empty at those without positions."""
        left = iter(results)
        return [next(left) if length else empty() for length in self.lengths]


class Predictions(Probabilities):
    """Predictions of an estimator with a linear model.

    A task says how examples are read (`_source`), cut into pieces that fit in memory (`_pieces`) and encoded
    (`_encode`), and what a labelling looks like to users (`_labelling`).
    """

    _encoder: Any
    _model: LinearModel
    _loss: Loss
    n_jobs: int | None
    _has_weights: ClassVar[bool]
    _impossible: str = "{}: no labelling is possible"  # what is said of an example without labellings

    # -- for subclasses -------------------------------------------------------------------------

    def _source(self, X: Any) -> Any:
        """Examples as the task reads them, checked."""
        return X

    def _pieces(self, source: Any) -> Iterable[Any]:
        """The examples in pieces, so that memory does not grow with their number."""
        return [source]

    def _encode(self, source: Any, encoder: Any, structure: Any) -> Encoded:
        """Rows of examples."""
        return encoder.transform(source)

    def _constrained(self, query: Query, *constraints: Any) -> Query:
        """The query under the constraints that the caller gave."""
        return query

    def _labelling(self, codes: Any, query: Query, i: int) -> Any:
        """A labelling of example i of the scorer as users see it, from the structure's labels."""
        raise NotImplementedError

    def _labellings(self, codes: Any, query: Query) -> list[Any]:
        """Labellings of all examples, from those of all positions."""
        bounds = pairwise(offsets(query.lengths).tolist())
        return [self._labelling(codes[first:last], query, i) for i, (first, last) in enumerate(bounds)]

    def _kbest_labels(self, query: Query, k: int, scale: float) -> list[list[tuple[Any, float]]]:
        """The k best labels and their scores; a structure may have a faster way than that of all structures."""
        return query.kbest(k, scale)

    def _with_truth(self, X: Any, y: Any) -> tuple[Any, Any] | None:
        """Labelled examples as the task reads them, and their true labellings as `_score_of` takes them.

        None if labelled data are not scored during training.
        """
        return None

    def _score_of(self, true: Any, predicted: list[Any]) -> float:
        """The score that fits the task, from 0 to 1."""
        raise NotImplementedError

    # -- generic --------------------------------------------------------------------------------

    def _require_model(self) -> None:
        if not hasattr(self, "_model"):
            raise not_fitted(self)

    def _query(self, source: Any) -> Query:
        """Examples encoded for the model."""
        encoded = self._encode(source, self._encoder, self._model.structure)
        return Query(self._model, encoded, n_threads(self.n_jobs), source)

    def _queries(self, X: Any, *constraints: Any) -> Iterator[Query]:
        self._require_model()
        for piece in self._pieces(self._source(X)):
            yield self._constrained(self._query(piece), *constraints)

    def _over(self, answer: Callable[[Query], list[Any]], X: Any, *constraints: Any) -> list[Any]:
        """The answers for all examples."""
        return [found for query in self._queries(X, *constraints) for found in answer(query)]

    def _require_possible(self, query: Query, values: np.ndarray) -> None:
        """Raise at the first example whose labellings all have the score −inf."""
        if (values == -np.inf).any():
            example = int(np.flatnonzero(query.lengths)[np.argmax(values == -np.inf)])
            raise InputError(f"X: {self._impossible.format(example)}")

    def _best(self, query: Query) -> list[Any]:
        codes, values = query.best()
        self._require_possible(query, values)
        return self._labellings(codes, query)

    def _counts(self, query: Query, what: str = "first") -> np.ndarray:
        """Expected counts of parts under the model that the loss belongs to."""
        counts, log_totals = query.counts(self._sharpness(), what)
        self._require_possible(query, log_totals)
        return counts

    def _kbest(self, query: Query, k: int) -> list[list[tuple[Any, float]]]:
        scale, is_hard, named = self._scale(), self._loss.is_hard, []
        found = self._kbest_labels(query, k, scale)
        totals = np.zeros(len(found)) if is_hard else query.counts(scale, "nothing")[1]
        for i, (own, total) in enumerate(zip(found, totals.tolist(), strict=True)):
            values = [value if is_hard else exp(min(value - total, 0.0)) for _, value in own]
            labellings = [self._labelling(codes, query, i) for codes, _ in own]
            named.append(list(zip(labellings, values, strict=True)))
        return query.spread(named)

    def _ranked(self, X: Any, k: int, *constraints: Any) -> list[list[tuple[Any, float]]]:
        """The k best labellings of all examples with their probabilities or scores, best first."""
        return self._over(partial(self._kbest, k=checked_count(k, "k")), X, *constraints)

    def _scorer_during_fit(
        self, problem: Problem, encoder: Any, X: Any, y: Any
    ) -> Callable[[np.ndarray], float] | None:
        """What scores labelled data at the weights of the moment."""
        labelled = self._with_truth(X, y) if self._has_weights else None
        if labelled is None:
            return None
        source, true = labelled
        encoded = self._encode(source, encoder, problem.structure)
        model = LinearModel(problem.structure, problem.scorer.maps, np.zeros(problem.n_weights))
        query = Query(model, encoded, n_threads(self.n_jobs), source)
        scorer = query.scorer

        def score(weights: np.ndarray) -> float:
            own = replace(model, weights=np.ascontiguousarray(weights))
            codes, _ = own.best(scorer, None, query.n_jobs)
            return float("nan") if codes is None else self._score_of(true, self._labellings(codes, query))

        return score


def _decoded(structure: Structure, parts: np.ndarray, shapes: Any) -> Any:
    """Labels from the parts of one labelling, some of them perhaps there more than once."""
    distinct = np.unique(parts)
    return structure.decode_all(PartLists(np.array([0, len(distinct)]), distinct), shapes)


def blocks(sizes: np.ndarray, most: int) -> Iterator[tuple[int, int]]:
    """First and last of consecutive examples whose sizes add up to `most` at the most, or of one that is larger."""
    total, first = offsets(sizes), 0
    while first < len(sizes):
        last = max(int(np.searchsorted(total, total[first] + most, side="right")) - 1, first + 1)
        yield first, last
        first = last
