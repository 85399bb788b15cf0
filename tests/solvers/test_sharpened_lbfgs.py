"""L-BFGS on sharper and sharper losses, and its race with coordinate ascent: the contract, and which works where."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract_solvers import SolverContract
from problems import WrittenOut

from partwise import Classifier, SequenceLabeler
from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem
from partwise.core.rows import RowData
from partwise.distributed.engine import distributed_solver
from partwise.solvers import (
    BlockFrankWolfe,
    CrammerSinger,
    HardAuto,
    Race,
    SharpenedLBFGS,
    StopReason,
    solve,
    solver_for,
)
from partwise.solvers.bundle.active_set import maximise_on_simplex
from partwise.solvers.memory import solver_within
from partwise.structures import Multiclass


class TestSharpened(SolverContract):
    """Smoothing that the tolerance allows is as far as it comes."""

    solver, hard_only = SharpenedLBFGS(tol=1e-4), True
    hard_tolerance = hard_primal_tolerance = 2e-4
    max_passes = 1000.0

    def dual_point(self, written: WrittenOut, state: Any) -> list[np.ndarray] | None:
        return None


class TestHardAuto(SolverContract):
    solver, hard_only = HardAuto(precision="double", tol=1e-12), True
    cases, usual_case = ("multiclass",), "multiclass"

    def dual_point(self, written: WrittenOut, state: Any) -> list[np.ndarray] | None:
        return None


class TestHardAutoOfChains(SolverContract):
    solver, hard_only = HardAuto("chains", "double", tol=1e-12), True
    cases, usual_case = ("multiclass", "tied", "untied", "masked"), "tied"

    def dual_point(self, written: WrittenOut, state: Any) -> list[np.ndarray] | None:
        return None


def _noisy(n: int = 300, width: int = 8, noise: float = 1.5, scale: Any = 1.0, seed: int = 0) -> Any:
    """Rows whose classes overlap the more, the larger `noise`."""
    random = np.random.default_rng(seed)
    labels = random.integers(3, size=n)
    inputs = (2.0 * np.eye(3, width)[labels] + noise * random.normal(size=(n, width))) * scale
    return inputs.astype(np.float32), labels


def _problem(inputs: np.ndarray, labels: np.ndarray, l2: float, **options: Any) -> Problem:
    rows = {"node": RowData(FeatureMap.build(3, 0, inputs.shape[1]), None, inputs)}
    return Problem.build(
        Multiclass(3), labels, np.ones(len(labels), int), rows, loss="hinge", l2=l2, **options
    )


@pytest.mark.parametrize("scale", [1.0, np.logspace(3, -2, 8)])
def test_overlapping_classes_with_a_weak_regulariser(scale: Any) -> None:
    """Coordinate ascent takes thousands of passes."""
    problem = _problem(*_noisy(scale=scale), l2=0.001)
    found = solve(problem, solver_for(problem))
    assert found.converged and found.state.at_work() == "lbfgs-sharpened"
    assert not solve(problem, CrammerSinger()).converged
    certificate, primal = found.certificate, problem.primal(found.weights)
    assert -1e-12 * primal <= certificate.primal - primal <= certificate.rounding


def test_certificates_agree_with_coordinate_ascent() -> None:
    weight = np.random.default_rng(1).uniform(0.1, 3.0, 300)
    problem = _problem(*_noisy(), l2=1.0, example_weight=weight)
    exact = solve(problem, CrammerSinger("double"), tol=1e-7, max_passes=100_000)
    for tol in (1e-2, 1e-3, 1e-4):
        found = solve(problem, HardAuto(precision="double"), tol=tol, max_passes=10_000)
        assert found.converged
        assert found.certificate.dual <= exact.certificate.primal
        assert (
            exact.certificate.dual <= found.certificate.primal <= exact.certificate.primal * (1 + 1.1 * tol)
        )


def test_margins_that_can_be_kept_go_to_coordinate_ascent() -> None:
    problem = _problem(*_noisy(noise=0.1), l2=0.001)
    found = solve(problem, solver_for(problem))
    assert found.converged and found.state.at_work() == "crammer-singer"


def _chains(noise: float, l2: float, n: int = 40, length: int = 12, width: int = 10) -> Problem:
    """Sequences of dense rows; so many of the labels are random."""
    random = np.random.default_rng(0)
    inputs, table = random.normal(size=(n, length, width)), random.normal(size=(width, 3))
    labels = np.argmax(inputs @ table, 2)
    labels = np.where(random.random(labels.shape) < noise, random.integers(3, size=labels.shape), labels)
    model = SequenceLabeler(loss="hinge", l2=l2, max_passes=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(list(inputs.astype(np.float32)), labels.tolist())
    return model._training.problem


def test_chains_of_dense_attributes() -> None:
    """Sharper and sharper losses where labels overlap, segments where margins can be kept or l2 is strong."""
    noisy, kept, strong = _chains(0.2, 0.1), _chains(0.0, 0.001), _chains(0.2, 100.0)
    for problem, ends_with in ((noisy, "lbfgs-sharpened"), (kept, "chain-cd")):
        solver = solver_for(problem)
        assert isinstance(solver, Race)
        found = solve(problem, solver, max_passes=2000)
        assert found.converged and found.state.at_work() == ends_with
        certificate, primal = found.certificate, problem.primal(found.weights)
        assert -1e-12 * primal <= certificate.primal - primal <= certificate.rounding
    assert solver_for(strong).init(strong, np.random.default_rng(0)).at_work() == "chain-cd"
    exact = solve(noisy, BlockFrankWolfe(precision="double"), tol=1e-5, max_passes=100_000).certificate
    found = solve(noisy, solver_for(noisy))
    assert exact.dual <= found.certificate.primal and found.certificate.dual <= exact.primal


def test_strong_regulariser_is_coordinate_ascent_from_the_start() -> None:
    inputs, labels = _noisy()

    def begins(l2: float) -> str:
        problem = _problem(inputs, labels, l2)
        return str(solver_for(problem).init(problem, np.random.default_rng(0)).at_work())

    assert [begins(l2) for l2 in (100.0, 0.01)] == ["crammer-singer", "lbfgs-sharpened"]


@pytest.mark.parametrize(
    ("parts", "tol", "stops", "ends_with"),
    [("classes", 1e-4, (1, 4, 9, 15), "lbfgs-sharpened"), ("chains", 1e-5, (2, 25, 40), "chain-cd")],
)
def test_resumes_bit_for_bit(
    parts: Any, tol: float, stops: tuple[int, ...], ends_with: str, tmp_path: Path
) -> None:
    problem = _problem(*_noisy(100, 5), l2=0.01) if parts == "classes" else _chains(0.0, 0.001)
    solver = HardAuto(parts, "double")
    whole = solve(problem, solver, tol=tol, max_passes=60)
    assert whole.state.at_work() == ends_with
    for stop in stops:
        file, steps = tmp_path / f"run{stop}", []

        def late(progress: Any, stop: int = stop, steps: list[int] = steps) -> bool:
            steps.append(1)
            return len(steps) == stop

        part = solve(problem, solver, tol=tol, max_passes=60, checkpoint=file, callback=late)
        assert part.stop_reason is StopReason.CALLBACK
        again = solve(problem, solver, tol=tol, max_passes=60, checkpoint=file, resume=True)
        np.testing.assert_array_equal(again.weights, whole.weights)


def test_goes_on_from_another_l2() -> None:
    problem = _problem(*_noisy(), l2=0.01)
    first = solve(problem, solver_for(problem))
    for l2 in (0.003, 0.03):
        other = problem.with_l2(l2)
        found = solve(other, solver_for(other), warm_start=first)
        fresh = solve(other, solver_for(other))
        assert found.converged
        assert found.certificate.dual <= fresh.certificate.primal
        assert fresh.certificate.dual <= found.certificate.primal


def test_shards_and_small_memory_do_without() -> None:
    problem = _problem(*_noisy(), l2=0.01)
    assert isinstance(distributed_solver(problem, solver_for(problem)), CrammerSinger)
    assert solver_within(problem, "auto", 1e-3, None).name == "auto"


def test_classifier_converges_by_default() -> None:
    inputs, labels = _noisy(scale=np.logspace(3, -2, 8))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = Classifier(loss="hinge", l2=0.01).fit(inputs, labels)
    assert model.converged_


def test_large_features_take_double_precision() -> None:
    """Weights are small, and so is all that is left to lose."""
    inputs, labels = _noisy(noise=0.1)
    assert solver_for(_problem(inputs, labels, 1.0)).precision == "single"  # type: ignore[attr-defined]
    large = solver_for(_problem(100.0 * inputs, labels, 1.0))
    assert large.precision == "double"  # type: ignore[attr-defined]
    assert solve(_problem(100.0 * inputs, labels, 1.0), large).converged


def test_planes_without_a_slope_leave_the_highest() -> None:
    linear = np.array([0.1, 0.3, 0.2])
    found = maximise_on_simplex(np.zeros((3, 3)), linear, np.array([0.0, 0.0, 1.0]))
    assert linear @ found == pytest.approx(0.3)
