"""The weights of a fitted chain as a start for training on other data, by the names of attributes and labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from partwise.core.problem import Problem

if TYPE_CHECKING:
    from partwise.tasks.sequences.labeler import SequenceLabeler

Start = Callable[[Problem, Any, list[Any]], np.ndarray | None]


def earlier_weights(fitted: SequenceLabeler) -> Start:
    """What finds the weights of a problem, given its encoder and its labels, in a model as it is now.

    Attributes and labels that the model does not have start at zero. There is no start if chains are of another order,
    or attributes are hashed in another way.
    """
    model, encoder, labels = fitted._model, fitted._encoder, fitted.classes_.tolist()

    def start(problem: Problem, new: Any, new_labels: list[Any]) -> np.ndarray | None:
        before, now = model.structure, problem.structure
        names = [kind.name for kind in now.kinds]
        if [kind.name for kind in before.kinds] != names or _order(before) != _order(now):
            return None
        if encoder.kind != new.kind or encoder.kind == "matrix" or _hashing(encoder) != _hashing(new):
            return None
        place = {label: number for number, label in enumerate(new_labels)}
        number = np.array([place.get(label, -1) for label in labels], np.int64)
        weights = np.zeros(problem.n_weights)
        for kind in now.kinds:
            found = weights[problem.scorer.slice_of(kind.name)]
            columns = _columns(number, len(new_labels), model.maps[kind.name].width, _order(now))
            attribute, label, index = model.maps[kind.name].pairs()
            value = model.weights_of(kind.name)[index]
            if kind.tied:
                renumbered = np.zeros(1, np.int64)
            else:
                known = {name: k for k, name in enumerate(new.names(kind.name))}
                renumbered = np.array([known.get(name, -1) for name in encoder.names(kind.name)], np.int64)
            _place(problem.scorer.maps[kind.name], renumbered[attribute], columns[label], value, found)
        return weights

    return start


def _order(chain: Any) -> int:
    return int(chain.order)


def _hashing(encoder: Any) -> int:
    """The number of hash buckets, 0 with a vocabulary."""
    part = getattr(encoder, "vocabulary", None) or encoder.node
    return encoder.n_attributes if part.is_hashed else 0


def _columns(number: np.ndarray, n_new: int, width: int, order: int) -> np.ndarray:
    """The new column of every old one: of labels, or of runs of labels; −1 if there is none.

    Parameters
    ----------
    number : int64 array, shape (n_labels,)
        The new number of every label, −1 if there is none.
    width : int
        How many columns there are: of labels if as many as these.
    """
    if width == len(number):
        return number
    # The number of a run counts its labels in base n_labels, or n_labels + 1 with "before the start".
    has_start = order > 1
    earlier = np.append(number, n_new) if has_start else number
    runs = np.indices((len(earlier),) * order + (len(number),)).reshape(order + 1, -1)
    column, is_known = np.zeros(width, np.int64), number[runs[-1]] >= 0
    for label in earlier[runs[:-1]]:
        column = column * (n_new + has_start) + label
        is_known &= label >= 0
    return np.where(is_known, column * n_new + number[runs[-1]], -1)


def _place(
    feature_map: Any, attribute: np.ndarray, column: np.ndarray, value: np.ndarray, weights: np.ndarray
) -> None:
    """Write values to the weights of pairs, where the map has such pairs."""
    here, label, index = feature_map.pairs()
    keys = here * feature_map.width + label
    order = np.argsort(keys)
    is_known = (attribute >= 0) & (column >= 0)
    wanted = attribute[is_known] * feature_map.width + column[is_known]
    at = np.minimum(np.searchsorted(keys[order], wanted), max(len(keys) - 1, 0))
    if not len(keys):
        return
    exists = keys[order[at]] == wanted
    weights[index[order[at[exists]]]] = value[is_known][exists]
