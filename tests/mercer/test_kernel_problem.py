"""Kernel problems: with the linear kernel they are the explicit problem, step by step; blocks and budgets."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from kernel_problems import LINEAR, explicit_vector, kernelised
from problems import Small, small

from partwise.core.losses import Loss
from partwise.core.problem import Problem
from partwise.errors import InputError
from partwise.mercer.functions import KernelFunction, check_is_kernel
from partwise.mercer.gram import Gram
from partwise.mercer.problem import KernelProblem
from partwise.solvers import BatchEG, BlockFrankWolfe, ExcessiveGap, ExponentiatedGradient, solve

KINDS = ["multiclass", "tied", "untied", "order2", "masked"]
SOLVERS: dict[str, tuple[Any, str]] = {
    "excessive-gap": (ExcessiveGap("adaptive", 50.0), "hinge"),
    "excessive-gap fixed": (ExcessiveGap("fixed", 20.0), "hinge"),
    "eg": (ExponentiatedGradient("random", initial_step=0.5, precision="double"), "log"),
    "eg hinge": (ExponentiatedGradient("permuted", initial_step=0.5, precision="double"), "hinge"),
    "eg-gap": (ExponentiatedGradient("gap", precision="double"), "softmax_margin"),
    "eg-batch": (BatchEG(), "log"),
    # A visit ends with two labellings exactly tied, and rounding breaks the tie where the same example follows.
    "bcfw": (BlockFrankWolfe("cyclic", n_cached=0, precision="double"), "hinge"),
}


@cache
def explicit(kind: str, loss: str) -> Small:
    return small(kind, loss, features="dense" if kind == "multiclass" else "real", weighted=True, n=12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SOLVERS)
def test_linear_kernel_is_the_explicit_solver_at_every_iteration(name: str, kind: str) -> None:
    solver, loss = SOLVERS[name]
    data = explicit(kind, loss)
    problem, plain = kernelised(data), data.problem
    randoms = np.random.default_rng(5), np.random.default_rng(5)
    ours, theirs = solver.init(problem, randoms[0]), solver.init(plain, randoms[1])
    for _ in range(12):
        ours, our_info = solver.step(problem, ours, randoms[0])
        theirs, their_info = solver.step(plain, theirs, randoms[1])
        np.testing.assert_allclose(explicit_vector(problem, data, ours.v), theirs.v, rtol=1e-8, atol=1e-8)
        assert our_info.dual == pytest.approx(their_info.dual, rel=1e-8, abs=1e-8)
        assert our_info.passes == their_info.passes
    ours, certificate = solver.certificate(problem, ours)
    theirs, expected = solver.certificate(plain, theirs)
    assert certificate.dual == pytest.approx(expected.dual, rel=1e-8)
    weights = explicit_vector(problem, data, certificate.weights)
    assert certificate.primal == pytest.approx(plain.primal(weights), rel=1e-8)
    np.testing.assert_allclose(problem.inner(ours.v, ours.v), theirs.v @ theirs.v, rtol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", ["log", "hinge"])
def test_duality_gap_is_exact(kind: str, loss: str) -> None:
    """P and D of random vectors, recomputed with explicit features label by label."""
    data = explicit(kind, loss)
    problem, written = kernelised(data), data.written_out
    random = np.random.default_rng(1)
    coefficients = np.zeros(problem.n_sums)
    for kind in problem.structure.kinds:
        rows = coefficients[problem.scorer.slice_of(kind.name)]
        stride = problem.scorer.maps[kind.name].stride
        rows = rows.reshape(-1, stride)[:, : kind.width]  # without the padding
        rows[:] = random.normal(size=rows.shape)
    scores = problem.settled(coefficients)
    weights = explicit_vector(problem, data, scores)
    assert problem.primal(scores) == pytest.approx(written.primal(weights), rel=1e-10)
    point = problem.at_weights(scores, 0.7, 0.3)
    beta = 0.7
    alphas = []
    for i, costs in enumerate(written.costs):
        margins = written.features[i] @ weights * beta
        if problem.batch.cost.size:
            margins = margins + 0.3 * costs
        powers = np.exp(margins - margins.max())
        alphas.append(powers / powers.sum())
    assert problem.dual(point) == pytest.approx(written.dual(alphas), rel=1e-9)


@pytest.mark.parametrize("megabytes", [1e-3, 2e-3, 10.0])
def test_rows_computed_anew_give_the_same(megabytes: float) -> None:
    data = explicit("tied", "hinge")
    whole, partly = kernelised(data), kernelised(data, megabytes)
    all_kept, few_kept = whole.grams["node"], partly.grams["node"]
    if megabytes < 1:
        assert few_kept.n_kept < few_kept.n == all_kept.n_kept
    vectors = np.random.default_rng(0).normal(size=(all_kept.n, 3))
    expected = all_kept.multiply(vectors)
    np.testing.assert_allclose(few_kept.multiply(vectors), expected, rtol=1e-12)
    np.testing.assert_allclose(few_kept.diagonal(), all_kept.diagonal())
    rows = np.array([5, 0, 11, 5])
    np.testing.assert_allclose(few_kept.rows(rows), all_kept.rows(rows))
    for solver in (ExcessiveGap(), BlockFrankWolfe("cyclic", n_cached=0, precision="double")):
        found = [solve(p, solver, tol=1e-9, max_passes=30) for p in (whole, partly)]
        assert found[0].certificate.primal == pytest.approx(found[1].certificate.primal, rel=1e-9)


@pytest.mark.parametrize("n", [12, 150])
def test_visits_in_several_blocks_are_those_of_the_explicit_solver(n: int) -> None:
    """Rows of a kernel are computed for some tens of visits together, which must see each other's changes."""
    data = small("untied", "hinge", features="real", weighted=True, n=n)
    solver = BlockFrankWolfe("cyclic", n_cached=0, precision="double")
    ours, theirs = (solve(each, solver, tol=1e-12, max_passes=4) for each in (kernelised(data), data.problem))
    assert ours.certificate.dual == pytest.approx(theirs.certificate.dual, rel=1e-10)


def test_single_precision_is_close() -> None:
    data = explicit("tied", "hinge")
    single = Gram.of_points(KernelFunction("linear", dtype=np.float32), data.node, 10.0)
    problem = KernelProblem.of_kernels(
        data.problem.structure, data.labels, data.lengths, {"node": single}, loss="hinge", l2=2.0,
        example_weight=data.problem.batch.example_weight,
    )  # fmt: skip
    ours = solve(problem, ExcessiveGap(), tol=3e-4, max_passes=2000)
    theirs = solve(data.problem, ExcessiveGap(), tol=3e-4, max_passes=2000)
    assert single.multiply(np.eye(single.n)).dtype == np.float64
    assert ours.converged
    assert ours.certificate.primal == pytest.approx(theirs.certificate.primal, rel=6e-4)


@pytest.mark.parametrize("kind", ["multiclass", "tied", "untied"])
def test_spread_bounds_feature_differences(kind: str) -> None:
    data = explicit(kind, "hinge")
    spread, written = kernelised(data).squared_radii(), data.written_out
    for i, (rows, gold) in enumerate(zip(written.features, written.gold, strict=True)):
        assert ((rows - rows[gold]) ** 2).sum(axis=1).max() <= spread[i] * (1 + 1e-9)


def test_neighbour_kernel_is_the_product_of_features() -> None:
    """1 + k(before) k(here) is the inner product of (1, x_before ⊗ x_here)."""
    random = np.random.default_rng(2)
    points, second = random.normal(size=(6, 3)), np.array([1, 2, 4, 5])
    gram = Gram.of_neighbours(Gram.of_points(LINEAR, points, 1.0), second, 1.0)
    features = [np.append(1.0, np.outer(points[t - 1], points[t])) for t in second]
    np.testing.assert_allclose(gram.rows(np.arange(4)), np.array(features) @ np.array(features).T)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda X, Y: X @ Y.T - 5.0, "eigenvalue"),
        (lambda X, Y: X @ np.tril(np.ones((2, 2))) @ Y.T, "but k"),
        (lambda X, Y: np.zeros((len(X), 1)), r"shape \(4, 1\)"),
        (lambda X, Y: np.full((len(X), len(Y)), np.nan), "NaN"),
        (lambda X, Y: np.full((len(X), len(Y)), "no"), "not of numbers"),
    ],
)
def test_what_is_no_kernel_is_refused(kernel: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Gram.of_points(KernelFunction(kernel), np.array([[1.0, 0], [0, 1], [1, 1], [2, 0]]), 1.0)


def test_large_matrices_are_examined_in_part_and_while_training() -> None:
    """One bad point in a thousand may escape the sample, not the training."""
    n = 1000
    values = np.eye(n)
    values[:2, :2] = [[1.0, 3.0], [3.0, 1.0]]
    check_is_kernel(lambda rows, columns: values[np.ix_(rows, columns)], n, np.float64)  # escapes
    gram = Gram.of_points(KernelFunction("precomputed"), values, 1.0)
    labels = np.zeros(n, np.int64)
    labels[1] = 1
    from partwise.structures import Multiclass

    problem = KernelProblem.of_kernels(
        Multiclass(2), labels, np.ones(n, np.int64), {"node": gram}, loss="hinge", l2=0.1
    )
    coefficients = np.zeros(problem.n_sums)
    stride = problem.scorer.maps["node"].stride
    coefficients[0], coefficients[stride] = 1.0, -1.0
    with pytest.raises(InputError, match="positive semidefinite"):
        problem.settled(coefficients)


def test_matrix_must_fit_the_positions() -> None:
    data = explicit("tied", "hinge")
    with pytest.raises(InputError, match="rows for"):
        KernelProblem.of_kernels(
            data.problem.structure,
            data.labels,
            data.lengths,
            {"node": Gram.of_points(LINEAR, data.node[1:], 1.0)},
        )
    with pytest.raises(InputError, match="square"):
        Gram.of_points(KernelFunction("precomputed"), data.node, 1.0)


def test_soft_losses_reach_the_explicit_optimum() -> None:
    data = small("tied", Loss(2.0, 0.5), features="real")
    problem = kernelised(data)
    assert isinstance(problem, Problem)
    ours = solve(problem, ExponentiatedGradient("gap", precision="double"), tol=1e-7, max_passes=500)
    theirs = solve(data.problem, ExponentiatedGradient("gap", precision="double"), tol=1e-7, max_passes=500)
    assert ours.converged
    assert ours.certificate.primal == pytest.approx(theirs.certificate.primal, rel=1e-6)
