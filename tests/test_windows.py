"""`windows`: the contract, bridges against enumeration, single steps, extreme scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contract_solvers import SolverContract, optimum, problem_of
from problems import WrittenOut, as_distributions

from partwise import SequenceLabeler
from partwise.errors import InputError
from partwise.solvers import WindowAscent, solve
from partwise.solvers.dual.window_pass import Chains, window_pass, window_room
from partwise.solvers.dual.windows import _layout
from partwise.solvers.memory import memory_estimate

CASES = ("multiclass", "tied", "untied", "masked")


class TestWindows(SolverContract):
    solver, smooth_only, cases = WindowAscent(2, precision="double"), True, CASES

    def dual_point(self, written: WrittenOut, state: Any) -> list[np.ndarray]:
        return as_distributions(written, state.mu)


def nodes_and_edges(chains: Chains, mu: np.ndarray, i: int, n_labels: int) -> tuple[np.ndarray, np.ndarray]:
    own, length = mu[chains.mu_ptr[i] : chains.mu_ptr[i + 1]], int(chains.length[i])
    nodes, edges = np.split(own, [length * n_labels])
    return nodes.reshape(length, n_labels), edges.reshape(-1, n_labels, n_labels)


@pytest.mark.parametrize("loss", ["log", "between"])
@pytest.mark.parametrize("case", CASES)
def test_every_visit_gains_and_keeps_marginals_consistent(case: str, loss: str) -> None:
    """The dual by enumeration never falls, is what is kept, and nothing outside the window moves."""
    data = problem_of(case, loss)
    problem, written, random = data.problem, data.written_out, np.random.default_rng(0)
    solver = WindowAscent(2, precision="double")
    state, layout = solver.init(problem, random), _layout(problem)
    chains, n_labels = layout.chains, layout.specification.n_labels
    batch, scratch = solver._windowed(problem, layout), problem.scratch(np.float64)
    room, point = window_room(layout.specification, 5), state.point()
    before = written.dual(as_distributions(written, state.mu))
    for visit in range(4 * problem.n_examples):
        i = visit % problem.n_examples
        first = int(random.integers(chains.length[i]))
        last = min(first + int(random.integers(3)), int(chains.length[i]) - 1)
        old = nodes_and_edges(chains, state.mu.copy(), i, n_labels)
        window = np.array([[i, first, last]])
        rule, only = solver._rule(problem, state), np.arange(1)
        window_pass(batch, chains, layout.specification, window, only, point, rule, room, scratch)
        nodes, edges = nodes_and_edges(chains, state.mu, i, n_labels)
        outside = np.delete(np.arange(len(nodes)), np.arange(first, last + 1))
        np.testing.assert_array_equal(nodes[outside], old[0][outside])
        np.testing.assert_allclose(nodes.sum(axis=1), 1.0, rtol=1e-12)
        np.testing.assert_allclose(edges.sum(axis=2), nodes[:-1], atol=1e-8)
        np.testing.assert_allclose(edges.sum(axis=1), nodes[1:], atol=1e-8)
        after = written.dual(as_distributions(written, state.mu))
        assert after >= before - 1e-9 * (1.0 + abs(before))
        assert after == pytest.approx(solver._dual(problem, state), rel=1e-8, abs=1e-8)
        before = after


def test_near_the_optimum_a_whole_sentence_measures_its_gap() -> None:
    """KL(α ‖ p) / β of the sentence, shared out over its positions."""
    data = problem_of("tied", "between")
    problem, written = data.problem, data.written_out
    solver = WindowAscent(100, precision="double")
    state = solve(problem, solver, tol=1e-4, max_passes=50).state
    layout, n = _layout(problem), problem.n_examples
    whole = np.column_stack([np.arange(n), np.zeros(n, int), layout.chains.length - 1])
    alphas, models = as_distributions(written, state.mu), written.model(state.v / problem.l2)
    divergence = np.array([np.sum(a * np.log(a / p)) for a, p in zip(alphas, models, strict=True)])
    i = int(np.argmax(divergence))
    window_pass(
        solver._windowed(problem, layout), layout.chains, layout.specification, whole, np.array([i]), state.point(),
        solver._rule(problem, state), window_room(layout.specification, 201), problem.scratch(np.float64),
    )  # fmt: skip
    positions = slice(*layout.chains.position_ptr[i : i + 2])
    assert state.gap[positions].sum() == pytest.approx(divergence[i] / problem.loss.beta, rel=0.1)


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_size_of_windows_does_not_matter_for_the_optimum(size: int) -> None:
    problem = problem_of("tied", "log").problem
    found = solve(problem, WindowAscent(size, precision="double"), tol=1e-7, max_passes=500)
    assert found.certificate.primal == pytest.approx(optimum("tied", "log"), rel=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_single_precision(case: str) -> None:
    problem = problem_of(case, "log").problem
    found = solve(problem, WindowAscent(3, precision="single"), tol=1e-4, max_passes=200)
    assert found.converged
    assert found.certificate.primal == pytest.approx(optimum(case, "log"), rel=1e-4)
    assert found.certificate.drift < 1e-4 * found.certificate.primal


def test_memory_is_what_the_marginals_take() -> None:
    problem, solver = problem_of("tied", "log").problem, WindowAscent(precision="double")
    state = solver.init(problem, np.random.default_rng(0))
    assert memory_estimate(problem, solver).parts == state.mu.nbytes
    assert memory_estimate(problem_of("order2", "log").problem, solver).parts == 0  # it is refused


def test_scores_out_of_range_of_exponentials() -> None:
    """Features so large that the model is certain of everything: targets are flattened, and every visit still gains."""
    random = np.random.default_rng(0)
    labels = random.integers(3, size=(12, 6))
    X = list(1e4 * (np.eye(3)[labels] + random.normal(size=(12, 6, 3))))
    y = [np.array(list("abc"))[row].tolist() for row in labels]
    solver = WindowAscent(3, precision="double")
    model = SequenceLabeler(solver=solver, l2=1e-3, tol=1e-9, max_passes=30).fit(X, y)
    duals = [record["dual"] for record in model.history_]
    assert np.isfinite(duals).all() and np.isfinite(model.objective_)
    assert (np.diff(duals) >= -1e-9 * np.abs(duals[1:])).all()
    assert all(record["primal"] >= record["dual"] for record in model.history_)


@pytest.mark.parametrize("size", [0, 2.5, "8"])
def test_sizes_that_cannot_be(size: Any) -> None:
    with pytest.raises(InputError, match="size"):
        solve(problem_of("tied", "log").problem, WindowAscent(size))
