"""Runs that go wrong or go on: bad input, damaged checkpoints, killed processes, a second process's cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract_solvers import problem_of
from data_paths import SUPPORT

from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem
from partwise.core.rows import AttributeRows, RowData
from partwise.errors import InputError
from partwise.solvers import LBFGS, SGD, SOLVERS, BatchEG, ExponentiatedGradient, PrimalEG, solve, solver_for
from partwise.solvers import checkpoint as checkpoint_module
from partwise.structures import Chain, Multiclass

# -- bad input -----------------------------------------------------------------------------------


def _tiny(**changes: Any) -> Problem:
    """Two examples of two classes; `feature_map`, `sparse` and `dense` are those of their rows."""
    rows = {"feature_map": FeatureMap.build(2, n_dense=3), "dense": np.eye(2, 3)}
    rows |= {name: changes.pop(name) for name in ("feature_map", "sparse", "dense") if name in changes}
    arguments: dict[str, Any] = {
        "structure": Multiclass(2), "labels": np.array([0, 1]), "shapes": np.ones(2, int),
        "rows": {"node": RowData(**rows)},
    }  # fmt: skip
    return Problem.build(**(arguments | changes))


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"labels": np.zeros(0, int), "shapes": np.zeros(0, int)}, "no training examples"),
        ({"l2": 0.0}, "l2"),
        ({"l2": -1.0}, "l2"),
        ({"l2": float("nan")}, "l2"),
        ({"l2": "1"}, "l2"),
        ({"loss": "square"}, "loss"),
        ({"labels": np.array([0, 2])}, "example 1"),
        ({"shapes": np.array([2, 0])}, "example 1"),
        ({"labels": np.array([0])}, "labels has 1 entries"),
        ({"cost": np.array([[0.0, -1.0], [1.0, 0.0]]), "loss": "hinge"}, "cost"),
        ({"example_weight": np.array([1.0, np.nan])}, "sample_weight"),
        ({"example_weight": np.array([1.0, -1.0])}, "sample_weight"),
        ({"dense": np.array([[0, 1, np.nan], [1, 0, 0]])}, "dense values of node rows contain NaN"),
        ({"dense": np.eye(2)}, "dense values of node rows have shape"),
        ({"dense": None}, "dense values of node rows are missing"),
        ({"rows": {}}, "what they hold is missing"),
        ({"feature_map": FeatureMap.build(3, n_dense=3)}, "their map has width 3"),
        ({"sparse": AttributeRows(np.array([0, 1]), np.zeros(1, np.int32))}, "there are 1 node rows"),
        (
            {"sparse": AttributeRows(np.array([0, 1, 1]), np.zeros(1, np.int32))},
            "node rows name attribute",
        ),
    ],
)
def test_bad_problems_are_named(changes: dict[str, Any], name: str) -> None:
    with pytest.raises(InputError, match=name):
        _tiny(**changes)


def test_masked_out_gold_names_the_example() -> None:
    structure = Chain(2, allowed=[[True, False], [True, True]])
    with pytest.raises(InputError, match="example 1, position 1"):
        _tiny(
            structure=structure,
            labels=np.array([1, 0, 0, 1]),
            shapes=np.array([2, 2]),
            dense=np.eye(4, 3),
        )


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"tol": 0.0}, "tol"), ({"tol": -1.0}, "tol"), ({"tol": float("nan")}, "tol"),
        ({"max_passes": 0}, "max_passes"), ({"resume": True}, "checkpoint"),
    ],
)  # fmt: skip
def test_bad_options_are_named(options: dict[str, Any], name: str) -> None:
    with pytest.raises(InputError, match=name):
        solve(_tiny(), LBFGS(), **options)


@pytest.mark.parametrize(
    ("solver", "name"),
    [
        (LBFGS(0), "memory"),
        (LBFGS(preconditioner="diagonal"), "preconditioner"),  # type: ignore[arg-type]
        (SGD(-1.0), "initial_step"),
        (SGD(1e9), "initial_step"),
        (SGD("fast"), "initial_step"),  # type: ignore[arg-type]
        (ExponentiatedGradient("backwards"), "order"),  # type: ignore[arg-type]
        (ExponentiatedGradient(step_rule="bold"), "step_rule"),  # type: ignore[arg-type]
        (ExponentiatedGradient(initial_step=0.0), "initial_step"),
        (ExponentiatedGradient(precision="half"), "precision"),  # type: ignore[arg-type]
        (BatchEG(start="gold"), "start"),  # type: ignore[arg-type]
        (PrimalEG(step_rule="bold"), "step_rule"),  # type: ignore[arg-type]
    ],
)
def test_bad_settings_are_named(solver: Any, name: str) -> None:
    with pytest.raises(InputError, match=name):
        solve(_tiny(), solver)


def test_unknown_solver_is_named() -> None:
    with pytest.raises(InputError, match=r"'newton'.*lbfgs"):
        solver_for(_tiny(), "newton")
    assert all(solver_for(_tiny(), name).name == name for name in SOLVERS)


@pytest.mark.parametrize(
    ("case", "loss", "name"),
    [
        ("tied", "log", "auto"),
        ("spanning", "log", "auto"),
        ("tied", "hinge", "chain-cd"),
        ("untied", "hinge", "chain-cd"),
        ("order2", "hinge", "eg-gap"),
        ("multiclass", "hinge", "auto"),
        ("projective", "hinge", "bcfw"),
        ("spanning", "hinge", "bcfw"),
    ],
)
def test_what_auto_takes(case: str, loss: str, name: str) -> None:
    assert solver_for(problem_of(case, loss).problem).name == name


# -- paths ---------------------------------------------------------------------------------------


def test_a_path_of_l2_is_cheaper_with_warm_starts() -> None:
    """Gaps and steps of the last l2 mislead at the next: what they say must be forgotten."""
    random = np.random.default_rng(0)
    labels = random.integers(5, size=300)
    inputs = random.normal(size=(300, 200)) + 0.5 * np.eye(5, 200)[labels]
    problem = _tiny(
        structure=Multiclass(5), labels=labels, shapes=np.ones(300, int), dense=inputs,
        feature_map=FeatureMap.build(5, n_dense=200),
    )  # fmt: skip
    solver, before, passes = solver_for(problem), None, np.zeros(2)
    for l2 in (100.0, 50.0, 25.0, 12.0, 6.0, 3.0, 1.5, 0.8):
        at = problem.with_l2(l2)
        warm, cold = solve(at, solver, warm_start=before), solve(at, solver)
        assert warm.converged
        passes += warm.passes, cold.passes
        before = warm
    assert passes[0] < 0.7 * passes[1], passes


# -- checkpoints ---------------------------------------------------------------------------------


def _checkpointed(path: Path, **options: Any) -> Any:
    return solve(
        problem_of("tied", "log").problem, LBFGS(), tol=1e-12, max_passes=6, checkpoint=path, **options
    )


def test_damaged_checkpoints_are_refused(tmp_path: Path) -> None:
    """Cut anywhere, or changed at any of many places: refused in words, or found to be unharmed."""
    file, damaged = tmp_path / "run", tmp_path / "damaged"
    whole = _checkpointed(file)
    content = file.read_bytes()
    for size in range(0, len(content), max(1, len(content) // 40)):
        damaged.write_bytes(content[:size])
        with pytest.raises(InputError, match="checkpoint"):
            _checkpointed(damaged, resume=True)
    for place in range(0, len(content), max(1, len(content) // 150)):
        damaged.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
        try:
            again = _checkpointed(damaged, resume=True)
        except InputError:
            continue
        assert again.passes == whole.passes and (again.weights == whole.weights).all()


def test_a_finished_run_is_not_run_again(tmp_path: Path) -> None:
    whole, again = _checkpointed(tmp_path / "run"), _checkpointed(tmp_path / "run", resume=True)
    assert again.passes == whole.passes and len(again.history) == len(whole.history)


def test_another_problem_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "run"
    _checkpointed(file)
    data = problem_of("tied", "log")
    for problem, solver, name in (
        (data.problem.with_l2(3.0), LBFGS(), "l2"),
        (data.problem, LBFGS(4), "solver"),
        (problem_of("tied", "between").problem, LBFGS(), "loss"),
        (problem_of("untied", "log").problem, LBFGS(), "n_"),
    ):
        with pytest.raises(InputError, match=name):
            solve(problem, solver, checkpoint=file, resume=True)


def test_failure_while_saving_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "run"
    _checkpointed(file)
    before = file.read_bytes()

    def fails_half_way(handle: Any, **arrays: Any) -> None:
        handle.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint_module.np, "savez", fails_half_way)
    with pytest.raises(InputError, match="No space left"):
        _checkpointed(file)
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


KILLED = """
import os, sys
sys.path[:0] = sys.argv[2:]
from contract_solvers import problem_of
from partwise.solvers import LBFGS, checkpoint, solve

def dies_half_way(handle, **arrays):
    handle.write(b"half")
    handle.flush()
    os._exit(9)

checkpoint.np.savez = dies_half_way
solve(problem_of("tied", "log").problem, LBFGS(), tol=1e-12, max_passes=6, checkpoint=sys.argv[1])
"""


def test_process_killed_while_saving_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "run"
    whole = _checkpointed(file)
    before = file.read_bytes()
    command = [sys.executable, "-c", KILLED, str(file), str(SUPPORT)]
    assert subprocess.run(command, env=dict(os.environ), timeout=120, check=False).returncode == 9
    assert file.read_bytes() == before
    assert _checkpointed(file, resume=True).passes == whole.passes


# -- compilation ---------------------------------------------------------------------------------

EVERYTHING = """
import sys
import zlib
sys.path[:0] = sys.argv[1:]
from problems import small
from partwise.compiled.clock import kernels_compiled
from partwise.compiled.kernels import Entry
from partwise.solvers import SOLVERS, ExponentiatedGradient, solve
from partwise.core import batch_pass
from partwise.solvers.dual import online_pass
from partwise.solvers.primal import sgd_pass

found = []
for kind in ("multiclass", "tied"):
    for loss in ("log", "hinge"):
        for features in ("binary", "dense"):
            problem = small(kind, loss, features=features).problem
            for name in ("eg", "eg-batch", "sgd") + (("lbfgs",) if loss == "log" else ()):
                found.append(solve(problem, SOLVERS[name], tol=1e-9, max_passes=2).weights)
            double = ExponentiatedGradient(precision="double")
            found.append(solve(problem, double, tol=1e-9, max_passes=2).weights)
passes = [
    each
    for module in (batch_pass, online_pass, sgd_pass)
    for each in vars(module).values()
    if isinstance(each, Entry) and each.__name__.endswith("_pass")
]
assert len(passes) >= 5
print(kernels_compiled(), max(each.n_kernels for each in passes), end=" ")
print(zlib.crc32(b"".join(weights.tobytes() for weights in found)))
"""


def test_second_process_compiles_nothing(tmp_path: Path) -> None:
    """Every pass has at most a signature for each precision, and results are those of the first process."""
    environment = {**os.environ, "PARTWISE_NO_LIBRARY": "1", "PARTWISE_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", EVERYTHING, str(SUPPORT)]
    numbers = []
    for _ in range(2):
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, done.stderr
        numbers.append([int(word) for word in done.stdout.split()])
    (first_compiled, kernels, weights), (compiled, again, same_weights) = numbers
    assert weights == same_weights  # what was just compiled computes what is found on disk
    assert first_compiled > 0 and compiled == 0
    assert kernels == again <= 4
