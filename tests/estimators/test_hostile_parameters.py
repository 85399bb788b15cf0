"""Parameters of estimators that cannot be: refused in one line, or trained as they say."""

from __future__ import annotations

import numpy as np
import pytest

from partwise import Classifier, GraphLabeler, InputError
from partwise.solvers.needs import refusal

X, Y = np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2
HALVES = list(range(10)), list(range(10, 20))
FOLDS = {
    "no folds": ([], "makes no folds"),
    "types": ([(list, list)], "folds of whole numbers"),
    "a number": ([(1, 2)], "folds of whole numbers"),
    "masks": ([(Y > 0, Y < 1)], "folds of whole numbers"),
    "halves of numbers": ([([0.5], [1.5])], "folds of whole numbers"),
    "nothing to train on": ([([], HALVES[1])], "one example or more"),
    "not there": ([([0, 1], [20])], "not there"),
    "three parts": ([([0], [1], [2])], "makes no folds"),
    "an object": (object(), "makes no folds"),
}


@pytest.mark.parametrize("name", FOLDS)
def test_folds_that_cannot_be(name):
    cv, words = FOLDS[name]
    with pytest.raises(InputError, match=words):
        Classifier(l2="cv", cv=cv).fit(X, Y)


def test_folds_may_be_lists():
    lists = Classifier(l2="cv", cv=[HALVES], l2s=[1.0, 10.0]).fit(X, Y)
    arrays = Classifier(l2="cv", cv=[tuple(map(np.array, HALVES))], l2s=[1.0, 10.0]).fit(X, Y)
    np.testing.assert_array_equal(lists.scores_, arrays.scores_)


@pytest.mark.parametrize("values", [[[1, 2]], 3.0, [[1], [2]], [1, "x"], {1: 2}])
def test_values_of_l2_are_a_list_of_numbers(values):
    with pytest.raises(InputError, match="l2 values must be"):
        Classifier(l2="cv", l2s=values).fit(X, Y)


@pytest.mark.parametrize("solver", ["auto", "lbfgs", "eg-gap"])
def test_an_endless_l1_leaves_no_weights(solver):
    model = Classifier(l1=1e300, l2=1e-12, solver=solver).fit(X, Y)
    assert model.converged_ and not model.coef_.any()
    assert model.dual_objective_ <= 20 * np.log(2) <= model.objective_


@pytest.mark.parametrize("inference", ["tree-reweighted", "loopy"])
def test_auto_chooses_what_can_train_graphs_of_one_vertex(inference):
    graphs = [([[0.0, 1.0]], []), ([[1.0, 0.0]], [])] * 3
    estimator = GraphLabeler(loss="hinge", inference=inference)
    problem, _ = estimator._problem_for(graphs, [["a"], ["b"]] * 3)
    assert refusal(problem, estimator._solver_for(problem).needs) is None
