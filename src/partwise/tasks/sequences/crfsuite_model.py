"""Models of CRFsuite as models of partwise, and back.

A CRFsuite model becomes the header and the arrays of the model file that partwise would write for it, so that one
piece of code checks and builds both. Weights stay in double precision, and labels keep their order, which decides
between labellings of equal score.
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from partwise.errors import InputError, MissingFileError
from partwise.estimators.encoders import smallest
from partwise.storage.crfsuite_file import (
    MAGIC,
    CrfsuiteModel,
    Features,
    packed_crfsuite_model,
    parse_crfsuite_model,
    write_crfsuite_model,
)
from partwise.storage.model_file import estimator_from
from partwise.tasks.options import DataOptions

if TYPE_CHECKING:
    from partwise.tasks.sequences.crf import CRF
    from partwise.tasks.sequences.labeler import SequenceLabeler

_ORIGIN = "not trained here: these are the weights of a CRFsuite model"


def read_crfsuite(path: str | os.PathLike[str], encoding: str = "utf-8") -> CRF:
    """Read a model that CRFsuite, python-crfsuite or sklearn-crfsuite wrote.

    Parameters
    ----------
    path : path
    encoding : str
        Of the names of labels and attributes.

    Returns
    -------
    CRF
        Its labels are in CRFsuite's order.
    """
    data = crfsuite_file(path)
    if data is None:
        raise InputError("not a model file of CRFsuite", path)
    try:
        return model_from(data, encoding)
    except InputError as error:
        raise InputError(str(error), path) from None


def crfsuite_file(path: str | os.PathLike[str]) -> bytes | None:
    """The bytes of a model file of CRFsuite; None if the file is another."""
    try:
        with open(path, "rb") as handle:
            return handle.read() if handle.peek(len(MAGIC))[: len(MAGIC)] == MAGIC else None
    except FileNotFoundError:
        raise MissingFileError("no such file", path) from None
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror or error})", path) from None


def model_from(data: bytes, encoding: str = "utf-8") -> CRF:
    """The `CRF` in the bytes of a file of CRFsuite."""
    return estimator_from(*as_model_file(data, encoding))


def as_model_file(data: bytes, encoding: str = "utf-8") -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays of partwise's model file, from the bytes of one of CRFsuite."""
    check_encoding(encoding)
    model = parse_crfsuite_model(data, encoding)
    if not model.labels:
        raise InputError("this CRFsuite model has no labels: it was trained without data")
    return file_of_weights(model, _ORIGIN)


def file_of_weights(model: CrfsuiteModel, origin: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays of a `CRF` with these weights, which `origin` says where they are from."""
    n_labels, states = len(model.labels), model.states
    tied = np.zeros((n_labels, n_labels))
    tied[model.transitions.source, model.transitions.target] = model.transitions.weight
    order = np.argsort(states.source * n_labels + states.target)
    counts = np.bincount(states.source, minlength=len(model.attributes))
    arrays = {
        "tied_weight": tied.ravel(),
        "node_count": smallest(counts),
        "node_label": smallest(states.target[order]),
        "node_weight": states.weight[order],
    }
    unknown = {"objective": math.nan, "dual_objective": math.nan, "duality_gap": math.nan, "n_passes": 0.0}
    header = {
        "estimator": "CRF",
        "parameters": {"loss": {"beta": 1.0, "gamma": 0.0}},
        "labels": model.labels,
        "structure": {"name": "chain", "order": 1, "tied": True, "scheme": None},
        "encoder": {"kind": "attributes", "names": model.attributes, "hash_size": 0},
        "data": DataOptions("crfsuite").as_dict(),
        "record": {**unknown, "converged": False, "stop_reason": origin, "history": []},
    }
    return header, arrays


def crfsuite_model_of(model: SequenceLabeler) -> CrfsuiteModel:
    """The weights of a fitted chain as CRFsuite has them; an error if its format cannot hold them."""
    model._require_fitted()
    _check_can_be_written(model)
    attribute, label, index = model._model.maps["node"].pairs()
    order = np.lexsort((label, attribute))
    attribute, label, index = attribute[order], label[order], index[order]
    # CRFsuite knows no temperature: dividing the weights by it gives the same probabilities.
    states = model._model.weights_of("node")[index] / model.temperature_
    transitions = (model.transition_coef_ / model.temperature_).ravel()
    used, kept = np.flatnonzero(transitions), np.flatnonzero(states)
    named, numbers = np.unique(attribute[kept], return_inverse=True)
    return CrfsuiteModel(
        model.classes_.tolist(),
        model._encoder.named("node", named.tolist()),
        Features(*np.divmod(used, len(model.classes_)), transitions[used]),
        Features(numbers, label[kept], states[kept]),
    )


def _check_can_be_written(model: SequenceLabeler) -> None:
    chain: Any = model._model.structure
    reason = ""
    if chain.order > 1:
        reason = f"its order is {chain.order}"
    elif model._encoder.kind != "attributes":
        reason = "it makes its features itself, and CRFsuite's models are of attributes that users make"
    elif model._encoder.vocabulary.is_hashed:
        reason = "its attributes are hashed, and have no names"
    elif any(mask is not None for mask in (chain.allowed, chain.allowed_start, chain.allowed_end)):
        reason = "some labels may not follow each other, which CRFsuite's format cannot say"
    if reason:
        raise InputError(f"this model cannot be written in CRFsuite's format: {reason}")


def write_crfsuite(model: SequenceLabeler, path: str | os.PathLike[str], encoding: str = "utf-8") -> None:
    """Write a fitted chain over attributes as a model file of CRFsuite."""
    check_encoding(encoding)
    write_crfsuite_model(path, crfsuite_model_of(model), encoding)


def crfsuite_bytes(model: SequenceLabeler) -> bytes:
    """What `write_crfsuite` writes."""
    return packed_crfsuite_model(crfsuite_model_of(model))


def check_encoding(encoding: str) -> None:
    """Raise unless Python knows an encoding of this name, and ASCII is a part of it."""
    try:
        known = "aZ09-\0".encode(encoding) == b"aZ09-\0"
    except (LookupError, TypeError, UnicodeError):
        known = False
    if not known:
        raise InputError(f"encoding {encoding!r:.40} is unknown, or not one that has ASCII as a part")
