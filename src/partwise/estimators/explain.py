"""Why a prediction: exact contributions of every feature of every part; the largest weights of a model.

A score is a sum over the parts of a labelling, and the score of a part one over the attributes of its row. So one walk
explains every linear model. A task only says which parts a labelling uses and what they are called.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from partwise.core.maps import FeatureMap
from partwise.data.frames import frame_of
from partwise.errors import InputError
from partwise.estimators.encoded import OwnRows
from partwise.estimators.labels import known_labels
from partwise.estimators.model import LinearModel
from partwise.estimators.predictions import Query
from partwise.structures.contract import Shapes, Structure

INTERCEPT = "(intercept)"  # the attribute that all rows of a classifier have


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

    def to_frame(self) -> Any:
        """The contributions as a pandas DataFrame, one row each."""
        return frame_of([each._asdict() for each in self.contributions])

    def __str__(self) -> str:
        """A table of the largest contributions at every position."""
        lines = [self._head()]
        for heading, terms in self._blocks():
            lines.append(heading)
            lines += [f"        {contribution:+9.4f}  {name}" for name, contribution in terms]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The same table with bars, for notebooks."""
        from partwise.report.notebook import explanation_html

        return explanation_html(self._head(), self._blocks())

    def _head(self) -> str:
        head = f"score {self.score:+.4f} of {' '.join(map(str, self.labels))}"
        return head if self.against is None else f"{head}\nabove {' '.join(map(str, self.against))}"

    def _blocks(self) -> Iterator[tuple[str, list[tuple[str, float]]]]:
        """A heading and the largest terms, (name, contribution), of every position that has terms."""
        for position, label in enumerate(self.labels):
            terms = [each for each in self.contributions if each.position == position]
            if not terms:
                continue
            total = math.fsum(each.contribution for each in terms)
            other = ""
            if self.against is not None and self.against[position] != label:
                other = f" (not {self.against[position]})"
            shown = self.top(8, position)
            rows = [(_term(each), each.contribution) for each in shown]
            if len(terms) > len(shown):
                rest = math.fsum(each.contribution for each in self.top(len(terms), position)[len(shown) :])
                rows.append((f"in {len(terms) - len(shown)} smaller terms", rest))
            yield f"{position:4d}  {label}{other}  {total:+.4f}", rows


class Use(NamedTuple):
    """A part that a labelling uses, and how a task calls it.

    Attributes
    ----------
    kind : str
        The kind of rows that feed the part.
    row, column : int
        The row of the example, 0 for a tied kind, and the part among those of the row.
    position : int or tuple of int
        Where the part stands.
    label : label, or tuple of labels
    prefix : str
        What comes before the names of attributes; the whole name if the kind is tied.
    """

    kind: str
    row: int
    column: int
    position: Any
    label: Any
    prefix: str = ""


class TopKind(NamedTuple):
    """A kind of rows whose weights `top_features` shows.

    Attributes
    ----------
    kind : str
    shown : list
        By column, the label that is shown.
    asked : list
        By column, the label whose weights users ask for by it.
    prefix : str
        What comes before the names of attributes; the whole name if the kind is tied.
    """

    kind: str
    shown: Sequence[Any]
    asked: Sequence[Any]
    prefix: str = ""


class Explanations:
    """Explanations of an estimator that also has `Predictions`.

    A task says how a labelling is read (`_given`), which parts it uses and what they are called (`_uses`), and what
    the columns of each kind stand for (`_top_kinds`). The encoder names attributes (`named`).
    """

    _encoder: Any
    _model: LinearModel
    _alone: Any
    _known_labels: Any
    _queries: Any
    _ranked: Any
    _require_model: Any
    predict: Any
    # Words for an example and for what it is given; whether a text may be a labelling.
    _words: ClassVar[tuple[str, str]] = ("sequence", "labelling")
    _has_text_labellings: ClassVar[bool] = False
    # How many of the best labellings may have to be looked at to find the runner-up.
    _n_ranked: ClassVar[int] = 2
    # Whether a difference has one term for an attribute, with the difference of the two labellings' weights.
    _merges: ClassVar[bool] = False

    def explain(self, x: Any, y: Any = None, against: Any = None) -> Any:
        """Contributions to the score of a labelling of one example; they add up to it.

        Parameters
        ----------
        x : one example, as in X
        y : labelling, optional
            By default the best one.
        against : "runner-up" or labelling, optional
            Explain the difference to the second best labelling (the best other than `y`), or to a given one. A
            positive contribution speaks for `y`.

        Returns
        -------
        Explanation
            Constituency parsers return a ``TreeExplanation``. Terms of other models have these positions and labels:

            - sequences: the position; a transition stands at its last label, its label is the tuple of labels.
            - segments: labels are those of positions in the scheme IOB2. Features of a segment stand at its first
              position, and their names begin with ``first..last:``.
            - graphs: the node; an edge or factor stands at the last of its nodes, its label is the tuple of its nodes'
              labels, and its attributes begin with the kind and the nodes.
            - dependency trees: the modifier of the arc, with the relation, or the kind of part ("arc", "sibling",
              "grandparent"). Labels are (head, relation), relations None where there are none.
            - classes: the one position is the example. A class called "runner-up" cannot be asked for.
            - sets of labels: the number of the label, with 0 or 1; a pair of labels stands at the second of them.
        """
        self._require_model()
        X = self._alone(x)
        [query] = self._queries(X)
        shown, labels = self._given(query, self.predict(X)[0] if y is None else y, "y")
        terms, other = self._terms(query, labels), None
        if against is not None:
            other, labels = self._rival(query, X, labels, against)
            terms = self._difference(terms, self._terms(query, labels))
        terms = sorted((term for term in terms if term.weight), key=self._place)
        return self._explained(shown, other, math.fsum(term.contribution for term in terms), terms)

    # -- for subclasses -------------------------------------------------------------------------

    def _given(self, query: Query, y: Any, name: str) -> tuple[Any, Any]:
        """A labelling as explanations show it, and as the structure has it; raises if it cannot be one."""
        raise NotImplementedError

    def _uses(self, query: Query, labels: Any) -> Iterable[Use]:
        """The parts of a labelling."""
        raise NotImplementedError

    def _top_kinds(self) -> Iterable[TopKind]:
        """The kinds of rows that `top_features` shows."""
        raise NotImplementedError

    def _term(self, use: Use, attribute: str, value: float, weight: float) -> Any:
        """A term of a score as explanations have it."""
        return Contribution(use.position, attribute, use.label, value, weight, weight * value)

    def _place(self, term: Any) -> Any:
        """The key by which terms are sorted."""
        return term.position

    def _difference(self, mine: list[Any], theirs: list[Any]) -> list[Any]:
        """The terms of two labellings' difference; those that they share are left out."""
        if self._merges:
            return merged(mine, theirs)
        ours, others = Counter(mine), Counter(theirs)  # counted, since a labelling may have a term twice
        negative = (term._replace(contribution=-term.contribution) for term in (others - ours).elements())
        return [*(ours - others).elements(), *negative]

    def _explained(self, shown: Any, other: Any, score: float, terms: list[Any]) -> Any:
        """What `explain` returns."""
        return Explanation(shown, other, score, terms)

    # -- generic --------------------------------------------------------------------------------

    def _rival(self, query: Query, X: Any, labels: Any, against: Any) -> tuple[Any, Any]:
        """The labelling to compare with."""
        example, labelling = self._words
        if not isinstance(against, str) or (self._has_text_labellings and against != "runner-up"):
            return self._given(query, against, "against")
        if against != "runner-up":
            raise InputError(f"against must be 'runner-up' or a {labelling}, not {against!r:.40}")
        for found, _ in self._ranked(X, self._n_ranked)[0]:
            shown, theirs = self._given(query, found, "against")
            if not np.array_equal(theirs, labels):
                return shown, theirs
        raise InputError(f"this {example} has no other {labelling} to compare with")

    def _terms(self, query: Query, labels: Any) -> list[Any]:
        """The terms of a labelling's score: each attribute of each row that it uses."""
        terms, own, sources = [], iter(query.encoded.own), {}
        for kind in self._model.structure.kinds:
            rows = None if kind.tied else next(own)
            sources[kind.name] = rows, self._model.maps[kind.name], self._model.weights_of(kind.name)
        for use in self._uses(query, labels):
            rows, feature_map, weights = sources[use.kind]
            found = []
            for attribute, value in row_of(rows, feature_map.n_dense, use.row):
                weight = weight_of(feature_map, weights, attribute, use.column)
                if weight or self._merges:
                    found.append((attribute, value, weight))
            names = self._attributes(use.kind, [attribute for attribute, _, _ in found])
            for name, (_, value, weight) in zip(names, found, strict=True):
                terms.append(self._term(use, use.prefix + name, value, weight))
        return terms

    def _attributes(self, kind: str, ids: list[int]) -> list[str]:
        """Names of attributes; the one of a tied kind has no name."""
        is_tied = any(each.tied for each in self._model.structure.kinds if each.name == kind)
        return [""] * len(ids) if is_tied else self._encoder.named(kind, ids)

    def top_features(self, n: int = 10, label: Any = None) -> list[tuple[str, Any, float]]:
        """The `n` largest weights by size: (attribute, label, weight), of one label if given."""
        self._require_model()
        kinds, found = list(self._top_kinds()), []
        if label is not None and not any(label in kind.asked for kind in kinds):
            labels = list(dict.fromkeys(each for kind in kinds for each in kind.asked if each is not None))
            raise InputError(f"label {label!r:.60} was not in training{known_labels(labels)}")
        for kind in kinds:
            attribute, column, index = self._model.maps[kind.kind].pairs()
            weight = self._model.weights_of(kind.kind)[index]
            if label is not None:
                chosen = np.array([each == label for each in kind.asked], bool)[column]
                attribute, column, weight = attribute[chosen], column[chosen], weight[chosen]
            order = np.argsort(-np.abs(weight), kind="stable")[:n]
            names = self._attributes(kind.kind, attribute[order].tolist())
            rows = zip(names, column[order].tolist(), weight[order].tolist(), strict=True)
            found += [(kind.prefix + name, kind.shown[k], value) for name, k, value in rows if value]
        return sorted(found, key=lambda each: -abs(each[2]))[:n]


class Transitions:
    """The largest weights of an estimator that has `transition_coef_`, (n_labels, n_labels)."""

    classes_: np.ndarray
    transition_coef_: Any

    def top_transitions(self, n: int = 10) -> list[tuple[Any, Any, float]]:
        """The `n` largest transition weights by size: (before, after, weight)."""
        self._require_fitted()  # type: ignore[attr-defined]
        weights: np.ndarray = self.transition_coef_
        if weights.ndim > 2:
            raise InputError("top_transitions is for models of order 1; see transition_coef_")
        labels, n_labels = self.classes_.tolist(), len(self.classes_)
        order = np.argsort(-np.abs(weights.ravel()), kind="stable")[:n].tolist()
        found = [(labels[k // n_labels], labels[k % n_labels], float(weights.flat[k])) for k in order]
        return [each for each in found if each[2]]

    def _shown_transitions(self, n: int, label: Any = None) -> list[tuple[Any, Any, float]]:
        if self.transition_coef_.ndim > 2:
            return []
        found = self.top_transitions(len(self.classes_) ** 2)
        return [each for each in found if label is None or label in each[:2]][:n]


def merged(mine: list[Contribution], theirs: list[Contribution]) -> list[Contribution]:
    """The terms of a difference, one for each attribute of a position; both lists have the same attributes."""
    weights = {term[:2]: term.weight for term in theirs}
    found = [term._replace(weight=term.weight - weights[term[:2]]) for term in mine]
    return [term._replace(contribution=term.weight * term.value) for term in found]


def rows_and_columns(
    structure: Structure, shapes: Shapes, parts: np.ndarray
) -> Iterator[tuple[str, int, int]]:
    """Kind, row and column of the parts of one example, kind after kind."""
    first, counts = 0, iter(structure.row_counts(shapes))
    for kind in structure.kinds:
        end = first + kind.width * (1 if kind.tied else int(next(counts)[0]))
        for part in parts[(parts >= first) & (parts < end)].tolist():
            yield kind.name, *divmod(part - first, kind.width)
        first = end


def row_of(rows: OwnRows | None, n_dense: int, k: int) -> list[tuple[int, float]]:
    """Attributes and values of row k, dense attributes numbered first; of a tied row, its one attribute."""
    if rows is None:
        return [(0, 1.0)]
    row: list[tuple[int, float]] = []
    if rows.dense is not None:
        row += [(j, float(value)) for j, value in enumerate(rows.dense[k]) if value]
    if rows.sparse is not None:
        own = slice(int(rows.sparse.row_ptr[k]), int(rows.sparse.row_ptr[k + 1]))
        ids = (n_dense + rows.sparse.ids[own].astype(np.int64)).tolist()
        values = rows.sparse.values  # compiled code reads them in single precision
        row += zip(
            ids, [1.0] * len(ids) if values is None else values[own].astype(np.float32).tolist(), strict=True
        )
    return row


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


def _term(term: Contribution) -> str:
    label = " ".join(map(str, term.label)) if isinstance(term.label, tuple) else str(term.label)
    from_other = term.weight * term.value != term.contribution
    return f"{term.attribute} → {label}" + ("  (of the other)" if from_other else "")
