"""Entities of sequences with exact probabilities: what sequence and segment models answer in the same words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np

from partwise.data.frames import as_words, frame_of
from partwise.errors import InputError
from partwise.estimators.checks import check_choice
from partwise.estimators.conformal import LEAST, ConformalAnswers, ConformalSets, Truths, ranked_truth, within
from partwise.estimators.expected_f1 import best_spans
from partwise.estimators.isotonic import IsotonicMap
from partwise.estimators.predictions import Query
from partwise.estimators.risk import RiskControl, controlled, stored_risks
from partwise.scoring.entity_scores import EntityScores
from partwise.structures.span_table import SpanTable

# Candidates of calibration, and of the choice by expected F1. There a span is worth it if its probability is above half
# of the expected F1, so spans that are less probable are hardly ever chosen.
_LEAST = 0.01
_ROUNDING = 1e-9  # Probabilities computed alone and among others differ by less.
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


class EntityLists(list[list[Entity]]):
    """Entities by sequence: a list of lists, which can become a DataFrame."""

    def to_frame(self, words: Any = None) -> Any:
        """One row per entity: sequence (its number), first, last, type, probability, and text if words are given.

        Needs pandas.

        Parameters
        ----------
        words : iterable of sequences, optional
            The words that the entities were found in, one list of strings for each sequence. X does, if its tokens are
            strings or rows that begin with the word.

        Returns
        -------
        DataFrame
        """
        names = ["sequence", *Entity._fields]
        rows = [{"sequence": i, **entity._asdict()} for i, own in enumerate(self) for entity in own]
        if words is not None:
            texts, names = as_words(words), [*names, "text"]
            self._check_words(texts)
            for row in rows:
                row["text"] = " ".join(texts[row["sequence"]][row["first"] : row["last"] + 1])
        return frame_of(rows, names)

    def _check_words(self, texts: list[list[str]]) -> None:
        """Raise unless there are words for all entities."""
        if len(texts) != len(self):
            raise InputError(f"words has {len(texts)} sequences, and the entities are of {len(self)}")
        for i, (own, text) in enumerate(zip(self, texts, strict=True)):
            if own and max(entity.last for entity in own) >= len(text):
                raise InputError(f"words: sequence {i} has {len(text)} words, fewer than its entities need")


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


class EntityAnswers(ConformalAnswers):
    """Entities and their probabilities, of a model whose labellings have spans.

    A task says which types there are (`_entity_types`), and gives the posterior of spans (`_span_posterior`) and the
    spans of labellings (`_decoded_spans`) of a query.

    Attributes
    ----------
    entity_map_ : IsotonicMap or None
        Calibrated probabilities of entities, if :meth:`calibrate` found them by isotonic regression.
    conformal_ : ConformalSets or None
        What :meth:`conformal` found.
    risk_controls_ : dict of float to RiskControl
        What :meth:`control_risk` found, by the risk.
    """

    entity_map_: IsotonicMap | None = None
    risk_controls_: Mapping[float, RiskControl] = {}
    _set_kinds = ("entities", "labellings")

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

    def _true_spans(self, X: Any, y: Any) -> SpanTable:
        """The true entities, sorted by example; types that the model does not know have the number −1."""
        raise NotImplementedError

    # -- generic --------------------------------------------------------------------------------

    def _entities(
        self, X: Any, threshold: float | None, decode: str, *constraints: Any, risk: float | None = None
    ) -> EntityLists:
        """What `predict_entities` returns."""
        if risk is not None and (threshold is not None or decode != "viterbi"):
            raise InputError(
                "risk chooses among the entities of the best labelling: leave out threshold and decode"
            )
        least = 0.0 if risk is None else self._risk_threshold(risk)
        found = self._found(X, threshold, decode, *constraints)
        if risk is not None:
            found = found._replace(spans=found.spans.take(found.spans.probability >= least))
        types, p = self._entity_types(), found.spans.probability.tolist()
        rows = zip(*(column.tolist() for column in found.spans[1:4]), p, strict=True)
        entities = [Entity(first, last, types[kind], value) for first, last, kind, value in rows]
        ptr = found.spans.by_example(found.n_examples).tolist()
        return EntityLists(entities[a:b] for a, b in pairwise(ptr))

    def _found(self, X: Any, threshold: float | None, decode: str, *constraints: Any) -> Found:
        """All candidates from `threshold` on; without one, those that `decode` chooses."""
        check_choice("decode", decode, DECODERS)
        least = _LEAST
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
            return posterior.candidates(self._model_probability(least))

        found = self._over_posteriors(spans, X, *constraints)
        before = float(found.spans.probability.sum())
        found = self._calibrated(found)
        if decode == "mbr":
            expected = float(found.expected.sum() + found.spans.probability.sum()) - before
            chosen = best_spans(found.spans, expected, self._may_follow())
            return found._replace(spans=found.spans.take(chosen))
        return found

    def _calibrated(self, found: Found) -> Found:
        """The same with calibrated probabilities."""
        if self.entity_map_ is None:
            return found
        return found._replace(
            spans=found.spans._replace(probability=self.entity_map_(found.spans.probability))
        )

    def _model_probability(self, threshold: float) -> float:
        """The smallest probability before calibration that is at least `threshold` afterwards."""
        return threshold if self.entity_map_ is None else max(self.entity_map_.least(threshold), 1e-9)

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

    def calibrate(self, X: Any, y: Any, on: str = "parts", method: str = "temperature") -> Any:
        """Calibrate probabilities by labelled data that training has not seen.

        With temperature scaling, all scores are divided by one number, `temperature_`: above 1 if the model was too
        sure. Best labellings stay what they are. Isotonic regression maps probabilities of entities to calibrated ones
        by a function that never falls, and changes no other probabilities. `fit` undoes both.

        Parameters
        ----------
        X, y
            As for `fit`.
        on : {"parts", "entities"}
            Whose probabilities count: those of labels or segments, or those of whole entities.
        method : {"temperature", "isotonic"}
            "isotonic" is for entities.

        Returns
        -------
        self
            With `temperature_` or `entity_map_`, and `calibration_`: the expected calibration error and the logarithmic
            score of these data before and after.
        """
        check_choice("on", on, ("parts", "entities"))
        check_choice("method", method, ("temperature", "isotonic"))
        if on == "entities":
            # By name: tasks stand on estimators.
            return import_module("partwise.tasks.calibration").calibrate_entities(self, X, y, method)
        if method == "isotonic":
            raise InputError("method='isotonic' is for on='entities'")
        return super().calibrate(X, y)  # type: ignore[misc]

    def entity_scores(self, X: Any, y: Any) -> EntityScores:
        """Probabilities of entities beside the truth: calibration error, precision and recall by threshold.

        Parameters
        ----------
        X, y
            As for `fit`.
        """
        true = self._true_spans(X, y)
        found = [self._found(X, threshold, "viterbi") for threshold in (None, _LEAST)]
        pairs = [(each.spans.probability, is_among(each.spans, true)) for each in found]
        return EntityScores(pairs[0], pairs[1], len(true.example), float(found[0].expected.sum()))

    def _entity_evidence(self, X: Any, true: SpanTable, least: float = _LEAST) -> tuple[Found, np.ndarray]:
        """All candidates from `least` on, before isotonic calibration, and the probability of each true entity."""
        p, first = [np.zeros(0)], 0

        def spans(query: Query, posterior: SpanPosterior) -> SpanTable:
            nonlocal first
            n = len(query.lengths)
            own = true.take((true.example >= first) & (true.example < first + n))
            p.append(posterior.probability(own._replace(example=own.example - first)))
            first += n
            return posterior.candidates(least)

        found = self._over_posteriors(spans, X)
        return found, np.concatenate(p)

    # -- guarantees -----------------------------------------------------------------------------

    def control_risk(self, X_cal: Any, y_cal: Any, risk: float = 0.05, delta: float = 0.1) -> Any:
        """Choose a threshold of probabilities that keeps the share of wrong entities below `risk`.

        ``predict_entities(X, risk=risk)`` then returns the entities of the best labellings that reach the threshold,
        and abstains from the others. If calibration and later sequences are drawn from one source, the expected number
        of wrong entities is at most `risk` times the expected number of those returned, where a sequence with more than
        three entities counts as three. This holds with probability 1 − `delta` over the calibration data (Learn then
        Test). The data must be new to training and to `calibrate`. Several risks may be asked for, one after another.
        `fit` and `calibrate` undo it.

        Parameters
        ----------
        X_cal, y_cal
            As for `fit`.
        risk, delta : float
            Between 0 and 1.

        Returns
        -------
        self
            With `risk_controls_`.
        """
        true, found = self._true_spans(X_cal, y_cal), self._found(X_cal, None, "viterbi")
        spans = found.spans
        control = controlled(
            spans.probability, is_among(spans, true), spans.example, found.n_examples, risk, delta
        )
        self.risk_controls_ = {**self.risk_controls_, control.risk: control}
        return self

    def _risk_threshold(self, risk: float) -> float:
        """The threshold that `control_risk` found for a risk."""
        control = self.risk_controls_.get(risk)
        if control is None:
            known = ", ".join(f"{each:g}" for each in sorted(self.risk_controls_)) or "none yet"
            words = f"risk={risk!r:.20}: call control_risk, or `partwise calibrate --risk`, with it first"
            raise InputError(f"{words} (this model has {known})")
        return control.threshold

    def _guarantee_state(self) -> dict[str, Any]:
        found = super()._guarantee_state()
        if self.entity_map_ is not None:
            found["entity_map"] = self.entity_map_.state()
        if self.risk_controls_:
            found["risks"] = [each._asdict() for each in self.risk_controls_.values()]
        return found

    def _set_guarantees(self, record: Mapping[str, Any]) -> None:
        super()._set_guarantees(record)
        if record.get("entity_map") is not None:
            self.entity_map_ = IsotonicMap.from_state(record["entity_map"])
        if record.get("risks"):
            self.risk_controls_ = stored_risks(record)

    def _set_names(self, on: str) -> list[Any]:
        return self._entity_types() if on == "entities" else ["labelling"]

    def _true_labellings(self, X: Any, y: Any) -> list[Any]:
        """True labellings in the form of `predict_kbest`."""
        raise NotImplementedError

    def _set_truths(self, X: Any, y: Any, on: str, k: int) -> Truths:
        self._sharpness()  # type: ignore[attr-defined]  # raises if the loss has no probabilities
        if on == "entities":
            true = self._true_spans(X, y)
            _, p = self._entity_evidence(X, true, 1.0)
            return Truths(
                1.0 - (p if self.entity_map_ is None else self.entity_map_(p)), true.example, true.kind
            )
        truths = self._true_labellings(X, y)
        ranked = self.predict_kbest(X, k)  # type: ignore[attr-defined]
        used = [i for i, own in enumerate(ranked) if own]
        scores = [
            ranked_truth(
                np.array([p for _, p in ranked[i]]), np.array([y == truths[i] for y, _ in ranked[i]])
            )
            for i in used
        ]
        return Truths(np.array(scores, np.float64), np.array(used, np.int64), np.zeros(len(used), np.int64))

    def _sets(self, X: Any, sets: ConformalSets) -> list[list[Any]]:
        if sets.on == "labellings":
            ranked = self.predict_kbest(X, sets.k)  # type: ignore[attr-defined]
            return [_inside(own, sets.quantiles[0]) for own in ranked]
        least = dict(
            zip(self._entity_types(), (1.0 - sets.quantiles[group] for group in sets.groups), strict=True)
        )
        threshold = max(min(least.values()) - _ROUNDING, LEAST / 2)
        return EntityLists(
            [entity for entity in own if entity.probability >= least[entity.type] - _ROUNDING]
            for own in self._entities(X, threshold, "viterbi")
        )


def _inside(ranked: list[tuple[Any, float]], quantile: float) -> list[tuple[Any, float]]:
    kept = within(np.array([p for _, p in ranked]), quantile)
    return [answer for answer, is_kept in zip(ranked, kept.tolist(), strict=True) if is_kept]


def is_among(spans: SpanTable, others: SpanTable) -> np.ndarray:
    """Whether each span is one of the others, bool (n_spans,)."""
    size = 1 + max(int(table.last.max(initial=0)) for table in (spans, others))
    kinds = 2 + max(int(table.kind.max(initial=0)) for table in (spans, others))
    keys = [
        ((table.example * size + table.first) * size + table.last) * kinds + table.kind + 1
        for table in (spans, others)
    ]
    return np.isin(*keys)


def checked_threshold(threshold: Any) -> float:
    """A threshold of probabilities: above 0 and at most 1."""
    is_number = isinstance(threshold, (int, float, np.number)) and not isinstance(threshold, bool)
    if not is_number or not 0.0 < threshold <= 1.0:
        raise InputError(f"threshold must be a probability above 0 and at most 1, not {threshold!r:.40}")
    return float(threshold)
