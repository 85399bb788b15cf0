"""Sets of labels for the command line, reports and the server."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from partwise.errors import InputError
from partwise.report.probabilities import as_text, distributions
from partwise.report.score_tables import print_label_set_scores
from partwise.scoring.label_sets import label_set_scores
from partwise.tasks.classes.task import expected_row, read_row
from partwise.tasks.label_sets.options import LabelSetOptions
from partwise.tasks.label_sets.reading import (
    FORMATS,
    LabelMatrix,
    LabelSetFile,
    read_label_sets,
    stream_label_sets,
)
from partwise.tasks.options import DataOptions
from partwise.tasks.page import Evidence, LabelRow, Term, percent, shortened, shown_terms, term_of
from partwise.tasks.task import LabelledData, Scores, SmallProblem, Task, Wanted, add_each, json_lines

_YES, _NO = "yes", "no"


class LabelSets(Task):
    """Classification with a set of labels; pages show each label of the model with yes or no.

    X is a matrix, or a list of attributes; one example is X with one row. Truths are lists of labels, or a matrix of 0
    and 1.
    """

    command, kind, formats = "multilabel", "label_sets", FORMATS

    def names(self) -> list[str]:
        return [str(label) for label in self.estimator._known_labels()]

    def _matrix(self, X: Any) -> np.ndarray:
        """Which labels are predicted, bool (n, n_labels)."""
        found = np.asarray(self.estimator.predict(X))
        return found.reshape(len(found), -1) > 0

    def _probabilities(self, X: Any) -> np.ndarray:
        """Probability of each label, (n, n_labels)."""
        found = self.estimator.predict_proba(X)
        return found[:, -1:] if len(self.names()) == 1 else found

    def _sets(self, X: Any) -> list[list[str]]:
        names = self.names()
        return [[names[k] for k in np.flatnonzero(row)] for row in self._matrix(X)]

    def _true_sets(self, truths: Any) -> list[list[str]]:
        if isinstance(truths, LabelMatrix):
            return truths.sets
        if isinstance(truths, list) and all(isinstance(own, list) and _are_texts(own) for own in truths):
            return truths
        names, matrix = self.names(), np.asarray(truths)
        return [[names[k] for k in np.flatnonzero(row)] for row in matrix.reshape(len(matrix), -1)]

    # -- labelled files -------------------------------------------------------------------------

    @classmethod
    def read_labelled(cls, path: str, options: DataOptions, purpose: str) -> LabelledData:
        data = read_label_sets(path, options)
        names = sorted({label for own in data.sets for label in own})
        return LabelledData(data.X, LabelMatrix.of(data.sets, names), len(data.sets), data.options)

    @classmethod
    def dev_data(cls, path: str, options: LabelSetOptions, train: LabelledData) -> tuple[Any, Any]:
        data = read_label_sets(path, train.options)
        return data.X, LabelMatrix.of(data.sets, train.y.columns)

    def pick(self, X: Any, truths: Any, i: int) -> tuple[Any, Any]:
        return X[i : i + 1], self._true_sets(truths)[i]

    def scores(self, X: Any, truths: Any) -> Scores:
        found = label_set_scores(list(map(set, self._true_sets(truths))), list(map(set, self._sets(X))))
        main = found.in_short()
        words = f"dev accuracy {100 * main['accuracy']:.2f} % of sets  micro F1 {100 * main['f1']:.2f}"
        return Scores(found.as_dict(), main, words, partial(print_label_set_scores, scores=found))

    def evidence(self, X: Any, truths: Any) -> Evidence:
        true, predicted = list(map(set, self._true_sets(truths))), list(map(set, self._sets(X)))
        found = label_set_scores(true, predicted)
        shown = [
            ("exact sets", percent(found.accuracy)),
            ("F1 over all labels", percent(found.f1)),
            ("precision", percent(found.precision)),
            ("recall", percent(found.recall)),
            ("examples", f"{found.n_examples:,}"),
        ]
        rows = [LabelRow(shortened(str(row.label)), *row[1:]) for row in found.per_label]
        errors = np.array([len(a ^ b) for a, b in zip(true, predicted, strict=True)], np.int64)
        evidence = Evidence(shown, rows, None, errors)
        if self.has_probabilities:
            names, p = self.names(), self._probabilities(X)
            is_true = np.array([[name in own for name in names] for own in true], bool).reshape(p.shape)
            chosen = self._matrix(X)
            evidence.predicted = (np.where(chosen, p, 1 - p).ravel(), (chosen == is_true).ravel())
            evidence.every = p.ravel(), is_true.ravel()
        return evidence

    @classmethod
    def small_problems(cls) -> list[SmallProblem]:
        from partwise import MultilabelClassifier

        X = np.random.default_rng(0).normal(size=(12, 2))
        answers = ("predict", "predict_proba")
        return [SmallProblem("sets of labels", MultilabelClassifier, {}, X, X > 0, answers)]

    # -- predictions for files ------------------------------------------------------------------

    def check_wanted(self, wanted: Wanted) -> None:
        super().check_wanted(wanted)
        if wanted.kbest > 1:
            raise InputError("--kbest is for sequences; --marginals gives the probability of every label")

    def batches(self, path: str) -> Iterator[LabelSetFile]:
        return stream_label_sets(path, self.options)

    def text(self, batch: LabelSetFile, wanted: Wanted) -> str:
        sets = self._sets(batch.X) if batch.sets else []
        found = []
        if wanted.marginals and sets:
            found = distributions(self.names(), self._probabilities(batch.X))
        if wanted.json or batch.records:
            objects = [dict(each) for each in batch.records] or [{} for _ in sets]
            add_each(objects, "labels", sets)
            if wanted.marginals:
                add_each(objects, "marginals", map(dict, found))
            return json_lines(objects)
        columns = [[",".join(own) or "-" for own in sets]]
        if wanted.marginals:
            columns.append([as_text(row) or "-" for row in found])
        lines = list(batch.lines)
        for place, *cells in zip(batch.row_lines, *columns, strict=True):
            lines[place] = " ".join([lines[place], *cells])
        return "".join(line + "\n" for line in lines)

    # -- one example ----------------------------------------------------------------------------

    def answer(self, x: Any, truth: Any = None, kbest: int = 3) -> dict[str, Any]:
        names, chosen = self.names(), self._matrix(x)[0]
        found: dict[str, Any] = {
            "kind": self.kind,
            "tokens": names,
            "labels": [_YES if each else _NO for each in chosen],
            "kbest": [],
        }
        if truth is not None:
            found["truth"] = [_YES if name in truth else _NO for name in names]
        if self.has_probabilities:
            both = ([(_YES, float(p)), (_NO, 1.0 - float(p))] for p in self._probabilities(x)[0])
            found["marginals"] = [[list(each) for each in sorted(own, key=lambda e: -e[1])] for own in both]
        own = self.estimator.explain(x[0] if isinstance(x, list) else x, against=np.zeros(len(names), int))
        return found | {"score": own.score, "terms": shown_terms(self.terms(own))}

    def terms(self, explanation: Any) -> Iterator[Term]:
        """The terms of the predicted labels' score above that of the empty set."""
        for term in map(term_of, explanation.contributions):
            yield term._replace(label=term.label.replace("0", _NO).replace("1", _YES))

    def size(self, x: Any) -> int:
        return 1

    def read(self, request: dict[str, Any]) -> Any:
        return read_row(request, self.estimator)

    def expects(self) -> dict[str, str]:
        return expected_row(self.estimator)


def _are_texts(labels: list[Any]) -> bool:
    return all(isinstance(label, str) for label in labels)
