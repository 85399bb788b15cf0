"""Spanish named entities (CoNLL-2002) as problems, with what tells the F1 of weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

FILES = {"train": "train.txt.gz", "dev": "testa.txt", "test": "testb.txt"}


@dataclass(frozen=True)
class Entities:
    """A problem that can be given any loss, and data to test its weights on."""

    problem: Any
    labels: Any
    held_out: dict[str, tuple[Any, list[list[str]]]]

    def with_loss(self, beta: float, gamma: float) -> Entities:
        from partwise import Loss

        return replace(self, problem=replace(self.problem, loss=Loss(beta, gamma)))

    def f1(self, weights: np.ndarray, part: str = "dev") -> float:
        """F1 of whole entities, in percent."""
        from partwise.scoring.metrics import chunk_scores

        return 100.0 * chunk_scores(self.held_out[part][1], self.found(weights, part)).f1

    def found(self, weights: np.ndarray, part: str) -> list[list[str]]:
        """The best labels of every sentence."""
        from partwise.estimators.model import LinearModel

        scorer, gold = self.held_out[part]
        model = LinearModel(self.problem.structure, self.problem.scorer.maps, weights)
        codes, _ = model.best(scorer, None, 1)
        labels = np.split(self.labels[codes], np.cumsum([len(each) for each in gold])[:-1])
        return [list(each) for each in labels]

    def apart(
        self, one: np.ndarray, other: np.ndarray, part: str = "dev", n_samples: int = 1000
    ) -> list[float]:
        """F1 of one minus that of the other, and its standard error over sentences (bootstrap), in points."""
        from partwise.scoring.metrics import chunk_scores

        gold, counts = self.held_out[part][1], []
        for weights in (one, other):
            own = [chunk_scores([a], [b]) for a, b in zip(gold, self.found(weights, part), strict=True)]
            counts.append([[each.n_correct, each.n_true + each.n_predicted] for each in own])
        table = np.array(counts).transpose(1, 0, 2)  # (sentences, models, 2)
        drawn = np.random.default_rng(0).integers(0, len(table), (n_samples, len(table)))
        totals = np.concatenate([table.sum(axis=0)[None], table[drawn].sum(axis=1)])
        differences = 200.0 * (totals[..., 0] / totals[..., 1]) @ [1.0, -1.0]
        return [float(differences[0]), float(differences[1:].std(ddof=1))]

    def watch(self, passes: float, weights: np.ndarray) -> float:
        return self.f1(weights)


def entities(folder: Path, template: str = "ner", n_sentences: int | None = None) -> Entities:
    """The training part or its first sentences; costs are there, whether or not a loss asks for them."""
    from partwise import Loss, SequenceLabeler
    from partwise.data.conll import read_conll
    from partwise.estimators.model import LinearModel

    data = {part: read_conll(folder / name) for part, name in FILES.items()}
    train = data["train"] if n_sentences is None else first_sentences(data["train"], n_sentences)
    labeler = SequenceLabeler(Loss(1.0, 1.0), template=template, solver="perceptron", max_passes=1, tol=1e9)
    training = labeler.fit(train)._training
    problem, encoder = training.problem, training.encoder
    model = LinearModel(problem.structure, problem.scorer.maps, training.weights)
    held_out = {}
    for part in ("dev", "test"):
        bounds = zip(data[part].sequence_ptr[:-1], data[part].sequence_ptr[1:], strict=True)
        gold = [list(data[part].labels[a:b]) for a, b in bounds]
        held_out[part] = (model.scorer(encoder.transform(data[part])), gold)
    return Entities(problem, np.asarray(labeler.classes_), held_out)


def first_sentences(data: Any, n: int) -> Any:
    from partwise.data import Columns

    ptr = data.sequence_ptr[: n + 1]
    columns = [column[: ptr[-1]] for column in data.columns]
    return Columns(columns, data.labels[: ptr[-1]], ptr, np.array([0, n]))
