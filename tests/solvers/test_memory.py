"""Memory: the lean dual state against the solver contract, estimates against real processes, limits."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract_solvers import SolverContract, optimum, problem_of, visited_point
from data_paths import SUPPORT
from problems import WrittenOut, many_labels

from partwise import SequenceLabeler
from partwise.cli import main
from partwise.core.problem import Problem
from partwise.errors import InputError
from partwise.solvers import LBFGS, Auto, ExponentiatedGradient, race, solve, solver_for
from partwise.solvers import memory as module
from partwise.solvers.memory import bytes_of, memory_estimate, solver_within

LEAN = ExponentiatedGradient("gap", "newton", precision="double", lean=True)


def potentials(problem: Problem, state: Any) -> np.ndarray:
    """θ of all parts, written out from what a lean state keeps."""
    if not state.code.size:
        return np.asarray(state.theta)
    batch, parts = problem.batch, []
    for i in range(problem.n_examples):
        first, last = batch.part_ptr[i : i + 2] - batch.n_tied * np.arange(i, i + 2)
        tied = state.share[i] * state.reference + state.scale[i] * state.code[i]
        parts += [state.theta[first:last], tied]
    return np.concatenate(parts)


class TestLean(SolverContract):
    solver, smooth_only = LEAN, True

    def dual_point(self, written: WrittenOut, state: Any) -> list[np.ndarray]:
        return visited_point(written, potentials(written.problem, state), state.visited)


class TestLeanAuto(SolverContract):
    solver, smooth_only = Auto("double", lean=True), True

    def dual_point(self, written: WrittenOut, state: Any) -> list[np.ndarray] | None:
        return None


@pytest.mark.parametrize("order", ["random", "cyclic", "permuted"])
def test_all_orders_and_halved_steps(order: Any) -> None:
    solver = ExponentiatedGradient(order, precision="double", lean=True)
    found = solve(problem_of("tied", "log").problem, solver, tol=1e-7, max_passes=1000)
    assert found.converged
    assert found.certificate.primal == pytest.approx(optimum("tied", "log"), rel=1e-6)


@pytest.mark.parametrize("case", ["segments", "grammar", "selection", "graph"])
def test_tied_parts_of_other_structures(case: str) -> None:
    problem, best = problem_of(case, "log").problem, optimum(case, "log")
    assert problem.batch.n_tied
    found = solve(problem, LEAN, tol=1e-5, max_passes=1000)
    assert found.converged and found.state.code.shape == (problem.n_examples, problem.batch.n_tied)
    assert found.certificate.dual <= best * (1 + 1e-9) <= found.certificate.primal * (1 + 2e-9)


def test_single_precision_is_certified_in_double() -> None:
    data = problem_of("tied", "log")
    found = solve(data.problem, replace(LEAN, precision="single"), tol=3e-4, max_passes=500)
    assert found.converged and found.state.theta.dtype == np.float32
    theta = potentials(data.problem, found.state)
    alphas = visited_point(data.written_out, theta, found.state.visited)
    assert found.certificate.dual == pytest.approx(data.written_out.dual(alphas), rel=1e-9)


def test_l1_and_acceleration() -> None:
    """Tied scores are those of the visit itself: shrunk, or of weights that momentum is in."""
    problem = problem_of("tied", "log").problem.with_l2(0.05)
    found = solve(problem, LEAN, tol=1e-4, max_passes=3000)
    assert found.converged and found.state.since[0] >= 0
    own, gold = problem_of("tied", "log").problem, LBFGS()
    sparse = Problem(own.scorer, own.gold, own.cost, own.example_weight, own.loss, own.l2, 0.3)
    best = solve(sparse, gold, tol=1e-9, max_passes=2000).certificate.primal
    found = solve(sparse, LEAN, tol=1e-7, max_passes=2000)
    assert found.converged and found.certificate.primal == pytest.approx(best, rel=1e-6)


def test_auto_hands_over_to_lean_state_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "_FIRST_TURN": 1e-9, "_LONGER": 1.02, "_FEWEST_STEPS": 2,
        "_measured_rate": lambda own: 1e-9 / own.least[0],
        "_work_left": lambda own, to_go: np.where(np.isnan(own.rate), 0.0, 1.0 / own.rate),
    }.items():  # fmt: skip
        monkeypatch.setattr(race, name, value)
    solver, problem = Auto("double", lean=True), problem_of("order2", "between").problem
    best, modes = optimum("order2", "between"), set()
    state, random = solver.init(problem, np.random.default_rng(0)), np.random.default_rng(0)
    for _ in range(40):
        modes.add(state.at_work())
        state, _ = solver.step(problem, state, random)
        state, certificate = solver.certificate(problem, state)
        assert certificate.dual <= best * (1 + 1e-9) <= certificate.primal * (1 + 2e-9)
    assert modes == {"eg-gap", "lbfgs"} and certificate.relative_gap < 1e-5


# -- estimates ------------------------------------------------------------------------------------

CHILD = """
import json, sys
from pathlib import Path
from problems import many_labels
from partwise.solvers import solve
from partwise.solvers.memory import memory_estimate, solver_within
n, loss, solver, lacking = json.loads(sys.argv[1])
few = many_labels(200, 100, loss=loss)
solve(few, solver_within(few, solver, memory_limit="100GB"), max_passes=1)  # all is loaded
problem = many_labels(n, 100, loss=loss)
limit = memory_estimate(problem, solver, memory_limit="100GB").peak - lacking
chosen = solver_within(problem, solver, memory_limit=limit if lacking else None)
estimate = memory_estimate(problem, chosen)
n_passes = 12 if solver == "lbfgs" else 10 if loss == "hinge" else 1  # until what grows has grown
solve(problem, chosen, max_passes=n_passes, certificate_every=n_passes)
status = Path("/proc/self/status").read_text()
peak = int(status.split("VmHWM:")[1].split()[0]) * 1024  # ru_maxrss would know the parent's
print(json.dumps([estimate.peak, peak, limit, estimate.solver]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems count resident memory differently")
@pytest.mark.parametrize(
    ("loss", "solver", "lacking", "expected"),
    [
        ("log", "auto", 0, "auto"),
        ("log", "auto", 70_000_000, "auto, lean"),
        ("log", "lbfgs", 0, "lbfgs"),
        ("hinge", "auto", 0, "chain-cd"),
    ],
)
def test_estimates_are_what_processes_take(loss: str, solver: str, lacking: int, expected: str) -> None:
    """Limits are some bytes less than what training would take: processes begin with more or less of their own."""
    few = many_labels(200, 100, loss=loss)  # enough for `auto` to begin as it does with many
    chosen: Any = solver_within(few, solver, memory_limit="100GB")
    for each in (chosen, chosen.leaner(few)) if lacking else (chosen,):
        solve(few, each, max_passes=1)  # a process that compiles takes more
    command = [sys.executable, "-c", CHILD, json.dumps([1500, loss, solver, lacking])]
    child = subprocess.run(command, capture_output=True, text=True, check=True, cwd=SUPPORT)
    estimated, peak, limit, name = json.loads(child.stdout)
    assert name == expected
    assert 0.8 * peak <= estimated <= 1.2 * peak
    assert not lacking or peak <= limit


# -- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [("1.5GB", 1.5e9), ("200 mb", 2e8), ("2GiB", 2.0**31), ("1e6", 1e6), (10**8, 1e8), (None, None)],
)
def test_limits_are_read(given: Any, expected: float | None) -> None:
    assert bytes_of(given) == expected


@pytest.mark.parametrize(
    "given", ["", "much", "1.5XB", "-1GB", 0, -3, True, float("nan"), "1.2.3MB", [1], "infGB"]
)
def test_limits_that_are_none(given: Any) -> None:
    with pytest.raises(InputError, match="memory_limit must be bytes"):
        SequenceLabeler(memory_limit=given).fit([["a"]], [["A"]])


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> Problem:
    """A problem that would take a GB of dual state."""
    monkeypatch.setattr(module, "resident_bytes", lambda: 10**8)
    return many_labels(7000, 100)


def test_auto_takes_what_fits(large: Problem) -> None:
    chosen = [solver_within(large, "auto", 1e-3, limit) for limit in ("2GB", "700MB", "200MB")]
    assert [(each.name, getattr(each, "lean", None)) for each in chosen] == [
        ("auto", False), ("auto", True), ("lbfgs", None)
    ]  # fmt: skip
    assert solver_within(large, "eg", 1e-3, "700MB") == solver_for(
        large, ExponentiatedGradient(lean=True), 1e-3
    )
    for estimate in (memory_estimate(large, "auto", memory_limit="700MB"), memory_estimate(large)):
        assert str(estimate).startswith("memory: about") and estimate.solver in str(estimate)


def test_what_does_not_fit_is_refused_in_one_line(large: Problem) -> None:
    with pytest.raises(
        InputError, match=r"memory_limit is 1 MB, and training by 'lbfgs' takes about .* raise it"
    ):
        solver_within(large, "auto", 1e-3, "1MB")
    with pytest.raises(InputError, match=r"'eg, lean' takes about .* or solver='auto'"):
        solver_within(large, "eg", 1e-3, "200MB")
    X, y = [[["a"], ["b"]]], [["A", "B"]]
    with pytest.raises(InputError, match="memory_limit is 1 MB"):
        SequenceLabeler(memory_limit="1MB").fit(X, y)


def test_without_a_limit_half_of_the_machine_is_taken(
    large: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    for machine, is_lean in [(8e9, False), (1e9, True), (1e6, True)]:
        monkeypatch.setattr(module, "machine_bytes", lambda machine=machine: machine)
        assert solver_within(large).lean is is_lean  # type: ignore[attr-defined]
        assert not solver_within(large, ExponentiatedGradient()).lean  # type: ignore[attr-defined]
    assert module.resident_bytes() == 10**8


def test_the_command_line_tells_and_limits(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data, model = tmp_path / "train.txt", tmp_path / "m.pw"
    data.write_text("a A\nb B\n\na A\nb B\n")
    command = ["train", "sequence", str(data), "--model", str(model), "--verbose", "--memory-limit"]
    for limit, code in [("100GB", 0), ("1MB", 2), ("much", 2)]:
        model.unlink(missing_ok=True)
        with pytest.raises(SystemExit) as stopped:
            main([*command, limit])
        printed = capfd.readouterr().err
        assert stopped.value.code == code and model.exists() == (code == 0)
        assert ("memory: about" in printed) == (code == 0) and ("memory_limit" in printed) == (code == 2)


def test_warm_starts_keep_lean_state() -> None:
    """Also where sequences join, and where the state before was another."""
    random = np.random.default_rng(0)
    labels = [[f"y{k}" for k in random.integers(0, 60, 8)] for _ in range(40)]
    X = [[[f"w{name}"] for name in each] for each in labels]
    labeler = SequenceLabeler(warm_start=True, solver=replace(LEAN, precision="auto"), random_state=1)
    labeler.fit(X[:30], labels[:30])
    assert labeler._training.state.code.size
    labeler.fit(X, labels)
    assert labeler.converged_ and labeler.n_passes_ < 20
    assert len(labeler.influential_examples(X[0])) == 5
    labeler.set_params(solver="eg-gap").fit(X, labels)
    assert labeler.converged_ and not labeler._training.state.code.size
