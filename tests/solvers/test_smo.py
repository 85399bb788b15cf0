"""`smo` and `smo-eg`: the contract, single moves against enumeration, marginals, and the hand-over to EG."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from contract_solvers import SolverContract, optimum, problem_of
from problems import WrittenOut, as_distributions, small

from partwise import SequenceLabeler
from partwise.core.problem import Problem
from partwise.errors import InputError
from partwise.solvers import SMO, SMOThenEG, solve
from partwise.solvers.dual.exponentiated_gradient import ExponentiatedGradient
from partwise.solvers.dual.smo import conditional_potentials, gold_marginals
from partwise.solvers.dual.smo_eg import FLOOR
from partwise.solvers.dual.smo_pass import smo_pass
from partwise.solvers.dual.untied import untied

CASES = ("multiclass", "tied", "untied", "masked")


class TestSMO(SolverContract):
    solver, hard_only, cases = SMO(), True, CASES

    def dual_point(self, written: WrittenOut, state: Any) -> list[np.ndarray]:
        return as_distributions(written, state.marginals)


class TestSMOThenEG(SolverContract):
    solver, hard_only, cases = SMOThenEG(), True, CASES
    hard_tolerance, hard_primal_tolerance = 2e-6, 3e-4  # those of EG

    def dual_point(self, written: WrittenOut, state: Any) -> list[np.ndarray]:
        return as_distributions(written, state.marginals)


# -- single moves ----------------------------------------------------------------------------------


def parts_of(view: Problem, i: int) -> np.ndarray:
    """Part counts of every labelling of example i, (n_labellings, n_parts of it)."""
    size = int(np.diff(view.batch.part_ptr)[i])
    labellings = view.structure.labellings(int(view.lengths[i]))
    return np.array([np.bincount(view.structure.encode(y), minlength=size) for y in labellings], float)


@pytest.mark.parametrize("entropic", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_moves_are_those_of_enumeration(case: str, entropic: bool) -> None:
    """The labellings, the step and what follows from it, on every labelling, for some passes."""
    data = problem_of(case, "hinge")
    problem, written = data.problem, data.written_out
    view, state = untied(problem), SMO().init(problem, np.random.default_rng(0))
    point = state.point()
    clipped = []
    for visit in range(5 * problem.n_examples):
        i = visit % problem.n_examples
        own = slice(*view.batch.part_ptr[i : i + 2])
        mu, parts, v = point.mu[own].copy(), parts_of(view, i), point.v[: problem.n_weights].copy()
        margins = written.margins(v / problem.l2, i)
        alpha = as_distributions(written, point.mu)[i]
        possible = (parts <= np.where(mu > 0.0, np.inf, 0.0)).all(axis=1)
        worst = int(np.where(possible, margins, np.inf).argmin())
        best = int(margins.argmax())
        direction = parts[best] - parts[worst]
        psi = written.weight[i] * (written.features[i][best] - written.features[i][worst])
        limit = mu[direction < 0].min(initial=np.inf)
        if entropic:
            limit = min(limit, alpha[worst])
        gain = margins[best] - margins[worst]
        step = 0.0 if gain < 1e-9 else min(limit, problem.l2 * written.weight[i] * gain / (psi @ psi))
        clipped.append(step == limit)
        smo_pass(
            view.batch,
            np.array([i]),
            view.structure.n_labels,
            point,
            1.0,
            problem.l2,
            entropic,
            view.scratch(np.float64),
        )
        assert point.gap[i] == pytest.approx(margins.max() - margins @ alpha, abs=1e-9)
        np.testing.assert_allclose(point.mu[own], mu + step * direction, atol=1e-9)
        np.testing.assert_allclose(point.v[: problem.n_weights], v - step * psi, atol=1e-9)
    assert any(clipped) and not all(clipped)


@pytest.mark.parametrize("case", CASES)
def test_dual_never_falls_and_marginals_stay_consistent(case: str) -> None:
    """Without the repair that certificates make."""
    problem, random = problem_of(case, "hinge").problem, np.random.default_rng(1)
    view, state = untied(problem), SMO().init(problem, random)
    dual, width = 0.0, view.structure.n_labels
    for _ in range(300):
        state, info = SMO().step(problem, state, random)
        assert info.dual >= dual - 1e-12 * (1.0 + dual)
        dual = info.dual
    assert dual == pytest.approx(optimum(case, "hinge"), rel=1e-6)
    for i, length in enumerate(view.lengths):
        own = state.marginals[view.batch.part_ptr[i] : view.batch.part_ptr[i + 1]]
        assert own.min() >= 0.0
        node = own[: length * width].reshape(length, width)
        edge = own[length * width :].reshape(length - 1, width, width)
        np.testing.assert_allclose(node.sum(axis=1), 1.0, atol=1e-11)
        np.testing.assert_allclose(edge.sum(axis=2), node[:-1], atol=1e-11)
        np.testing.assert_allclose(edge.sum(axis=1), node[1:], atol=1e-11)
    kept = state.marginals.copy()
    _, certificate = SMO().certificate(problem, state)
    np.testing.assert_allclose(state.marginals, kept, atol=1e-11)
    np.testing.assert_array_equal(state.marginals == 0.0, kept == 0.0)
    assert certificate.drift <= 1e-10 * dual


def test_mass_of_largest_entropy_gets_stuck() -> None:
    """Steps get shorter and shorter, and EG goes on where SMO cannot (Bartlett et al. 2004, Figure 4)."""
    data = small("tied", "hinge", features="real", n=60, l2=0.3, seed=1)
    stuck = solve(data.problem, SMO("entropy"), tol=1e-6, max_passes=60).certificate
    free = solve(data.problem, SMO(), tol=1e-6, max_passes=60).certificate
    further = solve(data.problem, SMOThenEG(5, SMO("entropy")), tol=1e-6, max_passes=60).certificate
    assert stuck.dual < 0.95 * further.dual
    assert 0.95 * free.dual < further.dual < free.dual


def test_examples_without_weight_stay_at_the_truth() -> None:
    data = small("tied", "hinge")
    weight = np.array([0.0, 1.0] * 4)
    problem = replace(data.problem, example_weight=weight)
    found = solve(problem, SMO(), tol=1e-6, max_passes=500)
    assert found.converged
    view = untied(problem)
    still = np.repeat(weight == 0.0, np.diff(view.batch.part_ptr))
    np.testing.assert_array_equal(found.state.marginals[still], gold_marginals(view)[still])


# -- the untied view -------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["tied", "masked"])
def test_untied_view_is_the_same_problem(case: str) -> None:
    problem = problem_of(case, "hinge").problem
    view = untied(problem)
    assert view.batch.n_tied == 0 and view.n_parts > problem.n_parts
    exists = problem.at_weights(np.zeros(problem.n_weights), 1.0).v != 0.0
    weights = np.random.default_rng(0).normal(size=problem.n_weights) * exists
    longer = np.append(weights, np.zeros(view.n_weights - problem.n_weights))
    assert view.primal(longer) == pytest.approx(problem.primal(weights), rel=1e-12)
    ours, theirs = view.at_weights(longer, 0.5, 0.3), problem.at_weights(weights, 0.5, 0.3)
    np.testing.assert_allclose(ours.v[: problem.n_weights], theirs.v, atol=1e-10)
    assert not ours.v[problem.n_weights :].any()
    for name in ("entropy", "cost", "log_total", "gold"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), atol=1e-10)


def test_untied_view_is_made_once_for_the_same_data() -> None:
    problem = small("tied", "hinge").problem
    view = untied(problem)
    weaker = untied(problem.with_l2(0.5))
    assert weaker.scorer is view.scorer and weaker.l2 == 0.5
    other = replace(problem, example_weight=np.full(8, 2.0))
    assert (untied(other).batch.example_weight == 2.0).all()
    for kind in ("multiclass", "untied", "order2"):
        same = small(kind, "hinge").problem
        assert untied(same) is same


# -- from marginals to potentials ------------------------------------------------------------------


def marginals_of(problem: Problem, theta: np.ndarray) -> np.ndarray:
    mu = np.zeros(problem.n_parts)
    problem.at_potentials(theta, np.ones(problem.n_examples, np.uint8), mu)
    return mu


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("passes", [1, 4, 60])
def test_conditionals_give_the_marginals_back(case: str, passes: int) -> None:
    """Zeros included; SMO's own marginals are full of them."""
    problem, random = problem_of(case, "hinge").problem, np.random.default_rng(2)
    state = SMO().init(problem, random)
    for _ in range(passes):
        state, _ = SMO().step(problem, state, random)
    view = untied(problem)
    again = marginals_of(view, conditional_potentials(view, state.marginals))
    np.testing.assert_allclose(again, state.marginals, atol=1e-12)
    np.testing.assert_array_equal(again == 0.0, state.marginals == 0.0)


@pytest.mark.parametrize("case", CASES)
def test_conditionals_of_random_potentials_are_the_same_distributions(case: str) -> None:
    """Nothing but marginals is needed: α has no more freedom than they have."""
    data = problem_of(case, "hinge")
    view = untied(data.problem)
    theta = np.random.default_rng(0).normal(size=view.n_parts) * 3.0
    potentials = conditional_potentials(view, marginals_of(view, theta))
    every = np.ones(view.n_examples, np.uint8)
    ours, theirs = view.at_potentials(potentials, every), view.at_potentials(theta, every)
    np.testing.assert_allclose(ours.entropy, theirs.entropy, atol=1e-10)
    np.testing.assert_allclose(ours.v, theirs.v, atol=1e-10)


@pytest.mark.parametrize("case", CASES)
def test_hand_over_keeps_the_marginals(case: str) -> None:
    """Up to the stated share of the uniform distribution."""
    problem, solver = problem_of(case, "hinge").problem, SMOThenEG(3)
    view, random = untied(problem), np.random.default_rng(3)
    state, plain = solver.init(problem, random), SMO().init(problem, np.random.default_rng(3))
    plain_random = np.random.default_rng(3)
    for _ in range(3):
        state, _ = solver.step(problem, state, random)
        plain, before = SMO().step(problem, plain, plain_random)
    uniform = marginals_of(view, np.zeros(view.n_parts))
    mixed = (1.0 - FLOOR) * plain.marginals + FLOOR * uniform
    np.testing.assert_allclose(state.marginals, mixed, atol=1e-12)
    assert np.isfinite(state.theta).all() and (state.step > 0.0).all()
    eg = ExponentiatedGradient("gap", precision="double")
    _, after = eg.certificate(view, state.eg_state())
    assert after.dual == pytest.approx(before.dual, rel=1e-4)
    assert after.drift <= 1e-10 * after.dual
    np.testing.assert_allclose(state.marginals, mixed, atol=1e-12)


def test_masked_pairs_never_get_mass() -> None:
    problem = problem_of("masked", "hinge").problem
    view, state = untied(problem), solve(problem, SMOThenEG(2), tol=1e-9, max_passes=30).state
    uniform = marginals_of(view, np.zeros(view.n_parts))
    assert (uniform == 0.0).any()
    assert not state.marginals[uniform == 0.0].any()


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", [SMO(), SMOThenEG()])
def test_longer_histories_are_refused(solver: Any) -> None:
    with pytest.raises(InputError, match=f"{solver.name}' keeps marginals.*chains of order 1.*: use"):
        solve(problem_of("order2", "hinge").problem, solver)


def test_unknown_mass_is_refused() -> None:
    for solver in (SMO("all"), SMOThenEG(smo=SMO("all"))):  # type: ignore[arg-type]
        with pytest.raises(InputError, match="mass must be marginals or entropy"):
            solve(problem_of("tied", "hinge").problem, solver)


@pytest.mark.parametrize("passes", [0, -1, 1.5, True, "all"])
def test_bad_passes_are_refused(passes: Any) -> None:
    with pytest.raises(InputError, match="smo_passes must"):
        solve(problem_of("tied", "hinge").problem, SMOThenEG(passes))


# -- through an estimator --------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["smo", "smo-eg"])
def test_estimators_train_and_go_on(solver: str) -> None:
    """The weights fit the estimator's own feature maps, tied transitions included, and warm starts the state."""
    words = [f"w{k % 7}" for k in range(60)]
    tags = ["ABC"[(int(w[1:]) + (k % 5 == 0)) % 3] for k, w in enumerate(words)]
    data = (
        [[[w] for w in words[k : k + 4]] for k in range(0, 60, 4)],
        [tags[k : k + 4] for k in range(0, 60, 4)],
    )
    usual = SequenceLabeler(loss="hinge", l2=0.3, tol=1e-3, max_passes=2000).fit(*data)
    model = SequenceLabeler(loss="hinge", l2=0.3, tol=0.2, solver=solver, warm_start=True).fit(*data)
    first = model.n_passes_
    model.set_params(tol=1e-2, max_passes=2000).fit(*data)
    assert model.converged_ and first > 0
    assert model.objective_ == pytest.approx(usual.objective_, rel=1.2e-2)
    assert model.score(*data) == pytest.approx(usual.score(*data), abs=0.05)
    with pytest.raises(InputError, match="no dual variables"):
        model.influential_examples(data[0][0])
