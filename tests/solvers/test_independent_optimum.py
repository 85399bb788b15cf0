"""Certificates of segments, grammars and second-order trees against an optimum found without solvers of partwise.

Every labelling of every example is written out, and SciPy minimises the objective over the weights: by L-BFGS if the
loss is smooth, by sequential quadratic programming over weights and slacks for the hinge. Its value is an upper bound
on the optimum, whatever SciPy did.
"""

from __future__ import annotations

import numpy as np
import pytest
from problems import small, soft_maximum, softmax
from scipy.optimize import LinearConstraint, minimize

from partwise import DependencyParser, Loss
from partwise.solvers import solve, solver_for
from partwise.structures.contract import Shapes

QUICK, ALL = 2, 34  # seeds of each structure and loss
LOSSES = {"log": "log", "margin": "softmax_margin", "sharp": Loss(4.0, 0.5), "hinge": "hinge"}
FEATURES = ("binary", "real", "dense")
TREES = [0, 1, 2, 2], [2, 0, 2, 3], [2, 3, 0, 3]  # the first words of the first n of them are trees, up to 3
_ROUNDING = 1e-9


class Listed:
    """All labellings of a problem: per example their features (n, n_weights), costs (n,) and the true one."""

    def __init__(self, problem, features, costs, gold):
        self.problem, self.features, self.costs, self.gold = problem, features, costs, gold

    def losses(self, weights):
        """Losses of all examples and their gradients."""
        loss, found = self.problem.loss, []
        for features, costs, gold in zip(self.features, self.costs, self.gold, strict=True):
            margins = (features - features[gold]) @ weights + loss.gamma * costs
            share = (
                softmax(loss.beta * margins) if not loss.is_hard else np.eye(len(margins))[margins.argmax()]
            )
            found.append((soft_maximum(margins, loss.beta), share @ features - features[gold]))
        return found

    def primal(self, weights):
        """Objective and gradient."""
        l2, value = self.problem.l2, 0.5 * self.problem.l2 * float(weights @ weights)
        gradient = l2 * weights
        for weight, (own, slope) in zip(self.problem.example_weight, self.losses(weights), strict=True):
            value, gradient = value + weight * own, gradient + weight * slope
        return value, gradient

    def optimum(self):
        """An upper bound on the optimum and a lower one; −inf where SciPy proves none."""
        start = np.zeros(self.features[0].shape[1])
        if self.problem.loss.is_hard:
            return self._quadratic_programme(start), -np.inf
        settings = {"maxiter": 5000, "maxfun": 50_000, "ftol": 1e-16, "gtol": 1e-11, "maxcor": 50}
        found = minimize(self.primal, start, jac=True, method="L-BFGS-B", options=settings)
        value, gradient = self.primal(found.x)
        return value, value - float(gradient @ gradient) / (2.0 * self.problem.l2)  # strong convexity

    def _quadratic_programme(self, start):
        n, k, l2 = len(start), len(self.gold), self.problem.l2
        weight, gamma = self.problem.example_weight, self.problem.loss.gamma
        rows = [np.zeros((0, n + k))]
        least = [np.zeros(0)]
        for i, (features, costs, gold) in enumerate(zip(self.features, self.costs, self.gold, strict=True)):
            slack = np.zeros((len(features), k))
            slack[:, i] = 1.0
            rows.append(np.hstack([features[gold] - features, slack]))
            least.append(gamma * costs)

        def value(x):
            return 0.5 * l2 * float(x[:n] @ x[:n]) + float(weight @ x[n:]), np.append(l2 * x[:n], weight)

        first = np.append(start, [gamma * costs.max() for costs in self.costs])
        constraint = LinearConstraint(np.concatenate(rows), np.concatenate(least), np.inf)
        options = {"maxiter": 1000, "ftol": 1e-14}
        found = minimize(value, first, jac=True, method="SLSQP", constraints=constraint, options=options)
        return self.primal(found.x[:n])[0]


def of_small(kind, seed, loss):
    """Segments or derivations, with random attributes, weights of examples and l2."""
    random = np.random.default_rng([seed, len(kind)])
    data = small(
        kind, loss, features=FEATURES[seed % 3], weighted=bool(seed % 2), n=int(random.integers(2, 6)), seed=seed,
        l2=float(10.0 ** random.uniform(-1.5, 1.5)),
    )  # fmt: skip
    written = data.written_out
    return Listed(data.problem, written.features, written.costs, written.gold)


def of_trees(structure, labelled, seed, loss):
    """Second-order trees over words of a small vocabulary."""
    random = np.random.default_rng([seed, labelled])
    X, y = [], []
    for n in random.integers(2, 4 + (not labelled), int(random.integers(2, 5))).tolist():
        X.append([f"w{k}" for k in random.integers(3, size=n)])
        heads = TREES[int(random.integers(min(n, 3)))][:n]
        y.append((heads, [f"r{k}" for k in random.integers(2, size=n)]) if labelled else heads)
    parser = DependencyParser(
        structure=structure, order=2, prune=None, loss=loss, labelled=labelled, single_root=False,
        l2=float(10.0 ** random.uniform(-1.0, 1.5)), templates=["head.form + modifier.form", "direction"],
        relation_templates=["modifier.form"], sibling_templates=["sibling.form + modifier.form", "direction"],
        grandparent_templates=["grandparent.form + modifier.form"],
    )  # fmt: skip
    problem, _ = parser._problem_for(X, y)
    return listed(problem)


def listed(problem):
    """A problem written out, whose scores are a linear function of the weights."""
    units = np.eye(problem.n_weights)
    image = np.array([problem.scores(unit) for unit in units]).T  # (n_parts, n_weights)
    part_ptr, shapes, structure = problem.batch.part_ptr, problem.scorer.shapes, problem.structure
    features, costs, gold = [], [], []
    for i, length in enumerate(shapes.lengths.tolist()):
        values = shapes.values[shapes.ptr[i] : shapes.ptr[i + 1]]
        own = Shapes(np.array([0, len(values)]), values)
        codes = [structure.codes(y) for y in structure.labellings(length)]
        parts = [structure.encode_all(each, own).part for each in codes]
        features.append(np.array([image[part_ptr[i] :][part].sum(axis=0) for part in parts]))
        true = set(problem.gold.part[problem.gold.ptr[i] : problem.gold.ptr[i + 1]].tolist())
        gold.append(next(k for k, part in enumerate(parts) if set(part.tolist()) == true))
        costs.append(np.array([float((each != codes[gold[-1]]).sum()) for each in codes]))
    return Listed(problem, features, costs, gold)


PROBLEMS = {
    "segments": lambda seed, loss: of_small("segments", seed, loss),
    "grammar": lambda seed, loss: of_small("grammar", seed, loss),
    "second order": lambda seed, loss: of_trees("projective", False, seed, loss),
    "second order with relations": lambda seed, loss: of_trees("projective", True, seed, loss),
}
SEEDS = [*range(QUICK), *(pytest.param(seed, marks=pytest.mark.hostile) for seed in range(QUICK, ALL))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", PROBLEMS)
def test_the_optimum_lies_between_the_bounds(kind, loss, seed):
    tol = 10.0 ** -(2 + seed % 4)
    own = PROBLEMS[kind](seed, LOSSES[loss])
    solvers = ("auto", "eg-gap", "bcfw") if loss == "hinge" else ("auto", "eg-gap", "lbfgs")
    solver = solver_for(own.problem, solvers[seed % 3], tol)
    found = solve(own.problem, solver, tol=tol, max_passes=400, random_state=np.random.default_rng(seed))
    at_weights, _ = own.primal(found.weights)
    upper, lower = own.optimum()
    slack = _ROUNDING * max(upper, 1e-3)
    certificate = found.certificate
    assert certificate.primal == pytest.approx(at_weights, rel=1e-7, abs=slack)
    assert certificate.primal >= at_weights - slack and certificate.primal >= lower - slack
    assert certificate.dual <= upper + slack
    if found.converged:
        assert certificate.primal <= upper + tol * certificate.primal + slack
        assert certificate.primal - certificate.dual <= tol * certificate.primal + slack


@pytest.mark.parametrize("seed", SEEDS)
def test_the_relaxed_objective_of_all_trees_is_no_lower_than_the_exact_one(seed):
    own = of_trees("spanning", False, seed, "log")
    found = solve(own.problem, solver_for(own.problem, "auto", 1e-2), tol=1e-2, max_passes=30)
    exact, _ = own.primal(found.weights)
    assert found.certificate.kind == "relaxation"
    assert found.certificate.primal >= exact - 1e-6 * exact
    assert found.certificate.primal >= own.optimum()[1] * (1.0 - 1e-6)
