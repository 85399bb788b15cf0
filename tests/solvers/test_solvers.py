"""Every solver against the contract; rates, monotonicity, equal forms; agreement with other libraries."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pycrfsuite
import pytest
from contract_solvers import (
    SolverContract,
    after_every_visit,
    model_point,
    optimum,
    problem_of,
    visited_point,
)
from problems import N_ATTRIBUTES, WrittenOut, divergence, small, softmax, tight
from sklearn.linear_model import LogisticRegression

from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem
from partwise.core.rows import RowData
from partwise.solvers import (
    LBFGS,
    SGD,
    SOLVERS,
    Annealing,
    BatchEG,
    ConjugateGradient,
    ExponentiatedGradient,
    PrimalEG,
    SVMStruct,
    solve,
)
from partwise.solvers.dual.simplex_qp import simplex_qp
from partwise.structures import Multiclass


class OnlineEG(SolverContract):
    hard_tolerance, hard_primal_tolerance = 2e-6, 3e-4
    order = ""

    @property
    def solver(self) -> Any:  # type: ignore[override]
        return ExponentiatedGradient(self.order, precision="double")  # type: ignore[arg-type]

    def dual_point(self, written: WrittenOut, state: Any) -> list[np.ndarray]:
        return visited_point(written, state.theta, state.visited)


class TestRandom(OnlineEG):
    order = "random"


class TestCyclic(OnlineEG):
    order = "cyclic"


class TestPermuted(OnlineEG):
    order = "permuted"


class TestGap(OnlineEG):
    order = "gap"


class TestBatchEG(SolverContract):
    solver, hard_tolerance, hard_primal_tolerance = BatchEG(), 2e-6, 3e-4

    def dual_point(self, written: WrittenOut, state: Any) -> list[np.ndarray]:
        return written.from_potentials(state.theta)


class TestPrimalEG(SolverContract):
    solver, hard_tolerance, hard_primal_tolerance = PrimalEG(), 2e-6, 3e-4

    def dual_point(self, written: WrittenOut, state: Any) -> list[np.ndarray]:
        """θ = score(u) + κ γ e + ρ (true rows), summed over parts."""
        problem, (cost, gold) = written.problem, state.scales
        result = []
        for i, parts in enumerate(written.parts):
            n_rows = int(np.diff(problem.batch.part_ptr)[i]) - problem.batch.n_tied
            true_rows = {int(p) for p in parts[written.gold[i]] if p < n_rows}
            start = np.array([sum(gold for p in labelling if int(p) in true_rows) for labelling in parts])
            scores = written.features[i] @ state.u
            result.append(softmax(scores + cost * problem.loss.gamma * written.costs[i] + start))
        return result


class TestLBFGS(SolverContract):
    """Its dual point is a mixture, of which it keeps a bound; that is compared with the optimum."""

    solver, smooth_only = LBFGS(), True

    def dual_point(self, written: WrittenOut, state: Any) -> None:
        return None


class TestConjugateGradient(SolverContract):
    solver, smooth_only = ConjugateGradient(), True

    def dual_point(self, written: WrittenOut, state: Any) -> list[np.ndarray]:
        return model_point(written, state.weights)


class TestSGD(SolverContract):
    """Claims no fast convergence: its steps shrink like one over the passes."""

    solver, tolerance, max_passes = SGD(), 1e-2, 2000.0
    hard_tolerance = hard_primal_tolerance = 2e-2

    def dual_point(self, written: WrittenOut, state: Any) -> list[np.ndarray] | None:
        if written.problem.loss.is_hard:
            return None
        return model_point(written, state.scale[0] * state.direction)


# -- forms that must be equal --------------------------------------------------------------------


@pytest.mark.parametrize("case", ["multiclass", "tied", "untied", "order2", "masked"])
@pytest.mark.parametrize("loss", ["log", "hinge", "between"])
def test_potentials_follow_the_explicit_updates(case: str, loss: str) -> None:
    """Cyclic EG in θ-form against α ← α exp(−η ∇(−D)) / Z on every label, step by step."""
    data = problem_of(case, loss)
    problem, written = data.problem, data.written_out
    solver = ExponentiatedGradient("cyclic", step_rule="safe", start="uniform", precision="double")
    state = solver.init(problem, np.random.default_rng(0))
    steps = state.step.copy()
    alphas = [np.full(len(cost), 1.0 / len(cost)) for cost in written.costs]
    for _ in range(5):
        for i in range(problem.n_examples):
            scores = written.features[i] @ (written.v(alphas) / problem.l2)
            # ∂D/∂α_y per unit of example weight, up to a constant: what θ moves along.
            ascent = scores + problem.loss.gamma * written.costs[i]
            ascent -= problem.loss.inverse_beta * np.log(alphas[i])
            alphas[i] = softmax(np.log(alphas[i]) + steps[i] * ascent)
        state, _ = solver.step(problem, state, np.random.default_rng(0))
        for ours, theirs in zip(written.from_potentials(state.theta), alphas, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(state.v, written.v(alphas), atol=1e-9)


@pytest.mark.parametrize("rule", ["safe", "adaptive"])
@pytest.mark.parametrize("start", ["uniform", "smoothed"])
@pytest.mark.parametrize(("case", "loss"), [("tied", "log"), ("untied", "between"), ("multiclass", "hinge")])
def test_primal_form_follows_batch_form(case: str, loss: str, start: Any, rule: Any) -> None:
    problem = problem_of(case, loss).problem
    random = np.random.default_rng(0)
    batch, primal = BatchEG(rule, start), PrimalEG(rule, start)
    a, b = batch.init(problem, random), primal.init(problem, random)
    for _ in range(20):
        a, info_a = batch.step(problem, a, random)
        b, info_b = primal.step(problem, b, random)
        assert info_a.passes == info_b.passes
        np.testing.assert_allclose(b.v, a.v, atol=1e-9)
        assert info_b.dual == pytest.approx(info_a.dual, rel=1e-9)


@pytest.mark.parametrize(("case", "loss"), [("tied", "hinge"), ("multiclass", "log"), ("masked", "between")])
def test_sgd_follows_its_plain_form(case: str, loss: str) -> None:
    """Dense updates of w itself, and for β = ∞ the mean of the maximisers as the dual point."""
    data = problem_of(case, loss)
    problem, written, n = data.problem, data.written_out, data.problem.n_examples
    solver, random, plain_random = SGD(0.3), np.random.default_rng(5), np.random.default_rng(5)
    state, weights, k = solver.init(problem, random), np.zeros(problem.n_weights), 0
    mean = [np.zeros(len(cost)) for cost in written.costs]
    for t in range(1, 7):
        state, _ = solver.step(problem, state, random)
        for i in plain_random.permutation(n):
            alpha = model_point(written, weights)[i]
            mean[i] = mean[i] + 2.0 / (t + 1) * (alpha - mean[i])
            gradient = written.weight[i] * (
                alpha @ written.features[i] - written.features[i][written.gold[i]]
            )
            weights = weights - 0.3 / (1 + k / n) * (gradient + problem.l2 / n * weights)
            k += 1
        np.testing.assert_allclose(state.scale[0] * state.direction, weights, atol=1e-10)
    if problem.loss.is_hard:
        _, certificate = solver.certificate(problem, state)
        assert certificate.dual == pytest.approx(written.dual(mean), rel=1e-10)


def test_sgd_shrinks_without_losing_weights() -> None:
    """A strong regulariser drives the scale below its floor, again and again."""
    problem = problem_of("tied", "log").problem.with_l2(50.0)
    solver, random = SGD(0.15), np.random.default_rng(0)
    state = solver.init(problem, random)
    for _ in range(200):
        state, _ = solver.step(problem, state, random)
        assert 1e-9 <= state.scale[0] <= 1.0
    assert np.isfinite(state.direction).all()
    best = solve(problem, LBFGS(), tol=1e-9).certificate.primal
    assert solver.certificate(problem, state)[1].primal == pytest.approx(best, rel=1e-5)


def test_sgd_counts_its_trials() -> None:
    problem = problem_of("tied", "log").problem
    state = SGD().init(problem, np.random.default_rng(0))
    state, info = SGD().step(problem, state, np.random.default_rng(0))
    assert info.passes >= 1 + 2 * 3  # at least three trials, each learnt and judged
    assert 0 < state.initial_step[0] < problem.n_examples / problem.l2
    assert SGD().step(problem, state, np.random.default_rng(0))[1].passes == 1.0


# -- monotonicity and rates ----------------------------------------------------------------------


EG = [name for name in SOLVERS if name.startswith("eg")]
CONTRACTS = {"eg-batch": TestBatchEG, "eg-primal": TestPrimalEG}


@pytest.mark.parametrize("name", EG)
@pytest.mark.parametrize("rule", ["safe", "its own"])
@pytest.mark.parametrize(("case", "loss"), [("tied", "log"), ("multiclass", "hinge"), ("untied", "between")])
def test_dual_never_decreases(
    name: str, rule: Any, case: str, loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At no visit, by the dual summed over all labels, from the point that the solver starts at."""
    solver: Any = SOLVERS[name]
    if rule == "safe":
        solver = replace(solver, step_rule=rule)
    if isinstance(solver, ExponentiatedGradient):
        solver = replace(solver, precision="double")
    data, random = problem_of(case, loss), np.random.default_rng(0)
    state, contract = solver.init(data.problem, random), CONTRACTS.get(name, OnlineEG)()
    duals: list[float] = []

    def look(_: int = -1) -> None:
        duals.append(data.written_out.dual(contract.dual_point(data.written_out, state)))

    look()
    after_every_visit(monkeypatch, look)
    for passes in range(1, 31):
        state, info = solver.step(data.problem, state, random)
        if name in CONTRACTS:
            look()
        assert info.dual == pytest.approx(duals[-1], rel=1e-10)
        assert len(duals) > passes * (1 if name in CONTRACTS else data.problem.n_examples)
    assert (np.diff(duals) >= -1e-12 * np.abs(duals[1:])).all()
    _, certificate = solver.certificate(data.problem, state)
    assert certificate.dual == pytest.approx(duals[-1], rel=1e-10)
    assert certificate.drift <= 1e-9 * abs(certificate.dual)


@pytest.mark.parametrize("rule", ["halving", "newton", "safe"])
def test_dual_never_decreases_where_steps_are_short(rule: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A weak regulariser: the first visits, which leave the true labels, are the ones that can lose."""
    data, random = small("tied", "hinge", features="real", l2=0.01), np.random.default_rng(0)
    solver = ExponentiatedGradient("cyclic", step_rule=rule, precision="double")
    state, written = solver.init(data.problem, random), data.written_out
    duals = [0.0]

    def look(_: int) -> None:
        duals.append(written.dual(visited_point(written, state.theta, state.visited)))

    after_every_visit(monkeypatch, look)
    for _ in range(5):
        state, _ = solver.step(data.problem, state, random)
    assert (np.diff(duals) >= -1e-12 * np.maximum(np.abs(duals[1:]), 1.0)).all()


@pytest.mark.parametrize("loss", ["log", "hinge", "between"])
@pytest.mark.parametrize("case", ["multiclass", "tied", "untied", "order2", "masked"])
def test_safe_steps_are_those_of_the_theorems(case: str, loss: str) -> None:
    """1/(1/β + |A|_∞), with |A|_∞ = max c ‖φ(true) − φ(y)‖² / l2: exact for classes, a close bound for chains."""
    data = problem_of(case, loss)
    problem, written, weight = data.problem, data.written_out, data.written_out.weight
    largest = np.array(
        [((f - f[g]) ** 2).sum(axis=1).max() for f, g in zip(written.features, written.gold, strict=True)]
    )
    online = 1.0 / (problem.loss.inverse_beta + weight * largest / problem.l2)
    batch = 1.0 / (problem.loss.inverse_beta + problem.n_examples * (weight * largest).max() / problem.l2)
    random = np.random.default_rng(0)
    ours = ExponentiatedGradient(step_rule="safe").init(problem, random).step
    ours_batch = BatchEG("safe").init(problem, random).step[0]
    if case == "multiclass":
        np.testing.assert_allclose(ours, online, rtol=1e-6)
        assert ours_batch == pytest.approx(batch, rel=1e-6)
    assert (ours <= online * (1 + 1e-6)).all() and ours_batch <= batch * (1 + 1e-6)
    assert np.mean(online / ours) <= 3 and batch / ours_batch <= 3


class Distance(NamedTuple):
    """D*, KL(α* ‖ uniform), D(uniform)."""

    best: float
    divergence: float
    first: float


def _distance_to_optimum(written: WrittenOut) -> Distance:
    uniform = [np.full(len(cost), 1.0 / len(cost)) for cost in written.costs]
    if written.problem.loss.is_hard:
        matrix, linear, sizes = written.as_quadratic()
        found = simplex_qp(matrix, linear, sizes, tol=1e-10, max_iterations=50_000)
        assert found.converged
        alphas = np.split(found.alpha, np.cumsum(sizes)[:-1])
    else:
        alphas = written.model(solve(written.problem, LBFGS(), tol=1e-11, max_passes=500).weights)
    return Distance(written.dual(alphas), divergence(alphas, uniform), written.dual(uniform))


# "tight" problems have nothing to spare: with steps 20 times as long EG jumps to and fro for ever.
RATES = {
    "multiclass-log": lambda: problem_of("multiclass", "log"),
    "untied-log": lambda: problem_of("untied", "log"),
    "untied-hinge": lambda: problem_of("untied", "hinge"),
    "tight-log": lambda: tight("log", n=4, l2=1.0),
    "tight-hinge": lambda: tight("hinge", n=4, l2=3.0),
}


def test_batch_steps_grow_far_beyond_the_bound_of_one_large_example() -> None:
    """The bound on η comes from the largest example. Here all others need steps ten thousand times as large."""
    random = np.random.default_rng(0)
    X = random.normal(size=(30, 4)).astype(np.float32)
    y = (X @ random.normal(size=(4, 3))).argmax(axis=1)
    X[0] *= 100.0
    rows = {"node": RowData(FeatureMap.build(3, 0, 4), None, X)}
    problem = Problem.build(Multiclass(3), y, np.ones(30, int), rows, l2=10.0, loss="hinge")
    best = solve(problem, SVMStruct(), tol=1e-4).certificate.dual
    assert solve(problem, BatchEG(), tol=1e-9, max_passes=60).certificate.dual >= 0.99 * best


@pytest.mark.parametrize("name", RATES)
def test_batch_rate(name: str) -> None:
    """Collins et al. Theorem 1: KL/(ηT), and e^{−ηT} KL/η for the log loss."""
    data = RATES[name]()
    problem, (best, distance, _) = data.problem, _distance_to_optimum(data.written_out)
    solver, random = BatchEG("safe", "uniform"), np.random.default_rng(0)
    state = solver.init(problem, random)
    step = float(state.step[0])
    for t in range(1, 200):
        state, info = solver.step(problem, state, random)
        assert info.dual == pytest.approx(
            data.written_out.dual(data.written_out.from_potentials(state.theta)), rel=1e-9
        )
        assert best - info.dual <= distance / (step * t) + 1e-9 * abs(best)
        if not problem.loss.is_hard:
            assert best - info.dual <= np.exp(-step * t) * distance / step + 1e-9 * abs(best)


@pytest.mark.parametrize("name", RATES)
def test_online_rate_in_expectation(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Collins et al. Theorem 2 after every visit T, and the inequality of every visit that it rests on.

    The theorem has one η for all examples. Lemma 2, on one example's block of the dual: a visit gains at least
    KL(old ‖ new) / η.
    """
    data = RATES[name]()
    problem, written, n = data.problem, data.written_out, data.problem.n_examples
    best, distance, first = _distance_to_optimum(written)
    solver = ExponentiatedGradient("random", step_rule="safe", start="uniform", precision="double")
    n_seeds, n_passes = 10, 30
    duals = np.full((n_seeds, 1 + n_passes * n), first)
    for seed in range(n_seeds):
        random = np.random.default_rng(seed)
        state = solver.init(problem, random)
        step = float(state.step.min())
        state.step[:] = step
        before, visits = written.from_potentials(state.theta), 0

        def look(i: int, state: Any = state, seed: int = seed, step: float = step) -> None:
            nonlocal before, visits
            after, visits = written.from_potentials(state.theta), visits + 1
            duals[seed, visits] = written.dual(after)
            gain = duals[seed, visits] - duals[seed, visits - 1]
            assert gain >= divergence([before[i]], [after[i]]) / step - 1e-9 * abs(first)
            before = after

        with monkeypatch.context() as patch:
            after_every_visit(patch, look)
            for _ in range(n_passes):
                state, _ = solver.step(problem, state, random)
        assert visits == n_passes * n
    bound = distance / step + best - first
    for visit, dual in enumerate(duals.mean(axis=0)[1:], start=1):
        assert best - dual <= bound * n / visit + 1e-9 * abs(best)
        if not problem.loss.is_hard:
            assert best - dual <= np.exp(-step * visit / n) * bound + 1e-9 * abs(best)


# -- settings of EG ------------------------------------------------------------------------------


def test_annealing_factors() -> None:
    factor = Annealing().factor
    assert [factor(t) for t in (0, 3, 5)] == [10.0, 10.0, 10.0]
    assert factor(6) == pytest.approx(1 + 9 * 0.7)
    assert factor(8) == pytest.approx(1 + 9 * 0.7**3)
    assert factor(200) == pytest.approx(1.0)
    assert Annealing(4.0, 2.0, 0.5).factor(3) == 2.5


def test_annealed_run_reaches_the_same_optimum() -> None:
    best = optimum("tied", "log")
    solver = ExponentiatedGradient("permuted", annealing=Annealing(), precision="double")
    found = solve(problem_of("tied", "log").problem, solver, tol=1e-7, max_passes=500)
    assert found.converged
    assert found.certificate.primal == pytest.approx(best, rel=1e-6)


def improved_in_passes(problem: Problem, solver: ExponentiatedGradient, step: float) -> list[int]:
    """How many of the first tenth of the examples, in the order of seed 4, each of five passes improves."""
    from partwise.solvers.dual.online_pass import FIXED, DualPoint, online_pass
    from partwise.solvers.dual.potentials import refresh, starting_point

    sample = np.random.default_rng(4).permutation(problem.n_examples)[: problem.n_examples // 10]
    point = starting_point(problem, solver.start, np.float64)
    trial = DualPoint(*(array.copy() for array in point))
    trial.visited[sample] = 1
    refresh(problem, trial)
    trial.step[:] = step
    rule = solver._rule(problem, point)._replace(kind=FIXED)
    arguments = trial, problem.loss.beta, problem.loss.gamma, problem.l2, rule, problem.scratch(np.float64)
    return [online_pass(problem.batch, sample, *arguments)[1] for _ in range(5)]


@pytest.mark.parametrize(("loss", "l2"), [("log", 0.1), ("hinge", 0.1), ("hinge", 300.0)])
def test_searched_step_improves_a_tenth_of_the_data(loss: str, l2: float) -> None:
    problem = small("tied", loss, n=300, features="real", l2=l2).problem
    solver = ExponentiatedGradient("random", initial_step="search", precision="double")
    steps = solver.init(problem, np.random.default_rng(4)).step
    step = steps[0]
    assert (steps == step).all() and step > 0
    assert min(improved_in_passes(problem, solver, step)) >= 0.95 * 30
    if loss == "hinge":
        assert min(improved_in_passes(problem, solver, 2.0 * step)) < 0.95 * 30
        assert step > 1.0 or l2 < 1.0  # a strong l2 allows large steps


def test_single_precision_is_certified_in_double() -> None:
    data = problem_of("tied", "log")
    single = ExponentiatedGradient("permuted", precision="single")
    found = solve(data.problem, single, tol=1e-5, max_passes=500)
    assert found.converged
    assert found.state.theta.dtype == np.float32
    written = data.written_out
    assert found.certificate.primal == pytest.approx(written.primal(found.weights), rel=1e-9)
    alphas = visited_point(written, found.state.theta, found.state.visited)
    assert found.certificate.dual == pytest.approx(written.dual(alphas), rel=1e-9)


def test_threads_change_nothing_but_rounding() -> None:
    one, two = small("tied", "log", n=9), small("tied", "log", n=9, n_jobs=2)
    a = solve(one.problem, LBFGS(), tol=1e-8)
    b = solve(two.problem, LBFGS(), tol=1e-8)
    np.testing.assert_allclose(a.weights, b.weights, atol=1e-9)


# -- other libraries -----------------------------------------------------------------------------


@pytest.mark.parametrize("features", ["dense", "real", "binary"])
def test_objective_agrees_with_logistic_regression(features: str) -> None:
    data = small("multiclass", "log", features=features, l2=0.7, n=60)
    theirs = LogisticRegression(C=1 / 0.7, fit_intercept=False, tol=1e-10, max_iter=5000)
    theirs.fit(data.node, data.labels)
    assert theirs.coef_.shape == (4, N_ATTRIBUTES)
    attribute, label, index = data.problem.scorer.maps["node"].pairs()
    weights = np.zeros(data.problem.n_weights)
    weights[index] = theirs.coef_[label, attribute]
    ours = solve(data.problem, LBFGS(), tol=1e-9)
    assert data.problem.primal(weights) == pytest.approx(ours.certificate.primal, rel=1e-6)
    np.testing.assert_allclose(ours.weights, weights, atol=1e-3)


@pytest.mark.parametrize("pairs", ["all", "observed"])
def test_objective_agrees_with_crfsuite(pairs: Any, tmp_path: Path) -> None:
    data = small("tied", "log", features="binary", pairs=pairs, l2=0.8, n=60)
    ends = np.cumsum(data.lengths)
    trainer = pycrfsuite.Trainer(verbose=False, algorithm="lbfgs")
    for start, end in zip(ends - data.lengths, ends, strict=True):
        tokens = [[f"a{k}" for k in np.flatnonzero(row)] for row in data.node[start:end]]
        trainer.append(tokens, [str(label) for label in data.labels[start:end]])
    everything = int(pairs == "all")
    trainer.set_params({
        "c1": 0.0, "c2": 0.4, "max_iterations": 2000, "epsilon": 1e-9, "delta": 1e-12,
        "feature.possible_transitions": 1, "feature.possible_states": everything,
    })  # fmt: skip
    trainer.train(str(tmp_path / "model"))
    theirs = trainer.logparser.last_iteration["loss"]
    ours = solve(data.problem, LBFGS(), tol=1e-9).certificate.primal
    assert ours == pytest.approx(theirs, rel=1e-5)
