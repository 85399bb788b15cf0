"""What all explorers share: one answer's form, what labelled data say, and terms of explanations cut to size."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from partwise.core.losses import Loss
from partwise.errors import InputError
from partwise.report.probabilities import distributions
from partwise.tasks import class_of

_TERMS_HERE = 8  # of one place
_TERMS_AGAINST = 12
_MOST_LABELS = 8
_LONGEST_NAME = 160
Parts = tuple[np.ndarray, np.ndarray]


class Term(NamedTuple):
    """One term of a score: about positions `first` to `end` - 1."""

    first: int
    end: int
    name: str
    label: str
    contribution: float


class LabelRow(NamedTuple):
    """How well one label is found."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int


@dataclass
class Evidence:
    """What labelled data say about a model.

    Attributes
    ----------
    scores : list of (name, value)
        In words.
    labels : list of LabelRow
    confusion : (labels, matrix) or None
        ``matrix[i][j]`` times label i was taken for label j.
    errors : int64 array (n_examples,)
        Wrong parts of every example.
    predicted, every : (probability, is_true) or None
        Of the parts that were predicted, and of all parts; None where the loss has no probabilities.
    """

    scores: list[tuple[str, str]]
    labels: list[LabelRow]
    confusion: tuple[list[str], np.ndarray] | None
    errors: np.ndarray
    predicted: Parts | None = None
    every: Parts | None = None
    missing: list[str] = field(default_factory=list)


class Explorer(ABC):
    """A fitted estimator, asked about one example at a time.

    Answers are dicts of plain values; docs/serving.md describes them. Inputs and truths are what the estimator's own
    methods take, or a corpus that `pick` cuts.
    """

    kind: ClassVar[str]
    longest: ClassVar[int] = 2000  # positions that are answered at a time

    def __init__(self, estimator: Any):
        self.estimator = estimator

    @property
    def has_probabilities(self) -> bool:
        return not Loss.of(self.estimator.loss).is_hard

    @abstractmethod
    def answer(self, x: Any, truth: Any = None, kbest: int = 3) -> dict[str, Any]:
        """All there is to show of one example."""

    @abstractmethod
    def evidence(self, inputs: Any, truths: Any) -> Evidence:
        """Scores, confusions, errors of every example and probabilities beside the truth."""

    def pick(self, inputs: Any, truths: Any, i: int) -> tuple[Any, Any]:
        """Example i of some."""
        return inputs[i], truths[i]

    @abstractmethod
    def read(self, request: dict[str, Any]) -> Any:
        """The one example that a request holds; InputError where it holds none."""

    def size(self, x: Any) -> int:
        """How many positions an example has."""
        return len(x)

    @abstractmethod
    def expects(self) -> dict[str, str]:
        """How a person writes an example: ``format``, a sentence, and ``example``, a text that `read` takes."""

    def value_name(self) -> str:
        """What the values of k best labellings are."""
        return "probability" if self.has_probabilities else "score"


def explorer_of(estimator: Any, model: object = None) -> Explorer:
    """The explorer for an estimator; an error if there is none."""
    return class_of(estimator, "page", model)(estimator)


def ranked(names: Sequence[str], array: np.ndarray) -> list[list[list[Any]]]:
    """Of every row the most probable labels with their probabilities."""
    return [
        [[name, p] for name, p in row[:_MOST_LABELS]] for row in distributions(list(names), np.asarray(array))
    ]


def shown_terms(terms: Iterable[Term]) -> list[list[Any]]:
    """The largest terms of every place, by place."""
    by_place: dict[tuple[int, int], list[Term]] = {}
    for term in terms:
        by_place.setdefault(term[:2], []).append(term)
    return [row for place in sorted(by_place) for row in _largest(by_place[place], _TERMS_HERE)]


def difference(labels: Any, score: float, terms: Iterable[Term]) -> dict[str, Any]:
    """What speaks for the answer and against another one."""
    return {"labels": labels, "score": score, "terms": _largest(list(terms), _TERMS_AGAINST)}


def term_of(contribution: Any) -> Term:
    """A term of ``partwise.estimators.explain``."""
    label = contribution.label
    text = " → ".join(map(str, label)) if isinstance(label, tuple) else str(label)
    first = contribution.position
    return Term(first, first + 1, contribution.attribute, text, contribution.contribution)


def percent(rate: float | None) -> str:
    return "" if rate is None else f"{100 * rate:.2f} %"


def shortened(text: str, longest: int = _LONGEST_NAME) -> str:
    """A text that fits on a page."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def text_or(request: dict[str, Any], key: str) -> Any:
    """The value of `key`, or the text of a request that has none; one of the two must be there."""
    unknown = set(request) - {"text", key}
    if unknown:
        raise InputError(f'a request has "text" or "{key}", not {sorted(unknown)[0]!r:.40}')
    if (key in request) == ("text" in request):
        raise InputError(f'a request needs "text" or "{key}", one of the two')
    if "text" in request and not isinstance(request["text"], str):
        raise InputError('"text" must be a string')
    return request.get(key)


def _largest(terms: list[Term], n: int) -> list[list[Any]]:
    chosen = sorted(terms, key=lambda term: -abs(term.contribution))[:n]
    return [
        [term.first, term.end, shortened(term.name), shortened(term.label), round(term.contribution, 6)]
        for term in chosen
    ]
