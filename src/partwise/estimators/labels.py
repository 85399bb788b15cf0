"""Labels as users write them to numbers and back; None is a label that was not observed."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Sequence
from itertools import chain, pairwise
from operator import eq
from typing import Any

import numpy as np

from partwise.core.arrays import locate, offsets
from partwise.data.frames import is_frame, only_column, unpacked
from partwise.errors import InputError
from partwise.estimators.checks import check_ordered
from partwise.features.vocabulary import check_strings


def flat_labels(y: Any, lengths: np.ndarray, name: str = "y") -> list[Any]:
    """All labels one after another, after checking that every sequence has as many as positions.

    Parameters
    ----------
    y : iterable of sequences of labels
    lengths : int64 array, shape (n_sequences,)
    """
    y = unpacked(y)
    check_ordered(y, name, "a list of lists of labels, one list per sequence")
    sequences = [labels_of_one(each, f"{name}[{i}]") for i, each in enumerate(y)]
    if len(sequences) != len(lengths):
        raise InputError(f"{name} has {len(sequences)} sequences, but X has {len(lengths)}")
    given = np.fromiter(map(len, sequences), np.int64, len(sequences))
    if (given != lengths).any():
        i = int(np.argmax(given != lengths))
        raise InputError(f"{name}[{i}] has {given[i]} labels, but X[{i}] has {lengths[i]} positions")
    return list(chain.from_iterable(sequences))


def labels_of_one(labels: Any, name: str) -> list[Any]:
    """The labels of one sequence as a list."""
    if isinstance(labels, list):
        return labels
    if is_frame(labels):
        return only_column(labels, name)
    check_ordered(labels, name, "a list of labels, one per position")
    if isinstance(labels, np.ndarray) and labels.ndim == 1:
        return labels.tolist()
    return list(labels)


def distinct_labels(flat: Sequence[Any], lengths: np.ndarray) -> list[Any]:
    """The labels that occur, None aside: sorted, or in order of first occurrence where they do not sort."""
    check_hashable(flat, lengths)
    distinct = dict.fromkeys(flat)
    distinct.pop(None, None)
    if not distinct:
        raise InputError("y has no labels at all; at least one position must have one")
    wrong = [label for label in distinct if not is_label(label)]
    if wrong:
        at = next(k for k, label in enumerate(flat) if label is wrong[0])
        raise InputError(f"{place(at, lengths)}: the label is {wrong[0]}; use None where it is not observed")
    check_strings(label for label in distinct if isinstance(label, str))
    return in_order(distinct)


def in_order(distinct: Iterable[Any]) -> list[Any]:
    """Different labels sorted, or as they come where they do not sort."""
    try:
        return sorted(distinct)
    except TypeError:
        return list(distinct)


def check_hashable(flat: Sequence[Any], lengths: np.ndarray) -> None:
    """Raise, naming the place, at the first label that cannot be one because it is not hashable."""
    try:
        set(flat)
    except TypeError:
        at = next(k for k, label in enumerate(flat) if not isinstance(label, Hashable))
        raise InputError(f"{place(at, lengths)}: the label {flat[at]!r:.60} is not hashable") from None


def is_label(label: Any) -> bool:
    """Whether something hashable can be a label: not NaN or NaT, which equal nothing, nor infinite."""
    if isinstance(label, (float, np.floating)):
        return bool(np.isfinite(label))
    try:
        return bool(label == label)
    except TypeError:  # as missing values of pandas, which are neither equal nor different
        return False


def checked_classes(classes: Any) -> list[Any]:
    """All labels there will ever be, as a list: each of them once, none of them None or NaN."""
    check_ordered(classes, "classes", "a list of labels")
    labels = classes.tolist() if isinstance(classes, np.ndarray) else list(classes)
    seen: set[Any] = set()
    for k, label in enumerate(labels):
        if not isinstance(label, Hashable) or label is None or not is_label(label):
            raise InputError(f"classes[{k}] is {label!r:.60}, which cannot be a label")
        if label in seen:
            raise InputError(f"classes[{k}] is {label!r:.60}, which is there twice")
        seen.add(label)
    if not labels:
        raise InputError("classes is empty; at least one label is needed")
    return labels


def classes_array(labels: Sequence[Any]) -> np.ndarray:
    """Numbers as a numeric array, anything else as an array of objects."""
    if all(isinstance(label, (bool, int, float, np.number)) for label in labels):
        array = np.array(labels)
        if array.dtype.kind in "biuf" and array.tolist() == list(labels):
            return array
    result = np.empty(len(labels), object)
    result[:] = labels
    return result


def encode_labels(
    flat: Sequence[Any], labels: Sequence[Any], lengths: np.ndarray, name: str = "y"
) -> np.ndarray:
    """Numbers of the labels, int64 (n_positions,); −1 for None; raises where one is not among `labels`."""
    index = {label: k for k, label in enumerate(labels)} | {None: -1}
    try:
        return np.fromiter(map(index.__getitem__, flat), np.int64, len(flat))
    except (KeyError, TypeError):
        at = next(k for k, each in enumerate(flat) if not isinstance(each, Hashable) or each not in index)
        what = f"{place(at, lengths, name)}: the label {flat[at]!r:.60} was not in training"
        raise InputError(what + known_labels(labels)) from None


def known_labels(labels: Sequence[Any]) -> str:
    """The end of a message on a label that training has not seen."""
    if not len(labels):
        return ""
    return f", where the labels are {', '.join(map(str, labels[:8]))}{', …' if len(labels) > 8 else ''}"


def place(at: int, lengths: np.ndarray, name: str = "y") -> str:
    """Sequence and position of an index over all positions, in words."""
    sequence, position = locate(at, lengths)
    return f"{name}: sequence {sequence}, position {position}"


def unknown_labels(found: Iterable[Any], known: Iterable[Any]) -> str:
    """What is to be said of labels that training did not have: all their names; "" if there are none."""
    unknown = set(found) - {None, *known}
    names = ", ".join(sorted(map(repr, unknown)))
    return f"labels that were not in training and so count as errors: {names}" if unknown else ""


def warn_of_unknown(
    found: Iterable[Any], known: Iterable[Any], of: str = "y has", stacklevel: int = 3
) -> None:
    """Warn of labels that can never be predicted."""
    words = unknown_labels(found, known)
    if words:
        warnings.warn(f"{of} {words}", stacklevel=stacklevel)


def share_right(
    true: Sequence[Any], predicted: Iterable[Any], known: Sequence[Any], weights: np.ndarray
) -> float:
    """The share of labels that are right; those that are None do not count.

    Labels that were not in training can never be predicted and count as errors; a warning names them.

    Parameters
    ----------
    true, predicted : labels of all positions
    known : sequence of labels
        Those of training.
    weights : float64 array (n_positions,)
    """
    warn_of_unknown(set(true), known, stacklevel=4)
    counted = weights * np.array([label is not None for label in true], bool)
    right = np.fromiter(map(eq, true, predicted), bool, len(true))
    total = float(counted.sum())
    return float(counted @ right / total) if total else 0.0


def split(flat: Any, lengths: np.ndarray) -> list[Any]:
    """Cut a flat list or array into one slice per sequence."""
    return [flat[a:b] for a, b in pairwise(offsets(lengths).tolist())]


def check_masks(
    structure: Any,
    codes: np.ndarray,
    lengths: np.ndarray,
    labels: Sequence[Any],
    why: str,
    first_one: int = 0,
) -> None:
    """Raise, naming the place and the labels, where known labels break the structure's masks.

    `first_one` is the number of the first sequence.
    """
    starts = offsets(lengths)
    first, last = starts[:-1][lengths > 0], starts[1:][lengths > 0] - 1
    broken = np.zeros(len(codes), bool)
    known = codes >= 0
    if structure.allowed is not None:
        pair = known[1:] & known[:-1]
        pair[first[1:] - 1] = False
        broken[1:][pair] = ~structure.allowed[codes[:-1][pair], codes[1:][pair]]
    for where, mask in ((first, structure.allowed_start), (last, structure.allowed_end)):
        if mask is not None:
            where = where[known[where]]
            broken[where] |= ~mask[codes[where]]
    if broken.any():
        at = int(broken.argmax())
        sequence, position = locate(at, lengths)
        before = (
            "the start" if position == 0 else "None" if codes[at - 1] < 0 else repr(labels[codes[at - 1]])
        )
        raise InputError(
            f"y: sequence {first_one + sequence}, position {position}: {labels[codes[at]]!r} after {before} "
            f"(of {lengths[sequence]} positions) is not possible under {why}"
        )
