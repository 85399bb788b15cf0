"""An l1 term beside l2: the same optimum for every solver that has it, and that of other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from problems import small
from sklearn.linear_model import LogisticRegression
from test_sequence_labeler import X, Y

import partwise
from partwise import Classifier, InputError, SequenceLabeler
from partwise.core.problem import Problem
from partwise.solvers import SOLVERS, Solution, solver_for
from partwise.solvers import solve as solve_with
from partwise.solvers.needs import refusal
from partwise.solvers.primal.ray import Point, pseudo_gradient

SMOOTH = ("eg", "eg-cyclic", "eg-gap", "sdca", "eg-batch", "eg-primal", "lbfgs")
CASES = {
    "multiclass": {"kind": "multiclass", "features": "dense"},
    "tied": {"kind": "tied", "features": "binary", "pairs": "observed", "weighted": True},
    "untied": {"kind": "untied", "features": "real"},
    "spanning": {"kind": "spanning", "features": "binary"},
}


def problem_of(case: str, loss: str, l1: float = 0.4) -> Problem:
    return small(loss=loss, l2=0.3, l1=l1, **CASES[case]).problem


def solve(problem: Problem, name: str, tol: float = 1e-3, **options: Any) -> Solution:
    return solve_with(problem, solver_for(problem, name, tol), tol=tol, **options)


def subgradient_distance(problem: Problem, weights: np.ndarray) -> float:
    """Largest entry of the subgradient of P with the smallest norm, from sums over all labellings."""
    beta = problem.loss.beta
    at = problem.at_weights(weights, beta, beta * problem.loss.gamma)
    gradient = problem.l2 * weights - at.v
    return float(np.abs(pseudo_gradient(Point(weights, gradient, 0.0, 0.0), problem.l1)).max())


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("loss", ["log", "softmax_margin"])
def test_smooth_losses_reach_the_same_optimum(case: str, loss: str) -> None:
    problem = problem_of(case, loss)
    solutions = {name: solve(problem, name, tol=1e-8, max_passes=2000) for name in SMOOTH}
    for name, solution in solutions.items():
        certificate = solution.certificate
        assert solution.converged and certificate.gap >= -1e-12, name
        assert certificate.primal == pytest.approx(problem.primal(certificate.weights), rel=1e-12)
        assert certificate.primal == pytest.approx(solutions["lbfgs"].certificate.dual, rel=3e-8)
    weights = solutions["eg-batch"].certificate.weights
    assert np.mean(weights == 0.0) > 0.3
    assert subgradient_distance(problem, weights) < 2e-3


@pytest.mark.parametrize("case", ["multiclass", "tied"])
def test_hinge_reaches_the_same_optimum(case: str) -> None:
    problem = problem_of(case, "hinge")
    one = solve(problem, "bcfw", tol=1e-6, max_passes=1000)
    other = solve(problem, "eg", tol=1e-3, max_passes=2000)
    assert one.converged and other.converged
    assert one.certificate.dual <= other.certificate.primal * (1 + 1e-12)
    assert other.certificate.dual <= one.certificate.primal * (1 + 1e-12)
    assert np.mean(one.certificate.weights == 0.0) > 0.3
    assert solve(problem, "auto", tol=1e-4, max_passes=1000).converged


def test_certificates_hold_at_any_time() -> None:
    """D of every certificate lies below P of every other."""
    problem = problem_of("tied", "log", l1=2.0)
    records = [
        record
        for name in ("eg-gap", "lbfgs", "eg-batch")
        for record in solve(problem, name, tol=1e-9, max_passes=60, certificate_every=1).history
    ]
    assert max(record.dual for record in records) <= min(record.primal for record in records) + 1e-9


@pytest.mark.parametrize("name", SOLVERS)
def test_solvers_without_l1_refuse_it(name: str) -> None:
    ridge, net = problem_of("tied", "hinge", l1=0.0), problem_of("tied", "hinge")
    words = refusal(net, SOLVERS[name].needs)
    if refusal(ridge, SOLVERS[name].needs) is None:
        assert (words is None) == (name.startswith("eg") or name == "bcfw")
    if words is not None and "l1" in words:
        with pytest.raises(InputError, match=r"l1 = 0\.4"):
            solve(net, name)


def test_elastic_net_is_that_of_scikit_learn() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(80, 6))
    y = np.argmax(x[:, :3] + random.normal(size=(80, 3)), axis=1)
    model = Classifier(l2=1.5, l1=2.0, tol=1e-8, fit_intercept=False, max_passes=1000).fit(x, y)
    # (1 − r)/2 ‖w‖² + r ‖w‖₁ with strength 1/C = l1 + l2.
    other = LogisticRegression(
        C=1 / 3.5, l1_ratio=2.0 / 3.5, solver="saga", fit_intercept=False, tol=1e-10, max_iter=20_000
    ).fit(x, y)
    assert model.coef_ == pytest.approx(other.coef_, abs=2e-4)
    assert (model.coef_ == 0).any()


def test_elastic_net_is_that_of_crfsuite() -> None:
    crfsuite = pytest.importorskip("sklearn_crfsuite")
    theirs = crfsuite.CRF(
        c1=0.5, c2=0.15, max_iterations=3000, epsilon=1e-9, delta=1e-12, all_possible_transitions=True
    ).fit(X, Y)
    ours = SequenceLabeler(l1=0.5, l2=0.3, tol=1e-7, max_passes=2000).fit(X, Y)
    for attribute in ("state_features_", "transition_features_"):
        one, other = getattr(theirs, attribute), getattr(ours, attribute)
        assert set(one) | set(other)
        for key in set(one) | set(other):
            assert other.get(key, 0.0) == pytest.approx(one.get(key, 0.0), abs=5e-3)


def test_files_and_warm_starts_keep_l1(tmp_path) -> None:
    model = SequenceLabeler(l1=1.0, l2=0.3, tol=1e-6, warm_start=True, max_passes=1000).fit(X, Y)
    cold = SequenceLabeler(l1=0.2, l2=0.3, tol=1e-6, max_passes=1000).fit(X, Y)
    warm = model.set_params(l1=0.2).fit(X, Y)
    assert warm.converged_ and warm.objective_ == pytest.approx(cold.objective_, rel=3e-6)
    warm.save(tmp_path / "model")
    loaded = partwise.load(tmp_path / "model")
    assert loaded.l1 == 0.2 and loaded.predict(X) == warm.predict(X)
    assert np.count_nonzero(cold.coef_) < np.count_nonzero(SequenceLabeler(l2=0.3).fit(X, Y).coef_)


@pytest.mark.parametrize("l1", [-1.0, np.inf, "a", None])
def test_bad_strengths_are_refused(l1: object) -> None:
    with pytest.raises(InputError, match="l1 must be"):
        SequenceLabeler(l1=l1).fit(X, Y)
