"""`excessive-gap` against the solver contract, the algorithm written out label by label, and its guarantee."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from contract_solvers import SolverContract, optimum, problem_of
from problems import WrittenOut, divergence, small, softmax

from partwise.core.bounds import dual_smoothness
from partwise.errors import InputError
from partwise.solvers import ExcessiveGap, solve
from partwise.solvers.saddle.excessive_gap import ExcessiveGapState

CASES = ["multiclass", "tied", "untied", "order2", "masked"]


class TestExcessiveGap(SolverContract):
    solver, hard_tolerance, hard_primal_tolerance, max_passes = ExcessiveGap(), 1e-5, 1e-5, 20_000.0

    hard_only = True

    def dual_point(self, written: WrittenOut, state: Any) -> None:
        """Only v(α) and the cost of α are kept; `test_is_the_algorithm_written_out` has α itself."""

    def test_starts_at_zero(self) -> None:
        problem = problem_of("tied", "hinge").problem
        _, certificate = self.solver.certificate(problem, self.solver.init(problem, np.random.default_rng(0)))
        assert certificate.dual == 0.0
        assert certificate.primal == pytest.approx(problem.primal(np.zeros(problem.n_weights)))


def steps(problem: Any, solver: ExcessiveGap, count: int) -> Iterator[ExcessiveGapState]:
    random = np.random.default_rng(0)
    state = solver.init(problem, random)
    for _ in range(count):
        state, _ = solver.step(problem, state, random)
        yield state


def largest_difference(written: WrittenOut) -> float:
    """max_{i,y} ‖φ(true) − φ(y)‖²."""
    return max(
        float(((rows - rows[gold]) ** 2).sum(axis=1).max())
        for rows, gold in zip(written.features, written.gold, strict=True)
    )


def algorithm_one(written: WrittenOut, smoothness: float, count: int) -> Iterator[tuple[np.ndarray, list]]:
    """Zhang et al. (2011), Algorithm 1, every α_i a vector over all labels."""
    problem, n = written.problem, len(written.gold)
    gamma, l2 = problem.loss.gamma, problem.l2

    def weights_of(alphas: list[np.ndarray]) -> np.ndarray:
        return written.v(alphas) / l2

    def gradient(weights: np.ndarray, i: int) -> np.ndarray:
        return written.features[i] @ weights + gamma * written.costs[i]

    uniform = [np.full(len(cost), 1.0 / len(cost)) for cost in written.costs]
    mu, w = smoothness, weights_of(uniform)
    alphas = [softmax(gradient(w, i) / mu) for i in range(n)]
    yield w, alphas
    for k in range(1, count):
        tau = 2.0 / (k + 3.0)
        soft = [softmax(gradient(w, i) / mu) for i in range(n)]
        middle = weights_of([(1 - tau) * alphas[i] + tau * soft[i] for i in range(n)])
        pull = tau / ((1 - tau) * mu)
        moved = [softmax(gradient(w, i) / mu + pull * gradient(middle, i)) for i in range(n)]
        w = (1 - tau) * w + tau * middle
        alphas = [(1 - tau) * alphas[i] + tau * moved[i] for i in range(n)]
        mu *= 1 - tau
        yield w, alphas


@pytest.mark.parametrize("case", CASES)
def test_is_the_algorithm_written_out(case: str) -> None:
    data = problem_of(case, "hinge")
    problem, written = data.problem, data.written_out
    smoothness = 0.1 * dual_smoothness(problem)  # where it is smaller, the iterates move more
    solver = ExcessiveGap("fixed", smoothness)
    pairs = zip(steps(problem, solver, 25), algorithm_one(written, smoothness, 25), strict=True)
    for state, (weights, alphas) in pairs:
        np.testing.assert_allclose(state.weights, weights, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(state.v, written.v(alphas), rtol=1e-9, atol=1e-9)
        _, certificate = solver.certificate(problem, state)
        assert certificate.dual == pytest.approx(written.dual(alphas), rel=1e-9, abs=1e-9)
        assert certificate.primal == pytest.approx(written.primal(weights), rel=1e-9)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("rule", ["adaptive", "fixed"])
@pytest.mark.parametrize("constant", ["paper", "tight"])
def test_guarantee_holds_at_every_step(case: str, rule: Any, constant: str) -> None:
    data = problem_of(case, "hinge")
    problem, written = data.problem, data.written_out
    weight = problem.batch.example_weight
    bound = dual_smoothness(problem)
    if constant == "paper":
        bound = float(weight.sum()) * largest_difference(written) / problem.l2
    log_count = sum(c * np.log(len(costs)) for c, costs in zip(weight, written.costs, strict=True))
    solver = ExcessiveGap(rule, bound)
    for k, state in enumerate(steps(problem, solver, 150), start=1):
        _, certificate = solver.certificate(problem, state)
        slack = 1e-9 * abs(certificate.primal)
        assert -slack <= certificate.gap <= 6.0 * bound * log_count / ((k + 1) * (k + 2)) + slack
        assert certificate.gap <= float(state.mu[0]) * log_count + slack
        assert certificate.dual <= optimum(case, "hinge") * (1 + 1e-7)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("rule", ["adaptive", "fixed"])
def test_excessive_gap_condition(case: str, rule: Any) -> None:
    """P_μ(w) ≤ D(α), with P_μ(w) summed over all labels; the adaptive rule may rely on its test alone."""
    data = problem_of(case, "hinge")
    problem, written = data.problem, data.written_out
    for state in steps(problem, ExcessiveGap(rule), 60):
        weights, mu = state.weights, float(state.mu[0])
        smoothed = 0.5 * problem.l2 * float(weights @ weights)
        for i, c in enumerate(written.weight):
            margins = written.margins(weights, i) / mu
            top = margins.max()
            smoothed += c * mu * (top + np.log(np.mean(np.exp(margins - top))))
        dual = float(state.cost[0]) - float(state.v @ state.v) / (2 * problem.l2)
        assert smoothed <= dual + 1e-9 * abs(dual)


@pytest.mark.parametrize("case", CASES)
def test_smoothness_bounds_the_curvature(case: str) -> None:
    """‖v(α) − v(α′)‖² / l2 ≤ L Σ_i c_i ‖α_i − α′_i‖₁², also between two single labels."""
    data = problem_of(case, "hinge")
    problem, written = data.problem, data.written_out
    bound, random = dual_smoothness(problem), np.random.default_rng(3)
    weight, closest = written.weight, 0.0
    for concentration in (0.001, 0.01, 0.1, 1.0) * 20:
        pair = [
            [random.dirichlet(np.full(len(cost), concentration)) for cost in written.costs] for _ in range(2)
        ]
        difference = written.v(pair[0]) - written.v(pair[1])
        lengths = np.array([np.abs(a - b).sum() for a, b in zip(*pair, strict=True)])
        ratio = float(difference @ difference) / problem.l2 / (bound * float(weight @ lengths**2))
        assert ratio <= 1 + 1e-9
        closest = max(closest, ratio)
    assert closest > 0.01  # not bounded by something absurd


@pytest.mark.parametrize("case", ["multiclass", "tied"])
@pytest.mark.parametrize("share", [0.3, 1.0])
def test_gap_falls_like_one_over_k_squared(case: str, share: float) -> None:
    """The exponent between steps 50 and 800, on the whole and over each doubling."""
    problem = problem_of(case, "hinge").problem
    solver = ExcessiveGap("fixed", share * dual_smoothness(problem))
    gaps = np.array([solver.certificate(problem, state)[1].gap for state in steps(problem, solver, 800)])
    exponent = np.polyfit(np.log(np.arange(50, 801)), np.log(gaps[49:]), 1)[0]
    assert exponent == pytest.approx(-2.0, abs=0.1)
    doubled = np.log2(gaps[[49, 99, 199, 399]] / gaps[[99, 199, 399, 799]])
    np.testing.assert_allclose(doubled, 2.0, atol=0.15)


@pytest.mark.parametrize("case", ["multiclass", "tied"])
def test_adaptive_needs_far_fewer_passes(case: str) -> None:
    problem = problem_of(case, "hinge").problem
    passes = {}
    for rule in ("adaptive", "fixed"):
        found = solve(problem, ExcessiveGap(rule), tol=1e-3, max_passes=10_000, certificate_every=2)
        assert found.converged
        passes[rule] = found.passes
    assert 2 * passes["adaptive"] <= passes["fixed"]


def test_dual_gap_is_bounded_by_the_divergence() -> None:
    """D* − D(α_k) ≤ 6 L KL(α*‖uniform) / ((k+1)(k+2)) (paper, equation 16)."""
    data = problem_of("multiclass", "hinge")
    problem, written = data.problem, data.written_out
    best = optimum("multiclass", "hinge")
    uniform = [np.full(len(cost), 1.0 / len(cost)) for cost in written.costs]
    bound = dual_smoothness(problem)
    *_, (_, alphas) = algorithm_one(written, 0.05 * bound, 2000)
    distance = divergence(alphas, uniform)
    for k, state in enumerate(steps(problem, ExcessiveGap("fixed"), 100), start=1):
        dual = float(state.cost[0]) - float(state.v @ state.v) / (2 * problem.l2)
        assert best - dual <= 1.01 * 6.0 * bound * distance / ((k + 1) * (k + 2)) + 1e-9


def test_threads_change_nothing_but_rounding() -> None:
    found = [
        solve(small("tied", "hinge", n=24, n_jobs=jobs).problem, ExcessiveGap(), tol=1e-9, max_passes=60)
        for jobs in (1, 3)
    ]
    np.testing.assert_allclose(found[0].weights, found[1].weights, rtol=1e-7, atol=1e-9)


def test_perceptron_loss_and_weights_of_zero() -> None:
    data = small("tied", "perceptron", weighted=True)
    data.problem.batch.example_weight[:3] = 0.0
    found = solve(data.problem, ExcessiveGap(), tol=1e-3, max_passes=200)
    assert abs(found.certificate.gap) < 1e-6  # the optimum is w = 0, P = 0
    assert 0.0 <= found.certificate.primal < 1e-6


@pytest.mark.parametrize(
    ("solver", "message"),
    [(ExcessiveGap("hopeful"), "rule must be"), (ExcessiveGap(smoothness=-1.0), "smoothness must be")],  # type: ignore
)
def test_settings_are_checked(solver: ExcessiveGap, message: str) -> None:
    with pytest.raises(InputError, match=message):
        solver.check(problem_of("tied", "hinge").problem)


def test_finite_beta_is_refused() -> None:
    with pytest.raises(InputError, match="beta = inf"):
        solve(problem_of("tied", "log").problem, ExcessiveGap())
