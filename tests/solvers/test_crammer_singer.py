"""`crammer-singer`: the contract, its steps against a general method, labels without features, what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contract_solvers import SolverContract, optimum, problem_of
from kernel_problems import kernelised
from problems import WrittenOut, small

from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem
from partwise.core.rows import AttributeRows, RowData
from partwise.errors import InputError
from partwise.solvers import BlockFrankWolfe, CrammerSinger, solve, solver_for
from partwise.solvers.dual.crammer_singer import _squared_features
from partwise.solvers.dual.crammer_singer_pass import class_pass
from partwise.solvers.dual.hard import hard_dual, settle
from partwise.structures import Multiclass

SOLVER = CrammerSinger("double")


class TestCrammerSinger(SolverContract):
    solver, hard_only, cases, usual_case = SOLVER, True, ("multiclass",), "multiclass"

    def dual_point(self, written: WrittenOut, state: Any) -> list[np.ndarray]:
        return list(state.mu.reshape(written.problem.n_examples, -1))


def _sparse(pairs: str, seed: int = 0, **options: Any) -> Problem:
    """Classes with sparse real attributes, some examples without any; with observed pairs labels differ in norm."""
    random, n, n_labels, n_attributes = np.random.default_rng(seed), 60, 5, 40
    sizes = random.integers(0, 7, n)
    ids = np.concatenate([random.choice(n_attributes, size, replace=False) for size in sizes]).astype(
        np.int32
    )
    rows = AttributeRows(np.concatenate([[0], np.cumsum(sizes)]), ids, random.normal(size=len(ids)))
    labels = random.integers(n_labels, size=n)
    feature_map = FeatureMap.build(n_labels, n_attributes, rows=rows, row_labels=labels, pairs=pairs)
    return Problem.build(
        Multiclass(n_labels), labels, np.ones(n, int), {"node": RowData(feature_map, rows)}, loss="hinge",
        l2=0.3, example_weight=random.choice([0.0, 0.5, 2.0], n), **options,
    )  # fmt: skip


@pytest.mark.parametrize("pairs", ["all", "observed"])
def test_every_visit_is_exact(pairs: str) -> None:
    """After a visit no small move of mass within the example raises the dual."""
    problem = _sparse(pairs, cost=np.random.default_rng(2).random((5, 5)) * (1 - np.eye(5)))
    random = np.random.default_rng(0)
    state = SOLVER.init(problem, random)
    for _ in range(3):
        state, _ = SOLVER.step(problem, state, random)
    last = int(np.argmax(problem.example_weight * _squared_features(problem).sum(axis=1)))
    scratch = problem.scorer.scratch(np.float64, asks=())
    class_pass(
        problem.batch, np.array([last]), state.point(), _squared_features(problem), 1.0, problem.l2, scratch
    )
    mu = state.mu.reshape(-1, 5)
    np.testing.assert_allclose(mu.sum(axis=1), 1.0, atol=1e-12)
    assert mu.min() >= 0.0

    def dual(own: np.ndarray) -> float:
        changed = SOLVER.init(problem, np.random.default_rng(0))
        changed.mu[:] = state.mu
        changed.mu.reshape(-1, 5)[last] = own
        settle(problem, changed.mu, changed.point())
        return hard_dual(problem, changed.point())

    best = dual(mu[last])
    for other in np.eye(5):
        for share in (1e-3, 0.1, 0.7):
            assert dual((1 - share) * mu[last] + share * other) <= best + 1e-10


@pytest.mark.parametrize("pairs", ["all", "observed"])
def test_same_optimum_as_frank_wolfe(pairs: str) -> None:
    problem = _sparse(pairs)
    found = solve(problem, SOLVER, tol=1e-6, max_passes=2000)
    other = solve(problem, BlockFrankWolfe(precision="double"), tol=1e-5, max_passes=5000)
    assert found.converged and other.converged
    assert found.certificate.primal == pytest.approx(other.certificate.primal, rel=2e-5)
    assert found.certificate.primal == pytest.approx(problem.primal(found.weights), rel=1e-12)


def test_single_precision_is_as_good_as_it_says() -> None:
    found = solve(problem_of("multiclass", "hinge").problem, CrammerSinger(), tol=1e-4, max_passes=500)
    assert found.converged
    assert found.certificate.primal <= optimum("multiclass", "hinge") * (1 + 1.1e-4)


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (lambda: problem_of("multiclass", "log").problem, "beta = inf"),
        (lambda: problem_of("tied", "hinge").problem, "is for classes"),
        (lambda: kernelised(small("multiclass", "hinge")), "kernel function"),
        (lambda: problem_of("multiclass", "hinge").problem.with_l2(1.0, 0.5), "l1"),
    ],
)
def test_what_it_cannot_do_is_refused(problem: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        solve(problem(), SOLVER)


def test_margins_that_can_all_be_kept_are_certified_too() -> None:
    """What is left to lose then lies below single precision, which a weak l2 tells beforehand."""
    random, n, width = np.random.default_rng(0), 1000, 1500
    X = (random.normal(size=(n, width)) / np.sqrt(width)).astype(np.float32)
    rows = {"node": RowData(FeatureMap.build(3, 0, width), None, X)}
    labels = random.integers(3, size=n)
    problem = Problem.build(Multiclass(3), labels, np.ones(n, int), rows, l2=1e-5, loss="hinge")
    assert solver_for(problem.with_l2(100.0), "auto", 1e-3).precision == "single"
    solver = solver_for(problem, "auto", 1e-3)
    assert solver.precision == "double"
    assert solve(problem, solver, tol=1e-3, max_passes=100).converged
    assert not solve(problem, CrammerSinger("single"), tol=1e-3, max_passes=100).converged
