"""A second process compiles what is called by address; whatever becomes of it, everything is there in the end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import subprocess, sys
started = []
class Recorded(subprocess.Popen):
    def __init__(self, *arguments, **settings):
        super().__init__(*arguments, **settings)
        started.append(self)
subprocess.Popen = Recorded
from partwise.compiled import background_compile
from partwise.compiled.clock import kernels_compiled
from partwise.compiled.row_tasks import row_tasks
from partwise.structures import Multiclass

what = sys.argv[1]
if what == "frozen":
    sys.frozen = True
tasks = [Multiclass(2).oracle.task("sums"), *row_tasks("single")]
background_compile.start(tasks)
if what == "killed":
    started[0].kill()
elif what == "waiting":
    started[0].wait()
functions = [background_compile.obtain(task) for task in tasks]
assert all(each.address for each in functions)
print(len(started), len(functions) - kernels_compiled())
"""


@pytest.mark.parametrize(
    ("what", "n_helpers", "n_loaded"),
    [("waiting", 1, 3), ("killed", 1, 0), ("frozen", 0, 0)],
)
def test_tasks_are_compiled_by_somebody(tmp_path: Path, what: str, n_helpers: int, n_loaded: int) -> None:
    if (os.cpu_count() or 1) < 2:
        pytest.skip("one core has nobody to share with")
    environment = {**os.environ, "PARTWISE_NO_LIBRARY": "1", "PARTWISE_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", SCRIPT, what]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert [int(word) for word in done.stdout.split()] == [n_helpers, n_loaded]
    again = [sys.executable, "-c", SCRIPT, "again"]  # everything is on disk by now
    done = subprocess.run(again, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert [int(word) for word in done.stdout.split()] == [0, 3], done.stderr


def test_no_folder_of_claims_is_left_behind(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PARTWISE_NO_LIBRARY": "1",
        "PARTWISE_CACHE_DIR": str(tmp_path / "cache"),
        "TMPDIR": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, "shared"], env=environment, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.glob("partwise-compiling-*"))
