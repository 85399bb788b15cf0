"""Dependency treebanks as problems, with what tells the accuracy of weights on sentences held out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from dependency_tasks import parser_for, read, scores

AGAIN = 1.4  # accuracy along a curve: again after so many times the passes


class Treebank(NamedTuple):
    """An unlabelled arc-factored parser's problem, and the percentage of heads that weights get right on dev."""

    problem: Any
    accuracy: Callable[..., float]

    def watch(self) -> Callable[[float, Any], float | None]:
        """Accuracy now and then along a curve; parsing takes as long as a pass."""
        last = 0.0

        def seen(passes: float, weights: Any) -> float | None:
            nonlocal last
            if passes < AGAIN * last:
                return None
            last = passes
            return self.accuracy(passes, weights)

        return seen


def treebank(
    folder: Path,
    loss: Any = "log",
    limit: int | None = None,
    *ends: int,
    punctuation: bool = True,
    most_dev: int | None = None,
    **settings: Any,
) -> Treebank:
    """A treebank of which the first `limit` training sentences train.

    `ends` are numbers of training sentences: so many to train on, and so many behind them in place of dev. Accuracy is
    that on the first `most_dev` sentences of dev. `settings` are those of the parser.
    """
    from partwise.estimators.model import compact

    parser = parser_for(str(folder), loss=loss, labelled=False, prune=10, **settings)
    if ends:
        n_train, n_dev = ends
        whole = read(str(folder), 0, held_out=0)
        train = whole.subset(np.arange(min(n_train, limit or n_train)))
        held_out = {1: whole.subset(np.arange(n_train, n_train + n_dev))}
    else:
        train, held_out = (
            read(str(folder), 0, limit),
            {1: read(str(folder), 1, most_dev), 2: read(str(folder), 2)},
        )
    problem, encoder = parser._problem_for(train)
    kind = "uas" if punctuation else "uas_bare"

    def accuracy(passes: float, weights: np.ndarray, part: int = 1) -> float:
        parser._encoder, parser._model = compact(problem.structure, encoder, problem.scorer.maps, weights)
        parser._loss = problem.loss
        found: float = scores(parser, held_out[part])[kind]
        return found

    return Treebank(problem, accuracy)
