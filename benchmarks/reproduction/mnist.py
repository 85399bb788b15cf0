"""MNIST as Collins et al. (2008) and Globerson et al. (2007) had it: ten classes, pixels in [0, 1], no intercept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from multiclass import problem_of, read


def problems(folder: Path, n_train: int, n_dev: int | None = None) -> tuple[Any, Callable[..., float]]:
    """The first `n_train` training images as a problem, and what tells a weight vector's validation error in percent.

    Validation are the 10,000 test images, or the `n_dev` training images behind those trained on.
    """
    x, y = read(folder)
    problem = problem_of(x[:n_train], y[:n_train], 1.0, "log")
    if n_dev is None:
        x, y = read(folder, "t10k")
    else:
        x, y = x[n_train : n_train + n_dev], y[n_train : n_train + n_dev]
    held_out = problem_of(x, y, 1.0, "log")

    def error(passes: float, weights: np.ndarray) -> float:
        scores = held_out.scores(weights).reshape(len(y), -1)
        return 100.0 * float((scores.argmax(axis=1) != y).mean())

    return problem, error
