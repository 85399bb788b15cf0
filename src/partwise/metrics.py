"""Scores of predicted sequences under the names that users know: see `partwise.scoring`."""

from partwise.scoring.flat import (
    flat_accuracy_score,
    flat_classification_report,
    flat_f1_score,
    flat_fbeta_score,
    flat_precision_score,
    flat_recall_score,
    sequence_accuracy_score,
)
from partwise.scoring.metrics import chunk_scores, chunks, confusion, per_label_table, token_accuracy
from partwise.scoring.reliability import Reliability, reliability

__all__ = [
    "Reliability",
    "chunk_scores",
    "chunks",
    "confusion",
    "flat_accuracy_score",
    "flat_classification_report",
    "flat_f1_score",
    "flat_fbeta_score",
    "flat_precision_score",
    "flat_recall_score",
    "per_label_table",
    "reliability",
    "sequence_accuracy_score",
    "token_accuracy",
]
