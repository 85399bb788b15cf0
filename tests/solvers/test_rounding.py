"""Bounds hold in spite of rounding: losses far below their scores, against optima computed with sixty digits."""

from __future__ import annotations

import warnings
from decimal import Decimal, getcontext, localcontext
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from problems import KINDS, WrittenOut, small

from partwise import Classifier
from partwise.core.rounding import careful_point, loss_errors
from partwise.errors import InputError
from partwise.solvers import LBFGS, SOLVERS, Certificate, StopReason, solve
from partwise.solvers.needs import check_solver
from partwise.solvers.rounding import with_rounding

DIGITS = 60
# Labellings that no list of untied parts tells from all others: bounds on rounding take the place of careful losses.
NOT_TOLD = ("selection", "grammar")


def log1p(x: Decimal) -> Decimal:
    """log(1 + x), also where 1 + x has too few digits."""
    return x - x * x / 2 + x * x * x / 3 if x < Decimal("1e-20") else (1 + x).ln()


def solved(matrix: list[list[Decimal]], right: list[Decimal]) -> list[Decimal]:
    """x with A x = b for a positive definite A, which is changed."""
    x = list(right)
    for j, row in enumerate(matrix):
        for k in range(j + 1, len(x)):
            if factor := matrix[k][j] / row[j]:
                x[k] -= factor * x[j]
                for m in range(j, len(x)):
                    matrix[k][m] -= factor * row[m]
    for j in reversed(range(len(x))):
        x[j] = (x[j] - sum(matrix[j][m] * x[m] for m in range(j + 1, len(x)))) / matrix[j][j]
    return x


class InDecimals:
    """The primal of a problem that is written out, with sixty digits."""

    def __init__(self, written: WrittenOut) -> None:
        problem = self.problem = written.problem
        self.beta, self.l2 = Decimal(problem.loss.beta), Decimal(problem.l2)
        self.weight = [Decimal(float(each)) for each in problem.example_weight]
        self.differences, self.costs = [], []
        for features, costs, gold in zip(written.features, written.costs, written.gold, strict=True):
            self.differences.append(np.delete(features, gold, 0) - features[gold])
            self.costs.append(np.delete(costs, gold))

    def odds(self, weights: list[Decimal], i: int) -> list[Decimal]:
        """exp β(s(y) − s(true) + γ e(y)) for all y but the true one."""
        gamma, result = Decimal(self.problem.loss.gamma), []
        for row, cost in zip(self.differences[i], self.costs[i], strict=True):
            score = sum((Decimal(float(row[j])) * weights[j] for j in np.flatnonzero(row)), Decimal(0))
            result.append((self.beta * (score + gamma * Decimal(float(cost)))).exp())
        return result

    def losses(self, weights: np.ndarray) -> list[Decimal]:
        exact = [Decimal(float(each)) for each in weights]
        return [log1p(sum(self.odds(exact, i), Decimal(0))) / self.beta for i in range(len(self.costs))]

    def value(self, weights: list[Decimal]) -> tuple[Decimal, list[Decimal], list[list[Decimal]]]:
        """P with its gradient and its Hessian."""
        d = len(weights)
        total = self.l2 / 2 * sum(each * each for each in weights)
        gradient, hessian = (
            [self.l2 * each for each in weights],
            [[self.l2 * (j == k) for k in range(d)] for j in range(d)],
        )
        for i, own in enumerate(self.weight):
            odds = self.odds(weights, i)
            others = sum(odds, Decimal(0))
            normaliser = 1 + others
            total += own * log1p(others) / self.beta
            rows, p = self.differences[i], [each / normaliser for each in odds]
            mean = [Decimal(0)] * d
            for row, share in zip(rows, p, strict=True):
                used = [(int(j), Decimal(float(row[j]))) for j in np.flatnonzero(row)]
                for j, x in used:
                    mean[j] += share * x
                    for k, z in used:
                        hessian[j][k] += own * self.beta * share * x * z
            used = [j for j in range(d) if mean[j]]
            for j in used:
                gradient[j] += own * mean[j]
                for k in used:
                    hessian[j][k] -= own * self.beta * mean[j] * mean[k]
        return total, gradient, hessian

    def optimum(self, start: np.ndarray) -> tuple[Decimal, Decimal]:
        """Bounds on P*: by Newton's method, P and P − ‖∇P‖² / (2 l2)."""
        weights = [Decimal(float(each)) for each in start]
        total, gradient, hessian = self.value(weights)
        for _ in range(100):
            below = total - sum(each * each for each in gradient) / (2 * self.l2)
            if total - below < Decimal("1e-12") * total:
                break
            step, factor = solved(hessian, gradient), Decimal(1)
            while True:
                tried = [a - factor * b for a, b in zip(weights, step, strict=True)]
                found = self.value(tried)
                if found[0] < total:
                    break
                factor /= 2
            weights, (total, gradient, hessian) = tried, found
        return below, total


@cache
def written_out(kind: str, loss: str, l2: float, weighted: bool = False) -> tuple[Any, InDecimals]:
    data = small(kind, loss, features="real", l2=l2, n=5, weighted=weighted)
    return data.problem, InDecimals(WrittenOut(data))


@pytest.fixture(autouse=True)
def sixty_digits() -> Any:
    with localcontext():
        getcontext().prec = DIGITS
        yield


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", ["log", "softmax_margin"])
def test_small_losses_do_not_cancel(kind: str, loss: str) -> None:
    """Of every structure, each to the error that is said, which is small beside the loss."""
    problem, exact = written_out(kind, loss, 1e-3)
    weights = solve(problem, LBFGS(), tol=1e-3).weights
    for scale in (1.0, 4.0, 20.0):
        point = careful_point(problem, scale * weights, 0.0)
        assert point is not None
        loss_exact = sum(exact.losses(scale * weights))
        assert abs(Decimal(point.loss) - loss_exact) <= Decimal(point.loss_error)
        assert kind in NOT_TOLD or point.loss_error <= 1e-9 * point.loss


@pytest.mark.parametrize("l2", [1e-3, 1e-8, 1e-14])
@pytest.mark.parametrize("loss", ["log", "softmax_margin"])
@pytest.mark.parametrize(
    "kind", ["multiclass", "tied", "untied", "order2", "masked", "segments", "projective"]
)
def test_bounds_hold_the_optimum(kind: str, loss: str, l2: float) -> None:
    """Of classes, chains, segments and trees, whose losses at the optimum are far below the rounding of scores."""
    problem, exact = written_out(kind, loss, l2)
    low = high = None
    for name in ("lbfgs", "eg-gap"):
        found = solve(problem, SOLVERS[name], tol=1e-3, max_passes=200)
        certificate = found.certificate
        if low is None:
            low, high = exact.optimum(certificate.weights)
        assert Decimal(certificate.dual) <= high
        assert low <= Decimal(certificate.primal)
        assert found.converged == (0.0 <= certificate.relative_gap <= 1e-3)


def binary_optimum(x: float, l2: float, weight: float) -> Decimal:
    """min over d of c log(1 + exp(−x d)) + l2 d² / 4: two classes at ±x, weights ±d/2, c the sum of sample weights."""
    size, ridge, total = Decimal(x), Decimal(l2), Decimal(weight)
    low, high = Decimal(0), Decimal(2000) / size
    for _ in range(200):
        middle = (low + high) / 2
        slope = ridge * middle / 2 - total * size / (1 + (size * middle).exp())
        low, high = (middle, high) if slope < 0 else (low, middle)
    return total * log1p((-size * low).exp()) + ridge * low * low / 4


def fitted(x: float, l2: float, weight: float, **options: Any) -> Classifier:
    """Two thousand examples at ±x."""
    X, y = np.repeat([[-x], [x]], 1000, 0), np.repeat([0, 1], 1000)
    model = Classifier(l2=l2, fit_intercept=False, max_passes=50, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, y, sample_weight=np.full(2000, weight))


@pytest.mark.parametrize("solver", ["auto", "eg-gap", "lbfgs"])
@pytest.mark.parametrize(
    ("x", "l2", "weight", "tol", "is_provable"),
    [
        (100.0, 1e-7, 1.0, 1e-3, True),
        (1000.0, 1e-11, 1.0, 1e-3, False),
        (100.0, 1e-7, 3.2e8, 1e-3, False),
        (100.0, 1e-7, 1.0, 1e-8, False),
        (1.0, 1.0, 3.2e8, 1e-3, True),
        (10.0, 1e-3, 1.0, 1e-6, True),
    ],
)
def test_classes_far_apart(
    x: float, l2: float, weight: float, tol: float, is_provable: bool, solver: str
) -> None:
    model, best = fitted(x, l2, weight, tol=tol, solver=solver), binary_optimum(x, l2, 2000 * weight)
    assert Decimal(model.dual_objective_) <= best <= Decimal(model.objective_)
    assert model.duality_gap_ == (model.objective_ - model.dual_objective_) / model.objective_
    assert model.converged_ == is_provable
    assert is_provable or "rounding" in model.stop_reason_


@pytest.mark.parametrize("solver", ["auto", "bcfw", "segments", "eg-gap", "bmrm", "smo"])
@pytest.mark.parametrize(("x", "l2"), [(1.0, 1.0), (10.0, 1e-3), (1000.0, 1e-7), (1000.0, 1e-11)])
def test_margins_of_classes_far_apart(x: float, l2: float, solver: str) -> None:
    """(l2 / 4) / x² is below the rounding of margins of one in the last two."""
    model, best = fitted(x, l2, 1.0, loss="hinge", solver=solver), Decimal(l2) / 4 / Decimal(x) ** 2
    assert Decimal(model.dual_objective_) <= best <= Decimal(model.objective_)
    assert model.converged_ == (model.duality_gap_ <= 1e-3)


@pytest.mark.parametrize("name", ["segments", "bcfw", "bmrm"])
@pytest.mark.parametrize("kind", ["tied", "segments", "projective"])
def test_margins_that_can_be_kept(kind: str, name: str) -> None:
    """If all margins can be kept, the optimum is a constant times l2, however small."""
    ends = []
    for l2 in (1e-4, 1e-12, 1e-18):
        problem = small(kind, "hinge", features="real", l2=l2, n=5).problem
        try:
            check_solver(problem, SOLVERS[name])
        except InputError:
            pytest.skip(f"{name} cannot do {kind}")
        found = solve(problem, SOLVERS[name], tol=1e-6, max_passes=300).certificate
        ends.append((found.dual / l2, found.primal / l2))
    for low, high in ends[1:]:
        assert low <= ends[0][1] and ends[0][0] <= high


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 2**32 - 1),
    scale=st.sampled_from([1.0, 30.0, 1000.0]),
    l2=st.sampled_from([1e-2, 1e-6, 1e-10, 1e-13]),
    weight=st.sampled_from([1.0, 1e6]),
    solver=st.sampled_from(["lbfgs", "eg-gap"]),
)
def test_bounds_of_random_tiny_losses(seed: int, scale: float, l2: float, weight: float, solver: str) -> None:
    random = np.random.default_rng(seed)
    y = np.repeat([0, 1, 2], 4)
    X = scale * (np.eye(3)[y] + 0.1 * random.normal(size=(12, 3))).astype(np.float32).astype(float)
    model = Classifier(l2=l2, fit_intercept=False, solver=solver, max_passes=60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y, sample_weight=np.full(12, weight))
    exact = object.__new__(InDecimals)
    problem = exact.problem = model._training.problem
    exact.beta, exact.l2, exact.weight = Decimal(1), Decimal(l2), [Decimal(weight)] * 12
    features = [np.kron(np.eye(3), x).reshape(3, 9) for x in X]
    exact.differences = [np.delete(own, k, 0) - own[k] for own, k in zip(features, y, strict=True)]
    exact.costs = [np.zeros(2)] * 12
    assert problem.l2 == l2
    start = solve(problem.with_l2(max(l2, 1e-6)), LBFGS(), tol=1e-3).weights.reshape(-1, 8)[:, :3].T
    low, high = exact.optimum(start.ravel())
    assert Decimal(model.dual_objective_) <= high
    assert low <= Decimal(model.objective_)


def test_a_dual_above_the_primal_is_told() -> None:
    """Within rounding both bounds are moved apart by as much; what is more proves nothing, and no gap is clipped."""
    problem, _ = written_out("multiclass", "log", 1.0)
    weights = solve(problem, LBFGS(), tol=1e-6).weights
    primal = problem.primal(weights)
    close = with_rounding(problem, Certificate(primal, primal * (1.0 + 1e-10), weights), 1e-3)
    assert close.is_sound and 0.0 < close.relative_gap < 1e-9
    far = with_rounding(problem, Certificate(primal, primal * 1.01, weights), 1e-3)
    assert not far.is_sound and far.relative_gap < 0.0


def test_ordinary_problems_keep_their_numbers() -> None:
    problem, _ = written_out("tied", "log", 1.0)
    found = solve(problem, LBFGS(), tol=1e-6)
    assert found.stop_reason is StopReason.CONVERGED
    assert found.certificate.primal == pytest.approx(problem.primal(found.weights), rel=1e-12)
    assert loss_errors(problem, found.weights).max() < 1e-12
