"""The method in plain NumPy (`examples/method.py`) finds the library's optimum, and its page shows what it prints."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import numpy as np
import pytest
from data_paths import ROOT

from partwise import SequenceLabeler

L2, TOL = 1.0, 1e-4


@pytest.fixture
def method(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "examples")
    return import_module("method")


def test_optimum_is_that_of_the_library(method: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    X, y = method.data()
    examples = [method.encode(*pair, n_labels=4) for pair in zip(X, y, strict=True)]
    _, lower, upper = method.train(examples, L2, TOL)
    model = SequenceLabeler(l2=L2, tol=TOL).fit(X, y)
    assert upper - lower <= TOL * upper
    assert max(lower, model.dual_objective_) <= min(upper, model.objective_)
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) > 5
    page = (ROOT / "docs" / "method.md").read_text(encoding="utf-8").splitlines()
    shown = page[page.index(printed[0]) :][: len(printed)]
    assert np.allclose(bounds_in(shown), bounds_in(printed), rtol=1e-4)


def bounds_in(lines: list[str]) -> list[list[float]]:
    """The lower and the upper bound of each pass in a printed table."""
    return [[float(number) for number in line.split()[1:3]] for line in lines[1:]]
