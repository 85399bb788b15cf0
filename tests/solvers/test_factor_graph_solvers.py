"""Training on factor graphs: certificates of the relaxation, rules, and what loopy sums do to losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contract_solvers import solver_of

from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem
from partwise.core.rows import RowData
from partwise.errors import InputError
from partwise.solvers import SOLVERS, solve
from partwise.structures import XOR, FactorGraph, FactorKind, Graph, GraphShape, RuledShape

KINDS: Any = ({"node": 3}, [FactorKind("edge", ("node", "node")), FactorKind("skip", ("node", "node"), True)])


def skipping_chains(structure: Any, loss: str, l2: float = 0.3) -> Problem:
    """Neighbours and vertices two apart are joined: every graph has cycles."""
    random, graphs, labels = np.random.default_rng(0), [], []
    for _ in range(10):
        v = np.arange(int(random.integers(3, 6)))
        scopes = [np.column_stack([v[:-1], v[1:]]), np.column_stack([v[:-2], v[2:]])]
        graphs.append(GraphShape(np.zeros(len(v), np.int64), scopes))
        labels.append(random.integers(0, 3, len(v)))
    y, n_edges = np.concatenate(labels), sum(len(graph.scopes[0]) for graph in graphs)
    node = 0.7 * np.eye(3)[y] + random.normal(size=(len(y), 3))
    rows = {
        "node": RowData(FeatureMap.build(3, n_dense=3), dense=node),
        "edge": RowData(FeatureMap.build(9, n_dense=2), dense=random.normal(size=(n_edges, 2))),
    }
    return Problem.build(structure, y, structure.shapes_of(graphs), rows, loss=loss, l2=l2)


def test_solvers_meet_at_the_same_relaxed_optimum() -> None:
    problem = skipping_chains(FactorGraph(*KINDS), "log")
    low, high = -np.inf, np.inf
    for name in ("eg", "eg-gap", "eg-batch", "lbfgs", "extragradient", "bmrm"):
        found = solve(problem, solver_of(name), tol=1e-6, max_passes=400)
        assert found.converged and found.certificate.kind == "relaxation"
        assert all(record.gap > -1e-9 and record.negative_losses == 0 for record in found.history)
        low, high = max(low, found.certificate.dual), min(high, found.certificate.primal)
    assert -1e-9 <= high - low <= 2e-6 * high
    exact = solve(skipping_chains(Graph(*KINDS), "log"), SOLVERS["lbfgs"], tol=1e-6, max_passes=400)
    assert low > exact.certificate.primal  # the relaxation is above the problem itself


def test_margins_are_certified_too() -> None:
    """Maxima are those of the relaxation; the exact optimum is below."""
    structure = FactorGraph(*KINDS, max_nodes=1)
    low, high = -np.inf, np.inf
    for name, passes in (("excessive-gap", 200), ("eg-gap", 20)):
        found = solve(skipping_chains(structure, "hinge"), solver_of(name), tol=1e-2, max_passes=passes)
        assert all(record.gap > -1e-9 for record in found.history)
        low, high = max(low, found.certificate.dual), min(high, found.certificate.primal)
    assert 0.0 <= high - low <= 3e-2 * high
    exact = solve(skipping_chains(Graph(*KINDS), "hinge"), SOLVERS["excessive-gap"], tol=1e-2, max_passes=200)
    assert exact.certificate.dual <= high


def test_solvers_that_need_exact_sums_refuse() -> None:
    for engine in ("tree-reweighted", "loopy"):
        structure: Any = FactorGraph(*KINDS, engine=engine)
        with pytest.raises(InputError, match="exact sums") as refused:
            solve(skipping_chains(structure, "hinge"), SOLVERS["bcfw"])
        assert "\n" not in str(refused.value)


def all_or_none(structure: FactorGraph) -> Problem:
    """Complete graphs of five whose vertices are all alike, one label as likely as the other, joined by a tied table.

    What is learned is that neighbours agree, strongly, and nothing of vertices. Belief propagation then stays where
    everything is as likely as not, and its log-partition is about E − V = 5 times log 2 too small.
    """
    pairs = np.array([(a, b) for a in range(5) for b in range(a)])
    y = np.repeat(np.arange(8) % 2, 5)
    rows = {"node": RowData(FeatureMap.build(2, n_dense=1), dense=np.ones((40, 1)))}
    shapes = structure.shapes_of([GraphShape(np.zeros(5, np.int64), [pairs])] * 8)
    return Problem.build(structure, y, shapes, rows, loss="log", l2=0.05)


def test_negative_losses_are_counted_and_cannot_be_in_the_relaxation() -> None:
    kinds: Any = {"node": 2}, [FactorKind("edge", ("node", "node"), tied=True)]
    loopy = solve(all_or_none(FactorGraph(*kinds, engine="loopy")), SOLVERS["lbfgs"], max_passes=30)
    assert loopy.certificate.kind == "approximate" and loopy.certificate.dual == -np.inf
    assert loopy.certificate.negative_losses == loopy.history[-1].negative_losses == 8
    assert "loss of 8 of 8 examples is negative" in loopy.why
    assert "8 negative losses" in loopy.history[-1].note
    problem = all_or_none(FactorGraph(*kinds))
    bound = solve(problem, SOLVERS["lbfgs"], max_passes=60)
    assert bound.converged and bound.certificate.negative_losses == 0
    for weights in (bound.weights, loopy.weights, 10 * loopy.weights):
        assert (problem.losses(weights)[0] > 0).all()


def test_rules_in_training() -> None:
    """One of four vertices holds: the log-loss is that of enumeration, also with an edge that makes a cycle."""
    random, n = np.random.default_rng(1), 12
    kinds: Any = {"node": 2}, [FactorKind("edge", ("node", "node"), tied=True)]
    y = np.eye(4, dtype=int)[random.integers(0, 4, n)]
    node = np.column_stack([y.ravel() + random.normal(size=4 * n), np.ones(4 * n)])
    rows = {"node": RowData(FeatureMap.build(2, n_dense=2), dense=node)}
    structure = FactorGraph(*kinds)
    for edges in (np.zeros((0, 2), int), np.array([[0, 1]])):
        shape = RuledShape(np.zeros(4, np.int64), [edges], [XOR((0, 1, 2, 3))])
        problem = Problem.build(
            structure, y.ravel(), structure.shapes_of([shape] * n), rows, loss="log", l2=0.1
        )
        found = solve(problem, solver_of("eg-gap"), tol=1e-6, max_passes=300)
        assert found.converged
        scores = problem.scores(found.weights).reshape(n, 12)
        totals = np.array([[_score(own, k) for k in range(4)] for own in scores])
        losses = np.log(np.exp(totals).sum(axis=1)) - totals[np.arange(n), y.argmax(axis=1)]
        exact = losses.sum() + 0.05 * found.weights @ found.weights
        if len(edges):
            assert found.certificate.primal >= exact - 1e-9
        else:
            assert found.certificate.primal == pytest.approx(exact, rel=1e-9)


def _score(own: np.ndarray, chosen: int) -> float:
    """Score of the labelling in which one vertex holds; the tied table's parts come last and no edge uses them."""
    return float(sum(own[2 * v + (v == chosen)] for v in range(4)))


def test_estimators_can_switch() -> None:
    """On graphs without cycles the problem is that of ``Graph``."""
    kinds: Any = {"node": 3}, [FactorKind("edge", ("node", "node"))]
    random, values = np.random.default_rng(2), []
    graphs = [GraphShape([0, 0, 0], [np.array([[0, 1], [2, 1]])])] * 5
    y, node, edge = random.integers(0, 3, 15), random.normal(size=(15, 2)), np.ones((10, 1))
    rows = {
        "node": RowData(FeatureMap.build(3, n_dense=2), dense=node),
        "edge": RowData(FeatureMap.build(9, n_dense=1), dense=edge),
    }
    structure: Any
    for structure in (Graph(*kinds), FactorGraph(*kinds), FactorGraph(*kinds, engine="loopy")):
        problem = Problem.build(
            structure, y, structure.shapes_of(graphs), rows, loss="softmax_margin", l2=0.5
        )
        weights = np.random.default_rng(3).normal(size=problem.n_weights)
        values.append(problem.primal(weights))
    assert values[1:] == pytest.approx(values[:1] * 2, rel=1e-10)
