"""Ray on nodes whose network is cut: each node is a network namespace of this machine. `make test-ray` runs this.

The limits of waits are short here, so that a cut is noticed within seconds. Their sum bounds each run.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from contract_solvers import problem_of

pytest.importorskip("ray", reason="Ray is an extra: pip install 'partwise[ray]'")

from test_distributed import trained

from partwise.distributed import SequentialEngine

pytestmark = pytest.mark.hostile

HEAD, WORKER = 1, 2  # numbers of the nodes
PORT = 6391
LONGEST = 150.0  # seconds of a whole run, far less than the waits without limits that are tested for

DRIVER = """
import sys
import numpy as np
from contract_solvers import problem_of
from test_distributed import trained
from partwise.distributed import RayEngine, ray_backend
from partwise.errors import InputError
ray_backend._ANSWERING = 8.0
if __name__ == "__main__":
    folder, max_passes, address = sys.argv[1:]
    settings = {"certificate_every": 1, "callback": lambda progress: print(progress.passes, flush=True)}
    settings["tol"], settings["max_passes"] = 1e-12, float(max_passes)
    engine = RayEngine(n_shards=3, n_workers=2, snapshot_every=2, checkpoint=folder, address=address, resume=True,
                       timeout=8.0)
    try:
        found = trained(engine, problem_of("tied", "log").problem, "eg-gap", **settings)
    except InputError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    print(found.certificate.dual, found.certificate.primal)
    np.save(folder + "/weights.npy", found.weights)
"""


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class Network:
    """Nodes with addresses of their own, joined by a bridge."""

    def __init__(self) -> None:
        self.name = f"pw{secrets.token_hex(3)}"  # interfaces have 15 characters at most
        self.token = {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
        }  # made up for this test
        path = os.pathsep.join(filter(None, sys.path))
        self.environment = {**os.environ, **self.token, "PYTHONPATH": path}
        ip("link", "add", self.name, "type", "bridge")
        ip("link", "set", self.name, "up")
        for node in (HEAD, WORKER):
            space, outside = self.space(node), self.space(node) + "o"
            ip("netns", "add", space)
            ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("link", "set", outside, "master", self.name, "up")
            for words in ("link set lo up", f"addr add {self.address(node)}/24 dev eth0", "link set eth0 up"):
                ip("-n", space, *words.split())

    def space(self, node: int) -> str:
        return f"{self.name}n{node}"

    def address(self, node: int) -> str:
        return f"10.213.77.{node}"

    def cut(self, node: int) -> None:
        ip("link", "set", self.space(node) + "o", "down")

    def heal(self, node: int) -> None:
        ip("link", "set", self.space(node) + "o", "up")

    def command(self, node: int, *command: str) -> list[str]:
        return ["ip", "netns", "exec", self.space(node), *command]

    def start_ray(self, node: int, folder: Path) -> None:
        options = [f"--node-ip-address={self.address(node)}", "--num-cpus=2", "--disable-usage-stats"]
        if node == HEAD:
            options += ["--head", f"--port={PORT}", "--include-dashboard=false", f"--temp-dir={folder}"]
        else:
            options += [f"--address={self.address(HEAD)}:{PORT}"]
        program = str(Path(sys.executable).with_name("ray"))
        command = self.command(node, program, "start", *options)
        subprocess.run(command, env=self.environment, check=True, capture_output=True, timeout=120)

    def driver(self, node: int, folder: Path, max_passes: int) -> subprocess.Popen[str]:
        address = f"{self.address(HEAD)}:{PORT}"
        command = self.command(node, sys.executable, "-c", DRIVER, str(folder), str(max_passes), address)
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, env=self.environment, text=True, **pipes)  # type: ignore[call-overload,no-any-return]

    def end_ray(self, node: int) -> None:
        """End all processes of a node."""
        found = subprocess.run(["ip", "netns", "pids", self.space(node)], capture_output=True, text=True)
        for pid in found.stdout.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), 9)

    def close(self) -> None:
        for node in (HEAD, WORKER):
            self.end_ray(node)
            ip("netns", "del", self.space(node))
        ip("link", "del", self.name)


@pytest.fixture
def network() -> Iterator[Network]:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("only root can make network namespaces")
    try:
        found = Network()
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespaces here: {error.stderr.decode().strip()}")
    # Ray's sockets need a short path.
    folder = Path("/tmp") / found.name
    try:
        found.start_ray(HEAD, folder)
        found.start_ray(WORKER, folder)
        yield found
    finally:
        found.close()
        shutil.rmtree(folder, ignore_errors=True)


def wait_for_passes(driver: subprocess.Popen[str], n: int) -> None:
    assert driver.stdout is not None
    assert all([driver.stdout.readline() for _ in range(n)])


def whole_run(max_passes: int) -> np.ndarray:
    engine = SequentialEngine(n_shards=3, n_workers=2, snapshot_every=2)
    settings = {"tol": 1e-12, "max_passes": float(max_passes), "certificate_every": 1}
    return trained(engine, problem_of("tied", "log").problem, "eg-gap", **settings).weights


def test_a_node_behind_a_cut_network_is_replaced(network: Network, tmp_path: Path) -> None:
    """The optimum is certified without the lost node."""
    driver = network.driver(HEAD, tmp_path / "run", 400)
    wait_for_passes(driver, 6)
    network.cut(WORKER)
    out, said = driver.communicate(timeout=LONGEST)
    assert driver.returncode == 0, said
    dual, primal = map(float, out.splitlines()[-1].split())
    assert primal - dual <= 1e-6 * primal


def test_a_short_cut_changes_nothing(network: Network, tmp_path: Path) -> None:
    driver = network.driver(HEAD, tmp_path / "run", 60)
    wait_for_passes(driver, 6)
    network.cut(WORKER)
    time.sleep(2)
    network.heal(WORKER)
    _, said = driver.communicate(timeout=LONGEST)
    assert driver.returncode == 0 and "is lost" not in said, said
    assert np.array_equal(np.load(tmp_path / "run" / "weights.npy"), whole_run(60))


def test_a_driver_behind_a_cut_network_ends_with_one_line(network: Network, tmp_path: Path) -> None:
    """It ends within its limits, and the run goes on when the network is back, to the bit."""
    driver = network.driver(WORKER, tmp_path / "run", 100_000)
    wait_for_passes(driver, 9)
    network.cut(WORKER)
    _, said = driver.communicate(timeout=LONGEST)
    lines = [line for line in said.splitlines() if "worker" not in line]
    assert driver.returncode == 2, said
    assert (
        lines[-1].startswith(f"the Ray cluster at {network.address(HEAD)}:{PORT} ") and "resume" in lines[-1]
    )
    network.heal(WORKER)
    again = network.driver(HEAD, tmp_path / "run", 30)
    _, said = again.communicate(timeout=LONGEST)
    assert again.returncode == 0, said
    assert np.array_equal(np.load(tmp_path / "run" / "weights.npy"), whole_run(30))
