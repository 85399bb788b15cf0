"""Classified rows: the class of one row, its rivals, and the features that decided."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.errors import InputError
from partwise.tasks.classes.data import is_attributes
from partwise.tasks.page import Evidence, Explorer, difference, ranked, shown_terms, term_of, text_or
from partwise.tasks.sequences.page import label_parts, labelled_evidence


class ClassExplorer(Explorer):
    """One row is one position, so that pages show it as they show a word."""

    kind = "classes"

    def answer(self, x: Any, truth: Any = None, kbest: int = 3) -> dict[str, Any]:
        row, name = x
        names = self._names()
        label = str(self.estimator.predict(row).tolist()[0])
        found: dict[str, Any] = {"kind": self.kind, "tokens": [name], "labels": [label]}
        if truth is not None:
            found["truth"] = [str(truth)]
        values = self._values(row)
        if self.has_probabilities:
            found["marginals"] = ranked(names, values)
        order = np.argsort(-values[0], kind="stable")[:kbest].tolist()
        found["kbest"] = [{"labels": [names[k]], self.value_name(): float(values[0, k])} for k in order]
        if self.estimator._has_weights:
            found |= self._why(row)
        return found

    def _names(self) -> list[str]:
        return [str(label) for label in self.estimator.classes_.tolist()]

    def _values(self, rows: Any) -> np.ndarray:
        """Probabilities of all classes, or scores where there are none, (n, n_classes)."""
        return self.estimator.predict_proba(rows) if self.has_probabilities else self.estimator._scores(rows)

    def _why(self, row: Any) -> dict[str, Any]:
        x = row[0] if isinstance(row, list) else row
        explained = self.estimator.explain(x)
        found: dict[str, Any] = {
            "score": explained.score,
            "terms": shown_terms(map(term_of, explained.contributions)),
        }
        if len(self.estimator.classes_) > 1:
            other = self.estimator.explain(x, against="runner-up")
            labels = list(map(str, other.against or []))
            found["against"] = difference(labels, other.score, map(term_of, other.contributions))
        return found

    def evidence(self, inputs: Any, truths: Any) -> Evidence:
        predicted = [[str(label)] for label in self.estimator.predict(inputs).tolist()]
        true = [[str(label)] for label in truths]
        errors = np.array([a != b for a, b in zip(true, predicted, strict=True)], np.int64)
        found = labelled_evidence(true, predicted, errors)
        if self.has_probabilities:
            found.predicted, found.every = label_parts(self._names(), [self._values(inputs)], true)
        return found

    def pick(self, inputs: Any, truths: Any, i: int) -> tuple[Any, Any]:
        return (inputs[i : i + 1], f"row {i + 1}"), truths[i]

    def size(self, x: Any) -> int:
        return 1

    def read(self, request: dict[str, Any]) -> Any:
        value = text_or(request, "row")
        if getattr(self.estimator, "_encoder", None) is not None:
            value = request["text"].split() if value is None else value
            if not is_attributes([value]):
                raise InputError('"row" must be an object of features, or a list of strings')
            return [value], "row"
        if value is None:
            value = request["text"].replace(",", " ").split()
        try:
            row = np.asarray(value, np.float64)
        except (TypeError, ValueError):
            raise InputError('"row" must be a list of numbers') from None
        n = int(self.estimator.n_features_in_)
        if row.shape != (n,) or not np.isfinite(row).all():
            raise InputError(f'"row" must be a list of {n} finite numbers')
        return row[None], "row"

    def expects(self) -> dict[str, str]:
        encoder = getattr(self.estimator, "_encoder", None)
        if encoder is not None:
            return {
                "format": "features, with spaces between them",
                "example": " ".join(encoder.names()[:3]),
            }
        n = int(self.estimator.n_features_in_)
        return {
            "format": f"{n} numbers, with commas or spaces between them",
            "example": ", ".join(["0.5"] * n),
        }
