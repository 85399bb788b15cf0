"""Scores of predicted sequences under the name that users know: see `partwise.scoring.metrics`."""

from partwise.scoring.metrics import chunk_scores, chunks, confusion, per_label_table, token_accuracy

__all__ = ["chunk_scores", "chunks", "confusion", "per_label_table", "token_accuracy"]
