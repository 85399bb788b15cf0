"""A new solver is one class and one registered line: help texts, tables, memory and training follow from it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from partwise import SequenceLabeler
from partwise.errors import InputError
from partwise.solvers import SOLVERS, ChainCoordinateAscent, Needs, SegmentAscent, StepInfo, solve, solver_for
from partwise.solvers.base import Solver, evaluate_model, primal_certificate, with_defaults
from partwise.solvers.memory import memory_estimate
from partwise.support_table import list_of_solvers, support_table

X = [[["the"], ["dog"]], [["a"], ["cat"]], [["the"], ["cat"], ["slept"]]] * 3
Y = [["D", "N"], ["D", "N"], ["D", "N", "V"]] * 3


class WeightsOnly(NamedTuple):
    weights: np.ndarray


@dataclass(frozen=True)
class Descent(Solver):
    """Gradient descent with steps of one length."""

    name = "descent"
    needs = Needs(loss="smooth")

    def init(self, problem: Any, random: np.random.Generator) -> WeightsOnly:
        return WeightsOnly(np.zeros(problem.n_weights))

    def step(
        self, problem: Any, state: WeightsOnly, random: np.random.Generator
    ) -> tuple[WeightsOnly, StepInfo]:
        point = evaluate_model(problem, state.weights)
        state.weights[:] -= 0.1 * (problem.l2 * state.weights - point.v)
        return state, StepInfo(1.0)

    def carry_over(self, problem: Any, state: WeightsOnly, changed: Any) -> WeightsOnly:
        return state

    def certificate(self, problem: Any, state: WeightsOnly) -> tuple[WeightsOnly, Any]:
        return state, primal_certificate(problem, state.weights, evaluate_model(problem, state.weights))


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SOLVERS, "descent", Descent())  # type: ignore[arg-type]


def test_a_registered_solver_trains_and_has_a_memory_estimate(registered: None) -> None:
    model = SequenceLabeler(solver="descent", tol=1e-5, max_passes=2000).fit(X, Y)
    usual = SequenceLabeler(solver="lbfgs", tol=1e-5).fit(X, Y)
    assert model.converged_ and model.objective_ == pytest.approx(usual.objective_, rel=1e-4)
    problem = model._training.problem
    estimate = memory_estimate(problem, "descent")
    assert estimate.solver == "descent" and estimate.parts == 0
    assert estimate.weights == memory_estimate(problem, "cg").weights
    with pytest.raises(InputError, match="'descent' needs a smooth loss"):
        SequenceLabeler(solver="descent", loss="hinge").fit(X, Y)
    with pytest.raises(InputError, match=r"there are auto, eg, .* descent$"):
        SequenceLabeler(solver="ascent").fit(X, Y)
    with pytest.raises(InputError, match=r"cannot work on shards: use 'auto', 'eg'"):
        SequenceLabeler(solver="descent", engine="processes").fit(X, Y)


def test_a_registered_solver_is_in_the_tables(registered: None) -> None:
    assert "| `descent` | Gradient descent with steps of one length | finite |" in list_of_solvers()
    assert "| `descent` | all | all | all | – (1) | – (1) |" in support_table()


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_help_names_all_solvers_and_loads_none() -> None:
    code = (
        "import sys\nfrom partwise.solvers.registry import SOLVERS\nSOLVERS['descent'] = None\n"
        "from partwise.cli import main\n"
        "try:\n    main(['train', 'sequence', '--help'])\nexcept SystemExit:\n    pass\n"
        "print('loaded:', [each for each in sys.modules if each.startswith(('numba', 'partwise.solvers.'))])"
    )
    words = "".join(run(code).replace("│", " ").split())  # lines may end within a name
    assert f"oneof{','.join(SOLVERS)},descent." in words
    assert words.endswith("loaded:['partwise.solvers.registry']")


class Plain:
    """A solver from before there was a class to inherit from."""

    name, needs = "plain", Needs()

    def __init__(self, weights: float):
        self.weights = weights


def test_a_solver_that_does_not_inherit_gets_the_defaults() -> None:
    plain: Any = Plain(2.0)
    found: Any = with_defaults(plain)
    assert isinstance(found, Plain) and isinstance(found, Solver) and not isinstance(plain, Solver)
    assert found.weights == 2.0 and found.minimises and found.keep(None)
    assert type(with_defaults(Plain(1.0))) is type(found) and with_defaults(found) is found


@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_is_where_the_registry_says(name: str) -> None:
    solver: Any = SOLVERS[name]
    assert solver.name == name and SOLVERS[name] is solver and SOLVERS.summary(name)
    assert isinstance(solver, Solver)
    assert all(not field.name.startswith("_") for field in fields(solver))
    path = Path(sys.modules[type(solver).__module__].__file__ or "")
    assert path.parent.name in ("dual", "primal", "saddle", "bundle")


def test_names_that_are_none_are_refused_with_all_that_are() -> None:
    with pytest.raises(InputError, match="unknown solver 'EG'; there are auto, eg, eg-cyclic"):
        solver_for(None, "EG")  # type: ignore[arg-type]


def test_a_former_name_still_works(tmp_path: Path) -> None:
    """For programs, and for checkpoints of solvers as they were written then."""
    assert "segments" in SOLVERS and "segments" not in list(SOLVERS)
    assert SOLVERS["segments"] is SOLVERS["chain-cd"] and SegmentAscent is ChainCoordinateAscent
    file, model = tmp_path / "run", SequenceLabeler(loss="hinge", solver="segments").fit(X, Y)
    problem, solver = model._training.problem, SegmentAscent(precision="double")
    solve(problem, solver, tol=1e-9, max_passes=20, checkpoint=file, callback=lambda progress: True)
    with np.load(file) as saved:
        arrays = dict(saved)
    header = arrays["header"].tobytes().decode()
    assert "ChainCoordinateAscent(" in header
    former = header.replace("ChainCoordinateAscent(", "SegmentAscent(").encode()
    with file.open("wb") as handle:
        np.savez(handle, **{**arrays, "header": np.frombuffer(former, np.uint8)})
    again = solve(problem, solver, tol=1e-9, max_passes=20, checkpoint=file, resume=True)
    whole = solve(problem, solver, tol=1e-9, max_passes=20)
    np.testing.assert_array_equal(again.weights, whole.weights)
