"""Kernels compiled for cards that are not there: what the interpreter, which runs them on the CPU, cannot tell."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
from data_paths import ROOT, SUPPORT

# Neither is imported here: other tests decide how Triton is, before it is.
if find_spec("torch") is None or find_spec("triton") is None:
    pytest.skip("kernels need PyTorch and Triton", allow_module_level=True)

KERNELS = ROOT / "src" / "partwise" / "torch" / "gpu"
MOST_SPILLED = 64  # bytes a thread: some registers more than there are, not a table


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[list[str]]]:
    """Rows of name, registers, spilled bytes, shared memory and options, by compute capability."""
    script, running = SUPPORT / "compile_kernels.py", {}
    for capability, which in ((90, "usual"), (80, "small")):
        environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path_factory.mktemp(str(capability)))}
        command = [sys.executable, "-W", "ignore", str(script), str(capability), which]
        running[capability] = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    found = {}
    for capability, process in running.items():
        told, complaint = process.communicate(timeout=300)
        assert process.returncode == 0, complaint[-3000:]
        found[capability] = [line.split("\t") for line in told.splitlines()]
    return found


def test_every_kernel_that_is_launched_compiles(compiled: dict[int, list[list[str]]]) -> None:
    names = {row[0] for row in compiled[90]}
    launched = set()
    for path in KERNELS.glob("*_kernel.py"):
        for piece in path.read_text().split("\n@triton.jit")[1:]:
            head = piece[piece.index("def ") + 4 :]
            if "tl.program_id(0)" in piece:
                launched.add(f"{path.stem}.{head[: head.index('(')]}")
    assert launched and launched <= names, launched - names


def test_registers_suffice(compiled: dict[int, list[list[str]]]) -> None:
    for rows in compiled.values():
        assert rows
        for name, registers, spilled, *_, options in rows:
            assert 0 < int(registers) <= 255 and int(spilled) <= MOST_SPILLED, (name, spilled, options)


def test_launches_with_an_unknown_version_of_triton() -> None:
    command = [sys.executable, "-W", "ignore", str(SUPPORT / "compile_kernels.py"), "80", "unknown"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
