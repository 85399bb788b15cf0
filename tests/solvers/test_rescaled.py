"""Frequent attributes scaled down: the same scores, the same optimum, fewer passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from problems import small

from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem
from partwise.core.rows import AttributeRows, RowData
from partwise.solvers import SOLVERS, ExponentiatedGradient, solve
from partwise.solvers.dual.rescaled import rescaled, squared_values
from partwise.structures import Multiclass

PLAIN = ExponentiatedGradient("gap", "newton", acceleration=None, precision="double")


@pytest.mark.parametrize("kind", ["tied", "multiclass", "spanning", "labelled", "grammar"])
@pytest.mark.parametrize(("features", "pairs"), [("binary", "all"), ("real", "observed")])
def test_weights_divided_by_the_roots_give_the_same_scores(kind: str, features: str, pairs: Any) -> None:
    problem = small(kind, "log", features=features, pairs=pairs, n=20, l2=1e-2).problem
    found = rescaled(problem)
    assert found is not None and len(found.held) and 0.0 < found.root.min() <= found.root.max() < 1.0
    v = problem.at_weights(np.zeros(problem.n_weights), 1.0).v  # zero where weights do not exist
    seen = v.copy()
    seen[found.held] /= found.root
    np.testing.assert_allclose(found.problem.scores(seen), problem.scores(v), rtol=1e-12, atol=1e-12)


def test_what_attributes_are_used_for() -> None:
    rows = AttributeRows(
        np.array([0, 2, 3, 5]), np.array([0, 1, 0, 0, 2], np.int32), np.array([1.0, 2, 3, 1, 5])
    )
    labels = np.array([0, 1, 0])
    wide = FeatureMap.build(3, 3, 0, rows, labels, "all").bind(rows, 3)
    sums = squared_values(wide).reshape(3, -1)
    np.testing.assert_allclose(sums, np.repeat([[11.0], [4.0], [25.0]], sums.shape[1], axis=1))
    narrow = FeatureMap.build(3, 3, 0, rows, labels, "observed")
    sums = squared_values(narrow.bind(rows, 3))
    attribute, _, weight = narrow.pairs()
    np.testing.assert_allclose(sums[weight], np.array([11.0, 4.0, 25.0])[attribute])


def shared_and_rare(l2: float = 1.0) -> Problem:
    """Classes with a few attributes that most examples have, and one or two that few others do."""
    random, n = np.random.default_rng(0), 1500
    shared = random.random((n, 12)) < 0.7
    ids = [np.append(np.flatnonzero(row), 12 + random.integers(0, n // 2, 2)) for row in shared]
    ids = [np.unique(each).astype(np.int32) for each in ids]
    truth = random.normal(size=(12 + n // 2, 4))
    labels = np.array([(truth[each].sum(axis=0) + random.gumbel(size=4)).argmax() for each in ids])
    rows = AttributeRows(np.append(0, np.cumsum([len(each) for each in ids])), np.concatenate(ids))
    node_map = FeatureMap.build(4, 12 + n // 2, 0, rows, labels, "all")
    return Problem.build(
        Multiclass(4), labels, np.ones(n, np.int64), {"node": RowData(node_map, rows)}, l2=l2, loss="log"
    )


def test_same_optimum_in_fewer_passes() -> None:
    problem = shared_and_rare(0.1)
    found = solve(problem, SOLVERS["eg-gap"], tol=1e-6, max_passes=300)
    plain = solve(problem, PLAIN, tol=1e-6, max_passes=found.passes)
    assert found.converged and found.state.holds[0] == 1
    assert plain.certificate.relative_gap > 3 * found.certificate.relative_gap
    best = solve(problem, SOLVERS["lbfgs"], tol=1e-8, max_passes=2000).certificate
    assert best.dual * (1 - 1e-12) <= found.certificate.primal <= best.primal * (1 + 1e-6)


def test_another_l2_has_other_values() -> None:
    problem = shared_and_rare()
    one, other = rescaled(problem), rescaled(problem.with_l2(0.01))
    assert one is not None and other is not None
    assert one.problem.l2 == 1.0 and other.problem.l2 == 0.01
    assert other.root.min() < one.root.min()
    again = rescaled(problem)
    assert again is not None
    np.testing.assert_array_equal(again.root, one.root)


def test_dense_rows_and_rare_attributes_stay() -> None:
    assert rescaled(small("multiclass", "log", features="dense").problem) is None
    assert rescaled(small("multiclass", "log", l2=1e6).problem) is None
