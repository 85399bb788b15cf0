"""Which training sequences carry a prediction: the weights are a sum over them, by the dual variables.

    score(x, y) = w·φ(x, y),   w = (1/l2) Σ_i weight_i (φ(x_i, y_i) − Σ_r μ_{i,r} φ(x_i, r))

so every training sequence has its own share of the score. Sequences fitted without doubt have none.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from partwise.core.partial import PartialProblem
from partwise.core.predict_pass import gold_features
from partwise.core.problem import Problem
from partwise.core.scorer import Scorer
from partwise.errors import InputError
from partwise.estimators.base import Training, n_threads
from partwise.estimators.encoded import Encoded
from partwise.estimators.explain import Explanations
from partwise.estimators.model import LinearModel
from partwise.estimators.predictions import Predictions, Query


class Influence(NamedTuple):
    """Share of one training sequence in a score: its index in the training data, and its contribution."""

    index: int  # type: ignore[assignment]
    contribution: float


class InfluenceMixin(Explanations, Predictions):
    """For an estimator that keeps the `_training` of its last fit."""

    _training: Training

    def influential_examples(self, x: Any, y: Any = None, n: int | None = 5) -> list[Influence]:
        """Training sequences that contribute most, by size, to the score of a labelling of one sequence.

        All contributions together (``n=None``) add up to the score under w(α), the weights of the dual
        point, which differ from `coef_` by no more than the duality gap allows. Needs the dual state, which
        is there after `fit` but not in a model that was loaded, copied or unpickled.

        Parameters
        ----------
        x : one example, as in X
        y : list of labels, optional
            By default the best labelling.
        n : int or None
            How many; None for all.
        """
        training = getattr(self, "_training", None)
        if training is None:
            raise InputError(
                "influential_examples needs the dual state of training, which models that were loaded, "
                "copied or unpickled do not have: call it after fit, in the same process"
            )
        X = self._alone(x)
        encoded = self._encode(self._source(X), training.encoder, training.problem.structure)
        query = Query(self._model, encoded, source=self._source(X))
        _, labels = self._given(query, self.predict(X)[0] if y is None else y, "y")
        features = _feature_vector(training.problem, encoded, labels)
        shares = _shares(training, features, n_threads(self.n_jobs))
        original = np.flatnonzero(training.data.lengths > 0)
        order = np.argsort(-np.abs(shares), kind="stable")[:n]
        return [Influence(int(original[k]), float(shares[k])) for k in order]


def _feature_vector(problem: Problem, encoded: Encoded, codes: np.ndarray) -> np.ndarray:
    """φ(x, y) in the order of the training problem's weights."""
    structure, shapes = problem.structure, encoded.shapes_for(problem.structure)
    scorer = Scorer.build(structure, shapes, encoded.rows(structure, problem.scorer.maps))
    gold = structure.encode_all(codes, shapes)
    vector = np.zeros(problem.n_weights)
    batch = scorer.batch._replace(gold_ptr=gold.ptr, gold_part=gold.part)
    gold_features(batch, vector, scorer.scratch(np.float64, asks=()))
    return vector


def _shares(training: Training, features: np.ndarray, n_jobs: int) -> np.ndarray:
    """Contribution of every training sequence to features·w."""
    problem = training.problem
    batch = problem.batch
    # Shares of weights that an l1 term holds at zero are none; of others, those of v before it is shrunk.
    scores = problem.scores(np.where(training.weights != 0.0, features, 0.0) if problem.l1 else features)
    if isinstance(problem, PartialProblem):
        balance = getattr(training.state, "balance", None)
        balance = problem.balance(training.weights) if balance is None else balance
        return batch.example_weight * np.add.reduceat(balance * scores, batch.part_ptr[:-1]) / problem.l2
    mu = _expected_counts(training, n_jobs)
    expected = np.add.reduceat(mu * scores, batch.part_ptr[:-1])
    parts = problem.gold_indices()
    amounts = batch.gold_amount if batch.gold_amount.size else np.ones(len(parts))
    example = np.repeat(np.arange(problem.n_examples), np.diff(batch.gold_ptr))
    gold = np.bincount(example, scores[parts] * amounts, minlength=problem.n_examples)
    return batch.example_weight * (gold - expected) / problem.l2


def _expected_counts(training: Training, n_jobs: int) -> np.ndarray:
    """μ of all parts: the solver's own, or those of the model it ended with."""
    problem, loss = training.problem, training.problem.loss
    mu = getattr(training.state, "mu", None)
    if mu is not None and mu.size:
        return np.asarray(mu, np.float64)
    if hasattr(training.state, "expected_counts"):
        return training.state.expected_counts(problem)
    if loss.is_hard:
        raise InputError("this solver keeps no dual variables; for beta = inf fit with 'auto' or 'bcfw'")
    model = LinearModel(problem.structure, problem.scorer.maps, training.weights)
    cost = (loss.beta * loss.gamma * problem.cost).astype(np.float32)
    return model.counts(problem.scorer, loss.beta, cost, what="all", n_jobs=n_jobs)[0]
