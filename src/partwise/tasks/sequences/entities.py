"""Entities of label sequences: which labels start, continue and end one, and the posterior of spans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from partwise.core.arrays import offsets
from partwise.errors import InputError
from partwise.estimators.checks import check_targets
from partwise.estimators.entities import EntityAnswers, EntityLists, Found, checked_threshold
from partwise.estimators.labels import check_hashable, flat_labels, in_order, split
from partwise.estimators.predictions import Query, blocks
from partwise.scoring.labelling import looks_like_chunks
from partwise.scoring.metrics import chunk_boundary, tag_and_type
from partwise.structures.chain.span_labels import labels_with_spans
from partwise.structures.chain.spans import ChainSpans, SpanRules, chain_spans
from partwise.structures.span_table import SpanTable
from partwise.tasks.sequences.chain_scores import chain_of_model, history_scores
from partwise.tasks.sequences.data import lengths_of, pieces
from partwise.tasks.sequences.one import best_codes, spans

# Entries of the pair probabilities of a piece of the data: 32 MB of double precision numbers.
_MOST_PAIRS = 2**22
_BARE = frozenset("OBIESLU")


class Entities:
    """The entities that labels stand for.

    Labels of a chunk scheme (B-PER, I-PER, O; IOB1, IOB2, IOBES, BILOU) are read as `partwise.metrics.chunks` does.
    Other labels with an "O" among them are plain: an entity is a run of equal labels, and "O" is outside.

    Parameters
    ----------
    labels : list
        Those of a model, in the order of their numbers.
    """

    def __init__(self, labels: Sequence[Any]):
        self._labels, self._is_plain = list(labels), not _are_chunks(labels)
        if self._is_plain and "O" not in self._labels:
            raise InputError(
                'the labels of this model mark no entities: labels such as B-PER, or plain types and "O", do'
            )
        self._types: dict[Any, int] = {}
        for label in self._labels:
            if (own := self._type_of(label)) is not None:
                self._types.setdefault(own, len(self._types))
        self._types = {name: k for k, name in enumerate(in_order(self._types))}

    @property
    def types(self) -> list[Any]:
        return list(self._types)

    @cached_property
    def rules(self) -> SpanRules:
        return self._rules(self._labels)

    def _type_of(self, label: Any) -> Any:
        """The type of the entities that hold a label, None if it is outside."""
        if self._is_plain:
            return None if label == "O" else label
        tag, kind = tag_and_type(label)
        return None if tag == "O" else kind

    def _rules(self, labels: list[Any]) -> SpanRules:
        kind = np.array([self._types.get(self._type_of(label), -1) for label in labels], np.int64)
        if self._is_plain:
            differs = np.array([[a != b for b in labels] for a in ["O", *labels]])
            inside = np.array([label != "O" for label in labels])
            starts, closes = differs & inside, differs[1:] & inside[:, None]
        else:
            both = np.array([[chunk_boundary(a, b, False) for b in labels] for a in ["O", *labels]], bool)
            starts, closes = both[:, :, 1], both[1:].any(axis=2)
        return SpanRules(np.roll(starts, -1, axis=0), closes, kind, len(self._types))

    def spans(self, labels: Iterable[Sequence[Any]], lengths: np.ndarray) -> SpanTable:
        """The entities of labellings. Labels may be others than those of the model: their types have the number −1."""
        index, flat = {label: k for k, label in enumerate(self._labels)}, []
        for own in labels:
            flat += [index.setdefault(label, len(index)) for label in own]
        return self._rules(list(index)).spans(np.array(flat, np.int64), lengths)


class SequenceEntities(EntityAnswers):
    """Entities of an estimator with `classes_` and a chain."""

    classes_: np.ndarray

    def predict_entities(
        self,
        X: Any,
        threshold: float | None = None,
        decode: str = "viterbi",
        fixed: Any = None,
        forbid: Any = None,
        risk: float | None = None,
    ) -> EntityLists:
        """The entities of every sequence, each with the probability of exactly this entity.

        The probability sums over all labellings that have the entity, with these borders and this type.

        Parameters
        ----------
        X
            As for `predict`.
        threshold : float, optional
            Return all entities with at least this probability, also those that are in no best labelling. They may
            overlap.
        decode : {"viterbi", "marginal", "mbr"}
            Which entities are returned without `threshold`: those of the best labelling, those of the most probable
            label at each position, or the set with the largest expected F1 over all sequences of the call.
        fixed, forbid
            As for `predict`.
        risk : float, optional
            Leave out entities of the best labelling so that at most this share of those returned is wrong; see
            :meth:`control_risk`, which must have been called with this risk.

        Returns
        -------
        EntityLists
            A list of lists of `Entity`, named tuples (first, last, type, probability) in order of position; `last` is
            included. Its method ``to_frame(words)`` makes a DataFrame.
        """
        return self._entities(X, threshold, decode, fixed, forbid, risk=risk)

    def _entity_rules(self) -> Entities:
        self._require_model()  # type: ignore[attr-defined]
        return _entities_of(tuple(self.classes_.tolist()))

    def _entity_types(self) -> list[Any]:
        return self._entity_rules().types

    def _entity_queries(self, X: Any, fixed: Any = None, forbid: Any = None) -> Iterator[Query]:
        self._entity_rules()
        source = self._source(X)  # type: ignore[attr-defined]
        lengths, most = lengths_of(source), max(1, _MOST_PAIRS // len(self.classes_) ** 2)
        if fixed is not None:
            flat_labels(fixed := list(fixed), lengths, "fixed")  # raises before any work
        ends = blocks(lengths, most)
        for piece, (first, last) in zip(pieces(source, lengths, most), ends, strict=True):
            own = fixed if fixed is None else fixed[first:last]
            yield self._constrained(self._query(piece), own, forbid)  # type: ignore[attr-defined]

    def _span_posterior(self, query: Query) -> ChainSpans:
        packed = query.packed(self._sharpness())  # type: ignore[attr-defined]
        posterior, values = chain_spans(packed, self._entity_rules().rules, query.lengths)
        self._require_possible(query, values)  # type: ignore[attr-defined]
        return posterior

    def _decoded_spans(self, query: Query, decode: str) -> SpanTable:
        if decode == "viterbi":
            codes, values = query.best()
            self._require_possible(query, values)  # type: ignore[attr-defined]
        else:
            codes = np.asarray(self._counts(query)).reshape(-1, len(self.classes_)).argmax(axis=1)  # type: ignore[attr-defined]
        return self._entity_rules().rules.spans(np.asarray(codes, np.int64), query.lengths)

    def _found(self, X: Any, threshold: float | None, decode: str, *constraints: Any) -> Found:
        if decode != "viterbi" or any(each is not None for each in constraints):
            return super()._found(X, threshold, decode, *constraints)
        answers = [self._of_only_one(X, spans)]  # type: ignore[attr-defined]
        if threshold is None:
            answers.append(self._of_only_one(X, best_codes))  # type: ignore[attr-defined]
        if None in answers:
            return super()._found(X, threshold, decode, *constraints)
        [posterior] = answers[0]
        if threshold is not None:
            found = posterior.candidates(self._model_probability(checked_threshold(threshold)))
        else:
            own = self._entity_rules().rules.spans(np.array(answers[1][0]), np.array([len(X[0])]))
            found = own._replace(probability=posterior.probability(own))
        return self._calibrated(Found(found, 1, posterior.expected()))

    def _with_best_entities(self, X: Any, fixed: Any, forbid: Any) -> list[list[Any]]:
        """The most probable labellings with the entities of the largest expected F1."""
        found, rules, first = self._found(X, None, "mbr", fixed, forbid), self._entity_rules().rules, 0
        results: list[list[Any]] = []
        for query in self._entity_queries(X, fixed, forbid):
            n, (codes, _) = len(query.lengths), query.best()
            here = (found.spans.example >= first) & (found.spans.example < first + n)
            wanted = found.spans.take(here)
            _with_spans(rules, query, codes, wanted._replace(example=wanted.example - first))
            results += split(self.classes_[codes].tolist(), query.lengths)
            first += n
        return results

    def _true_spans(self, X: Any, y: Any) -> SpanTable:
        lengths = lengths_of(self._source(X))  # type: ignore[attr-defined]
        if y is None and (labels := getattr(X, "labels", None)) is not None:
            y = split(labels, lengths)
        check_targets(y, type(self).__name__)
        flat = flat_labels(y, lengths)
        check_hashable(flat, lengths)
        if None in flat:
            raise InputError("y must give a label at every position to say which entities are true")
        return self._entity_rules().spans([flat], lengths)

    def _true_labellings(self, X: Any, y: Any) -> list[list[Any]]:
        lengths = lengths_of(self._source(X))  # type: ignore[attr-defined]
        check_targets(y, type(self).__name__)
        return split(flat_labels(y, lengths), lengths)

    def _may_follow(self) -> np.ndarray:
        rules, allowed = self._entity_rules().rules, getattr(self._model.structure, "allowed", None)  # type: ignore[attr-defined]
        pairs = rules.starts[:-1] & rules.closes & (True if allowed is None else allowed)
        kinds = (rules.kind[:, None] == np.arange(rules.n_kinds)).astype(int)
        return (kinds.T @ pairs @ kinds) > 0


def _with_spans(rules: SpanRules, query: Query, codes: np.ndarray, wanted: SpanTable) -> None:
    """Change best labels, in place, to the best ones with the wanted spans, in sequences where they have others."""
    n, own = len(query.lengths), rules.spans(codes, query.lengths)
    rows, ptr = np.column_stack(wanted[1:4]), wanted.by_example(n)
    own_rows, own_ptr, first = np.column_stack(own[1:4]), own.by_example(n), offsets(query.lengths)
    differs = [
        not np.array_equal(rows[ptr[i] : ptr[i + 1]], own_rows[own_ptr[i] : own_ptr[i + 1]]) for i in range(n)
    ]
    if not any(differs):
        return
    scores, order = history_scores(query), chain_of_model(query.model).order
    place = np.cumsum(query.lengths > 0) - 1  # sequences without positions have no scores
    for i in np.flatnonzero(differs).tolist():
        nodes, edges = scores[place[i]]
        labels = labels_with_spans(rules, nodes, edges, rows[ptr[i] : ptr[i + 1]], order)
        if labels is not None:  # otherwise no labelling has just these, and the best one stays
            codes[first[i] : first[i + 1]] = labels


@lru_cache(maxsize=64)
def _entities_of(labels: tuple[Any, ...]) -> Entities:
    return Entities(labels)


def _are_chunks(labels: Sequence[Any]) -> bool:
    """Whether labels are those of a chunk scheme; a scheme with one type may leave it out (B, I, O)."""
    names = set(labels)
    return looks_like_chunks(labels) or ("O" in names and names <= _BARE and not names.isdisjoint("BI"))
