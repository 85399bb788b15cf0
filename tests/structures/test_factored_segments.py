"""Segments whose scores have factors, against the table of all segments, which enumeration has checked."""

import numpy as np
import pytest

from partwise import InputError
from partwise.structures import SemiMarkov
from partwise.structures.brute import Brute
from partwise.structures.segments.factored import FactoredSemiMarkov


def _problem(trial):
    """Both structures and their scores: masks, lengths of each label, excluded positions, extreme scores in turn."""
    rng = np.random.default_rng(trial)
    n, L, D = int(rng.integers(1, 14)), int(rng.integers(1, 5)), int(rng.integers(1, 8))
    size = [1.0, 20.0, 300.0, 1e4][trial % 4]
    factors = {
        "position_scores": size * rng.normal(size=(n, L)),
        "duration_scores": size * rng.normal(size=(D, L)),
        "transition_scores": size * rng.normal(size=(L, L)),
    }
    if trial % 2:
        factors["begin_scores"] = size * rng.normal(size=(n, L))
    if trial % 5 == 0:
        factors["position_scores"][rng.random((n, L)) < 0.15] = -np.inf
    if trial % 7 == 0:
        factors["duration_scores"][rng.random((D, L)) < 0.2] = -np.inf
    lengths = np.full(L, D)
    lengths[1:] = rng.integers(1, D + 1, size=L - 1) if trial % 6 == 1 else D
    masks = {}
    if trial % 3 == 0:
        allowed = (rng.random((L, L)) < 0.7) | (rng.permutation(L) == np.arange(L)[:, None])
        masks = {"allowed": allowed, "allowed_start": np.arange(L) != 1, "allowed_end": np.arange(L) != 2}
    segment = np.full((n, D, L), -np.inf)
    begin = factors.get("begin_scores", np.zeros((n, L)))
    for s in range(n):
        for k in range(min(D, n - s)):
            own = factors["position_scores"][s : s + k + 1].sum(0)
            segment[s, k] = own + factors["duration_scores"][k] + begin[s]
    return SemiMarkov(L, lengths, **masks), factors, segment


def _from_table(table, n, D):
    """What the marginals of all segments mean for positions, beginnings and lengths."""
    position = np.zeros((n, table.shape[2]))
    for s in range(n):
        for k in range(min(D, n - s)):
            position[s : s + k + 1] += table[s, k]
    return position, table.sum(1), table.sum(0)


@pytest.mark.parametrize("trial", range(60))
def test_every_answer_is_that_of_the_table(trial):
    structure, factors, segment = _problem(trial)
    transition = factors["transition_scores"]
    total = structure.log_partition(segment, transition)
    assert structure.log_partition(**factors) == pytest.approx(total, rel=1e-11)
    if total == -np.inf:
        with pytest.raises(InputError, match="every labelling scores −inf"):
            structure.marginals(**factors)
        return
    scale = max(1.0, np.abs(segment[segment > -np.inf]).max())
    table, found = structure.marginals(segment, transition), structure.marginals(**factors)
    wanted = (*_from_table(table.segment, *segment.shape[:2]), table.transition)
    for own, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(own, other, atol=1e-13 * scale + 1e-11)
    best = structure.argmax(**factors)
    top = structure.score(structure.argmax(segment, transition), segment, transition)
    assert structure.score(best, segment, transition) == pytest.approx(top, rel=1e-11)
    assert structure.score(best, **factors) == pytest.approx(top, rel=1e-11)
    k_best = structure.kbest(k=5, **factors)
    values = [value for _, value in structure.kbest(segment, transition, k=5)]
    np.testing.assert_allclose([value for _, value in k_best], values, rtol=1e-10)
    assert len({each.tobytes() for each, _ in k_best}) == len(k_best)
    entropy = structure.entropy(segment, transition)
    assert structure.entropy(**factors) == pytest.approx(
        entropy, abs=1e-15 * (scale * len(segment)) ** 2 + 1e-9
    )
    truth = structure.sample(segment, transition, random_state=0)[0]
    costly = structure.loss_augmented_argmax(**factors, y=truth, cost=2.0)
    other = structure.loss_augmented_argmax(segment, transition, y=truth, cost=2.0)
    cost = [
        2.0 * (structure.encode(truth).size and _n_wrong(truth, each, len(segment)))
        for each in (costly, other)
    ]
    values = [structure.score(each, **factors) + own for each, own in zip((costly, other), cost, strict=True)]
    assert values[0] == pytest.approx(values[1], rel=1e-11)


def _n_wrong(one, other, n):
    tags = np.full((2, n), -1)
    for row, segments in zip(tags, (one, other), strict=True):
        for first, last, label in segments:
            row[first : last + 1] = 2 * label + 1
            row[first] -= 1
    return int((tags[0] != tags[1]).sum())


def test_enumeration():
    rng = np.random.default_rng(0)
    structure = FactoredSemiMarkov(2, [3, 2], allowed=[[1, 1], [1, 0]])
    scores = (
        rng.normal(size=(6, 2)),
        rng.normal(size=(3, 2)),
        rng.normal(size=(2, 2)),
        rng.normal(size=(6, 2)),
    )
    brute = Brute(structure, 6)
    assert structure.log_partition(*scores) == pytest.approx(brute.log_partition(*scores))
    for own, other in zip(structure.marginals(*scores), brute.marginals(*scores), strict=True):
        np.testing.assert_allclose(own, other, atol=1e-12)


def test_samples_are_as_frequent_as_they_are_likely():
    rng = np.random.default_rng(1)
    scores = rng.normal(size=(6, 2)), rng.normal(size=(3, 2)), rng.normal(size=(2, 2))
    structure = FactoredSemiMarkov(2, 3)
    drawn = structure.sample(*scores, n_samples=4000, random_state=0)
    lengths = np.mean([structure.indicators(y).duration for y in drawn], axis=0)
    np.testing.assert_allclose(lengths, structure.marginals(*scores).duration, atol=0.05)


@pytest.mark.parametrize("drift", [-6.0, 6.0])
def test_scores_that_drift_by_thousands_of_nats_within_a_segment(drift):
    """Products in one scale would underflow; the window moves, and sums stay exact."""
    rng = np.random.default_rng(2)
    n, D, L = 1200, 400, 3
    position = rng.normal(size=(n, L)) + drift * (np.arange(n)[:, None] // 300 % L == np.arange(L))
    duration = rng.normal(size=(D, L)) - 1e3 * (np.arange(D)[:, None] < 100) * (np.arange(L) == 1)
    transition = rng.normal(size=(L, L))
    structure = SemiMarkov(L, D)
    sums = np.vstack([np.zeros(L), position.cumsum(0)])
    segment = np.full((n, D, L), -np.inf)
    for k in range(D):
        segment[: n - k, k] = sums[k + 1 :] - sums[: n - k] + duration[k]
    factors = {
        "position_scores": position, "duration_scores": duration, "transition_scores": transition
    }  # fmt: skip
    assert structure.log_partition(**factors) == pytest.approx(structure.log_partition(segment, transition))
    table, found = structure.marginals(segment, transition), structure.marginals(**factors)
    np.testing.assert_allclose(found.begin, table.segment.sum(1), atol=1e-9)
    np.testing.assert_allclose(found.duration, table.segment.sum(0), atol=1e-8)
    np.testing.assert_allclose(found.transition, table.transition, atol=1e-8)
    again = structure.marginals(**factors)
    assert all(np.array_equal(one, other) for one, other in zip(found, again, strict=True))


def test_many_sequences_and_wrong_arguments():
    rng = np.random.default_rng(3)
    structure = SemiMarkov(2, 3)
    table = {"duration_scores": rng.normal(size=(3, 2)), "transition_scores": rng.normal(size=(2, 2))}
    sequences = [rng.normal(size=(n, 2)) for n in (4, 1, 7)]
    totals = structure.log_partition(position_scores=sequences, **table)
    alone = [structure.log_partition(position_scores=each, **table) for each in sequences]
    np.testing.assert_array_equal(totals, alone)
    for wrong, match in (
        ({"position_scores": sequences[0]}, "duration_scores must be given"),
        ({"position_scores": sequences[0], **table, "end_scores": 0}, "no end_scores"),
        ({"position_scores": np.zeros((4, 3)), **table}, "expected"),
        ({"position_scores": np.full((4, 2), np.nan), **table}, "NaN"),
        ({"position_scores": sequences, "begin_scores": sequences[:2], **table}, "begin_scores has 2"),
        ({"position_scores": np.zeros((0, 2)), **table}, "no positions"),
        ({}, "segment_scores must be given"),
    ):
        with pytest.raises(InputError, match=match):
            structure.log_partition(**wrong)
    with pytest.raises(InputError, match="one kind of scores"):
        structure.argmax(np.zeros((4, 3, 2)), position_scores=sequences[0], **table)
