"""Which labels an example has: a graph over the labels, each of them there or not, and one row of features for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from partwise.errors import InputError
from partwise.structures import FactorGraph, Graph
from partwise.structures.contract import RowKind, Shapes
from partwise.structures.graphs.layout import FactorKind, GraphShape
from partwise.structures.graphs.parts import LabelledGraph

LABELS, PAIRS = "labels", "pairs"


class _OneRow(LabelledGraph):
    """All vertices of an example are fed by one row, of kind "labels"; the tables of the pairs, which all examples
    share, are one kind "pairs". Parts lie as in any graph with a vertex a label and a table a pair.

    Parameters
    ----------
    n_labels : int
    pairs : sequence of (int, int)
        The labels that are scored together.
    """

    def __init__(self, n_labels: int, pairs: Sequence[tuple[int, int]], **options: Any):
        factors = [FactorKind(f"{a}-{b}", ("label", "label"), tied=True) for a, b in pairs]
        super().__init__({"label": 2}, factors, **options)
        tied = (RowKind(PAIRS, 4 * len(pairs), tied=True),) if len(pairs) else ()
        self.kinds = (RowKind(LABELS, 2 * n_labels), *tied)

    def row_counts(self, shapes: Shapes) -> tuple[np.ndarray, ...]:
        return (np.ones(len(shapes.ptr) - 1, np.int64),)


class LabelSet(_OneRow, Graph):
    """Which labels an example has, summed over exactly."""


class RelaxedLabelSet(_OneRow, FactorGraph):
    """Which labels an example has, by a relaxation."""


def label_structure(
    n_labels: int, pairs: Sequence[tuple[int, int]], inference: str, **options: Any
) -> LabelSet | RelaxedLabelSet:
    """The structure for "exact" or "tree-reweighted" inference; `options` are those of ``Graph``."""
    if inference == "exact":
        return LabelSet(n_labels, pairs, **options)
    return RelaxedLabelSet(n_labels, pairs, engine=inference)


def label_shapes(structure: Any, n_labels: int, pairs: Sequence[tuple[int, int]], n: int) -> Shapes:
    """Shapes of n examples, which are all alike."""
    scopes = [np.array([pair], np.int64) for pair in pairs]
    one = structure.shapes_of([GraphShape(np.zeros(n_labels, np.int64), scopes)])
    size = len(one.values)
    return Shapes(np.arange(n + 1, dtype=np.int64) * size, np.tile(one.values, n))


def chosen_pairs(graph: Any, y: np.ndarray) -> list[tuple[int, int]]:
    """The pairs of labels that a graph over them has.

    Parameters
    ----------
    graph : {"full", "tree", "none"} or list of pairs
    y : int64 array, shape (n, n_labels)
        What "tree" is learnt from.
    """
    n_labels = y.shape[1]
    if isinstance(graph, str):
        if graph == "full":
            return [(a, b) for a in range(n_labels) for b in range(a + 1, n_labels)]
        if graph == "tree":
            return chow_liu(y)
        if graph == "none":
            return []
        raise InputError(
            f"graph must be 'full', 'tree', 'none' or a list of pairs of labels, not {graph!r:.60}"
        )
    return checked_pairs(graph, n_labels)


def checked_pairs(pairs: Any, n_labels: int) -> list[tuple[int, int]]:
    """Pairs of different labels, the smaller number first, none twice."""
    try:
        array = np.asarray(pairs)
        if array.size and (array.dtype.kind not in "iu" or array.ndim != 2 or array.shape[1] != 2):
            raise TypeError
    except (TypeError, ValueError):
        raise InputError(f"graph is {pairs!r:.60}; it must be a list of pairs of numbers of labels") from None
    found = [(min(pair), max(pair)) for pair in array.reshape(-1, 2).astype(np.int64).tolist()]
    for a, b in found:
        if a == b or not 0 <= a < b < n_labels:
            raise InputError(f"graph has the pair {(a, b)}; it must be two labels from 0 to {n_labels - 1}")
    if len(set(found)) != len(found):
        raise InputError("graph has a pair of labels twice")
    return found


def chow_liu(y: np.ndarray) -> list[tuple[int, int]]:
    """The tree of pairs with the largest mutual information (Chow and Liu, 1968), by Prim's algorithm.

    Parameters
    ----------
    y : int array of 0 and 1, shape (n, n_labels)
    """
    information = mutual_information(y)
    n_labels, inside, tree = len(information), [0], []
    outside = list(range(1, n_labels))
    while outside:
        block = information[np.ix_(inside, outside)]
        at, other = np.unravel_index(int(block.argmax()), block.shape)
        a, b = inside[at], outside[other]
        tree.append((min(a, b), max(a, b)))
        inside.append(outside.pop(int(other)))
    return sorted(tree)


def mutual_information(y: np.ndarray) -> np.ndarray:
    """Of every two columns of 0 and 1, in nats, (n_labels, n_labels)."""
    y = np.asarray(y, np.float64)
    n, on = len(y), y.mean(axis=0)
    both = y.T @ y / n
    total = np.zeros(both.shape)
    for joint, first, second in (
        (both, on[:, None], on[None, :]),
        (on[:, None] - both, on[:, None], 1 - on[None, :]),
        (on[None, :] - both, 1 - on[:, None], on[None, :]),
        (1 - on[:, None] - on[None, :] + both, 1 - on[:, None], 1 - on[None, :]),
    ):
        with np.errstate(divide="ignore", invalid="ignore"):
            total += np.where(joint > 1e-12, joint * np.log(joint / (first * second)), 0.0)
    return total
