"""`svm-struct` and `bmrm` against the contract and each other; the active-set method against simplex_qp."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract_solvers import SolverContract, optimum, problem_of
from problems import WrittenOut, small

from partwise.errors import InputError
from partwise.solvers import BMRM, SOLVERS, SVMStruct, solve
from partwise.solvers.bundle.active_set import maximise_on_simplex
from partwise.solvers.dual.simplex_qp import simplex_qp


class TestBMRM(SolverContract):
    solver = BMRM()

    def dual_point(self, written: WrittenOut, state: Any) -> None:
        """Only the bundle's bound of D is known, not α."""


class TestShortBundle(SolverContract):
    """With so few planes, some are merged all the time."""

    solver, tolerance, hard_tolerance, hard_primal_tolerance = BMRM(memory=12), 1e-4, 1e-3, 1e-3

    def dual_point(self, written: WrittenOut, state: Any) -> None:
        """As above."""


class TestSVMStruct(SolverContract):
    solver, hard_only = SVMStruct(), True

    def dual_point(self, written: WrittenOut, state: Any) -> list[np.ndarray]:
        """Shares by labelling: parts are stored with repetition, in order."""
        result = written.true_labels()
        gold_ptr = written.problem.batch.gold_ptr
        for i, alpha in enumerate(result):
            alpha *= state.share[i, 0]
            numbers = {tuple(sorted(parts)): k for k, parts in enumerate(written.parts[i])}
            for p in range(1, state.n_used[i]):
                own = state.part[p - 1, gold_ptr[i] : gold_ptr[i + 1]]
                alpha[numbers[tuple(sorted(own))]] += state.share[i, p]
        return result

    def test_starts_at_the_true_labels(self) -> None:
        problem = problem_of("tied", "hinge").problem
        _, certificate = self.solver.certificate(problem, self.solver.init(problem, np.random.default_rng(0)))
        assert certificate.dual == 0.0
        assert certificate.primal == pytest.approx(problem.primal(np.zeros(problem.n_weights)))


# -- the two on the same problem -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["multiclass", "tied"])
def test_all_reach_the_same_optimum(kind: str) -> None:
    problem = small(kind, "hinge", features="real", n=40, l2=0.5).problem
    ours = {name: solve(problem, SOLVERS[name], tol=1e-7, max_passes=1000) for name in ("svm-struct", "bmrm")}
    assert all(found.converged for found in ours.values())
    primal = ours["bmrm"].certificate.primal
    assert ours["svm-struct"].certificate.primal == pytest.approx(primal, rel=2e-7)
    # Frank–Wolfe gains little near the end, but no bound of one may cross a value of another.
    theirs = solve(problem, SOLVERS["bcfw"], tol=1e-3, max_passes=300).certificate
    assert theirs.dual <= primal * (1 + 1e-7)
    assert theirs.primal >= primal * (1 - 2e-7)
    assert theirs.primal == pytest.approx(primal, rel=5e-3)


@pytest.mark.parametrize("loss", ["log", "hinge"])
def test_bundle_never_falls(loss: str) -> None:
    """Not even where planes are merged."""
    problem, random = problem_of("tied", loss).problem, np.random.default_rng(0)
    solver = BMRM(memory=5)
    state, dual = solver.init(problem, random), 0.0
    for _ in range(40):
        state, info = solver.step(problem, state, random)
        assert info.dual >= dual - 1e-12 * abs(dual)
        dual = info.dual


def test_full_working_sets_give_way() -> None:
    problem = problem_of("tied", "hinge").problem
    found = solve(problem, SVMStruct(memory=4), tol=1e-6, max_passes=60)
    assert found.state.n_used.max() == 5
    best = optimum("tied", "hinge")
    assert found.certificate.dual <= best * (1 + 1e-7)
    assert found.certificate.dual >= best * (1 - 5e-3)
    assert found.certificate.primal <= best * 1.1
    enough = solve(problem, SVMStruct(memory=6), tol=1e-6, max_passes=300)
    assert enough.state.n_used.max() == 7
    assert enough.certificate.primal == pytest.approx(best, rel=2e-6)


def test_working_sets_are_consistent() -> None:
    """Costs and inner products against features written out."""
    data = problem_of("untied", "hinge")
    written, state = data.written_out, solve(data.problem, SVMStruct(), tol=1e-6).state
    gold_ptr = data.problem.batch.gold_ptr
    for i, count in enumerate(state.n_used):
        rows = [written.gold[i]]
        for p in range(1, count):
            own = sorted(state.part[p - 1, gold_ptr[i] : gold_ptr[i + 1]])
            rows.append(next(k for k, parts in enumerate(written.parts[i]) if sorted(parts) == own))
        assert len(set(rows)) == count
        moves = written.features[i][written.gold[i]] - written.features[i][rows]
        np.testing.assert_allclose(state.gram[i, :count, :count], moves @ moves.T, atol=1e-5)
        np.testing.assert_allclose(state.cost[i, :count], written.costs[i][rows], atol=1e-6)


def test_threads_change_nothing() -> None:
    one, two = small("tied", "hinge", n=9), small("tied", "hinge", n=9, n_jobs=2)
    for solver in (SVMStruct(), BMRM()):
        a, b = (solve(data.problem, solver, tol=1e-7, max_passes=300) for data in (one, two))
        np.testing.assert_allclose(a.weights, b.weights, atol=1e-9)


def test_checkpoint_of_another_memory_is_refused(tmp_path: Path) -> None:
    problem, file = problem_of("tied", "log").problem, tmp_path / "run"
    solve(problem, BMRM(memory=9), max_passes=3, tol=1e-9, checkpoint=file)
    with pytest.raises(InputError, match="solver"):
        solve(problem, BMRM(memory=10), max_passes=3, tol=1e-9, checkpoint=file, resume=True)


@pytest.mark.parametrize("memory", [0, 1, 1.5, True, "all"])
@pytest.mark.parametrize("solver", [BMRM, SVMStruct])
def test_bad_memory_is_refused(solver: Any, memory: Any) -> None:
    with pytest.raises(InputError, match="memory must"):
        solve(problem_of("tied", "hinge").problem, solver(memory=memory))


# -- the small programme -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_active_set_agrees_with_exponentiated_gradient(seed: int) -> None:
    random = np.random.default_rng(seed)
    m = 3 + 4 * seed
    planes = random.normal(size=(m, 5))  # singular from the second on
    matrix, linear = planes @ planes.T, random.normal(size=m)
    found = maximise_on_simplex(matrix, linear, np.full(m, 1.0 / m))
    reference = simplex_qp(matrix, -linear, [m], tol=1e-9, max_iterations=100_000)
    assert found.min() >= 0.0
    assert found.sum() == pytest.approx(1.0, abs=1e-12)
    value = float(linear @ found - 0.5 * found @ matrix @ found)
    assert -reference.value - 1e-12 <= value <= -reference.lower_bound + 1e-9
    slope = linear - matrix @ found
    assert slope.max() - found @ slope <= 1e-9


def test_active_set_survives_nearly_parallel_planes() -> None:
    random = np.random.default_rng(0)
    planes = random.normal(size=4) + 1e-7 * random.normal(size=(30, 4))
    planes[1] = planes[0]
    matrix, linear = planes @ planes.T, 1.0 + 1e-7 * random.normal(size=30)
    start = np.eye(30)[0]
    found = maximise_on_simplex(matrix, linear, start)
    slope = linear - matrix @ found
    assert slope.max() - found @ slope <= 1e-9
