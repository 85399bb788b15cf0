"""`SequenceTagger`: labels and probabilities of one sequence at a time."""

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING, Any

from partwise.estimators.tagger import EntityTagger

if TYPE_CHECKING:
    import numpy as np


class SequenceTagger(EntityTagger):
    """A fitted sequence model that answers one sequence at a time. ``model.tagger()`` makes it.

    Sequences of dicts, of lists of strings, or of rows for a template take microseconds per token. Other forms, and
    sequences of more than 1,000 positions, take as long as in the model's own methods.

    Parameters
    ----------
    model : SequenceLabeler, CRF or KernelSequenceLabeler

    Examples
    --------
    >>> from partwise import SequenceLabeler
    >>> X = [[["word=a"], ["word=dog"]], [["word=a"], ["word=cat"]]]
    >>> tagger = SequenceLabeler().fit(X, [["D", "N"], ["D", "N"]]).tagger()
    >>> tagger.tag([["word=a"], ["word=cat"]])
    ['D', 'N']
    """

    def tag(self, x: Any) -> list[Any]:
        """The best labels of one sequence."""
        return self._model.predict([x])[0]

    def marginals(self, x: Any) -> list[dict[Any, float]]:
        """Probability of every label at every position of one sequence: a dict {label: probability} each."""
        return self._model.predict_marginals([x])[0]

    def marginals_array(self, x: Any) -> np.ndarray:
        """The same as an array (length, n_labels), ordered as `labels`."""
        return self._model.predict_marginals_array([x])[0]

    def probability(self, x: Any, y: Any) -> float:
        """Probability of whole labels of one sequence. It sums over positions where `y` is None."""
        return exp(self._model.predict_log_proba_of([x], [y])[0])

    def kbest(self, x: Any, k: int = 5) -> list[tuple[list[Any], float]]:
        """The k best labellings of one sequence, best first, with their probabilities.

        The values are scores if the loss has no probabilities.
        """
        return self._model.predict_kbest([x], k)[0]
