"""Scores of predicted labels: accuracy, F1 of chunks or of labels, and the most frequent confusions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from partwise.scoring.metrics import (
    LabelScores,
    chunk_scores,
    confusion,
    per_label_table,
    token_accuracy,
)

_CHUNK_LABEL = re.compile(r"[BIESLU]-.+", re.DOTALL)
_MOST_CONFUSIONS = 10


@dataclass
class LabellingScores:
    """Scores of predicted labels.

    Attributes
    ----------
    accuracy : float
        Share of right labels.
    f1 : float
        Chunk F1 as conlleval counts it if the labels look like chunks (``O``, ``B-NP``, ``I-NP`` …), else the
        mean of the labels' F1.
    f1_kind : "chunk" or "macro"
    """

    accuracy: float
    f1: float
    f1_kind: str
    precision: float
    recall: float
    n_labels: int
    per_label: list[LabelScores]
    confusions: list[tuple[str, str, int]]

    def in_short(self) -> dict[str, Any]:
        """Accuracy and F1 alone."""
        return {"accuracy": self.accuracy, "f1": self.f1, "f1_kind": self.f1_kind}

    def as_dict(self) -> dict[str, Any]:
        """All but the confusions, for JSON."""
        rows = {str(row.label): dict(row._asdict(), label=str(row.label)) for row in self.per_label}
        return {
            **self.in_short(),
            "precision": self.precision,
            "recall": self.recall,
            "n_labels": self.n_labels,
            "per_label": {name: {k: v for k, v in row.items() if k != "label"} for name, row in rows.items()},
        }


def looks_like_chunks(labels: Sequence[Any]) -> bool:
    """Whether labels are tags of chunks: all ``O`` or a letter of IOBES or BILOU, a hyphen and a type."""
    chunk = [isinstance(label, str) and _CHUNK_LABEL.fullmatch(label) is not None for label in labels]
    return any(chunk) and all(is_chunk or label == "O" for is_chunk, label in zip(chunk, labels, strict=True))


def labelling_scores(y_true: Sequence[Sequence[Any]], y_pred: Sequence[Sequence[Any]]) -> LabellingScores:
    """Score predicted sequences of labels."""
    labels, matrix = confusion(y_true, y_pred)
    rows = per_label_table(y_true, y_pred)
    wrong = [
        (str(labels[i]), str(labels[j]), int(matrix[i, j]))
        for i in range(len(labels))
        for j in range(len(labels))
        if i != j and matrix[i, j]
    ]
    wrong = sorted(wrong, key=lambda each: -each[2])[:_MOST_CONFUSIONS]
    if looks_like_chunks(labels):
        chunks = chunk_scores(y_true, y_pred)
        kind, f1, precision, recall = "chunk", chunks.f1, chunks.precision, chunks.recall
    else:
        names = ("f1", "precision", "recall")
        f1, precision, recall = (
            sum(getattr(row, name) for row in rows) / max(len(rows), 1) for name in names
        )
        kind = "macro"
    return LabellingScores(
        token_accuracy(y_true, y_pred), f1, kind, precision, recall, int(matrix.sum()), rows, wrong
    )
