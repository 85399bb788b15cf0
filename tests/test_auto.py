"""`auto` for smooth losses: the contract, handing over in both directions, and what it decides by."""

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
from partwise.core.rows import RowData
from partwise.solvers import Auto, StopReason, solve, solver_for
from partwise.solvers import auto as module
from partwise.structures import Multiclass

SOLVER = Auto("double")


class TestAuto(SolverContract):
    solver, smooth_only = SOLVER, True

    def dual_point(self, written: WrittenOut, state: Any) -> list[np.ndarray] | None:
        return None


@pytest.fixture
def restless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every solver gives up as soon as it may, and starts with online steps."""
    for name, value in {
        "_SHARE": 0.0, "_LEAST_OF_SPARSE": 0.0, "_PATIENCE": 0.0, "_DOUBT": 0.0, "_FEWEST_PASSES": 0.0,
        "_FEWEST_STEPS": 2, "_MOST_WAITED": 0.0, "evaluations_expected": lambda problem: 0.0,
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
    """Online steps alone are not there after hundreds of passes."""
    problem = _dense(400, 6, np.logspace(1.5, -2, 6), 0.1)
    solver = solver_for(problem)
    assert isinstance(solver, Auto)
    assert solver.init(problem, np.random.default_rng(0)).at_work() == "lbfgs"
    found = solve(problem, solver, max_passes=60)
    assert found.converged
    assert not solve(problem, solver.online, max_passes=200).converged


def test_online_steps_that_lead_nowhere_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a clock: equal runs decide alike."""
    monkeypatch.setattr(module, "_FEWEST_PASSES", 0.0)
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
