"""Kernels: what Python hands over and gets back, what the compiler leaves alone, and the same code by every way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from partwise.compiled.dispatch import entry, inner
from partwise.compiled.kernels import described


class Inside(NamedTuple):
    number: float
    array: np.ndarray


class Outside(NamedTuple):
    inside: Inside
    count: int
    is_set: bool


@entry
def sums(matrix, record, nothing, pair, whole, half, flag):  # type: ignore
    if nothing is not None:
        return 0.0, 0, False
    total = record.inside.number + record.inside.array.sum() + pair[0] + pair[1].size + half
    return total + matrix[matrix.shape[0] - 1, 0], whole + record.count, flag and not record.is_set


@entry
def nothing_much(x):  # type: ignore
    x[0] += 1


@entry
def back(x):  # type: ignore
    return x


@entry(allocates=True)
def sorted_sum(x, n):  # type: ignore
    copies = np.zeros((n, x.size))
    for k in range(n):
        copies[k] = np.sort(x) * k
    return copies.sum()


@entry(allocates=True)
def too_much(n):  # type: ignore
    return np.empty(n)[n - 1]


def test_arguments_and_results() -> None:
    record = Outside(Inside(0.5, np.arange(3.0)), 7, False)
    matrix = np.array([[1.0, 2.0], [30.0, 4.0]])
    expected = (0.5 + 3.0 + 2 + 4 + 0.25 + 30.0, 8, True)
    assert sums(matrix, record, None, (2, np.zeros(4)), 1, 0.25, True) == expected
    assert sums(half=0.25, flag=True, whole=np.int32(1), pair=(2, np.zeros(4)), nothing=None,
                record=record, matrix=matrix) == expected  # fmt: skip
    # Another type of array is another kernel.
    single = sums(matrix.astype(np.float32), record, None, (2, np.zeros(4)), 1, 0.25, np.bool_(True))
    assert single == expected and sums.n_kernels == 2


@pytest.mark.parametrize("value", [3, -(2**63), 2**63 - 1, 0.1, -0.0, float("inf"), True, np.float32(0.5)])
def test_numbers_come_back_as_they_were(value: Any) -> None:
    found = back(value)
    assert found == value and isinstance(
        found, type(value.item() if isinstance(value, np.generic) else value)
    )


def test_arrays_are_changed_in_place_and_must_be_contiguous() -> None:
    x = np.zeros(4)
    assert nothing_much(x) is None and x[0] == 1
    read_only = x[1:]
    nothing_much(read_only)
    assert x[1] == 1
    with pytest.raises(TypeError, match="contiguous"):
        nothing_much(x[::2])
    with pytest.raises(TypeError, match="cannot read a list"):
        nothing_much([1.0])
    with pytest.raises(OverflowError):
        back(2**63)


def test_arrays_made_by_compiled_code_are_freed() -> None:
    import resource

    x = np.random.default_rng(0).normal(size=100_000)
    assert np.isclose(sorted_sum(x, 10), x.sum() * 45)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(100):
        sorted_sum(x, 10)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kilobytes; a leak is 800 MB


def test_no_room_for_an_array_is_an_exception() -> None:
    with pytest.raises(MemoryError):
        too_much(2**58)


def test_types_are_read_as_they_are_described() -> None:
    from partwise.compiled.numba_compiler import types_of

    record = Outside(Inside(0.5, np.arange(3.0)), 7, False)
    text = described((record, np.zeros((2, 2), np.uint8), (1, (2.0,)), None))
    assert text == (
        f"({__name__}:Outside({__name__}:Inside(float,float64[1]),int,bool),uint8[2],(int,(float)),none)"
    )
    found = types_of(text)
    assert [each.name for each in found[2]] == ["int64", "UniTuple(float64 x 1)"] and found[1].ndim == 2
    assert found[0].instance_class is Outside


def test_inner_functions_become_known_wherever_they_are() -> None:
    @inner
    def doubled(x):  # type: ignore
        return 2.0 * x

    @entry
    def asked(x):  # type: ignore
        return doubled(x)

    assert asked(4.0) == 8.0


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

assert asked(4) == 12.0
assert codegen.CPUCodeLibrary._optimize_final_module is before
alone = numba.njit(total.py_func)
alone(4)
# Optimisation removes nearly all instructions of this kind; wrappers keep some.
n_stored = [next(iter(each.inspect_llvm().values())).count("alloca") for each in (total, alone)]
print(n_stored[0] == n_stored[1], total(4))
"""

HELPED = """
import numpy as np
from partwise.compiled.clock import kernels_compiled
from partwise.compiled.dispatch import entry

@entry(allocates=True)
def copied(to, x):  # Numba's copy of what may overlap calls a function of its own
    to[:] = x[: to.size]

@entry
def doubled(x):
    return 2.0 * x

to = np.zeros(2)
copied(to, np.arange(3.0))
print(to[1], doubled(2.0), kernels_compiled())
"""

WITHOUT = """
import sys
sys.modules["numba"] = None
from partwise.structures import Multiclass
try:
    Multiclass(4).log_partition([1.0, 2.0, 3.0, 4.0])
except ImportError as error:
    print(error)
"""


def output_of(script: str, folder: Path) -> str:
    path = folder / "script.py"
    path.write_text(script)
    environment = {**os.environ, "PARTWISE_NO_LIBRARY": "1", "PARTWISE_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_functions_of_others_are_compiled_as_usual(tmp_path: Path) -> None:
    assert output_of(OTHERS, tmp_path).split() == ["True", "6.0"]


def test_code_that_needs_numba_is_not_kept_for_processes_without_it(tmp_path: Path) -> None:
    assert output_of(HELPED, tmp_path) == "1.0 4.0 2\n"
    assert output_of(HELPED, tmp_path) == "1.0 4.0 1\n"


def test_without_library_and_compiler_one_line_says_what_to_install(tmp_path: Path) -> None:
    said = output_of(WITHOUT, tmp_path)
    assert said.count("\n") == 1 and "numba is not installed: pip install 'partwise[jit]'" in said
