"""Partwise compiles and runs if Numba's private parts are missing or changed, and leaves other people's code alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# What differs in a Numba of another version. Numba itself goes on working.
MISSING = {
    "nothing": "",
    "options": "import numba.core.options as o; del o.DefaultOptions._nrt, o.DefaultOptions.no_cpython_wrapper",
    "optimiser": "import numba.core.codegen as c; del c.CPUCodeLibrary",
    "function cache": "import numba.core.ccallback, numba.core.caching as c; del c.FunctionCache",
    "index file": "import numba.core.caching as c; del c.IndexDataCacheFile._data_name",
    "runtime": "import numba.core.runtime as r; del r.rtsys",
    "callback": "import numba.core.ccallback as c; del c.CFunc.enable_caching",
}
STRUCTURE = """
import numpy as np
from partwise.structures import Multiclass
structure = Multiclass(4)
print(round(structure.log_partition(np.arange(4.0)), 6), structure.argmax(np.arange(4.0)))
"""
FIT = """
import numpy as np
from partwise import Classifier
X = np.repeat(np.eye(3), 4, 0)
model = Classifier(solver="eg-gap", tol=1e-3, max_passes=50).fit(X, X.argmax(1))
print(model.converged_, (model.predict(X) == X.argmax(1)).all())
"""
OTHERS = """
import numba
import numba.core.codegen as codegen
before = codegen.CPUCodeLibrary._optimize_final_module
from partwise.compiled.dispatch import entry, inner

@numba.njit
def total(x):
    result = 0.0
    for i in range(x):
        result += i
    return result

@inner
def doubled(x):
    return 2.0 * total(x)

@entry
def asked(x):
    return doubled(x)

assert codegen.CPUCodeLibrary._optimize_final_module is before
assert asked(4) == 12.0
assert codegen.CPUCodeLibrary._optimize_final_module is before
alone = numba.njit(total.py_func)
alone(4)
# Optimisation removes nearly all instructions of this kind; wrappers keep some.
n_stored = [next(iter(each.inspect_llvm().values())).count("alloca") for each in (total, alone, doubled)]
print(n_stored[0] == n_stored[1], "alloca" in next(iter(doubled.inspect_llvm().values())))
"""

CALLBACK = """
from partwise.structures.chain.forward_backward import CHAIN

oracle = CHAIN("best")
oracle.compile()
lines = oracle._callback.inspect_llvm().splitlines()
defined = [line for line in lines if line.startswith("define") and "partwise" in line]
print(len(defined) > 0, any("linkonce" in line for line in defined))
"""


def output_of(script: str, folder: Path) -> str:
    path = folder / "script.py"
    path.write_text(script)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("part", MISSING)
def test_structures_compile_without_a_private_part(part: str, tmp_path: Path) -> None:
    script = f"import numba\n{MISSING[part]}\n{STRUCTURE}"
    assert output_of(script, tmp_path) == "3.44019 3\n"
    is_kept = part in ("nothing", "options", "optimiser", "callback")
    assert is_kept == any((tmp_path / "cache").rglob("*.nbc"))
    assert output_of(script, tmp_path) == "3.44019 3\n"


def test_training_works_with_an_unknown_version_of_numba(tmp_path: Path) -> None:
    script = f"import numba\nnumba.__version__ = '9.1.0'\n{FIT}"
    assert output_of(script, tmp_path) == "True True\n"


def test_functions_of_others_are_optimised_as_usual(tmp_path: Path) -> None:
    assert output_of(OTHERS, tmp_path).split() == ["True", "True"]


def test_callbacks_keep_their_inner_functions_to_themselves(tmp_path: Path) -> None:
    # Two processes number functions alike. Visible ones of code that another process compiled can take the place of
    # this one's.
    assert output_of(CALLBACK, tmp_path).split() == ["True", "False"]
