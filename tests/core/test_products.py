"""Dense rows by products of matrices: the same numbers as by loops over single rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mixed_problems import mixed, weights_for
from problems import small

from partwise.core import products
from partwise.core.distinct_rows import distinct_rows_of
from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem
from partwise.core.rows import AttributeRows, RowData
from partwise.structures import Chain


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of a few rows, so that every problem has several."""
    monkeypatch.setattr(products, "_FEWEST_ROWS", 1)
    monkeypatch.setattr(products, "_MOST_ROWS", 5)


def everything(problem: Problem) -> list[Any]:
    """What all passes over many examples give."""
    weights = weights_for(problem)
    theta = np.random.default_rng(1).normal(size=problem.n_parts)
    visited = np.arange(problem.n_examples) % 3 > 0
    model, point = problem.at_weights(weights, 1.5, 0.5), problem.at_potentials(theta, visited)
    mode = problem.at_weights(weights, 1.0, 0.5, hard=True)
    return [
        problem.scores(weights), *problem.losses(weights, theta), *vars(model).values(), *vars(point).values(),
        mode.v, mode.log_total,
    ]  # fmt: skip


def compare(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    found = everything(problem)
    monkeypatch.setattr(products, "_FEWEST_COLUMNS", 10**9)
    for one, other in zip(found, everything(problem), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("kind", ["multiclass", "tied", "untied", "projective", "selection", "segments"])
def test_products_are_the_loops_over_rows(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compare(
        small(kind, "softmax_margin", features="dense", n=9, n_jobs=2, weighted=True).problem, monkeypatch
    )


def test_products_beside_sparse_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    compare(mixed(), monkeypatch)


def test_products_of_some_examples_in_any_order_and_more_than_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compare(mixed().shard(np.array([5, 2, 2, 0, 4])), monkeypatch)


def embedded(n_jobs: int = 1) -> Problem:
    """Chains of words, each with the same sparse and dense attributes wherever it stands."""
    random, lengths = np.random.default_rng(4), np.array([5, 1, 9, 2, 7, 3, 13])
    n = int(lengths.sum())
    word, vectors = random.integers(0, 6, n), random.normal(size=(6, 7))
    sparse = AttributeRows(np.arange(n + 1), word.astype(np.int32))
    rows = {"node": RowData(FeatureMap.build(3, 6, 7), sparse, vectors[word])}
    return Problem.build(
        Chain(3), random.integers(0, 3, n), lengths, rows, loss="softmax_margin", n_jobs=n_jobs
    )


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_products_of_rows_that_repeat(n_jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = embedded(n_jobs)
    first, again = everything(problem), everything(problem)
    found = problem.scorer.distinct_rows[0]
    assert found is not None and len(found.row) == 6
    for one, other in zip(first, again, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-11)
    compare(problem, monkeypatch)
    compare(embedded(n_jobs).shard(np.array([6, 2, 2, 0])), monkeypatch)


def test_rows_that_nearly_repeat_are_not_taken_for_equal() -> None:
    random = np.random.default_rng(5)
    rows = random.normal(size=(10, 4)).astype(np.float32)[random.integers(0, 10, 300)]
    found = distinct_rows_of(rows)
    assert found is not None and len(found.row) == 10
    assert np.array_equal(rows[found.row][found.group], rows)
    rows[7, 2] = np.nextafter(rows[7, 2], np.float32(9))
    found = distinct_rows_of(rows)
    assert found is not None and len(found.row) == 11
    assert np.array_equal(rows[found.row][found.group], rows)
    assert distinct_rows_of(random.normal(size=(300, 4)).astype(np.float32)) is None
    assert distinct_rows_of(rows[:0]) is None


@pytest.mark.parametrize("l1", [0.0, 0.3])
def test_visits_to_dense_rows_keep_weights_and_their_norm(l1: float) -> None:
    """Blocks of rows, and the rest of them, of runs of every length."""
    from partwise.solvers import SOLVERS, solve

    problem = embedded().with_l2(0.5, l1)
    found = solve(problem, SOLVERS["eg-permuted"], tol=1e-6, max_passes=400)
    assert found.converged
    assert found.certificate.drift < 1e-9
    assert found.certificate.primal == pytest.approx(problem.primal(found.certificate.weights), rel=1e-12)


def test_products_leave_the_number_of_threads_as_it_was() -> None:
    from threadpoolctl import threadpool_info

    before = [pool["num_threads"] for pool in threadpool_info()]
    problem = mixed(n_jobs=3)
    problem.primal(weights_for(problem))
    assert [pool["num_threads"] for pool in threadpool_info()] == before
