"""What every structure must do, checked against enumeration: inherit, and say how to draw an example."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from partwise.compiled.simd import LANES
from partwise.errors import InputError
from partwise.structures import Brute, Structure
from partwise.structures.contract import PartLists
from partwise.structures.packed import Packed

# An inherited test runs on several classes, which Hypothesis would otherwise complain about.
checks = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.differing_executors, HealthCheck.too_slow],
)


class Case(NamedTuple):
    """A structure and one example's scores for it."""

    structure: Structure
    length: int
    scores: tuple[np.ndarray, ...]
    named: dict[str, Any]

    @property
    def brute(self) -> Brute:
        return Brute(self.structure, self.length)

    def ask(self, method: str, **options: Any) -> Any:
        return getattr(self.structure, method)(*self.scores, **self.named, **options)

    def reference(self, method: str, **options: Any) -> Any:
        return getattr(self.brute, method)(*self.scores, **self.named, **options)

    @property
    def possible(self) -> bool:
        return self.reference("log_partition") > -np.inf

    @property
    def tolerance(self) -> float:
        """Probabilities are exponentials of sums of scores, whose rounding grows with their size."""
        arrays = [*self.scores, *self.named.values()]
        finite = [np.abs(a[np.isfinite(a)]).max(initial=0.0) for a in map(np.asarray, arrays)]
        return 1e-10 + 2e-15 * max(finite) * self.length

    @property
    def entropy_tolerance(self) -> float:
        return 20 * self.tolerance


@st.composite
def generators(draw: Any) -> np.random.Generator:
    return np.random.default_rng(draw(st.integers(0, 2**32 - 1)))


@st.composite
def score_makers(draw: Any) -> Any:
    """A function from shapes to scores: normal of some scale or small integers (ties), some of them −inf."""
    generator = draw(generators())
    scale = draw(st.sampled_from([0.0, 1.0, 30.0, 800.0, 1e6]))
    forbidden = draw(st.sampled_from([0.0, 0.0, 0.15, 0.5]))
    tied = draw(st.booleans())

    def make(*shape: int) -> np.ndarray:
        scores = generator.integers(-1, 2, shape) * 1.0 if tied else generator.normal(size=shape)
        return np.where(generator.random(shape) < forbidden, -np.inf, scale * scores)

    return make


def as_key(y: Any) -> tuple[int, ...]:
    return tuple(np.ravel(y).tolist())


def count_errors(y: Any, gold: Any) -> int:
    """Positions at which two labellings differ; a labelling may be a pair of arrays over positions."""
    return int((np.atleast_2d(y) != np.atleast_2d(gold)).any(axis=0).sum())


class StructureContract:
    """Subclasses define ``case(draw) -> Case``; labels of length T are arrays (T,), pairs of them, or a class."""

    def case(self, draw: Any) -> Case:
        raise NotImplementedError

    def possible_case(self, draw: Any) -> Case:
        """A case in which some labelling is possible."""
        return draw(st.composite(self.case)().filter(lambda case: case.possible))

    def some_labelling(self, structure: Structure, length: int, generator: np.random.Generator) -> Any:
        """A labelling that masks need not allow."""
        return generator.integers(0, structure.n_labels, length)

    def flat_labels(self, structure: Structure, y: Any) -> np.ndarray:
        """A labelling as solvers see it, one number a position."""
        return np.atleast_1d(y)

    def decode(self, structure: Structure, parts: np.ndarray, length: int) -> Any:
        """The labelling of these parts; some structures cannot tell the length from the parts."""
        return structure.decode(parts)

    def flat(self, draw: Any) -> tuple[Structure, int, np.ndarray, np.ndarray]:
        """A structure, a length, scores of all its parts with slack, and the score of every labelling."""
        case = self.case(draw)
        size = int(case.structure.n_parts(case.structure.shapes([case.length]))[0])
        scores = np.concatenate([draw(score_makers())(size), np.full(LANES, 1e9)])
        totals = [scores[case.structure.encode(y)].sum() for y in case.structure.labellings(case.length)]
        return case.structure, case.length, scores, np.array(totals)

    @checks
    @given(st.data())
    def test_log_partition(self, data: Any) -> None:
        case = self.case(data.draw)
        np.testing.assert_allclose(
            case.ask("log_partition"), case.reference("log_partition"), rtol=1e-10, atol=1e-10
        )

    @checks
    @given(st.data())
    def test_marginals_and_entropy(self, data: Any) -> None:
        case = self.possible_case(data.draw)
        ours, theirs = case.ask("marginals"), case.reference("marginals")
        pieces = zip(ours, theirs, strict=True) if isinstance(theirs, tuple) else [(ours, theirs)]
        for a, b in pieces:
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=0, atol=case.tolerance)
        np.testing.assert_allclose(
            case.ask("entropy"), case.reference("entropy"), rtol=0, atol=case.entropy_tolerance
        )

    @checks
    @given(st.data())
    def test_argmax_and_kbest(self, data: Any) -> None:
        case = self.possible_case(data.draw)
        k = data.draw(st.integers(1, 12))
        ours, theirs = case.ask("kbest", k=k), case.reference("kbest", k=k)
        np.testing.assert_allclose([s for _, s in ours], [s for _, s in theirs], rtol=1e-12, atol=1e-10)
        assert len({as_key(y) for y, _ in ours}) == len(ours)
        for y, score in ours:
            exact = case.structure.score(y, *case.scores, **case.named)
            np.testing.assert_allclose(score, exact, rtol=1e-12, atol=1e-10)
        assert all(a >= b for (_, a), (_, b) in pairwise(ours))
        longer = case.ask("kbest", k=k + 3)[: len(ours)]
        assert [as_key(y) for y, _ in longer] == [as_key(y) for y, _ in ours]
        best = case.structure.score(case.ask("argmax"), *case.scores, **case.named)
        np.testing.assert_allclose(best, theirs[0][1], rtol=1e-12, atol=1e-10)

    @checks
    @given(st.data())
    def test_samples_are_possible_and_repeatable(self, data: Any) -> None:
        case = self.possible_case(data.draw)
        samples = case.ask("sample", n_samples=5, random_state=3)
        assert len(samples) == 5
        for y in samples:
            assert case.structure.score(y, *case.scores, **case.named) > -np.inf
        np.testing.assert_array_equal(samples, case.ask("sample", n_samples=5, random_state=3))

    @checks
    @given(st.data())
    def test_loss_augmented_argmax(self, data: Any) -> None:
        case = self.possible_case(data.draw)
        gold = data.draw(st.sampled_from(case.brute.labellings))
        cost = data.draw(st.sampled_from([0.5, 1.0, 100.0]))

        def total(y: Any) -> float:
            return case.structure.score(y, *case.scores, **case.named) + cost * count_errors(y, gold)

        found = case.ask("loss_augmented_argmax", y=gold, cost=cost)
        best = max(total(y) for y in case.brute.labellings)
        np.testing.assert_allclose(total(found), best, rtol=1e-12, atol=1e-10)

    @checks
    @given(st.data())
    def test_log_count(self, data: Any) -> None:
        case = self.case(data.draw)
        np.testing.assert_allclose(
            case.structure.log_count(case.length), case.brute.log_count(), rtol=1e-12, atol=1e-12
        )
        many = case.structure.log_count(np.array([case.length, 1]))
        assert many[0] == case.structure.log_count(case.length)
        assert many[1] == case.structure.log_count(1)

    @checks
    @given(st.data())
    def test_nothing_possible(self, data: Any) -> None:
        case = self.case(data.draw)
        nothing = np.full_like(case.scores[0], -np.inf)
        scores = (nothing, *case.scores[1:])
        assert case.structure.log_partition(*scores) == -np.inf
        for method in ("marginals", "argmax", "kbest", "sample", "entropy"):
            with pytest.raises(InputError, match="every labelling"):
                getattr(case.structure, method)(*scores)

    @checks
    @given(st.data())
    def test_bad_numbers_are_refused(self, data: Any) -> None:
        case = self.case(data.draw)
        bad = case.scores[0].copy()
        bad.flat[0] = data.draw(st.sampled_from([np.nan, np.inf]))
        for method in ("log_partition", "marginals", "argmax", "kbest", "sample", "entropy"):
            with pytest.raises(InputError, match="NaN"):
                getattr(case.structure, method)(bad, *case.scores[1:])

    @checks
    @given(st.data())
    def test_encode_and_decode(self, data: Any) -> None:
        structure, length, _, _ = self.flat(data.draw)
        for y in list(structure.labellings(length))[:20]:
            parts = structure.encode(y)
            assert as_key(self.decode(structure, parts, length)) == as_key(y)
            shapes, distinct = structure.shapes([length]), np.unique(parts)
            assert ((distinct >= 0) & (distinct < structure.n_parts(shapes)[0])).all()
            assert len(parts) <= structure.most_parts(shapes)[0]
            tied = parts >= structure.n_parts(shapes)[0] - structure.n_tied
            assert tied.sum() <= structure.most_tied(shapes)[0]
            decoded = structure.decode_all(PartLists(np.array([0, len(distinct)]), distinct), shapes)
            np.testing.assert_array_equal(decoded, self.flat_labels(structure, y))

    @checks
    @given(st.data())
    def test_encode_all_is_encode_of_each(self, data: Any) -> None:
        structure, length, _, _ = self.flat(data.draw)
        lengths = data.draw(st.lists(st.integers(1, length), min_size=1, max_size=5))
        generator = data.draw(generators())
        choices = [list(structure.labellings(n)) for n in lengths]
        assume(all(choices))
        sequences = [allowed[generator.integers(len(allowed))] for allowed in choices]
        flat = np.concatenate([self.flat_labels(structure, y) for y in sequences])
        gold_ptr, parts, amount = structure.encode_all(flat, structure.shapes(lengths))
        assert amount.size == 0
        assert gold_ptr.dtype == parts.dtype == np.int64
        for i, y in enumerate(sequences):
            np.testing.assert_array_equal(parts[gold_ptr[i] : gold_ptr[i + 1]], structure.encode(y))

    @checks
    @given(st.data())
    def test_oracles_on_flat_parts(self, data: Any) -> None:
        """The solver's side on two copies of an example, against all labellings' sums over parts."""
        structure, length, scores, totals = self.flat(data.draw)
        size = len(scores) - LANES
        shapes, part_ptr = structure.shapes([length, length]), np.array([0, size, 2 * size])
        twice = np.concatenate([scores[:size], scores])
        packed = Packed(structure, structure.specification(), shapes, part_ptr, twice, False)
        top = totals.max(initial=-np.inf)
        values, counts = packed.answers("best")
        np.testing.assert_allclose(values, top, rtol=1e-12, atol=1e-10)
        if top > -np.inf:
            best = twice[:size][counts[:size] > 0] @ counts[:size][counts[:size] > 0]
            np.testing.assert_allclose(best, top, rtol=1e-12, atol=1e-10)
        values, counts = packed.answers("sums")
        again, _ = packed.answers("sums", 0)
        expected = np.zeros(size)
        log_total = -np.inf
        if top > -np.inf:
            log_total = top + np.log(np.exp(totals - top).sum())
            for y, total in zip(structure.labellings(length), totals, strict=True):
                np.add.at(expected, structure.encode(y), np.exp(total - log_total))
        np.testing.assert_allclose(values, log_total, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(again, log_total, rtol=1e-10, atol=1e-10)
        largest = np.abs(scores[:size][np.isfinite(scores[:size])]).max(initial=0.0)
        atol = 1e-10 + 4e-15 * largest * length  # exponentials of sums: rounding grows with the scores
        np.testing.assert_allclose(counts, np.tile(expected, 2), rtol=0, atol=atol)

    @checks
    @given(st.data())
    def test_counts_are_the_gradient(self, data: Any) -> None:
        structure, length, scores, _ = self.flat(data.draw)
        assume(structure.log_count(length) > -np.inf)
        scores[:] = data.draw(generators()).normal(size=len(scores))
        size, step = len(scores) - LANES, 1e-5
        shapes, part_ptr = structure.shapes([length]), np.array([0, size])
        packed = Packed(structure, structure.specification(), shapes, part_ptr, scores, False)
        _, counts = packed.answers("sums")
        for part in data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=6)):
            sides = []
            for sign in (1, -1):
                moved = scores.copy()
                moved[part] += sign * step
                sides.append(packed._replace(scores=moved).answers("sums", 0)[0][0])
            np.testing.assert_allclose(counts[part], (sides[0] - sides[1]) / (2 * step), atol=1e-8)

    @settings(checks, max_examples=3)
    @given(st.data())
    def test_sample_frequencies(self, data: Any) -> None:
        """Hoeffding: each labelling's frequency is within ε of its probability, at risk 2·exp(−2nε²) each."""
        case = self.possible_case(data.draw)
        assume(case.tolerance <= 1e-9)
        n = 4000
        frequencies: dict[tuple[int, ...], float] = {}
        for y in case.ask("sample", n_samples=n, random_state=0):
            frequencies[as_key(y)] = frequencies.get(as_key(y), 0.0) + 1 / n
        probabilities = case.reference("probabilities")
        bound = np.sqrt(np.log(2 * len(probabilities) / 1e-6) / (2 * n))
        for y, p in zip(case.brute.labellings, probabilities, strict=True):
            assert abs(frequencies.get(as_key(y), 0.0) - p) < bound
