"""What sklearn_crfsuite.CRF shows of a trained model besides weights: its tagger and its training log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from partwise.errors import InputError

if TYPE_CHECKING:
    from partwise.tasks.sequences.crf import CRF


class CrfsuiteTagger:
    """The methods of ``pycrfsuite.Tagger`` over a fitted model."""

    def __init__(self, model: CRF):
        self._model = model
        self._sequence: list[Any] | None = None
        self._marginals: list[dict[Any, float]] | None = None

    def labels(self) -> list[Any]:
        """All labels."""
        return self._model.classes_.tolist()

    def info(self) -> SimpleNamespace:
        """All weights: `transitions`, `state_features`, and numbers of `labels` and `attributes` by their names."""
        model = self._model
        labels, attributes = self.labels(), model.attributes_
        return SimpleNamespace(
            header={
                "num_labels": str(len(labels)),
                "num_attrs": str(len(attributes)),
                "size": str(model.size_),
            },
            labels={label: str(number) for number, label in enumerate(labels)},
            attributes={name: str(number) for number, name in enumerate(attributes)},
            transitions=model.transition_features_,
            state_features=model.state_features_,
        )

    def set(self, xseq: Any) -> None:
        """Choose the sequence that the other methods are about."""
        self._sequence, self._marginals = list(xseq), None

    def tag(self, xseq: Any = None) -> list[Any]:
        """The best labels, of `xseq` where it is given."""
        return self._model.predict_single(self._chosen(xseq))

    def marginal(self, y: Any, t: int) -> float:
        """Probability of label `y` at position `t`."""
        if self._marginals is None:
            self._marginals = self._model.predict_marginals_single(self._chosen(None))
        if not 0 <= t < len(self._marginals) or y not in self._marginals[t]:
            raise InputError(f"there is no position {t!r} with a label {y!r:.60}")
        return self._marginals[t][y]

    def probability(self, yseq: Any) -> float:
        """Probability of a whole sequence of labels."""
        return float(np.exp(self._model.predict_log_proba_of([self._chosen(None)], [list(yseq)])[0]))

    def _chosen(self, xseq: Any) -> list[Any]:
        if xseq is not None:
            self.set(xseq)
        if self._sequence is None:
            raise InputError("there is no sequence yet: call set(xseq) first")
        return self._sequence


class TrainingLog:
    """The certificates of a training run under the names that ``sklearn_crfsuite`` gives to iterations.

    Attributes
    ----------
    iterations : list of dict
        num (passes), loss (the objective), dual, gap and time (seconds since the one before) of every certificate.
    """

    def __init__(self, history: list[dict[str, Any]]):
        before, self.iterations = 0.0, []
        for record in history:
            known = {"num": record["passes"], "loss": record["primal"], "dual": record["dual"]}
            self.iterations.append({**known, "gap": record["gap"], "time": record["seconds"] - before})
            before = record["seconds"]

    @property
    def last_iteration(self) -> dict[str, Any]:
        """The last certificate."""
        return self.iterations[-1]
