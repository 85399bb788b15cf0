"""Semi-Markov chains: their contract, chains as the case of length one, hard cases, and solvers on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contract_solvers import check_optimum, problem_of
from contract_structures import Case, StructureContract, checks, score_makers
from hypothesis import given
from hypothesis import strategies as st
from problems import small

from partwise.errors import InputError
from partwise.solvers import SOLVERS, solve
from partwise.structures import Brute, Chain, SemiMarkov, Structure
from partwise.structures.segments.tags import tags_of_segments


class TestSemiMarkov(StructureContract):
    def structure(self, draw: Any) -> SemiMarkov:
        n_labels, longest = draw(st.integers(1, 3)), draw(st.integers(1, 4))
        lengths: Any = longest
        if draw(st.booleans()):
            lengths = draw(st.lists(st.integers(1, longest), min_size=n_labels, max_size=n_labels))
        masks = {}
        if draw(st.booleans()):
            random = np.random.default_rng(draw(st.integers(0, 99)))
            masks = {
                "allowed": random.random((n_labels, n_labels)) < 0.8,
                "allowed_start": random.random(n_labels) < 0.9,
                "allowed_end": random.random(n_labels) < 0.9,
            }
        return SemiMarkov(n_labels, lengths, tokens=draw(st.booleans()), **masks)

    def case(self, draw: Any) -> Case:
        structure, n, make = self.structure(draw), draw(st.integers(1, 4)), draw(score_makers())
        n_labels = structure.n_labels
        scores = make(n, structure.max_length, n_labels), make(n_labels, n_labels)
        return Case(structure, n, scores, {})

    def flat_labels(self, structure: Structure, y: Any) -> np.ndarray:
        return tags_of_segments(y, structure.n_labels)

    def decode(self, structure: Structure, parts: np.ndarray, length: int) -> Any:
        return structure.decode(parts, length)

    @checks
    @given(st.data())
    def test_samples_are_possible_and_repeatable(self, data: Any) -> None:
        case = self.possible_case(data.draw)
        samples = case.ask("sample", n_samples=5, random_state=3)
        assert len(samples) == 5
        for y, again in zip(samples, case.ask("sample", n_samples=5, random_state=3), strict=True):
            assert case.structure.score(y, *case.scores) > -np.inf
            np.testing.assert_array_equal(y, again)

    @checks
    @given(st.data())
    def test_loss_augmented_argmax(self, data: Any) -> None:
        case = self.possible_case(data.draw)
        gold = data.draw(st.sampled_from(case.brute.labellings))
        cost = data.draw(st.sampled_from([0.5, 1.0, 100.0]))
        truth = self.flat_labels(case.structure, gold)

        def total(y: Any) -> float:
            wrong = self.flat_labels(case.structure, y) != truth
            return case.structure.score(y, *case.scores) + cost * wrong.sum()

        found = case.ask("loss_augmented_argmax", y=gold, cost=cost)
        best = max(total(y) for y in case.brute.labellings)
        np.testing.assert_allclose(total(found), best, rtol=1e-12, atol=1e-10)

    @checks
    @given(st.data())
    def test_batch_equals_one_by_one(self, data: Any) -> None:
        structure, make = self.structure(data.draw), data.draw(score_makers())
        lengths, n_labels = data.draw(st.lists(st.integers(1, 5), max_size=4)), structure.n_labels
        scores = [make(n, structure.max_length, n_labels) for n in lengths]
        shared, each = make(n_labels, n_labels), [make(n_labels, n_labels) for _ in lengths]
        for transitions in (shared, each):
            values = structure.log_partition(scores, transitions)
            assert len(values) == len(lengths)
            own = each if transitions is each else [shared] * len(lengths)
            alone = [structure.log_partition(a, b) for a, b in zip(scores, own, strict=True)]
            np.testing.assert_array_equal(values, alone)
            if (values > -np.inf).all():
                for method in ("argmax", "marginals", "kbest", "entropy"):
                    ours = getattr(structure, method)(scores, transitions)
                    for result, a, b in zip(ours, scores, own, strict=True):
                        _assert_same(result, getattr(structure, method)(a, b))


def _assert_same(one: Any, other: Any) -> None:
    if isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            _assert_same(a, b)
    else:
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("masked", [False, True])
def test_segments_of_length_one_are_a_chain(masked: bool) -> None:
    random = np.random.default_rng(0)
    masks: dict[str, Any] = {}
    if masked:
        masks = {"allowed": random.random((4, 4)) < 0.7, "allowed_start": np.arange(4) != 2}
    chain, segments = Chain(4, **masks), SemiMarkov(4, 1, **masks)
    for n in (1, 2, 30):
        nodes, edges = 3.0 * random.normal(size=(n, 4)), random.normal(size=(4, 4))
        ours, theirs = segments.marginals(nodes[:, None], edges), chain.expected_counts(nodes, edges)
        np.testing.assert_allclose(ours.segment[:, 0], theirs.node, atol=1e-13)
        np.testing.assert_allclose(ours.transition, theirs.edge, atol=1e-12)
        np.testing.assert_allclose(
            segments.log_partition(nodes[:, None], edges), chain.log_partition(nodes, edges), rtol=1e-13
        )
        np.testing.assert_array_equal(
            segments.argmax(nodes[:, None], edges)[:, 2], chain.argmax(nodes, edges)
        )
        assert segments.entropy(nodes[:, None], edges) == pytest.approx(
            chain.entropy(nodes, edges), rel=1e-12
        )
        assert segments.log_count(n) == pytest.approx(chain.log_count(n), rel=1e-12)


def test_long_sentences() -> None:
    """Counts of 400 positions cover each once, and are the gradient of a log-partition of thousands."""
    random = np.random.default_rng(1)
    structure = SemiMarkov(5, 6)
    scores, transitions = 20.0 * random.normal(size=(400, 6, 5)), random.normal(size=(5, 5))
    found = structure.marginals(scores, transitions)
    covered = sum(np.roll(found.segment[:, k], t, axis=0).sum(axis=1) for k in range(6) for t in range(k + 1))
    np.testing.assert_allclose(covered, 1.0, atol=1e-10)  # every position lies in one segment
    assert found.transition.sum() == pytest.approx(found.segment.sum() - 1.0, rel=1e-12)
    direction = random.normal(size=scores.shape)
    ends = [structure.log_partition(scores + step * direction, transitions) for step in (-1e-5, 1e-5)]
    assert (ends[1] - ends[0]) / 2e-5 == pytest.approx((found.segment * direction).sum(), rel=1e-6)


def test_a_path_that_looked_hopeless_still_decides() -> None:
    """The best beginning leads nowhere: what is left scores a thousand less, far below what doubles can hold."""
    scores = np.full((4, 2, 2), -np.inf)
    scores[:, 0, 0], scores[0, 1, 1], scores[2, 1, 1] = 0.0, -1000.0, 3.0
    transitions = np.full((2, 2), -np.inf)
    transitions[0, 0] = transitions[1, 1] = 0.0
    scores[3, 0, 0] = -2000.0
    structure = SemiMarkov(2, 2)
    assert structure.log_partition(scores, transitions) == pytest.approx(-997.0, abs=1e-9)
    found = structure.marginals(scores, transitions)
    assert found.segment[0, 1, 1] == pytest.approx(1.0) and found.transition[1, 1] == pytest.approx(1.0)


def test_entropies_of_huge_scores() -> None:
    """Scores of a million leave their last digits in all sums; an entropy shows whether counts add up all the same."""
    structure = SemiMarkov(2, 3)
    for seed in range(30):
        random = np.random.default_rng(seed)
        scores = tuple(1e6 * random.integers(-1, 2, shape) for shape in ((4, 3, 2), (2, 2)))
        assert structure.entropy(*scores) == pytest.approx(Brute(structure, 4).entropy(*scores), abs=1e-7)


def test_refusals() -> None:
    structure, square = SemiMarkov(2, (1, 3)), np.zeros((2, 2))
    for scores, transitions, message in (
        (np.zeros((4, 2, 2)), square, r"segment_scores has shape \(4, 2, 2\), expected \(length, 3, 2\)"),
        (np.zeros((0, 3, 2)), square, "no positions"),
        ([np.zeros((2, 3, 2)), np.zeros((2, 3, 1))], square, r"segment_scores\[1\]"),
        (np.zeros((4, 3, 2)), np.zeros(2), "transition_scores"),
        ([np.zeros((4, 3, 2))] * 2, [square], "neither"),
    ):
        with pytest.raises(InputError, match=message):
            structure.argmax(scores, transitions)
    for wrong, message in (
        ([(0, 1, 0)], r"example 0, position 0: label 0 is too long"),
        ([(0, 0, 0), (2, 2, 0)], r"y\[1\] is \(2, 2, 0\)"),
        ([(0, 0, 2)], "labels run from 0 to 1"),
        ([], "list of segments"),
    ):
        with pytest.raises(InputError, match=message):
            structure.encode(wrong)
    with pytest.raises(InputError, match=r"example 1, position 0: label 1 continues no segment"):
        structure.encode_all([0, 3], structure.shapes([1, 1]))
    with pytest.raises(InputError, match="max_length has 3 entries"):
        SemiMarkov(2, (1, 2, 3))
    with pytest.raises(InputError, match="length must be given"):
        structure.decode([0])
    with pytest.raises(InputError, match="covers 1 positions"):
        structure.loss_augmented_argmax(np.zeros((2, 3, 2)), square, y=[(0, 0, 1)])


# -- solvers ------------------------------------------------------------------------------------------

# Relative distance of the primal and of the dual to the optimum; all other solvers and losses: test_support.py.
REACHED = {
    ("eg-gap", "log"): (1e-6, 1e-6),
    ("eg-gap", "hinge"): (1e-5, 1e-6),
    ("sdca", "between"): (1e-6, 1e-6),
    ("eg-primal", "between"): (1e-6, 1e-6),
    ("lbfgs", "softmax_margin"): (1e-6, 1e-6),
    ("bcfw", "hinge"): (1e-6, 1e-6),
    ("bmrm", "log"): (1e-6, 1e-6),
}


@pytest.mark.parametrize(("name", "loss"), REACHED)
def test_reaches_the_optimum(name: str, loss: str) -> None:
    data = problem_of("segments", loss)
    assert len(set(np.diff(data.problem.gold.ptr) / data.lengths)) > 1  # different numbers of parts
    check_optimum("segments", name, loss, REACHED[name, loss], 1500)


@pytest.mark.parametrize("name", ["chain-cd", "smo", "smo-eg"])
def test_solvers_for_chains_refuse_in_one_line(name: str) -> None:
    with pytest.raises(InputError, match="this structure has other parts: use an 'eg' solver or 'bcfw'"):
        solve(problem_of("segments", "hinge").problem, SOLVERS[name])


@pytest.mark.parametrize("tokens", [False, True])
def test_feature_spread_bounds_every_difference(tokens: bool) -> None:
    data = small("segments", "log", structure=SemiMarkov(2, 3, tokens=tokens))
    for features, bound in zip(data.written_out.features, data.problem.squared_radii(), strict=True):
        differences = features[:, None] - features[None, :]
        assert ((differences**2).sum(axis=2) <= bound * (1 + 1e-12)).all()
