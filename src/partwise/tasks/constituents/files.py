"""A constituency parser as header and arrays of a model file, and back, everything checked on the way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from partwise.core.losses import Loss
from partwise.data.binary_form import BinaryForm
from partwise.errors import InputError
from partwise.estimators.linear import CompactModel
from partwise.estimators.model import LinearModel
from partwise.storage.checks import expect_array, expect_text, expect_texts
from partwise.tasks.constituents.data import ROOT
from partwise.tasks.constituents.derivations import Derivations
from partwise.tasks.constituents.encoder import SpanEncoder

_ENCODER, _GRAMMAR = "encoder.", "grammar."


class ConstituencyFileMixin(CompactModel):
    """State of an estimator that has `_encoder`, `_model`, `_derivations`, `_loss` and what training found."""

    _encoder: SpanEncoder
    _model: LinearModel
    _derivations: Derivations
    _loss: Loss
    labels_: list[str]
    outer_: str | None
    has_tags_: bool
    fixed_tags_: bool

    def _form(self) -> BinaryForm:
        raise NotImplementedError

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        encoder_header, encoder_arrays = self._encoder.state()
        grammar_header, grammar_arrays = self._derivations.state()
        structure: Any = self._model.structure
        header = {
            "estimator": "ConstituencyParser",
            "parameters": self._parameters_state(),
            "labels": list(self.labels_),
            "grammar": grammar_header
            | {
                "splits": structure.splits,
                "outer": self.outer_,
                "has_tags": self.has_tags_,
                "fixed_tags": self.fixed_tags_,
            },
            "encoder": encoder_header,
            "record": self._record_state(),
        }
        arrays = self._model.state(self._encoder.sizes)
        arrays |= {f"{_ENCODER}{name}": array for name, array in encoder_arrays.items()}
        arrays |= {f"{_GRAMMAR}{name}": array for name, array in grammar_arrays.items()}
        return header, arrays

    @classmethod
    def _from_state(cls, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Any:
        parser = cls._with_parameters(header["parameters"])
        stored = header.get("grammar")
        if not isinstance(stored, dict):
            raise InputError("the grammar is missing")
        flags = [stored.get(name) for name in ("splits", "has_tags", "fixed_tags")]
        if not all(isinstance(flag, bool) for flag in flags):
            raise InputError("the grammar does not say what its parts and tags are")
        splits, parser.has_tags_, parser.fixed_tags_ = flags
        parser.outer_ = None if stored.get("outer") is None else expect_text(stored, "outer", ("", ROOT))
        parser._derivations = _derivations(stored, arrays, parser._form())
        parser.labels_ = expect_texts(header, "labels", distinct=True)
        if parser.labels_ != parser._derivations.labels:
            raise InputError("the labels are not those of the grammar")
        structure = parser._derivations.structure(bool(splits))
        parser._encoder = SpanEncoder.from_state(header.get("encoder"), _own(arrays, _ENCODER), bool(splits))
        parser._model = LinearModel.from_state(structure, parser._encoder.sizes, arrays)
        parser._loss = Loss.of(parser.loss)
        parser._set_record(header["record"])
        return parser


def _derivations(
    stored: Mapping[str, Any], arrays: Mapping[str, np.ndarray], form: BinaryForm
) -> Derivations:
    symbols = expect_texts(stored, "symbols", distinct=True)
    if not symbols or symbols[0] != ROOT or any(not name for name in symbols):
        raise InputError("the symbols of the grammar are damaged")
    own, n = _own(arrays, _GRAMMAR), len(symbols)
    rules = expect_array(own, "rules", np.int32, shape=(None, 3), low=0, high=n)
    unaries = expect_array(own, "unaries", np.int32, shape=(None, 2), low=0, high=n)
    words = expect_array(own, "word_symbols", np.int32, low=0, high=n)
    if not len(words) or (np.diff(words) <= 0).any():
        raise InputError("the symbols of words are damaged")
    label = expect_text(stored, "sentence_label")
    rules, unaries, words = (array.astype(np.int64) for array in (rules, unaries, words))
    return Derivations(form, symbols, rules, unaries, words, label)


def _own(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}
