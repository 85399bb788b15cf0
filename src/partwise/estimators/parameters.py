"""Parameters of estimators as plain values: what `fit` accepts is what a model file can hold."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from partwise.core.losses import Loss
from partwise.estimators.regularization_path.values import checked_values
from partwise.features.templates import Template
from partwise.storage.checks import expect_parameters

_FLAGS = (
    "warm_start", "fit_intercept", "labelled", "single_root", "all_possible_states",
    "all_possible_transitions",
)  # fmt: skip


def check_parameters(estimator: Any, names: Sequence[str]) -> None:
    """Refuse parameters of types that a model file could not bring back.

    A kernel that is a function is fine for training, and refused when it is saved.
    """
    found = plain_parameters(estimator, names)
    expect_parameters({name: value for name, value in found.items() if not callable(value)})


def plain_parameters(estimator: Any, names: Sequence[str]) -> dict[str, Any]:
    """Parameters as JSON values; callbacks and generators are left out, solver objects named."""
    parameters = {name: _plain(name, getattr(estimator, name)) for name in names}
    loss = Loss.of(estimator.loss)
    parameters["loss"] = {"beta": "inf" if loss.is_hard else loss.beta, "gamma": loss.gamma}
    parameters["callback"] = None
    return parameters


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if name in _FLAGS and isinstance(value, int) and value in (0, 1):
        return bool(value)
    if name == "verbose" and isinstance(value, bool):
        return int(value)
    if name == "solver" and hasattr(value, "name"):
        return str(value.name)
    if name == "engine":  # where training ran is nothing of the model's
        return None
    if name == "cv":  # a splitter, or its folds, are for training alone
        return value if isinstance(value, int) else None
    if name == "l2s" and value is not None:
        return checked_values(value)[::-1]
    if name == "random_state":
        return value if isinstance(value, int) else None
    if isinstance(value, Template):
        return value.text if "\n" in value.text else value.text + "\n"
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, dict) and name == "class_weight":
        return [[_plain("", label), _plain("", weight)] for label, weight in value.items()]
    if isinstance(value, dict):
        return {str(key): _plain("", inner) for key, inner in value.items()}
    return list(value) if isinstance(value, tuple) else value
