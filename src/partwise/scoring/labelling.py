"""Scores of predicted labels: accuracy, F1 of chunks or of labels, and the most frequent confusions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from partwise.scoring.metrics import (
    ChunkCounts,
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
    types : dict of str to ChunkCounts
        Scores of each type of chunk or entity; empty unless the labels look like chunks.
    """

    accuracy: float
    f1: float
    f1_kind: str
    precision: float
    recall: float
    n_labels: int
    per_label: list[LabelScores]
    confusions: list[tuple[str, str, int]]
    types: dict[str, ChunkCounts] = field(default_factory=dict)

    def in_short(self) -> dict[str, Any]:
        """Accuracy and F1 alone."""
        return {"accuracy": self.accuracy, "f1": self.f1, "f1_kind": self.f1_kind}

    def as_dict(self) -> dict[str, Any]:
        """All but the confusions, for JSON."""
        found = {
            **self.in_short(),
            "precision": self.precision,
            "recall": self.recall,
            "n_labels": self.n_labels,
            "per_label": {str(row.label): _rates(row, row.support) for row in self.per_label},
        }
        if self.types:
            found["types"] = {name: _rates(counts, counts.n_true) for name, counts in self.types.items()}
        return found


def _rates(scores: Any, support: int) -> dict[str, Any]:
    return {
        "precision": scores.precision, "recall": scores.recall, "f1": scores.f1, "support": support,
    }  # fmt: skip


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
    types: dict[str, ChunkCounts] = {}
    if looks_like_chunks(labels):
        chunks = chunk_scores(y_true, y_pred)
        types = chunks.per_type
        kind, f1, precision, recall = "chunk", chunks.f1, chunks.precision, chunks.recall
    else:
        names = ("f1", "precision", "recall")
        f1, precision, recall = (
            sum(getattr(row, name) for row in rows) / max(len(rows), 1) for name in names
        )
        kind = "macro"
    return LabellingScores(
        token_accuracy(y_true, y_pred), f1, kind, precision, recall, int(matrix.sum()), rows, wrong, types
    )
