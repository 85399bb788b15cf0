"""Solvers on graphs with cycles, features on their edges and a tied kind of factors."""

from __future__ import annotations

import numpy as np
import pytest
from contract_solvers import check_online_learner, check_optimum, optimum, problem_of, solver_of
from problems import small

from partwise.compiled.simd import LANES
from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem
from partwise.core.rows import RowData
from partwise.errors import InputError
from partwise.mercer.functions import KernelFunction
from partwise.mercer.gram import Gram
from partwise.mercer.problem import KernelProblem
from partwise.solvers import SOLVERS, solve
from partwise.structures import FactorKind, Graph, GraphShape
from partwise.structures.packed import Packed

# Relative distance of the primal and of the dual to the optimum.
REACHED = {
    ("eg", "log"): (1e-6, 1e-6),
    ("eg-gap", "softmax_margin"): (1e-6, 1e-6),
    ("eg-gap", "hinge"): (1e-5, 1e-6),
    ("sdca", "between"): (1e-6, 1e-6),
    ("eg-batch", "log"): (1e-6, 1e-6),
    ("eg-primal", "between"): (1e-6, 1e-6),
    ("extragradient", "log"): (1e-6, 1e-6),
    ("excessive-gap", "hinge"): (1e-4, 1e-4),
    ("lbfgs", "softmax_margin"): (1e-6, 1e-6),
    ("cg", "log"): (1e-6, 1e-6),
    ("bcfw", "hinge"): (1e-6, 1e-6),
    ("svm-struct", "hinge"): (1e-6, 1e-6),
    ("bmrm", "log"): (1e-6, 1e-6),
    ("bmrm", "hinge"): (1e-6, 1e-6),
    ("sgd", "log"): (1e-4, 1e-4),
    ("sgd", "hinge"): (1e-3, 1e-4),
}


@pytest.mark.parametrize(("name", "loss"), REACHED)
def test_reaches_the_optimum(name: str, loss: str) -> None:
    check_optimum("graph", name, loss, REACHED[name, loss], 1500)


@pytest.mark.parametrize("name", ["mira", "kbest-mira", "perceptron"])
def test_online_learners_certify_what_they_have(name: str) -> None:
    check_online_learner("graph", name)


@pytest.mark.parametrize("name", ["chain-cd", "smo", "smo-eg"])
def test_solvers_for_chains_refuse_in_one_line(name: str) -> None:
    with pytest.raises(InputError, match="bcfw") as refused:
        solve(problem_of("graph", "hinge").problem, SOLVERS[name])
    assert "\n" not in str(refused.value)


def test_two_threads_find_the_same() -> None:
    """Each has tables of its own."""
    problems = [small("graph", "log", features="real", n=40, n_jobs=n_jobs).problem for n_jobs in (1, 2)]
    alone, together = (solve(problem, SOLVERS["lbfgs"], tol=1e-6).certificate.primal for problem in problems)
    assert together == pytest.approx(alone, rel=1e-9)


@pytest.mark.parametrize(("name", "loss"), [("eg-gap", "log"), ("bcfw", "hinge")])
def test_with_kernels(name: str, loss: str) -> None:
    """The linear kernel function gives the optimum of the features."""
    data, kernel = problem_of("graph", loss), KernelFunction("linear")
    grams = {"node": Gram.of_points(kernel, data.node, 10.0), "edge": Gram.of_points(kernel, data.edge, 10.0)}
    options = {
        "loss": data.problem.loss,
        "l2": data.problem.l2,
        "example_weight": data.problem.example_weight,
    }
    problem = KernelProblem.of_kernels(data.problem.structure, data.labels, data.shapes, grams, **options)
    found = solve(problem, solver_of(name), tol=1e-5, max_passes=500)
    assert found.converged
    best = optimum("graph", loss)
    assert found.certificate.dual <= best * (1 + 1e-7)
    assert found.certificate.primal >= best * (1 - 1e-7)


def test_several_kinds_learn_what_their_rows_say() -> None:
    """Words and topics with label sets of their own; a topic's label follows those of its words."""
    random = np.random.default_rng(0)
    structure = Graph(
        {"word": 3, "topic": 2},
        [FactorKind("about", ("word", "topic"), tied=True), FactorKind("next", ("word", "word"))],
    )
    graphs, labels = [], []
    for _ in range(60):
        n = int(random.integers(1, 5))
        topic, words = int(random.integers(2)), random.integers(0, 3, n)
        words[random.random(n) < 0.7] = topic
        about = np.column_stack([np.arange(1, n + 1), np.zeros(n, int)])
        graphs.append(GraphShape([1, *[0] * n], [about, np.column_stack([about[:-1, 0], about[1:, 0]])]))
        labels += [topic, *words.tolist()]
    y, kind = np.array(labels), np.concatenate([graph.vertex_kind for graph in graphs])
    node = np.eye(3)[y[kind == 0]] + 0.5 * random.normal(size=((kind == 0).sum(), 3))
    n_next = sum(len(graph.scopes[1]) for graph in graphs)
    rows = {
        "word": RowData(FeatureMap.build(3, n_dense=3), dense=node),
        "topic": RowData(FeatureMap.build(2, n_dense=1), dense=np.ones((60, 1))),
        "next": RowData(FeatureMap.build(9, n_dense=1), dense=np.ones((n_next, 1))),
    }
    shapes = structure.shapes_of(graphs)
    for loss, name in (("log", "eg-gap"), ("hinge", "bcfw")):
        problem = Problem.build(structure, y, shapes, rows, loss=loss, l2=0.1)
        found = solve(problem, SOLVERS[name], tol=1e-2, max_passes=500)
        assert found.converged
        scores = np.concatenate([problem.scorer.scores(found.weights), np.zeros(LANES)])
        part_ptr = problem.batch.part_ptr
        predicted = Packed(structure, structure.specification(), shapes, part_ptr, scores, False).best()
        assert (predicted == y)[kind == 1].mean() > 0.75
        assert (predicted == y)[kind == 0].mean() > 0.8
