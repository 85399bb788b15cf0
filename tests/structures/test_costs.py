"""Costs of every kind of part: tables [true, predicted] of rows against all labellings, and training with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from problems import KINDS, Small, _flat, small
from toy_treebanks import toy

from partwise import DependencyParser, InputError, SegmentLabeler, load
from partwise.core.arrays import offsets
from partwise.data import make_names
from partwise.solvers import SOLVERS, solve
from partwise.structures import Chain, SecondOrderProjective

WITH_SEVERAL_PARTS_OF_A_ROW = "grammar"  # two symbols of a span, one built from the other


def tables(structure: Any, seed: int = 0) -> dict[str, np.ndarray]:
    """A random table with a "none" for every kind of rows whose parts have places."""
    random = np.random.default_rng(seed)
    found = {}
    for kind in structure.kinds:
        if not kind.tied:
            found[kind.name] = random.uniform(0.0, 3.0, (kind.width + 1, kind.width + 1))
            np.fill_diagonal(found[kind.name], 0.0)
    return found


def cost_of(structure: Any, shapes: Any, i: int, truth: np.ndarray, y: np.ndarray, costs: dict) -> float:
    """The definition: the costs of all rows of an example, from the parts of the truth and of a labelling."""
    run_ptr, runs = structure.runs(shapes)
    total = 0.0
    for kind, _, n_rows, first in runs[run_ptr[i] : run_ptr[i + 1]].tolist():
        name, width, tied = structure.kinds[kind]
        if tied or name not in costs:
            continue
        for row in range(n_rows):
            start = first + row * width
            used = [
                next((int(p) - start for p in parts if start <= p < start + width), width)
                for parts in (truth, y)
            ]
            total += float(costs[name][used[0], used[1]])
    return total


def parts_of(data: Small, i: int, y: Any) -> np.ndarray:
    one = data.shapes.take(np.array([i]))
    return data.problem.structure.encode_all(_flat(data.problem.structure, y), one).part


@pytest.mark.parametrize("name", [k for k in KINDS if k != WITH_SEVERAL_PARTS_OF_A_ROW])
def test_costs_of_rows_add_up_to_those_of_labellings(name: str) -> None:
    data = small(name, n=3)
    structure = data.problem.structure
    given = tables(structure)
    found = structure.costs_of_parts(data.labels, data.shapes, structure.read_cost(given))
    part_ptr, n_seen = offsets(structure.n_parts(data.shapes)), 0
    for i in range(3):
        own = found[part_ptr[i] : part_ptr[i + 1]]
        gold = data.problem.gold
        truth = gold.part[gold.ptr[i] : gold.ptr[i + 1]]
        for y in structure.labellings(_length(data, i)):
            try:
                parts = parts_of(data, i, y)
            except InputError:  # a tree with an arc that is pruned
                continue
            expected = cost_of(structure, data.shapes, i, truth, parts, given)
            assert own[parts].sum() - own[truth].sum() == pytest.approx(expected, abs=1e-5)
            n_seen += 1
    assert n_seen > 3


def _length(data: Small, i: int) -> Any:
    return (
        [2] * int(data.lengths[i])
        if data.problem.structure.kinds[0].name == "vertex"
        else int(data.lengths[i])
    )


def test_hamming_counts_wrong_parts_of_a_kind() -> None:
    structure = SecondOrderProjective()
    shapes = structure.shapes([3])
    truth, y = np.array([0, 1, 2]), np.array([2, 0, 2])
    costs = structure.costs_of_parts(
        truth, shapes, structure.read_cost({"arc": "hamming", "sibling": "hamming"})
    )
    true, own = (structure.encode_all(each, shapes).part for each in (truth, y))
    _, runs = structure.runs(shapes)
    counted = set()
    for kind, _, n_rows, first in runs.tolist():
        if structure.kinds[kind].name in ("arc", "sibling"):
            counted |= set(range(first, first + n_rows))
    wrong = (set(own.tolist()) - set(true.tolist())) & counted
    assert costs[own].sum() - costs[true].sum() == len(wrong) > 2


@pytest.mark.parametrize("solver", ["bcfw", "svm-struct", "chain-cd", "eg-gap", "smo"])
def test_solvers_train_with_costs_of_edges(solver: str) -> None:
    """The primal against all labellings, and bounds that meet."""
    given = {"node": "hamming", "edge": tables(Chain(3, tied=False))["edge"][:9, :9]}
    data = small("untied", "hinge", n=6, cost=given)
    problem, structure = data.problem, data.problem.structure
    found = solve(problem, SOLVERS[solver], tol=3e-3, max_passes=2000).certificate
    assert found.relative_gap <= 3e-3 and found.dual <= found.primal
    scores, part_ptr, total = problem.scores(found.weights), problem.batch.part_ptr, 0.0
    exact = {"node": 1.0 - np.eye(4), "edge": np.pad(given["edge"], (0, 1))}
    for i, length in enumerate(data.lengths.tolist()):
        own, truth = (
            scores[part_ptr[i] : part_ptr[i + 1]],
            problem.gold.part[slice(*problem.gold.ptr[i : i + 2])],
        )
        total += max(
            own[parts].sum() - own[truth].sum() + cost_of(structure, data.shapes, i, truth, parts, exact)
            for parts in (structure.encode(y) for y in structure.labellings(length))
        )
    assert found.primal == pytest.approx(total + problem.penalty(found.weights), rel=1e-5)


def test_a_grammar_counts_wrong_symbols_of_spans() -> None:
    data = small("grammar", n=3)
    structure = data.problem.structure
    costs = structure.costs_of_parts(data.labels, data.shapes, structure.read_cost({"span": "hamming"}))
    part_ptr, gold = data.problem.batch.part_ptr, data.problem.gold
    for i in range(3):
        own, truth = costs[part_ptr[i] : part_ptr[i + 1]], gold.part[slice(*gold.ptr[i : i + 2])]
        first_span = int(data.lengths[i]) * structure.kinds[0].width
        end = int(part_ptr[i + 1] - part_ptr[i]) - structure.n_tied
        assert (own[truth] == 0.0).all() and own[:first_span].sum() == 0.0 and own[end:].sum() == 0.0
        assert own[first_span:end].sum() == end - first_span - ((truth >= first_span) & (truth < end)).sum()


@pytest.mark.parametrize(
    ("kind", "cost", "message"),
    [
        ("untied", {"vertex": "hamming"}, "'vertex', which is not among the kinds of parts: node, edge"),
        ("tied", {"transition": "hamming"}, "'transition', whose parts all positions share"),
        ("untied", {"edge": np.zeros((3, 3))}, r"shape \(3, 3\); it needs \(9, 9\), or \(10, 10\)"),
        ("untied", {"edge": np.ones((9, 9))}, "zeros on the diagonal"),
        ("untied", {"edge": "heads"}, "'hamming' or a matrix"),
        ("projective", {"arc": np.zeros((1, 1))}, r"needs a matrix \(2, 2\): labellings leave parts"),
    ],
)
def test_costs_that_cannot_be(kind: str, cost: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        small(kind, "hinge", n=3, cost=cost)


def test_segments_take_costs_of_segments() -> None:
    """A wrong segment that costs 3, wherever it is."""
    X, y = make_names(15)
    settings: dict[str, Any] = {"template": "ner", "loss": "hinge", "l2": 3.0, "tol": 1e-2, "max_length": 4}
    plain = SegmentLabeler(cost={"segment": "hamming"}, **settings).fit(X, y)
    wrong = 3.0 * (1.0 - np.eye(len(plain.classes_) + 1))
    wrong[:, -1] = 0.0  # a segment that is missing costs nothing, as with "hamming"
    dear = SegmentLabeler(cost={"segment": wrong}, **settings).fit(X, y)
    usual = SegmentLabeler(**settings).fit(X, y)
    assert all(each.converged_ for each in (plain, dear, usual))
    assert dear.objective_ > 1.5 * plain.objective_ and plain.objective_ != usual.objective_


def test_estimators_take_costs_by_kind_and_keep_them(tmp_path: Path) -> None:
    corpus = toy(12, seed=1, longest=5)
    cost = {"arc": np.array([[0.0, 2.0], [1.0, 0.0]])}
    parser = DependencyParser(structure="projective", loss="hinge", labelled=False, cost=cost, tol=1e-2).fit(
        corpus
    )
    heads = DependencyParser(structure="projective", loss="hinge", labelled=False, tol=1e-2).fit(corpus)
    # A tree has as many arcs as another one, so that a wrong arc costs 1 and the missing one 2.
    assert parser.converged_ and parser.objective_ > 1.5 * heads.objective_
    parser.save(tmp_path / "model")
    assert load(tmp_path / "model").cost["arc"][0][1] == 2.0
