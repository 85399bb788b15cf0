"""Selections, a structure whose labellings have different numbers of parts: its contract, and solvers on it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from contract_solvers import check_online_learner, check_optimum, optimum, problem_of, solver_of
from contract_structures import Case, StructureContract, checks, score_makers
from hypothesis import given
from hypothesis import strategies as st
from problems import WrittenOut, small

from partwise.errors import InputError
from partwise.estimators.influence import _shares
from partwise.mercer.functions import KernelFunction
from partwise.mercer.gram import Gram
from partwise.mercer.problem import KernelProblem
from partwise.solvers import LBFGS, SOLVERS, ExponentiatedGradient, solve
from partwise.structures import Selection, Structure


class TestSelection(StructureContract):
    def case(self, draw: Any) -> Case:
        n, make = draw(st.integers(1, 6)), draw(score_makers())
        return Case(Selection(), n, (make(n), make(n - 1), make()), {})

    def decode(self, structure: Structure, parts: np.ndarray, length: int) -> Any:
        return Selection().decode(parts, length)

    @checks
    @given(st.data())
    def test_nothing_possible(self, data: Any) -> None:
        """Something always is: to select nothing."""
        case = self.case(data.draw)
        scores = (np.full_like(case.scores[0], -np.inf), *case.scores[1:])
        assert case.structure.log_partition(*scores) == 0.0
        assert case.structure.entropy(*scores) == 0.0
        assert not case.structure.argmax(*scores).any()

    @checks
    @given(st.data())
    def test_batch_equals_one_by_one(self, data: Any) -> None:
        structure, make = Selection(), data.draw(score_makers())
        lengths = data.draw(st.lists(st.integers(1, 6), max_size=4))
        items, pairs = [make(n) for n in lengths], [make(n - 1) for n in lengths]
        each = [float(make()) for _ in lengths]
        for shared in (each, 0.5):
            numbers = each if shared is each else [0.5] * len(lengths)
            one_by_one = list(zip(items, pairs, numbers, strict=True))
            for method in ("log_partition", "entropy", "argmax", "marginals", "kbest"):
                ours = getattr(structure, method)(items, pairs, shared)
                assert len(ours) == len(lengths)
                for result, scores in zip(ours, one_by_one, strict=True):
                    expected = getattr(structure, method)(*scores)
                    assert np.array_equal(_flat(result), _flat(expected))
            gold = [np.arange(n) % 2 for n in lengths]
            augmented = structure.loss_augmented_argmax(items, pairs, shared, y=gold, cost=2.0)
            for result, scores, y in zip(augmented, one_by_one, gold, strict=True):
                np.testing.assert_array_equal(result, structure.loss_augmented_argmax(*scores, y=y, cost=2.0))
        assert [s.shape for s in structure.sample(items, pairs, each, 3, 0)] == [(3, n) for n in lengths]

    def test_refusals(self) -> None:
        structure = Selection()
        for scores, message in (
            (([], []), r"item_scores has 0 sequences, pair_scores 0, selected_score 2"),
            (([1.0], [1.0]), r"pair_scores has shape \(1,\), expected \(0,\)"),
            (([[1.0], [1.0, 2.0]], [[], []]), r"pair_scores\[1\] has shape \(0,\), expected \(1,\)"),
            ((np.zeros(0), []), "no items"),
            ((1.0, []), "item_scores"),
        ):
            shared = [0.0, 0.0] if message.endswith("2") else 0.0
            with pytest.raises(InputError, match=message):
                structure.argmax(*scores, shared)
        with pytest.raises(InputError, match="labels run from 0 to 1"):
            structure.encode([0, 2])
        with pytest.raises(InputError, match=r"example 1, position 0 has label 2"):
            structure.encode_all([0, 2], structure.shapes([1, 1]))
        with pytest.raises(InputError, match="length must be given"):
            structure.decode([])
        with pytest.raises(InputError, match="as many labels"):
            structure.loss_augmented_argmax([1.0, 2.0], [0.0], y=[1])


def _flat(result: Any) -> np.ndarray:
    """Everything in a nested answer, as one array."""
    if isinstance(result, list | tuple):
        return np.concatenate([np.zeros(0), *map(_flat, result)])
    return np.ravel(result).astype(float)


# -- solvers ------------------------------------------------------------------------------------------

# Relative distance of the primal and of the dual to the optimum.
REACHED = {
    ("eg", "log"): (1e-6, 1e-6),
    ("eg-gap", "log"): (1e-6, 1e-6),
    ("eg-gap", "softmax_margin"): (1e-6, 1e-6),
    ("eg-gap", "hinge"): (1e-5, 1e-6),
    ("sdca", "between"): (1e-6, 1e-6),
    ("eg-batch", "log"): (1e-6, 1e-6),
    ("eg-batch", "hinge"): (1e-3, 1e-4),
    ("eg-primal", "between"): (1e-6, 1e-6),
    ("extragradient", "log"): (1e-6, 1e-6),
    ("extragradient", "between"): (1e-6, 1e-6),
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
    data = problem_of("selection", loss)
    assert np.diff(data.problem.gold.ptr).min() == 0  # the empty selection is among the true ones
    check_optimum("selection", name, loss, REACHED[name, loss], 1500)


@pytest.mark.parametrize("name", ["mira", "kbest-mira", "perceptron"])
def test_online_learners_certify_what_they_have(name: str) -> None:
    check_online_learner("selection", name)


@pytest.mark.parametrize("name", ["chain-cd", "smo", "smo-eg"])
def test_solvers_for_chains_refuse_in_one_line(name: str) -> None:
    with pytest.raises(InputError, match="bcfw") as refused:
        solve(problem_of("selection", "hinge").problem, SOLVERS[name])
    assert "\n" not in str(refused.value)


def kept_labellings(name: str, written: WrittenOut, state: Any) -> list[np.ndarray]:
    """α of `bcfw` or `svm-struct`, labelling by labelling, from the lists of parts that they keep."""
    ptr, result = written.problem.labelling_ptr(), []
    for i, truth in enumerate(written.true_labels()):
        numbers = {tuple(parts.tolist()): k for k, parts in enumerate(written.parts[i])}
        lists, shares = (
            (state.corners, state.alpha[i]) if name == "bcfw" else (state.part, state.share[i, 1:])
        )
        alpha = np.zeros(len(truth)) if name == "bcfw" else truth * state.share[i, 0]
        for parts, share in zip(lists[:, ptr[i] : ptr[i + 1]], shares, strict=True):
            if share > 0.0:
                alpha[numbers[tuple(parts[parts >= 0].tolist())]] += share
        result.append(alpha)
    return result


@pytest.mark.parametrize("name", ["bcfw", "svm-struct"])
def test_labellings_with_more_and_with_fewer_parts_than_the_true_one(name: str) -> None:
    data = problem_of("selection", "hinge")
    written, longer, shorter = data.written_out, 0, 0
    for passes in (2, 20):
        found = solve(data.problem, solver_of(name), tol=1e-12, max_passes=passes)
        alphas = kept_labellings(name, written, found.state)
        np.testing.assert_allclose(found.certificate.dual, written.dual(alphas), rtol=1e-9)
        for parts, gold, alpha in zip(written.parts, written.gold, alphas, strict=True):
            sizes = np.array([len(each) for each in parts])
            longer += (alpha[sizes > sizes[gold]] > 0).sum()
            shorter += (alpha[sizes < sizes[gold]] > 0).sum()
    assert longer and shorter


def test_costs_of_taking_and_of_leaving_out() -> None:
    """The primal with a cost matrix, at any weights, against all selections; the true one costs nothing."""
    data = small("selection", "hinge", features="real", weighted=True)
    structure, matrix = data.problem.structure, np.array([[0.0, 2.0], [0.5, 0.0]])
    cost = structure.part_costs(data.labels, data.shapes, structure.checked_cost(matrix))
    problem, written = replace(data.problem, cost=cost), WrittenOut(data)
    written.problem, first = problem, 0
    for i, n in enumerate(data.lengths):
        truth = data.labels[first : first + n]
        written.costs[i] = np.array([matrix[truth, y * 1].sum() for y in structure.labellings(int(n))])
        assert written.costs[i][written.gold[i]] == 0.0
        first += n
    weights = np.random.default_rng(0).normal(size=problem.n_weights)
    assert problem.primal(weights) == pytest.approx(written.primal(weights), rel=1e-12)
    found = solve(problem, SOLVERS["bmrm"], tol=1e-7, max_passes=500)
    assert found.converged
    assert found.certificate.primal == pytest.approx(written.primal(found.weights), rel=1e-9)


@pytest.mark.parametrize("loss", ["log", "hinge"])
def test_leaves_true_labels_whose_parts_others_have_as_well(loss: str) -> None:
    """A first step must start near the true label; raising its parts alone does not lead there."""
    data = problem_of("selection", loss)
    solver = ExponentiatedGradient("cyclic", precision="double")
    found = solve(data.problem.with_l2(0.001), solver, tol=0.1, max_passes=600)
    assert found.converged


def test_sdca_mixes_parts_only_where_a_labelling_is_one_part() -> None:
    """Two selections of two parts and two of none have four parts, as many as there are examples."""
    data = small("selection", "log", features="real", n=4)
    structure, shapes = data.problem.structure, data.shapes
    labels = np.zeros(int(data.lengths.sum()), np.int64)
    labels[np.cumsum(data.lengths)[:2] - 1] = 1
    problem = data.problem.with_gold(structure.encode_all(labels, shapes))
    assert problem.batch.gold_ptr[-1] == problem.n_examples
    found = solve(problem, solver_of("sdca"), tol=1e-6)
    assert found.converged
    best = solve(problem, LBFGS(), tol=1e-8).certificate
    assert best.dual <= found.certificate.primal <= best.primal * (1 + 1e-6)


def test_feature_spread_bounds_every_difference() -> None:
    data = problem_of("selection", "log")
    for features, bound in zip(data.written_out.features, data.problem.squared_radii(), strict=True):
        differences = features[:, None] - features[None, :]
        assert ((differences**2).sum(axis=2) <= bound * (1 + 1e-12)).all()


def test_shares_of_examples_without_true_parts() -> None:
    """What examples contribute to a score adds up to the score, with empty selections among them."""
    data = problem_of("selection", "log")
    found = solve(data.problem, solver_of("eg-gap"), tol=1e-9)
    features = np.random.default_rng(0).normal(size=data.problem.n_weights)
    training: Any = SimpleNamespace(problem=data.problem, state=found.state)
    shares = _shares(training, features, 1)
    assert shares.sum() == pytest.approx(features @ found.state.v / data.problem.l2, rel=1e-9)


@pytest.mark.parametrize(("name", "loss"), [("eg-gap", "log"), ("bcfw", "hinge")])
def test_with_kernels(name: str, loss: str) -> None:
    """Three kinds of rows behind kernel functions: the linear one gives the optimum of the features."""
    data = problem_of("selection", loss)
    plain, kernel = data.problem, KernelFunction("linear")
    grams = {"item": Gram.of_points(kernel, data.node, 10.0), "pair": Gram.of_points(kernel, data.edge, 10.0)}
    problem = KernelProblem.of_kernels(
        plain.structure, data.labels, data.lengths, grams,
        loss=plain.loss, l2=plain.l2, example_weight=plain.example_weight,
    )  # fmt: skip
    found = solve(problem, solver_of(name), tol=1e-5, max_passes=500)
    assert found.converged
    best = optimum("selection", loss)
    assert found.certificate.dual <= best * (1 + 1e-7)
    assert found.certificate.primal >= best * (1 - 1e-7)
