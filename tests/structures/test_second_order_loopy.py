"""Loopy belief propagation on second-order trees, against message passing on general factor graphs."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from test_second_order import scores_of
from toy_treebanks import toy

from partwise import DependencyParser, InputError, load
from partwise.structures import FactorGraph, SecondOrderSpanning, Spanning, Tree


def as_factor_graph(n: int, arcs: Any, siblings: Any, grandparents: Any, single_root: bool) -> dict[str, Any]:
    """The same factors as tables: one over all arcs of a side, one over each pair, and the tree as a rule."""
    number = {(h, m): 0 for m in range(1, n + 1) for h in range(n + 1) if h != m and arcs[h, m] > -np.inf}
    number = {arc: i for i, arc in enumerate(number)}
    vertices = [np.array([0.0, arcs[arc]]) for arc in number]
    edges, tables = [], []
    for h, side in itertools.product(range(n + 1), (range(-1, -n - 1, -1), range(1, n + 1))):
        modifiers = [h + step for step in side if (h, h + step) in number]
        table = np.zeros((2,) * len(modifiers))
        for states in itertools.product((0, 1), repeat=len(modifiers)):
            on = list(itertools.compress(modifiers, states))
            pairs = zip([h, *on], [*on, h], strict=True) if on else ()
            table[states] = sum(siblings[h, s, m] for s, m in pairs)
        if len(modifiers) == 1 or (h == 0 and single_root):
            for m in modifiers:
                vertices[number[h, m]][1] += siblings[h, h, m] + siblings[h, m, h]
        elif modifiers:
            edges.append([number[h, m] for m in modifiers])
            tables.append(table)
    for (h, m), (g, k) in itertools.product(number, number):
        if k == h and g != m:
            edges.append([number[g, h], number[h, m]])
            tables.append(np.array([[0.0, 0.0], [0.0, grandparents[g, h, m]]]))
    rules = [Tree(n, arcs=list(number), single_root=single_root)]
    return {"vertex_scores": vertices, "edges": edges, "edge_scores": tables, "rules": rules}


@pytest.mark.parametrize("single_root", [True, False])
def test_messages_are_those_of_the_factor_graph(single_root: bool) -> None:
    """The general implementation shares only the tree's marginals with this one."""
    structure = SecondOrderSpanning(single_root=single_root, engine="loopy")
    general = FactorGraph(engine="loopy", damping=0.3, tolerance=1e-8)
    compared = 0
    for n, scale, seed in itertools.product((2, 3, 4), (0.3, 1.0, 3.0), range(2)):
        scores = scores_of(n, seed, scale, 0.2)
        graph = as_factor_graph(n, *scores, single_root)
        if general.diagnose(**graph).loopy_change > 1e-8:
            continue  # no fixed point to compare with
        compared += 1
        np.testing.assert_allclose(
            structure.log_partition(*scores), general.log_partition(**graph), atol=1e-4
        )
        theirs = np.array([belief[1] for belief in general.marginals(**graph).vertex])
        own = structure.marginals(*scores).arc.T[np.isfinite(scores[0]).T & ~np.eye(n + 1, dtype=bool)]
        np.testing.assert_allclose(own[-len(theirs) :], theirs, atol=1e-3)
    assert compared >= 8


@pytest.mark.parametrize("single_root", [True, False])
def test_without_pairs_it_is_first_order(single_root: bool) -> None:
    second, first = (
        SecondOrderSpanning(single_root=single_root, engine="loopy"),
        Spanning(single_root=single_root),
    )
    for n in (1, 6, 19):
        arcs, nothing = scores_of(n, 0, 3.0)[0], np.zeros((n + 1,) * 3)
        value = second.log_partition(arcs, nothing, nothing)
        assert value == pytest.approx(first.log_partition(arcs), rel=1e-12)
        found = second.marginals(arcs, nothing, nothing)
        np.testing.assert_allclose(found.arc, first.marginals(arcs), atol=1e-12)


def test_extreme_and_impossible_scores() -> None:
    """Scores of millions and forbidden pairs give finite beliefs; trees that are all forbidden are refused."""
    structure = SecondOrderSpanning(single_root=False, engine="loopy")
    for scale in (1e3, 1e9):
        arcs, siblings, grandparents = scores_of(5, 1, scale, 0.3)
        siblings[1, 1, 2] = grandparents[0, 1, 3] = -np.inf
        found = structure.marginals(arcs, siblings, grandparents)
        assert all(
            np.isfinite(each).all() and each.min() >= 0.0 and each.max() <= 1.0 + 1e-6 for each in found[:3]
        )
        np.testing.assert_allclose(found.arc[:, 1:].sum(axis=0), 1.0, atol=1e-9)
        assert found.sibling[1, 1, 2] < 1e-9 and found.grandparent[0, 1, 3] < 1e-9
    with pytest.raises(InputError, match="every labelling scores −inf"):
        structure.marginals(arcs, np.full_like(siblings, -np.inf), grandparents)


def test_best_trees_have_the_bound_of_the_relaxation() -> None:
    scores = scores_of(5, 3)
    loopy, relaxed = SecondOrderSpanning(engine="loopy"), SecondOrderSpanning()
    found, expected = loopy.best_labelling(*scores), relaxed.best_labelling(*scores)
    assert found.proved and found.score == expected.score and found.bound == expected.bound
    with pytest.raises(InputError, match="engine must be 'relaxation' or 'loopy', not 'bp'"):
        SecondOrderSpanning(engine="bp")  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def corpus() -> Any:
    return toy(30)


@pytest.mark.filterwarnings("ignore:stopped at max_passes")
@pytest.mark.parametrize("labelled", [False, True])
def test_parser(labelled: bool, corpus: Any, tmp_path: Any) -> None:
    """It learns the toy grammar, claims no bound, and a saved model parses as before."""
    parser = DependencyParser(
        order=2, inference="loopy", labelled=labelled, l2=0.3, max_passes=8, solver="mira"
    )
    parser.fit(corpus)
    assert parser.certificate_kind_ == "approximate" and parser.dual_objective_ == -np.inf
    assert (parser.parse(corpus).heads == corpus.heads).mean() > 0.9
    parser.save(tmp_path / "m.pw")
    again = load(tmp_path / "m.pw")
    assert again.inference == "loopy" and again._model.structure.engine == "loopy"
    assert (again.parse(corpus).heads == parser.parse(corpus).heads).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"inference": "bp"}, "inference must be 'auto' or 'loopy'"),
        ({"inference": "loopy"}, "is for order=2 with structure='spanning'"),
        (
            {"inference": "loopy", "order": 2, "structure": "projective"},
            "is for order=2 with structure='spanning'",
        ),
        ({"inference": "loopy", "order": 2, "loss": "hinge"}, "needs a loss with finite beta"),
    ],
)
def test_refusals(parameters: dict[str, Any], message: str, corpus: Any) -> None:
    with pytest.raises(InputError, match=message):
        DependencyParser(**parameters, max_passes=1).fit(corpus)
