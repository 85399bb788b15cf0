"""A certificate that cannot lie: declared needs, bounds, warm starts, checkpoints, precision, equal runs."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from contract_solvers import copied
from problems import Small, small

import partwise
from partwise import Classifier, SequenceLabeler
from partwise.core.losses import Loss
from partwise.core.problem import Problem
from partwise.errors import InputError
from partwise.mercer.functions import KernelFunction
from partwise.mercer.gram import Gram
from partwise.mercer.problem import KernelProblem
from partwise.solvers import (
    LBFGS,
    SOLVERS,
    BlockFrankWolfe,
    Certificate,
    ExponentiatedGradient,
    Needs,
    Solution,
    StepInfo,
    StopReason,
    solve,
    solver_for,
)
from partwise.solvers.base import Solver
from partwise.solvers.driver import Schedule, with_precision
from partwise.solvers.dual.exponentiated_gradient import _threads, _visit
from partwise.solvers.fingerprint import changes, fingerprint
from partwise.solvers.needs import check_solver, refusal
from partwise.structures import Chain

X = [[["a"], ["b"]], [["b"], ["a", "c"], ["a"]], [["c"]], [["a"], ["c"], ["b"]]]
Y = [["x", "y"], ["y", "x", "x"], ["y"], ["x", "y", "y"]]


def usual_loss(name: str) -> str:
    return "hinge" if SOLVERS[name].needs.loss == "hard" else "log"


@cache
def usual(loss: str) -> Small:
    return small("tied", loss, features="real")


@cache
def optimum_of(key: str, loss: str) -> float:
    """P* = D* of one of the changed problems, by a solver that starts afresh."""
    problem = changed_problem(key, loss)
    fresh = BlockFrankWolfe(precision="double") if problem.loss.is_hard else LBFGS()
    found = solve(problem, fresh, tol=1e-7, max_passes=3000)
    assert found.certificate.relative_gap < 1e-6
    return found.certificate.dual


# -- declared needs ------------------------------------------------------------------------------


@cache
def kernelised(loss: str) -> KernelProblem:
    data = usual(loss)
    gram = Gram.of_points(KernelFunction("linear"), data.node, 10.0)
    return KernelProblem.of_kernels(
        data.problem.structure, data.labels, data.lengths, {"node": gram}, loss=loss, l2=2.0
    )


@pytest.mark.parametrize("name", SOLVERS)
def test_kernel_problems_are_solved_or_refused(name: str) -> None:
    loss = usual_loss(name)
    problem, solver = kernelised(loss), SOLVERS[name]
    if solver.needs.features:
        with pytest.raises(InputError, match=rf"solver '{name}' needs features, .* kernel function .*: use"):
            solve(problem, solver)
        return
    found = solve(problem, solver, tol=1e-3, max_passes=3000)
    assert found.converged
    assert found.certificate.primal == pytest.approx(problem.primal(found.weights), rel=1e-9)
    best = optimum_of("nothing", loss)  # the linear kernel has the features' own optimum
    assert found.certificate.dual <= best * (1 + 1e-6)
    assert best * (1 - 1e-6) <= found.certificate.primal <= best * 1.002


class Relaxed(Chain):
    exactness = "relaxation"


class Approximate(Chain):
    exactness = "approximate"


def in_expectation(problem: Problem) -> Problem:
    return problem.with_gold(problem.gold._replace(amount=np.ones(len(problem.gold.part))))


@pytest.mark.parametrize("name", SOLVERS)
def test_every_need_is_refused_by_name(name: str) -> None:
    """One line that names the solver, what it needs and what to use instead; and nothing else is refused."""
    solver, loss = SOLVERS[name], usual_loss(name)
    if solver.needs.classes:
        with pytest.raises(InputError, match=rf"solver '{name}' is for classes, .*: use [^\n]*$"):
            solve(usual(loss).problem, solver)
        return
    hard, smooth = usual("hinge").problem, usual("log").problem
    wrong = {
        "exact": small("tied", loss, structure=Relaxed(3)).problem,
        "whole_labels": in_expectation(usual(loss).problem),
        "first_order": small("order2", loss).problem,
        "features": kernelised(loss),
    }
    for need, problem in wrong.items():
        if getattr(solver.needs, need):
            with pytest.raises(InputError, match=rf"solver '{name}' .*: use [^\n]*$"):
                solve(problem, solver)
        else:
            check_solver(problem, solver)
    if solver.needs.loss != "any":
        with pytest.raises(InputError, match=rf"solver '{name}' needs .*beta = .*: use"):
            solve(smooth if loss == "hinge" else hard, solver)


def test_refusals_say_what_the_problem_has() -> None:
    assert refusal(usual("log").problem, Needs()) is None
    words = refusal(usual("log").problem, Needs(loss="hard"))
    assert words == "needs beta = inf and loss='log' has beta = 1: use an 'eg' solver or 'bmrm'"
    assert "relaxation" in str(refusal(small("tied", structure=Relaxed(3)).problem, Needs(exact=True)))


# -- what was certified --------------------------------------------------------------------------


def test_relaxations_and_approximations_are_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    relaxed = solve(small("tied", structure=Relaxed(3)).problem, LBFGS(), tol=1e-3)
    assert relaxed.converged and relaxed.certificate.kind == "relaxation"
    assert "relaxed problem" in relaxed.why and relaxed.history[-1].kind == "relaxation"
    problem = small("tied", structure=Approximate(3)).problem
    for name in ("lbfgs", "eg-gap"):
        found = solve(problem, SOLVERS[name], tol=1e-3, max_passes=30)
        assert not found.converged and found.certificate.kind == "approximate"
        assert found.certificate.dual == -math.inf and found.certificate.relative_gap == math.inf
        assert found.stop_reason in (StopReason.MAX_PASSES, StopReason.STALLED)
        assert "no certificate" in found.why


@pytest.mark.parametrize("kind", ["exact", "relaxation", "approximate"])
def test_models_carry_the_word(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Chain, "exactness", kind)
    model = SequenceLabeler(verbose=1, max_passes=5, tol=0.1)
    if kind == "approximate":
        with pytest.warns(UserWarning, match="no certificate"):
            model.fit(X, Y)
    else:
        model.fit(X, Y)
    assert model.certificate_kind_ == kind and model.converged_ == (kind != "approximate")
    assert (f"({kind})" in capsys.readouterr().out) == (kind != "exact")
    model.save(tmp_path / "m")
    loaded = partwise.load(tmp_path / "m")
    assert loaded.certificate_kind_ == kind and loaded.dual_objective_ == model.dual_objective_
    record = model._record_state()
    del record["certificate_kind"]  # as files were before
    loaded._set_record(record)
    assert loaded.certificate_kind_ == "exact"
    with pytest.raises(InputError, match="certificate_kind"):
        loaded._set_record(record | {"certificate_kind": "proven"})


# -- bounds --------------------------------------------------------------------------------------


class Played(NamedTuple):
    turn: np.ndarray


class Recital(Solver):
    """Certificates as given, one a step, the last again and again."""

    name, needs = "recital", Needs()

    def __init__(self, *bounds: tuple[float, float]):
        self.bounds = bounds

    def check(self, problem: Problem) -> None:
        pass

    def init(self, problem: Problem, random: np.random.Generator) -> Played:
        return Played(np.zeros(1, np.int64))

    def carry_over(self, problem: Problem, state: Played, changed: Any) -> Played:
        return state

    def step(self, problem: Problem, state: Played, random: np.random.Generator) -> tuple[Played, StepInfo]:
        return Played(state.turn + 1), StepInfo(1.0)

    def certificate(self, problem: Problem, state: Played) -> tuple[Played, Certificate]:
        primal, dual = self.bounds[min(int(state.turn[0]) - 1, len(self.bounds) - 1)]
        return state, Certificate(primal, dual, np.zeros(problem.n_weights))


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("bounds", "reason"),
    [
        ((1.0, 0.9995), StopReason.CONVERGED),
        ((1.0, 1.0), StopReason.CONVERGED),
        ((0.0, 0.0), StopReason.CONVERGED),
        ((-2.0, -2.001), StopReason.CONVERGED),
        ((1.0, 1.0 + 1e-12), StopReason.CONVERGED),  # rounding
        ((1.0, 0.9), StopReason.STALLED),
        ((1e-14, 0.0), StopReason.STALLED),  # small, and yet all of the primal
        ((0.0, -1e-14), StopReason.STALLED),
        ((INF, INF), StopReason.UNSOUND),
        ((INF, 1.0), StopReason.UNSOUND),
        ((1.0, -INF), StopReason.UNSOUND),
        ((NAN, 1.0), StopReason.UNSOUND),
        ((1.0, NAN), StopReason.UNSOUND),
        ((3.47, 1.7e10), StopReason.UNSOUND),
        ((1.0, 1.0 + 1e-6), StopReason.UNSOUND),
    ],
)
def test_only_bounds_that_prove_it_stop_a_run_as_converged(
    bounds: tuple[float, float], reason: StopReason
) -> None:
    found = solve(usual("log").problem, Recital(bounds), tol=2e-3, max_passes=50, certificate_every=2)
    assert found.stop_reason is reason
    assert found.converged == (reason is StopReason.CONVERGED)
    assert not math.isnan(found.certificate.relative_gap)


def test_crossed_bounds_within_rounding_prove_no_more_than_that() -> None:
    found = solve(usual("log").problem, Recital((1.0, 1.0 + 1e-10)), tol=1e-11, max_passes=5)
    assert not found.converged


def test_an_interrupted_run_with_crossed_bounds_says_so() -> None:
    found = solve(
        usual("log").problem, Recital((1.0, 2.0)), certificate_every=9, callback=lambda progress: True
    )
    assert found.stop_reason is StopReason.UNSOUND


@pytest.mark.parametrize("fall", [0.5, 0.9, 0.98, 0.995])
@pytest.mark.parametrize(
    "estimate",
    [
        pytest.param(lambda passes, gap: gap, id="exact"),
        pytest.param(lambda passes, gap: 3.0 * gap, id="too large"),
        pytest.param(lambda passes, gap: gap * 4.0 / (1.0 + passes**0.3), id="drifting"),
        pytest.param(lambda passes, gap: gap * (1.0 + 0.9 * math.sin(passes)), id="wavering"),
        pytest.param(lambda passes, gap: math.nan, id="none"),
    ],
)
def test_certificates_are_made_when_the_gap_is_small_enough(fall: float, estimate: Any) -> None:
    """Neither many passes too late, nor many of them; whatever the estimate is worth."""
    tol = 1e-3
    needed = math.ceil(math.log(tol) / math.log(fall))
    schedule, made, passes, gap = Schedule(tol, None), 0, 0, 1.0
    while made == 0 or schedule.last < passes or gap > tol:
        passes, gap = passes + 1, gap * fall
        info = StepInfo(1.0, 1.0 - gap, estimate(passes, gap))
        if schedule.is_due(passes, info):
            made += 1
            schedule.made(passes, info, Certificate(1.0, 1.0 - gap, np.zeros(1)))
    assert passes <= 1.06 * needed + 2
    assert made <= 4 + 0.11 * needed


EXTREMES: dict[str, dict[str, Any]] = {
    "l2 = 1e-200": {"l2": 1e-200},
    "l2 = 1e-30": {"l2": 1e-30},
    "l2 = 1e-20": {"l2": 1e-20},
    "l2 = 1e200": {"l2": 1e200},
    "weights": {"example_weight": np.full(8, 1e300)},
    "cost": {"cost": 1e30 * (1 - np.eye(3))},
    "gamma": {"loss": Loss(1.0, 1e15)},
    "hard gamma": {"loss": Loss(math.inf, 1e15)},
    "beta": {"loss": Loss(1e15, 1.0)},
}


@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize("name", SOLVERS)
def test_no_extreme_makes_a_false_claim(name: str, extreme: str) -> None:
    options: dict[str, Any] = {"loss": usual_loss(name)} | EXTREMES[extreme]
    problem = small("tied", features="real", **options).problem
    try:
        check_solver(problem, SOLVERS[name])
    except InputError:
        return
    with np.errstate(all="ignore"):
        found = solve(problem, SOLVERS[name], tol=1e-3, max_passes=40)
    certificate = found.certificate
    if found.converged:
        assert math.isfinite(certificate.primal) and math.isfinite(certificate.dual)
        assert abs(certificate.gap) <= 1e-3 * abs(certificate.primal)
        assert certificate.primal == pytest.approx(problem.primal(found.weights), rel=1e-6)
    elif not certificate.is_sound:
        assert found.stop_reason is StopReason.UNSOUND


# -- warm starts and checkpoints -----------------------------------------------------------------

CHANGES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "cost": {"cost": np.array([[0.0, 9.0, 1.0], [5.0, 0.0, 2.0], [1.0, 7.0, 0.0]])},
    "sample_weight": {"example_weight": np.linspace(0.1, 6.0, 8)},
    "l2": {"l2": 0.3},
    "features": {"features": "binary"},
    "true labels": {"shift": 1},
    "loss": {"loss": "another"},
    "structure": {"structure": "masked"},
}
ANOTHER_LOSS = {"hinge": Loss(math.inf, 0.5), "softmax_margin": Loss(2.0, 0.5)}


@cache
def changed_problem(key: str, loss: str) -> Problem:
    options: dict[str, Any] = {"features": "real", "loss": loss} | CHANGES[key]
    if key == "loss":
        options["loss"] = ANOTHER_LOSS[loss]
    problem = small("tied", **{k: v for k, v in options.items() if k != "structure"}).problem
    if key == "structure":
        return masked_like(problem)
    return problem


def masked_like(problem: Problem) -> Problem:
    """The same data where no sentence may start with a label that none of them starts with."""
    data = usual("log")
    structure = Chain(
        3, allowed_start=np.isin(np.arange(3), data.labels[np.cumsum(data.lengths) - data.lengths])
    )
    assert not structure.allowed_start.all()
    return replace(problem, scorer=replace(problem.scorer, structure=structure))


OF_CHAINS = [name for name, solver in SOLVERS.items() if not solver.needs.classes]


def cost_loss(name: str) -> str:
    return "hinge" if SOLVERS[name].needs.loss == "hard" else "softmax_margin"


@pytest.mark.parametrize("key", [key for key in CHANGES if key != "nothing"])
@pytest.mark.parametrize("name", OF_CHAINS)
def test_warm_starts_keep_nothing_stale(name: str, key: str) -> None:
    """The certificate after a change is that of the new problem, at once and in the end."""
    solver, loss = SOLVERS[name], cost_loss(name)
    old, new = changed_problem("nothing", loss), changed_problem(key, loss)
    assert changes(old, new) == {key} or (key == "true labels" and changes(old, new) == {key, "cost"})
    before = solve(old, solver, tol=1e-2, max_passes=60)
    kept = copied(before.state)
    for passes in (1, 60):
        after = solve(new, solver, tol=1e-2, max_passes=passes, warm_start=before)
        certificate, best = after.certificate, optimum_of(key, loss)
        assert certificate.primal == pytest.approx(new.primal(after.weights), rel=1e-9)
        assert certificate.primal >= best * (1 - 1e-6)
        assert certificate.dual <= best * (1 + 1e-6) + 1e-12
        if after.converged:
            assert certificate.primal <= best * 1.011
    if solver.minimises:
        assert solve(new, solver, tol=5e-2, max_passes=2000, warm_start=before).converged
    for ours, theirs in zip(before.state, kept, strict=True):
        np.testing.assert_array_equal(ours, theirs)  # the earlier solution is still what it was


@pytest.mark.parametrize("name", OF_CHAINS)
def test_a_warm_start_on_the_same_problem_goes_on(name: str) -> None:
    solver, problem = SOLVERS[name], changed_problem("nothing", cost_loss(name))
    before = solve(problem, solver, tol=1e-3, max_passes=300)
    after = solve(problem, solver, tol=1e-3, max_passes=300, warm_start=before)
    if before.converged:
        assert after.passes <= max(4.0, 0.7 * before.passes)


def test_estimators_do_not_keep_stale_values() -> None:
    for solver in ("lbfgs", "cg", "bmrm", "extragradient", "eg-gap"):
        model = SequenceLabeler(loss="softmax_margin", solver=solver, l2=0.1, warm_start=True).fit(X, Y)
        cost = np.array([[0, 9.0], [5, 0]])
        model.set_params(cost=cost).fit(X, Y)
        fresh = SequenceLabeler(loss="softmax_margin", l2=0.1, cost=cost).fit(X, Y)
        assert model.converged_ and fresh.converged_
        assert model.objective_ == pytest.approx(fresh.objective_, rel=2e-3)
        training = model._training
        assert model.objective_ == pytest.approx(training.problem.primal(training.weights), rel=1e-9)


@pytest.mark.parametrize("key", [key for key in CHANGES if key != "nothing"])
def test_checkpoints_of_another_problem_are_refused(key: str, tmp_path: Path) -> None:
    old, new = changed_problem("nothing", "softmax_margin"), changed_problem(key, "softmax_margin")
    solve(old, LBFGS(), tol=1e-12, max_passes=3, checkpoint=tmp_path / "run")
    with pytest.raises(InputError, match=f"made with another {key}"):
        solve(new, LBFGS(), checkpoint=tmp_path / "run", resume=True)


def test_a_kernel_matrix_is_part_of_the_problem() -> None:
    data = usual("log")
    one, other = (
        KernelProblem.of_kernels(
            data.problem.structure,
            data.labels,
            data.lengths,
            {"node": Gram.of_points(function, data.node, 10.0)},
        )
        for function in (KernelFunction("linear"), KernelFunction("rbf", {"gamma": 0.5}))
    )
    assert changes(one, other) == {"features"}
    assert changes(one, one.with_l2(7.0)) == {"l2"}
    assert fingerprint(one) == fingerprint(kernelised("log").with_l2(1.0))


# -- precision -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "loss"), [("eg-gap", "log"), ("eg", "log"), ("bcfw", "hinge")])
def test_precision_follows_the_tolerance(name: str, loss: str) -> None:
    problem = usual(loss).problem
    found = solve(problem, solver_for(problem, name, 1e-7), tol=1e-7, max_passes=3000)
    assert found.converged and found.state.v.dtype == np.float64
    assert solve(problem, SOLVERS[name], tol=1e-2).state.v.dtype == np.float32


def test_a_fixed_precision_stays() -> None:
    problem = usual("log").problem
    single = ExponentiatedGradient("gap", precision="single")
    assert with_precision(single, 1e-9) is single
    assert solve(problem, single, tol=1e-9, max_passes=5).state.v.dtype == np.float32
    double = ExponentiatedGradient("gap", precision="double")
    assert solve(problem, double, tol=0.1, max_passes=5).state.v.dtype == np.float64


def test_going_on_with_a_smaller_tolerance_takes_double_precision(tmp_path: Path) -> None:
    problem, solver, file = usual("log").problem, SOLVERS["eg-gap"], tmp_path / "run"
    rough = solve(problem, solver, tol=1e-2, checkpoint=file)
    assert rough.state.v.dtype == np.float32
    resumed = solve(problem, solver, tol=1e-8, max_passes=3000, checkpoint=file, resume=True)
    warm = solve(problem, solver, tol=1e-8, max_passes=3000, warm_start=rough)
    for found in (resumed, warm):
        assert found.converged and found.state.v.dtype == np.float64


def test_estimators_converge_by_name() -> None:
    model = SequenceLabeler(solver="eg-gap", tol=1e-7, max_passes=2000).fit(X, Y)
    assert model.converged_ and model.duality_gap_ <= 1e-7
    classifier = Classifier(loss="hinge", solver="bcfw", tol=1e-6, max_passes=2000)
    assert classifier.fit(np.eye(4), ["x", "y", "x", "y"]).converged_


# -- steps ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["hinge", "log", "softmax_margin"])
@pytest.mark.parametrize("start", ["gold", "smoothed"])
def test_safe_steps_never_lower_the_dual(loss: str, start: Any) -> None:
    """Visit by visit, recomputed from the potentials; from the true labels too, where the dual is zero."""
    problem = small("tied", loss, features="real", l2=0.01).problem
    solver = ExponentiatedGradient("permuted", step_rule="safe", start=start, precision="double")
    random = np.random.default_rng(0)
    state = solver.init(problem, random)
    point = state.point()
    before = problem.dual(problem.at_potentials(point.theta, point.visited))
    assert start != "gold" or before == 0.0
    for example in [i for _ in range(5) for i in random.permutation(problem.n_examples)]:
        rule = solver._rule(problem, point)
        with _threads(problem) as threads:
            _visit(threads, np.array([example]), point, problem.loss.beta, problem.l2, rule)
        now = problem.dual(problem.at_potentials(point.theta, point.visited))
        assert now >= before - 1e-10 * (1.0 + abs(before))
        before = now
    assert before > 0.0 or start != "gold"


def test_safe_steps_do_not_sharpen() -> None:
    with pytest.raises(InputError, match="sharpen"):
        solve(usual("hinge").problem, ExponentiatedGradient(step_rule="safe", sharpen=True))


def test_an_example_that_stays_at_its_true_label_is_visited() -> None:
    """One sentence has a single labelling; gaps must steer the others all the same."""
    X = [[["a"]], *([["a"], ["b"]] for _ in range(9))]
    labels = [["S"], *(["S", "T"] if k % 3 else ["S", "S"] for k in range(9))]
    model = SequenceLabeler(
        loss="hinge", solver=ExponentiatedGradient("gap", "newton"), max_passes=12, tol=1e-6, l2=1.0,
        scheme=None,
    )  # fmt: skip
    encoded = model.fit(X, labels)._training.problem
    structure = Chain(2, allowed_start=[True, False])
    problem = replace(encoded, scorer=replace(encoded.scorer, structure=structure))
    infos: list[float] = []

    def note(progress: Any) -> None:
        infos.append(progress.estimated_gap)

    found: Solution = solve(
        problem, ExponentiatedGradient("gap", "newton"), tol=1e-12, max_passes=30, callback=note
    )
    assert found.state.visited[0] == 0
    assert not math.isnan(infos[-1]) and infos[-1] >= 0.0


# -- equal runs ----------------------------------------------------------------------------------


def arrays_of(value: Any, name: str, found: dict[str, np.ndarray]) -> None:
    """Every array within nested NamedTuples, by its path."""
    if isinstance(value, np.ndarray):
        found[name] = value
    elif isinstance(value, tuple):
        for k, each in enumerate(value):
            arrays_of(each, f"{name}.{k}", found)


def with_arrays(value: Any, name: str, placed: dict[str, np.ndarray]) -> Any:
    if isinstance(value, np.ndarray):
        return placed[name]
    if isinstance(value, tuple):
        return type(value)(*(with_arrays(each, f"{name}.{k}", placed) for k, each in enumerate(value)))
    return value


def placed_in_memory(values: dict[str, Any], random: np.random.Generator | None) -> dict[str, Any]:
    """The same with all arrays side by side in a random order, or (without `random`) pages apart."""
    found: dict[str, np.ndarray] = {}
    for name, value in values.items():
        arrays_of(value, name, found)
    names, between = list(found), 16
    if random is None:
        between = 4096
    else:
        random.shuffle(names)
    room = np.zeros(sum(array.nbytes + between + 32 for array in found.values()) + 64, np.uint8)
    at, placed = -room.ctypes.data % 64, {}
    for name in names:
        at += -at % 16
        size = found[name].nbytes
        placed[name] = room[at : at + size].view(found[name].dtype).reshape(found[name].shape)
        placed[name][...] = found[name]
        at += size + between
    return {name: with_arrays(value, name, placed) for name, value in values.items()}


@pytest.mark.parametrize("name", ["eg-gap", "eg", "eg-permuted"])
def test_equal_runs_wherever_arrays_lie(name: str) -> None:
    """Whether a compiled loop adds up in vectors must not depend on what lies next to its arrays."""

    def run(random: np.random.Generator | None) -> list[bytes]:
        problem, solver = small("tied", "log", features="real", n=12).problem, SOLVERS[name]
        values: dict[str, Any] = {
            "batch": problem.batch,
            "state": solver.init(problem, np.random.default_rng(0)),
            "scratch": problem.scratch(np.float32),
        }
        placed = placed_in_memory(values, random)
        problem.batch, state = placed["batch"], placed["state"]
        problem.scorer._scratch["f", 0, False] = placed["scratch"], problem.scorer._scratch["f", 0, False][1]
        steps = np.random.default_rng(0)
        for _ in range(5):
            state, _ = solver.step(problem, state, steps)
        return [array.tobytes() for array in state]

    apart = run(None)
    assert all(run(np.random.default_rng(seed)) == apart for seed in range(40))
