"""A parser as header and arrays of a model file, and back, everything checked on the way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from partwise.core.losses import Loss
from partwise.errors import InputError
from partwise.estimators.linear import CompactModel
from partwise.estimators.model import LinearModel
from partwise.storage.checks import expect_number, expect_text, expect_texts
from partwise.tasks.dependencies.arc_encoder import ArcEncoder
from partwise.tasks.dependencies.arc_pruning import ArcPruner, PruningRecord

_ARCS, _PRUNER = "encoder.", "pruner."


class DependencyFileMixin(CompactModel):
    """State of an estimator that has `_encoder`, `_pruner`, `_model`, `_loss`, `relations_` and `single_root_`."""

    _encoder: ArcEncoder
    _pruner: ArcPruner | None
    _model: LinearModel
    _loss: Loss
    relations_: list[str]
    single_root_: bool
    pruning_: PruningRecord | None
    structure: Any
    order: Any

    def _structure(self, n_relations: int, order: int) -> Any:
        """The trees that the parameters ask for."""
        raise NotImplementedError

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        encoder_header, encoder_arrays = self._encoder.state()
        header = {
            "estimator": "DependencyParser",
            "parameters": self._parameters_state(),
            "labels": list(self.relations_),
            "structure": {"name": self.structure, "single_root": self.single_root_},
            "encoder": encoder_header,
            "pruner": None,
            "pruning": None if self.pruning_ is None else list(self.pruning_),
            "record": self._record_state(),
        }
        arrays = self._model.state(self._encoder.sizes) | _prefixed(encoder_arrays, _ARCS)
        if self._pruner is not None:
            header["pruner"], pruner_arrays = self._pruner.state()
            arrays |= _prefixed(pruner_arrays, _PRUNER)
        return header, arrays

    @classmethod
    def _from_state(cls, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
        parser = cls._with_parameters(header["parameters"])
        shape = header.get("structure")
        if not isinstance(shape, dict) or not isinstance(shape.get("single_root"), bool):
            raise InputError("the structure is missing")
        parser.structure = expect_text(shape, "name", ("spanning", "projective"))
        parser.single_root_ = shape["single_root"]
        parser.relations_ = expect_texts(header, "labels", distinct=True)
        parser.order = expect_number({"order": parser.order}, "order", 1, 2, whole=True)
        structure = parser._structure(len(parser.relations_), parser.order)
        stored = header.get("encoder")
        if not isinstance(stored, dict):
            raise InputError("the features are missing")
        parser._encoder = ArcEncoder.from_state(stored, _own(arrays, _ARCS), structure.labelled, parser.order)
        parser._model = LinearModel.from_state(structure, parser._encoder.sizes, arrays)
        parser._loss = Loss.of(parser.loss)
        parser._pruner = None
        if header.get("pruner") is not None:
            parser._pruner = ArcPruner.from_state(
                header["pruner"], _own(arrays, _PRUNER), parser._structure(1, 1)
            )
        parser.pruning_, parser.skipped_ = _pruning(header.get("pruning")), None
        parser._set_record(header["record"])
        return parser


def _prefixed(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {f"{prefix}{name}": array for name, array in arrays.items()}


def _own(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}


def _pruning(stored: Any) -> PruningRecord | None:
    if stored is None:
        return None
    right = isinstance(stored, list) and len(stored) == len(PruningRecord._fields)
    if not right or not all(type(each) is int and each >= 0 for each in stored):
        raise InputError("the record of pruning is damaged")
    return PruningRecord(*stored)
