"""The curvature that shapes the steps of `lbfgs`, and the bound of mixtures of its points."""

from __future__ import annotations

import numpy as np
import pytest
from mixed_problems import mixed, weights_for
from problems import small
from scipy.optimize import minimize

from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem
from partwise.core.rows import AttributeRows, RowData
from partwise.solvers import LBFGS, solve
from partwise.solvers.base import evaluate_model
from partwise.solvers.primal import curvature
from partwise.solvers.primal.curvature import Curvature
from partwise.structures import Multiclass


def classes(x: np.ndarray, k: int = 4, l2: float = 0.1, stored: str = "dense", **options: object) -> Problem:
    """Noisy classes from the columns of x, which are given dense or as sparse attributes."""
    n, d = x.shape
    random = np.random.default_rng(1)
    scores = x @ (random.normal(size=(d, k)) / np.maximum(x.std(axis=0), 1e-300)[:, None]) / np.sqrt(d)
    labels = np.argmax(2.0 * scores + random.gumbel(size=(n, k)), axis=1)
    if stored == "dense":
        rows = RowData(FeatureMap.build(k, 0, d), None, x)
    else:
        entries = AttributeRows(
            np.arange(0, n * d + 1, d), np.tile(np.arange(d, dtype=np.int32), n), x.ravel()
        )
        rows = RowData(FeatureMap.build(k, d), entries)
    return Problem.build(Multiclass(k), labels, np.ones(n, int), {"node": rows}, l2=l2, **options)  # type: ignore


def badly_scaled(n: int = 3000, d: int = 20) -> np.ndarray:
    random = np.random.default_rng(0)
    turned = np.linalg.qr(random.normal(size=(d, d)))[0]
    x = (random.normal(size=(n, d)) * np.geomspace(1.0, 0.01, d)) @ turned
    x[:, :5] *= np.geomspace(1e-4, 1e4, 5)
    x[:, 5], x[:, 6], x[:, 7] = 1.0, x[:, 8], 0.0
    return x


@pytest.mark.parametrize("stored", ["dense", "sparse"])
def test_badly_scaled_columns_take_few_passes(stored: str) -> None:
    """SciPy's L-BFGS, which does not look at the curvature, is far from the optimum after as many evaluations."""
    problem = classes(badly_scaled(), stored=stored)
    found = solve(problem, LBFGS(), tol=1e-5, max_passes=100)
    assert found.converged and found.passes <= 30

    def objective(weights: np.ndarray) -> tuple[float, np.ndarray]:
        return problem.primal(weights), problem.l2 * weights - evaluate_model(problem, weights).v

    start, options = np.zeros(problem.n_weights), {"maxfun": 30}
    theirs = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    assert theirs.fun > 2 * found.certificate.primal


@pytest.mark.parametrize("apart", [0.0, np.inf], ids=["shared", "apart"])
def test_blocks_of_classes_are_those_of_the_hessian(apart: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """At zero all variances are equal, so that labels may share a block, and it is exact."""
    monkeypatch.setattr(curvature, "_LABELS_APART", apart)
    problem = classes(np.random.default_rng(2).normal(size=(200, 6)), k=3, l2=0.5)
    vector = weights_for(problem)
    rows = problem.scorer.kinds[0]
    x = rows.dense.astype(float)
    block = 2.0 / 9.0 * x.T @ x + 0.5 * np.eye(6)
    expected = np.linalg.solve(block, vector.reshape(6, rows.stride)[:, :3])
    found = Curvature(problem, np.zeros(problem.n_weights))(vector).reshape(6, rows.stride)[:, :3]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("at_zero", [True, False])
def test_curvature_is_symmetric_and_positive_and_keeps_to_weights_that_exist(at_zero: bool) -> None:
    problem = mixed()
    at = np.zeros(problem.n_weights) if at_zero else 0.3 * weights_for(problem, 4)
    shape = Curvature(problem, at)
    one, other = weights_for(problem, 5), weights_for(problem, 6)
    assert one @ shape(other) == pytest.approx(other @ shape(one), rel=1e-6)
    assert one @ shape(one) > 0.0
    assert not shape(one)[weights_for(problem) == 0.0].any()


@pytest.mark.parametrize("apart", [0.0, np.inf], ids=["shared", "apart"])
def test_steps_move_no_weights_of_all_labels_together(apart: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """That changes no distribution, and gradients have no such part; labels differ in variance here."""
    monkeypatch.setattr(curvature, "_LABELS_APART", apart)
    monkeypatch.setattr(curvature, "_LABELS_APART_WEAK", apart)
    problem = classes(np.random.default_rng(2).normal(size=(200, 6)), k=3, l2=1e-3)
    at = weights_for(problem)
    shape, rows = Curvature(problem, at), problem.scorer.kinds[0]
    step = shape(evaluate_model(problem, at).v).reshape(6, rows.stride)[:, :3]
    assert np.abs(step).max() > 0.01
    np.testing.assert_allclose(step.sum(axis=1), 0.0, atol=1e-9)
    one, other = weights_for(problem, 5), weights_for(problem, 6)
    assert one @ shape(other) == pytest.approx(other @ shape(one), rel=1e-6)
    assert one @ shape(one) > 0.0


def test_columns_that_a_sample_misses_bend_as_all_rows_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """A column of 20 rows of 6,000, of which a sample of some hundred has one or two, still knows how far to go."""
    monkeypatch.setattr(curvature, "SAMPLE", 300)
    x = np.random.default_rng(3).normal(size=(6000, 5))
    x[:-20, 4] = 0.0
    problem = classes(x, k=3, l2=1e-4)
    stride, weights = problem.scorer.kinds[0].stride, np.zeros(problem.n_weights)
    vector = np.zeros(problem.n_weights)
    vector[4 * stride] = 1.0
    found = Curvature(problem, weights)(vector)[4 * stride]
    assert found == pytest.approx(1.0 / (2.0 / 9.0 * np.square(x[:, 4]).sum()), rel=0.5)


def test_bound_of_mixtures_is_a_bound_and_no_worse_than_the_last_points() -> None:
    problem = small("tied", features="dense", n=30, l2=0.05).problem
    optimum = solve(problem, LBFGS(), tol=1e-10, max_passes=500).certificate.primal
    random = np.random.default_rng(0)
    solver, better = LBFGS(), 0
    state = solver.init(problem, random)
    for _ in range(12):
        state, _ = solver.step(problem, state, random)
        state, found = solver.certificate(problem, state)
        own = problem.dual(evaluate_model(problem, state.weights))
        assert own * (1 - 1e-9) <= found.dual <= optimum * (1 + 1e-9)
        better += found.dual > own + 1e-9 * abs(own)
    assert better > 3


def test_an_l1_term_beside_dense_columns_reaches_its_optimum() -> None:
    problem = classes(np.random.default_rng(3).normal(size=(300, 30)), l2=0.1, l1=2.0)
    found = solve(problem, LBFGS(), tol=1e-6, max_passes=300)
    assert found.converged and (found.weights == 0.0).mean() > 0.3


@pytest.mark.parametrize(("before", "after"), [(1.0, 30.0), (30.0, 1.0), (0.1, 3.0), (3.0, 0.1), (1.0, 0.8)])
@pytest.mark.parametrize("kind", ["classes", "chain", "sparse chain", "l1"])
def test_a_warm_start_from_another_l2_is_never_much_slower(kind: str, before: float, after: float) -> None:
    """What was computed at the old weights is that of the new problem but for l2, and is not computed again."""
    if kind in ("classes", "l1"):
        problem = classes(badly_scaled(1000), l2=before, **({"l1": 1.0} if kind == "l1" else {}))
    else:
        features = "dense" if kind == "chain" else "binary"
        problem = small("tied", features=features, n=60, l2=before).problem
    first = solve(problem, LBFGS(), tol=1e-5, max_passes=1000)
    there = problem.with_l2(after)
    cold, warm = solve(there, LBFGS(), tol=1e-5), solve(there, LBFGS(), tol=1e-5, warm_start=first)
    assert cold.converged and warm.converged and warm.passes <= cold.passes + 2
    carried = LBFGS().carry_over(there, type(first.state)(*(a.copy() for a in first.state)), {"l2"})
    if np.isnan(carried.value).any():  # from zero
        assert after > before and not carried.weights.any()
        return
    fresh = evaluate_model(there, first.state.weights)
    assert carried.value[0] == pytest.approx(there.primal(first.state.weights), rel=1e-12)
    assert carried.value[1] == pytest.approx(there.dual(fresh), rel=1e-9)
    np.testing.assert_allclose(
        carried.gradient, there.l2 * first.state.weights - fresh.v, atol=1e-8 * (1 + np.abs(fresh.v).max())
    )


def two_loops(gradient: np.ndarray, moves: np.ndarray, changes: np.ndarray) -> np.ndarray:
    """Nocedal (1980): −H g, with the pairs the oldest first and H₀ the usual multiple of the identity."""
    direction, shares = -gradient, []
    for move, change in zip(moves[::-1], changes[::-1], strict=True):
        shares.append((move @ direction) / (move @ change))
        direction = direction - shares[-1] * change
    direction = direction * (moves[-1] @ changes[-1]) / (changes[-1] @ changes[-1])
    for move, change, share in zip(moves, changes, shares[::-1], strict=True):
        direction = direction + (share - (change @ direction) / (move @ change)) * move
    return direction


def test_without_a_preconditioner_it_is_the_plain_method() -> None:
    problem = classes(np.random.default_rng(5).normal(size=(200, 6)), 4)
    plain, random = LBFGS(memory=5, preconditioner=None), np.random.default_rng(0)
    state = plain.init(problem, random)
    for step in range(1, 9):
        state, _ = plain.step(problem, state, random)
        rows = [k % 5 for k in range(max(0, step - 5), step)]
        expected = two_loops(state.gradient, state.moves[rows], state.changes[rows])
        np.testing.assert_allclose(state.direction, expected, rtol=1e-7, atol=1e-12)
    usual, _ = LBFGS(memory=5).step(problem, LBFGS(memory=5).init(problem, random), random)
    assert state.looked[0] == -1 and usual.looked[0] == 0
    ours = [solve(problem, solver, tol=1e-8).certificate for solver in (plain, LBFGS())]
    assert ours[0].primal == pytest.approx(ours[1].primal, rel=1e-7)
