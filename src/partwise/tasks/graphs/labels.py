"""Labels of nodes by kind: to numbers and back."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from partwise.core.arrays import locate
from partwise.errors import InputError
from partwise.estimators.labels import checked_classes, classes_array, in_order, is_label
from partwise.tasks.graphs.data import GraphCorpus


class NodeLabels:
    """The labels of every kind of nodes.

    Attributes
    ----------
    classes : dict of str to ndarray (n_labels,)
        By kind, in the order of their numbers.
    """

    def __init__(self, classes: dict[str, np.ndarray]):
        self.classes = classes

    @classmethod
    def of(cls, flat: list[Any], corpus: GraphCorpus, given: Any = None) -> NodeLabels:
        """Those that occur, sorted, or those that are given: a list, or lists by kind."""
        if isinstance(given, Mapping):
            unknown = [name for name in given if name not in corpus.kinds]
            if unknown:
                raise InputError(f"classes names {unknown[0]!r:.60}, and X has no nodes of that kind")
        found = {}
        for k, name in enumerate(corpus.kinds):
            own = given.get(name) if isinstance(given, Mapping) else given
            if own is not None:
                found[name] = classes_array(checked_classes(own))
                continue
            places = np.flatnonzero(corpus.node_kind == k).tolist()
            found[name] = _distinct([flat[place] for place in places], places, corpus)
        return cls(found)

    @property
    def sizes(self) -> list[int]:
        return [len(own) for own in self.classes.values()]

    def codes(self, flat: list[Any], corpus: GraphCorpus, name: str = "y", free: bool = False) -> np.ndarray:
        """Numbers of labels within their kinds, int64 (n_nodes,).

        Parameters
        ----------
        free : bool
            None stands for −1: a node whose label is not given.
        """
        tables = [{label: k for k, label in enumerate(self.classes[kind].tolist())} for kind in corpus.kinds]
        if free:
            tables = [table | {None: -1} for table in tables]
        result = np.empty(len(flat), np.int64)
        for at, (label, kind) in enumerate(zip(flat, corpus.node_kind.tolist(), strict=True)):
            code = tables[kind].get(label) if isinstance(label, Hashable) else None
            if code is None:
                raise InputError(_unknown(label, at, corpus, name, self.classes[corpus.kinds[kind]]))
            result[at] = code
        return result

    def named(self, codes: np.ndarray, corpus: GraphCorpus) -> list[np.ndarray]:
        """Labels of the nodes of every graph."""
        return np.split(self.named_nodes(codes, corpus.node_kind, corpus.kinds), corpus.starts()[1:-1])

    def named_nodes(self, codes: np.ndarray, node_kind: np.ndarray, kinds: list[str]) -> np.ndarray:
        """Labels of some nodes, whose kinds are indices into `kinds`."""
        if len(self.classes) == 1:
            return next(iter(self.classes.values()))[codes]
        result = np.empty(len(codes), object)
        for k, kind in enumerate(kinds):
            own = node_kind == k
            result[own] = self.classes[kind][codes[own]]
        return result

    def as_attribute(self) -> Any:
        """What estimators call `classes_`: an array, or with several kinds of nodes a dict of them."""
        return dict(self.classes) if len(self.classes) > 1 else next(iter(self.classes.values()))

    def every(self) -> list[Any]:
        """All labels there are, of whatever kind."""
        return list(dict.fromkeys(label for own in self.classes.values() for label in own.tolist()))


def _distinct(labels: list[Any], places: list[int], corpus: GraphCorpus) -> np.ndarray:
    for label, at in zip(labels, places, strict=True):
        if label is None:
            raise InputError(f"{place(at, corpus, 'y')} has no label; training needs one at every node")
        if not isinstance(label, Hashable) or not is_label(label):
            raise InputError(f"{place(at, corpus, 'y')} has {label!r:.60}, which cannot be a label")
    return classes_array(in_order(dict.fromkeys(labels)))


def _unknown(label: Any, at: int, corpus: GraphCorpus, name: str, classes: np.ndarray) -> str:
    where = place(at, corpus, name)
    if label is None:
        return f"{where} has no label; every node needs one here"
    known = ", ".join(map(str, classes[:8].tolist())) + (", …" if len(classes) > 8 else "")
    return f"{where} has the label {label!r:.60}, which was not in training; its kind's labels are {known}"


def place(at: int, corpus: GraphCorpus, name: str) -> str:
    """Graph and node of an index over all nodes, in words."""
    graph, node = locate(at, corpus.lengths)
    return f"{name}: node {node} of graph {graph}"
