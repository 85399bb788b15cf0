"""The demo's data: dates written with scikit-learn's handwritten digits, smudged until hard to read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np

from partwise.errors import InputError

PLACES = ("day tens", "day", "month tens", "month", "century", "hundreds", "decade", "year")
N_PIXELS = 64
_FIRST_DAY, _LAST_DAY = date(1950, 1, 1), date(2049, 12, 31)


@dataclass
class DigitDates:
    """Dates DDMMYYYY, one image per digit.

    Attributes
    ----------
    images : ndarray (n_dates, 8, 8, 8) of float32
        Grey values from 0 to 1: date, place, row, column.
    digits : ndarray (n_dates, 8) of int64
    """

    images: np.ndarray
    digits: np.ndarray

    def __len__(self) -> int:
        return len(self.digits)

    def inputs(self) -> list[np.ndarray]:
        """Per date a (8, 65) matrix: the pixels of each digit, and whether it is the first."""
        n_dates, length = self.digits.shape
        rows = np.zeros((n_dates, length, N_PIXELS + 1), np.float32)
        rows[:, :, :N_PIXELS] = self.images.reshape(n_dates, length, N_PIXELS)
        rows[:, 0, N_PIXELS] = 1.0
        return list(rows)

    def labels(self) -> list[list[str]]:
        """Per date a label for each digit: its place in the date and the digit, as in ``month tens 1``.

        With the place in the label, the transitions between labels can learn the calendar.
        """
        return [
            [f"{place} {digit}" for place, digit in zip(PLACES, row, strict=True)]
            for row in self.digits.tolist()
        ]


def digit_of(label: str) -> int:
    """The digit in a label of :meth:`DigitDates.labels`."""
    return int(label[-1])


def digit_dates(
    n_train: int = 600, n_test: int = 400, noise: float = 0.3, random_state: int = 0
) -> tuple[DigitDates, DigitDates]:
    """Write random dates between 1950 and 2049 with handwritten digits.

    Parameters
    ----------
    n_train, n_test : int
        Number of dates; no handwritten digit is in both sets.
    noise : float
        Standard deviation of the noise on every pixel, whose values run from 0 to 1.
    random_state : int

    Returns
    -------
    train, test : DigitDates
    """
    if n_train < 1 or n_test < 1:
        raise InputError(f"n_train and n_test must be at least 1, not {n_train} and {n_test}")
    from sklearn.datasets import load_digits

    random = np.random.default_rng(random_state)
    source = load_digits()
    images, values = (source.images / 16.0).astype(np.float32), source.target
    order = random.permutation(len(values))
    half = len(values) // 2
    train = _write(n_train, images[order[:half]], values[order[:half]], noise, random)
    test = _write(n_test, images[order[half:]], values[order[half:]], noise, random)
    return train, test


def _write(
    n_dates: int, images: np.ndarray, values: np.ndarray, noise: float, random: np.random.Generator
) -> DigitDates:
    n_days = (_LAST_DAY - _FIRST_DAY).days + 1
    days = [_FIRST_DAY + timedelta(days=int(day)) for day in random.integers(0, n_days, n_dates)]
    digits = np.array([[int(character) for character in f"{day:%d%m%Y}"] for day in days])
    written = np.zeros((n_dates, len(PLACES), *images.shape[1:]), np.float32)
    for digit in range(10):
        places = np.nonzero(digits == digit)
        written[places] = images[random.choice(np.flatnonzero(values == digit), len(places[0]))]
    written += noise * random.standard_normal(written.shape, np.float32)
    return DigitDates(np.clip(written, 0.0, 1.0), digits)
