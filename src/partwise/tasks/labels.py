"""`LabelTask`: tasks that give each position of an example one label (words, nodes, rows)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

import numpy as np

from partwise.errors import InputError
from partwise.report.probabilities import Distribution, distributions
from partwise.scoring.labelling import LabellingScores, labelling_scores
from partwise.tasks.page import (
    Evidence,
    LabelRow,
    Parts,
    confusions,
    counted_labels,
    percent,
    shortened,
)
from partwise.tasks.task import Scores, Task, Wanted, add_each

_MOST_LABELS = 8  # labels of a position that pages show: their tables have eight rows


class LabelTask(Task):
    """A task that gives each position of an example one label.

    A subclass changes methods of the first part if its data are not sequences of words; the other parts follow.

    Attributes
    ----------
    nouns : (str, str) or (str,)
        What examples and positions are called in ``evaluate --json``: "n_sequences" and "n_tokens".
    """

    nouns: ClassVar[tuple[str, ...]]

    # -- for subclasses -------------------------------------------------------------------

    def labels(self, X: Any) -> list[list[str]]:
        """The predicted labels of every example."""
        return [list(map(str, own)) for own in self.estimator.predict(X)]

    def decoded(self, X: Any, decode: str) -> list[list[str]]:
        """The same, chosen by another goal than the best score."""
        return self.labels(X)

    def kbest(self, X: Any, k: int) -> list[list[tuple[list[str], float]]]:
        """The k best labellings of every example, with their probabilities or scores."""
        ranked = self.estimator.predict_kbest(X, k=k)
        return [[(list(map(str, own)), value) for own, value in found] for found in ranked]

    def arrays(self, X: Any) -> list[np.ndarray]:
        """Probabilities (n_positions, n_labels) of every example, ordered as `label_names`."""
        return self.estimator.predict_marginals_array(X)

    def label_names(self) -> list[str]:
        return [str(label) for label in self.estimator.classes_.tolist()]

    def true_labels(self, truths: Any) -> list[list[str]]:
        return [list(map(str, labels)) for labels in truths]

    def tokens(self, x: Any) -> list[str]:
        """A text for every position of one example."""
        return list(map(str, x))

    def extras(self, x: Any) -> dict[str, Any]:
        """More entries of the answer for one example."""
        return {}

    def alone(self, x: Any) -> Any:
        """One example as X."""
        return [x]

    # -- generic ---------------------------------------------------------------------------

    def marginals(self, X: Any) -> list[list[Distribution]]:
        """The probable labels of every position of every example, the most probable first."""
        names = self.label_names()
        return [distributions(names, array) for array in self.arrays(X)]

    def parts(self, X: Any, true: list[list[str]]) -> tuple[Parts | None, Parts | None]:
        """(probability, is_true) of the most probable labels, and of all labels."""
        return label_parts(self.label_names(), self.arrays(X), true)

    def answer(self, x: Any, truth: Any = None, kbest: int = 3) -> dict[str, Any]:
        X = self.alone(x)
        found: dict[str, Any] = {"kind": self.kind, "tokens": self.tokens(x), "labels": self.labels(X)[0]}
        found |= self.extras(x)
        if truth is not None:
            found["truth"] = self.true_labels([truth])[0]
        if self.has_probabilities:
            found["marginals"] = [[list(pair) for pair in row[:_MOST_LABELS]] for row in self.marginals(X)[0]]
        with suppress(InputError):  # the k best labellings of graphs need exact inference
            found["kbest"] = self.valued(({"labels": own}, value) for own, value in self.kbest(X, kbest)[0])
        return found | self.why(x)

    def best(self, x: Any) -> dict[str, Any]:
        return {"labels": self.labels(self.alone(x))[0]}

    def predicted(self, objects: list[dict[str, Any]], X: Any, wanted: Wanted) -> list[dict[str, Any]]:
        """JSON objects of examples, with the labels, probabilities and k best labellings that are wanted."""
        add_each(objects, "labels", self.decoded(X, wanted.decode))
        if wanted.marginals:
            add_each(objects, "marginals", ([dict(row) for row in rows] for rows in self.marginals(X)))
        if wanted.kbest > 1:
            ranked = (
                [({"labels": own}, value) for own, value in found] for found in self.kbest(X, wanted.kbest)
            )
            add_each(objects, "kbest", map(self.valued, ranked))
        return objects

    def scores(self, X: Any, truths: Any) -> Scores:
        found = labelling_scores(self.true_labels(truths), self.labels(X))
        counts = dict(zip((f"n_{noun}" for noun in self.nouns), (len(truths), found.n_labels), strict=True))
        return label_scores(found, counts)

    def evidence(self, X: Any, truths: Any) -> Evidence:
        predicted, true = self.labels(X), self.true_labels(truths)
        errors = [
            sum(a != b for a, b in zip(own, other, strict=True))
            for own, other in zip(true, predicted, strict=True)
        ]
        found = labelled_evidence(true, predicted, np.array(errors, np.int64))
        if self.has_probabilities:
            found.predicted, found.every = self.parts(X, true)
        return found


def label_scores(found: LabellingScores, counts: dict[str, int]) -> Scores:
    """Scores of labels for the command line."""
    from partwise.report.score_tables import print_label_scores

    main = found.in_short()
    words = [f"accuracy {100 * main['accuracy']:.2f} %", f"{main['f1_kind']} F1 {100 * main['f1']:.2f}"]
    told = "dev " + "  ".join(reversed(words) if found.types else words)
    return Scores(found.as_dict() | counts, main, told, partial(print_label_scores, scores=found))


def labelled_evidence(true: list[list[str]], predicted: list[list[str]], errors: np.ndarray) -> Evidence:
    """Evidence from labels, without probabilities."""
    scores = labelling_scores(true, predicted)
    accuracy = ("accuracy", percent(scores.accuracy))
    kind = "F1" if scores.types else "F1, mean over labels"
    rates = [(kind, scores.f1), ("precision", scores.precision), ("recall", scores.recall)]
    shown = [(name, percent(rate)) for name, rate in rates]
    shown = [
        *([*shown, accuracy] if scores.types else [accuracy, *shown]),
        ("labels", f"{scores.n_labels:,}"),
        ("examples without an error", f"{int((errors == 0).sum()):,} of {len(errors):,}"),
    ]
    rows = [LabelRow(shortened(str(row.label)), *row[1:]) for row in scores.per_label]
    types = counted_labels(scores.types)
    return Evidence(shown, rows, confusions(true, predicted), errors, types=types)


def label_parts(
    names: list[str], arrays: Sequence[np.ndarray], true: list[list[str]]
) -> tuple[Parts | None, Parts | None]:
    """(probability, is_true) of the most probable label of each position, and of all labels."""
    rows = [np.asarray(array, np.float64) for array in arrays if len(array)]
    if not rows:
        return None, None
    flat, index = np.concatenate(rows), {name: k for k, name in enumerate(names)}
    codes = np.array([index.get(label, -1) for labels in true for label in labels], np.int64)
    best = flat.argmax(axis=1)
    is_true = codes[:, None] == np.arange(len(names))
    return (flat[np.arange(len(flat)), best], best == codes), (flat.reshape(-1), is_true.reshape(-1))
