"""Scores of label sequences as if they were one long list: the names of ``sklearn_crfsuite.metrics``.

The scores themselves are scikit-learn's, which is imported when one is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from partwise.data.frames import unpacked
from partwise.errors import InputError

_Sequences = Sequence[Sequence[Any]]


def flat_accuracy_score(y_true: _Sequences, y_pred: _Sequences) -> float:
    """Share of positions with the right label."""
    return _score("accuracy_score", y_true, y_pred)


def flat_precision_score(y_true: _Sequences, y_pred: _Sequences, **options: Any) -> Any:
    """Precision; `options` are those of ``sklearn.metrics.precision_score``."""
    return _score("precision_score", y_true, y_pred, **options)


def flat_recall_score(y_true: _Sequences, y_pred: _Sequences, **options: Any) -> Any:
    """Recall; `options` are those of ``sklearn.metrics.recall_score``."""
    return _score("recall_score", y_true, y_pred, **options)


def flat_f1_score(y_true: _Sequences, y_pred: _Sequences, **options: Any) -> Any:
    """F1; `options` are those of ``sklearn.metrics.f1_score``."""
    return _score("f1_score", y_true, y_pred, **options)


def flat_fbeta_score(y_true: _Sequences, y_pred: _Sequences, beta: float, **options: Any) -> Any:
    """F-beta; `options` are those of ``sklearn.metrics.fbeta_score``."""
    return _score("fbeta_score", y_true, y_pred, beta=beta, **options)


def flat_classification_report(
    y_true: _Sequences, y_pred: _Sequences, labels: Iterable[Any] | None = None, **options: Any
) -> Any:
    """A table of precision, recall and F1 by label; `options` are scikit-learn's."""
    own = None if labels is None else list(labels)
    return _score("classification_report", y_true, y_pred, labels=own, **options)


def sequence_accuracy_score(y_true: _Sequences, y_pred: _Sequences) -> float:
    """Share of sequences whose labels are all right."""
    pairs = list(zip(unpacked(y_true), unpacked(y_pred), strict=True))
    return sum(list(a) == list(b) for a, b in pairs) / len(pairs) if pairs else 0.0


def _score(name: str, y_true: _Sequences, y_pred: _Sequences, **options: Any) -> Any:
    import sklearn.metrics

    y_true, y_pred = unpacked(y_true), unpacked(y_pred)
    lengths = [list(map(len, each)) for each in (y_true, y_pred)]
    if lengths[0] != lengths[1]:
        raise InputError("y_true and y_pred differ in the number of sequences or in their lengths")
    flat = [list(chain.from_iterable(each)) for each in (y_true, y_pred)]
    return getattr(sklearn.metrics, name)(*flat, **options)
