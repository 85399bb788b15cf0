"""Scorers for scikit-learn's model selection, under the names of ``sklearn_crfsuite.scorers``."""

from sklearn.metrics import make_scorer

from partwise.scoring.flat import flat_accuracy_score, sequence_accuracy_score

flat_accuracy = make_scorer(flat_accuracy_score)
sequence_accuracy = make_scorer(sequence_accuracy_score)

__all__ = ["flat_accuracy", "sequence_accuracy"]
