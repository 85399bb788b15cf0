"""benchmarks/reproduce.py: the page says what the numbers say, and curves called the paper's are the paper's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from data_paths import ROOT
from problems import small

sys.path.insert(0, str(ROOT / "benchmarks"))

import reproduce
from reproduction import traces
from reproduction.curves import DUAL, PASSES, PRIMAL, AsPublished, curve, published_eg
from reproduction.experiment import UNTRACED, Numbers
from reproduction.pages import PAGE, page
from reproduction.paths import auto_path, warm_path

from partwise.solvers import ExponentiatedGradient, solver_for

MEASURED = [each for each in reproduce.EXPERIMENTS.values() if each.numbers() is not None]


def test_the_page_is_what_the_numbers_and_the_solvers_make() -> None:
    """It names numbers that are older than their solvers. If this fails: python benchmarks/reproduce.py --pages."""
    assert PAGE.read_text(encoding="utf-8") == page(reproduce.EXPERIMENTS)


@pytest.mark.parametrize("experiment", MEASURED, ids=lambda each: each.name)
def test_there_is_a_small_picture_of_every_experiment(experiment: Any) -> None:
    assert 0 < experiment.picture.stat().st_size <= 100_000


def test_no_picture_or_file_is_left_over() -> None:
    pictures = {each.picture for each in MEASURED}
    assert set(next(iter(pictures)).parent.iterdir()) == pictures
    files = {each.json_file for each in MEASURED}
    assert set(next(iter(files)).parent.iterdir()) == files


# -- what a paper's curve is -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def problem() -> Any:
    return small("tied", "log", n=30, l2=0.3).problem


class Watched(ExponentiatedGradient):
    """Notes the last v and the visits of every step."""

    def step(self, problem: Any, state: Any, random: np.random.Generator) -> Any:
        state, info = super().step(problem, state, random)
        self.seen.append((state.v.copy(), info.passes))  # type: ignore[attr-defined]
        return state, info


def test_published_curves_have_the_last_weights_and_count_every_step_tried(problem: Any) -> None:
    solver = Watched("random", initial_step=1.0, precision="double")
    object.__setattr__(solver, "seen", [])
    points = curve(problem, AsPublished(solver), 6.0)
    passes = 0.0
    for point, (v, more) in zip(points, solver.seen, strict=True):  # type: ignore[attr-defined]
        passes += more
        assert point[PASSES] == pytest.approx(passes)
        assert point[PRIMAL] == pytest.approx(problem.primal(v / problem.l2), rel=1e-9)
        assert point[DUAL] <= point[PRIMAL]
    assert passes > len(points)  # some steps were halved
    averaged = curve(problem, ExponentiatedGradient("random", initial_step=1.0, precision="double"), 6.0)
    assert averaged[-1][PRIMAL] != pytest.approx(points[-1][PRIMAL], rel=1e-6)


def test_a_race_has_curves_too(problem: Any) -> None:
    """The state of "auto" is not a tuple of arrays."""
    points = curve(problem, solver_for(problem, "auto", 1e-3), 6.0)
    assert points and all(point[DUAL] <= point[PRIMAL] for point in points)


def test_a_path_keeps_its_tolerance_and_its_steps(problem: Any) -> None:
    l2s = [3.0, 1.0, 0.3]
    published = AsPublished(ExponentiatedGradient("random", precision="double"))
    rows = warm_path(problem, published, l2s, 1e-3, lambda passes, weights: problem.primal(weights))
    ours = auto_path(problem, l2s, 1e-3, lambda passes, weights: problem.primal(weights))
    assert [row["l2"] for row in rows] == [row["l2"] for row in ours] == l2s
    assert all(row["gap"] <= 1e-3 for row in [*rows, *ours])
    assert rows[-1]["seen"] == pytest.approx(ours[-1]["seen"], rel=2e-3)
    state = published.init(problem, np.random.default_rng(0))
    state.step[:] = 0.7
    assert (published.carry_over(problem.with_l2(0.1), state, {"l2"}).step == 0.7).all()


# -- files and the command ---------------------------------------------------------------------------


def test_a_run_that_was_cut_off_goes_on_where_it_was(tmp_path: Path) -> None:
    calls: list[str] = []

    def value(name: str) -> float:
        calls.append(name)
        return 1.0 / 3.0

    file = tmp_path / "numbers.json"
    Numbers(file).once("one", value, "one")
    later = Numbers(file)
    later.once("one", value, "one")
    later.once("two", value, "two")
    later.finish("both")
    assert calls == ["one", "two"]
    read = Numbers(file)
    assert read.finished == ["both"] and read.values == {"one": 0.3333333, "two": 0.3333333}
    again = Numbers(file, again=True)
    again.once("one", value, "again")
    again.once("one", value, "again")
    assert calls == ["one", "two", "again"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["mnist-path", "--data", "nowhere"],
            "mnist-path needs the data set mnist; --data nowhere has no such",
        ),
        (["figure-99"], "there is no 'figure-99'; --list shows"),
    ],
)
def test_bad_calls_are_told_in_one_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "reproduce.py"), *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert done.returncode and message in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("experiment", MEASURED, ids=lambda each: each.name)
def test_every_number_carries_the_commit_it_was_made_with(experiment: Any) -> None:
    numbers = Numbers(experiment.json_file)
    assert numbers.commits.keys() == numbers.values.keys()
    assert all(re.fullmatch(r"[0-9a-f]{7,}\+?", each) for each in numbers.commits.values())
    assert ", ".join(experiment.commits()) in PAGE.read_text(encoding="utf-8").replace("\n", " ")


def test_every_experiment_names_its_solvers() -> None:
    for each in reproduce.EXPERIMENTS.values():
        assert each.solvers and set(each.solvers) <= set(traces.names())
    used = {name for each in reproduce.EXPERIMENTS.values() for name in each.solvers}
    assert used == set(traces.names())


def test_numbers_are_old_once_their_solver_does_something_else(tmp_path: Path) -> None:
    file, solver = tmp_path / "numbers.json", "eg, digits"
    Numbers(file, solvers=(solver, "sgd, digits")).once("one", lambda: 1.0)
    (made,) = set(Numbers(file).commits.values())
    experiment = replace(MEASURED[0], solvers=(solver, "sgd, digits"))
    assert experiment.changed_since(Numbers(file)) == {}
    changed = Numbers(file)
    changed.traces[made][solver][3] *= 1.001
    assert experiment.changed_since(changed) == {made: [solver]}
    del changed.traces[made]
    assert experiment.changed_since(changed) == {made: [UNTRACED]}


def test_a_trace_shows_a_change_of_the_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same again, but not with another step size."""
    traces.trace.cache_clear()
    first = traces.trace("eg, digits")
    traces.trace.cache_clear()
    assert traces.trace("eg, digits") == first and len(first) == 2 * traces.N_STEPS
    traces.trace.cache_clear()
    monkeypatch.setattr("reproduction.curves.published_eg", lambda: published_eg(initial_step=0.4))
    assert not traces.is_same(first, traces.trace("eg, digits"))
    traces.trace.cache_clear()
