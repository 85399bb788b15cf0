"""`chain-cd`: the contract, marginals, the features of directions, and arrays that grow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract_solvers import SolverContract, optimum, problem_of
from kernel_problems import explicit_vector, kernelised
from problems import WrittenOut, as_distributions, small

from partwise.core.arrays import offsets
from partwise.core.problem import Problem
from partwise.errors import InputError
from partwise.mercer.functions import KernelFunction
from partwise.mercer.gram import Gram
from partwise.mercer.problem import KernelProblem
from partwise.solvers import ChainCoordinateAscent, solve, solver_for
from partwise.solvers.dual.chain_cd import ChainState
from partwise.solvers.dual.chain_cd_store import (
    COST,
    ENTRY,
    EXAMPLE,
    FIRST,
    N_ENTRIES,
    N_PAIRS,
    PATH,
    SQUARED,
)
from partwise.solvers.dual.untied import untied
from partwise.structures import Chain

CASES = ("multiclass", "tied", "untied", "masked")
SOLVER = ChainCoordinateAscent(precision="double")


def marginals(problem: Problem, state: ChainState) -> np.ndarray:
    """Those of the untied problem, written out in full."""
    view, width = untied(problem), problem.structure.n_labels
    mu = np.zeros(view.n_parts)
    for i, length in enumerate(view.lengths):
        for t in range(length):
            position = offsets(view.lengths)[i] + t
            for pair, mass in zip(state.pair[position], state.mass[position], strict=True):
                if pair >= 0:
                    mu[view.batch.part_ptr[i] + t * width + pair % width] += mass
                    if t > 0:
                        mu[view.batch.part_ptr[i] + (length + (t - 1) * width) * width + pair] += mass
    return mu


class TestChainCoordinateAscent(SolverContract):
    solver, hard_only, cases = SOLVER, True, CASES

    def dual_point(self, written: WrittenOut, state: Any) -> list[np.ndarray]:
        return as_distributions(written, marginals(written.problem, state))


@pytest.mark.parametrize("case", CASES)
def test_dual_never_falls_and_marginals_stay_consistent(case: str) -> None:
    """Without the repair that certificates make."""
    problem, random = problem_of(case, "hinge").problem, np.random.default_rng(1)
    view, state = untied(problem), SOLVER.init(problem, random)
    dual, width = 0.0, view.structure.n_labels
    for _ in range(100):
        state, info = SOLVER.step(problem, state, random)
        assert info.dual >= dual - 1e-12 * (1.0 + dual)
        dual = info.dual
    assert dual == pytest.approx(optimum(case, "hinge"), rel=1e-6)
    mu = marginals(problem, state)
    assert mu.min() >= 0.0
    for i, length in enumerate(view.lengths):
        own = mu[view.batch.part_ptr[i] : view.batch.part_ptr[i + 1]]
        node = own[: length * width].reshape(length, width)
        edge = own[length * width :].reshape(length - 1, width, width)
        np.testing.assert_allclose(node.sum(axis=1), 1.0, atol=1e-10)
        np.testing.assert_allclose(edge.sum(axis=2), node[:-1], atol=1e-10)
    _, certificate = SOLVER.certificate(problem, state)
    assert certificate.drift <= 1e-9 * dual


@pytest.mark.parametrize("case", CASES)
def test_directions_carry_the_difference_of_their_labellings(case: str) -> None:
    """Features and costs, against those of two whole labellings that differ along the direction only."""
    data = problem_of(case, "hinge")
    problem, written = data.problem, data.written_out
    width = problem.structure.n_labels
    state, random = SOLVER.init(problem, np.random.default_rng(0)), np.random.default_rng(0)
    for _ in range(5):
        state, _ = SOLVER.step(problem, state, random)
    assert state.used[0] > problem.n_examples
    for head, number in zip(state.head[: state.used[0]], state.number, strict=False):
        i, size = int(head[EXAMPLE]), int(head[N_PAIRS])
        t0 = int(head[FIRST] - offsets(problem.lengths)[i])
        every = [tuple(np.atleast_1d(y)) for y in problem.structure.labellings(int(problem.lengths[i]))]
        off, to = state.path[head[PATH] : head[PATH] + 2 * size].reshape(2, size)

        def matches(y: tuple[int, ...], pairs: np.ndarray, t0: int = t0) -> bool:
            found = [(y[t0 + j - 1] if t0 + j else 0) * width + y[t0 + j] for j in range(len(pairs))]
            return found == list(pairs)

        rest = {y[:t0] + y[t0 + size :]: k for k, y in enumerate(every) if matches(y, off)}
        pairs = [(rest[y[:t0] + y[t0 + size :]], k) for k, y in enumerate(every) if matches(y, to)]
        k_off, k_to = pairs[0]
        difference = np.zeros(problem.n_weights)
        own = slice(head[ENTRY], head[ENTRY] + head[N_ENTRIES])
        difference[state.entry[own]] = state.value[own]
        expected = written.features[i][k_to] - written.features[i][k_off]
        np.testing.assert_allclose(difference, expected, atol=1e-6)
        assert number[SQUARED] == pytest.approx(expected @ expected, rel=1e-5)
        assert number[COST] == pytest.approx(written.costs[i][k_to] - written.costs[i][k_off], abs=1e-6)


def test_lists_and_stores_grow(tmp_path: Path) -> None:
    """More labels in use than slots at first; a run goes on from a file that holds the larger arrays."""
    data = small("tied", "hinge", features="real", n=40, l2=0.05, seed=3)
    problem, file, seen = data.problem, tmp_path / "run", []
    start = SOLVER.init(problem, np.random.default_rng(0))
    whole = solve(problem, SOLVER, tol=1e-12, max_passes=60)
    assert whole.state.pair.shape[1] > start.pair.shape[1]
    assert len(whole.state.head) > len(start.head)

    def stop_late(progress: Any) -> bool:
        seen.append(progress)
        return len(seen) == 50

    solve(problem, SOLVER, tol=1e-12, max_passes=60, checkpoint=file, callback=stop_late)
    again = solve(problem, SOLVER, tol=1e-12, max_passes=60, checkpoint=file, resume=True)
    np.testing.assert_array_equal(again.weights, whole.weights)


@pytest.mark.parametrize("name", ["used", "head", "newest", "entry", "mass"])
def test_a_file_that_would_lead_compiled_code_astray_is_refused(name: str, tmp_path: Path) -> None:
    problem, file = problem_of("tied", "hinge").problem, tmp_path / "run"
    solve(problem, SOLVER, tol=1e-12, max_passes=3, checkpoint=file)
    with np.load(file) as saved:
        arrays = dict(saved)
    changed = arrays[f"state.{name}"]
    if name == "mass":
        arrays[f"state.{name}"] = np.hstack([changed, changed])
    else:
        changed[:2] = 10**6
    with file.open("wb") as handle:
        np.savez(handle, **arrays)
    with pytest.raises(InputError, match="not a whole partwise checkpoint"):
        solve(problem, SOLVER, tol=1e-12, max_passes=6, checkpoint=file, resume=True)


def test_single_precision_is_as_good_as_it_says() -> None:
    found = solve(problem_of("tied", "hinge").problem, ChainCoordinateAscent(), tol=1e-4, max_passes=500)
    assert found.converged
    assert found.certificate.primal <= optimum("tied", "hinge") * (1 + 1.1e-4)


def test_auto_takes_it_for_max_margin_chains() -> None:
    assert isinstance(solver_for(problem_of("tied", "hinge").problem), ChainCoordinateAscent)
    assert solver_for(problem_of("untied", "hinge").problem, tol=1e-6) == ChainCoordinateAscent(
        precision="double"
    )
    assert not isinstance(solver_for(problem_of("order2", "hinge").problem), ChainCoordinateAscent)
    assert isinstance(solver_for(kernelised(small("tied", "hinge"))), ChainCoordinateAscent)
    assert not isinstance(solver_for(kernelised(small("tied", "hinge"), 1e-3)), ChainCoordinateAscent)


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (lambda: problem_of("tied", "log").problem, "beta = inf"),
        (lambda: problem_of("order2", "hinge").problem, "chains of order 1"),
        (lambda: kernelised(small("tied", "hinge"), 1e-3), "whole kernel matrix in memory"),
    ],
)
def test_what_it_cannot_do_is_refused(problem: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        solve(problem(), ChainCoordinateAscent())
    with pytest.raises(InputError, match="n_sweeps"):
        solve(problem_of("tied", "hinge").problem, ChainCoordinateAscent(n_sweeps=-1))


@pytest.mark.parametrize("case", CASES)
def test_a_linear_kernel_is_the_same_problem(case: str) -> None:
    data = small(case, "hinge", features="dense" if case == "multiclass" else "real", weighted=True, n=12)
    problem, random = kernelised(data), np.random.default_rng(0)
    state = SOLVER.init(problem, random)
    for _ in range(3):
        state, _ = SOLVER.step(problem, state, random)
    np.testing.assert_allclose(state.v, problem.settled(state.v), rtol=1e-9, atol=1e-9)
    found, expected = (solve(each, SOLVER, tol=1e-9, max_passes=400) for each in (problem, data.problem))
    assert found.certificate.dual == pytest.approx(expected.certificate.dual, rel=1e-8)
    weights = explicit_vector(problem, data, found.weights)
    assert data.problem.primal(weights) == pytest.approx(found.certificate.primal, rel=1e-8)


@pytest.mark.parametrize("l2", [0.01, 1.0])
def test_kernels_of_many_labels_converge_in_tens_of_passes(l2: float) -> None:
    """Where as many labellings compete as points allow: 26 labels, two points of every kind, no margin to spare."""
    random = np.random.default_rng(0)
    labels = np.tile(np.arange(26), 4)
    points = random.normal(size=(26, 40))[labels] + random.normal(size=(len(labels), 40))
    gram = Gram.of_points(KernelFunction("rbf", {"gamma": 0.01}), points, 10.0)
    problem = KernelProblem.of_kernels(Chain(26), labels, np.full(13, 8), {"node": gram}, loss="hinge", l2=l2)
    found = solve(problem, solver_for(problem), tol=1e-3, max_passes=100)
    assert found.converged
    assert problem.primal(found.weights) == pytest.approx(found.certificate.primal, rel=1e-9)
