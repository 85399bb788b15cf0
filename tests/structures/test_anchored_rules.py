"""Anchored rules as parts of grammars: the contract against enumeration, exact costs, lists, pruning, and solvers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contract_structures import Case, StructureContract, checks, generators, score_makers
from hypothesis import assume, given
from hypothesis import strategies as st

from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem
from partwise.core.rows import AttributeRows, RowData
from partwise.errors import InputError
from partwise.solvers import SOLVERS, solve
from partwise.solvers.dual.simplex_qp import simplex_qp
from partwise.structures import AnchoredRules, Brute, Grammar, Structure, prune_rules
from partwise.structures.grammar import anchoring

RULES: dict[str, Any] = {
    "unary cycles": dict(
        n_symbols=4,
        rules=[(0, 1, 2), (1, 3, 3), (2, 1, 3), (0, 0, 0)],
        unaries=[(0, 1), (1, 2), (2, 0), (1, 3)],
        word_symbols=[2, 3],
    ),
    "dense": dict(n_symbols=2, rules=list(np.ndindex(2, 2, 2))),
    "sparse": dict(n_symbols=5, rules=[(0, 1, 2), (2, 3, 1), (4, 1, 1)], word_symbols=[1, 3]),
}
GRAMMARS = [
    Grammar(**each, splits=splits, anchored=True) for each in RULES.values() for splits in (False, True)
]
FEW = Grammar(**RULES["unary cycles"], anchored=True)


class Derivations(Case):
    @property
    def entropy_tolerance(self) -> float:
        return 60 * self.tolerance


class TestAnchoredRules(StructureContract):
    def case(self, draw: Any) -> Case:
        make, grammar = draw(score_makers()), draw(st.sampled_from(GRAMMARS))
        n = draw(st.integers(1, 4))
        while n > 1 and grammar.log_count(n) > np.log(400):
            n -= 1
        named = {"anchored_scores": make(grammar.n_rules, n, n, n)}
        named |= {"split_scores": make(n, n, n)} if grammar.splits else {}
        size = grammar.n_symbols
        return Derivations(grammar, n, (make(n, size), make(grammar.n_rules), make(n, n, size)), named)

    def flat_labels(self, structure: Structure, y: Any) -> np.ndarray:
        return structure.labels_of(y)

    @checks
    @given(st.data())
    def test_samples_are_possible_and_repeatable(self, data: Any) -> None:
        case = self.possible_case(data.draw)
        samples = case.ask("sample", n_samples=5, random_state=3)
        for y in samples:
            assert case.structure.score(y, *case.scores, **case.named) > -np.inf
        assert samples == case.ask("sample", n_samples=5, random_state=3)

    @checks
    @given(st.data())
    def test_loss_augmented_argmax(self, data: Any) -> None:
        case = self.possible_case(data.draw)
        structure, gold = case.structure, data.draw(st.sampled_from(case.brute.labellings))
        costs = structure.part_costs(structure.labels_of(gold), structure.shapes([case.length]), "hamming")

        def total(y: Any) -> float:
            parts = costs[structure.encode(y)].sum() - costs[structure.encode(gold)].sum()
            return structure.score(y, *case.scores, **case.named) + 2.0 * parts

        found = case.ask("loss_augmented_argmax", y=gold, cost=2.0)
        best = max(total(y) for y in case.brute.labellings)
        np.testing.assert_allclose(total(found), best, rtol=1e-12, atol=1e-10)

    @checks
    @given(st.data())
    def test_a_list_of_rules_is_all_that_derivations_use(self, data: Any) -> None:
        """Sparse scores are dense ones with −inf for every anchored rule that is not listed."""
        case = self.possible_case(data.draw)
        grammar, n, random = case.structure, case.length, data.draw(generators())
        dense = case.named["anchored_scores"]
        dense = np.where(random.random(dense.shape) < 0.3, -np.inf, dense)
        places = grammar.anchored_of(grammar.shapes([n]))[1:]
        kept = random.permutation(np.flatnonzero(dense[tuple(places)] > -np.inf))
        rules = AnchoredRules(*(each[kept] for each in places), dense[tuple(each[kept] for each in places)])
        named, listed = case.named | {"anchored_scores": dense}, case.named | {"anchored_scores": rules}
        value = grammar.log_partition(*case.scores, **listed)
        expected = Brute(grammar, n).log_partition(*case.scores, **named)
        np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-10)
        assume(value > -np.inf)
        ours, theirs = grammar.marginals(*case.scores, **listed), grammar.marginals(*case.scores, **named)
        for a, b in zip(ours[:3], theirs[:3], strict=True):
            np.testing.assert_allclose(a, b, atol=case.tolerance)
        found = ours.anchored
        np.testing.assert_allclose(found.score, theirs.anchored[found[:4]], atol=case.tolerance)
        assert np.isclose(found.score.sum(), theirs.anchored.sum(), atol=100 * case.tolerance)
        best = grammar.argmax(*case.scores, **listed)
        assert grammar.score(best, *case.scores, **listed) > -np.inf
        word, rule, span = case.scores
        both = {name: [value, case.named[name]] for name, value in listed.items()}
        twice = grammar.log_partition([word, word], rule, [span, span], **both)
        assert twice[0] == value and twice[1] == case.ask("log_partition")


def anchored_rules(grammar: Any, y: Any) -> set[tuple[int, ...]]:
    """(rule, first, cut, last) of every node that a rule built."""
    return set(grammar._anchored_rules(y))


@pytest.mark.parametrize("grammar", GRAMMARS[:4])
def test_cost_is_the_number_of_wrong_anchored_rules(grammar: Grammar) -> None:
    derivations, shapes = list(grammar.labellings(3)), grammar.shapes([3])
    assert len(derivations) > 3
    for gold in derivations[::5]:
        labels = grammar.labels_of(gold)
        costs = grammar.part_costs(labels, shapes, "rules")
        named = grammar.costs_of_parts(labels, shapes, grammar.read_cost({"anchored": "hamming"}))
        np.testing.assert_array_equal(costs, named)
        for y in derivations:
            wrong = anchored_rules(grammar, y) - anchored_rules(grammar, gold)
            assert costs[grammar.encode(y)].sum() - costs[grammar.encode(gold)].sum() == len(wrong)
    with pytest.raises(InputError, match=r"parts with anchored=True only; 'rules_bound' is an upper bound"):
        Grammar(2, [(0, 1, 1)]).checked_cost("rules")


def test_only_rules_that_derivations_use_are_listed() -> None:
    for grammar in GRAMMARS:
        for n in range(1, 5):
            used = set().union(*(anchored_rules(grammar, y) for y in grammar.labellings(n)))
            places = np.stack(grammar.anchored_of(grammar.shapes([n]))[1:], axis=1)
            assert {tuple(each) for each in places.tolist()} == used
            assert len(places) == len(used) == grammar.n_anchored(grammar.shapes([n]))[0]


def test_pruning_leaves_rules_of_likely_nodes() -> None:
    random = np.random.default_rng(0)
    first = Grammar(**RULES["unary cycles"])
    word, rule = [2 * random.normal(size=(n, 4)) for n in (4, 2, 5)], random.normal(size=first.n_rules)
    packed = first.pack(word, rule)
    counts, marginals = packed.expectations()[1], first.marginals(word, rule)
    best = np.concatenate([first.labels_of(y) for y in first.argmax(word, rule)])
    everything = prune_rules(first, packed.shapes, counts, 0.0, FEW)
    np.testing.assert_array_equal(everything.values, FEW.shapes([4, 2, 5]).values)
    least, n_all = 0.2, FEW.n_anchored(everything).sum()
    few = prune_rules(first, packed.shapes, counts, least, FEW)
    assert 0 < FEW.n_anchored(few).sum() < 0.6 * n_all
    ptr, rules, begin, cut, end = FEW.anchored_of(few)
    for e in range(3):
        own, found = slice(ptr[e], ptr[e + 1]), marginals[e]
        for r, i, m, j in zip(rules[own], begin[own], cut[own], end[own], strict=True):
            parent = (first.rules[r] if r < len(first.rules) else first.unaries[r - len(first.rules)])[0]
            assert found.span[i, j, parent] >= least - 1e-12
            assert m == j if r >= len(first.rules) else i <= m < j
    kept = prune_rules(first, packed.shapes, counts, 0.9999, FEW, gold=best)
    FEW.encode_all(best, kept)  # the true rules are there
    for a, b in ((FEW, FEW), (first, first), (first, GRAMMARS[2])):
        with pytest.raises(InputError, match="prune_rules needs a first grammar without"):
            prune_rules(a, packed.shapes, counts, 0.1, b)


def test_lists_are_checked() -> None:
    with pytest.raises(InputError, match="anchored_scores needs a grammar with anchored=True"):
        Grammar(2, [(0, 1, 1)]).log_partition(
            np.zeros((2, 2)), np.zeros(1), anchored_scores=np.zeros((1, 2, 2, 2))
        )
    for places, message in (
        (([9], [0], [0], [1]), "example 0 has rule 9 over the words 0 … 1"),
        (([0], [0], [1], [1]), "its left node up to 1; there are 8 rules and 2 words"),
        (([4], [0], [0], [1]), "a unary rule's only node ends with its last word"),
        (([0, 0], [0, 0], [0, 0], [1, 1]), "has an anchored rule twice"),
        (([0], [0], [0, 0], [1]), "do not belong together"),
    ):
        with pytest.raises(InputError, match=message):
            FEW.anchored_shapes([2], [0, len(places[0])], *places)
    labels = FEW.labels_of(next(FEW.labellings(2)))
    with pytest.raises(InputError, match=r"rule \d over 0 … 1 is not among the example's anchored rules"):
        FEW.encode_all(labels, FEW.anchored_shapes([2], [0, 1], [2], [0], [0], [1]))


def test_too_many_are_refused_before_they_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anchoring, "machine_bytes", lambda: 1e5)
    with pytest.raises(
        InputError, match=r"2 sentences of up to 30 words have [\d,]+ anchored rules or more, which"
    ):
        GRAMMARS[2].shapes([2, 30])


# -- solvers ------------------------------------------------------------------------------------------


def small_problem(loss: str, cost: Any = "rules") -> tuple[Problem, np.ndarray, list[np.ndarray], list[int]]:
    """Sentences of three words with random features of all kinds; written out as features of their derivations."""
    random, lengths = np.random.default_rng(5), np.array([3, 2, 3, 3, 2, 3])
    choices = [list(FEW.labellings(int(n))) for n in lengths]
    true = [each[random.integers(len(each))] for each in choices]
    labels, shapes = np.concatenate([FEW.labels_of(y) for y in true]), FEW.shapes(lengths)
    rows = {}
    for kind, count in zip(FEW.kinds, FEW.row_counts(shapes), strict=False):
        n_rows = int(count.sum())
        sizes = random.integers(1, 4, n_rows)
        ids = np.concatenate([random.choice(6, size, replace=False) for size in sizes]).astype(np.int32)
        attributes = AttributeRows(np.append(0, np.cumsum(sizes)), ids)
        rows[kind.name] = RowData(FeatureMap.build(kind.width, 6), attributes)
    problem = Problem.build(FEW, labels, shapes, rows, loss=loss, l2=0.5, cost=cost)
    units = np.array([problem.scorer.scores(unit)[: problem.n_parts] for unit in np.eye(problem.n_weights)]).T
    features, costs, gold, part_ptr = [], [], [], problem.batch.part_ptr
    for i, each in enumerate(choices):
        own = units[part_ptr[i] : part_ptr[i + 1]]
        features.append(np.array([own[FEW.encode(y)].sum(axis=0) for y in each]))
        costs.append([len(anchored_rules(FEW, y) - anchored_rules(FEW, true[i])) for y in each])
        gold.append(each.index(true[i]))
    return problem, np.concatenate(costs).astype(float), features, gold


def test_hinge_reaches_the_optimum_over_all_derivations() -> None:
    """The quadratic programme of Bartlett et al., Figure 1, written out, with their loss."""
    problem, costs, features, gold = small_problem("hinge")
    differences = np.concatenate([own[g] - own for own, g in zip(features, gold, strict=True)])
    quadratic = differences @ differences.T / problem.l2
    best = simplex_qp(quadratic, -costs, [len(own) for own in features], tol=1e-9, max_iterations=50_000)
    assert best.converged and -best.value > 1.0
    for name in ("bcfw", "eg-gap", "lbfgs-sharpened", "svm-struct", "excessive-gap", "eg"):
        found = solve(problem, SOLVERS[name], tol=1e-4, max_passes=2000).certificate
        assert found.dual <= -best.value * (1 + 1e-6) and found.primal >= -best.value * (1 - 1e-6), name
        assert found.primal - found.dual <= 2e-3 * found.primal, name


@pytest.mark.parametrize("loss", ["log", "softmax_margin"])
def test_losses_with_probabilities_agree_with_enumeration(loss: str) -> None:
    problem, costs, features, gold = small_problem(loss)
    found = solve(problem, SOLVERS["eg-gap"], tol=1e-6, max_passes=2000)
    weights, start, total = found.certificate.weights, 0, 0.0
    for own, g in zip(features, gold, strict=True):
        margins = own @ weights - own[g] @ weights + problem.loss.gamma * costs[start : start + len(own)]
        start += len(own)
        total += np.log(np.exp(margins).sum())
    expected = total + 0.5 * problem.l2 * weights @ weights
    assert found.certificate.primal == pytest.approx(expected, rel=1e-6)
    other = solve(problem, SOLVERS["lbfgs"], tol=1e-6, max_passes=500).certificate
    assert other.primal == pytest.approx(found.certificate.primal, rel=1e-5)
