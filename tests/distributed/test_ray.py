"""The same runs on a local Ray cluster: `make test-ray`."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract_solvers import optimum, problem_of

ray = pytest.importorskip("ray", reason="Ray is an extra: pip install 'partwise[ray]'")

from test_distributed import check_certificate, stop_answering, trained  # noqa: E402

from partwise import InputError, SequenceLabeler  # noqa: E402
from partwise.distributed import RayEngine, SequentialEngine, at_work_on  # noqa: E402
from partwise.solvers import solve, solver_for  # noqa: E402

TOL = 1e-5


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """A cluster with fewer processors than some tests have shards; the engines find it."""
    path = os.pathsep.join(filter(None, sys.path))
    environment = {"env_vars": {"PYTHONPATH": path}}
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False, runtime_env=environment)
    yield
    ray.shutdown()


@pytest.mark.parametrize(
    ("case", "loss", "name"),
    [("tied", "log", "eg-gap"), ("multiclass", "hinge", "crammer-singer"), ("tied", "log", "lbfgs")],
)
def test_agrees_with_one_process_to_the_bit(case: str, loss: str, name: str) -> None:
    problem = problem_of(case, loss).problem
    settings: dict[str, Any] = {"max_passes": 8, "tol": 1e-9}
    one = trained(SequentialEngine(n_shards=4), problem, name, **settings)
    other = trained(RayEngine(n_shards=4, n_workers=2), problem, name, **settings)
    assert np.array_equal(one.weights, other.weights)
    assert [record.dual for record in one.history] == [record.dual for record in other.history]


def pid_of(backend: Any, worker: int) -> int:
    return ray.get(backend._actors[worker].answer.remote("process"))


def kill_in_the_next_round(backend: Any, worker: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request is under way when its worker ends."""
    send, pid, done = backend.send, pid_of(backend, worker), []

    def send_and_kill(to: int, method: str, arguments: tuple[Any, ...]) -> None:
        send(to, method, arguments)
        if to == worker and method == "run_round" and not done:
            done.append(os.kill(pid, signal.SIGKILL))

    monkeypatch.setattr(backend, "send", send_and_kill)


def test_workers_that_are_killed_or_hang_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """One is killed between rounds, one within a round, and one stops answering, in the same run."""
    problem, words, calls = problem_of("tied", "log").problem, [], []
    engine = RayEngine(n_shards=3, n_workers=2, snapshot_every=2)
    with at_work_on(engine, problem, solver_for(problem, "eg-gap", TOL), words.append) as at_work:
        cluster = at_work.solver.cluster  # type: ignore[attr-defined]
        backend = cluster.backend

        def callback(progress: Any) -> None:
            calls.append(progress)
            if len(calls) == 3:
                os.kill(pid_of(backend, 0), signal.SIGKILL)
            elif len(calls) == 5:
                kill_in_the_next_round(backend, 1, monkeypatch)
            elif len(calls) == 7:
                stop_answering(cluster, pid_of(backend, 1), monkeypatch)

        found = solve(at_work.problem, at_work.solver, tol=TOL, max_passes=2000, callback=callback)
    check_certificate(problem, found, optimum("tied", "log"))
    lost = [line for line in words if "is lost" in line]
    assert lost[0].startswith("worker 0 (shards 0, 2) is lost") and "not answered" not in lost[0]
    assert lost[1].startswith("worker 1 (shards 1) is lost") and "not answered" not in lost[1]
    assert any(line.startswith("worker 1 (shards 1) is lost: it has not answered") for line in lost[2:])


def test_a_slow_worker_changes_nothing() -> None:
    """It stands still for three seconds in the middle of the run, and the others wait for it."""
    problem, words, calls, woken = problem_of("tied", "log").problem, [], [], []
    settings: dict[str, Any] = {"max_passes": 20, "tol": 1e-12}
    engine = RayEngine(n_shards=3, n_workers=2)
    with at_work_on(engine, problem, solver_for(problem, "eg-gap", TOL), words.append) as at_work:
        backend = at_work.solver.cluster.backend  # type: ignore[attr-defined]

        def callback(progress: Any) -> None:
            calls.append(progress)
            if len(calls) == 3:
                pid = pid_of(backend, 1)
                os.kill(pid, signal.SIGSTOP)
                threading.Timer(3.0, lambda: woken.append(os.kill(pid, signal.SIGCONT))).start()

        found = solve(at_work.problem, at_work.solver, callback=callback, **settings)
        assert woken  # before the run ended
    one = trained(SequentialEngine(n_shards=3), problem, "eg-gap", **settings, callback=lambda progress: None)
    assert np.array_equal(found.weights, one.weights)
    assert not [line for line in words if "is lost" in line]


def test_empty_shards_and_more_workers_than_shards() -> None:
    problem = problem_of("tied", "log").problem.shard(np.arange(2))
    best = solve(problem, solver_for(problem, "lbfgs"), tol=1e-10).certificate.primal
    check_certificate(problem, trained(RayEngine(n_shards=5, n_workers=1), problem, "eg-gap"), best)
    check_certificate(problem, trained(RayEngine(n_shards=1, n_workers=2), problem, "eg-gap"), best)


def test_more_workers_than_processors_are_told() -> None:
    problem = problem_of("tied", "log").problem
    engine = RayEngine(n_shards=4, n_workers=4, timeout=1.0)
    with pytest.raises(InputError, match="a processor that the cluster lacks"):
        trained(engine, problem, "eg-gap")


DRIVER = """
import sys
import numpy as np
from contract_solvers import problem_of
from test_distributed import trained
from partwise.distributed import RayEngine
if __name__ == "__main__":
    folder, max_passes, address = sys.argv[1:]
    settings = {"certificate_every": 1, "callback": lambda progress: print(progress.passes, flush=True)}
    settings["tol"], settings["max_passes"] = 1e-12, float(max_passes)
    engine = RayEngine(
        n_shards=3, n_workers=2, snapshot_every=2, checkpoint=folder, address=address or None, resume=True
    )
    found = trained(engine, problem_of("tied", "log").problem, "eg-gap", **settings)
    np.save(folder + "/weights.npy", found.weights)
"""


def test_a_killed_driver_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    problem, folder = problem_of("tied", "log").problem, tmp_path / "run"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", DRIVER, str(folder), "100000", ""]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(9)]
    process.kill()
    process.wait(30)
    assert all(lines) and (folder / "run.npz").exists()
    engine = {"n_shards": 3, "n_workers": 2, "snapshot_every": 2}
    settings: dict[str, Any] = {"tol": 1e-12, "max_passes": 30, "certificate_every": 1}
    found = trained(RayEngine(**engine, checkpoint=folder, resume=True), problem, "eg-gap", **settings)
    whole = trained(SequentialEngine(**engine), problem, "eg-gap", **settings)
    assert np.array_equal(found.weights, whole.weights)


def started_head(port: int, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """A cluster of its own processes, on this machine alone."""
    program = Path(sys.executable).with_name("ray")
    options = ["--head", "--block", f"--port={port}", "--node-ip-address=127.0.0.1", "--num-cpus=2"]
    options += ["--include-dashboard=false", "--disable-usage-stats"]
    nowhere = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([program, "start", *options], env=environment, start_new_session=True, **nowhere)


def test_a_run_goes_on_after_the_head_of_its_cluster_was_lost(tmp_path: Path) -> None:
    """A driver whose head is gone ends; the checkpoint is what is left, and a new head at that address will do."""
    folder, [port] = tmp_path / "run", free_ports(1)
    token = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
    }  # the cluster's own, made up here
    environment = {**os.environ, **token, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    heads, driver = [started_head(port, environment)], [sys.executable, "-c", DRIVER, str(folder)]
    try:
        command = [*driver, "100000", f"127.0.0.1:{port}"]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert all([process.stdout.readline() for _ in range(9)])
        os.killpg(heads[0].pid, signal.SIGKILL)
        process.communicate(timeout=240)
        assert process.returncode not in (None, 0) and (folder / "run.npz").exists()
        heads.append(started_head(port, environment))
        subprocess.run([*driver, "30", f"127.0.0.1:{port}"], env=environment, check=True, timeout=240)
    finally:
        for head in heads:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(head.pid, signal.SIGKILL)
            head.wait(30)
    engine = SequentialEngine(n_shards=3, n_workers=2, snapshot_every=2)
    problem, settings = problem_of("tied", "log").problem, {"tol": 1e-12, "certificate_every": 1}
    whole = trained(engine, problem, "eg-gap", max_passes=30, **settings)
    assert np.array_equal(np.load(folder / "weights.npy"), whole.weights)


def free_ports(n: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(n)]
        return [wire.getsockname()[1] for wire in wires]


def test_estimators_and_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = [[["a"], ["b"]], [["b"], ["c"]], [["a"], ["c"]]] * 3, [["A", "B"], ["B", "A"], ["A", "A"]] * 3
    assert SequenceLabeler(engine="ray").fit(X, y).converged_
    ray.shutdown()
    monkeypatch.setattr("partwise.distributed.ray_backend._REACHING", 5.0)
    with pytest.raises(InputError, match="cannot reach the Ray cluster at"):
        SequenceLabeler(engine=RayEngine(address="127.0.0.1:1")).fit(X, y)
