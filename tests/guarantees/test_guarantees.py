"""What is said of data not seen: calibration, rates of convergence, the bound on the loss."""

from __future__ import annotations

import json
import math
from itertools import product

import numpy as np
import pytest

import partwise
from partwise.core.losses import Loss
from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem
from partwise.core.rows import RowData
from partwise.errors import InputError
from partwise.guarantees import (
    beside_what_happened,
    generalization_bound,
    orders_of_convergence,
    predicted_rates,
)
from partwise.guarantees.generalization import _Sample, largest_with_divergence
from partwise.solvers import BatchEG, solve, solver_for
from partwise.solvers.saddle.excessive_gap import ExcessiveGap
from partwise.structures import Chain, Multiclass
from partwise.tasks.calibration import log_score


def class_problem(n: int = 60, loss: str = "log", seed: int = 0) -> Problem:
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 4)).astype(np.float32)
    y = (X @ random.normal(size=(4, 3))).argmax(axis=1)
    rows = {"node": RowData(FeatureMap.build(3, 0, 4), None, X)}
    return Problem.build(Multiclass(3), y, np.ones(n, int), rows, l2=1.0, loss=loss)


def chain_problem(tied: bool, length: int = 3) -> Problem:
    random = np.random.default_rng(1)
    X = random.normal(size=(12 * length, 3)).astype(np.float32)
    rows = {"node": RowData(FeatureMap.build(2, 0, 3), None, X)}
    if not tied:
        edges = random.normal(size=(24, 2)).astype(np.float32)
        rows["edge"] = RowData(FeatureMap.build(4, 0, 2), None, edges)
    y = (X[:, 0] > 0).astype(int)
    return Problem.build(Chain(2, tied=tied), y, np.full(12, length), rows, l2=1.0, loss="hinge")


def solved(problem: Problem, name: str = "auto", **options: object) -> object:
    return solve(problem, solver_for(problem, name, 1e-3), tol=1e-3, **options)


# -- calibration ------------------------------------------------------------------------------------


def overconfident() -> tuple[partwise.SequenceLabeler, list, list]:
    random = np.random.default_rng(0)
    words = [[f"w{random.integers(40)}" for _ in range(6)] for _ in range(90)]
    labels = [[("A", "B")[int(w[1:]) % 2 ^ int(random.random() < 0.2)] for w in s] for s in words]
    X = [[{"w": w} for w in s] for s in words]
    return partwise.SequenceLabeler(l2=0.03, tol=1e-2, random_state=0).fit(X[:40], labels[:40]), X, labels


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_calibration_improves_the_log_score_and_survives_a_file(tmp_path) -> None:
    model, X, y = overconfident()
    labels, before = model.predict(X[70:]), model.predict_marginals_array(X[70:])
    assert model.calibrate(X[40:70], y[40:70]) is model
    assert model.temperature_ > 1.1
    assert model.calibration_.log_score_after < model.calibration_.log_score_before
    after = model.predict_marginals_array(X[70:])
    assert model.predict(X[70:]) == labels
    true = np.concatenate([np.array([[c == t for c in model.classes_] for t in s]) for s in y[70:]]).ravel()
    scores = [log_score(np.concatenate(p).ravel(), true) for p in (before, after)]
    assert scores[1] < scores[0]
    model.save(tmp_path / "model")
    loaded = partwise.load(tmp_path / "model")
    assert loaded.temperature_ == model.temperature_
    np.testing.assert_array_equal(
        np.concatenate(loaded.predict_marginals_array(X[70:])), np.concatenate(after)
    )
    assert model.fit(X[:40], y[:40]).temperature_ == 1.0


def test_the_temperature_of_classes_is_the_best_of_many() -> None:
    random = np.random.default_rng(3)
    X = random.normal(size=(80, 5))
    y = np.where(random.random(80) < 0.25, random.integers(3, size=80), (X[:, :3]).argmax(axis=1))
    model = partwise.Classifier(l2=0.01, tol=1e-2).fit(X[:30], y[:30]).calibrate(X[30:], y[30:])
    found, true = model.temperature_, (y[30:, None] == model.classes_).ravel()

    def score(temperature: float) -> float:
        model.temperature_ = temperature
        return log_score(model.predict_proba(X[30:]).ravel(), true)

    assert score(found) <= min(map(score, np.geomspace(0.2, 20, 60).tolist())) + 1e-6


def test_calibration_refuses_losses_without_probabilities_and_keeps_the_model() -> None:
    hard = partwise.Classifier(loss="hinge").fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(InputError, match="beta = inf"):
        hard.calibrate([[0.0]], [0])
    soft = partwise.Classifier().fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(InputError):
        soft.calibrate([[0.0]], [0, 1])
    assert soft.temperature_ == 1.0


def test_a_model_file_is_calibrated_in_place(tmp_path, capsys) -> None:
    from partwise.cli import main

    lines = [f"{k % 5},{(k * 7) % 3},{c}" for k, c in enumerate("aabbab" * 6)]
    (tmp_path / "data.csv").write_text("\n".join(lines) + "\n")
    model, data = str(tmp_path / "model"), str(tmp_path / "data.csv")
    for words in (
        ["train", "classify", data, "--model", model, "--quiet"],
        ["calibrate", model, data, "--json"],
    ):
        with pytest.raises(SystemExit) as end:
            main(words)
        assert end.value.code in (0, None), capsys.readouterr()
    found = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert partwise.load(model).temperature_ == pytest.approx(found["temperature"])


# -- rates ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["log", "hinge", "softmax_margin"])
def test_runs_keep_to_the_rates(loss: str) -> None:
    problem = class_problem(30, loss)
    best = solved(problem).certificate.dual
    for rate in predicted_rates(problem):
        assert rate.passes(1e-3) >= 0.0
        assert rate.bound(rate.passes(1e-3)) == pytest.approx(1e-3, rel=1e-6) or rate.passes(1e-3) == 0.0
        if not rate.source.startswith("Collins"):
            continue
        run = solve(problem, solver_for(problem, rate.solver, 1e-3), tol=1e-9, max_passes=20)
        for record in run.history:
            assert best - record.dual <= rate.bound(record.passes) + 1e-6


@pytest.mark.parametrize("gamma", [1.0, 0.0])
def test_excessive_gap_runs_keep_to_the_rate_by_iterations(gamma: float) -> None:
    """Zhang et al. (2011) count iterations. Each takes two passes here."""
    problem = class_problem(30, "hinge" if gamma else "perceptron")
    (rate,) = (r for r in predicted_rates(problem) if r.solver == "excessive-gap")
    best = solved(problem).certificate.dual
    solver = ExcessiveGap(rule="fixed")
    state = solver.init(problem, np.random.default_rng(0))
    passes = 0.0
    for k in range(1, 40):
        state, info = solver.step(problem, state, np.random.default_rng(0))
        passes += info.passes
        _, certificate = solver.certificate(problem, state)
        assert passes == 2.0 * k == 2.0 * state.iteration[0]
        assert best - certificate.dual <= rate.bound(passes) + 1e-9
        assert rate.bound(passes) == pytest.approx(rate.constant / ((k + 1) * (k + 2)))


def test_bartletts_step_keeps_to_his_theorem() -> None:
    problem = class_problem(30, "hinge")
    rate = next(r for r in predicted_rates(problem) if r.source.startswith("Bartlett"))
    solver, best = BatchEG("bartlett", "uniform"), solved(problem).certificate.dual
    state = solver.init(problem, np.random.default_rng(0))
    assert state.step[0] == rate.step > 0.0
    duals = []
    for k in range(1, 60):
        state, info = solver.step(problem, state, np.random.default_rng(0))
        duals.append(info.dual)
        assert best - info.dual <= rate.bound(float(k)) and state.step[0] == rate.step
    assert duals == sorted(duals)
    with pytest.raises(InputError, match="needs a loss with beta = inf"):
        BatchEG("bartlett").check(class_problem(10, "log"))


def test_the_smaller_of_two_theorems_counts() -> None:
    """For a short run eq. 14 of Collins et al. (2008) says more than eq. 15, for a long one less."""
    rate, *_ = predicted_rates(class_problem(30, "log"))

    def linear(passes: float) -> float:
        return rate.constant * math.exp(-rate.decay * passes)

    assert rate.bound(100.0) == pytest.approx(rate.constant / 100.0) and linear(100.0) > rate.bound(100.0)
    long = 100.0 / rate.decay
    assert rate.bound(long) == pytest.approx(linear(long)) and rate.constant / long > rate.bound(long)
    for tolerance in (rate.bound(100.0), rate.bound(long)):
        assert rate.bound(rate.passes(tolerance)) == pytest.approx(tolerance)


def test_table_one_follows_from_the_theorems() -> None:
    problem = class_problem(30, "log")
    batch, online, _ = predicted_rates(problem)
    A = float(problem.squared_radii().max()) / problem.l2
    assert batch.step == pytest.approx(1.0 / (1.0 + 30 * A)) and online.step == pytest.approx(1.0 / (1.0 + A))
    assert batch.constant == pytest.approx((1.0 + 30 * A) * 30 * math.log(3.0), rel=1e-6)
    assert online.passes(0.1) < batch.passes(0.1)
    text = beside_what_happened(problem, {"eg": solved(problem, "eg")})
    assert "Theorem 2" in text and len(text.splitlines()) == 2


@pytest.mark.parametrize("loss", ["log", "hinge", "softmax_margin"])
def test_the_optimum_makes_the_rates_tighter_and_runs_keep_to_them(loss: str) -> None:
    """Zhang et al. (2011), eq. 16: the divergence of the optimum takes the place of its largest value."""
    problem = class_problem(30, loss)
    found = solve(problem, solver_for(problem, "auto", 1e-6), tol=1e-6)
    best = found.certificate.dual
    loose, tight = predicted_rates(problem), predicted_rates(problem, at_optimum=True)
    assert [rate.solver for rate in loose] == [rate.solver for rate in tight]
    for wide, near in zip(loose, tight, strict=True):
        assert near.offset <= 1.1e-3 * found.certificate.primal
        if near.solver == "bmrm":
            continue
        assert 0.0 < near.constant < wide.constant
        assert ("eq. 16" in near.source) == (near.solver == "excessive-gap")
        assert near.passes(near.offset) == math.inf
        some = near.offset + 1.0
        assert near.bound(near.passes(some)) == pytest.approx(some) or near.passes(some) == 0.0
        solver = ExcessiveGap(rule="fixed") if near.is_quadratic else solver_for(problem, near.solver, 1e-3)
        run = solve(problem, solver, tol=1e-9, max_passes=40)
        for record in run.history:
            assert best - record.dual <= near.bound(record.passes) + 1e-6


@pytest.mark.parametrize("loss", ["log", "hinge", "between"])
def test_cutting_planes_keep_to_their_rate(loss: str) -> None:
    for l2 in (0.01, 1.0, 100.0):
        problem = class_problem(30, Loss(3.0, 0.5) if loss == "between" else loss).with_l2(l2)
        (rate,) = (each for each in predicted_rates(problem) if each.solver == "bmrm")
        best = solved(problem).certificate.dual
        solver, random, passes = solver_for(problem, "bmrm", 1e-3), np.random.default_rng(0), 0.0
        state = solver.init(problem, random)
        for _ in range(15):
            state, info = solver.step(problem, state, random)
            passes += info.passes
            _, certificate = solver.certificate(problem, state)
            assert best - certificate.dual <= rate.bound(passes) + 1e-6 * abs(best)


def test_orders_of_table_one_follow_their_formulas() -> None:
    problem = class_problem(30, "hinge")
    orders = {each.solver: each for each in orders_of_convergence(problem, 1e-2)}
    tighter = {each.solver: each.iterations for each in orders_of_convergence(problem, 1e-4)}
    powers = {"bmrm": 1, "svm-struct": 2, "extragradient": 1, "eg": 1, "smo": 1, "excessive-gap": 0.5}
    assert orders.keys() == powers.keys()
    for name, power in powers.items():
        assert tighter[name] / orders[name].iterations == pytest.approx(100.0**power)
    accuracy = 1e-2 * problem.primal(np.zeros(problem.n_weights)) / 30
    assert orders["extragradient"].iterations == pytest.approx(math.log(3.0) / accuracy)
    assert orders["smo"].iterations == pytest.approx(30 * 3 / (problem.l2 / 30 * accuracy))
    ratio = orders["excessive-gap"].iterations ** 2 / orders["eg"].iterations
    assert ratio == pytest.approx(1.0)
    smooth = {each.solver: each.iterations for each in orders_of_convergence(class_problem(30, "log"))}
    assert smooth["bmrm"] == smooth["eg"] > 0.0 and math.isnan(smooth["smo"])


# -- the bound --------------------------------------------------------------------------------------


def test_divergence_is_inverted() -> None:
    for q, p in product((0.0, 0.1, 0.5), (0.6, 0.9)):
        budget = (q * math.log(q / p) if q else 0.0) + (1 - q) * math.log((1 - q) / (1 - p))
        assert largest_with_divergence(q, budget) == pytest.approx(p, abs=1e-9)
    assert largest_with_divergence(1.0, 0.1) == 1.0


def test_worst_classes_are_those_of_the_definition() -> None:
    problem = class_problem(25)
    sample = _Sample(problem, solved(problem).weights)
    scores, gold = sample.scores.reshape(-1, 3), problem.batch.gold_part
    norms = sample.norms.reshape(-1, 3)
    for gamma in (1.0, 0.2, 0.01):
        found, is_exact = sample._worst(gamma)
        for i in range(25):
            apart = [[0.0 if a == b else norms[i, a] + norms[i, b] for b in range(3)] for a in range(3)]
            within = [
                a
                for a in range(3)
                if all(scores[i, a] >= scores[i, b] - gamma * apart[a][b] for b in range(3))
            ]
            assert is_exact and found[i] == float(any(a != gold[i] for a in within))


def test_the_bound_by_duality_is_never_below_the_exact_one() -> None:
    problem = chain_problem(tied=False)
    sample = _Sample(problem, solved(problem).weights)
    for gamma in (1.0, 0.3, 0.1, 0.03, 0.001):
        exact, is_exact = sample._worst(gamma)
        assert is_exact and (sample._dual_bound(gamma) >= exact - 1e-9).all()
    assert sample._dual_bound(1e-3).mean() < 1.0


def test_the_best_margin_is_taken_and_kinds_are_told() -> None:
    """Eq. 7 of Bartlett et al. (2004) holds for all margins simultaneously, and so for the best of them."""
    problem = class_problem(2000)
    weights = solved(problem).weights
    found = generalization_bound(problem, weights)
    each = [generalization_bound(problem, weights, 0.05, [g]).bound for g in np.geomspace(1, 1e-3, 13)]
    assert found.bound == pytest.approx(min(each)) and found.is_exact and "at most" in str(found)
    assert found.bound >= found.training_loss
    many = chain_problem(True, length=12)
    assert "or less" in str(generalization_bound(many, np.ones(many.n_weights)))


def test_tied_transitions_are_parts_of_every_position() -> None:
    """The worst loss within the margin, written out for all labellings of a chain."""
    problem = chain_problem(tied=True)
    weights = solved(problem).weights
    scores = problem.scores(weights / np.sqrt(problem.inner(weights, weights))).reshape(12, 10)
    X = problem.scorer.kinds[0].dense
    true = problem.structure.decode_all(problem.gold, problem.scorer.shapes)
    labellings = list(product(range(2), repeat=3))
    for gamma in (0.3, 0.03):
        worst = []
        for i in range(12):
            own, gold = X[3 * i : 3 * i + 3], true[3 * i : 3 * i + 3]
            norms = np.linalg.norm(own, axis=1)
            emissions, transitions = scores[i, :6].reshape(3, 2), scores[i, 6:].reshape(2, 2)
            score = {y: emissions[range(3), y].sum() + transitions[y[:-1], y[1:]].sum() for y in labellings}

            def apart(y: tuple, z: tuple, norms: np.ndarray = norms) -> float:
                nodes = sum(2.0 * norms[t] for t in range(3) if y[t] != z[t])
                return nodes + sum(2.0 for t in range(2) if y[t : t + 2] != z[t : t + 2])

            within = [
                y for y in labellings if all(score[y] >= score[z] - gamma * apart(y, z) for z in labellings)
            ]
            worst.append(max(np.mean(np.asarray(y) != gold) for y in within))
        found = generalization_bound(problem, weights, gammas=[gamma])
        assert found.is_exact and found.empirical == pytest.approx(np.mean(worst), abs=1e-12)


@pytest.mark.parametrize("options", [{"delta": 0.0}, {"gammas": [2.0]}, {"gammas": []}])
def test_what_makes_no_bound_is_refused(options: dict) -> None:
    problem = class_problem(10)
    with pytest.raises(InputError):
        generalization_bound(problem, np.ones(problem.n_weights), **options)
    with pytest.raises(InputError, match="zero"):
        generalization_bound(problem, np.zeros(problem.n_weights))
    for wrong in (np.inf, -np.inf, np.nan):
        weights = np.ones(problem.n_weights)
        weights[1] = wrong
        with pytest.raises(InputError, match="finite"):
            generalization_bound(problem, weights)
    with pytest.raises(InputError, match="finite"):
        generalization_bound(problem, np.ones(problem.n_weights + 1))


def test_the_length_of_weights_does_not_matter() -> None:
    problem = class_problem(200)
    weights = solved(problem).weights
    found = generalization_bound(problem, weights)
    for scale in (1e-300, 1e200):
        assert generalization_bound(problem, scale * weights) == found


def test_rates_of_no_number_of_passes_are_refused() -> None:
    problem = class_problem(10)
    for passes in (-1.0, math.nan):
        with pytest.raises(InputError, match="passes"):
            predicted_rates(problem)[0].bound(passes)
    with pytest.raises(InputError, match="tol"):
        beside_what_happened(problem, {"eg": solved(problem)}, tol=math.nan)
    with pytest.raises(InputError, match="empty"):
        beside_what_happened(problem, {})
