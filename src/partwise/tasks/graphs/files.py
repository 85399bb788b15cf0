"""A graph labeler as header and arrays of a model file, and back, everything checked on the way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from partwise.core.losses import Loss
from partwise.errors import InputError
from partwise.estimators.labels import classes_array
from partwise.estimators.linear import CompactModel
from partwise.estimators.model import LinearModel
from partwise.estimators.warm_start import WarmStarting
from partwise.storage.checks import expect_text
from partwise.tasks.graphs.encoder import GraphEncoder
from partwise.tasks.graphs.labels import NodeLabels
from partwise.tasks.graphs.structures import INFERENCE, structure_for

_MOST_ENTRIES = 2**28  # of a table; weights and several arrays as long are made of it


class GraphFileMixin(CompactModel, WarmStarting):
    """State of an estimator that has `_encoder`, `_model`, `_loss`, `_labels` and `inference_`."""

    _encoder: GraphEncoder
    _model: LinearModel
    _loss: Loss
    _labels: NodeLabels
    inference_: str
    _why_inference: str

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        labels = [own.tolist() for own in self._labels.classes.values()]
        if not all(isinstance(label, (str, bool, int, float)) for own in labels for label in own):
            raise InputError("only labels that are strings or numbers can be saved")
        header = {
            "estimator": type(self).__name__,
            "parameters": self._parameters_state(),
            "labels": labels,
            "structure": {"name": "graph", "inference": self.inference_, "why": self._why_inference},
            "encoder": self._encoder.state(),
            "record": self._record_state(),
        }
        return header, self._model.state(self._encoder.sizes)

    @classmethod
    def _from_state(cls, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
        estimator = cls._with_parameters(header["parameters"])
        encoder = estimator._encoder = GraphEncoder.from_state(header.get("encoder"))
        estimator._labels = NodeLabels(_classes(header["labels"], encoder.nodes))
        shape = header.get("structure")
        if not isinstance(shape, Mapping):
            raise InputError("the structure is missing")
        estimator.inference_ = expect_text(shape, "inference", INFERENCE[1:])
        estimator._why_inference = expect_text(shape, "why")
        sizes = dict(zip(encoder.nodes, estimator._labels.sizes, strict=True))
        for kind in encoder.factors:
            if np.prod([float(sizes[name]) for name in kind.nodes]) > _MOST_ENTRIES:
                raise InputError(f"the tables of kind {kind.name!r:.60} are too large")
        structure = structure_for(estimator.inference_, encoder, estimator._labels.sizes)
        estimator._model = LinearModel.from_state(structure, encoder.sizes, arrays)
        estimator._loss, estimator.classes_ = Loss.of(estimator.loss), estimator._labels.as_attribute()
        estimator._set_record(header["record"])
        return estimator


def _classes(stored: Any, kinds: list[str]) -> dict[str, np.ndarray]:
    right = isinstance(stored, list) and len(stored) == len(kinds)
    if not right or not all(isinstance(own, list) and own and len(set(own)) == len(own) for own in stored):
        raise InputError("the labels of a kind are missing, or one is there twice")
    return {name: classes_array(own) for name, own in zip(kinds, stored, strict=True)}
