"""Convex functions over simplices: optima that are known, the theorem's rate, and bad input."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

from partwise import InputError, simplex_convex, simplex_qp


def test_a_divergence_has_its_own_minimum() -> None:
    goal = np.array([0.1, 0.2, 0.7, 0.5, 0.5])

    def divergence(alpha: np.ndarray) -> tuple[float, np.ndarray]:
        return float((alpha * np.log(alpha / goal)).sum()), np.log(alpha / goal) + 1.0

    found = simplex_convex(divergence, [3, 2], tol=1e-10)
    assert found.converged and found.lower_bound <= 0.0 <= found.value + 1e-12
    np.testing.assert_allclose(found.alpha, goal, atol=1e-5)


def test_quadratic_functions_have_the_minimum_of_the_quadratic_programme() -> None:
    random = np.random.default_rng(0)
    factor, linear = random.normal(size=(9, 4)), random.normal(size=9)
    matrix = factor @ factor.T
    ours = simplex_convex(
        lambda a: (0.5 * a @ matrix @ a + linear @ a, matrix @ a + linear), [4, 5], tol=1e-7
    )
    theirs = simplex_qp(matrix, linear, [4, 5], tol=1e-9)
    assert ours.converged and ours.value == pytest.approx(theirs.value, abs=1e-5)
    assert all(later.value <= before.value + 1e-12 for before, later in pairwise(ours.history))


def test_the_dual_of_a_log_linear_model_is_solved() -> None:
    """Collins et al. (2008), eq. 6: the entropy and the squared length of v(α). Strong duality gives the primal."""
    random = np.random.default_rng(1)
    features, n, k = random.normal(size=(6, 4, 3)), 6, 4  # examples, labels, features; label 0 is true
    apart = features[:, :1] - features

    def dual(alpha: np.ndarray) -> tuple[float, np.ndarray]:
        a = alpha.reshape(n, k)
        v = np.einsum("iy,iyf->f", a, apart)
        return float((alpha * np.log(alpha)).sum() + 0.5 * v @ v), (np.log(a) + 1.0 + apart @ v).ravel()

    found = simplex_convex(dual, [k] * n, tol=1e-8)
    weights = np.einsum("iy,iyf->f", found.alpha.reshape(n, k), apart)
    primal = sum(logsumexp(-apart[i] @ weights) for i in range(n)) + 0.5 * weights @ weights
    assert found.converged and -found.value == pytest.approx(primal, rel=1e-6)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (3.0, "function must be callable"),
        (lambda a: 1.0, "a number and its gradient"),
        (lambda a: (1.0, a[:1]), r"gradient of shape \(1,\), expected \(2,\)"),
        (lambda a: (np.nan, a), "NaN or infinity"),
    ],
)
def test_functions_that_are_none(function: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        simplex_convex(function, [2])
