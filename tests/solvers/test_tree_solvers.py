"""Solvers on trees: labelled projective ones, and spanning trees with a single root and arcs pruned away."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from contract_solvers import optimum, problem_of

from partwise.core.feature_radius import _squared_row_sums, membership
from partwise.solvers import SOLVERS, ExponentiatedGradient, solve

# Relative distance to the optimum of the primal and of the dual.
REACHED = {
    ("eg", "log"): (1e-6, 1e-6),
    ("eg-gap", "log"): (1e-6, 1e-6),
    ("eg", "hinge"): (1e-3, 1e-4),
    ("lbfgs", "log"): (1e-6, 1e-6),
    ("bcfw", "hinge"): (1e-4, 1e-5),
    ("sgd", "log"): (1e-2, 1e-2),
}
RUNS = [("projective", *run) for run in REACHED] + [
    ("spanning", name, loss) for name, loss in REACHED if name in ("eg", "lbfgs")
]


@pytest.mark.parametrize(("case", "name", "loss"), RUNS)
def test_reaches_the_optimum(case: str, name: str, loss: str) -> None:
    solver: Any = SOLVERS[name]
    if isinstance(solver, ExponentiatedGradient):
        solver = replace(solver, precision="double")
    primal_tolerance, dual_tolerance = REACHED[name, loss]
    data, best = problem_of(case, loss), optimum(case, loss)
    found = solve(data.problem, solver, tol=min(primal_tolerance, dual_tolerance) / 2, max_passes=2000)
    assert -1e-7 * best <= found.certificate.primal - best <= primal_tolerance * best
    assert -1e-7 * best <= best - found.certificate.dual <= dual_tolerance * best
    np.testing.assert_allclose(found.certificate.primal, data.written_out.primal(found.weights), rtol=1e-9)


def test_mira_certifies_what_it_has() -> None:
    """It does not minimise the objective, and must say by how much."""
    data, best = problem_of("projective", "hinge"), optimum("projective", "hinge")
    found = solve(data.problem, SOLVERS["mira"], tol=1e-9, max_passes=5)
    assert found.certificate.primal == pytest.approx(data.written_out.primal(found.weights), rel=1e-9)
    assert 0.0 <= found.certificate.dual <= best <= found.certificate.primal


@pytest.mark.parametrize("case", ["projective", "spanning", "tied", "multiclass"])
def test_feature_spread_bounds_every_difference(case: str) -> None:
    data = problem_of(case, "log")
    bound, written = data.problem.squared_radii(), data.written_out
    for i, features in enumerate(written.features):
        assert (((features - features[written.gold[i]]) ** 2).sum(axis=1) <= bound[i] * (1 + 1e-12)).all()
    if case == "spanning":  # a word has one head, and most arcs are not used
        scorer = data.problem.scorer
        loose = _squared_row_sums(scorer.kinds[0], membership(scorer, 0), None)
        assert (bound <= loose).all()
        assert bound.sum() < 0.9 * loose.sum()
