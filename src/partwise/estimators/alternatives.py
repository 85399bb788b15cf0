"""Labels of training data that are not one label: sets of possible labels, and distributions over labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from partwise.core.arrays import offsets, positions, ranges
from partwise.core.rows import AttributeRows
from partwise.errors import InputError
from partwise.estimators.labels import is_label, known_labels

Where = Callable[[int], str]
_KINDS = (set, frozenset, Mapping)


class Alternatives(NamedTuple):
    """Positions that have several labels, with lists of these.

    Attributes
    ----------
    at : int64 array, shape (k,)
        The positions, in order.
    ptr : int64 array, shape (k + 1,)
    label : int64 array, shape (ptr[k],)
    share : float64 array, shape (ptr[k],)
        The probability of each label; the shares of a position add up to 1. Of sets it says nothing.
    """

    at: np.ndarray
    ptr: np.ndarray
    label: np.ndarray
    share: np.ndarray

    @classmethod
    def of(cls, lists: Mapping[int, Mapping[int, float]]) -> Alternatives:
        """From {position: {label: share}}."""
        at = np.array(sorted(lists), np.int64)
        sizes = np.array([len(lists[t]) for t in at.tolist()], np.int64)
        label = [label for t in at.tolist() for label in lists[t]]
        share = [share for t in at.tolist() for share in lists[t].values()]
        return cls(at, offsets(sizes), np.array(label, np.int64), np.array(share, np.float64))

    def __bool__(self) -> bool:
        return bool(len(self.at))

    @property
    def sizes(self) -> np.ndarray:
        """Labels of each position, int64 (k,)."""
        return np.diff(self.ptr)

    def with_more(self, other: Alternatives, n_positions: int) -> Alternatives:
        """These, and those of positions that follow the first `n_positions`."""
        return Alternatives(
            np.concatenate([self.at, other.at + n_positions]),
            np.concatenate([self.ptr, self.ptr[-1] + other.ptr[1:]]),
            np.concatenate([self.label, other.label]),
            np.concatenate([self.share, other.share]),
        )

    def kept(self, is_kept: np.ndarray) -> Alternatives:
        """Those of some positions, which are numbered anew; `is_kept` is (n_positions,) of bool."""
        own = np.flatnonzero(is_kept[self.at])
        inner = ranges(self.ptr[:-1][own], self.sizes[own])
        number = np.cumsum(is_kept) - 1
        return Alternatives(
            number[self.at[own]], offsets(self.sizes[own]), self.label[inner], self.share[inner]
        )

    def likeliest(self) -> np.ndarray:
        """The label with the largest share, the first of several, of every position, int64 (k,)."""
        order = np.lexsort((-self.share, np.repeat(np.arange(len(self.at)), self.sizes)))
        return self.label[order[self.ptr[:-1]]]


NONE = Alternatives.of({})


class Targets(NamedTuple):
    """Labels of positions as they came.

    Attributes
    ----------
    labels : list
        The label of every position; None where it was not observed, or where there are several.
    sets : dict of int to list
        The possible labels of positions that have a set.
    shares : dict of int to dict
        The distribution over labels of positions that have one.
    """

    labels: list[Any]
    sets: dict[int, list[Any]]
    shares: dict[int, dict[Any, float]]

    @classmethod
    def read(cls, flat: Sequence[Any], where: Where) -> Targets:
        """Check all sets and dicts.

        Parameters
        ----------
        where : callable
            The name of a position, for messages.
        """
        labels = list(flat)
        sets: dict[int, list[Any]] = {}
        shares: dict[int, dict[Any, float]] = {}
        if not holds_several(flat):
            return cls(labels, sets, shares)
        for at, target in enumerate(flat):
            if not isinstance(target, _KINDS):
                continue
            if isinstance(target, Mapping):
                found: Any = _shares(target, where(at))
            else:
                found = sorted(_members(target, where(at)), key=repr)
            [labels[at]] = found if len(found) == 1 else [None]
            if len(found) > 1:
                (shares if isinstance(target, Mapping) else sets)[at] = found
        return cls(labels, sets, shares)

    def every_label(self) -> list[Any]:
        """All labels, those of sets and distributions included."""
        more = [label for several in (self.sets, self.shares) for own in several.values() for label in own]
        return self.labels + more

    def numbered(self, labels: Sequence[Any], where: Where) -> tuple[Alternatives, Alternatives]:
        """Sets and distributions with numbers of labels. A set of all labels says nothing, and is left out."""
        index = {label: k for k, label in enumerate(labels)}
        for several in (self.sets, self.shares):
            for at, own in several.items():
                for label in own:
                    if label not in index:
                        what = f"{where(at)}: the label {label!r:.60} was not in training"
                        raise InputError(what + known_labels(labels))
        sets = {
            at: {index[label]: 1.0 / len(own) for label in own}
            for at, own in self.sets.items()
            if len(own) < len(labels)
        }
        shares = {
            at: {index[label]: share for label, share in own.items()} for at, own in self.shares.items()
        }
        return Alternatives.of(sets), Alternatives.of(shares)


def holds_several(flat: Iterable[Any]) -> bool:
    """Whether some target is a set or a distribution."""
    return any(issubclass(kind, _KINDS) for kind in set(map(type, flat)))


def _members(target: Iterable[Any], name: str) -> list[Any]:
    members = list(target)
    if not members:
        raise InputError(f"{name}: the set allows no label; use None where nothing is known")
    for label in members:
        if label is None or not isinstance(label, Hashable) or not is_label(label):
            raise InputError(f"{name}: the set holds {label!r:.60}, which cannot be a label")
    return members


def _shares(target: Mapping[Any, Any], name: str) -> dict[Any, float]:
    """The labels of a dict with weights above zero, and weights that add up to 1."""
    _members(target, name)
    for label, weight in target.items():
        is_number = isinstance(weight, (int, float, np.integer, np.floating))
        if not is_number or not math.isfinite(weight) or weight < 0:
            raise InputError(f"{name}: the weight of {label!r:.60} is {weight!r:.40}; it must be at least 0")
    total = float(sum(target.values()))
    if not 0.0 < total < math.inf:
        raise InputError(f"{name}: the weights of labels add up to {total:g}; one must be above 0")
    found = {label: float(weight) / total for label, weight in target.items()}
    return {label: share for label, share in found.items() if share > 0.0}


class LabelLists(NamedTuple):
    """All labels that positions may have: none where nothing is known.

    Attributes
    ----------
    ptr : int64 array, shape (n_positions + 1,)
    label : int64 array, shape (ptr[n_positions],)
    """

    ptr: np.ndarray
    label: np.ndarray

    @classmethod
    def of(cls, codes: np.ndarray, *several: Alternatives) -> LabelLists:
        """From numbers of labels, −1 where not observed, and lists in their place."""
        sizes = (codes >= 0).astype(np.int64)
        for own in several:
            sizes[own.at] = own.sizes
        ptr = offsets(sizes)
        label = np.zeros(ptr[-1], np.int64)
        single = np.flatnonzero((codes >= 0) & (sizes == 1))
        label[ptr[single]] = codes[single]
        for own in several:
            label[ranges(ptr[own.at], own.sizes)] = own.label
        return cls(ptr, label)

    def rows(self, rows: AttributeRows) -> tuple[AttributeRows, np.ndarray]:
        """Rows of positions, each as often as the position has labels, and the label of each."""
        return _repeated(rows, np.repeat(np.arange(len(self.ptr) - 1), np.diff(self.ptr))), self.label

    def pairs(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All pairs of labels of positions `at` and those before: numbers in `at`, labels before, labels here."""
        n_here = np.diff(self.ptr)[at]
        sizes = n_here * np.diff(self.ptr)[at - 1]
        pair, k = np.repeat(np.arange(len(at)), sizes), positions(sizes)
        before = self.label[self.ptr[at - 1][pair] + k // n_here[pair]]
        return pair, before, self.label[self.ptr[at][pair] + k % n_here[pair]]

    def edge_rows(
        self, rows: AttributeRows, at: np.ndarray, n_labels: int
    ) -> tuple[AttributeRows, np.ndarray]:
        """Rows of edges that end in positions `at`, each as often as there are pairs of labels, and these."""
        edge, before, here = self.pairs(at)
        return _repeated(rows, edge), before * n_labels + here


def _repeated(rows: AttributeRows, index: np.ndarray) -> AttributeRows:
    sizes = np.diff(rows.row_ptr)[index]
    return AttributeRows(offsets(sizes), rows.ids[ranges(rows.row_ptr[:-1][index], sizes)])
