"""Distributions over labels as predictions show them, without improbable labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

_SMALLEST_SHOWN = 0.001  # less probable labels are left out: four decimals would show little of them
Distribution = list[tuple[str, float]]


def distributions(names: list[str], array: np.ndarray) -> list[Distribution]:
    """The labels of each row with a probability of at least 0.001, the most probable first."""
    import numpy as np

    order = (-array).argsort(axis=1, kind="stable")
    ordered = array[np.arange(len(array))[:, None], order]
    counts = (ordered >= _SMALLEST_SHOWN).sum(axis=1).tolist()
    width = max(counts, default=0)
    rows = zip(counts, order[:, :width].tolist(), ordered[:, :width].round(6).tolist(), strict=True)
    return [[(names[label], p) for label, p in zip(labels[:n], row, strict=False)] for n, labels, row in rows]


def as_text(distribution: Distribution, glue: str = ",") -> str:
    """``label:probability`` pairs in one string."""
    return glue.join(f"{name}:{p:.4f}" for name, p in distribution)
