"""Block-coordinate Frank–Wolfe, and EG that sharpens: both for β = ∞."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract_solvers import after_every_visit, optimum, problem_of

from partwise.errors import InputError
from partwise.solvers import BlockFrankWolfe, ExponentiatedGradient, solve

CASES = ["multiclass", "tied", "untied", "order2", "masked"]
SOLVERS = {
    **{f"bcfw-{o}": BlockFrankWolfe(o, precision="double") for o in ("gap", "permuted", "random", "cyclic")},
    "sharpened": ExponentiatedGradient("gap", sharpen=True, precision="double"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", SOLVERS)
def test_closes_in_on_the_optimum(name: str, case: str) -> None:
    best = optimum(case, "hinge")
    tol = 2e-3 if name == "sharpened" else 2e-6
    found = solve(problem_of(case, "hinge").problem, SOLVERS[name], tol=tol, max_passes=5000)
    assert found.converged
    assert found.certificate.dual <= best * (1 + 1e-6)
    assert best * (1 - 1e-6) <= found.certificate.primal <= best * (1 + 1.1 * tol)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", SOLVERS)
def test_certificate_is_the_one_of_the_hard_loss(name: str, case: str) -> None:
    data = problem_of(case, "hinge")
    found = solve(data.problem, SOLVERS[name], tol=1e-9, max_passes=4)
    primal = data.written_out.primal(found.weights)
    assert found.certificate.primal == pytest.approx(primal, rel=1e-9)
    if name != "sharpened":  # keeps the dual of its finite β
        assert found.certificate.drift <= 1e-9 * abs(primal)
        assert found.state.alpha.sum(axis=1) == pytest.approx(1.0)


@pytest.mark.parametrize("case", CASES)
def test_dual_never_falls(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At no visit, by the dual summed over the labellings that the state remembers."""
    data = problem_of(case, "hinge")
    problem, solver = data.problem, BlockFrankWolfe("cyclic", precision="double")
    random = np.random.default_rng(0)
    state = solver.init(problem, random)
    ptr, written, duals = problem.batch.gold_ptr, data.written_out, [0.0]

    def look(_: int) -> None:
        alphas = []
        for i, parts in enumerate(written.parts):
            number = {tuple(sorted(own)): k for k, own in enumerate(parts)}
            alpha = np.zeros(len(parts))
            for share, corner in zip(state.alpha[i], state.corners[:, ptr[i] : ptr[i + 1]], strict=True):
                if share > 0.0:
                    alpha[number[tuple(sorted(corner))]] += share
            alphas.append(alpha)
        duals.append(written.dual(alphas))

    after_every_visit(monkeypatch, look)
    for _ in range(15):
        state, info = solver.step(problem, state, random)
        assert info.dual == pytest.approx(duals[-1], rel=1e-9, abs=1e-9)
    assert len(duals) == 1 + 15 * problem.n_examples
    assert (np.diff(duals) >= -1e-12 * abs(duals[-1])).all()


def test_first_step_has_the_closed_form() -> None:
    """From w = 0 on the first example: argmax of the cost, step min(1, cost · l2 / ‖φ‖²)."""
    data = problem_of("multiclass", "hinge")
    problem, written = data.problem, data.written_out
    solver = BlockFrankWolfe("cyclic", precision="double")
    state = solver.init(problem, np.random.default_rng(0))
    from partwise.solvers.dual.frank_wolfe_pass import frank_wolfe_pass

    parts, values = np.zeros(1, np.int32), np.zeros(state.alpha.shape[1])
    frank_wolfe_pass(
        problem.batch,
        np.arange(1),
        state.point(problem),
        1.0,
        problem.l2,
        0,
        parts,
        values,
        problem.scratch(np.float64),
    )
    label = int(np.argmax(written.costs[0]))
    psi = written.features[0][written.gold[0]] - written.features[0][label]
    weight = problem.batch.example_weight[0]
    step = min(1.0, written.costs[0][label] * problem.l2 / (weight * (psi @ psi)))
    np.testing.assert_allclose(state.v, step * weight * psi, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", SOLVERS)
def test_resumes_bit_for_bit(name: str, tmp_path: Path) -> None:
    problem, file, steps = problem_of("tied", "hinge").problem, tmp_path / "run", []

    def stop_at_the_third(progress: Any) -> bool:
        steps.append(progress)
        return len(steps) == 3

    whole = solve(problem, SOLVERS[name], tol=1e-9, max_passes=12)
    solve(problem, SOLVERS[name], tol=1e-9, max_passes=12, checkpoint=file, callback=stop_at_the_third)
    again = solve(problem, SOLVERS[name], tol=1e-9, max_passes=12, checkpoint=file, resume=True)
    np.testing.assert_array_equal(again.weights, whole.weights)


def test_finite_beta_is_refused() -> None:
    with pytest.raises(InputError, match="beta = inf"):
        solve(problem_of("tied", "log").problem, BlockFrankWolfe())
