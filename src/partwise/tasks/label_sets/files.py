"""A classifier with many labels as header and arrays of a model file, and back, everything checked on the way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from partwise.errors import InputError
from partwise.estimators.encoders import AttributeEncoder
from partwise.estimators.linear import LinearEstimator
from partwise.estimators.model import LinearModel
from partwise.storage.checks import expect_number, expect_text, expect_texts
from partwise.tasks.label_sets.structure import checked_pairs, label_structure


class MultilabelFileMixin(LinearEstimator):
    """State of an estimator that has `_encoder`, `_model`, `_storage`, `_single`, `classes_` and `pairs_`."""

    _encoder: AttributeEncoder | None
    _model: LinearModel
    _storage: str
    _single: bool
    _why_inference: str
    _label_names: list[str] | None
    _size: Any
    classes_: np.ndarray
    pairs_: list[tuple[int, int]]
    inference_: str

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        labels = self.classes_.tolist()
        if not all(isinstance(label, (str, bool, int, float)) for label in labels):
            raise InputError("only classes that are strings or numbers can be saved")
        header = {
            "estimator": "MultilabelClassifier",
            "parameters": self._parameters_state(),
            "labels": labels,
            "structure": {
                "name": "labels",
                "single": self._single,
                "inference": self.inference_,
                "pairs": self.pairs_,
            },
            "why_inference": self._why_inference,
            "storage": self._storage,
            "n_features": int(self.n_features_in_),
            "feature_names": list(getattr(self, "feature_names_in_", [])),
            "label_names": self._label_names,
            "encoder": None if self._encoder is None else self._encoder.state()[0],
            "record": self._record_state(),
        }
        return header, self._model.state([self._size(self.n_features_in_)])

    @classmethod
    def _from_state(cls, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
        estimator = cls._with_parameters(header["parameters"])
        labels, shape = header["labels"], header.get("structure")
        if not isinstance(shape, Mapping) or not isinstance(shape.get("single"), bool):
            raise InputError("the structure is missing")
        most = 2 if shape["single"] else 2**20
        if not 0 < len(labels) <= most or len(set(labels)) != len(labels):
            raise InputError("the labels are missing, or one is there twice")
        n_labels = 1 if shape["single"] else len(labels)
        estimator._single = shape["single"]
        estimator.classes_ = np.array(labels) if shape["single"] else np.arange(n_labels)
        estimator.pairs_ = checked_pairs(shape.get("pairs"), n_labels)
        estimator.inference_ = expect_text(shape, "inference", ("exact", "tree-reweighted"))
        estimator._why_inference = expect_text(header, "why_inference")
        estimator._storage = expect_text(header, "storage", ("dense", "sparse"))
        estimator.n_features_in_ = n_features = expect_number(header, "n_features", 0, 2**31 - 2, whole=True)
        estimator._encoder = None
        if header.get("encoder") is not None:
            estimator._encoder = AttributeEncoder.from_state(header["encoder"], {})
            if estimator._encoder.n_attributes != n_features:
                raise InputError("the vocabulary does not fit the number of weights")
        estimator._label_names = None
        if header.get("label_names") is not None:  # older files have none
            estimator._label_names = expect_texts(header, "label_names")
            if len(estimator._label_names) != n_labels:
                raise InputError("the names of the labels do not fit their number")
        names = expect_texts(header, "feature_names")
        if names and len(names) != n_features:
            raise InputError("the feature names do not fit the number of features")
        if names:
            estimator.feature_names_in_ = np.array(names, object)
        structure = label_structure(n_labels, estimator.pairs_, estimator.inference_)
        estimator._set_model(LinearModel.from_state(structure, [estimator._size(n_features)], arrays))
        estimator._set_record(header["record"])
        return estimator
