"""Weak l2 in `eg-gap`: proximal points with momentum lead to the same optimum, in fewer passes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from problems import small

from partwise.core.problem import Problem
from partwise.solvers import SOLVERS, ExponentiatedGradient, solve
from partwise.solvers.dual.acceleration import Acceleration
from partwise.solvers.dual.potentials import refresh

PLAIN = ExponentiatedGradient("gap", "newton", acceleration=None, precision="double")
EARLY = ExponentiatedGradient("gap", "newton", acceleration=Acceleration(rest=6), precision="double")


def weak(l2: float = 1e-2, kind: str = "tied", **options: Any) -> Problem:
    return small(kind, "log", features="real", n=20, l2=l2, weighted=True, **options).problem


@pytest.mark.parametrize("kind", ["tied", "multiclass"])
def test_same_optimum_in_fewer_passes(kind: str) -> None:
    problem = weak(kind=kind)
    found = solve(problem, SOLVERS["eg-gap"], tol=1e-6, max_passes=2000)
    plain = solve(problem, PLAIN, tol=1e-6, max_passes=found.passes)
    assert plain.state.since[0] == -1
    assert found.state.since[0] >= 10
    assert found.converged
    assert plain.certificate.relative_gap > 10 * found.certificate.relative_gap
    optimum = solve(problem, SOLVERS["lbfgs"], tol=1e-7, max_passes=2000).certificate
    assert optimum.dual * (1 - 1e-12) <= found.certificate.primal <= optimum.primal * (1 + 1e-6)
    assert found.certificate.primal == pytest.approx(problem.primal(found.weights), rel=1e-12)


def test_between_passes_v_is_that_of_the_dual_variables() -> None:
    problem, random = weak(), np.random.default_rng(0)
    state = EARLY.init(problem, random)
    for _ in range(20):
        state, info = EARLY.step(problem, state, random)
    assert state.since[0] >= 6
    v, norm, dual = state.v.copy(), float(state.norm[0]), info.dual
    state, certificate = EARLY.certificate(problem, state)
    exact = refresh(problem, state.point())
    np.testing.assert_allclose(v, exact, rtol=1e-9, atol=1e-12)
    assert norm == pytest.approx(exact @ exact, rel=1e-9)
    assert dual == pytest.approx(certificate.dual, rel=1e-9)
    assert certificate.drift <= 1e-9 * abs(dual)


def test_a_run_that_is_accelerated_resumes_bit_for_bit(tmp_path: Path) -> None:
    problem, file, seen = weak(), tmp_path / "run", []

    def stop(progress: Any) -> bool:
        seen.append(progress)
        return len(seen) == 13

    whole = solve(problem, EARLY, tol=1e-12, max_passes=40)
    solve(problem, EARLY, tol=1e-12, max_passes=40, checkpoint=file, callback=stop)
    again = solve(problem, EARLY, tol=1e-12, max_passes=40, checkpoint=file, resume=True)
    assert whole.state.since[0] >= 6
    np.testing.assert_array_equal(again.weights, whole.weights)
    np.testing.assert_array_equal(again.state.anchor, whole.state.anchor)


def test_another_l2_begins_anew() -> None:
    before = solve(weak(), EARLY, tol=1e-5, max_passes=400)
    assert before.state.since[0] >= 6
    stronger = weak(l2=1.0)
    found = solve(stronger, EARLY, tol=1e-6, max_passes=400, warm_start=before)
    assert found.converged
    assert found.certificate.dual == pytest.approx(
        solve(stronger, PLAIN, tol=1e-8).certificate.dual, rel=1e-6
    )


@pytest.mark.parametrize(
    ("solver", "loss", "l1"),
    [(SOLVERS["eg"], "log", 0.0), (SOLVERS["eg-gap"], "log", 0.1), (SOLVERS["eg-gap"], "hinge", 0.0)],
)
def test_others_carry_no_weights_for_it(solver: Any, loss: str, l1: float) -> None:
    problem = small("tied", loss, l1=l1).problem
    assert solver.init(problem, np.random.default_rng(0)).anchor.size == 0
