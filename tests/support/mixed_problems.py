"""A problem whose examples have dense and sparse attributes, and random weights for any problem."""

from __future__ import annotations

import numpy as np

from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem
from partwise.core.rows import AttributeRows, RowData
from partwise.structures import Chain


def weights_for(problem: Problem, seed: int = 0) -> np.ndarray:
    """Random numbers wherever a weight exists."""
    random, weights = np.random.default_rng(seed), np.zeros(problem.n_weights)
    for kind, rows in zip(problem.structure.kinds, problem.scorer.kinds, strict=True):
        own = problem.scorer.maps[kind.name].pairs()[2] + rows.first_weight
        weights[own] = random.normal(size=len(own))
    return weights


def mixed(n_jobs: int = 1) -> Problem:
    """Chains with sparse and dense attributes of positions, observed pairs only, and dense ones of neighbours."""
    random, lengths = np.random.default_rng(3), np.array([3, 1, 4, 2, 6, 1, 2])
    n, n_edges = int(lengths.sum()), int((lengths - 1).sum())
    labels = random.integers(0, 3, n)
    sparse = AttributeRows(
        np.arange(0, 2 * n + 1, 2), (random.integers(0, 2, 2 * n) + np.tile([0, 2], n)).astype(np.int32)
    )
    node = FeatureMap.build(3, 4, 6, sparse, labels, "observed")
    rows = {
        "node": RowData(node, sparse, random.normal(size=(n, 6))),
        "edge": RowData(FeatureMap.build(9, 0, 5), None, random.normal(size=(n_edges, 5))),
    }
    structure = Chain(3, tied=False)
    return Problem.build(structure, labels, lengths, rows, loss="softmax_margin", n_jobs=n_jobs)
