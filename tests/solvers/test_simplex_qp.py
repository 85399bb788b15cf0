"""The explicit quadratic programme over simplices: SVM duals against scikit-learn, bounds, and bad input."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.sparse.linalg import aslinearoperator
from sklearn.svm import SVC, LinearSVC

from partwise.errors import InputError
from partwise.solvers.dual.simplex_qp import SimplexQPRecord, simplex_qp


def random_quadratic(sizes: list[int], rank: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    factor = random.normal(size=(sum(sizes), rank))
    return factor @ factor.T, random.normal(size=sum(sizes))


def two_classes(n: int = 80) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    X = random.normal(size=(n, 6))
    return X, np.where(X @ random.normal(size=6) + 0.8 * random.normal(size=n) > 0, 1, -1)


def svm_dual(kernel: np.ndarray, C: float) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """½ a'Ka − Σ a over 0 ≤ a ≤ C: a = C α with a second, empty component in every block."""
    n = len(kernel)
    A, b = np.zeros((2 * n, 2 * n)), np.zeros(2 * n)
    A[::2, ::2], b[::2] = C * C * kernel, -C
    return A, b, [2] * n


@pytest.mark.parametrize("C", [0.1, 1.0])
def test_binary_svm(C: float) -> None:
    X, y = two_classes()
    theirs = LinearSVC(loss="hinge", C=C, fit_intercept=False, tol=1e-8, max_iter=1_000_000).fit(X, y)
    weights = theirs.coef_[0]
    primal = 0.5 * weights @ weights + C * np.maximum(0, 1 - y * (X @ weights)).sum()
    Z = y[:, None] * X
    ours = simplex_qp(*svm_dual(Z @ Z.T, C), tol=1e-7, max_iterations=20_000)
    assert ours.converged
    assert -ours.value == pytest.approx(primal, rel=1e-7)
    np.testing.assert_allclose(C * ours.alpha[::2] @ Z, weights, atol=1e-4)


def test_kernel_svm() -> None:
    """A Gaussian kernel; libsvm has a bias, but data that change sign with their class leave it at zero."""
    X, _ = two_classes(30)
    X, y = np.concatenate([X, -X]), np.repeat([1, -1], 30)
    gram = np.exp(-0.2 * ((X[:, None] - X[None]) ** 2).sum(-1))
    ours = simplex_qp(*svm_dual(np.outer(y, y) * gram, 1.0), tol=1e-6)
    assert ours.converged
    # libsvm adds y'a = 0, which holds at the optimum here.
    theirs = SVC(kernel="precomputed", C=1.0, tol=1e-6).fit(gram, y)
    a = np.zeros(len(y))
    a[theirs.support_] = np.abs(theirs.dual_coef_[0])
    value = 0.5 * (a * y) @ gram @ (a * y) - a.sum()
    assert ours.lower_bound - 1e-6 <= ours.value <= value + 1e-6
    assert abs(theirs.intercept_[0]) < 1e-5
    assert ours.value == pytest.approx(value, rel=2e-6)


def test_multiclass_svm() -> None:
    """Crammer–Singer: W_k = C Σ_i (1[y_i = k] − α_ik) x_i, dual ½‖W‖² − C Σ_i Σ_{k ≠ y_i} α_ik."""
    random = np.random.default_rng(1)
    X, C, K = random.normal(size=(60, 5)), 0.5, 3
    y = (X @ random.normal(size=(5, K)) + 0.5 * random.normal(size=(60, K))).argmax(1)
    theirs = LinearSVC(
        multi_class="crammer_singer", C=C, fit_intercept=False, tol=1e-8, max_iter=1_000_000
    ).fit(X, y)
    scores = X @ theirs.coef_.T
    wrong = 1.0 - np.eye(K)[y]
    margins = (scores + wrong).max(1) - scores[np.arange(60), y]
    primal = 0.5 * (theirs.coef_**2).sum() + C * margins.sum()
    gram = X @ X.T
    A = C * C * np.kron(gram, np.eye(K))
    truth = np.eye(K)[y]
    b = (-C * C * (gram @ truth) - C * wrong).ravel()
    constant = 0.5 * C * C * (truth * (gram @ truth)).sum()
    for matrix in (A, sparse.csr_matrix(A)):
        ours = simplex_qp(matrix, b, [K] * 60, tol=1e-6)
        assert ours.converged
        assert -(ours.value + constant) == pytest.approx(primal, rel=1e-6)
    W = C * (truth - ours.alpha.reshape(60, K)).T @ X
    np.testing.assert_allclose(W, theirs.coef_, atol=1e-3)


@pytest.mark.parametrize("rank", [1, 4, 12])
@pytest.mark.parametrize("method", ["online", "batch"])
def test_finds_the_optimum(rank: int, method: Any) -> None:
    """Against SciPy's SLSQP, which knows nothing of simplices."""
    sizes = [3, 1, 4, 2]
    A, b = random_quadratic(sizes, rank)
    ends = np.cumsum(np.array(sizes))
    sums = [
        {"type": "eq", "fun": lambda x, i=i: x[ends[i] - sizes[i] : ends[i]].sum() - 1.0}
        for i in range(len(sizes))
    ]
    start = np.concatenate([np.full(size, 1.0 / size) for size in sizes])
    theirs = minimize(
        lambda x: 0.5 * x @ A @ x + b @ x, start, jac=lambda x: A @ x + b, bounds=[(0, 1)] * len(b),
        constraints=sums, method="SLSQP", options={"ftol": 1e-12, "maxiter": 500},
    )  # fmt: skip
    ours = simplex_qp(A, b, sizes, method=method, tol=1e-7, max_iterations=50_000)
    assert ours.converged
    assert ours.value == pytest.approx(theirs.fun, abs=1e-5)
    assert ours.lower_bound <= theirs.fun + 1e-8
    assert ours.value == pytest.approx(0.5 * ours.alpha @ A @ ours.alpha + b @ ours.alpha, abs=1e-10)
    np.testing.assert_allclose(np.add.reduceat(ours.alpha, (ends - sizes).astype(int)), 1.0, atol=1e-9)


@pytest.mark.parametrize("method", ["online", "batch"])
@pytest.mark.parametrize("step", ["safe", "adaptive"])
def test_value_never_rises_and_gap_bounds_it(method: Any, step: Any) -> None:
    sizes = [4, 3, 5, 2, 6]
    A, b = random_quadratic(sizes, 6, seed=3)
    best = simplex_qp(A, b, sizes, tol=1e-9, max_iterations=50_000).value
    found = simplex_qp(A, b, sizes, method=method, step=step, tol=1e-12, max_iterations=200)
    values = [record.value for record in found.history]
    assert all(b <= a + 1e-11 for a, b in pairwise(values))
    assert all(record.gap >= record.value - best - 1e-9 for record in found.history)
    assert found.history[-1].gap < found.history[0].gap


@pytest.mark.parametrize(("method", "blocks"), [("batch", 5), ("online", 1)])
def test_safe_rate(method: Any, blocks: int) -> None:
    """Q(α^{T+1}) − Q* ≤ KL(α* ‖ α¹)/(ηT) with η = 1/(n |A|_∞); one block is both methods at once."""
    sizes = [4] * blocks
    A, b = random_quadratic(sizes, 3, seed=5)
    best = simplex_qp(A, b, sizes, tol=1e-9, max_iterations=50_000)
    positive = best.alpha[best.alpha > 0]
    distance = blocks * np.log(4) + positive @ np.log(positive)
    found = simplex_qp(A, b, sizes, method=method, step="safe", tol=1e-13, max_iterations=300)
    inverse_step = blocks * A.diagonal().max()
    for t, record in enumerate(found.history[1:], start=1):
        assert record.value - best.lower_bound <= inverse_step * distance / t + 1e-9


def test_all_kinds_of_matrix_agree() -> None:
    sizes = [3, 4, 2]
    A, b = random_quadratic(sizes, 4)
    dense = simplex_qp(A, b, sizes, tol=1e-8)
    for matrix in (sparse.csr_matrix(A), sparse.csc_array(A), A.astype(np.float32).astype(float), A.tolist()):
        assert simplex_qp(matrix, b, sizes, tol=1e-8).value == pytest.approx(dense.value, rel=1e-5)
    operator = simplex_qp(aslinearoperator(A), b, sizes, method="batch", tol=1e-8)
    assert operator.value == pytest.approx(dense.value, abs=1e-6)


def test_huge_numbers_stay_numbers() -> None:
    sizes = [3, 3]
    A, b = random_quadratic(sizes, 2)
    for scale in (1e-12, 1e12):
        for method in ("online", "batch"):
            found = simplex_qp(scale * A, scale * b, sizes, method=method, tol=1e-6)  # type: ignore[arg-type]
            assert np.isfinite(found.alpha).all() and found.converged
    found = simplex_qp(np.zeros((6, 6)), 1e8 * b, sizes, tol=1e-9)
    assert found.converged
    assert found.alpha[:3].argmax() == b[:3].argmin() and found.alpha.max() == pytest.approx(1.0)


def test_warm_start_and_callback() -> None:
    sizes = [5] * 6
    A, b = random_quadratic(sizes, 8)
    first = simplex_qp(A, b, sizes, tol=1e-6)
    again = simplex_qp(A, b, sizes, tol=1e-5, start=first.alpha)
    assert again.converged and again.n_iterations <= 0.5 * first.n_iterations
    seen: list[SimplexQPRecord] = []

    def third(record: SimplexQPRecord) -> bool:
        seen.append(record)
        return len(seen) == 3

    stopped = simplex_qp(A, b, sizes, tol=1e-12, callback=third)
    assert not stopped.converged and stopped.history[1:] == seen and len(seen) == 3
    vertex = simplex_qp(A, b, sizes, tol=1e-6, start=np.tile([1.0, 0, 0, 0, 0], 6), max_iterations=50_000)
    assert vertex.value == pytest.approx(first.value, abs=1e-4)


A, B = np.eye(4), np.zeros(4)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"A": np.eye(3)}, "A has shape"),
        ({"A": np.triu(np.ones((4, 4)))}, "symmetric"),
        ({"A": -np.eye(4)}, "semi-definite"),
        ({"A": np.eye(4) * np.nan}, "A contains NaN"),
        ({"A": "text"}, "A must"),
        ({"A": aslinearoperator(A)}, "LinearOperator"),
        ({"A": aslinearoperator(A), "method": "batch", "step": "safe"}, "LinearOperator"),
        ({"b": np.zeros(3)}, "b has shape"),
        ({"b": [0, np.inf, 0, 0]}, "b contains"),
        ({"block_sizes": []}, "block_sizes"),
        ({"block_sizes": [2, 0, 2]}, "block_sizes"),
        ({"block_sizes": [2.0, 2.0]}, "block_sizes"),
        ({"block_sizes": [2, 3]}, "add up to 5"),
        ({"tol": 0.0}, "tol"),
        ({"max_iterations": -1}, "max_iterations"),
        ({"step": "bold"}, "step"),
        ({"method": "newton"}, "method"),
        ({"start": [1.0, 1.0, 0.0, 1.0]}, "start"),
        ({"start": [2.0, -1.0, 0.0, 1.0]}, "start"),
    ],
)
def test_bad_input_is_named(arguments: dict[str, Any], name: str) -> None:
    with pytest.raises(InputError, match=name):
        complete: dict[str, Any] = {"A": A, "b": B, "block_sizes": [2, 2]} | arguments
        simplex_qp(**complete)
