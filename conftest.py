"""Tests run on the library of compiled code, if it was built, and see that nothing is missing in it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from partwise.compiled import library

_VARIABLE = "PARTWISE_KERNEL_LIST"
_LIST = Path(library.__file__).with_name("kernels.txt")


def pytest_configure(config: pytest.Config) -> None:
    # Every process of the tests names the kernels that it asks for. Those of xdist inherit the variable.
    if _VARIABLE not in os.environ:
        handle, os.environ[_VARIABLE] = tempfile.mkstemp(prefix="partwise-kernels-")
        os.close(handle)
        config.stash[_OWN] = Path(os.environ[_VARIABLE])


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail if the library would not serve what the tests asked for."""
    asked_for = session.config.stash.get(_OWN, None)
    if asked_for is None:
        return
    ours = {line for line in asked_for.read_text().splitlines() if line.startswith("partwise.")}
    missing = sorted(ours - set(_LIST.read_text().splitlines()))
    asked_for.unlink()
    if missing:
        print("\nnot in compiled/kernels.txt; run `make kernel-list`:", *missing, sep="\n")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


_OWN = pytest.StashKey[Path]()
