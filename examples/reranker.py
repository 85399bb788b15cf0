"""A reranker: chooses among the labellings that another model proposes, by features of whole labellings.

    python reranker.py

The first model is a chain that sees single words. The reranker sees its k best labellings, with their scores, and how
often each pair of labels follows another at any distance, which no chain does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from partwise import Loss, SequenceLabeler
from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem
from partwise.core.rows import RowData
from partwise.core.scorer import Scorer
from partwise.data import make_names
from partwise.estimators.encoders import AttributeEncoder
from partwise.solvers import solve, solver_for
from partwise.structures import Candidates

Lists = Sequence[Sequence[Any]]  # the candidates of each example, as dicts of features or lists of strings


class Reranker:
    """A linear model over lists of candidates, for any loss and solver, with a certificate.

    Parameters
    ----------
    loss : str or Loss
    l2 : float
    solver : str
    tol : float
        As of all estimators.
    """

    def __init__(self, loss: str | Loss = "log", l2: float = 1.0, solver: str = "auto", tol: float = 1e-3):
        self.loss, self.l2, self.solver, self.tol = loss, l2, solver, tol

    def fit(self, X: Lists, y: Sequence[int], cost: Sequence[Sequence[float]] | None = None) -> Reranker:
        """Train.

        Parameters
        ----------
        X : list of lists of candidates
            A candidate is a dict of features, or a list of strings.
        y : sequence of int
            The number of the best candidate of each list.
        cost : list of lists of float, optional
            The cost of each candidate in losses with γ > 0, such as one minus its F1. By default 1, and 0 for `y`.
        """
        self.encoder = AttributeEncoder()
        encoded = self.encoder.fit_transform(X)
        self.map = FeatureMap.build(1, self.encoder.n_attributes)
        flat = "zero_one" if cost is None else np.concatenate([np.asarray(each, float) for each in cost])
        problem = Problem.build(
            Candidates(),
            np.asarray(y),
            encoded.lengths,
            self._rows(encoded),
            loss=self.loss,
            l2=self.l2,
            cost=flat,
        )
        self.solution = solve(problem, solver_for(problem, self.solver, self.tol), tol=self.tol)
        self.weights = self.solution.weights
        return self

    def _rows(self, encoded: Any) -> dict[str, RowData]:
        return {"candidate": RowData(self.map, encoded.own[0].sparse)}

    def scores(self, X: Lists) -> list[np.ndarray]:
        """The scores of the candidates of each list."""
        encoded, structure = self.encoder.transform(X), Candidates()
        scorer = Scorer.build(structure, structure.shapes(encoded.lengths), self._rows(encoded))
        found = scorer.scores(self.weights)
        return np.split(found[: scorer.batch.part_ptr[-1]], scorer.batch.part_ptr[1:-1])

    def predict(self, X: Lists) -> np.ndarray:
        """The number of the best candidate of each list."""
        return np.asarray(Candidates().argmax(self.scores(X)))

    def predict_marginals(self, X: Lists) -> list[np.ndarray]:
        """The probability of every candidate, for finite β."""
        beta = self.solution.problem.loss.beta
        return Candidates().marginals([beta * each for each in self.scores(X)])

    def predict_kbest(self, X: Lists, k: int = 5) -> list[list[tuple[int, float]]]:
        """The k best candidates of each list, and their scores."""
        return Candidates().kbest(self.scores(X), k)


def features(words: Sequence[Any], labels: Sequence[str], score: float) -> dict[str, float]:
    """Features of a whole labelling: its score, and how often labels follow each other anywhere."""
    spans = [label for label in labels if label.startswith("B-")]
    pairs = Counter(f"{a} … {b}" for k, a in enumerate(spans) for b in spans[k + 1 :])
    return {"score": score, "spans": float(len(spans)), **pairs}


def errors(true: Sequence[str], found: Sequence[str]) -> float:
    return float(sum(a != b for a, b in zip(true, found, strict=True)))


def lists_of(model: SequenceLabeler, X: Any, k: int) -> tuple[list[list[Any]], list[list[Any]]]:
    """The k best labellings of every sequence, and their features."""
    ranked = model.predict_kbest(X, k=k)
    labellings = [[list(labels) for labels, _ in own] for own in ranked]
    found = [
        [features(x, labels, float(np.log(max(p, 1e-300)))) for labels, p in own]
        for x, own in zip(X, ranked, strict=True)
    ]
    return labellings, found


def main() -> None:
    X, y = make_names(200)
    first = SequenceLabeler(template="ner", l2=30.0, tol=1e-2).fit(X[:60], y[:60])
    train, test = slice(60, 130), slice(130, 200)
    labellings, lists = lists_of(first, X[train], 8)
    costs = [[errors(true, each) for each in own] for true, own in zip(y[train], labellings, strict=True)]
    best = [int(np.argmin(own)) for own in costs]
    reranker = Reranker("softmax_margin", l2=0.1).fit(lists, best, costs)
    print(f"gap {reranker.solution.certificate.primal - reranker.solution.certificate.dual:.1e}")
    labellings, lists = lists_of(first, X[test], 8)
    chosen = [own[k] for own, k in zip(labellings, reranker.predict(lists), strict=True)]
    for name, found in (("first", [own[0] for own in labellings]), ("reranked", chosen)):
        print(f"{name}: {sum(map(errors, y[test], found)):.0f} wrong labels")
    oracle = sum(
        min(errors(true, each) for each in own) for true, own in zip(y[test], labellings, strict=True)
    )
    print(f"best of the list: {oracle:.0f}")


if __name__ == "__main__":
    main()
