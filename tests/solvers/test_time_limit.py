"""Time limits within passes, for solvers that visit examples and solvers that sum over all of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from problems import small

import partwise.core.time_limit as time_limit
import partwise.solvers.timing as timing
from partwise import SequenceLabeler, load
from partwise.core.time_limit import Deadline, OutOfTimeError, summed_in_time, until, visited_in_time
from partwise.solvers import SOLVERS, StopReason, solve

SMOOTH = ("eg-gap", "eg", "sdca", "lbfgs", "cg", "sgd", "mira", "eg-batch", "auto")
HARD = ("bcfw", "chain-cd", "segments", "frank-wolfe", "eg-gap", "svm-struct", "bmrm", "extragradient")


@pytest.fixture
def ticking(monkeypatch):
    """A clock that advances by one second whenever training looks at it; every example is a piece of work."""
    seconds = count()

    def look() -> tuple[float, float]:
        return float(next(seconds)), 0.0

    for module in (time_limit, timing):
        monkeypatch.setattr(module, "working_time", look)
    monkeypatch.setattr(timing, "_A_PIECE", 1e-9)


def _cases() -> list[tuple[str, str]]:
    known = [("log", name) for name in SMOOTH] + [("hinge", name) for name in HARD]
    return [(loss, name) for loss, name in known if name in SOLVERS]


@pytest.mark.parametrize(("loss", "name"), _cases())
@pytest.mark.parametrize("limit", [3.0, 50.0])
def test_every_solver_ends_soon_after_the_limit_with_true_bounds(ticking, loss, name, limit):
    problem = small("tied", loss=loss).problem
    best = solve(problem, SOLVERS[name], tol=1e-4, max_passes=400).certificate
    before = timing.working_time()[0]
    found = solve(problem, SOLVERS[name], tol=1e-12, max_passes=1e6, time_limit=limit)
    looks = timing.working_time()[0] - before
    # A look lasts a second: the run makes at most 1.5 times as many, and a few more to begin and end.
    assert looks <= 1.5 * limit + 3 * problem.n_examples + 30
    assert np.isfinite(found.certificate.primal)
    assert found.stop_reason.name.startswith("TIME_LIMIT")
    assert found.certificate.dual <= best.primal * (1 + 1e-6)
    if found.certificate.kind == "exact":
        assert found.certificate.primal == pytest.approx(problem.primal(found.weights), rel=1e-6)
        assert found.certificate.primal >= best.dual * (1 - 1e-6)
    else:
        assert found.stop_reason is StopReason.TIME_LIMIT_SAMPLED
        assert found.certificate.dual == 0.0


def test_a_run_ends_with_its_best_certificate_if_another_one_takes_too_long(monkeypatch):
    problem = small("tied").problem
    monkeypatch.setattr(timing, "_A_PIECE", 1e-9)
    run = timing.Timing(problem, 1e9)
    run.begin(0.0)
    kept = solve(problem, SOLVERS["eg-gap"], max_passes=3).certificate
    state, found = run.certificate(lambda: ("state", kept))
    assert (state, found) == ("state", kept)
    better = replace(kept, primal=kept.primal - 0.1, dual=kept.dual - 0.1)
    run.certificate(lambda: ("state", better))
    assert (run.best.primal, run.best.dual) == (better.primal, kept.dual)
    run.certificate_seconds = 2e9
    assert run.certificate(lambda: pytest.fail("there is no time left")) is None


def test_an_estimate_from_all_examples_is_the_objective():
    data = small("tied", weighted=True)
    run = timing.Timing(data.problem, 1e9)
    run.begin(0.0)
    weights = np.random.default_rng(0).normal(size=data.problem.n_weights)
    assert run.sampled(weights).primal == pytest.approx(data.problem.primal(weights))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_model_without_a_certificate_can_be_saved(ticking, tmp_path):
    X = [[[f"w={k % 7}", f"s={k % 3}"] for k in range(i, i + 4)] for i in range(30)]
    y = [[f"{k % 3}" for k in range(i, i + 4)] for i in range(30)]
    model = SequenceLabeler(time_limit=8.0).fit(X, y)
    assert model.certificate_kind_ == "sampled"
    model.save(tmp_path / "model.pw")
    found = load(tmp_path / "model.pw")
    assert (found.objective_, found.dual_objective_) == (model.objective_, 0.0)
    assert found.history_[-1]["kind"] == "sampled"
    assert np.isfinite(found.objective_)
    assert found.predict(X) == model.predict(X)


def test_a_large_limit_changes_nothing():
    problem = small("tied").problem
    plain, limited = (solve(problem, SOLVERS["eg-gap"], tol=1e-6, time_limit=limit) for limit in (None, 1e6))
    np.testing.assert_array_equal(plain.weights, limited.weights)


def test_pieces_of_passes():
    order, seen = np.arange(10), []
    with until(Deadline(np.inf, 4)):
        assert [list(piece) for piece in visited_in_time(order)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        summed_in_time(lambda first, last: seen.append((first, last)))(0, 10)
    assert seen == [(0, 4), (4, 8), (8, 10)]
    late = Deadline(-np.inf, 4)
    with until(late):
        assert len(list(visited_in_time(order))) == 1  # the first piece is always visited
        assert late.is_cut
        with pytest.raises(OutOfTimeError):
            summed_in_time(lambda first, last: None)(0, 10)
