"""Rows with several classes: sets of possible ones, and distributions."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.data.frames import is_series
from partwise.estimators.alternatives import Alternatives, Targets, holds_several


def row_name(k: int) -> str:
    """The name of a row's class, for messages."""
    return f"y[{k}]"


def several_classes(y: Any) -> tuple[Targets | None, Any]:
    """Sets of classes and distributions over them, and y with one class of each; None if y has neither."""
    if is_series(y):
        y = y.tolist()
    is_plain = (
        not isinstance(y, (list, tuple, np.ndarray)) or getattr(y, "dtype", np.dtype(object)).kind != "O"
    )
    if is_plain or getattr(y, "ndim", 1) != 1 or not holds_several(y):
        return None, y
    targets = Targets.read(y, row_name)
    one: dict[int, Any] = {at: next(iter(own)) for at, own in (targets.sets | targets.shares).items()}
    some = next((label for label in targets.every_label() if label is not None), None)
    return targets, [one.get(k, some if y[k] is None else label) for k, label in enumerate(targets.labels)]


def with_repeated(
    X: Any, codes: np.ndarray, weights: np.ndarray, sets: Alternatives, shares: Alternatives
) -> tuple[Any, np.ndarray, np.ndarray, Alternatives]:
    """An example with a distribution as one for each of its classes, whose weight is its share.

    That is the expected loss, for any loss.
    """
    if not shares:
        return X, codes, weights, sets
    plain: np.ndarray = np.ones(len(codes), bool)
    plain[shares.at] = False
    rows = np.concatenate([np.flatnonzero(plain), np.repeat(shares.at, shares.sizes)])
    weights = np.concatenate([weights[plain], weights[rows[plain.sum() :]] * shares.share])
    return X[rows], np.concatenate([codes[plain], shares.label]), weights, sets.kept(plain)
