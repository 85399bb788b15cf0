"""Estimators as header and arrays of a model file, and back, everything checked on the way."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from partwise.core.exactness import KINDS
from partwise.core.losses import Loss
from partwise.errors import InputError
from partwise.estimators.parameters import plain_parameters
from partwise.estimators.protocol import Estimator
from partwise.storage.checks import expect_number, expect_text

_RECORD = ("objective", "dual_objective", "duality_gap", "converged", "stop_reason", "n_passes", "history")


class Saved(Estimator):
    """What all estimators save: class, parameters, labels and training record; and the hooks for the rest."""

    classes_: np.ndarray
    temperature_: float
    certificate_kind_: str
    l2_: float
    l2s_: np.ndarray
    scores_: np.ndarray

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file that `partwise.load` reads; the dual state is not in it.

        Parameters
        ----------
        path : path
        """
        from partwise.storage.model_file import save_estimator

        self._require_fitted()  # type: ignore[attr-defined]
        save_estimator(path, self)

    def _model_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Structure, features and weights: entries of the header, and arrays."""
        raise NotImplementedError

    def _set_model_state(self, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Take over what `_model_state` returned, from a file. Parameters are set."""
        raise NotImplementedError

    def _label_state(self) -> list[Any]:
        """The labels in the order of their numbers."""
        labels = self.classes_.tolist()
        check_labels_can_be_saved(labels)
        return labels

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """All that a model file holds: JSON values, and arrays."""
        own, arrays = self._model_state()
        header = {
            "estimator": self._saved_class().__name__,
            "parameters": self._parameters_state(),
            "labels": self._label_state(),
            **own,
            "record": self._record_state(),
        }
        return header, arrays

    @classmethod
    def _from_state(cls, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
        """The fitted estimator that `_state` describes."""
        estimator = cls._with_parameters(header["parameters"])
        estimator._set_model_state(header, arrays)
        estimator._set_record(header["record"])
        return estimator

    # -- parameters and training record ---------------------------------------------------------

    @classmethod
    def _saved_class(cls) -> type[Saved]:
        """The class that model files name: the first base class in the registry of tasks."""
        known = import_module("partwise.tasks").estimator_names(
            drop_ins=True
        )  # by name: tasks stand on estimators
        return next((each for each in cls.__mro__ if each.__name__ in known), cls)

    @classmethod
    def _parameters_in_file(cls) -> list[str]:
        """Names of the parameters that a file holds, which may be fewer than a subclass has."""
        return cls._saved_class()._get_param_names()

    def _parameters_state(self) -> dict[str, Any]:
        return plain_parameters(self, self._parameters_in_file())

    @classmethod
    def _with_parameters(cls, stored: Mapping[str, Any]) -> Any:
        """An unfitted estimator from what `_parameters_state` gave."""
        parameters = {name: stored[name] for name in cls._get_param_names() if name in stored}
        loss = stored.get("loss")
        if not isinstance(loss, Mapping):
            raise InputError("the loss is missing")
        beta = math.inf if loss.get("beta") == "inf" else expect_number(loss, "beta")
        if "loss" in cls._get_param_names():
            parameters["loss"] = named_loss(Loss(beta, expect_number(loss, "gamma")))
        if isinstance(parameters.get("class_weight"), list):
            parameters["class_weight"] = {label: float(w) for label, w in parameters["class_weight"]}
        return cls(**parameters)

    def _record_state(self) -> dict[str, Any]:
        record = {name: getattr(self, f"{name}_") for name in (*_RECORD, "certificate_kind")}
        if self.temperature_ != 1.0:
            record["temperature"] = self.temperature_
        record |= self._guarantee_state()
        if hasattr(self, "l2_"):
            record["choice"] = {"l2": self.l2_, "l2s": self.l2s_.tolist(), "scores": self.scores_.tolist()}
        return record

    def _guarantee_state(self) -> dict[str, Any]:
        """What calibration left besides the temperature."""
        return {}

    def _set_guarantees(self, record: Mapping[str, Any]) -> None:
        """Take over what `_guarantee_state` returned, from a file, checked."""

    def _set_record(self, record: Mapping[str, Any]) -> None:
        for name in _RECORD:
            setattr(self, f"{name}_", record[name])
        # Files from before there were other kinds do not say it.
        kind = {"certificate_kind": "exact"} | dict(record)
        self.certificate_kind_ = expect_text(kind, "certificate_kind", KINDS)
        # Files of models that were not calibrated, and those from before models could be, do not have one.
        self.temperature_ = float(expect_number({"temperature": 1.0} | dict(record), "temperature", 0.0))
        if not 0.0 < self.temperature_ < math.inf:
            raise InputError("the temperature must be above 0")
        self._set_guarantees(record)
        if record.get("choice") is not None:
            choice = record["choice"]
            self.l2_ = float(expect_number(choice, "l2", 0.0))
            self.l2s_, self.scores_ = (np.array(choice[name], float) for name in ("l2s", "scores"))
            if self.scores_.ndim != 2 or self.l2s_.shape != self.scores_.shape[1:]:
                raise InputError("the scores of cross-validation do not fit the values of l2")


def named_loss(loss: Loss) -> str | Loss:
    """The name of a loss that has one."""
    return loss.name if "(" not in loss.name else loss


def check_labels_can_be_saved(labels: list[Any]) -> None:
    """Raise unless JSON can hold all labels."""
    if not all(isinstance(label, (str, bool, int, float)) for label in labels):
        raise InputError("only labels that are strings or numbers can be saved")


def stored_labels(header: Mapping[str, Any]) -> list[Any]:
    """The labels of a file, at least one, none twice."""
    labels = header["labels"]
    if not isinstance(labels, list) or not labels or len(set(labels)) != len(labels):
        raise InputError("the labels are missing, or one is there twice")
    return labels


def stored_part(header: Mapping[str, Any], name: str) -> dict[str, Any]:
    """An entry of a header that is a dict itself."""
    stored = header.get(name)
    if not isinstance(stored, dict):
        raise InputError(f"header entry {name!r} is missing")
    return stored


def prefixed(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """Arrays of a part of a model under names in the whole file."""
    return {f"{prefix}{name}": array for name, array in arrays.items()}


def unprefixed(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The arrays of a part of a model, by their names in that part."""
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}
