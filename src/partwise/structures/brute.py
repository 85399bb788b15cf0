"""Every quantity by enumerating all labellings: the reference that tests compare all structures with."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from partwise.errors import InputError
from partwise.structures.contract import Structure


class Brute:
    """Enumeration over the labellings of a structure, one small example at a time.

    Methods take the scores that the structure's own methods take.

    Parameters
    ----------
    structure : Structure
        Gives the labellings and the score of each. None of its recursions are used.
    length : int
        Positions of the example.
    limit : int
        The most labellings to enumerate.
    """

    def __init__(self, structure: Structure, length: int = 1, limit: int = 100_000):
        self.structure, self.length = structure, length
        self.labellings: list[Any] = []
        for y in structure.labellings(length):
            self.labellings.append(y)
            if len(self.labellings) > limit:
                raise InputError(f"length {length} has more than limit = {limit} labellings")

    def scores(self, *scores: Any, **named: Any) -> np.ndarray:
        """Score of each labelling, in the order of ``labellings``."""
        return np.array([self.structure.score(y, *scores, **named) for y in self.labellings])

    def log_partition(self, *scores: Any, **named: Any) -> float:
        values = self.scores(*scores, **named)
        top = values.max(initial=-np.inf)
        return float(top + np.log(np.exp(values - top).sum())) if top > -np.inf else -np.inf

    def probabilities(self, *scores: Any, **named: Any) -> np.ndarray:
        """Probability of each labelling."""
        log_total = self.log_partition(*scores, **named)
        if log_total == -np.inf:
            raise InputError("scores: every labelling scores −inf or is masked out")
        values = np.exp(self.scores(*scores, **named) - log_total)
        return values / values.sum()

    def marginals(self, *scores: Any, **named: Any) -> Any:
        """Expected indicators, as one array or a tuple of arrays; expected counts if labellings have no indicators."""
        try:
            self.structure.indicators(self.labellings[0])
        except NotImplementedError:
            return self.expected_counts(*scores, **named)
        weighted = zip(self.probabilities(*scores, **named), self.labellings, strict=True)
        terms = [(p, self.structure.indicators(y)) for p, y in weighted]
        if not isinstance(terms[0][1], tuple):
            return sum(p * indicator for p, indicator in terms)
        pieces = len(terms[0][1])
        return tuple(sum(p * indicator[piece] for p, indicator in terms) for piece in range(pieces))

    def expected_counts(self, *scores: Any, **named: Any) -> np.ndarray:
        """Expected counts of the flat parts that solvers see."""
        counts = np.zeros(int(self.structure.n_parts(self.structure.shapes([self.length]))[0]))
        for p, y in zip(self.probabilities(*scores, **named), self.labellings, strict=True):
            for part, times in Counter(self.structure.encode(y).tolist()).items():
                counts[part] += p * times
        return counts

    def argmax(self, *scores: Any, **named: Any) -> Any:
        return self.kbest(*scores, k=1, **named)[0][0]

    def kbest(self, *scores: Any, k: int = 5, **named: Any) -> list[tuple[Any, float]]:
        values = self.scores(*scores, **named)
        order = np.argsort(-values, kind="stable")[:k]
        best = [(self.labellings[i], float(values[i])) for i in order if values[i] > -np.inf]
        if not best:
            raise InputError("scores: every labelling scores −inf or is masked out")
        return best

    def sample(self, *scores: Any, n_samples: int = 1, random_state: Any = None, **named: Any) -> list[Any]:
        generator = np.random.default_rng(random_state)
        chosen = generator.choice(len(self.labellings), n_samples, p=self.probabilities(*scores, **named))
        return [self.labellings[i] for i in chosen]

    def entropy(self, *scores: Any, **named: Any) -> float:
        p = self.probabilities(*scores, **named)
        return float(-(p[p > 0] * np.log(p[p > 0])).sum())

    def log_count(self) -> float:
        return float(np.log(len(self.labellings))) if self.labellings else -np.inf
