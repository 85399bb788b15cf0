"""Contents of pages, for all tasks: evidence from labelled data, terms of explanations, shortened texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from partwise.errors import InputError
from partwise.scoring.metrics import confusion

# Numbers of terms of one place, and of a comparison, that pages show: more do not fit beside the words.
_TERMS_HERE, _TERMS_AGAINST = 8, 12
_LONGEST_NAME = 160  # characters of a name on a page; longer names would fill the page
Parts = tuple[np.ndarray, np.ndarray]


class Term(NamedTuple):
    """One term of a score: about positions `first` to `end` - 1."""

    first: int
    end: int
    name: str
    label: str
    contribution: float


class LabelRow(NamedTuple):
    """Scores of one label."""

    label: str
    precision: float
    recall: float
    f1: float
    support: int


@dataclass
class Evidence:
    """Scores and errors of a model on labelled data.

    Attributes
    ----------
    scores : list of (name, value)
        In words; the first three are those that people look for first.
    labels : list of LabelRow
    confusion : (labels, matrix) or None
        ``matrix[i][j]`` times label i was taken for label j.
    errors : int64 array (n_examples,)
        Wrong parts of every example.
    predicted, every : (probability, is_true) or None
        Of the predicted parts, and of all parts; None if the loss has no probabilities.
    types : list of LabelRow
        Scores by type of entity, chunk or segment, if there are types.
    missing : list of str
        Notes on tables that cannot be shown.
    """

    scores: list[tuple[str, str]]
    labels: list[LabelRow]
    confusion: tuple[list[str], np.ndarray] | None
    errors: np.ndarray
    predicted: Parts | None = None
    every: Parts | None = None
    types: list[LabelRow] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def shown_terms(terms: Iterable[Term]) -> list[list[Any]]:
    """The largest terms of each place, in the order of the places."""
    by_place: dict[tuple[int, int], list[Term]] = {}
    for term in terms:
        by_place.setdefault(term[:2], []).append(term)
    return [row for place in sorted(by_place) for row in _largest(by_place[place], _TERMS_HERE)]


def difference(labels: Any, score: float, terms: Iterable[Term]) -> dict[str, Any]:
    """The contributions to the lead of the best answer over another answer."""
    return {"labels": labels, "score": score, "terms": _largest(list(terms), _TERMS_AGAINST)}


def term_of(contribution: Any) -> Term:
    """A term of ``partwise.estimators.explain``."""
    label = contribution.label
    text = " → ".join(map(str, label)) if isinstance(label, tuple) else str(label)
    first = contribution.position
    return Term(first, first + 1, contribution.attribute, text, contribution.contribution)


def paired(rows: Iterable[tuple[float, bool]]) -> Parts:
    """Pairs (probability, is_true) as two arrays."""
    columns = list(rows)
    return np.array([p for p, _ in columns]), np.array([is_true for _, is_true in columns], bool)


def percent(rate: float | None) -> str:
    return "" if rate is None else f"{100 * rate:.2f} %"


def shortened(text: str, longest: int = _LONGEST_NAME) -> str:
    """A text that fits on a page."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def counted_labels(per_label: Mapping[str, Any]) -> list[LabelRow]:
    """Scores of labels from their counts."""
    return [
        LabelRow(shortened(str(name)), counts.precision, counts.recall, counts.f1, counts.n_true)
        for name, counts in per_label.items()
    ]


def confusions(true: Any, predicted: Any) -> tuple[list[str], np.ndarray]:
    """The confusion matrix of lists of labels, with its labels as pages show them."""
    names, matrix = confusion(true, predicted)
    return [shortened(str(name)) for name in names], matrix


def text_or(request: dict[str, Any], key: str) -> Any:
    """The value of `key`, or None if the request has a text instead. A request must have one of the two."""
    unknown = set(request) - {"text", key}
    if unknown:
        raise InputError(f'a request has "text" or "{key}", not {sorted(unknown)[0]!r:.40}')
    if (key in request) == ("text" in request):
        raise InputError(f'a request needs "text" or "{key}", one of the two')
    if "text" in request and not isinstance(request["text"], str):
        raise InputError('"text" must be a string')
    if key in request and request[key] is None:
        raise InputError(f'"{key}" must not be null')
    return request.get(key)


def _largest(terms: list[Term], n: int) -> list[list[Any]]:
    chosen = sorted(terms, key=lambda term: -abs(term.contribution))[:n]
    return [
        [term.first, term.end, shortened(term.name), shortened(term.label), round(term.contribution, 6)]
        for term in chosen
    ]
