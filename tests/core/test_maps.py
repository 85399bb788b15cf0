"""Scoring and scattering against plain matrices, for rows that feed one entry and for rows that feed several."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from partwise.compiled.dispatch import entry
from partwise.compiled.row_scatter import scatter_run
from partwise.compiled.row_scores import score_run
from partwise.compiled.simd_dense import ROWS_AT_ONCE
from partwise.core.maps import FeatureMap, Pairs
from partwise.core.rows import AttributeRows


@entry
def _score(kind, first, n_rows, weights, scale, scores, part, l1, row):  # type: ignore
    score_run(kind, first, n_rows, weights, scale, scores, part, l1, row)


@entry
def _scatter(kind, first, n_rows, weights, scale, delta, part, threshold, l1, row):  # type: ignore
    return scatter_run(kind, first, n_rows, weights, scale, delta, part, threshold, l1, row)


N_ROWS, N_SPARSE, N_DENSE = 9, 12, 3


def _data(width: int, real: bool, dense: bool, pairs: Pairs) -> tuple[Any, Any, np.ndarray]:
    """A map, its rows, and the rows' features as a matrix (rows × width, weights)."""
    random = np.random.default_rng([width, real, dense])
    sparse = (random.random((N_ROWS, N_SPARSE)) < 0.4) * (
        random.normal(size=(N_ROWS, N_SPARSE)) if real else 1.0
    )
    sparse = sparse.astype(np.float32)
    values = random.normal(size=(N_ROWS, N_DENSE if dense else 0)).astype(np.float32)
    row, ids = np.nonzero(sparse)
    row_ptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=N_ROWS))])
    rows = AttributeRows(row_ptr, ids.astype(np.int32), sparse[row, ids] if real else None)
    labels = random.integers(-1, width, N_ROWS)
    feature_map = FeatureMap.build(width, N_SPARSE, values.shape[1], rows, labels, pairs)
    kind = feature_map.bind(rows, N_ROWS, 0, values)
    both, matrix = np.hstack([values, sparse]), np.zeros((N_ROWS, width, feature_map.n_weights))
    attribute, label, weight = feature_map.pairs()
    matrix[:, label, weight] = both[:, attribute]
    return feature_map, kind, matrix.reshape(-1, feature_map.n_weights)


@pytest.mark.parametrize("l1", [None, 0.5])
@pytest.mark.parametrize("pairs", ["all", "observed"])
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("width", [1, 3])
def test_score_and_scatter(width: int, real: bool, dense: bool, pairs: Pairs, l1: float | None) -> None:
    feature_map, kind, matrix = _data(width, real, dense, pairs)
    random = np.random.default_rng(5)
    weights = random.normal(size=feature_map.n_weights) * (np.abs(matrix).sum(axis=0) > 0)
    scores, row = np.zeros(N_ROWS * width + 8), np.zeros(ROWS_AT_ONCE * max(feature_map.stride, 8))
    _score(kind, 0, 4, weights, 2.0, scores, 0, l1, row)
    _score(kind, 4, N_ROWS - 4, weights, 2.0, scores, 4 * width, l1, row)
    np.testing.assert_allclose(scores[: N_ROWS * width], 2.0 * matrix @ _shrunk(weights, l1), atol=1e-12)
    delta = random.normal(size=5 * width)
    delta[:width] = 1e-4
    moved, expected = weights.copy(), delta.copy()
    expected[:width] = 0.0
    growth = _scatter(kind, 4, N_ROWS - 4, moved, 0.5, delta, 0, 1e-3, l1, row)
    np.testing.assert_array_equal(delta, expected)  # a row below the threshold waits
    np.testing.assert_allclose(moved, weights + 0.5 * expected @ matrix[4 * width :], atol=1e-12)
    before, after = _shrunk(weights, l1), _shrunk(moved, l1)
    np.testing.assert_allclose(growth, after @ after - before @ before, atol=1e-12)


def _shrunk(weights: np.ndarray, l1: float | None) -> np.ndarray:
    return weights if l1 is None else np.sign(weights) * np.maximum(np.abs(weights) - l1, 0.0)


def test_rows_that_feed_one_entry_have_one_weight_an_attribute() -> None:
    assert FeatureMap.build(1, 1000).n_weights == 1000
    assert FeatureMap.build(1, 10, n_dense=2).n_weights == 12
    observed, _, _ = _data(1, False, False, "observed")
    assert observed.n_weights == len(observed.pairs()[2]) <= N_SPARSE
    assert observed.mask.size == 0
