"""Training on shards in processes: the same certified optimum, whatever is lost on the way."""

# ruff: noqa: F811  (fixtures are imported, and named again by the tests that take them)

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from child_processes import started  # noqa: F401
from contract_solvers import optimum, problem_of
from problems import small

from partwise import Classifier, InputError, SequenceLabeler, load
from partwise.core.problem import Problem
from partwise.distributed import Engine, ProcessEngine, SequentialEngine, at_work_on
from partwise.distributed.ascent import ShardedAscent
from partwise.distributed.split import common_of, cut, deal, whole
from partwise.distributed.wire import packed
from partwise.solvers import Solution, solve, solver_for

TOL = 1e-5
CASES = {
    "multiclass": ("eg-gap", "crammer-singer"),
    "tied": ("eg-gap", "chain-cd"),
    "spanning": ("eg", "bcfw"),
    "graph": ("eg-gap", "bcfw"),
}


def trained(engine: Engine, problem: Problem, name: str = "auto", **settings: Any) -> Solution:
    settings = {"tol": TOL, "max_passes": 3000} | settings
    words = settings.pop("words", [])
    with at_work_on(engine, problem, solver_for(problem, name, settings["tol"]), words.append) as at_work:
        return solve(at_work.problem, at_work.solver, **settings, **at_work.settings)


def check_certificate(problem: Problem, found: Solution, best: float, tol: float = TOL) -> None:
    """The bounds hold the optimum between them, and the primal is that of the weights."""
    assert found.converged
    assert found.certificate.primal == pytest.approx(problem.primal(found.weights), rel=1e-10)
    assert (
        best * (1.0 - tol)
        <= found.certificate.dual
        <= best * (1.0 + 1e-7)
        <= found.certificate.primal * (1 + 2e-7)
    )


# -- pieces ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["multiclass", "untied", "spanning", "graph", "segments", "grammar"])
def test_shards_have_all_examples_once_and_their_own_rows(kind: str) -> None:
    problem = small(
        kind, "hinge", features="dense" if kind == "multiclass" else "real", weighted=True
    ).problem
    weights = np.random.default_rng(0).normal(size=problem.n_weights)
    common, shards = common_of(problem), deal(problem, 3)
    assert np.array_equal(np.sort(np.concatenate(shards)), np.arange(problem.n_examples))
    for own in shards:
        shard = whole(cut(problem, own), common)
        assert np.array_equal(shard.losses(weights)[0], problem.losses(weights)[0][own])
        assert sum(kind.wide_ptr.size for kind in shard.scorer.kinds) < sum(
            kind.wide_ptr.size for kind in problem.scorer.kinds
        )


def test_vectors_travel_in_the_smaller_way_and_unchanged() -> None:
    random = np.random.default_rng(0)
    for share in (0.0, 0.1, 0.6, 1.0):
        vector = np.where(random.random(1000) < share, random.normal(size=1000), 0.0).astype(np.float32)
        message, target = packed(vector), np.zeros(1000)
        message.add_to(target)
        assert np.array_equal(message.whole(), vector) and np.array_equal(target, vector)
        assert message.nbytes == min(4000, 8 * np.count_nonzero(vector))


# -- optima ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("loss", ["log", "hinge"])
def test_shards_reach_the_optimum(case: str, loss: str) -> None:
    problem = problem_of(case, loss).problem
    name = CASES[case][loss == "hinge"]
    found = trained(SequentialEngine(n_shards=3, n_workers=2), problem, name)
    check_certificate(problem, found, optimum(case, loss))


@pytest.mark.parametrize("name", ["lbfgs", "cg", "eg-primal", "bmrm"])
def test_batch_solvers_take_the_same_way(name: str) -> None:
    problem = problem_of("tied", "log").problem
    alone = solve(problem, solver_for(problem, name), tol=1e-3, max_passes=500)
    found = trained(SequentialEngine(n_shards=3), problem, name, tol=1e-3, max_passes=500)
    assert found.passes == alone.passes
    np.testing.assert_allclose(found.weights, alone.weights, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("settings", [{"n_shards": 10**9, "n_workers": 3}, {"n_shards": 2, "n_workers": 5}])
def test_no_shard_is_empty_and_workers_may_be_idle(settings: dict[str, int]) -> None:
    problem = problem_of("tied", "log").problem.shard(np.arange(6))
    best = solve(problem, solver_for(problem, "lbfgs"), tol=1e-10).certificate.primal
    dealt = deal(problem, settings["n_shards"])
    assert all(map(len, dealt)) and sorted(np.concatenate(dealt).tolist()) == list(range(6))
    for name in ("eg-gap", "lbfgs"):
        check_certificate(problem, trained(SequentialEngine(**settings), problem, name), best)


def test_an_l1_term() -> None:
    problem = small("tied", "log", l1=0.3, weighted=True).problem
    best = solve(problem, solver_for(problem, "lbfgs"), tol=1e-9, max_passes=2000).certificate.primal
    check_certificate(problem, trained(SequentialEngine(n_shards=3), problem), best)


# -- processes ------------------------------------------------------------------------------------------


def test_processes_agree_with_one_process_to_the_bit_and_leave_nothing_behind(started: Any) -> None:
    problem = problem_of("tied", "log").problem
    settings: dict[str, Any] = {"max_passes": 12, "tol": 1e-9}
    one = trained(SequentialEngine(n_shards=3, n_workers=1), problem, "eg-gap", **settings)
    with at_work_on(
        ProcessEngine(n_shards=3, n_workers=2), problem, solver_for(problem, "eg-gap", 1e-9)
    ) as at_work:
        many = solve(at_work.problem, at_work.solver, **settings)
        backend = at_work.solver.cluster.backend  # type: ignore[attr-defined]
        folder = backend.folder
        assert os.path.isdir(folder) and [process.poll() for process in started] == [None, None]
    assert np.array_equal(one.weights, many.weights)
    assert [record.dual for record in one.history] == [record.dual for record in many.history]
    assert all(process.poll() is not None for process in started) and not os.path.exists(folder)


def stop_answering(cluster: Any, pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker hangs, and is waited for two seconds, which is long for a round; the next one has time to start."""
    os.kill(pid, signal.SIGSTOP)
    timeout, start = cluster.pool.timeout, cluster.backend.start

    def start_with_time(worker: int) -> None:
        cluster.pool.timeout = timeout
        start(worker)

    cluster.pool.timeout = 2.0
    monkeypatch.setattr(cluster.backend, "start", start_with_time)


def test_workers_that_are_killed_or_hang_are_replaced(started: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One is killed before there is a snapshot, one after, and one stops answering, in the same run."""
    problem, words, calls = problem_of("tied", "log").problem, [], []
    engine = ProcessEngine(n_shards=3, n_workers=2, snapshot_every=2)
    with at_work_on(engine, problem, solver_for(problem, "eg-gap", TOL), words.append) as at_work:
        cluster = at_work.solver.cluster  # type: ignore[attr-defined]

        def callback(progress: Any) -> None:
            calls.append(progress)
            if len(calls) == 1:
                started[0].kill()
            elif len(calls) == 5:
                started[1].kill()
            elif len(calls) == 7:
                stop_answering(cluster, started[2].pid, monkeypatch)  # worker 0 again

        found = solve(at_work.problem, at_work.solver, tol=TOL, max_passes=2000, callback=callback)
    check_certificate(problem, found, optimum("tied", "log"))
    lost = [line for line in words if "is lost" in line]
    assert lost[0].startswith("worker 0 (shards 0, 2) is lost: it ended with code -9")
    assert lost[1].startswith("worker 1 (shards 1) is lost: it ended with code -9")
    assert any(line.startswith("worker 0 (shards 0, 2) is lost: it has not answered") for line in lost[2:])


def test_a_round_that_is_asked_for_again_changes_nothing() -> None:
    problem = problem_of("tied", "log").problem
    with at_work_on(SequentialEngine(n_shards=2), problem, solver_for(problem, "eg-gap")) as at_work:
        assert isinstance(at_work.solver, ShardedAscent)
        cluster, state = at_work.solver.cluster, at_work.solver.init(problem, np.random.default_rng(0))
        state, _ = at_work.solver.step(problem, state, np.random.default_rng(0))
        once = cluster.run_round(2, 0.0, 1)
        settled = cluster.settle()[0]
        again = cluster.run_round(2, 0.0, 1)
        assert all(
            np.array_equal(a.change.whole(), b.change.whole()) for a, b in zip(once, again, strict=True)
        )
        assert np.array_equal(cluster.settle()[0], settled)


def test_a_worker_that_is_lost_every_time_is_reported(started: Any) -> None:
    problem = problem_of("tied", "log").problem
    with (
        at_work_on(
            ProcessEngine(n_shards=1), problem, solver_for(problem, "lbfgs"), lambda words: None
        ) as at_work,
        pytest.raises(InputError, match="worker 0 was lost 3 times at set_up"),
    ):
        start = at_work.problem.cluster.backend.start  # type: ignore[attr-defined]

        def start_and_kill(worker: int) -> None:
            start(worker)
            started[-1].kill()

        at_work.problem.cluster.backend.start = start_and_kill  # type: ignore[attr-defined]
        solve(at_work.problem, at_work.solver)


# -- going on -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["eg-gap", "lbfgs"])
def test_a_run_goes_on_exactly(name: str, tmp_path: Path) -> None:
    problem = problem_of("tied", "log").problem
    settings: dict[str, Any] = {"n_shards": 3, "snapshot_every": 2}
    run: dict[str, Any] = {
        "tol": 1e-12,
        "certificate_every": 1,
    }  # the last pass of a run would have one anyway
    whole_run = trained(SequentialEngine(**settings), problem, name, max_passes=14, **run)
    kept = {**settings, "checkpoint": tmp_path / "run"}
    trained(SequentialEngine(**kept), problem, name, max_passes=6, **run)
    with pytest.raises(InputError, match="there is a run in this folder"):
        trained(SequentialEngine(**kept), problem, name)
    found = trained(SequentialEngine(**kept, resume=True), problem, name, max_passes=14, **run)
    assert np.array_equal(found.weights, whole_run.weights)


def test_lost_snapshots_are_no_obstacle(tmp_path: Path) -> None:
    problem, folder = problem_of("tied", "log").problem, tmp_path / "run"
    settings: dict[str, Any] = {"n_shards": 3, "snapshot_every": 2, "checkpoint": folder}
    trained(SequentialEngine(**settings), problem, "eg-gap", max_passes=6, tol=1e-12)
    for path in folder.glob("shard-*-1-*.npz"):
        path.unlink()
    found = trained(SequentialEngine(**settings, resume=True), problem, "eg-gap")
    check_certificate(problem, found, optimum("tied", "log"))


def test_damaged_snapshots_are_told(tmp_path: Path) -> None:
    problem, folder = problem_of("tied", "log").problem, tmp_path / "run"
    settings: dict[str, Any] = {"n_shards": 3, "snapshot_every": 2, "checkpoint": folder}
    trained(SequentialEngine(**settings), problem, "eg-gap", max_passes=6, tol=1e-12)
    for path in folder.glob("shard-*-1-*.npz"):
        path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match="is not a whole snapshot of this shard"):
        trained(SequentialEngine(**settings, resume=True), problem, "eg-gap")


# -- estimators -----------------------------------------------------------------------------------------


def test_estimators_train_on_an_engine(tmp_path: Path) -> None:
    X = [[["a"], ["b"]], [["b"], ["c"]], [["a"], ["c"]]] * 3
    y = [["A", "B"], ["B", "A"], ["A", "A"]] * 3
    alone = SequenceLabeler(tol=1e-4).fit(X, y)
    model = SequenceLabeler(tol=1e-4, engine=ProcessEngine(n_shards=2)).fit(X, y)
    assert model.converged_ and model.objective_ == pytest.approx(alone.objective_, rel=2e-4)
    assert model.predict(X) == alone.predict(X)
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").engine is None


def test_what_cannot_be_is_refused() -> None:
    X, y = np.eye(4), np.arange(4) % 2
    with pytest.raises(InputError, match="engine must be None, 'processes' or 'ray'"):
        Classifier(engine="spark").fit(X, y)
    with pytest.raises(InputError, match="solver 'sgd' cannot work on shards"):
        Classifier(engine=SequentialEngine(), solver="sgd").fit(X, y)
    with pytest.raises(InputError, match="n_shards must be a whole number"):
        SequentialEngine(n_shards=0)
    with pytest.raises(InputError, match="resume=True needs checkpoint"):
        SequentialEngine(resume=True)


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from partwise.cli import main

    def run(*arguments: str) -> int:
        with pytest.raises(SystemExit) as ended:
            main(["train", "sequence", str(tmp_path / "train"), "-m", str(tmp_path / "model"), *arguments])
        return int(ended.value.code or 0)

    (tmp_path / "train").write_text("a A\nb B\n\nb B\nc A\n\na A\nc A\n\n" * 5)
    engine = [
        "--engine",
        "processes",
        "--shards",
        "2",
        "--checkpoint",
        str(tmp_path / "run"),
        "--tol",
        "1e-5",
    ]
    assert run(*engine, "--max-passes", "6") == 0
    assert run(*engine) == 2 and "go on with it (resume)" in capsys.readouterr().err
    assert run(*engine, "--resume", "--json") == 0 and '"converged": true' in capsys.readouterr().out
    for wrong, words in {
        "--shards 2": "--shards needs --engine",
        "--engine spark": "--engine must be processes or ray",
        "--engine processes --address auto": "--address needs --engine ray",
        "--resume": "--resume needs --checkpoint",
        "--engine processes --shards 2 --checkpoint x --l2 1,2": "a path is kept with --path",
    }.items():
        assert run(*wrong.split()) == 2 and words in capsys.readouterr().err
