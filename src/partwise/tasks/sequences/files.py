"""A sequence labeler as header and arrays of a model file, and back, everything checked on the way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from partwise.core.losses import Loss
from partwise.errors import InputError
from partwise.estimators.encoders import AttributeEncoder, ColumnEncoder
from partwise.estimators.labels import classes_array
from partwise.estimators.linear import CompactModel
from partwise.estimators.matrices import MatrixEncoder
from partwise.estimators.model import LinearModel
from partwise.estimators.warm_start import WarmStarting
from partwise.storage.checks import expect_array, expect_number, expect_text
from partwise.structures import Chain

_ENCODERS: dict[str, Any] = {
    "attributes": AttributeEncoder,
    "columns": ColumnEncoder,
    "matrix": MatrixEncoder,
}
_MASKS = ("allowed", "allowed_start", "allowed_end")


class SequenceFileMixin(CompactModel, WarmStarting):
    """State of an estimator that has `_encoder`, `_model`, `_loss` and `classes_`."""

    _encoder: Any
    _model: LinearModel
    _loss: Loss
    classes_: np.ndarray
    scheme: str | None

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        labels = self.classes_.tolist()
        if not all(isinstance(label, (str, bool, int, float)) for label in labels):
            raise InputError("only labels that are strings or numbers can be saved")
        encoder_header, encoder_arrays = self._encoder.state()
        chain = self._model.structure
        assert isinstance(chain, Chain)
        header = {
            "estimator": "SequenceLabeler",
            "parameters": self._parameters_state(),
            "labels": labels,
            "structure": {"name": "chain", "order": chain.order, "tied": chain.tied, "scheme": self.scheme},
            "encoder": {"kind": self._encoder.kind, **encoder_header},
            "record": self._record_state(),
        }
        arrays = self._model.state(self._encoder.sizes)
        arrays |= {f"encoder.{name}": array for name, array in encoder_arrays.items()}
        arrays |= {name: getattr(chain, name) for name in _MASKS if getattr(chain, name) is not None}
        return header, arrays

    @classmethod
    def _from_state(cls, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
        estimator = cls._with_parameters(header["parameters"])
        labels = header["labels"]
        if not isinstance(labels, list) or not labels or len(set(labels)) != len(labels):
            raise InputError("the labels are missing, or one is there twice")
        estimator.classes_ = classes_array(labels)
        encoder = estimator._encoder = encoder_from(header["encoder"], arrays)
        shape = header["structure"]
        order = expect_number(shape, "order", 1, 16, whole=True)
        size = (len(labels) + 1) ** order * len(labels)
        if order > 1 and len(arrays.get("tied_weight", ())) != size:
            raise InputError("array 'tied_weight' does not fit the order of the chain")
        masks = {name: _mask(arrays, name, len(labels)) for name in _MASKS if name in arrays}
        structure = Chain(len(labels), tied=encoder.tied, order=order, **masks)
        estimator._model = LinearModel.from_state(structure, encoder.sizes, arrays)
        estimator._loss = Loss.of(estimator.loss)
        if encoder.kind == "matrix":
            estimator.n_features_in_ = encoder.n_columns
        estimator._set_record(header["record"])
        return estimator


def encoder_from(stored: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
    """The encoder that a header and the arrays named "encoder." describe."""
    kind, prefix = expect_text(stored, "kind", tuple(_ENCODERS)), "encoder."
    own = {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}
    return _ENCODERS[kind].from_state(stored, own)


def _mask(arrays: Mapping[str, np.ndarray], name: str, n_labels: int) -> np.ndarray:
    shape = (n_labels, n_labels) if name == "allowed" else (n_labels,)
    return expect_array(arrays, name, np.bool_, shape=shape)
