"""`extragradient`: the contract, single steps on every labelling, and the inequality that its rates follow from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contract_solvers import SolverContract, optimum, problem_of
from problems import WrittenOut, divergence, entropy, softmax

from partwise.solvers import Extragradient, solve
from partwise.solvers.saddle.extragradient import GOLD_POTENTIAL, Labels


def distributions(written: WrittenOut, u: np.ndarray, kappa: float, rho: float) -> list[np.ndarray]:
    """α ∝ exp(score(u) + κ γ e + ρ × the number of true rows), label by label."""
    problem, result = written.problem, []
    for i, parts in enumerate(written.parts):
        n_rows = int(np.diff(problem.batch.part_ptr)[i]) - problem.batch.n_tied
        truth = {int(p) for p in parts[written.gold[i]] if p < n_rows}
        true_rows = np.array([sum(int(p) in truth for p in labelling) for labelling in parts])
        result.append(
            softmax(written.features[i] @ u + kappa * problem.loss.gamma * written.costs[i] + rho * true_rows)
        )
    return result


class TestExtragradient(SolverContract):
    """The dual point of β = ∞ is mostly a mean of which no single α is kept."""

    solver, hard_tolerance, hard_primal_tolerance = Extragradient(), 1e-4, 1e-3

    def dual_point(self, written: WrittenOut, state: Any) -> list[np.ndarray] | None:
        alphas = distributions(written, state.u, *state.scales)
        own = written.dual(alphas)
        mean = self.solver._best_dual(written.problem, state)  # type: ignore[attr-defined]
        return alphas if mean <= own * (1 + 1e-12) else None


def lagrangian(written: WrittenOut, weights: np.ndarray, alphas: list[np.ndarray]) -> float:
    problem = written.problem
    value = 0.5 * problem.l2 * float(weights @ weights) - float(weights @ written.v(alphas))
    for i, alpha in enumerate(alphas):
        inner = problem.loss.inverse_beta * entropy(alpha) + problem.loss.gamma * float(
            alpha @ written.costs[i]
        )
        value += written.weight[i] * inner
    return value


def weighted_divergence(written: WrittenOut, alphas: list[np.ndarray], others: list[np.ndarray]) -> float:
    return sum(
        written.weight[i] * divergence([a], [b]) for i, (a, b) in enumerate(zip(alphas, others, strict=True))
    )


def proximal(
    written: WrittenOut, alphas: list[np.ndarray], weights: np.ndarray, sigma: float
) -> list[np.ndarray]:
    """argmax over α of α·(s + γ e) + H(α)/β − KL(α ‖ old)/σ."""
    shrink, result = 1.0 + sigma * written.problem.loss.inverse_beta, []
    for i, alpha in enumerate(alphas):
        gain = written.features[i] @ weights + written.problem.loss.gamma * written.costs[i]
        result.append(softmax((np.log(alpha) + sigma * gain) / shrink))
    return result


@pytest.mark.parametrize(
    ("case", "loss"),
    [
        ("multiclass", "hinge"),
        ("tied", "hinge"),
        ("order2", "hinge"),
        ("masked", "log"),
        ("untied", "between"),
    ],
)
def test_steps_are_those_on_every_labelling(case: str, loss: str) -> None:
    """And pass the inequality of mirror-prox against other weights and labels, in which rates begin."""
    data, solver, random = problem_of(case, loss), Extragradient(), np.random.default_rng(0)
    problem, written, l2 = data.problem, data.written_out, data.problem.l2
    state = solver.init(problem, random)
    alphas = distributions(written, np.zeros(problem.n_weights), 0.0, GOLD_POTENTIAL)
    weights = np.zeros(problem.n_weights)
    exists = written.v([np.full(len(c), 1.0 / len(c)) for c in written.costs]) != 0.0
    for _ in range(12):
        big_a, big_c = state.terms[:2].copy()
        state, _ = solver.step(problem, state, random)
        new_a, new_c = state.terms[:2]
        amount = (new_a - big_a) / l2
        tau, sigma = amount / big_a, amount / big_c
        ahead = (weights + tau * written.v(alphas)) / (1.0 + tau * l2)
        ahead_alphas = proximal(written, alphas, weights, sigma)
        new = (weights + tau * written.v(ahead_alphas)) / (1.0 + tau * l2)
        new_alphas = proximal(written, alphas, ahead, sigma)
        np.testing.assert_allclose(state.weights, new, atol=1e-8)
        for ours, theirs in zip(distributions(written, state.u, *state.scales), new_alphas, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-8)
        for _ in range(5):
            other = random.normal(size=problem.n_weights) * exists
            labels = [softmax(3.0 * random.normal(size=len(c))) for c in written.costs]
            left = lagrangian(written, ahead, labels) - lagrangian(written, other, ahead_alphas)
            right = 0.5 * big_a * ((other - weights) @ (other - weights))
            right -= 0.5 * new_a * ((other - new) @ (other - new))
            right += big_c * weighted_divergence(written, labels, alphas)
            right -= new_c * weighted_divergence(written, labels, new_alphas)
            assert amount * left <= right + 1e-8 * (abs(right) + abs(amount * left))
        weights, alphas = new, new_alphas


@pytest.mark.parametrize(("case", "loss"), [("tied", "hinge"), ("multiclass", "log"), ("masked", "between")])
def test_divergences_follow_from_sums(case: str, loss: str) -> None:
    data = problem_of(case, loss)
    written, random = data.written_out, np.random.default_rng(1)
    exists = written.v([np.full(len(c), 1.0 / len(c)) for c in written.costs]) != 0.0
    for rho in (0.0, 2.0):
        draws = [(random.normal(size=len(exists)) * exists, random.random(), r) for r in (rho, 0.7 * rho)]
        points = [Labels.at(data.problem, *draw) for draw in draws]
        own = [distributions(written, *draw) for draw in draws]
        ours = points[0].divergence(points[1], data.problem)
        assert ours == pytest.approx(weighted_divergence(written, *own), rel=1e-9, abs=1e-9)
        assert points[0].dual(data.problem) == pytest.approx(written.dual(own[0]), rel=1e-9)


def test_safe_steps_always_pass() -> None:
    """τσ = 1/B², whatever the ratio of the two, and wherever the players are."""
    from partwise.solvers.saddle.extragradient import _try

    problem, random = problem_of("tied", "hinge").problem, np.random.default_rng(2)
    safe = 4.0 / float(problem.batch.example_weight @ problem.squared_radii())
    exists = problem.at_weights(np.zeros(problem.n_weights), 1.0).v != 0.0
    for ratio in np.logspace(-4, 4, 9):
        weights, u = random.normal(size=(2, problem.n_weights)) * exists
        labels = Labels.at(problem, u, random.random(), random.random())
        assert (
            _try(problem, weights, labels, float(np.sqrt(safe / ratio)), float(np.sqrt(safe * ratio))).excess
            <= 0.0
        )


def test_gap_falls_like_the_rates_say() -> None:
    """For β = ∞ by at least four when passes double, over long stretches; for finite β by a factor a pass."""
    problem = problem_of("tied", "hinge").problem
    gaps = [
        solve(problem, Extragradient(), tol=1e-12, max_passes=passes).certificate.gap
        for passes in (60, 240, 960)
    ]
    assert gaps[1] <= gaps[0] / 4**2 and gaps[2] <= gaps[1] / 4**2
    smooth = problem_of("tied", "log").problem
    gaps = [
        solve(smooth, Extragradient(), tol=1e-12, max_passes=passes).certificate.gap
        for passes in (20, 40, 60, 80)
    ]
    assert (np.diff(np.log(gaps)) <= -5.0).all()  # a quarter a pass


def test_another_l2_begins_anew() -> None:
    problem = problem_of("multiclass", "hinge").problem
    first = solve(problem, Extragradient(), tol=1e-2, max_passes=500)
    weaker = problem.with_l2(0.5)
    second = solve(weaker, Extragradient(), tol=2e-3, max_passes=2000, warm_start=first)
    assert second.converged
    assert second.certificate.primal == pytest.approx(optimum("multiclass", "hinge", 0.5), rel=2e-3)


def test_weights_of_steps_never_overflow() -> None:
    """They grow by a factor a step; where they are scaled back, nothing else changes."""
    problem, solver, random = problem_of("tied", "log").problem, Extragradient(), np.random.default_rng(0)
    state = solver.init(problem, random)
    for _ in range(10):
        state, _ = solver.step(problem, state, random)
    scaled = type(state)(*(np.copy(array) for array in state))
    scaled.terms[:2] *= 2.0**500
    scaled.mean_sums[:, 0] *= 2.0**500
    for _ in range(10):
        state, ours = solver.step(problem, state, random)
        scaled, theirs = solver.step(problem, scaled, random)
        assert theirs.dual == pytest.approx(ours.dual, rel=1e-9)
        np.testing.assert_allclose(scaled.mean_weights[0], state.mean_weights[0], atol=1e-9)
    assert scaled.terms[1] < 1e100 < 2.0**500
