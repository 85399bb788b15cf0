"""Kernel functions and kernel matrices that are none, or hardly: refused, or certified as they are."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

from partwise import InputError, KernelClassifier, KernelSequenceLabeler

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(12, 3)), np.array(list("ab") * 6)
SEQUENCES, LABELS = [X[:4], X[4:9], X[9:]], [list("abab"), list("babab"), list("aba")]


def linear(a, b):
    return a @ b.T


REFUSED = {
    "NaN": (lambda a, b: linear(a, b) * np.nan, "NaN or infinity"),
    "infinity": (lambda a, b: np.full((len(a), len(b)), np.inf), "NaN or infinity"),
    "another shape": (lambda a, b: np.zeros((1, 1)), "returned shape"),
    "complex": (lambda a, b: linear(a, b) + 1j, "not of numbers"),
    "text": (lambda a, b: np.full((len(a), len(b)), "x"), "not of numbers"),
    "nothing": (lambda a, b: None, "not of numbers"),
    "objects": (lambda a, b: linear(a, b).astype(object), "not of numbers"),
    "sparse": (lambda a, b: sparse.csr_matrix(linear(a, b)), "not of numbers"),
    "masked": (lambda a, b: np.ma.masked_less(linear(a, b), 0.0), "masked"),
    "negative": (lambda a, b: -linear(a, b), "positive semidefinite"),
    "not symmetric": (lambda a, b: linear(a, 2.0 * b) + a.sum(axis=1)[:, None], "not a kernel: k"),
    "yes and no": (lambda a, b: linear(a, b) > 0, "positive semidefinite"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_kernel(name):
    kernel, words = REFUSED[name]
    for estimator, data in ((KernelClassifier, (X, Y)), (KernelSequenceLabeler, (SEQUENCES, LABELS))):
        with pytest.raises(InputError, match=words) as caught:
            estimator(kernel=kernel).fit(*data)
        assert "\n" not in str(caught.value)


def test_a_kernel_function_cannot_change_the_points():
    def scaling(a, b):
        a *= 2.0
        return linear(a, b)

    before = X.copy()
    with pytest.raises(ValueError, match="read-only"):
        KernelClassifier(kernel=scaling).fit(X, Y)
    np.testing.assert_array_equal(X, before)


def objective(weights, features, true, l2):
    """Multiclass logistic loss of dense weights (2, d), and its gradient."""
    table = weights.reshape(2, -1)
    scores = features @ table.T
    top = scores.max(axis=1, keepdims=True)
    powers = np.exp(scores - top)
    share = powers / powers.sum(axis=1, keepdims=True)
    rows = np.arange(len(true))
    value = (top[:, 0] + np.log(powers.sum(axis=1)) - scores[rows, true]).sum() + 0.5 * l2 * (
        weights @ weights
    )
    share[rows, true] -= 1.0
    return value, (share.T @ features + l2 * table).ravel()


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1.0, 1e4, 1e8])
@pytest.mark.parametrize("l2", [1e-3, 1.0, 1e6])
def test_certificates_hold_whatever_the_scale_of_a_kernel(scale, l2):
    model = KernelClassifier(kernel=lambda a, b: scale * linear(a, b), loss="log", l2=l2, max_passes=300).fit(
        X, Y
    )
    features, true = np.sqrt(scale) * X, (Y == "b").astype(int)
    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-16, "gtol": 1e-12}
    start = np.zeros(6)
    found = minimize(objective, start, (features, true, l2), jac=True, method="L-BFGS-B", options=options)
    assert model.dual_objective_ <= found.fun * (1.0 + 1e-9)
    value, slope = objective(found.x, features, true, l2)
    assert model.objective_ >= (value - slope @ slope / (2.0 * l2)) * (1.0 - 1e-9)
    if model.converged_:
        assert model.objective_ <= found.fun * (1.0 + 2.0 * model.tol)
