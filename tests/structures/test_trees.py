"""Projective and spanning trees: the contract, enumeration up to six words, extreme scores, pruning, refusals."""

from __future__ import annotations

from math import lgamma, log
from typing import Any

import numpy as np
import pytest
from contract_structures import (
    Case,
    StructureContract,
    as_key,
    checks,
    count_errors,
    generators,
    score_makers,
)
from hypothesis import given
from hypothesis import strategies as st

from partwise.compiled.dispatch import entry
from partwise.compiled.simd import LANES
from partwise.errors import InputError
from partwise.structures import Projective, Spanning, Structure
from partwise.structures.packed import Packed
from partwise.structures.trees.arc_tables import stride_of
from partwise.structures.trees.eisner.oracle import (
    ProjectiveSpecification,
    marginals_in_logs,
    projective_workspace,
)
from partwise.structures.trees.matrix_tree.logs import spanning_in_logs
from partwise.structures.trees.parts import _all_trees


@entry(allocates=True)
def _projective(n, first_row, scores, marginals):  # type: ignore
    work = projective_workspace(ProjectiveSpecification(1, first_row == 1), n)
    table, found = work.scores, work.marginals
    table[: scores.size] = scores
    value = marginals_in_logs(n, first_row, work)
    marginals[:] = found[: scores.size]
    return value


@entry(allocates=True)
def _spanning(n, single_root, stride, scores, marginals):  # type: ignore
    return spanning_in_logs(n, single_root, stride, scores, marginals, True)


KINDS: list[Any] = [Projective, Spanning]
EVERY_MODE = pytest.mark.parametrize(
    ("kind", "single_root"), [(kind, single) for kind in KINDS for single in (True, False)]
)


class TreeCase(Case):
    @property
    def entropy_tolerance(self) -> float:
        """The heads of equally good trees may score very differently, which multiplies what rounding did to μ."""
        finite = [np.abs(a[np.isfinite(a)]).max(initial=0.0) for a in self.scores]
        return self.tolerance * (20 + max(finite) * self.length)


class TreeContract(StructureContract):
    kind: Any

    def case(self, draw: Any) -> Case:
        n_relations = draw(st.sampled_from([1, 1, 2]))
        length = draw(st.integers(1, 4 if n_relations == 1 else 3))
        structure = self.kind(single_root=draw(st.booleans()), n_relations=n_relations)
        make, shape = draw(score_makers()), (length + 1, length + 1)
        scores = (make(*shape),) if n_relations == 1 else (make(*shape), make(*shape, n_relations))
        return TreeCase(structure, length, scores, {})

    def some_labelling(self, structure: Any, length: int, generator: np.random.Generator) -> Any:
        choices = list(structure.labellings(length))
        return choices[generator.integers(len(choices))]

    def flat_labels(self, structure: Any, y: Any) -> np.ndarray:
        return structure.codes(y)

    @checks
    @given(st.data())
    def test_lists_equal_one_by_one(self, data: Any) -> None:
        n_relations, generator = data.draw(st.sampled_from([1, 3])), data.draw(generators())
        structure = self.kind(single_root=data.draw(st.booleans()), n_relations=n_relations)
        lengths = data.draw(st.lists(st.integers(1, 9), max_size=4))
        scale = data.draw(st.sampled_from([1.0, 1e5]))
        arcs = [scale * generator.normal(size=(n + 1, n + 1)) for n in lengths]
        relations = [generator.normal(size=(n + 1, n + 1, n_relations)) for n in lengths]
        lists = (arcs,) if n_relations == 1 else (arcs, relations)
        for method in ("log_partition", "entropy", "argmax", "marginals", "kbest"):
            ours = getattr(structure, method)(*lists)
            assert len(ours) == len(lengths)
            for result, *one in zip(ours, *lists, strict=True):
                again = getattr(structure, method)(*one)
                if method == "kbest":
                    assert [(as_key(y), s) for y, s in result] == [(as_key(y), s) for y, s in again]
                else:
                    pairs = zip(result, again, strict=True) if isinstance(again, tuple) else [(result, again)]
                    for a, b in pairs:
                        np.testing.assert_array_equal(a, b)
        gold = structure.argmax(*lists)
        augmented = structure.loss_augmented_argmax(*lists, y=gold, cost=2.0)
        for result, y, *one in zip(augmented, gold, *lists, strict=True):
            alone = structure.loss_augmented_argmax(*one, y=y, cost=2.0)
            np.testing.assert_array_equal(result, alone)
        assert [np.shape(s) for s in structure.sample(*lists, n_samples=3, random_state=0)] == [
            (3, n) if n_relations == 1 else (3, 2, n) for n in lengths
        ]


class TestProjective(TreeContract):
    kind = Projective


class TestSpanning(TreeContract):
    kind = Spanning


# -- enumeration, all at once ------------------------------------------------------------------------


def _enumerated(structure: Any, n: int, scores: np.ndarray) -> tuple[float, np.ndarray, float, float]:
    """Log-partition, marginals, entropy and the best score, from all trees of n words."""
    trees, words = _all_trees(n, structure.single_root, structure.projective), np.arange(1, n + 1)
    totals = scores[trees, words].sum(axis=1)
    top = totals.max()
    if top == -np.inf:
        return top, np.zeros_like(scores), 0.0, top
    weights = np.exp(totals - top)
    p = weights / weights.sum()
    marginals = np.zeros_like(scores)
    for m in words:
        np.add.at(marginals[:, m], trees[:, m - 1], p)
    return top + np.log(weights.sum()), marginals, -float(p[p > 0] @ np.log(p[p > 0])), top


@EVERY_MODE
@pytest.mark.parametrize("n", [5, 6])
@pytest.mark.parametrize("scale", [0.0, 1.0, 40.0, 1e3, 1e6])
@pytest.mark.parametrize("forbidden", [0.0, 0.3, 0.6])
def test_against_all_trees(kind: Any, single_root: bool, n: int, scale: float, forbidden: float) -> None:
    structure = kind(single_root=single_root)
    for seed in range(6):
        random = np.random.default_rng([seed, n])
        scores = scale * random.normal(size=(n + 1, n + 1))
        scores[random.random(scores.shape) < forbidden] = -np.inf
        log_total, marginals, entropy, top = _enumerated(structure, n, scores)
        np.testing.assert_allclose(structure.log_partition(scores), log_total, rtol=1e-12, atol=1e-11)
        if top == -np.inf:
            with pytest.raises(InputError, match="every labelling"):
                structure.marginals(scores)
            continue
        atol = 1e-12 + 2e-15 * scale * n
        ours = structure.marginals(scores)
        np.testing.assert_allclose(ours, marginals, rtol=0, atol=atol)
        np.testing.assert_allclose(ours[:, 1:].sum(axis=0), 1.0, rtol=0, atol=1e-12)
        np.testing.assert_allclose(structure.entropy(scores), entropy, rtol=0, atol=20 * atol)
        np.testing.assert_allclose(structure.score(structure.argmax(scores), scores), top, rtol=1e-14)
        ranked = structure.kbest(scores, k=20)
        trees, words = _all_trees(n, single_root, structure.projective), np.arange(1, n + 1)
        totals = np.sort(scores[trees, words].sum(axis=1))[::-1][: len(ranked)]
        np.testing.assert_allclose([s for _, s in ranked], totals, rtol=1e-13, atol=1e-10)
        assert len({as_key(y) for y, _ in ranked}) == len(ranked)


@pytest.mark.parametrize("scale", [300.0, 400.0, 500.0, 700.0])
def test_words_whose_heads_all_underflow(scale: float) -> None:
    """At these scales a word's shares may all be too small for a number although the trees' sum is not."""
    structure, random = Spanning(single_root=True), np.random.default_rng(0)
    for n in (4, 5):
        for _ in range(300):
            scores = scale * random.normal(size=(n + 1, n + 1))
            expected = _enumerated(structure, n, scores)[1]
            atol = 1e-12 + 2e-15 * scale * n
            np.testing.assert_allclose(structure.marginals(scores), expected, rtol=0, atol=atol)


@EVERY_MODE
@pytest.mark.parametrize("n", [1, 2, 9, 30, 130])
@pytest.mark.parametrize("scale", [0.0, 3.0, 60.0, 1e6])
def test_long_sentences(kind: Any, single_root: bool, n: int, scale: float) -> None:
    """One head a word, and nothing but the log-partition changes when all of a word's arcs gain the same."""
    if n == 130 and scale > 3.0:
        n = 60
    structure, random = kind(single_root=single_root), np.random.default_rng(n)
    scores = scale * random.normal(size=(n + 1, n + 1))
    marginals = structure.marginals(scores)
    np.testing.assert_allclose(marginals[:, 1:].sum(axis=0), 1.0, rtol=0, atol=1e-12)
    assert (marginals[:, 0] == 0).all() and (np.diag(marginals) == 0).all() and (marginals >= 0).all()
    if single_root:
        np.testing.assert_allclose(marginals[0].sum(), 1.0, rtol=0, atol=1e-11)
    shifted = scores + 1e3 * random.normal(size=(1, n + 1))
    np.testing.assert_allclose(structure.marginals(shifted), marginals, atol=1e-12 + 1e-13 * (1e3 + scale))
    moved = structure.log_partition(shifted) - structure.log_partition(scores)
    np.testing.assert_allclose(
        moved, (shifted - scores)[0, 1:].sum(), rtol=1e-9, atol=1e-13 * (1e3 + scale) * n
    )


@EVERY_MODE
@pytest.mark.parametrize("scale", [0.1, 5.0, 30.0])
def test_linear_domain_agrees_with_logarithms(kind: Any, single_root: bool, scale: float) -> None:
    n, random = 25, np.random.default_rng(0)
    structure, stride = kind(single_root=single_root), stride_of(n)
    scores = scale * random.normal(size=(n + 1, n + 1))
    table = np.full((n + 1, stride), -np.inf)
    table[1:, : n + 1] = np.where(np.eye(n + 1, dtype=bool), -np.inf, scores).T[1:]
    found = np.zeros(table.size)
    if kind is Projective:
        value = _projective(n, int(single_root), table.ravel(), found)
    else:
        value = _spanning(n, single_root, stride, table.ravel(), found)
    np.testing.assert_allclose(structure.log_partition(scores), value, rtol=1e-14, atol=1e-13)
    expected = found.reshape(n + 1, stride)[1:, : n + 1].T
    np.testing.assert_allclose(structure.marginals(scores)[:, 1:], expected, rtol=0, atol=1e-13 * (1 + scale))


@pytest.mark.parametrize("n", [1, 2, 10, 150, 400])
def test_numbers_of_trees(n: int) -> None:
    def choose(a: int, b: int) -> float:
        return lgamma(a + 1) - lgamma(b + 1) - lgamma(a - b + 1)

    counts = {
        (Spanning, False): (n - 1) * log(n + 1),
        (Spanning, True): (n - 1) * log(n),
        (Projective, False): choose(3 * n, n) - log(2 * n + 1),
        (Projective, True): choose(3 * n - 2, n - 1) - log(n),
    }
    for (kind, single_root), count in counts.items():
        if n == 400 and kind is Projective:
            continue
        structure: Any = kind(single_root=single_root, n_relations=3)
        np.testing.assert_allclose(structure.log_count(n), count + n * log(3), rtol=1e-12)


@EVERY_MODE
def test_words_that_hold_on_to_each_other(kind: Any, single_root: bool) -> None:
    """Cycles that a walk leaves once in e^60 times: a determinant loses everything here, and so would walks."""
    structure, random = kind(single_root=single_root), np.random.default_rng(0)
    for gap in (20.0, 60.0, 600.0, 2e3):
        scores = random.normal(size=(6, 6))
        scores[1, 2] += gap
        scores[2, 1] += gap
        scores[4, 5] += 2 * gap
        scores[5, 4] += 2 * gap
        log_total, marginals, _, _ = _enumerated(structure, 5, scores)
        np.testing.assert_allclose(structure.marginals(scores), marginals, rtol=0, atol=1e-12 + 1e-14 * gap)
        np.testing.assert_allclose(structure.log_partition(scores), log_total, rtol=1e-13)
        n, trees = 3000, _all_trees(5, single_root, structure.projective)
        p = np.exp(scores[trees, np.arange(1, 6)].sum(axis=1) - log_total)
        found: dict[tuple[int, ...], float] = {}
        for y in structure.sample(scores, n_samples=n, random_state=1):
            found[as_key(y)] = found.get(as_key(y), 0.0) + 1 / n
        bound = np.sqrt(np.log(2 * len(trees) / 1e-6) / (2 * n))
        assert max(abs(found.get(as_key(y), 0.0) - q) for y, q in zip(trees, p, strict=True)) < bound
        assert set(found) <= {as_key(y) for y in trees}


def test_only_the_root_is_left_for_a_word() -> None:
    """With a single root, a word without other heads must be the one below the root."""
    scores = np.random.default_rng(3).normal(size=(5, 5))
    scores[1:, 3] = -np.inf
    for kind in KINDS:
        for single_root in (True, False):
            structure = kind(single_root=single_root)
            _, marginals, _, top = _enumerated(structure, 4, scores)
            np.testing.assert_allclose(structure.marginals(scores), marginals, atol=1e-13)
            np.testing.assert_allclose(structure.score(structure.argmax(scores), scores), top)
            assert (structure.sample(scores, n_samples=20, random_state=0)[:, 2] == 0).all()
    scores[1:, 1] = -np.inf
    assert Spanning(single_root=True).log_partition(scores) == -np.inf
    assert Spanning(single_root=False).log_partition(scores) > -np.inf


# -- pruned shapes and the solvers' side ------------------------------------------------------------


def _pruned(
    structure: Any, lengths: list[int], random: np.random.Generator
) -> tuple[Any, np.ndarray, list[Any]]:
    """Shapes without some arcs but with those of some trees; flat labels of those; masks by [head, modifier]."""
    ptr, heads, modifiers, labels, masks = [0], [], [], [], []
    for n in lengths:
        trees = list(structure.labellings(n))
        y = structure.codes(trees[random.integers(len(trees))])
        mask = random.random((n + 1, n + 1)) < 0.5
        mask[y // structure.n_relations, np.arange(1, n + 1)] = True
        mask[:, 0] = mask[np.arange(n + 1), np.arange(n + 1)] = False
        modifier, head = np.nonzero(mask.T)
        heads.append(head)
        modifiers.append(modifier)
        ptr.append(ptr[-1] + len(head))
        labels.append(y)
        masks.append(mask)
    arcs = np.concatenate(heads), np.concatenate(modifiers)
    return structure.arc_shapes(lengths, ptr, *arcs), np.concatenate(labels), masks


@EVERY_MODE
@pytest.mark.parametrize("n_relations", [1, 3])
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_pruned_shapes(kind: Any, single_root: bool, n_relations: int, scale: float) -> None:
    """Oracles on candidate arcs against dense matrices with −inf elsewhere."""
    structure, random = kind(single_root=single_root, n_relations=n_relations), np.random.default_rng(7)
    shapes, labels, masks = _pruned(structure, [3, 1, 4, 2], random)
    structure.check_gold(labels, shapes)
    part_ptr = np.concatenate([[0], np.cumsum(structure.n_parts(shapes))])
    scores = np.append(scale * random.normal(size=part_ptr[-1]), np.full(LANES, 1e9))
    packed = Packed(structure, structure.specification(), shapes, part_ptr, scores, False)
    values, counts = packed.answers("sums")
    again, _ = packed.answers("sums", 0)
    np.testing.assert_allclose(again, values, rtol=1e-14)
    found = packed.best()
    gold_ptr, gold, _ = structure.encode_all(labels, shapes)
    start = 0
    for i, mask in enumerate(masks):
        n, own = len(mask) - 1, scores[part_ptr[i] : part_ptr[i + 1]]
        modifier, head = np.nonzero(mask.T)
        arcs, relations = np.full(mask.shape, -np.inf), np.zeros((*mask.shape, n_relations))
        arcs[head, modifier] = own[: len(head)]
        dense: tuple[Any, ...] = (arcs,)
        if n_relations > 1:
            relations[head, modifier] = own[len(head) :].reshape(-1, n_relations)
            dense = arcs, relations
        np.testing.assert_allclose(values[i], structure.log_partition(*dense), rtol=1e-13)
        marginals = structure.marginals(*dense)
        arc = marginals if n_relations == 1 else marginals.arc
        expected = arc[head, modifier]
        if n_relations > 1:
            expected = np.concatenate([expected, marginals.relation[head, modifier].ravel()])
        np.testing.assert_allclose(counts[part_ptr[i] : part_ptr[i + 1]], expected, atol=1e-12 * scale)
        np.testing.assert_array_equal(
            structure.from_codes(found[start : start + n]), structure.argmax(*dense)
        )
        y = structure.from_codes(labels[start : start + n])
        parts = gold[gold_ptr[i] : gold_ptr[i + 1]]
        np.testing.assert_allclose(own[parts].sum(), structure.score(y, *dense))
        start += n


@pytest.mark.parametrize("cost", ["heads", "hamming", "labelled"])
def test_costs_add_up(cost: str) -> None:
    structure, random = Spanning(n_relations=2), np.random.default_rng(1)
    lengths = [3, 2]
    shapes = structure.shapes(lengths)
    gold = [list(structure.labellings(n))[random.integers(5)] for n in lengths]
    labels = np.concatenate([structure.codes(y) for y in gold])
    costs = structure.part_costs(labels, shapes, structure.checked_cost(cost))
    part_ptr = np.concatenate([[0], np.cumsum(structure.n_parts(shapes))])
    for i, (n, truth) in enumerate(zip(lengths, gold, strict=True)):
        own = costs[part_ptr[i] : part_ptr[i + 1]]
        for y in structure.labellings(n):
            wrong_heads = count_errors(y.heads, truth.heads)
            expected = count_errors(y, truth) if cost == "labelled" else wrong_heads
            assert own[structure.encode(y)].sum() == expected


# -- refusals ----------------------------------------------------------------------------------------


def test_refusals_of_gold_heads() -> None:
    def refused(structure: Structure, labels: list[int], lengths: list[int], words: str) -> None:
        with pytest.raises(InputError, match=words):
            structure.check_gold(np.array(labels), structure.shapes(lengths))

    spanning, several = Spanning(), Spanning(single_root=False)
    refused(
        spanning,
        [0, 1, 0, 4],
        [2, 2],
        r"example 1, position 1: word 2 has head 4, but the sentence has 2 words",
    )
    refused(spanning, [0, 2], [2], r"example 0, position 1: word 2 is in a cycle of heads: 2 → 2")
    refused(
        spanning, [0, 0, 3, 2], [1, 3], r"example 1, position 1: word 2 is in a cycle of heads: 2 → 3 → 2"
    )
    refused(spanning, [0, 3, 0], [3], r"example 0, position 2: word 3 is a second root")
    several.check_gold(np.array([0, 3, 0]), several.shapes([3]))
    refused(
        Projective(), [3, 4, 0, 3], [4], r"example 0, position 0: word 1 has an arc .from 3. that crosses"
    )
    refused(spanning, [0, 1], [3], "labels has 2 entries, but lengths add up to 3")
    pruned = spanning.arc_shapes([2], [0, 2], [0, 0], [1, 2])
    with pytest.raises(InputError, match=r"example 0, position 1: the arc 1 → 2 is not among .*pruning"):
        spanning.encode_all(np.array([0, 1]), pruned)
    with pytest.raises(InputError, match="not in order of modifier and head"):
        spanning.arc_shapes([2], [0, 2], [0, 0], [2, 1])
    with pytest.raises(InputError, match=r"example 0 of 2 words has no arc 3 → 1"):
        spanning.arc_shapes([2], [0, 2], [3, 0], [1, 2])


def test_refusals_of_arguments() -> None:
    with pytest.raises(InputError, match="square array"):
        Projective().argmax(np.zeros((3, 4)))
    with pytest.raises(InputError, match=r"arc_scores\[1\] contains NaN"):
        Spanning().marginals([np.zeros((3, 3)), np.full((3, 3), np.nan)])
    with pytest.raises(InputError, match="relation_scores are missing"):
        Spanning(n_relations=2).argmax(np.zeros((3, 3)))
    with pytest.raises(InputError, match=r"relation_scores has shape \(3, 3, 3\), expected \(3, 3, 2\)"):
        Spanning(n_relations=2).argmax(np.zeros((3, 3)), np.zeros((3, 3, 3)))
    with pytest.raises(InputError, match="n_relations is 1"):
        Spanning().argmax(np.zeros((3, 3)), np.zeros((3, 3, 3)))
    with pytest.raises(InputError, match="y, the true tree, is missing"):
        Spanning().loss_augmented_argmax(np.zeros((3, 3)))
    with pytest.raises(InputError, match="'heads', 'labelled'"):
        Spanning(n_relations=2).checked_cost("wrong")
    with pytest.raises(InputError, match="n_relations"):
        Projective(n_relations=0)
