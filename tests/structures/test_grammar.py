"""Grammars: the contract against enumeration, what only derivations have, and solvers on them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from contract_solvers import check_online_learner, check_optimum, problem_of
from contract_structures import Case, StructureContract, checks, generators, score_makers
from hypothesis import given
from hypothesis import strategies as st

from partwise.compiled.simd import LANES
from partwise.core.arrays import offsets
from partwise.core.feature_radius import squared_radii
from partwise.core.maps import FeatureMap
from partwise.core.rows import AttributeRows, RowData
from partwise.core.scorer import Scorer
from partwise.errors import InputError
from partwise.structures import Brute, Grammar, Structure, prune_spans
from partwise.structures.grammar.pruning import span_probabilities
from partwise.structures.packed import Packed


class Derivations(Case):
    """A derivation of n words has up to 4n − 2 nodes, and as many rules."""

    @property
    def entropy_tolerance(self) -> float:
        return 60 * self.tolerance


# Ambiguous, with unary cycles; with symbols over words only; sparse, where most lengths are impossible.
AMBIGUOUS = Grammar(2, [(0, 0, 0), (0, 0, 1), (1, 1, 1)], unaries=[(0, 1), (1, 0)])
CYCLES = Grammar(
    4,
    [(0, 1, 2), (1, 3, 3), (2, 1, 3)],
    unaries=[(0, 1), (1, 2), (2, 0), (2, 1), (1, 3)],
    word_symbols=[2, 3],
)
SPARSE = Grammar(5, [(0, 1, 2), (2, 3, 1), (4, 1, 1)], root=0, word_symbols=[1, 3])
SPLITS = Grammar(3, [(0, 0, 0), (0, 1, 2), (2, 1, 0)], unaries=[(0, 2)], splits=True)
GRAMMARS = [AMBIGUOUS, CYCLES, SPARSE, SPLITS]


def random_grammar(generator: np.random.Generator) -> Grammar:
    """Up to 4 symbols, some of all possible rules."""
    n = int(generator.integers(1, 5))
    rules = [rule for rule in np.ndindex(n, n, n) if generator.random() < min(1.0, 4 / n**3)]
    unaries = [pair for pair in np.ndindex(n, n) if pair[0] != pair[1] and generator.random() < 0.3]
    words = np.flatnonzero(generator.random(n) < 0.7)
    return Grammar(
        n, generator.permutation(rules) if rules else [], int(generator.integers(n)), unaries=unaries,
        word_symbols=words if words.size else None, splits=bool(generator.random() < 0.3),
    )  # fmt: skip


class TestGrammar(StructureContract):
    def case(self, draw: Any) -> Case:
        make, which = draw(score_makers()), draw(st.integers(0, len(GRAMMARS)))
        grammar = GRAMMARS[which] if which < len(GRAMMARS) else random_grammar(draw(generators()))
        n = draw(st.integers(1, 4))
        while n > 1 and grammar.log_count(n) > np.log(3000):
            n -= 1
        named = {"split_scores": make(n, n, n)} if grammar.splits else {}
        size = grammar.n_symbols
        return Derivations(grammar, n, (make(n, size), make(grammar.n_rules), make(n, n, size)), named)

    def flat_labels(self, structure: Structure, y: Any) -> np.ndarray:
        return structure.labels_of(y)

    @checks
    @given(st.data())
    def test_samples_are_possible_and_repeatable(self, data: Any) -> None:
        case = self.possible_case(data.draw)
        samples = case.ask("sample", n_samples=5, random_state=3)
        assert len(samples) == 5
        for y in samples:
            assert case.structure.score(y, *case.scores, **case.named) > -np.inf
        assert samples == case.ask("sample", n_samples=5, random_state=3)

    @checks
    @given(st.data())
    def test_loss_augmented_argmax(self, data: Any) -> None:
        case = self.possible_case(data.draw)
        gold = data.draw(st.sampled_from(case.brute.labellings))
        cost = data.draw(st.sampled_from([0.5, 1.0, 100.0]))

        def total(y: Any) -> float:
            wrong = built_nodes(case.structure, y) ^ built_nodes(case.structure, gold)
            return case.structure.score(y, *case.scores, **case.named) + cost * len(wrong) / 2

        found = case.ask("loss_augmented_argmax", y=gold, cost=cost)
        best = max(total(y) for y in case.brute.labellings)
        np.testing.assert_allclose(total(found), best, rtol=1e-12, atol=1e-10)

    @checks
    @given(st.data())
    def test_batch_equals_one_by_one(self, data: Any) -> None:
        case = self.possible_case(data.draw)
        word, rule, span = case.scores
        many = {name: [value, value] for name, value in case.named.items()}
        for method in ("log_partition", "entropy", "argmax", "kbest"):
            twice = getattr(case.structure, method)([word, word], rule, [span, span], **many)
            assert len(twice) == 2
            assert np.all(twice[0] == case.ask(method))
            assert np.all(twice[1] == case.ask(method))
        for ours, theirs in zip(
            case.structure.marginals([word], rule, [span], **{k: v[:1] for k, v in many.items()})[0],
            case.ask("marginals"),
            strict=True,
        ):
            np.testing.assert_array_equal(ours, theirs)


class Built(NamedTuple):
    """A node and how it was built: from nothing, by a binary or by a unary rule."""

    first: int
    last: int
    symbol: int
    how: int


def built_nodes(grammar: Any, y: Any) -> set[Built]:
    return {
        Built(first, last, symbol, (rule >= 0) + (rule >= len(grammar.rules)))
        for first, last, symbol, rule in grammar.labels_of(y).tolist()
    }


@pytest.mark.parametrize("scale", [1.0, 100.0, 1e5])
@pytest.mark.parametrize("splits", [False, True])
def test_dense_and_sparse_are_the_same(scale: float, splits: bool) -> None:
    """A dense grammar, and the same rules among many more symbols; ten words, so that spans come in batches."""
    random = np.random.default_rng(int(scale) + splits)
    rules = [rule for rule in np.ndindex(5, 9, 9) if random.random() < 0.8]
    unaries = [(0, 1), (1, 0), (3, 7), (8, 2)]
    dense, sparse = (Grammar(size, rules, unaries=unaries, splits=splits) for size in (9, 40))
    assert dense.specification().is_dense and not sparse.specification().is_dense
    for n in (1, 2, 10):
        word, rule, span, split = (
            scale * random.normal(size=shape)
            for shape in ((n, 9), (dense.n_rules,), (n, n, 9), (n, n, n) if splits else (0,))
        )
        span[random.random((n, n)) < 0.3] = -np.inf
        span[0, n - 1] = 0.0
        wide = [np.full((n, 40), -np.inf), rule, np.zeros((n, n, 40))]
        wide[0][:, :9], wide[2][..., :9] = word, span
        named = {"split_scores": split} if splits else {}
        for method in ("log_partition", "entropy"):
            ours = getattr(dense, method)(word, rule, span, **named)
            theirs = getattr(sparse, method)(*wide, **named)
            np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-9 * scale)
        ours, theirs = dense.marginals(word, rule, span, **named), sparse.marginals(*wide, **named)
        np.testing.assert_allclose(ours.rule, theirs.rule, atol=1e-10)
        np.testing.assert_allclose(ours.span, theirs.span[..., :9], atol=1e-10)
        np.testing.assert_allclose(ours.word, theirs.word[:, :9], atol=1e-10)
        assert dense.argmax(word, rule, span, **named) == sparse.argmax(*wide, **named)


@pytest.mark.parametrize("grammar", [Grammar(3, list(np.ndindex(3, 3, 3)), unaries=[(0, 1)]), CYCLES, SPLITS])
def test_pruned_spans_are_spans_that_score_minus_infinity(grammar: Grammar) -> None:
    """In one batch with an example that is done on logarithms, and the same answers as with −inf in their rows."""
    random, n, width = np.random.default_rng(0), 6, grammar.kinds[1].width
    every = grammar.shapes([n] * 3)
    ptr, first, last = grammar.spans_of(every)
    keep = (last > first) & ((random.random(len(first)) < 0.6) | (last - first == n - 1))
    example = np.repeat(np.arange(3), np.diff(ptr))
    pruned = grammar.span_shapes(every.lengths, offsets(np.bincount(example[keep])), first[keep], last[keep])
    scores = random.normal(size=int(grammar.n_parts(every).sum()))
    part_ptr = offsets(grammar.n_parts(every))
    scores[: part_ptr[1]] *= 1e5
    used = np.ones(len(scores), bool)
    for row in np.flatnonzero(~keep & (last > first)):
        own = row - ptr[example[row]]
        base = part_ptr[example[row]] + n * len(grammar.word_symbols)
        at = base + own * width
        scores[at : at + width], used[at : at + width] = -np.inf, False
        if grammar.splits:
            cuts = offsets((last - first)[ptr[example[row]] : ptr[example[row] + 1]])
            at = base + (ptr[1] - ptr[0]) * width
            used[at + cuts[own] : at + cuts[own + 1]] = False
    slack = np.zeros(LANES)
    full = Packed(grammar, grammar.specification(), every, part_ptr, np.append(scores, slack), False)
    few = Packed(
        grammar, grammar.specification(), pruned, offsets(grammar.n_parts(pruned)),
        np.append(scores[used], slack), False,
    )  # fmt: skip
    for which in ("sums", "best"):
        (values, counts), (expected, wanted) = few.answers(which), full.answers(which)
        np.testing.assert_allclose(values, expected, rtol=1e-12)
        np.testing.assert_allclose(counts, wanted[used], atol=1e-12)
        assert not wanted[~used].any()
    np.testing.assert_allclose(few.answers("sums", 0)[0], full.answers("sums", 0)[0], rtol=1e-12)


def rule_errors(grammar: Grammar, y: Any, gold: Any) -> int:
    """Anchored rules (rule, first, cut, last) of `y` that `gold` does not have."""
    tuples = []
    for each in (y, gold):
        labels = grammar.labels_of(each).tolist()
        anchored = zip(labels, grammar._cuts(each), strict=True)
        tuples.append({(*node, cut) for node, cut in anchored if node[3] >= 0})
    return len(tuples[0] - tuples[1])


@pytest.mark.parametrize("grammar", [CYCLES, Grammar(2, list(np.ndindex(2, 2, 2)))])
def test_costs_count_constituent_errors_and_bound_rule_errors(grammar: Grammar) -> None:
    derivations, shapes = list(grammar.labellings(3)), grammar.shapes([3])
    has_unaries = len(grammar.unaries) > 0
    for gold in derivations[::7]:
        labels = grammar.labels_of(gold)
        costs = {name: grammar.part_costs(labels, shapes, name) for name in ("constituents", "rules_bound")}
        true = {name: cost[grammar.encode(gold)].sum() for name, cost in costs.items()}
        for y in derivations:
            parts, nodes = grammar.encode(y), built_nodes(grammar, y)
            found = {name: cost[parts].sum() - true[name] for name, cost in costs.items()}
            assert found["constituents"] == len(nodes ^ built_nodes(grammar, gold)) / 2
            if has_unaries:
                continue
            assert found["constituents"] == len(nodes - built_nodes(grammar, gold))  # as in the paper
            wrong = rule_errors(grammar, y, gold)
            assert wrong <= found["rules_bound"] <= 3 * wrong
    with pytest.raises(
        InputError, match="cost must be one of 'hamming', 'constituents', 'rules', 'rules_bound'"
    ):
        grammar.checked_cost("brackets")


def test_pruning_by_a_first_grammar() -> None:
    """Spans of likely nodes stay; those of the best and of the true derivation if wanted."""
    grammar, random = Grammar(2, list(np.ndindex(2, 2, 2))), np.random.default_rng(0)
    lengths = [5, 1, 4]
    word, span = (
        [3 * random.normal(size=(n, 2)) for n in lengths],
        [3 * random.normal(size=(n, n, 2)) for n in lengths],
    )
    rule = random.normal(size=8)
    packed = grammar.pack(word, rule, span)
    counts, shapes = packed.expectations()[1], packed.shapes
    best = np.concatenate([grammar.labels_of(y) for y in grammar.argmax(word, rule, span)])
    drawn = grammar.sample(word, rule, span, random_state=1)
    gold = np.concatenate([grammar.labels_of(each[0]) for each in drawn])
    probability, marginals = span_probabilities(grammar, shapes, counts), grammar.marginals(word, rule, span)
    ptr, first, last = grammar.spans_of(shapes)
    for k, (a, b) in enumerate(zip(first, last, strict=True)):
        example = int(np.searchsorted(ptr, k, side="right")) - 1
        assert probability[k] == pytest.approx(marginals[example].span[a, b].sum() if b > a else 0.0)
    least = 0.4
    expected = (last > first) & (probability >= least)
    few, record = prune_spans(grammar, shapes, counts, least, gold=gold)
    assert grammar.n_spans(few).sum() == expected.sum() + sum(lengths)
    assert record.n_spans == 16 and record.n_kept == expected.sum() and record.n_true == 7
    assert record.n_found == len({(e, a, b) for e, a, b in spans(grammar, gold, shapes)} & kept(grammar, few))
    assert record.recall == record.n_found / 7
    assert "spans and" in str(record) and set(record.as_dict()) == {"recall", "whole_sentences", "spans_left"}
    more, _ = prune_spans(grammar, shapes, counts, least, best=best, gold=gold, keep_gold=True)
    grammar.encode_all(best, more)
    grammar.encode_all(gold, more)
    everything, record = prune_spans(grammar, shapes, counts, 0.0, gold=gold)
    assert np.array_equal(everything.values, shapes.values) and record.n_whole == 3 and record.recall == 1.0


def spans(grammar: Any, labels: np.ndarray, shapes: Any) -> list[tuple[int, int, int]]:
    example = np.repeat(np.arange(len(shapes.ptr) - 1), np.diff(grammar._node_ptr(labels, shapes)))
    return list(zip(example.tolist(), labels[:, 0].tolist(), labels[:, 1].tolist(), strict=True))


def kept(grammar: Any, shapes: Any) -> set[tuple[int, int, int]]:
    ptr, first, last = grammar.spans_of(shapes)
    example = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
    rows = zip(example.tolist(), first.tolist(), last.tolist(), strict=True)
    return {row for row in rows if row[2] > row[1]}


def test_small_numbers_are_raised_dropped_or_left_to_logarithms() -> None:
    """Symbols that are far behind over a word: harmless, or the only ones that the rest of the sentence can use."""
    grammar = Grammar(3, [(0, 1, 1), (0, 2, 2)], word_symbols=[1, 2])
    for gap in (100.0, 300.0, 1000.0):
        word = np.array([[0.0, 0.0, -gap], [0.0, 0.0, -gap]])
        for rule in (np.array([0.0, 0.0]), np.array([-np.inf, 0.0]), np.array([-2 * gap, 0.0])):
            brute = Brute(grammar, 2)
            assert grammar.log_partition(word, rule) == pytest.approx(
                brute.log_partition(word, rule), abs=1e-12
            )
            for ours, theirs in zip(grammar.marginals(word, rule), brute.marginals(word, rule), strict=True):
                np.testing.assert_allclose(ours, theirs, atol=1e-12)


def test_empty_lists_and_one_word() -> None:
    for method, nothing in (
        ("log_partition", 0),
        ("argmax", 0),
        ("marginals", 0),
        ("kbest", 0),
        ("sample", 0),
    ):
        assert len(getattr(AMBIGUOUS, method)([], np.zeros(5))) == nothing
    word = np.array([[0.5, 1.0]])
    assert AMBIGUOUS.log_partition(word, np.zeros(5)) == pytest.approx(np.log(np.exp(0.5) + np.exp(1.0)))
    assert AMBIGUOUS.argmax(word, np.zeros(5)) == [(0, 0, 0), (0, 0, 1)]
    with pytest.raises(InputError, match="no words"):
        AMBIGUOUS.argmax(np.zeros((0, 2)), np.zeros(5))
    with pytest.raises(InputError, match="every labelling"):
        SPARSE.argmax(np.zeros((2, 5)), np.zeros(3))
    assert SPARSE.log_partition(np.zeros((2, 5)), np.zeros(3)) == -np.inf
    assert SPARSE.log_count([1, 2, 3]).tolist() == [-np.inf, -np.inf, 0.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((0, []), {}), "n_symbols must be an integer"),
        (((2, [(0, 1)]), {}), r"rules has shape \(1, 2\), expected \(rules, 3\)"),
        (((2, [(0, 1, 2)]), {}), "rules holds symbol 2; symbols run from 0 to 1"),
        (((2, [(0, 1, 1), (0, 0, 1), (0, 1, 1)]), {}), r"rules\[2\] is the same rule as rules\[0\]"),
        (((2, [], 2), {}), "root holds symbol 2"),
        (((2, []), {"unaries": [(0, 1), (1, 1)]}), r"unaries\[1\] has the same symbol above and below"),
        (((2, []), {"word_symbols": [-1]}), "word_symbols holds symbol -1"),
        (((2, [(0.5, 1, 1)]), {}), "rules must hold integers"),
    ],
)
def test_grammars_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Grammar(*arguments[0], **arguments[1])


# S → A B, B → A B, S → B, over words A B B.
LABELS = Grammar(3, [(0, 1, 2), (2, 1, 2)], unaries=[(0, 2)], word_symbols=[1, 2])
GOOD = [(0, 1, 0, 2), (0, 1, 2, 1), (0, 0, 1, -1), (1, 1, 2, -1)]


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (GOOD[:3], "3 word nodes, but lengths add up to 4"),
        (
            [(0, 1, 2, 1), *GOOD[2:]],
            r"example 1, symbol 2 over 0 … 1 is not the whole sentence with the symbol 0",
        ),
        ([GOOD[0], (0, 1, 2, 0), *GOOD[2:]], "is not what its rule builds"),
        ([GOOD[0], GOOD[0], *GOOD[1:]], "is built by a unary rule from a node that is, too"),
        ([*GOOD[:2], (0, 0, 2, -1), GOOD[3]], "is not what its rule builds"),
        ([*GOOD[:2], (0, 0, 7, -1), GOOD[3]], "has no symbol between 0 and 2"),
        ([*GOOD[:2], GOOD[2], (0, 0, 1, -1)], "has no two neighbouring nodes below it"),
        ([*GOOD[:2], GOOD[2], (1, 2, 1, -1)], "is not a node over words of the sentence"),
        ([GOOD[0], (0, 1, 2, 9), *GOOD[2:]], "has no rule between −1 and 2"),
        ([(0, 1, 0, 2), (0, 0, 1, -1), (1, 1, 2, -1)], "from something else than one node"),
    ],
)
def test_labels_are_refused(nodes: Any, message: str) -> None:
    shapes = LABELS.shapes([2, 2])
    assert len(LABELS.encode_all(np.array(GOOD + GOOD), shapes).part) == 12
    with pytest.raises(InputError, match=message):
        LABELS.encode_all(np.array(GOOD + nodes), shapes)


def test_pruned_and_wrong_words_are_refused() -> None:
    with pytest.raises(InputError, match="example 0, symbol 0 over 0 … 0 is none of the symbols over words"):
        LABELS.encode_all([(0, 0, 0, -1)], LABELS.shapes([1]))
    with pytest.raises(InputError, match="example 1: the span 0 … 1 is not among the example's spans"):
        LABELS.encode_all(GOOD + GOOD, LABELS.span_shapes([2, 2], [0, 1, 1], [0], [1]))
    for spans, message in (
        (
            ([2], [0, 1], [0], [2]),
            "example 0 has the span 0 … 2; it must have two or more of the words 0 … 1",
        ),
        (([2], [0, 1], [0], [0]), "example 0 has the span 0 … 0"),
        (([2], [0, 2], [0, 0], [1, 1]), "example 0 has a span twice"),
        (([2], [0, 2], [0], [1]), "do not belong together"),
    ):
        with pytest.raises(InputError, match=message):
            LABELS.span_shapes(*spans)


def test_scores_are_refused() -> None:
    for scores, message in (
        ((np.zeros((2, 3)), np.zeros(5)), r"word_scores has shape \(2, 3\), expected \(length, 2\)"),
        ((np.zeros((2, 2)), np.zeros(4)), r"rule_scores has shape \(4,\), expected \(5,\)"),
        ((np.zeros((2, 2)), np.zeros(5), np.zeros((2, 2))), "span_scores has shape"),
        (([np.zeros((2, 2))], np.zeros(5), []), "word_scores has 1 sentences, span_scores has 0"),
    ):
        with pytest.raises(InputError, match=message):
            AMBIGUOUS.argmax(*scores)
    with pytest.raises(InputError, match="splits=True"):
        AMBIGUOUS.log_partition(np.zeros((2, 2)), np.zeros(5), split_scores=np.zeros((2, 2, 2)))
    with pytest.raises(InputError, match="list of nodes"):
        AMBIGUOUS.encode([0, 1])


# -- solvers ------------------------------------------------------------------------------------------

# Relative distance of the primal and of the dual to the optimum.
REACHED = {
    ("eg", "log"): (1e-6, 1e-6),
    ("eg-gap", "softmax_margin"): (1e-6, 1e-6),
    ("eg-gap", "hinge"): (1e-5, 1e-6),
    ("sdca", "between"): (1e-6, 1e-6),
    ("eg-batch", "log"): (1e-6, 1e-6),
    ("eg-primal", "between"): (1e-6, 1e-6),
    ("extragradient", "log"): (1e-6, 1e-6),
    ("excessive-gap", "hinge"): (1e-4, 1e-4),
    ("lbfgs", "softmax_margin"): (1e-6, 1e-6),
    ("cg", "log"): (1e-6, 1e-6),
    ("bcfw", "hinge"): (1e-6, 1e-6),
    ("svm-struct", "hinge"): (1e-6, 1e-6),
    ("bmrm", "log"): (1e-6, 1e-6),
    ("bmrm", "hinge"): (1e-6, 1e-6),
    ("sgd", "log"): (1e-4, 1e-4),
}


@pytest.mark.parametrize(("name", "loss"), REACHED)
def test_reaches_the_optimum(name: str, loss: str) -> None:
    check_optimum("grammar", name, loss, REACHED[name, loss], 2000)


@pytest.mark.parametrize("name", ["mira", "kbest-mira", "perceptron"])
def test_online_learners_certify_what_they_have(name: str) -> None:
    check_online_learner("grammar", name)


def test_problem_has_all_that_derivations_have() -> None:
    """Pruned spans, derivations with different numbers of parts, parts used twice, and a true bound on features."""
    data = problem_of("grammar", "log")
    structure, written = data.problem.structure, data.written_out
    assert structure.n_spans(data.shapes).sum() < structure.n_spans(structure.shapes(data.lengths)).sum()
    assert any(len({len(parts) for parts in each}) > 1 for each in written.parts)
    assert any(len(np.unique(parts)) < len(parts) for each in written.parts for parts in each)
    for features, bound in zip(written.features, data.problem.squared_radii(), strict=True):
        differences = features[:, None] - features[None, :]
        assert ((differences**2).sum(axis=2) <= bound * (1 + 1e-12)).all()


def test_feature_spread_knows_that_a_row_may_be_used_twice() -> None:
    """Two words with a unary rule each, and a unary rule on top in one derivation only: seven parts of span rows."""
    grammar = Grammar(5, [(0, 3, 3), (1, 2, 2)], unaries=[(0, 1), (2, 4), (3, 4)], word_symbols=[4])
    shapes, one, other = grammar.shapes([2]), *grammar.labellings(2)
    rows = {
        "word": RowData(
            FeatureMap.build(1, 1), AttributeRows(np.zeros(3, np.int64), np.zeros(0, np.int32), None)
        ),
        "span": RowData(
            FeatureMap.build(5, 3), AttributeRows(np.arange(4), np.arange(3, dtype=np.int32), None)
        ),
    }
    bound = squared_radii(Scorer.build(grammar, shapes, rows)) - 2.0 * grammar.most_tied(shapes) ** 2
    differ = np.setxor1d(grammar.encode(one), grammar.encode(other))
    assert ((differ >= 2) & (differ < 17)).sum() == 7
    assert bound[0] >= 7.0
