"""Scores of sets of labels: exact sets, F1 over all labels (micro), and each label by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from partwise.scoring.metrics import LabelScores


@dataclass
class LabelSetScores:
    """Scores of predicted sets of labels.

    Attributes
    ----------
    accuracy : float
        Share of examples with exactly the true set.
    precision, recall, f1 : float
        Of all (example, label) pairs together.
    n_examples, n_labels : int
        Examples, and true (example, label) pairs.
    per_label : list of LabelScores
        The most frequent label first.
    """

    accuracy: float
    precision: float
    recall: float
    f1: float
    n_examples: int
    n_labels: int
    per_label: list[LabelScores]

    def in_short(self) -> dict[str, Any]:
        """Accuracy and F1 alone."""
        return {"accuracy": self.accuracy, "f1": self.f1, "f1_kind": "micro"}

    def as_dict(self) -> dict[str, Any]:
        """All scores, for JSON."""
        names = ("precision", "recall", "f1", "support")
        rows = {str(row.label): {name: getattr(row, name) for name in names} for row in self.per_label}
        counts = {"n_examples": self.n_examples, "n_labels": self.n_labels}
        shares = {"precision": self.precision, "recall": self.recall}
        return self.in_short() | shares | counts | {"per_label": rows}


def label_set_scores(
    true: Sequence[AbstractSet[str]], predicted: Sequence[AbstractSet[str]]
) -> LabelSetScores:
    """Score predicted sets of labels."""
    hits = Counter(label for a, b in zip(true, predicted, strict=True) for label in a & b)
    n_true, n_predicted = (Counter(label for own in sets for label in own) for sets in (true, predicted))
    rows = [
        LabelScores(label, *_rates(hits[label], n_predicted[label], n_true[label]), n_true[label])
        for label in n_true | n_predicted
    ]
    exact = sum(a == b for a, b in zip(true, predicted, strict=True)) / max(len(true), 1)
    rates = _rates(hits.total(), n_predicted.total(), n_true.total())
    rows.sort(key=lambda row: (-row.support, row.label))
    return LabelSetScores(exact, *rates, len(true), n_true.total(), rows)


def _rates(hits: int, n_predicted: int, n_true: int) -> tuple[float, float, float]:
    """Precision, recall and F1; 0 if there is nothing to divide by."""
    precision, recall = hits / n_predicted if n_predicted else 0.0, hits / n_true if n_true else 0.0
    return precision, recall, 2 * hits / (n_predicted + n_true) if n_predicted + n_true else 0.0
