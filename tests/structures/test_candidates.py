"""Lists of candidates: the contract, lists of many lengths, costs of every candidate, training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contract_structures import Case, StructureContract, score_makers
from hypothesis import strategies as st
from scipy.special import logsumexp

from partwise import InputError
from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem
from partwise.core.rows import RowData
from partwise.solvers import SOLVERS, solve, solver_for
from partwise.structures import Candidates


class TestCandidates(StructureContract):
    def case(self, draw: Any) -> Case:
        length = draw(st.integers(1, 9))
        return Case(Candidates(), length, (draw(score_makers())(length),), {})


LENGTHS = np.array([3, 1, 7, 4, 2, 5, 6, 2])


def reranking(loss: str, cost: Any = "zero_one", l2: float = 0.5) -> tuple[Problem, np.ndarray, np.ndarray]:
    """Lists of candidates with four dense features, and the number of the true ones."""
    random = np.random.default_rng(2)
    features = random.normal(size=(LENGTHS.sum(), 4)).astype(np.float32)
    labels = random.integers(0, LENGTHS)
    rows = {"candidate": RowData(FeatureMap.build(1, 0, 4), None, features)}
    return Problem.build(Candidates(), labels, LENGTHS, rows, loss=loss, l2=l2, cost=cost), features, labels


def written_out(
    weights: np.ndarray, features: np.ndarray, labels: np.ndarray, costs: np.ndarray, loss: str
) -> float:
    """The objective, list by list."""
    total, starts = 0.25 * float(weights @ weights), np.cumsum(LENGTHS) - LENGTHS
    for start, m, y in zip(starts, LENGTHS, labels, strict=True):
        scores = features[start : start + m] @ weights
        own = costs[start : start + m] - costs[start + y]
        values = scores - scores[y] + (own if loss != "log" else 0.0)
        total += float(values.max()) if loss == "hinge" else float(logsumexp(values))
    return total


@pytest.mark.parametrize("loss", ["log", "hinge", "softmax_margin"])
def test_training_on_lists_of_many_lengths(loss: str) -> None:
    costs = np.random.default_rng(3).uniform(0.0, 2.0, int(LENGTHS.sum()))
    problem, features, labels = reranking(loss, costs)
    names = ("auto", "eg", "lbfgs", "sdca") if loss == "log" else ("auto", "eg-gap")
    names = (*names, "bcfw", "svm-struct", "excessive-gap") if loss == "hinge" else names
    optimum = solve(problem, solver_for(problem, "auto", 1e-6), tol=1e-6).certificate.dual
    for name in names:
        solver = solver_for(problem, name, 1e-4) if name == "auto" else SOLVERS[name]
        found = solve(problem, solver, tol=1e-4, max_passes=3000).certificate
        assert found.relative_gap <= 1e-4 and found.kind == "exact", name
        flat = found.weights.reshape(-1, found.weights.size)[0]
        assert found.primal == pytest.approx(optimum, rel=3e-4)
        weights = np.array([flat[k] for k in range(4)])
        assert found.primal == pytest.approx(written_out(weights, features, labels, costs, loss), rel=1e-5)


def test_radii_are_bounds_for_two_candidates() -> None:
    """A labelling uses one row, so that the number of candidates does not matter."""
    problem, features, labels = reranking("log")
    starts = np.cumsum(LENGTHS) - LENGTHS
    for i, (start, m, y) in enumerate(zip(starts, LENGTHS, labels, strict=True)):
        apart = ((features[start : start + m] - features[start + y]) ** 2).sum(axis=1).max()
        largest = (np.abs(features[start : start + m]).max(axis=0) ** 2).sum()
        assert apart - 1e-6 <= problem.squared_radii()[i] <= 4.001 * largest


def test_lists_have_one_answer_each() -> None:
    structure, random = Candidates(), np.random.default_rng(0)
    lists = [random.normal(size=m) for m in LENGTHS]
    np.testing.assert_allclose(
        structure.log_partition(lists), [structure.log_partition(each) for each in lists]
    )
    assert structure.argmax(lists).tolist() == [int(each.argmax()) for each in lists]
    assert [[y for y, _ in own] for own in structure.kbest(lists, k=2)] == [
        np.argsort(-each)[:2].tolist() for each in lists
    ]
    costs = [np.zeros(m) for m in LENGTHS]
    costs[2][4] = 100.0
    assert structure.loss_augmented_argmax(lists, np.zeros(8, int), costs)[2] == 4


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda s: s.argmax([]), "example 0 has no candidates"),
        (lambda s: s.argmax(3.0), "scores has shape"),
        (lambda s: s.encode_all([3], s.shapes([3])), "example 0 has label 3, but 3 candidates"),
        (lambda s: s.encode_all([1, 1], s.shapes([3])), "labels has shape"),
        (lambda s: s.checked_cost("heads"), "cost must be 'zero_one'"),
        (lambda s: s.checked_cost([-1.0]), "non-negative"),
        (
            lambda s: s.part_costs([0], s.shapes([3]), np.ones(2)),
            "cost has 2 entries, but there are 3 candidates",
        ),
    ],
)
def test_bad_candidates_are_told(act: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        act(Candidates())
