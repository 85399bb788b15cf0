"""A labeler of segments as header and arrays of a model file, and back, everything checked on the way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from partwise.core.losses import Loss
from partwise.errors import InputError
from partwise.estimators.labels import classes_array
from partwise.estimators.linear import CompactModel
from partwise.estimators.model import LinearModel
from partwise.storage.checks import expect_number, expect_text
from partwise.structures import SemiMarkov
from partwise.tasks.segments.encoder import SegmentEncoder

_PREFIX = "encoder."


class SegmentFileMixin(CompactModel):
    """State of an estimator that has `_encoder`, `_model`, `_loss`, `classes_`, `max_length_` and `n_cut_`."""

    _encoder: SegmentEncoder
    _model: LinearModel
    _loss: Loss
    classes_: np.ndarray
    outside: str
    max_length_: int
    n_cut_: int

    def _structure(self) -> SemiMarkov:
        """The segmentations of the fitted attributes."""
        raise NotImplementedError

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        labels = self.classes_.tolist()
        if not all(isinstance(label, (str, bool, int, float)) for label in labels):
            raise InputError("only labels that are strings or numbers can be saved")
        encoder_header, encoder_arrays = self._encoder.state()
        header = {
            "estimator": "SegmentLabeler",
            "parameters": self._parameters_state(),
            "labels": labels,
            "structure": {"name": "segments", "max_length": self.max_length_, "n_cut": self.n_cut_},
            "encoder": encoder_header,
            "record": self._record_state(),
        }
        arrays = self._model.state(self._encoder.sizes)
        return header, arrays | {f"{_PREFIX}{name}": array for name, array in encoder_arrays.items()}

    @classmethod
    def _from_state(cls, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
        estimator = cls._with_parameters(header["parameters"])
        labels, shape, stored = header["labels"], header.get("structure"), header.get("encoder")
        if not isinstance(labels, list) or not labels or len(set(labels)) != len(labels):
            raise InputError("the labels are missing, or one is there twice")
        if not isinstance(shape, dict) or not isinstance(stored, dict):
            raise InputError("the structure or the features are missing")
        expect_text(header["parameters"], "outside")
        estimator.classes_ = classes_array(labels)
        estimator.max_length_ = expect_number(shape, "max_length", 1, 2**20, whole=True)
        estimator.n_cut_ = expect_number(shape, "n_cut", 0, whole=True)
        own = {name[len(_PREFIX) :]: array for name, array in arrays.items() if name.startswith(_PREFIX)}
        estimator._encoder = SegmentEncoder.from_state(stored, own, estimator.max_length_)
        estimator._model = LinearModel.from_state(estimator._structure(), estimator._encoder.sizes, arrays)
        estimator._loss = Loss.of(estimator.loss)
        estimator._set_record(header["record"])
        return estimator
