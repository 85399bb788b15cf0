"""What every solver must do, on every structure and loss: inherit, and say which and how exact it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from problems import Small, WrittenOut, small

from partwise.core.losses import Loss
from partwise.core.problem import Problem
from partwise.errors import InputError
from partwise.solvers import LBFGS, SOLVERS, Solution, Solver, StopReason, solve
from partwise.solvers.checkpoint import copied
from partwise.solvers.dual.simplex_qp import simplex_qp
from partwise.solvers.needs import check_solver

LOSSES: dict[str, str | Loss] = {
    "log": "log",
    "hinge": "hinge",
    "softmax_margin": "softmax_margin",
    "between": Loss(2.0, 0.5),
}
# The contract is for those above; the table of solvers has these too.
MORE_LOSSES: dict[str, str | Loss] = {**LOSSES, "sharp": Loss(4.0, 1.0), "perceptron": "perceptron"}
# One of each kind of structure, of features, of pairs; weighted examples in two of them.
CASES: dict[str, dict[str, Any]] = {
    "multiclass": {"kind": "multiclass", "features": "dense"},
    "tied": {"kind": "tied", "features": "binary", "pairs": "observed", "weighted": True},
    "untied": {"kind": "untied", "features": "real", "pairs": "observed"},
    "order2": {"kind": "order2", "features": "binary"},
    "masked": {"kind": "masked", "features": "real", "weighted": True},
}
# Trees compile slowly: test_tree_solvers.py runs the solvers that are fit for them.
TREE_CASES: dict[str, dict[str, Any]] = {
    "projective": {"kind": "projective", "features": "real", "pairs": "observed", "weighted": True},
    "spanning": {"kind": "spanning", "features": "binary"},
}
# Their labellings differ in their number of parts: test_selection.py and test_semi_markov.py say what that asks of
# which solver.
SELECTION_CASES: dict[str, dict[str, Any]] = {
    "selection": {"kind": "selection", "features": "real", "weighted": True},
    "segments": {"kind": "segments", "features": "real", "weighted": True},
    "grammar": {"kind": "grammar", "features": "real", "weighted": True},
}
# Two kinds of factors, one of them tied, in cycles: test_graph_solvers.py.
GRAPH_CASES: dict[str, dict[str, Any]] = {
    "graph": {"kind": "graph", "features": "real", "weighted": True},
}


@cache
def problem_of(case: str, loss: str) -> Small:
    return small(loss=MORE_LOSSES[loss], **(CASES | TREE_CASES | SELECTION_CASES | GRAPH_CASES)[case])


@cache
def optimum(case: str, loss: str, l2: float | None = None) -> float:
    """P* = D*, by L-BFGS, or for β = ∞ by the explicit quadratic programme over all labellings."""
    data = problem_of(case, loss)
    problem = data.problem if l2 is None else data.problem.with_l2(l2)
    if not problem.loss.is_hard:
        best = solve(problem, LBFGS(), tol=1e-11, max_passes=500)
        assert best.converged
        return best.certificate.primal
    if problem.loss.gamma == 0.0:
        return 0.0  # no loss is negative, and that of w = 0 is none
    written = WrittenOut(data)
    written.problem = problem
    result = simplex_qp(*written.as_quadratic(), tol=1e-8, max_iterations=20_000)
    assert result.converged
    return -result.value


def solver_of(name: str) -> Solver:
    """The solver of that name in double precision, where it has a choice."""
    solver: Any = SOLVERS[name]
    return replace(solver, precision="double") if hasattr(solver, "precision") else solver


def check_optimum(case: str, name: str, loss: str, tolerances: tuple[float, float], max_passes: int) -> None:
    """Primal and dual come within relative `tolerances` of the optimum, and the primal is that of enumeration."""
    primal_tolerance, dual_tolerance = tolerances
    data, best = problem_of(case, loss), optimum(case, loss)
    found = solve(data.problem, solver_of(name), tol=min(tolerances) / 2, max_passes=max_passes)
    assert -1e-7 * best <= found.certificate.primal - best <= primal_tolerance * best
    assert -1e-7 * best <= best - found.certificate.dual <= dual_tolerance * best
    np.testing.assert_allclose(found.certificate.primal, data.written_out.primal(found.weights), rtol=1e-9)


def check_online_learner(case: str, name: str) -> None:
    """A learner that does not minimise certifies what it has."""
    data, best = problem_of(case, "hinge"), optimum(case, "hinge")
    found = solve(data.problem, SOLVERS[name], tol=1e-9, max_passes=5)
    assert found.certificate.primal == pytest.approx(data.written_out.primal(found.weights), rel=1e-9)
    assert 0.0 <= found.certificate.dual <= best <= found.certificate.primal


EVERY_PAIR = [(case, loss) for case in CASES for loss in LOSSES]


class SolverContract:
    """Subclasses set `solver`, and how close to the optimum it comes in how many passes.

    Where it does not work for all, they also say for which structures and losses it does.
    For β = ∞ the primal is only as close as the root of the dual's distance: it has a tolerance of its own.
    """

    solver: Solver
    cases = tuple(CASES)
    usual_case = "tied"
    smooth_only = hard_only = False
    tolerance = 1e-6
    hard_tolerance, hard_primal_tolerance = 1e-6, 1e-6
    max_passes = 3000.0

    def dual_point(self, written: WrittenOut, state: Any) -> list[np.ndarray] | None:
        """α of a state, label by label; None where it cannot be read off."""
        raise NotImplementedError

    def able(self, case: str, loss: str) -> bool:
        return case in self.cases and not (self.smooth_only if loss == "hinge" else self.hard_only)

    def _skip_unless_able(self, case: str, loss: str) -> None:
        if not self.able(case, loss):
            pytest.skip("is refused, as another test makes sure")

    @property
    def usual_loss(self) -> str:
        return "hinge" if self.hard_only else "log"

    def run(self, case: str, loss: str, **options: Any) -> Solution:
        options = {"tol": 1e-12, "max_passes": 6} | options
        return solve(problem_of(case, loss).problem, self.solver, **options)

    @pytest.mark.parametrize(("case", "loss"), EVERY_PAIR)
    def test_reaches_the_optimum(self, case: str, loss: str, request: pytest.FixtureRequest) -> None:
        self._skip_unless_able(case, loss)
        dual_tolerance = self.hard_tolerance if loss == "hinge" else self.tolerance
        primal_tolerance = self.hard_primal_tolerance if loss == "hinge" else self.tolerance
        best = optimum(case, loss)
        found = self.run(case, loss, tol=dual_tolerance / 2, max_passes=self.max_passes)
        assert found.certificate.primal - best <= primal_tolerance * best
        assert best - found.certificate.dual <= dual_tolerance * best
        for record in found.history:
            assert record.gap >= -1e-9 * abs(record.primal)
            assert record.dual <= best * (1 + 1e-7)
            assert record.primal >= best * (1 - 1e-7)

    @pytest.mark.parametrize(("case", "loss"), EVERY_PAIR)
    @pytest.mark.parametrize("passes", [1, 6])
    def test_certificate_is_what_enumeration_gives(self, case: str, loss: str, passes: int) -> None:
        self._skip_unless_able(case, loss)
        written = problem_of(case, loss).written_out
        found = self.run(case, loss, max_passes=passes)
        primal, dual = found.certificate.primal, found.certificate.dual
        np.testing.assert_allclose(primal, written.primal(found.weights), rtol=1e-9)
        alphas = self.dual_point(written, found.state)
        if alphas is not None:
            np.testing.assert_allclose(dual, written.dual(alphas), rtol=1e-9, atol=1e-9)
        assert dual <= optimum(case, loss) * (1 + 1e-7)

    @pytest.mark.parametrize(
        ("case", "loss"), [("tied", "log"), ("tied", "hinge"), ("multiclass", "hinge"), ("order2", "between")]
    )
    def test_resumes_bit_for_bit(self, case: str, loss: str, tmp_path: Path) -> None:
        self._skip_unless_able(case, loss)
        whole = self.run(case, loss, max_passes=25)
        steps: list[int] = []

        def stop_at_the_third(progress: Any) -> bool:
            steps.append(1)
            return len(steps) == 3

        file = tmp_path / "run"
        part = self.run(case, loss, max_passes=25, checkpoint=file, callback=stop_at_the_third)
        assert part.stop_reason is StopReason.CALLBACK
        assert part.passes < whole.passes
        again = self.run(case, loss, max_passes=25, checkpoint=file, resume=True, random_state=99)
        np.testing.assert_array_equal(again.weights, whole.weights)
        assert again.passes == whole.passes
        for ours, theirs in zip(again.state, whole.state, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        timeless = [(r.passes, r.primal, r.dual) for r in whole.history]
        assert [(r.passes, r.primal, r.dual) for r in again.history] == timeless

    def test_ctrl_c_returns_a_certified_solution(self) -> None:
        def interrupt(progress: Any) -> None:
            if progress.passes >= 2:
                raise KeyboardInterrupt

        loss = self.usual_loss
        found = self.run(self.usual_case, loss, max_passes=1000, callback=interrupt)
        assert found.stop_reason is StopReason.INTERRUPTED
        assert not found.converged
        written, best = problem_of(self.usual_case, loss).written_out, optimum(self.usual_case, loss)
        assert found.certificate.primal == pytest.approx(written.primal(found.weights), rel=1e-9)
        assert found.certificate.dual <= best * (1 + 1e-7)
        assert best <= found.certificate.primal * (1 + 1e-7)

    def test_interrupted_before_the_first_step(self) -> None:
        """A state that no step has touched can be certified too."""
        problem = problem_of(self.usual_case, self.usual_loss).problem
        state = self.solver.init(problem, np.random.default_rng(0))
        _, certificate = self.solver.certificate(problem, state)
        assert certificate.gap >= -1e-9 * abs(certificate.primal)
        assert certificate.primal == pytest.approx(problem.primal(certificate.weights), rel=1e-12)

    def test_goes_on_with_another_l2(self) -> None:
        problem = problem_of(self.usual_case, self.usual_loss).problem
        first = solve(problem, self.solver, tol=1e-3, max_passes=self.max_passes)
        weaker = problem.with_l2(1.0)
        _, carried_over = self.solver.certificate(
            weaker, self.solver.carry_over(weaker, copied(first.state), {"l2"})
        )
        assert carried_over.primal == pytest.approx(weaker.primal(carried_over.weights), rel=1e-12)
        second = solve(weaker, self.solver, tol=1e-2, max_passes=self.max_passes, warm_start=first)
        best = optimum(self.usual_case, self.usual_loss, 1.0)
        assert second.certificate.dual <= best * (1 + 1e-7)
        assert second.certificate.primal <= best * 1.011  # the tolerance is relative to the primal

    @pytest.mark.parametrize(("case", "loss"), EVERY_PAIR)
    def test_refuses_what_it_cannot_do(self, case: str, loss: str) -> None:
        """And nothing else, before any work, with a reason."""
        problem = problem_of(case, loss).problem
        if self.able(case, loss):
            check_solver(problem, self.solver)
        else:
            with pytest.raises(InputError, match="beta" if case in self.cases else "use"):
                solve(problem, self.solver)


def model_point(written: WrittenOut, weights: np.ndarray) -> list[np.ndarray]:
    """α_i = p_i(w), or the maximiser."""
    if not written.problem.loss.is_hard:
        return written.model(weights)
    margins = [written.margins(weights, i) for i in range(len(written.gold))]
    return [(np.arange(len(m)) == m.argmax()) * 1.0 for m in margins]


def visited_point(written: WrittenOut, theta: np.ndarray, visited: np.ndarray) -> list[np.ndarray]:
    """α from potentials, the true label where nothing was done yet."""
    alphas = written.from_potentials(theta)
    return [a if seen else g for a, g, seen in zip(alphas, written.true_labels(), visited, strict=True)]


def after_every_visit(monkeypatch: pytest.MonkeyPatch, look: Callable[[int], None]) -> None:
    """From now on, visits are made one example at a time and ``look(example)`` is called after each."""
    visits = Problem.visits

    def one_by_one(self: Problem, order: np.ndarray, v: np.ndarray, run: Any, asks: Any = None) -> list[Any]:
        results = []
        for i in order:
            results += visits(self, np.array([i]), v, run, asks)
            look(int(i))
        return results

    monkeypatch.setattr(Problem, "visits", one_by_one)
