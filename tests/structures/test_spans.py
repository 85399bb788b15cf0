"""Probabilities of spans against enumeration of all labellings: every scheme, order, mask, and extreme scores."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from partwise.core.arrays import offsets
from partwise.metrics import chunks
from partwise.structures import Chain
from partwise.structures.chain.span_labels import labels_with_spans
from partwise.structures.chain.spans import chain_spans
from partwise.structures.span_table import SpanTable
from partwise.tasks.sequences.entities import Entities

SCHEMES = {
    "IOB2": ["O", "B-X", "I-X", "B-Y", "I-Y"],
    "IOB1": ["I-X", "O", "B-X", "I-Y"],
    "IOBES": ["O", "B-X", "I-X", "E-X", "S-X", "S-Y"],
    "BILOU": ["B-X", "I-X", "L-X", "U-X", "O"],
    "bare": ["B", "I", "O"],
    "plain": ["X", "O", "Y"],
}
SCALES = {"mild": 1.0, "sharp": 30.0, "extreme": 3000.0}


def entities_of(labels: list[str], scheme: str) -> set[tuple[int, int, str]]:
    """The entities of a labelling, by another way than the one under test."""
    if scheme != "plain":
        return {(first, end - 1, kind) for kind, first, end in chunks(labels)}
    found, padded = set(), [*labels, "O"]
    for first in range(len(labels)):
        if padded[first] != "O" and (first == 0 or padded[first - 1] != padded[first]):
            last = first
            while padded[last + 1] == padded[first]:
                last += 1
            found.add((first, last, labels[first]))
    return found


def enumerated(chain: Chain, scores: list[Any], names: list[str], scheme: str) -> dict[Any, float]:
    """Probability of every entity of one sequence, from all labellings."""
    length = len(scores[0])
    every = [y for y in product(range(len(names)), repeat=length) if chain.is_allowed(list(y))]
    values = np.array([chain.score(y, *scores) for y in every])
    p = np.exp(values - values.max())
    found: dict[Any, float] = {}
    for y, own in zip(every, p / p.sum(), strict=True):
        for entity in entities_of([names[code] for code in y], scheme):
            found[entity] = found.get(entity, 0.0) + own
    return found


def random_chain(
    scheme: str, order: int, tied: bool, scale: float, seed: int, length: int
) -> tuple[Any, ...]:
    random, names = np.random.default_rng(seed), SCHEMES[scheme]
    n = len(names)
    masks = {}
    if seed % 2:
        masks = {"allowed": random.random((n, n)) < 0.8, "allowed_end": random.random(n) < 0.9}
        masks["allowed"][:, 0] = masks["allowed_end"][0] = True
    nodes = scale * random.normal(size=(length, n))
    shape: tuple[int, ...] = (n, n) if tied else (length - 1, n, n)
    edges = scale * random.normal(size=shape if order == 1 else (n + 1,) * order + (n,))
    return Chain(n, tied=tied, order=order, **masks), (nodes, edges), names


def table(found: SpanTable, types: list[str]) -> dict[Any, float]:
    rows = zip(found.first.tolist(), found.last.tolist(), found.kind.tolist(), strict=True)
    return {(a, b, types[k]): p for (a, b, k), p in zip(rows, found.probability.tolist(), strict=True)}


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(("order", "tied"), [(1, True), (1, False), (2, True), (3, True)])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_spans_agree_with_enumeration(scheme: str, order: int, tied: bool, scale: str) -> None:
    for seed in range(4):
        length = 1 + (seed + order) % 4 + (len(SCHEMES[scheme]) < 6)
        chain, scores, names = random_chain(scheme, order, tied, SCALES[scale], seed, length)
        expected, entities = enumerated(chain, list(scores), names, scheme), Entities(names)
        packed = chain._pack(chain._read(*scores, None, None))
        posterior, _ = chain_spans(packed, entities.rules, np.array([length]))
        found = table(posterior.candidates(1e-9), entities.types)
        assert all(found.get(span, 0.0) == pytest.approx(p, abs=1e-8) for span, p in expected.items())
        assert set(found) <= set(expected)
        counts = posterior.expected()[0].tolist()
        for name, count in zip(entities.types, counts, strict=True):
            own = sum(p for (_, _, kind), p in expected.items() if kind == name)
            assert count == pytest.approx(own, abs=1e-8)
        every = [(a, b, k) for a in range(length) for b in range(a, length) for k in range(len(counts))]
        first, last, kind = np.array(every).T
        asked = SpanTable(np.zeros_like(first), first, last, kind, np.zeros(len(first)))
        for (a, b, k), p in zip(every, posterior.probability(asked).tolist(), strict=True):
            assert p == pytest.approx(expected.get((a, b, entities.types[k]), 0.0), abs=1e-8)


def test_many_sequences_are_as_each_alone() -> None:
    chain, (_, edges), names = random_chain("IOBES", 1, True, 1.0, 0, 3)
    random, rules = np.random.default_rng(5), Entities(names).rules
    lengths = np.array([0, 3, 1, 0, 6, 2, 0])
    nodes = [random.normal(size=(n, len(names))) for n in lengths if n]
    together, _ = chain_spans(chain._pack(chain._read(nodes, edges, None, None)), rules, lengths)
    all_found, expected = together.candidates(0.05), together.expected()
    assert expected[0].tolist() == [0.0] * rules.n_kinds
    for i, own in zip(np.flatnonzero(lengths), nodes, strict=True):
        alone, _ = chain_spans(chain._pack(chain._read(own, edges, None, None)), rules, lengths[i : i + 1])
        found = alone.candidates(0.05)
        here = all_found.take(all_found.example == i)
        for a, b in zip(found[1:], here[1:], strict=True):
            assert a.tolist() == pytest.approx(b.tolist())
        assert expected[i] == pytest.approx(alone.expected()[0])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_spans_of_labellings(scheme: str) -> None:
    random, names = np.random.default_rng(1), SCHEMES[scheme]
    entities, lengths = Entities(names), random.integers(0, 7, 60)
    labels = [[names[k] for k in random.integers(len(names), size=n)] for n in lengths]
    found = entities.spans(labels, lengths)
    for i, own in enumerate(labels):
        here = table(found.take(found.example == i), entities.types)
        assert set(here) == entities_of(own, scheme)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_best_labelling_with_given_spans(scheme: str, order: int) -> None:
    for seed in range(6):
        chain, (nodes, edges), names = random_chain(scheme, order, True, 1.0, 2 * seed, 4)
        entities, n, random = Entities(names), len(names), np.random.default_rng(seed)
        wanted = entities_of([names[k] for k in random.integers(n, size=4)], scheme)
        values = {
            y: chain.score(y, nodes, edges)
            for y in product(range(n), repeat=4)
            if entities_of([names[k] for k in y], scheme) == wanted
        }
        spans = np.array([(a, b, entities.types.index(k)) for a, b, k in wanted], np.int64).reshape(-1, 3)
        full = np.zeros((4, (n + 1) ** order, n))
        full[:] = np.pad(edges, ((0, 1), (0, 0))) if order == 1 else edges.reshape(-1, n)
        found = labels_with_spans(entities.rules, nodes, full, spans, order)
        assert found is not None and tuple(found.tolist()) == max(values, key=lambda y: values[y])
    impossible = np.array([(0, 1, 0), (2, 3, 0)]) if scheme == "plain" else np.zeros((0, 3), np.int64)
    blocked = np.where([name == "O" for name in names], -np.inf, nodes) if scheme != "plain" else nodes
    assert labels_with_spans(entities.rules, blocked, full, impossible, order) is None


def test_offsets_of_a_table() -> None:
    spans = SpanTable.of(*np.array([[1, 0, 1], [3, 0, 0], [4, 0, 1], [0, 1, 0]]), np.ones(3))
    assert spans.by_example(3).tolist() == offsets([1, 2, 0]).tolist()
    assert spans.first.tolist() == [0, 0, 3] and spans.kind.tolist() == [1, 0, 0]
