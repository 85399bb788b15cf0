"""Graphs with exact inference: the contract, kinds and factors of all sorts, and the forms that scores may have."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from contract_structures import Case, StructureContract, checks, generators, score_makers
from graph_families import Family, pairwise_family
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from partwise.errors import InputError
from partwise.structures import Chain, FactorKind, Graph, GraphShape, Structure
from partwise.structures.contract import PartLists
from partwise.structures.graphs import graph as graph_module
from partwise.structures.graphs.junction_tree.programme import junction_tree_programme
from partwise.structures.graphs.junction_tree.triangulation import triangulate
from partwise.structures.graphs.layout import layout_of_tables
from partwise.structures.graphs.row_cache import RowCache


@st.composite
def pair_lists(draw: Any, n: int) -> np.ndarray:
    """Edges among n vertices, in any direction, some of them twice."""
    ends = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda pair: pair[0] != pair[1])
    return np.array(draw(st.lists(ends, max_size=8)) if n > 1 else [], np.int64).reshape(-1, 2)


class TestPairwise(StructureContract):
    def case(self, draw: Any) -> Case:
        n, n_labels = draw(st.integers(1, 5)), draw(st.integers(1, 3))
        make, edges = draw(score_makers()), draw(pair_lists(n))
        structure = pairwise_family(n_labels, edges)
        return Case(structure, n, (make(n, n_labels), edges, make(len(edges), n_labels, n_labels)), {})

    def decode(self, structure: Structure, parts: np.ndarray, length: int) -> Any:
        return structure.decode_all(PartLists(np.array([0, len(parts)]), parts), structure.shapes([length]))


@st.composite
def families(draw: Any) -> Family:
    """Two vertex kinds, pairs with features, tied pairs, tied and other triples."""
    generator = draw(generators())
    sizes = {"a": draw(st.integers(1, 3)), "b": draw(st.integers(1, 3))}
    factors = [
        FactorKind("shared", ("a", "a"), True),
        FactorKind("mixed", ("b", "a")),
        FactorKind("three", ("a", "b", "a"), draw(st.booleans())),
        FactorKind("alone", ("b",), True),
    ]
    kinds = generator.integers(0, 2, 9)

    def graph_of(n: int) -> GraphShape:
        own, scopes = kinds[:n], []
        for factor in factors:
            wanted = ["ab".index(kind) for kind in factor.vertices]
            every = [s for s in product(range(n), repeat=len(wanted)) if len(set(s)) == len(s)]
            fitting = [s for s in every if own[list(s)].tolist() == wanted]
            chosen = np.random.default_rng(n).permutation(len(fitting))[:3]
            scopes.append(np.array([fitting[i] for i in chosen], np.int64).reshape(-1, len(wanted)))
        return GraphShape(own, scopes)

    return Family(sizes, factors, graph_of)


class TestKinds(StructureContract):
    """What solvers see of several kinds; users' methods are asked with tables of any form below."""

    def case(self, draw: Any) -> Case:
        return Case(draw(families()), draw(st.integers(1, 5)), (), {})

    decode = TestPairwise.decode
    test_marginals_and_entropy = test_argmax_and_kbest = test_samples_are_possible_and_repeatable = None
    test_loss_augmented_argmax = test_nothing_possible = test_bad_numbers_are_refused = None
    test_sample_frequencies = test_log_partition = None

    @checks
    @given(st.data())
    def test_kbest_parts(self, data: Any) -> None:
        structure, length, scores, totals = self.flat(data.draw)
        assume(totals.max() > -np.inf)
        shape = structure.shapes([length]).values
        found = structure.kbest_parts(shape, scores, 4)
        ranked = np.sort(totals[totals > -np.inf])[::-1][:4]
        np.testing.assert_allclose([scores[parts].sum() for parts in found], ranked, rtol=1e-12, atol=1e-9)


@st.composite
def table_graphs(draw: Any) -> tuple[list[np.ndarray], list[tuple[int, ...]], list[np.ndarray]]:
    """Vertices with different numbers of labels, factors of one to four vertices."""
    n, make = draw(st.integers(1, 5)), draw(score_makers())
    sizes = draw(st.lists(st.integers(1, 3), min_size=n, max_size=n))
    scopes = draw(st.lists(st.permutations(range(n)).map(lambda p: tuple(p[:4])), max_size=5))
    scopes = [scope[: draw(st.integers(1, 4))] for scope in scopes]
    tables = [make(*(sizes[v] for v in scope)) for scope in scopes]
    return [make(size) for size in sizes], scopes, tables


def enumerated(vertex: Any, scopes: Any, tables: Any) -> tuple[list[tuple[int, ...]], np.ndarray]:
    labellings = list(product(*(range(len(own)) for own in vertex)))
    return labellings, np.array([Graph().score(y, vertex, scopes, tables) for y in labellings])


@settings(checks, max_examples=60)
@given(st.data())
def test_tables_of_any_form(data: Any) -> None:
    scores = data.draw(table_graphs())
    vertex, scopes, _ = scores
    labellings, totals = enumerated(*scores)
    structure, top = Graph(), totals.max()
    if top == -np.inf:
        assert structure.log_partition(*scores) == structure.log_count(*scores) == -np.inf
        with pytest.raises(InputError, match="every labelling"):
            structure.marginals(*scores)
    assume(top > -np.inf)
    log_total = top + np.log(np.exp(totals - top).sum())
    np.testing.assert_allclose(structure.log_partition(*scores), log_total, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(structure.log_count(*scores), np.log((totals > -np.inf).sum()), atol=1e-12)
    largest = np.abs(totals[totals > -np.inf]).max()
    p, atol = np.exp(totals - log_total), 1e-10 + 2e-14 * largest
    found = structure.marginals(*scores)
    for v in range(len(vertex)):
        expected = [sum(p[[y[v] == label for y in labellings]]) for label in range(len(vertex[v]))]
        np.testing.assert_allclose(found.vertex[v], expected, atol=atol)
    for scope, table in zip(scopes, found.edge, strict=True):
        expected = np.zeros(table.shape)
        for y, share in zip(labellings, p, strict=True):
            expected[tuple(y[v] for v in scope)] += share
        np.testing.assert_allclose(table, expected, atol=atol)
    best = structure.score(structure.argmax(*scores), *scores)
    np.testing.assert_allclose(best, top, rtol=1e-12, atol=1e-9)
    positive = p[p > 0]
    np.testing.assert_allclose(structure.entropy(*scores), -positive @ np.log(positive), atol=20 * atol)
    ranked = np.sort(totals[totals > -np.inf])[::-1][:9]
    np.testing.assert_allclose([s for _, s in structure.kbest(*scores, k=9)], ranked, rtol=1e-12, atol=1e-9)
    gold = labellings[data.draw(st.integers(0, len(labellings) - 1))]
    wrong = np.array([sum(a != b for a, b in zip(y, gold, strict=True)) for y in labellings])
    augmented = structure.loss_augmented_argmax(*scores, y=gold, cost=3.0)
    at = labellings.index(tuple(augmented.tolist()))
    np.testing.assert_allclose(
        (totals + 3.0 * wrong)[at], (totals + 3.0 * wrong).max(), rtol=1e-12, atol=1e-9
    )


@checks
@given(st.data())
def test_new_names_change_nothing(data: Any) -> None:
    vertex, scopes, tables = data.draw(table_graphs())
    renamed = data.draw(st.permutations(range(len(vertex))))  # vertex v becomes renamed[v]
    again = [vertex[renamed.index(v)] for v in range(len(vertex))]
    order = data.draw(st.permutations(range(len(scopes))))
    theirs = again, [tuple(renamed[v] for v in scopes[f]) for f in order], [tables[f] for f in order]
    structure, ours = Graph(), (vertex, scopes, tables)
    log_total = structure.log_partition(*ours)
    np.testing.assert_allclose(structure.log_partition(*theirs), log_total, rtol=1e-11, atol=1e-9)
    assume(log_total > -np.inf)
    largest = max(np.abs(np.where(np.isfinite(t), t, 0.0)).max(initial=0.0) for t in (*vertex, *tables))
    atol = 1e-10 + 1e-13 * largest
    a, b = structure.marginals(*ours), structure.marginals(*theirs)
    for v, own in enumerate(a.vertex):
        np.testing.assert_allclose(b.vertex[renamed[v]], own, atol=atol)
    for place, f in enumerate(order):
        np.testing.assert_allclose(b.edge[place], a.edge[f], atol=atol)


@pytest.mark.parametrize("scale", [1.0, 50.0, 1e3, 1e6])
@pytest.mark.parametrize(("length", "n_labels"), [(1, 4), (2, 3), (9, 5), (1000, 3), (12, 40)])
def test_chains(length: int, n_labels: int, scale: float) -> None:
    random = np.random.default_rng(length)
    node, edge = (
        scale * random.normal(size=(length, n_labels)),
        random.normal(size=(length - 1, n_labels, n_labels)),
    )
    edge *= scale
    v = np.arange(length)
    ours, theirs = (node, np.column_stack([v[:-1], v[1:]]), edge), (node, edge)
    structure, chain = Graph(), Chain(n_labels, tied=False)
    np.testing.assert_allclose(structure.log_partition(*ours), chain.log_partition(*theirs), rtol=1e-12)
    for a, b in zip(structure.marginals(*ours), chain.marginals(*theirs), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10 + 1e-15 * scale * length)
    np.testing.assert_array_equal(structure.argmax(*ours), chain.argmax(*theirs))
    if length < 100:
        np.testing.assert_allclose(
            [s for _, s in structure.kbest(*ours, k=20)],
            [s for _, s in chain.kbest(*theirs, k=20)],
            rtol=1e-12,
        )


def grid(height: int, width: int) -> np.ndarray:
    v = np.arange(height * width).reshape(height, width)
    across = np.column_stack([v[:, :-1].ravel(), v[:, 1:].ravel()])
    return np.concatenate([across, np.column_stack([v[:-1].ravel(), v[1:].ravel()])])


def test_grid_by_rows() -> None:
    """A grid of 10 × 10 against a chain whose 2^10 labels are the rows."""
    random, edges = np.random.default_rng(0), grid(10, 10)
    vertex, edge = random.normal(size=(100, 2)), random.normal(size=(len(edges), 2, 2))
    rows = (np.arange(1024)[:, None] >> np.arange(9, -1, -1)) & 1
    node, between = np.zeros((10, 1024)), np.zeros((9, 1024, 1024))
    for (a, b), table in zip(edges, edge, strict=True):
        (i, j), k = divmod(a, 10), b % 10
        if b == a + 1:
            node[i] += table[rows[:, j], rows[:, k]]
        else:
            between[i] += table[rows[:, j][:, None], rows[:, j]]
    for v in range(100):
        node[v // 10] += vertex[v][rows[:, v % 10]]
    forward = node[0]
    for i in range(9):
        together = forward[:, None] + between[i] + node[i + 1]
        top = together.max(axis=0)
        forward = top + np.log(np.exp(together - top).sum(axis=0))
    expected = forward.max() + np.log(np.exp(forward - forward.max()).sum())
    np.testing.assert_allclose(Graph().log_partition(vertex, edges, edge), expected, rtol=1e-12)
    p, q = Graph().marginals(vertex, edges, edge)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(q.sum(axis=2), p[edges[:, 0]], atol=1e-12)
    np.testing.assert_allclose(q.sum(axis=1), p[edges[:, 1]], atol=1e-12)


def test_too_wide_is_refused_with_what_it_would_need() -> None:
    edges = grid(10, 10)
    scores = np.zeros((100, 2)), edges, np.zeros((len(edges), 2, 2))
    with pytest.raises(
        InputError, match=r"tree-width .* is 1\d, .* entries .* table_limit = 1,000; use FactorGraph"
    ):
        Graph(table_limit=1000).marginals(*scores)
    pairs = np.column_stack(np.triu_indices(150, 1))  # all joined with all: more than a float holds
    layout = layout_of_tables(np.full(150, 1000), np.full(len(pairs), 2), pairs.ravel())
    with pytest.raises(InputError, match=r"is 149, and exact tables would have 10\^450 entries, more than"):
        junction_tree_programme(layout, 10**9)
    edges = grid(60, 60)
    with pytest.raises(InputError, match="at least"):
        Graph(table_limit=1000).marginals(np.zeros((3600, 2)), edges, np.zeros((len(edges), 2, 2)))


def test_triangulations() -> None:
    """No edge is missing where the graph needs none; every factor has a clique; neighbours in the tree agree."""
    random = np.random.default_rng(0)
    tree = [(int(random.integers(v)), v) for v in range(1, 40)]
    assert triangulate([2] * 40, tree, 10**6).width == 1
    for seed in range(20):
        random = np.random.default_rng(seed)
        scopes = [random.permutation(12)[: random.integers(1, 4)].tolist() for _ in range(10)]
        found = triangulate([2] * 12, scopes, 10**6)
        cliques = [{*clique.own, *clique.shared} for clique in found.cliques]
        assert sorted(v for clique in found.cliques for v in clique.own) == list(range(12))
        assert all(any(set(scope) <= clique for clique in cliques) for scope in scopes)
        for clique in found.cliques:
            if clique.shared:
                assert set(clique.shared) <= cliques[found.home[clique.shared[0]]]


def test_trees_are_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For graphs of one form, whatever the scores, by users' methods and by shapes."""
    built: list[int] = []

    def counted(layout: Any, limit: int) -> np.ndarray:
        built.append(1)
        return junction_tree_programme(layout, limit)

    monkeypatch.setattr(graph_module, "junction_tree_programme", counted)
    structure, random = Graph(table_limit=12345), np.random.default_rng(0)
    for _ in range(3):
        structure.marginals(random.normal(size=(4, 2)), [(0, 1), (2, 3)], random.normal(size=(2, 2, 2)))
    assert len(built) == 1
    structure = Graph({"a": 2}, [FactorKind("f", ("a", "a"))], table_limit=12345)
    shapes = structure.shapes_of(
        [GraphShape([0, 0, 0], [[[0, 2]]])] * 5 + [GraphShape([0, 0, 0], [[[0, 1]]])]
    )
    assert len(built) == 3 and len(shapes.ptr) == 7
    rows = RowCache(10)
    for key in (1, 2, 1, 3, 1, 2):  # room for two rows: the third sends away what was not asked for lately
        rows.get(key, lambda: built.append(2) or np.zeros(4, np.int32))
    assert built.count(2) == 4


def test_extremes() -> None:
    structure = Graph()
    nothing = structure.marginals(np.zeros((0, 3)))
    assert len(nothing.vertex) == len(nothing.edge) == 0
    assert structure.log_partition(np.zeros((0, 3))) == structure.entropy(np.zeros((0, 3))) == 0.0
    assert structure.argmax(np.zeros((0, 3))).shape == (0,)
    assert structure.log_partition([]).shape == (0,)
    assert structure.marginals([], [], []) == []
    alone = np.array([[0.0, 1.0], [2.0, 0.0]])  # no edges at all
    np.testing.assert_allclose(structure.log_partition(alone), np.logaddexp(0, 1) + np.logaddexp(2, 0))
    many = np.random.default_rng(0).normal(size=(2, 700))  # a table of half a million entries
    table = np.random.default_rng(1).normal(size=(700, 700))
    total = many[0][:, None] + many[1] + table
    expected = np.exp(total - np.log(np.exp(total).sum()))
    np.testing.assert_allclose(structure.marginals(many, [(0, 1)], [table]).edge[0], expected, atol=1e-12)
    hub = np.zeros((400, 2))  # the product of 399 messages leaves the range of numbers
    hub[0] = 3.0, 0.0
    spokes, pull = [(0, v) for v in range(1, 400)], np.array([[0.0, -5.0], [0.0, 5.0]])
    up, down = 3.0 + 399 * np.logaddexp(0.0, -5.0), 399 * np.logaddexp(0.0, 5.0)
    np.testing.assert_allclose(structure.log_partition(hub, spokes, [pull] * 399), np.logaddexp(up, down))
    assert structure.argmax(hub, spokes, [pull] * 399).all()


def test_what_is_faint_may_decide_later() -> None:
    """All vertices are alike; label 0 loses e^−1200 on the way to the middle and wins it back behind it."""
    vertex, n = np.zeros((8, 2)), 8
    vertex[:4, 0], vertex[4:, 0] = -300.0, 301.0
    alike, line = np.where(np.eye(2) > 0, 0.0, -np.inf), [(v, v + 1) for v in range(n - 1)]
    for order in (np.arange(n), np.arange(n)[::-1], np.array([0, 4, 1, 5, 2, 6, 3, 7])):
        scores = vertex[order], line, [alike] * (n - 1)
        np.testing.assert_allclose(Graph().log_partition(*scores), np.logaddexp(4.0, 0.0), atol=1e-10)
        np.testing.assert_allclose(
            Graph().marginals(*scores).vertex[:, 0], 1 / (1 + np.exp(-4.0)), atol=1e-10
        )
    spokes = [(0, v) for v in range(1, 401)]  # half of them pull to one label, half to the other
    pulls = [np.array([[0.0, -5.0], [0.0, 5.0]]) * (1 if v % 2 else -1) for v in range(400)]
    one, other = np.logaddexp(0.0, -5.0), np.logaddexp(0.0, 5.0)
    total = 200 * (one + other) + np.log(2.0)
    np.testing.assert_allclose(Graph().log_partition(np.zeros((401, 2)), spokes, pulls), total, rtol=1e-12)
    np.testing.assert_allclose(
        Graph().marginals(np.zeros((401, 2)), spokes, pulls).vertex[0], 0.5, atol=1e-10
    )


def test_fixed_and_forbidden_labels() -> None:
    """Colourings of a ring of five with three colours, one vertex fixed."""
    ring, differ = [(v, (v + 1) % 5) for v in range(5)], np.where(np.eye(3) > 0, -np.inf, 0.0)
    scores = np.zeros((5, 3)), ring, [differ] * 5
    assert Graph().log_count(*scores) == pytest.approx(np.log(30))
    scores[0][2] = -np.inf, 0.0, -np.inf
    assert Graph().log_count(*scores) == pytest.approx(np.log(10))
    for y in Graph().sample(*scores, n_samples=20, random_state=0):
        assert y[2] == 1
        assert all(y[a] != y[b] for a, b in ring)
    assert len(Graph().kbest(*scores, k=50)) == 10


def test_lists_of_graphs_are_one_by_one() -> None:
    random = np.random.default_rng(0)
    sizes = [3, 1, 4]
    vertex = [random.normal(size=(n, 2)) for n in sizes]
    edges = [np.column_stack([np.arange(n - 1), np.arange(1, n)]) for n in sizes]
    tables = [random.normal(size=(n - 1, 2, 2)) for n in sizes]
    structure, each = Graph(), list(zip(vertex, edges, tables, strict=True))
    for method in ("log_partition", "entropy", "log_count"):
        np.testing.assert_allclose(
            getattr(structure, method)(vertex, edges, tables),
            [getattr(structure, method)(*one) for one in each],
        )
    gold = [np.zeros(n, int) for n in sizes]
    results = (
        structure.argmax(vertex, edges, tables),
        structure.loss_augmented_argmax(vertex, edges, tables, y=gold, cost=0.5),
        [m.vertex for m in structure.marginals(vertex, edges, tables)],
        [found[0][0] for found in structure.kbest(vertex, edges, tables, k=1)],
    )
    for i, one in enumerate(each):
        np.testing.assert_array_equal(results[0][i], structure.argmax(*one))
        np.testing.assert_array_equal(
            results[1][i], structure.loss_augmented_argmax(*one, y=gold[i], cost=0.5)
        )
        np.testing.assert_array_equal(results[2][i], structure.marginals(*one).vertex)
        np.testing.assert_array_equal(results[3][i], results[0][i])
    assert [s.shape for s in structure.sample(vertex, edges, tables, 2, 0)] == [(2, n) for n in sizes]
    shared = structure.log_partition(np.stack(vertex[:1] * 2), edges[0], [tables[0]] * 2)
    np.testing.assert_allclose(shared, structure.log_partition(*each[0]))


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ((np.zeros((2, 2)), [(0, 0)], [np.zeros((2, 2))]), "factor 0 joins vertex 0 with itself"),
        ((np.zeros((2, 2)), [(0, 2)], [np.zeros((2, 2))]), "joins vertex 2; the graph has 2 vertices"),
        ((np.zeros((2, 2)), [(0, 1)], []), "edge_scores has 0 tables for 1 edges"),
        (
            (np.zeros((2, 2)), [(0, 1)], [np.zeros((2, 3))]),
            r"edge_scores\[0\] has shape \(2, 3\), expected \(2, 2\)",
        ),
        ((np.zeros((2, 2)), np.array([[0, 1]]), np.zeros((1, 3, 3))), r"edge_scores has shape \(1, 3, 3\)"),
        (
            (np.zeros((2, 2)), [(0, 1, 1)], [np.zeros((2, 2, 2))]),
            r"edges\[0\]: factor 0 joins vertex 1 with itself",
        ),
        ((np.zeros((2, 2)), [(0.5, 1)], [np.zeros((2, 2))]), "edges must be integers"),
        ((np.zeros((2, 2)), [(0, 1)], [np.full((2, 2), np.nan)]), "edge_scores contains NaN"),
        (([[0.0], []], [], []), "vertex 1 has no labels"),
        ((np.zeros((2, 0)), [], []), "vertex 0 has no labels"),
        ((3.0, [], []), "vertex_scores must be"),
        ((np.zeros((2, 2)), 5, []), "edges must be"),
        ((np.zeros((2, 2)), [(0, 1)], 5), "edge_scores must be"),
        (([np.zeros((2, 2))], 5, [[]]), "edges must be a list"),
        ((np.zeros((2, 2)), [(0, -1)], [np.zeros((2, 2))]), "joins vertex -1"),
        ((np.zeros((2, 2)), [()], [0.0]), r"edges\[0\] must be a tuple of vertices"),
        (([np.zeros((2, 2))] * 2, [[], []], [[]]), "vertex_scores has 2 graphs, edges 2, edge_scores 1"),
    ],
)
def test_refusals(scores: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as refused:
        Graph().log_partition(*scores)
    assert "\n" not in str(refused.value)


def test_kinds_are_checked() -> None:
    ends = ("a", "b")
    for vertices, factors, message in (
        ({"a": 0}, [], "at least 1"),
        ({"a": 2}, [FactorKind("a", ("a",))], "'a' names two kinds"),
        ({"a": 2}, [FactorKind("f", ends)], "'b', which is not among the vertex kinds: a"),
        ({"a": 2}, [FactorKind("f", ())], "'f' joins no vertices"),
        ({"a": 2}, ["f"], "FactorKind"),
    ):
        with pytest.raises(InputError, match=message):
            Graph(vertices, factors)
    structure = Graph({"a": 2, "b": 3}, [FactorKind("f", ends)])
    for graph, message in (
        (GraphShape([2], [[]]), "vertex 0 is of kind 2; there are 2 kinds, from 0 on: a, b"),
        (GraphShape([0, 0], [[[0, 1]]]), "has vertex 1, of kind 'a', where it needs one of kind 'b'"),
        (GraphShape([0, 1], [[[0, 2]]]), "joins vertex 2; the graph has 2 vertices"),
        (GraphShape([0, 1], []), "scopes has 0 arrays for 1 kinds"),
        (GraphShape([0, 1], [[0, 1]]), r"scopes have shape \(2,\)"),
    ):
        with pytest.raises(InputError, match=message):
            structure.shapes_of([graph])
    shapes = structure.shapes_of([GraphShape([0, 1], [[[0, 1]]])])
    with pytest.raises(InputError, match="example 0, vertex 0 has label 2, but its labels run from 0 to 1"):
        structure.encode_all([2, 2], shapes)
    with pytest.raises(InputError, match="labels has 1 entries"):
        structure.encode_all([0], shapes)
    with pytest.raises(InputError, match="shapes_of"):
        structure.shapes([2])
    with pytest.raises(InputError, match="names 'c'"):
        structure.read_cost({"c": "hamming"})
    tables = structure.read_cost({"b": 2.0 * (1.0 - np.eye(3))})
    costs = structure.costs_of_parts([1, 2], shapes, tables)
    assert costs[:5].tolist() == [0.0, 0.0, 2.0, 2.0, 0.0]
