"""The demo: its data, and the whole of it."""

from __future__ import annotations

import json
from datetime import date

import numpy as np
import pytest

from partwise.cli import main
from partwise.data.digit_dates import PLACES, digit_dates, digit_of
from partwise.errors import InputError


def test_dates_are_dates_and_repeatable():
    train, test = digit_dates(30, 20, random_state=3)
    again, _ = digit_dates(30, 20, random_state=3)
    assert len(train) == 30 and len(test) == 20
    assert np.array_equal(train.images, again.images) and np.array_equal(train.digits, again.digits)
    for row in train.digits.tolist():
        text = "".join(map(str, row))
        assert date(1950, 1, 1) <= date(int(text[4:]), int(text[2:4]), int(text[:2])) <= date(2049, 12, 31)
    assert train.images.shape == (30, 8, 8, 8) and train.images.min() >= 0 and train.images.max() <= 1
    assert [each.shape for each in train.inputs()] == [(8, 65)] * 30
    assert [digit_of(label) for label in train.labels()[0]] == train.digits[0].tolist()
    assert train.labels()[0][2].startswith(PLACES[2])
    with pytest.raises(InputError, match="at least 1"):
        digit_dates(0)


def test_train_and_test_share_no_digit():
    train, test = digit_dates(200, 200, noise=0.0)
    seen = {image.tobytes() for image in train.images.reshape(-1, 64)}
    shared = [image.tobytes() in seen for image in test.images.reshape(-1, 64)]
    assert np.mean(shared) < 0.01  # scikit-learn's digits hold a few pictures twice


def test_demo(tmp_path, capfd):
    """The chain reads more dates than single digits do, certificates hold, and the pictures are there."""
    with pytest.raises(SystemExit) as stopped:
        main(["demo", "--output", str(tmp_path / "out"), "--json"])
    captured = capfd.readouterr()
    assert stopped.value.code == 0
    found = json.loads(captured.out)
    alone, crf, margin = found["readings"]
    assert (
        crf["right_dates"] > alone["right_dates"] + 0.1 and margin["right_dates"] > alone["right_dates"] + 0.1
    )
    for reading in found["readings"]:
        assert reading["dual_objective"] <= reading["objective"] and reading["relative_gap"] <= 1e-2
    assert "certificate" in captured.err
    for name in ("convergence.png", "predictions.png"):
        assert (tmp_path / "out" / name).read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "out" / "index.html").read_text().count("data:image/png") == 2
