"""Factor graphs: exact without cycles, bounds with them, rules that no best labelling breaks."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from contract_structures import Case, StructureContract, checks, generators, score_makers
from graph_families import FactorFamily
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from partwise.errors import InputError
from partwise.structures import (
    XOR,
    AtMostOne,
    ExactlyK,
    FactorGraph,
    FactorKind,
    Graph,
    GraphShape,
    Implication,
    Knapsack,
    Or,
    RuledShape,
    Structure,
    Tree,
)
from partwise.structures.contract import PartLists

few = settings(checks, max_examples=15)


class TestWithoutCycles(StructureContract):
    """On forests both engines give the exact answer to everything."""

    engine: Any = "tree-reweighted"

    def case(self, draw: Any) -> Case:
        n, n_labels, make = draw(st.integers(1, 5)), draw(st.integers(1, 3)), draw(score_makers())
        generator = draw(generators())
        heads = [(int(generator.integers(0, v)), v)[:: 1 if draw(st.booleans()) else -1] for v in range(1, 5)]
        kept = [pair for pair in heads if generator.random() < 0.8]
        edges = np.array(kept, np.int64).reshape(-1, 2)

        def graph_of(size: int) -> GraphShape:
            return GraphShape(np.zeros(size, np.int64), [edges[(edges < size).all(axis=1)]])

        kinds = {"vertex": n_labels}, [FactorKind("edge", ("vertex", "vertex"))]
        structure = FactorFamily(*kinds, graph_of, engine=self.engine)
        own = graph_of(n).scopes[0]
        return Case(structure, n, (make(n, n_labels), own, make(len(own), n_labels, n_labels)), {})

    def decode(self, structure: Structure, parts: np.ndarray, length: int) -> Any:
        return structure.decode_all(PartLists(np.array([0, len(parts)]), parts), structure.shapes([length]))


class TestLoopyWithoutCycles(TestWithoutCycles):
    engine = "loopy"


@pytest.mark.parametrize("engine", ["loopy", "tree-reweighted"])
def test_entropy_of_three_best_labellings_of_a_million(engine: str) -> None:
    """Three labellings share the best score; all others score a million less. A − s·μ would be wrong by 3e-5."""
    vertices = np.array([[1e6, 0.0], [0.0, 0.0], [-1e6, 0.0]])
    tables = np.array([[[-1e6, 0.0], [1e6, -1e6]], [[0.0, -1e6], [0.0, 1e6]]])
    structure = FactorGraph(engine=engine)
    found = structure.entropy(vertices, [(1, 0), (0, 2)], list(tables))
    assert found == pytest.approx(np.log(3.0), abs=1e-9)
    thirds = structure.marginals(vertices, [(1, 0), (0, 2)], list(tables)).vertex
    np.testing.assert_allclose(thirds, [[2 / 3, 1 / 3], [1 / 3, 2 / 3], [1 / 3, 2 / 3]], atol=1e-9)


# -- with cycles ------------------------------------------------------------------------------------


def written_out(scores: tuple[Any, Any, Any], rules: Any = ()) -> tuple[np.ndarray, np.ndarray]:
    """All labellings (N, V) and their scores."""
    labels = np.array(list(product(*[range(len(vector)) for vector in scores[0]])))
    structure = FactorGraph()
    return labels, np.array([structure.score(y, *scores, rules) for y in labels])


def log_sum(values: np.ndarray) -> float:
    top = values.max()
    return float(top + np.log(np.exp(values - top).sum()))


def random_graph(generator: np.random.Generator, scale: float = 1.0, most: int = 5) -> tuple[Any, Any, Any]:
    """Vertices with two or three labels, pairs and a triple, most of them in cycles."""
    n = int(generator.integers(2, most + 1))
    sizes = generator.integers(2, 4, n)
    scopes = [(a, b) for a in range(n) for b in range(a) if generator.random() < 0.7]
    if n > 2:
        scopes.append(tuple(generator.permutation(n)[:3].tolist()))
    vertex = [scale * generator.normal(size=size) for size in sizes]
    return vertex, scopes, [scale * generator.normal(size=tuple(sizes[list(scope)])) for scope in scopes]


def random_rules(generator: np.random.Generator, n: int) -> list[Any]:
    """A few rules over n vertices with two labels."""

    def some(least: int) -> list[int]:
        return generator.permutation(n)[: int(generator.integers(least, n + 1))].tolist()

    chosen, pair = some(1), generator.permutation(n)[:2].tolist()
    makers = [
        lambda: XOR(some(1)),
        lambda: AtMostOne(some(1)),
        lambda: Or(some(1)),
        lambda: ExactlyK(chosen, int(generator.integers(0, len(chosen) + 1))),
        lambda: Implication(*pair),
        lambda: Knapsack(chosen, generator.integers(1, 5, len(chosen)), int(generator.integers(0, 8))),
    ]
    return [makers[k]() for k in generator.integers(0, len(makers), int(generator.integers(1, 4)))]


def mean_field(scores: tuple[Any, Any, Any], generator: np.random.Generator) -> float:
    """The best of a few product distributions' expected score plus entropy: a lower bound."""
    labels, values = written_out(scores)
    best = -np.inf
    for _ in range(5):
        beliefs = [generator.dirichlet(np.ones(len(vector))) for vector in scores[0]]
        for _ in range(10):
            for v in range(len(beliefs)):
                others = np.prod([beliefs[u][labels[:, u]] for u in range(len(beliefs)) if u != v], axis=0)
                mean = np.array([(others * values)[labels[:, v] == x].sum() for x in range(len(beliefs[v]))])
                beliefs[v] = np.exp(mean - log_sum(mean))
        p = np.prod([beliefs[v][labels[:, v]] for v in range(len(beliefs))], axis=0)
        best = max(best, float((p * (values - np.log(np.maximum(p, 1e-300)))).sum()))
    return best


@few
@given(generators(), st.sampled_from([0.3, 1.0, 4.0]))
def test_bounds_are_in_order(generator: Any, scale: float) -> None:
    scores = random_graph(generator, scale)
    exact = log_sum(written_out(scores)[1])
    bound = FactorGraph().log_partition(*scores)
    assert mean_field(scores, generator) - 1e-9 <= exact <= bound + 1e-9
    # The bound is one at any messages, also after a single sweep.
    assert FactorGraph(max_iterations=1).log_partition(*scores) >= bound - 1e-9
    found = FactorGraph().diagnose(*scores)
    assert found.distance == pytest.approx(found.tree_reweighted - found.loopy)


@few
@given(generators())
def test_entropy_and_marginals_of_the_bound(generator: Any) -> None:
    """A(s + t) ≥ A(s) + t·μ: μ is a subgradient, and A − s·μ is what the relaxation means by entropy."""
    structure, scores = FactorGraph(), random_graph(generator)
    beliefs = structure.marginals(*scores)
    base = structure.log_partition(*scores)
    steps = [generator.normal(size=np.shape(vector)) for vector in scores[0]]
    for size in (1e-4, 1.0):
        moved = [vector + size * step for vector, step in zip(scores[0], steps, strict=True)]
        slope = size * sum(float(step @ own) for step, own in zip(steps, beliefs.vertex, strict=True))
        rise = structure.log_partition(moved, *scores[1:]) - base
        assert rise >= slope - 1e-9
        if size < 1e-2:
            assert rise - slope < 1e-6
    pieces = zip([*scores[0], *scores[2]], [*beliefs.vertex, *beliefs.edge], strict=True)
    expected = sum(float((s * mu).sum()) for s, mu in pieces)
    assert structure.entropy(*scores) == pytest.approx(base - expected, abs=1e-9)


@few
@given(generators(), st.sampled_from(["tree-reweighted", "loopy"]))
def test_beliefs_are_consistent(generator: Any, engine: Any) -> None:
    scores = random_graph(generator, 0.7)
    structure = FactorGraph(engine=engine, max_iterations=5000, damping=0.3)
    beliefs, found = structure.marginals(*scores), structure.diagnose(*scores)
    assume((found.loopy_change if engine == "loopy" else found.tree_reweighted_change) <= 1e-9)
    for scope, table in zip(scores[1], beliefs.edge, strict=True):
        for axis, v in enumerate(scope):
            others = tuple(k for k in range(len(scope)) if k != axis)
            np.testing.assert_allclose(table.sum(axis=others), beliefs.vertex[v], atol=1e-8)


@few
@given(generators(), st.sampled_from(["tree-reweighted", "loopy"]))
def test_names_of_vertices_do_not_matter(generator: Any, engine: Any) -> None:
    vertex, scopes, tables = random_graph(generator)
    n, structure = len(vertex), FactorGraph(engine=engine, max_nodes=20)
    names = generator.permutation(n)
    old = np.argsort(names)
    renamed = [vertex[v] for v in old], [tuple(int(names[v]) for v in scope) for scope in scopes], tables
    one, other = structure.marginals(vertex, scopes, tables), structure.marginals(*renamed)
    for v in range(n):
        np.testing.assert_allclose(one.vertex[v], other.vertex[int(names[v])], atol=1e-8)
    a, b = structure.log_partition(vertex, scopes, tables), structure.log_partition(*renamed)
    assert a == pytest.approx(b, abs=1e-8)


@few
@given(generators(), st.sampled_from([1.0, 100.0]), st.booleans())
def test_best_labellings_are_proved(generator: Any, scale: float, tied: bool) -> None:
    scores = random_graph(generator, scale)
    if tied:
        scores = [np.round(s) for s in scores[0]], scores[1], [np.round(s) for s in scores[2]]
    found = FactorGraph().best_labelling(*scores)
    best = written_out(scores)[1].max()
    assert found.proved
    assert found.score == pytest.approx(best, rel=1e-12)
    assert found.score == pytest.approx(FactorGraph().score(found.labels, *scores), rel=1e-12)


@few
@given(generators(), st.sampled_from([0.0, 1.0, 50.0]))
def test_rules_are_never_broken(generator: Any, scale: float) -> None:
    n = int(generator.integers(2, 6))
    rules = random_rules(generator, n)
    scopes = [(a, b) for a in range(n) for b in range(a) if generator.random() < 0.4]
    scores = (
        scale * generator.normal(size=(n, 2)),
        scopes,
        list(scale * generator.normal(size=(len(scopes), 2, 2))),
    )
    _, values = written_out(scores, rules)
    structure = FactorGraph()
    if values.max() == -np.inf:
        with pytest.raises(InputError):
            structure.argmax(*scores, rules)
    assume(values.max() > -np.inf)
    found = structure.best_labelling(*scores, rules)
    assert all(rule.allows(found.labels) for rule in rules)
    assert found.proved
    assert found.score == pytest.approx(values.max(), rel=1e-10, abs=1e-10)
    assert structure.log_partition(*scores, rules) >= log_sum(values) - 1e-9
    assert structure.log_count(*scores, rules) == pytest.approx(np.log((values > -np.inf).sum()))


RULES = [
    XOR((0, 2, 3)),
    AtMostOne((0, 1, 2)),
    Or((1, 2, 3)),
    ExactlyK((0, 1, 2, 3), 2),
    Implication(3, 1),
    Knapsack((0, 1, 3), (3, 1, 2), 4),
    Knapsack((0, 1), (3, 1), 100),
]


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("engine", ["tree-reweighted", "loopy"])
def test_one_rule_is_exact(rule: Any, engine: Any) -> None:
    for seed, scale in enumerate((0.0, 1.0, 30.0, 1e6)):
        vertex = scale * np.random.default_rng(seed).normal(size=(4, 2))
        check_exact(FactorGraph(engine=engine), vertex, rule)
    vertex[1, 0], vertex[3, 1] = -np.inf, -np.inf
    check_exact(FactorGraph(engine=engine), vertex, rule)


@pytest.mark.parametrize("projective", [True, False])
@pytest.mark.parametrize("single_root", [True, False])
def test_one_tree_is_exact(projective: bool, single_root: bool) -> None:
    arcs = [(0, 1), (2, 1), (3, 1), (0, 2), (1, 2), (1, 3), (2, 3)]
    rule = Tree(3, arcs=arcs, projective=projective, single_root=single_root)
    for seed, scale in enumerate((0.0, 1.0, 30.0)):
        vertex = scale * np.random.default_rng(seed).normal(size=(7, 2))
        check_exact(FactorGraph(), vertex, rule)
    vertex[4, 0], vertex[1, 1] = -np.inf, -np.inf  # an arc that must be taken, one that must not
    check_exact(FactorGraph(), vertex, rule)


def check_exact(structure: FactorGraph, vertex: np.ndarray, rule: Any) -> None:
    labels, values = written_out((vertex, (), ()), [rule])
    exact = log_sum(values)
    largest = np.abs(vertex[np.isfinite(vertex)]).max()
    assert structure.log_partition(vertex, rules=[rule]) == pytest.approx(exact, rel=1e-12, abs=1e-10)
    p = np.exp(values - exact)
    expected = np.array([[p[labels[:, v] == x].sum() for x in range(2)] for v in range(len(vertex))])
    found = structure.marginals(vertex, rules=[rule]).vertex
    np.testing.assert_allclose(found, expected, atol=1e-10 + 1e-14 * largest)
    entropy = -float((p[p > 0.0] * np.log(p[p > 0.0])).sum())
    assert structure.entropy(vertex, rules=[rule]) == pytest.approx(entropy, abs=1e-8)
    best = structure.best_labelling(vertex, rules=[rule])
    assert best.proved and rule.allows(best.labels)
    assert best.score == pytest.approx(values.max(), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("engine", ["tree-reweighted", "loopy"])
def test_entropy_does_not_multiply_rounding_by_large_scores(engine: Any) -> None:
    """Ties of scores of a million: beliefs are right to 1e-10, and so is their entropy."""
    for seed in range(25):
        generator = np.random.default_rng(seed)
        edges = [(int(generator.integers(0, v)), v) for v in range(1, 5)]
        scores = 1e6 * generator.integers(-1, 2, (5, 3)), edges, 1e6 * generator.integers(-1, 2, (4, 3, 3))
        values = written_out(scores)[1]
        p = np.exp(values - log_sum(values))
        entropy = -float((p[p > 0.0] * np.log(p[p > 0.0])).sum())
        assert FactorGraph(engine=engine).entropy(*scores) == pytest.approx(entropy, abs=1e-8)


def test_a_tree_with_pairs_of_arcs() -> None:
    """The second order: what two arcs score together; best labellings are trees and are proved to be best."""
    arcs = [(h, m) for m in range(1, 4) for h in range(4) if h != m]
    pairs = [(a, b) for a in range(9) for b in range(a) if arcs[a][0] in (arcs[b][1], arcs[b][0])]
    for seed in range(4):
        generator = np.random.default_rng(seed)
        vertex, tables = np.zeros((9, 2)), np.zeros((len(pairs), 2, 2))
        vertex[:, 1], tables[:, 1, 1] = 2 * generator.normal(size=9), generator.normal(size=len(pairs))
        rule = Tree(3, projective=seed % 2 == 0)
        _, values = written_out((vertex, pairs, tables), [rule])
        found = FactorGraph().best_labelling(vertex, pairs, tables, [rule])
        assert rule.allows(found.labels) and found.proved
        assert found.score == pytest.approx(values.max(), rel=1e-12)
        assert FactorGraph().log_partition(vertex, pairs, tables, [rule]) >= log_sum(values)


def linear_program(vertex: np.ndarray, scopes: Any, tables: np.ndarray) -> float:
    """The largest score of locally consistent beliefs, by a solver for linear programs."""
    n, size = vertex.shape
    rows: list[np.ndarray] = []
    for v in range(n):
        total = np.zeros((n, size))
        total[v] = 1.0
        rows.append(np.concatenate([total.ravel(), np.zeros(tables.size)]))
    for f, scope in enumerate(scopes):
        for axis, v in enumerate(scope):
            for x in range(size):
                own, joint = np.zeros((n, size)), np.zeros(tables.shape)
                own[v, x] = -1.0
                joint[(f, *([x, slice(None)] if axis == 0 else [slice(None), x]))] = 1.0
                rows.append(np.concatenate([own.ravel(), joint.ravel()]))
    right = np.zeros(len(rows))
    right[:n] = 1.0
    return -linprog(-np.concatenate([vertex.ravel(), tables.ravel()]), A_eq=np.array(rows), b_eq=right).fun


def test_the_bound_is_that_of_the_linear_program() -> None:
    """Before any branch: what AD3 and its like compute."""
    tight = 0
    for seed in range(6):
        generator = np.random.default_rng(seed)
        scopes = [(a, b) for a in range(7) for b in range(a) if generator.random() < 0.5]
        vertex, tables = generator.normal(size=(7, 3)), generator.normal(size=(len(scopes), 3, 3))
        found, value = (
            FactorGraph(max_nodes=1).best_labelling(vertex, scopes, tables),
            linear_program(vertex, scopes, tables),
        )
        assert value - 1e-9 <= found.bound <= value + 1e-3
        assert found.proved == (found.score > value - 1e-9)
        tight += found.proved
    assert 0 < tight < 6


# -- forms and refusals -------------------------------------------------------------------------------


def test_many_graphs_at_once() -> None:
    generator = np.random.default_rng(0)
    graphs = [random_graph(generator) for _ in range(3)]
    structure, lists = FactorGraph(), [list(each) for each in zip(*graphs, strict=True)]
    values = structure.log_partition(*lists)
    for i, graph in enumerate(graphs):
        assert values[i] == structure.log_partition(*graph)
        np.testing.assert_array_equal(structure.argmax(*lists)[i], structure.argmax(*graph))
        np.testing.assert_array_equal(
            structure.marginals(*lists)[i].vertex[0], structure.marginals(*graph).vertex[0]
        )
    rules = [[], [XOR((0, 1))], []]
    vertex = [np.zeros((2, 2))] * 3
    assert structure.log_partition(vertex, [()] * 3, [()] * 3, rules) == pytest.approx(np.log([4, 2, 4]))
    with pytest.raises(InputError, match="2 lists for 3 graphs"):
        structure.log_partition(vertex, [()] * 3, [()] * 3, rules[:2])


def test_edges_twice_are_one() -> None:
    """Factors of the same vertices, in either order, and unary ones add up, so that no cycle arises."""
    generator = np.random.default_rng(1)
    vertex, tables = [generator.normal(size=3), generator.normal(size=2)], generator.normal(size=(2, 3, 2))
    scores = vertex, [(0, 1), (1, 0), (1,)], [tables[0], tables[1].T, generator.normal(size=2)]
    for engine in ("tree-reweighted", "loopy"):
        structure: Any = FactorGraph(engine=engine)
        assert structure.log_partition(*scores) == pytest.approx(Graph().log_partition(*scores), abs=1e-12)
        ours, exact = structure.marginals(*scores), Graph().marginals(*scores)
        for a, b in zip([*ours.vertex, *ours.edge], [*exact.vertex, *exact.edge], strict=True):
            np.testing.assert_allclose(a, b, atol=1e-12)


def test_small_and_strange_graphs() -> None:
    structure = FactorGraph()
    assert structure.log_partition(np.zeros((0, 2))) == 0.0
    assert len(structure.argmax(np.zeros((0, 2)))) == 0
    assert structure.log_partition(np.zeros((3, 2))) == pytest.approx(3 * np.log(2))  # nothing joined
    lone = np.array([[0.0, np.log(3.0)]])
    np.testing.assert_allclose(structure.marginals(lone).vertex, [[0.25, 0.75]])
    with pytest.raises(InputError, match="itself"):
        structure.argmax(np.zeros((2, 2)), [(1, 1)], np.zeros((1, 2, 2)))
    with pytest.raises(InputError, match="2 vertices"):
        structure.argmax(np.zeros((2, 2)), [(0, 2)], np.zeros((1, 2, 2)))
    with pytest.raises(InputError, match="NaN"):
        structure.argmax(np.full((2, 2), np.nan))
    assert structure.log_partition(np.full((1, 2), -np.inf)) == -np.inf
    for method in ("marginals", "argmax", "entropy", "kbest", "sample", "diagnose"):
        with pytest.raises(InputError, match="every labelling"):
            getattr(structure, method)(np.full((1, 2), -np.inf))


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ([XOR((0, 5))], "vertex 5"),
        ([XOR((0, 2))], "3 labels"),
        ([XOR((0, 0))], "twice"),
        (["xor"], "such as XOR"),
        (XOR((0, 1)), "list of rules"),
    ],
)
def test_rules_that_do_not_fit(rules: Any, words: str) -> None:
    with pytest.raises(InputError, match=words) as refused:
        FactorGraph().argmax([np.zeros(2), np.zeros(2), np.zeros(3)], rules=rules)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: XOR(()), "at least one vertex"),
        (lambda: XOR((0.5,)), "whole numbers"),
        (lambda: ExactlyK((0, 1), 3), "k = 3"),
        (lambda: Knapsack((0, 1), (1,), 3), "1 sizes for 2"),
        (lambda: Knapsack((0, 1), (1, 0), 3), "at least 1"),
        (lambda: Knapsack((0,), (10**7,), 10**6), "more than"),
        (lambda: Knapsack((0,), (1.5,), 3), "whole numbers"),
        (lambda: Knapsack((0,), (True,), 3), "whole numbers"),
        (lambda: Knapsack((0,), (2**31, 2**31), 2**31), "sizes for"),
        (lambda: ExactlyK((0, 1), 2**32), "k = "),
        (lambda: Tree(0), "n_words"),
        (lambda: Tree(2**32, (0,)), "n_words"),
        (lambda: Tree(1, arcs=[(2**32, 1)]), "arcs"),
        (lambda: Tree(1, arcs=[(0.5, 1)]), "whole numbers"),
        (lambda: Tree(2, arcs=[(0, 2), (0, 1)]), "order"),
        (lambda: Tree(2, (0, 1)), "2 vertices for 4 arcs"),
        (lambda: FactorGraph(engine="exact"), "tree-reweighted"),
        (lambda: FactorGraph(damping=1.0), "damping"),
        (lambda: FactorGraph(tolerance=0.0), "tolerance"),
        (lambda: FactorGraph({"a": 2}, [FactorKind("e", ("a", "b"))]), "'b'"),
        (lambda: FactorGraph({"a": 2}).shapes_of([GraphShape([1], [])]), "kind 1"),
    ],
)
def test_refusals_are_one_line(make: Any, words: str) -> None:
    with pytest.raises(InputError, match=words) as refused:
        make()
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("size", [2**31, 2**32, 2**32 + 1, 2**63, 2**70])
@pytest.mark.parametrize("capacity", [0, 5, 2**80])
def test_sizes_beyond_32_bits_weigh_what_they_weigh(size: int, capacity: int) -> None:
    rule = Knapsack((0, 1), (size, 1), capacity)
    scores = np.array([[0.0, 1.0], [0.0, 1.0]])
    best = FactorGraph().argmax(scores, rules=[rule])
    assert best.tolist() == [int(capacity > size), int(capacity > 0)] and rule.allows(best)
    assert rule.allows([[1, 0], [1, 1]]).tolist() == [capacity > size] * 2
    assert FactorGraph().best_labelling(scores, rules=[rule]).score == best.sum()


def test_what_messages_cannot_answer_names_graph() -> None:
    many = np.zeros((20, 3))
    for method in ("kbest", "sample", "log_count"):
        with pytest.raises(InputError, match="use Graph"):
            getattr(FactorGraph(), method)(many)
    structure = FactorGraph({"a": 2})
    with pytest.raises(InputError, match="use Graph"):
        structure.kbest_parts(np.zeros(1), np.zeros(1), 2)


def test_true_labels_must_obey() -> None:
    structure = FactorGraph({"a": 2})
    shapes = structure.shapes_of([RuledShape([0, 0], [], [XOR((0, 1))]), GraphShape([0, 0], [])])
    structure.encode_all([1, 0, 1, 1], shapes)
    with pytest.raises(InputError, match=r"example 0 breaks its rule 0, over vertices \[0, 1\]"):
        structure.encode_all([1, 1, 1, 1], shapes)


def test_search_that_runs_out_says_so() -> None:
    generator = np.random.default_rng(3)
    scopes = [(a, b) for a in range(8) for b in range(a)]
    scores = generator.normal(size=(8, 3)), scopes, 3 * generator.normal(size=(len(scopes), 3, 3))
    found = FactorGraph(max_nodes=1).best_labelling(*scores)
    exact = Graph().score(Graph().argmax(*scores), *scores)
    assert not found.proved
    assert found.score <= exact <= found.bound
