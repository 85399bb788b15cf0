"""Arguments of structures that make no sense, or ask for more than there is, are refused in one line."""

from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest

from partwise import Classifier, InputError, SequenceLabeler
from partwise.data import grid_graph
from partwise.structures import (
    XOR,
    AtMostOne,
    Chain,
    ExactlyK,
    FactorGraph,
    Grammar,
    Graph,
    Implication,
    Knapsack,
    Multiclass,
    Or,
    Projective,
    SecondOrderProjective,
    Selection,
    SemiMarkov,
)

HUGE = 10**18
RANKED = {
    "chain": (Chain(3), lambda n: (np.zeros((n, 3)), np.zeros((3, 3))), 27, 3),
    "segments": (SemiMarkov(2, 2), lambda n: (np.zeros((n, 2, 2)), np.zeros((2, 2))), 16, 3),
    "trees": (Projective(), lambda n: (np.zeros((n + 1, n + 1)),), 7, 3),
    "graph": (Graph(), lambda n: (np.zeros((n, 2)), np.array([(k, k + 1) for k in range(n - 1)])), 8, 3),
}


@pytest.mark.parametrize("name", RANKED)
def test_lists_of_the_best_are_as_long_as_there_are_labellings(name):
    structure, scores, n_labellings, length = RANKED[name]
    given = scores(length) if name != "graph" else (*scores(length), np.zeros((length - 1, 2, 2)))
    assert len(structure.kbest(*given, k=HUGE)) == n_labellings
    long = scores(80) if name != "graph" else (*scores(80), np.zeros((79, 2, 2)))
    with pytest.raises(InputError, match="GB of memory: ask for fewer"):
        structure.kbest(*long, k=HUGE)


def test_a_graph_with_too_large_tables_is_refused_before_they_are_read():
    table = np.broadcast_to(0.0, (2,) * 27)
    tracemalloc.start()
    with pytest.raises(InputError, match="tree-width"):
        Graph().log_partition(np.zeros((27, 2)), [tuple(range(27))], [table])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**22


def rule_over(random, vertices):
    """A rule of some kind over these vertices."""
    n = len(vertices)
    kinds = [
        lambda: XOR(vertices), lambda: AtMostOne(vertices), lambda: Or(vertices),
        lambda: ExactlyK(vertices, int(random.integers(n + 1))),
        lambda: Knapsack(vertices, random.integers(1, 4, n).tolist(), int(random.integers(9))),
        lambda: Implication(*vertices[:2]) if n > 1 else Or(vertices),
    ]  # fmt: skip
    return kinds[random.integers(len(kinds))]()


def test_rules_without_common_vertices_choose_exactly():
    random = np.random.default_rng(0)
    for _ in range(150):
        n = int(random.integers(1, 8))
        scores = random.normal(size=(n, 2)) * 10.0 ** random.integers(-3, 300)
        scores = np.round(scores) if random.random() < 0.3 else scores
        scores[random.random((n, 2)) < 0.1] = -np.inf
        vertices = random.permutation(n).tolist()
        cut = int(random.integers(1, n + 1))
        rules = [rule_over(random, own) for own in (vertices[:cut], vertices[cut:]) if own]
        labels = np.array(list(itertools.product((0, 1), repeat=n)))
        allowed = np.all([rule.allows(labels) for rule in rules], axis=0)
        best = np.where(allowed, scores[np.arange(n), labels].sum(axis=1), -np.inf).max()
        if best == -np.inf:
            with pytest.raises(InputError, match="every labelling"):
                FactorGraph().best_labelling(scores, rules=rules)
            continue
        found = FactorGraph().best_labelling(scores, rules=rules)
        assert all(rule.allows(found.labels) for rule in rules) and found.nodes == 1
        assert found.score == pytest.approx(best, rel=1e-12) and found.bound == pytest.approx(best, rel=1e-9)


def test_counting_many_vertices_takes_no_quadratic_time():
    scores = np.random.default_rng(0).normal(size=(30_000, 2))
    found = FactorGraph().best_labelling(scores, rules=[ExactlyK(range(30_000), 10_000)])
    gain = scores[:, 1] - scores[:, 0]
    best = scores[:, 0].sum() + np.sort(gain)[-10_000:].sum()
    assert found.labels.sum() == 10_000 and found.score == pytest.approx(best, rel=1e-12)


PAIR = np.zeros((2, 2))
REFUSED = {
    "samples": (lambda: Chain(2).sample(PAIR, PAIR, n_samples=2**70), "n_samples may be"),
    "longer than 32 bits": (lambda: SemiMarkov(2, 2**70), "max_length may be"),
    "one too long": (lambda: SemiMarkov(2, [1, 2**31]), r"max_length\[1\] may be"),
    "iterations": (lambda: FactorGraph(max_iterations=2**70), "max_iterations may be"),
    "nodes": (lambda: FactorGraph(max_nodes=2**70), "max_nodes may be"),
    "capacity": (lambda: Knapsack((0, 1), (2**63, 1), 2**63), "counts up to"),
    "no sizes": (lambda: Knapsack((0, 1), None, 3), "Knapsack: sizes"),
    "no vertices": (lambda: XOR(None), "XOR: vertices"),
    "no vertices of k": (lambda: ExactlyK(None, 1), "ExactlyK: vertices"),
    "text": (lambda: Or("ab"), "Or: vertices"),
    "a number of rules": (lambda: FactorGraph().argmax(PAIR, rules=3), "rules must be a list"),
    "one rule": (lambda: FactorGraph().argmax(PAIR, rules=XOR((0, 1))), "rules must be a list"),
    "a bare rule": (lambda: FactorGraph().argmax([PAIR], [[]], [[]], [XOR((0, 1))]), r"rules\[0\] must be"),
    "a large window": (lambda: grid_graph(np.zeros((3, 3)), window=10**6), "GB of memory"),
    "an infinite sum": (lambda: FactorGraph().sample(np.full((2, 2), 1e308)), "infinite number"),
    "no truth": (lambda: Classifier().fit([[0.0], [1.0]], [0, 1]).calibrate([[0.0]], None), "calibrate needs y"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_arguments_that_cannot_be(name):
    call, words = REFUSED[name]
    with pytest.raises(InputError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


COMPLEX = {
    "chain": lambda: Chain(2).argmax(PAIR + 1j, PAIR),
    "a list": lambda: Chain(2).argmax([[1j, 0], [0, 0]], PAIR),
    "segments": lambda: SemiMarkov(2, 1).argmax(np.zeros((2, 1, 2)) + 1j, PAIR),
    "trees": lambda: Projective().argmax(np.zeros((3, 3)) + 1j),
    "graph": lambda: Graph().argmax(PAIR + 1j),
    "tables of a graph": lambda: Graph().argmax(PAIR, [(0, 1)], [PAIR + 1j]),
    "factor graph": lambda: FactorGraph().argmax(PAIR + 1j),
    "second order": lambda: SecondOrderProjective().argmax(np.zeros((3, 3)) + 1j, *np.zeros((2, 3, 3, 3))),
    "classes": lambda: Multiclass(2).argmax(PAIR + 1j),
    "items": lambda: Selection().argmax(np.zeros(2) + 1j, np.zeros(1)),
    "grammar": lambda: Grammar(1, [(0, 0, 0)]).argmax(np.zeros((2, 1)) + 1j, np.zeros(1)),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_scores_are_real(name):
    with pytest.raises(InputError, match=r"real numbers|\[head, modifier\]"):
        COMPLEX[name]()


def test_coefficients_are_weights_that_there_are():
    X = [np.random.default_rng(0).normal(size=(4, 3)) for _ in range(4)]
    model = SequenceLabeler(l2=0.1).fit(X, [["a", "b", "c", "a"]] * 4)
    assert model.coef_.size == 3 * 3 + 3 * 3
    assert model.coef_[-9:].tolist() == model.transition_coef_.ravel().tolist()
