"""Read the scores of chains as users pass them, one sequence or a list, into vectors for compiled code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from partwise.compiled.simd import LANES
from partwise.core.arrays import offsets
from partwise.errors import InputError
from partwise.structures.checks import checked_labels, checked_scores, is_single, shape_text

ArrayOrList = ArrayLike | Sequence[ArrayLike]


class ChainScores(NamedTuple):
    """Checked scores of n sequences with N positions in all.

    Attributes
    ----------
    nodes : float64 array, shape (N, n_labels)
        With start and end scores added.
    starts : int64 array, shape (n + 1,)
        Offsets of the sequences in `nodes`.
    edges : list of float64 arrays
        One per sequence: the tied block, or (length - 1, n_labels, n_labels).
    per_position : bool
        Whether edges are one block per position.
    single : bool
        One sequence was given, not a list of one.
    """

    nodes: np.ndarray
    starts: np.ndarray
    edges: list[np.ndarray]
    per_position: bool
    single: bool

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.starts)

    def vector(self) -> np.ndarray:
        """[nodes][edges] of each sequence in turn, with slack behind."""
        flat, bounds = self.nodes.reshape(-1), (self.starts * self.nodes.shape[1]).tolist()
        pieces = [np.zeros(LANES)] * (2 * len(self.edges) + 1)
        pieces[0:-1:2] = [flat[a:b] for a, b in pairwise(bounds)]
        pieces[1::2] = [edge.reshape(-1) for edge in self.edges]
        return np.concatenate(pieces)

    def vectors(self) -> Iterator[tuple[int, np.ndarray]]:
        """Length and [nodes][edges] of one sequence after another, with slack behind each."""
        for edges, (first, last) in zip(self.edges, pairwise(self.starts.tolist()), strict=True):
            nodes = self.nodes[first:last]
            yield last - first, np.concatenate([nodes.reshape(-1), edges.reshape(-1), np.zeros(LANES)])


def read_scores(
    n_labels: int, order: int, node_scores: Any, edge_scores: Any, start_scores: Any, end_scores: Any
) -> ChainScores:
    """Check all arguments; an :class:`InputError` names the one that is wrong."""
    single = is_single(node_scores)
    nodes, starts = _read_nodes(n_labels, node_scores, single)
    edges, per_position = _read_edges(n_labels, order, edge_scores, np.diff(starts), single)
    for name, scores, rows in (
        ("start_scores", start_scores, starts[:-1]),
        ("end_scores", end_scores, starts[1:] - 1),
    ):
        if scores is not None:
            nodes[rows] += checked_scores(scores, name, (n_labels,))
    return ChainScores(nodes, starts, edges, per_position, single)


def _read_nodes(n_labels: int, node_scores: Any, single: bool) -> tuple[np.ndarray, np.ndarray]:
    """All positions in one new array, and offsets of the sequences."""
    sequences = [node_scores] if single else list(node_scores)
    name = "node_scores"
    try:
        nodes = np.concatenate([np.zeros((0, n_labels)), *sequences])
        lengths = [len(sequence) for sequence in sequences]
        fits = nodes.dtype == np.float64 and bool((nodes < np.inf).all())
    except (TypeError, ValueError):
        fits = False
    if not fits:  # say which one, with its shape
        arrays = [
            checked_scores(sequence, name if single else f"{name}[{i}]", (None, n_labels))
            for i, sequence in enumerate(sequences)
        ]
        nodes, lengths = np.concatenate(arrays), [len(array) for array in arrays]
    if 0 in lengths:
        where = name if single else f"{name}[{lengths.index(0)}]"
        raise InputError(f"{where} has no positions; a sequence needs at least one")
    return nodes, offsets(np.array(lengths, np.int64))


def _read_edges(
    n_labels: int, order: int, edge_scores: Any, lengths: np.ndarray, single: bool
) -> tuple[list[np.ndarray], bool]:
    tied_shape = (n_labels + 1,) * order + (n_labels,) if order > 1 else (n_labels, n_labels)
    name, dimensions = "edge_scores", _dimensions(edge_scores)
    if dimensions == len(tied_shape) and (single or _shape(edge_scores) == tied_shape):
        return [checked_scores(edge_scores, name, tied_shape)] * len(lengths), False
    if single and not (order == 1 and dimensions == 3):
        positions = f" or (length - 1, {n_labels}, {n_labels})" if order == 1 else ""
        raise InputError(
            f"{name} has shape {_shape(edge_scores)}, expected {shape_text(tied_shape)}{positions}"
        )
    given = [edge_scores] if single else list(edge_scores)
    if len(given) != len(lengths):
        raise InputError(
            f"{name} is neither of shape {shape_text(tied_shape)} nor a list of {len(lengths)} arrays, "
            "one per sequence"
        )
    edges = []
    per_position = order == 1 and any(np.ndim(array) == 3 for array in given)
    for i, (array, length) in enumerate(zip(given, lengths.tolist(), strict=True)):
        tied = np.ndim(array) == len(tied_shape)
        shape = tied_shape if tied or not per_position else (length - 1, *tied_shape)
        checked = checked_scores(array, name if single else f"{name}[{i}]", shape)
        spread = tied and per_position
        edges.append(np.broadcast_to(checked, (length - 1, *tied_shape)) if spread else checked)
    return edges, per_position


def _dimensions(values: Any) -> int:
    """Number of axes, from the first entries of nested lists."""
    if isinstance(values, list | tuple):
        return 1 + (_dimensions(values[0]) if values else 0)
    return np.ndim(values)


def _shape(values: Any) -> tuple[int, ...] | str:
    try:
        return np.shape(values)
    except ValueError:
        return "ragged"


def add_costs(scores: ChainScores, y: Any, cost: Any) -> ChainScores:
    """Add the cost of every label to its node score, counted from the true labels `y`."""
    n_labels = scores.nodes.shape[1]
    given = [y] if scores.single else list(y)
    if len(given) != len(scores.edges):
        raise InputError(f"y has {len(given)} sequences, node_scores has {len(scores.edges)}")
    labels = []
    for i, (sequence, length) in enumerate(zip(given, scores.lengths.tolist(), strict=True)):
        name = "y" if scores.single else f"y[{i}]"
        labels.append(checked_labels(sequence, name, n_labels))
        if len(labels[-1]) != length:
            raise InputError(f"{name} has {len(labels[-1])} labels for {length} positions")
    if np.ndim(cost) if not isinstance(cost, list | tuple) else True:
        costs, starts = _read_nodes(n_labels, cost, scores.single)
        if not np.array_equal(starts, scores.starts):
            raise InputError("cost must be a number, or arrays of the shapes of node_scores")
    else:
        costs = np.full(scores.nodes.shape, float(checked_scores(cost, "cost", ())))
        costs[np.arange(len(costs)), np.concatenate([np.empty(0, np.int64), *labels])] = 0.0
    return scores._replace(nodes=scores.nodes + costs)
