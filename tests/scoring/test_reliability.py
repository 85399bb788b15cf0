"""Reliability of probabilities: bins against counting by hand, calibrated and uncalibrated draws, bad input."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from partwise.errors import InputError
from partwise.scoring.reliability import reliability


def by_hand(p, truth, n_bins):
    """Expected and largest calibration error, a bin at a time."""
    expected, largest, edges = 0.0, 0.0, np.linspace(0, 1, n_bins + 1)
    for k, (low, high) in enumerate(pairwise(edges)):
        own = [(a, b) for a, b in zip(p, truth, strict=True) if low < a <= high or k == a == 0]
        if own:
            gap = abs(np.mean([b for _, b in own]) - np.mean([a for a, _ in own]))
            expected += gap * len(own) / len(p)
            largest = max(largest, gap)
    return expected, largest


@pytest.mark.parametrize("n_bins", [1, 4, 16])
def test_errors_are_those_counted_by_hand(n_bins):
    random = np.random.default_rng(n_bins)
    p = np.concatenate([random.random(300), [0.0, 1.0, 0.25, 0.5, 0.5]])
    truth = random.random(len(p)) < p**2
    found = reliability(p, truth, n_bins)
    expected, largest = by_hand(p.tolist(), truth.tolist(), n_bins)
    assert found.expected_error == pytest.approx(expected)
    assert found.largest_error == pytest.approx(largest)
    assert found.n_parts == len(p) and found.brier == pytest.approx(np.mean((p - truth) ** 2))
    assert (np.diff(found.lower) > 0).all() and (found.lower < found.upper).all()


def test_calibrated_probabilities_have_a_small_error():
    random = np.random.default_rng(0)
    p = random.random(200_000)
    truth = random.random(len(p)) < p
    for equal in ("width", "count"):
        assert reliability(p, truth, equal=equal).expected_error < 0.005
        assert reliability(p, ~truth, equal=equal).expected_error > 0.3


def test_bins_of_equal_count_do_not_tear_equal_probabilities():
    p = np.repeat([0.0, 0.1, 0.9, 1.0], [50, 1, 1, 50])
    found = reliability(p, p > 0.5, 5, equal="count")
    assert found.n_parts == len(p)
    for low, high, mean in zip(found.lower, found.upper, found.probability, strict=True):
        assert low <= mean <= high
    as_dict = found.as_dict()
    assert sum(each["count"] for each in as_dict["bins"]) == len(p)


def test_nothing_and_rounding():
    assert reliability([], []).expected_error == 0.0 and reliability([], []).as_dict()["bins"] == []
    assert reliability([1 + 1e-9, -1e-9], [1, 0]).expected_error == pytest.approx(0.0, abs=1e-8)


@pytest.mark.parametrize(
    ("p", "truth", "options"),
    [
        ([0.5], [1, 0], {}),
        ([1.5], [1], {}),
        ([np.nan], [1], {}),
        ([0.5], [2], {}),
        ([0.5], ["yes"], {}),
        ([0.5], [1], {"n_bins": 0}),
        ([0.5], [1], {"n_bins": True}),
        ([0.5], [1], {"equal": "area"}),
    ],
)
def test_bad_input_is_one_line(p, truth, options):
    with pytest.raises(InputError):
        reliability(p, truth, **options)
