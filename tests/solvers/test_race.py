"""Races: the contract, handing over in all directions, states in files, and what `auto` decides by."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract_solvers import SolverContract, optimum, problem_of
from problems import WrittenOut

from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem
from partwise.core.rows import AttributeRows, RowData
from partwise.solvers import (
    LBFGS,
    SGD,
    Auto,
    BlockFrankWolfe,
    ChainCoordinateAscent,
    ConjugateGradient,
    ExponentiatedGradient,
    Race,
    SharpenedLBFGS,
    StopReason,
    solve,
    solver_for,
)
from partwise.solvers import race as module
from partwise.solvers.work_model import stiffness
from partwise.structures import Chain, Multiclass

SOLVER = Auto("double", tol=1e-12)


class TestAuto(SolverContract):
    solver, smooth_only = SOLVER, True

    def dual_point(self, written: WrittenOut, state: Any) -> list[np.ndarray] | None:
        return None


class TestFourCandidates(SolverContract):
    """None of them forecasts anything but `lbfgs`, which begins."""

    solver = Race((ConjugateGradient(), SGD(), LBFGS(), ExponentiatedGradient(precision="double")), tol=1e-12)
    smooth_only = True

    def dual_point(self, written: WrittenOut, state: Any) -> list[np.ndarray] | None:
        return None


class TestHardCandidates(SolverContract):
    solver = Race(
        (BlockFrankWolfe(), SharpenedLBFGS(), ChainCoordinateAscent()), precision="double", tol=1e-12
    )
    hard_only, cases = True, ("multiclass", "tied", "untied", "masked")

    def dual_point(self, written: WrittenOut, state: Any) -> list[np.ndarray] | None:
        return None


@pytest.fixture
def restless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every candidate hands over as soon as it may, to the one whose last turn was the longest ago."""
    for name, value in {
        "_FIRST_TURN": 1e-9, "_LONGER": 1.02, "_FEWEST_STEPS": 2,
        "_measured_rate": lambda own: 1e-9 / own.least[0],
        "_work_left": lambda own, to_go: np.where(np.isnan(own.rate), 0.0, 1.0 / own.rate),
    }.items():  # fmt: skip
        monkeypatch.setattr(module, name, value)


@pytest.mark.parametrize("case", ["multiclass", "tied", "order2"])
@pytest.mark.parametrize("loss", ["log", "between"])
def test_certificates_hold_across_switches(case: str, loss: str, restless: None) -> None:
    problem, best, modes = problem_of(case, loss).problem, optimum(case, loss), []
    state, random = SOLVER.init(problem, np.random.default_rng(0)), np.random.default_rng(0)
    duals = [-np.inf]
    for _ in range(40):
        modes.append(state.at_work())
        state, _ = SOLVER.step(problem, state, random)
        state, certificate = SOLVER.certificate(problem, state)
        assert certificate.dual <= best * (1 + 1e-9) <= certificate.primal * (1 + 2e-9)
        assert certificate.primal == pytest.approx(problem.primal(certificate.weights), rel=1e-10)
        assert certificate.dual >= duals[-1]
        duals.append(certificate.dual)
    changes = {(a, b) for a, b in pairwise(modes) if a != b}
    assert changes == {("eg-gap", "lbfgs"), ("lbfgs", "eg-gap")}
    assert certificate.relative_gap < 1e-5


def test_any_number_of_candidates_take_turns(restless: None) -> None:
    problem, best, modes = problem_of("tied", "log").problem, optimum("tied", "log"), []
    solver = Race((ConjugateGradient(), LBFGS(), ExponentiatedGradient("gap", precision="double")), tol=1e-12)
    state, random = solver.init(problem, np.random.default_rng(0)), np.random.default_rng(0)
    for _ in range(30):
        modes.append(state.at_work())
        state, _ = solver.step(problem, state, random)
        state, certificate = solver.certificate(problem, state)
        assert certificate.dual <= best * (1 + 1e-9) <= certificate.primal * (1 + 2e-9)
    assert set(modes) == {"cg", "lbfgs", "eg-gap"} and len(state.states) == 3
    assert certificate.relative_gap < 1e-4


def test_resumes_bit_for_bit_in_either_solver(restless: None, tmp_path: Path) -> None:
    problem = problem_of("tied", "log").problem
    whole = solve(problem, SOLVER, tol=1e-12, max_passes=30)
    for stop in range(1, 12):
        file, steps = tmp_path / f"run{stop}", []

        def late(progress: Any, stop: int = stop, steps: list[int] = steps) -> bool:
            steps.append(1)
            return len(steps) == stop

        part = solve(problem, SOLVER, tol=1e-12, max_passes=30, checkpoint=file, callback=late)
        assert part.stop_reason is StopReason.CALLBACK
        again = solve(problem, SOLVER, tol=1e-12, max_passes=30, checkpoint=file, resume=True)
        np.testing.assert_array_equal(again.weights, whole.weights)


def _dense(n: int, width: int, scales: Any, l2: float) -> Problem:
    random = np.random.default_rng(0)
    labels = random.integers(3, size=n)
    inputs = (random.normal(size=(n, width)) + 0.5 * np.eye(3, width)[labels]) * scales
    rows = {"node": RowData(FeatureMap.build(3, 0, width), None, inputs.astype(np.float32))}
    return Problem.build(Multiclass(3), labels, np.ones(n, int), rows, l2=l2)


def test_badly_scaled_features_do_not_take_long() -> None:
    """Online steps alone take more passes than that."""
    problem = _dense(400, 6, np.logspace(1.5, -2, 6), 0.1)
    solver = solver_for(problem)
    assert isinstance(solver, Race)
    assert solver.init(problem, np.random.default_rng(0)).at_work() == "lbfgs"
    found = solve(problem, solver, max_passes=60)
    assert found.converged
    assert not solve(problem, solver_for(problem, "eg-gap"), max_passes=60).converged


def test_sparse_attributes_begin_with_visits() -> None:
    def begins(n: int, n_weights: int, length: int = 10) -> str:
        random = np.random.default_rng(0)
        ids = random.integers(n_weights // 4, size=(n * length, 3)).astype(np.int32)
        sparse = AttributeRows(3 * np.arange(n * length + 1), ids.ravel(), None)
        rows = {"node": RowData(FeatureMap.build(4, n_weights // 4), sparse)}
        labels, lengths = random.integers(4, size=n * length), np.full(n, length)
        problem = Problem.build(Chain(4), labels, lengths, rows, l2=0.1)
        return str(Auto().init(problem, random).at_work())

    assert begins(200, 8000) == begins(500, 8000) == "eg-gap"
    assert begins(5, 100_000) == "eg-gap"  # directions would cost more than visits
    assert begins(200, 400) == "lbfgs"  # it knows the curvature of 100 attributes
    assert begins(5, 2000, 1000) == "eg-gap"  # long chains are many short ones


def test_large_dense_columns_beside_sparse_ones_begin_with_evaluations() -> None:
    def begins(scale: float) -> str:
        random = np.random.default_rng(0)
        n, labels = 400, random.integers(3, size=400)
        inputs = (scale * random.normal(size=(n, 5))).astype(np.float32)
        ids = random.integers(2000, size=(n, 10)).astype(np.int32)
        sparse = AttributeRows(10 * np.arange(n + 1), ids.ravel(), None)
        rows = {"node": RowData(FeatureMap.build(3, 2000, 5), sparse, inputs)}
        problem = Problem.build(Multiclass(3), labels, np.ones(n, int), rows, l2=1.0)
        return str(Auto().init(problem, random).at_work())

    assert [begins(0.1), begins(30.0)] == ["eg-gap", "lbfgs"]


def test_online_steps_that_lead_nowhere_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a clock: equal runs decide alike."""
    monkeypatch.setattr(ExponentiatedGradient, "passes_expected", lambda *_: 1.0)
    problem = _dense(400, 6, np.logspace(1.5, -2, 6), 0.1)
    first, second = (solve(problem, solver_for(problem), max_passes=100) for _ in range(2))
    assert first.converged and first.state.at_work() == "lbfgs"
    assert first.passes == second.passes
    np.testing.assert_array_equal(first.weights, second.weights)


def test_another_l2_starts_from_the_last_solution() -> None:
    problem = _dense(300, 20, 1.0, 10.0)
    before = solve(problem, solver_for(problem))
    warm = solve(problem.with_l2(8.0), solver_for(problem), warm_start=before)
    cold = solve(problem.with_l2(8.0), solver_for(problem))
    assert warm.converged and warm.passes <= cold.passes


def dense_chains(l2: float, loss: str = "log", length: int = 12) -> Problem:
    random, lengths = np.random.default_rng(2), np.full(480 // length, length)
    labels, n = random.integers(0, 4, 480), 480
    rows = (random.normal(size=(n, 30)) + random.normal(size=(4, 30))[labels]).astype(np.float32)
    return Problem.build(
        Chain(4),
        labels,
        lengths,
        {"node": RowData(FeatureMap.build(4, 0, 30), None, rows)},
        l2=l2,
        loss=loss,
    )


@pytest.mark.parametrize(("noise", "solver"), [(0.3, "eg-gap"), (3.0, "lbfgs")])
def test_a_few_steps_tell_whether_dense_classes_overlap(noise: float, solver: str) -> None:
    """Where they do not, L-BFGS takes longer than online steps, and the other way round."""
    random = np.random.default_rng(0)
    labels = random.integers(10, size=6000)
    inputs = 2.0 * np.eye(10, 200)[labels] + noise * random.normal(size=(6000, 200))
    rows = {"node": RowData(FeatureMap.build(10, 0, 200), None, inputs.astype(np.float32))}
    problem = Problem.build(Multiclass(10), labels, np.ones(6000, int), rows, l2=1.0)
    found = solve(problem, Auto())
    assert found.converged and found.state.at_work() == solver


def test_max_margin_chains_of_dense_attributes_begin_with_evaluations_if_l2_is_weak() -> None:
    """Σ ‖x‖² of a position decides, not that of a chain: long chains are many short ones."""

    def begins(l2: float, length: int = 12) -> str:
        problem = dense_chains(l2, "hinge", length)
        solver = solver_for(problem)
        assert isinstance(solver, Race) and solve(problem, solver).converged
        return str(solver.init(problem, np.random.default_rng(0)).at_work())

    assert [begins(0.1), begins(100.0)] == ["lbfgs-sharpened", "chain-cd"]
    assert begins(0.1, 480) == begins(0.1) and begins(100.0, 480) == begins(100.0)


def test_max_margin_classes_whose_margins_can_be_kept_come_back_to_evaluations() -> None:
    """Columns of very different sizes: visits undo one another, and do not end."""
    random = np.random.default_rng(0)
    labels = random.integers(3, size=150)
    inputs = (random.normal(size=(150, 8)) + 3.0 * np.eye(3, 8)[labels][:, ::-1]) * np.logspace(3, 0, 8)
    rows = {"node": RowData(FeatureMap.build(3, 0, 8), None, inputs.astype(np.float32))}
    problem = Problem.build(Multiclass(3), labels, np.ones(150, int), rows, loss="hinge", l2=1.0)
    found = solve(problem, solver_for(problem), max_passes=2000)
    assert found.converged and found.state.at_work() == "lbfgs-sharpened"


@pytest.mark.parametrize(("before", "after"), [(30.0, 1.0), (1.0, 30.0), (3000.0, 100.0)])
def test_warm_starts_over_a_jump_of_l2_are_no_slower(before: float, after: float) -> None:
    """Also where one of them begins online and the other does not."""
    first = solve(dense_chains(before), Auto(), tol=1e-5)
    there = dense_chains(after)
    cold, warm = solve(there, Auto(), tol=1e-5), solve(there, Auto(), tol=1e-5, warm_start=first)
    assert cold.converged and warm.converged and warm.passes <= cold.passes + 2


def test_a_warm_start_changes_solver_where_a_cold_one_would(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        ExponentiatedGradient,
        "passes_expected",
        lambda _, problem: 1.0 if stiffness(problem) < 1.0 else np.inf,
    )
    strong, weak = dense_chains(3000.0), dense_chains(0.1)
    before = solve(strong, Auto(), tol=1e-3)
    assert before.state.at_work() == "eg-gap" and stiffness(strong) < 1.0 < stiffness(weak)
    cold, warm = solve(weak, Auto(), tol=1e-4), solve(weak, Auto(), tol=1e-4, warm_start=before)
    for found in (cold, warm):
        assert found.converged and found.state.at_work() == "lbfgs"
    assert warm.passes <= 1.25 * cold.passes
    assert warm.certificate.primal == pytest.approx(cold.certificate.primal, rel=2e-4)


def test_weak_l2_on_many_weights_takes_double_precision() -> None:
    random, n = np.random.default_rng(0), 200
    rows, labels = random.normal(size=(n, 50)).astype(np.float32), random.integers(0, 3, n)
    own = {"node": RowData(FeatureMap.build(3, 0, 50), None, rows)}

    def precision(l2: float, few: bool = False) -> str:
        given = {"node": RowData(FeatureMap.build(3, 0, 2), None, rows[:, :2])} if few else own
        problem = Problem.build(Multiclass(3), labels, np.ones(n, int), given, l2=l2)
        return str(solver_for(problem, "eg-gap", 1e-3).precision)  # type: ignore[attr-defined]

    assert [precision(l2) for l2 in (1.0, 0.1, 0.01, 0.001)] == ["single", "single", "double", "double"]
    assert precision(0.001, few=True) == "single"
