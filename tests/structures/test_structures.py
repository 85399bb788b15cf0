"""Multiclass and chains of every kind: the contract, and what is their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contract_structures import Case, StructureContract, checks, generators, score_makers
from effort import lines_executed
from hypothesis import assume, given
from hypothesis import strategies as st

from partwise.errors import InputError
from partwise.structures import Brute, Chain, Multiclass, SemiMarkov, transition_mask


class TestMulticlass(StructureContract):
    def case(self, draw: Any) -> Case:
        n_labels = draw(st.integers(1, 11))
        return Case(Multiclass(n_labels), 1, (draw(score_makers())(n_labels),), {})

    @checks
    @given(st.data())
    def test_batch_equals_one_by_one(self, data: Any) -> None:
        structure, make = Multiclass(data.draw(st.integers(1, 9))), data.draw(score_makers())
        scores = make(data.draw(st.integers(0, 5)), structure.n_labels)
        scores[:, 0] = np.maximum(scores[:, 0], -1e6)
        for method in ("log_partition", "marginals", "argmax", "entropy"):
            ours = getattr(structure, method)(scores)
            each = [getattr(structure, method)(row) for row in scores]
            np.testing.assert_array_equal(ours, np.array(each).reshape(np.shape(ours)))
        assert structure.kbest(scores, k=2) == [structure.kbest(row, k=2) for row in scores]
        assert structure.sample(scores, 3, 0).shape == (len(scores), 3)

    def test_refusals(self) -> None:
        with pytest.raises(InputError, match="n_labels"):
            Multiclass(0)
        with pytest.raises(InputError, match="scores"):
            Multiclass(3).argmax(np.zeros(4))
        with pytest.raises(InputError, match="random_state must be None, an integer"):
            Multiclass(3).sample(np.zeros(3), random_state="seed")
        with pytest.raises(InputError, match=r"example 1, position 0 has label 3"):
            Multiclass(3).check_gold(np.array([0, 3]), Multiclass(3).shapes([1, 1]))


def masks(draw: Any, n_labels: int) -> dict[str, np.ndarray]:
    generator = draw(generators())
    shapes = {"allowed": (n_labels, n_labels), "allowed_start": (n_labels,), "allowed_end": (n_labels,)}
    return {
        name: generator.random(shape) < 0.7 for name, shape in shapes.items() if draw(st.integers(0, 3)) == 0
    }


class ChainContract(StructureContract):
    order, tied, longest, most_labels = 1, True, 5, 4

    def edge_shape(self, draw: Any, n_labels: int, length: int) -> tuple[int, ...]:
        return (n_labels, n_labels) if self.tied else (length - 1, n_labels, n_labels)

    def case(self, draw: Any) -> Case:
        n_labels, length = draw(st.integers(1, self.most_labels)), draw(st.integers(1, self.longest))
        structure = Chain(n_labels, tied=self.tied, order=self.order, **masks(draw, n_labels))
        make = draw(score_makers())
        scores = make(length, n_labels), make(*self.edge_shape(draw, n_labels, length))
        named = {
            name: make(n_labels) for name in ("start_scores", "end_scores") if draw(st.integers(0, 2)) == 0
        }
        return Case(structure, length, scores, named)

    @checks
    @given(st.data())
    def test_batch_equals_one_by_one(self, data: Any) -> None:
        n_labels = data.draw(st.integers(1, self.most_labels))
        structure = Chain(n_labels, tied=self.tied, order=self.order)
        generator, n = data.draw(generators()), data.draw(st.integers(0, 4))
        lengths = data.draw(st.lists(st.integers(1, 6), min_size=n, max_size=n))
        scale = data.draw(st.sampled_from([1.0, 1e5]))
        nodes = [generator.normal(size=(length, n_labels)) * scale for length in lengths]
        edges = [generator.normal(size=self.edge_shape(data.draw, n_labels, length)) for length in lengths]
        shared = self.tied and n > 0 and data.draw(st.booleans())
        if shared:
            edges = [edges[0]] * n
        given = edges[0] if shared else edges
        ends = {name: generator.normal(size=n_labels) for name in ("start_scores", "end_scores")}
        gold = [np.zeros(length, int) for length in lengths]
        for method in ("log_partition", "entropy", "argmax", "marginals", "expected_counts", "kbest"):
            ours = getattr(structure, method)(nodes, given, **ends)
            assert len(ours) == n
            for result, node, edge in zip(ours, nodes, edges, strict=True):
                _assert_same(result, getattr(structure, method)(node, edge, **ends))
        augmented = structure.loss_augmented_argmax(nodes, given, gold, 2.0)
        for result, node, edge, y in zip(augmented, nodes, edges, gold, strict=True):
            _assert_same(result, structure.loss_augmented_argmax(node, edge, y, 2.0))
        costs = [2.0 * (np.arange(n_labels) != 0) + np.zeros_like(node) for node in nodes]
        _assert_same(augmented, structure.loss_augmented_argmax(nodes, given, gold, costs))
        assert [s.shape for s in structure.sample(nodes, given, 3, 0)] == [(3, t) for t in lengths]


def _assert_same(a: Any, b: Any) -> None:
    if isinstance(b, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            _assert_same(x, y)
    else:
        np.testing.assert_array_equal(a, b)


class TestChain(ChainContract):
    pass


class TestChainWithEdgesPerPosition(ChainContract):
    tied = False


class TestChainOfOrderTwo(ChainContract):
    order, longest, most_labels = 2, 5, 3

    def edge_shape(self, draw: Any, n_labels: int, length: int) -> tuple[int, ...]:
        return (n_labels + 1,) * self.order + (n_labels,)


class TestChainOfOrderThree(TestChainOfOrderTwo):
    order, most_labels = 3, 2


@checks
@given(st.data())
def test_tied_edges_equal_the_same_block_everywhere(data: Any) -> None:
    make, n_labels = data.draw(score_makers()), data.draw(st.integers(1, 5))
    length = data.draw(st.integers(1, 6))
    structure = Chain(n_labels, **masks(data.draw, n_labels))
    node, edge = make(length, n_labels), make(n_labels, n_labels)
    spread = np.broadcast_to(edge, (length - 1, n_labels, n_labels))
    log_total = structure.log_partition(node, edge)
    np.testing.assert_allclose(log_total, structure.log_partition(node, spread), rtol=1e-12, atol=1e-10)
    assume(log_total > -np.inf)
    tied, apart = structure.marginals(node, edge), structure.marginals(node, spread)
    atol = 1e-10 + 2e-15 * np.abs(np.where(np.isfinite(edge), edge, 0)).max() * length
    for a, b in zip(tied, apart, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=atol)
    np.testing.assert_allclose(structure.expected_counts(node, edge).edge, apart.edge.sum(0), atol=10 * atol)


@checks
@given(st.data())
def test_high_order_with_first_order_scores_is_first_order(data: Any) -> None:
    order, n_labels = data.draw(st.integers(2, 3)), data.draw(st.integers(1, 4))
    length, generator = data.draw(st.integers(1, 6)), data.draw(generators())
    mask = masks(data.draw, n_labels)
    node, edge = generator.normal(size=(length, n_labels)), generator.normal(size=(n_labels + 1, n_labels))
    high = Chain(n_labels, order=order, **mask)
    expanded = np.broadcast_to(edge, (n_labels + 1,) * order + (n_labels,))
    first = Chain(n_labels, **mask)
    starts = {"start_scores": edge[n_labels]}
    log_total = first.log_partition(node, edge[:n_labels], **starts)
    np.testing.assert_allclose(high.log_partition(node, expanded), log_total, rtol=1e-12)
    assume(log_total > -np.inf)
    ours, theirs = high.marginals(node, expanded), first.marginals(node, edge[:n_labels], **starts)
    np.testing.assert_allclose(ours.node, theirs.node, atol=1e-12)
    by_last = ours.edge.reshape(-1, n_labels + 1, n_labels).sum(0)
    np.testing.assert_allclose(by_last[:n_labels], theirs.edge.sum(0), atol=1e-12)
    np.testing.assert_allclose(by_last[n_labels], theirs.node[0], atol=1e-12)
    np.testing.assert_array_equal(high.argmax(node, expanded), first.argmax(node, edge[:n_labels], **starts))


@pytest.mark.parametrize("order", [1, 2])
def test_a_label_lost_to_underflow_is_found_again(order: int) -> None:
    """Label 1 starts below the smallest number and wins ten steps later: no single row total is small."""
    node = np.zeros((12, 2))
    node[0, 1] = -710.0
    edge = np.array([[-460.0, -np.inf], [-np.inf, 0.0]])
    structure = Chain(2, order=order)
    if order == 2:
        first = np.vstack([edge, np.zeros((1, 2))])
        edge = np.broadcast_to(first, (3, 3, 2))
    assert structure.log_partition(node, edge) == pytest.approx(-710.0, rel=1e-12)
    assert structure.marginals(node, edge).node[:, 1] == pytest.approx(1.0)
    assert structure.expected_counts(node, edge).node[:, 1] == pytest.approx(1.0)


@pytest.mark.parametrize("order", [1, 2])
def test_long_chains_keep_their_precision(order: int) -> None:
    """Independent positions: the log-partition is a sum of soft maxima."""
    node = np.random.default_rng(0).normal(size=(5000, 3)) * 20
    edge = np.zeros((3, 3) if order == 1 else (4, 4, 3))
    structure = Chain(3, order=order)
    expected = np.logaddexp.reduce(node, axis=1).sum()
    assert structure.log_partition(node, edge) == pytest.approx(expected, rel=1e-13)
    softmax = np.exp(node - np.logaddexp.reduce(node, axis=1)[:, None])
    np.testing.assert_allclose(structure.marginals(node, edge).node, softmax, atol=1e-12)


NAMES = {
    "IOB2": ["O", "B-X", "I-X", "B-Y", "I-Y"],
    "IOB1": ["O", "B-X", "I-X", "B-Y", "I-Y"],
    "IOBES": ["O", "B-X", "I-X", "E-X", "S-X", "B-Y", "I-Y", "E-Y", "S-Y"],
    "BILOU": ["O", "B-X", "I-X", "L-X", "U-X", "B-Y", "I-Y", "L-Y", "U-Y"],
}


def _well_formed(names: list[str], scheme: str) -> bool:
    """The scheme restated as a walk over the sequence with an open chunk."""
    if scheme == "IOB1":
        before = ["O", *names]
        return all(b[0] != "B" or (a != "O" and a[1:] == b[1:]) for a, b in zip(before, names, strict=False))
    closes, alone = {"IOB2": "", "IOBES": "E", "BILOU": "L"}[scheme], {"IOBES": "S", "BILOU": "U"}.get(scheme)
    open_chunk = None
    for name in names:
        prefix, kind = name[0], name[2:]
        if prefix == "I" or (closes and prefix == closes):
            if open_chunk != kind:
                return False
            open_chunk = None if closes and prefix == closes else kind
        else:
            if open_chunk is not None and closes:
                return False
            open_chunk = kind if prefix == "B" else None
            assert prefix in ("O", "B", alone)
    return open_chunk is None or not closes


@pytest.mark.parametrize("scheme", sorted(NAMES))
def test_schemes_allow_exactly_the_well_formed(scheme: str) -> None:
    names = NAMES[scheme]
    free = Chain(len(names))
    masked = Chain(len(names), **transition_mask(names, scheme)._asdict())
    for length in (1, 2, 3):
        for y in free.labellings(length):
            assert masked.is_allowed(y) == _well_formed([names[label] for label in y], scheme)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("scheme", ["IOB2", "IOBES"])
def test_masks_hold_in_argmax_kbest_and_samples(scheme: str, order: int) -> None:
    names = NAMES[scheme]
    structure = Chain(len(names), order=order, **transition_mask(names, scheme)._asdict())
    generator = np.random.default_rng(1)
    shape = (len(names),) * 2 if order == 1 else (len(names) + 1,) * 2 + (len(names),)
    nodes = [generator.normal(size=(7, len(names))) * 5 for _ in range(20)]
    edge = generator.normal(size=shape)
    found = structure.argmax(nodes, edge)
    found += [y for best in structure.kbest(nodes, edge, k=10) for y, _ in best]
    found += [y for samples in structure.sample(nodes, edge, 10, 0) for y in samples]
    assert len(found) == 20 * 21
    assert all(_well_formed([names[label] for label in y], scheme) for y in found)
    unmasked = Chain(len(names), order=order).argmax(nodes, edge)
    assert not all(_well_formed([names[label] for label in y], scheme) for y in unmasked)


def test_scheme_refusals() -> None:
    with pytest.raises(InputError, match="scheme"):
        transition_mask(["O"], "IOBX")
    with pytest.raises(InputError, match="E-X"):
        transition_mask(["O", "E-X"], "IOB2")


def test_gold_labels_that_are_masked_out_are_named() -> None:
    structure = Chain(5, **transition_mask(NAMES["IOB2"])._asdict())
    shapes = structure.shapes([2, 3, 1])
    structure.check_gold(np.array([1, 2, 0, 3, 4, 0]), shapes)
    with pytest.raises(InputError, match="example 1, position 2: label 4 may not follow label 1"):
        structure.check_gold(np.array([1, 2, 0, 1, 4, 2]), shapes)
    with pytest.raises(InputError, match="example 2, position 0: label 2 may not stand first"):
        structure.check_gold(np.array([1, 2, 0, 1, 2, 2]), shapes)
    with pytest.raises(InputError, match="example 0, position 1: label 1 may not stand last"):
        ends = Chain(2, allowed_end=[True, False])
        ends.check_gold(np.array([0, 1]), ends.shapes([2]))
    with pytest.raises(InputError, match="example 0, position 1 has label 5"):
        structure.encode_all(np.array([0, 5]), structure.shapes([2]))


def test_order_of_parts() -> None:
    tied, apart, second = Chain(2), Chain(2, tied=False), Chain(2, order=2)
    shapes = tied.shapes([3, 1])
    assert tied.n_parts(shapes).tolist() == [10, 6]
    assert apart.n_parts(shapes).tolist() == [14, 2]
    assert second.n_parts(shapes).tolist() == [6 + 18, 2 + 18]
    assert tied.encode([1, 0, 1]).tolist() == [1, 2, 5, 6 + 2, 6 + 1]
    assert apart.encode([1, 0, 1]).tolist() == [1, 2, 5, 6 + 2, 10 + 1]
    assert second.encode([1, 0]).tolist() == [1, 2, 4 + 8 * 2 + 1, 4 + (2 * 3 + 1) * 2 + 0]


@pytest.mark.parametrize("structure", [Chain(22), Chain(22, tied=False), Chain(22, order=2)])
def test_encoding_a_corpus_takes_no_python_per_sequence(structure: Chain) -> None:
    def encode(n_sequences: int) -> None:
        generator = np.random.default_rng(0)
        lengths = generator.integers(1, 47, n_sequences)
        labels = generator.integers(0, 22, lengths.sum())
        structure.check_gold(labels, structure.shapes(lengths))
        structure.encode_all(labels, structure.shapes(lengths))

    encode(9)
    assert lines_executed(lambda: encode(90)) == lines_executed(lambda: encode(9000))


@pytest.mark.parametrize(
    ("node", "edge", "name"),
    [
        (np.zeros((3, 4)), np.zeros((5, 5)), "node_scores"),
        (np.zeros((0, 5)), np.zeros((5, 5)), "node_scores"),
        (np.zeros((3, 5)), np.zeros((4, 5)), "edge_scores"),
        (np.zeros((3, 5)), np.zeros((3, 5, 5)), "edge_scores"),
        ([np.zeros((3, 5)), np.zeros((3, 4))], np.zeros((5, 5)), r"node_scores\[1\]"),
        ([np.zeros((3, 5)), np.zeros((0, 5))], np.zeros((5, 5)), r"node_scores\[1\]"),
        ([np.zeros((3, 5))], [np.zeros((5, 5))] * 2, "edge_scores"),
        ([np.zeros((3, 5)), np.zeros((2, 5))], [np.zeros((2, 5, 5))] * 2, r"edge_scores\[1\]"),
        ("text", np.zeros((5, 5)), "node_scores"),
    ],
)
def test_wrong_shapes_are_named(node: Any, edge: Any, name: str) -> None:
    with pytest.raises(InputError, match=name):
        Chain(5).log_partition(node, edge)


def test_other_refusals() -> None:
    node, edge = np.zeros((2, 3)), np.zeros((3, 3))
    with pytest.raises(InputError, match="allowed"):
        Chain(3, allowed=np.ones((2, 3)))
    with pytest.raises(InputError, match="tied"):
        Chain(3, order=2, tied=False)
    with pytest.raises(InputError, match="start_scores"):
        Chain(3).argmax(node, edge, start_scores=np.zeros(2))
    with pytest.raises(InputError, match="k must"):
        Chain(3).kbest(node, edge, k=0)
    with pytest.raises(InputError, match="y has 1 labels"):
        Chain(3).loss_augmented_argmax(node, edge, [0])
    with pytest.raises(InputError, match="sequence 1"):
        Chain(3).argmax([node, node - np.inf], edge)
    with pytest.raises(InputError, match="limit"):
        Brute(Chain(3), 20, limit=100)


def test_plain_lists_and_stacked_arrays_are_read() -> None:
    structure, stacked = Chain(2), np.arange(12.0).reshape(2, 3, 2)
    edge = [[0.0, 1.0], [2.0, 3.0]]
    expected = [structure.log_partition(node, np.array(edge)) for node in stacked]
    np.testing.assert_array_equal(structure.log_partition(stacked, edge), expected)
    np.testing.assert_array_equal(structure.log_partition(stacked.tolist(), edge), expected)
    assert structure.log_partition(stacked[0].tolist(), edge) == expected[0]
    before = stacked.copy()
    structure.marginals(stacked, edge, start_scores=[1.0, 2.0])
    np.testing.assert_array_equal(stacked, before)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("size", [1.0, 3.0, 300.0, 1e6])
def test_the_best_path_is_sampled_as_often_as_it_is_probable(order: int, size: float) -> None:
    """Also where products of exponentials are too small, and where labels are impossible; Hoeffding's 4e-7."""
    random, chain = np.random.default_rng(3), Chain(4, order=order)
    node = size * random.normal(size=(6, 4))
    edge = size * random.normal(size=(4, 4) if order == 1 else (5, 5, 4))
    node[2, 1], edge[..., 0, 3] = -np.inf, -np.inf
    labels, best = chain.sample(node, edge, 2000, 0), chain.argmax(node, edge)
    probability = np.exp(chain.score(best, node, edge) - chain.log_partition(node, edge))
    assert (labels == best).all(axis=1).mean() == pytest.approx(probability, abs=0.062)
    assert np.all(labels[:, 2] != 1)


@pytest.mark.parametrize("order", [1, 2])
def test_sample_frequencies_pass_a_chi_square_test(order: int) -> None:
    generator, structure, n = np.random.default_rng(5), Chain(2, order=order), 20_000
    node, edge = generator.normal(size=(4, 2)), generator.normal(size=(2, 2) if order == 1 else (3, 3, 2))
    observed = np.bincount(structure.sample(node, edge, n, 0) @ [8, 4, 2, 1], minlength=16)
    expected = n * Brute(structure, 4).probabilities(node, edge)
    assert ((observed - expected) ** 2 / expected).sum() < 59.0  # 15 degrees of freedom: one in a million


def test_labels_that_underflow_before_their_row_is_divided() -> None:
    """A label of probability one has a node far below the best one; its row is then divided by a tiny total."""
    nodes = np.array([[151.2, -418.2], [-330.5, -1953.2], [1439.8, 915.3], [-260.3, 619.0], [225.0, -443.1]])
    edges = np.array([[673.2, 150.4], [264.5, 328.4]])
    ends = {"start_scores": np.array([-1383.5, -1203.9]), "end_scores": np.array([862.7, 577.9])}
    chain = Chain(2)
    reference = Brute(chain, 5)
    assert chain.log_partition(nodes, edges, **ends) == pytest.approx(
        reference.log_partition(nodes, edges, **ends), abs=1e-9
    )
    for ours, theirs in zip(
        chain.marginals(nodes, edges, **ends), reference.marginals(nodes, edges, **ends), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)


@pytest.mark.parametrize("scale", [100.0, 300.0, 1000.0, 3000.0])
def test_chains_of_scores_that_are_far_apart(scale: float) -> None:
    """Labels that weigh nothing up to a position may decide the sum later."""
    random = np.random.default_rng(0)
    cases = [(Chain(n_labels), 5, (5, n_labels), (n_labels, n_labels)) for n_labels in (2, 3)]
    cases.append((SemiMarkov(2, 3), 5, (5, 3, 2), (2, 2)))
    for structure, length, *shapes in cases:
        reference = Brute(structure, length)
        for _ in range(150):
            scores = [
                random.normal(scale=scale, size=shape) * random.integers(0, 2, shape) for shape in shapes
            ]
            expected = reference.log_partition(*scores)
            assert structure.log_partition(*scores) == pytest.approx(expected, abs=1e-9 * scale)
            ours, theirs = structure.marginals(*scores), reference.marginals(*scores)
            for a, b in zip(ours, theirs, strict=True):
                np.testing.assert_allclose(a, b, rtol=0, atol=1e-8)
