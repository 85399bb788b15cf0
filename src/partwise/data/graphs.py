"""Graphs whose nodes get labels: features of nodes, edges and larger factors, which have kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from partwise.core.memory_limits import machine_bytes
from partwise.errors import InputError


class GraphFactor(NamedTuple):
    """Some nodes whose labels are scored together; an edge is a factor of two nodes.

    Attributes
    ----------
    nodes : tuple of int
        The order matters: all factors of a kind score labels in this order.
    features : dict, list of str, vector, or None
        None if the weights of the kind are the scores.
    kind : str or None
        Factors of a kind share weights; None means one kind per combination of the nodes' kinds.
    """

    nodes: tuple[int, ...]
    features: Any = None
    kind: str | None = None


@dataclass
class GraphExample:
    """One graph.

    Attributes
    ----------
    node_features : array or sparse matrix (n_nodes, d), or list of n_nodes dicts, lists of strings or vectors
    edges : int array (n_edges, 2)
        Numbers of nodes. The order of the two nodes matters.
    edge_features : array or sparse matrix (n_edges, d), or list of n_edges dicts, lists of strings, vectors or None
        None if edges have no features: their weights are then tied.
    node_kinds : list of n_nodes str, or None
        Nodes of a kind share labels and weights.
    edge_kinds : list of n_edges (str or None), or None
        Edges of a kind share weights.
    factors : list of GraphFactor
        Of three nodes or more.
    """

    node_features: Any
    edges: Any = ()
    edge_features: Any = None
    node_kinds: Sequence[str] | None = None
    edge_kinds: Sequence[str | None] | None = None
    factors: Sequence[GraphFactor] = field(default_factory=list)

    @property
    def n_nodes(self) -> int:
        shape = getattr(self.node_features, "shape", None)
        return int(shape[0]) if shape else len(self.node_features)


@dataclass
class Graphs:
    """Graphs read from a file.

    Attributes
    ----------
    graphs : list of GraphExample
    labels : list of lists of (str or None), or None
        One label per node, None if unknown; None instead of the list if no graph has labels.
    """

    graphs: list[GraphExample]
    labels: list[list[str | None]] | None


def grid_graph(image: Any, neighbours: int = 4, window: int = 0, ends: bool = False) -> GraphExample:
    """The graph of an image: one node per pixel, row by row, and edges between neighbours.

    Parameters
    ----------
    image : array_like (height, width) or (height, width, channels)
    neighbours : {4, 8}
        Edges to the right and down, with 8 also down to the right and down to the left.
    window : int
        A node's features are the channels of all pixels up to this far from its own, zeros beyond the border.
    ends : bool
        Edges have the features of both their nodes, separate for each direction, instead of only their direction.

    Returns
    -------
    GraphExample
        Node features (n, (2·window + 1)² · channels); edge features have a column for each direction, or with
        `ends` two blocks of node features for each, the first node's before the second's.
    """
    pixels = _pixels(image)
    if neighbours not in (4, 8):
        raise InputError(f"neighbours must be 4 or 8, not {neighbours!r:.40}")
    if isinstance(window, bool) or not isinstance(window, (int, np.integer)) or window < 0:
        raise InputError(f"window must be a whole number of pixels, 0 or more, not {window!r:.40}")
    height, width = pixels.shape[:2]
    n_bytes = 8 * pixels.size * (2 * int(window) + 1) ** 2
    if n_bytes > machine_bytes():
        raise InputError(f"window={window!r:.40} takes {1e-9 * n_bytes:,.1f} GB of memory for this image")
    node_features = _windows(pixels, int(window)).reshape(height * width, -1)
    steps = [(0, 1), (1, 0), (1, 1), (1, -1)][: neighbours // 2]
    blocks = [_edges_along(height, width, *step) for step in steps]
    direction = np.repeat(np.arange(len(steps)), [len(block) for block in blocks])
    edges = np.concatenate(blocks)
    if not ends:
        return GraphExample(node_features, edges, np.eye(len(steps))[direction])
    n_features = node_features.shape[1]
    both = np.concatenate([node_features[edges[:, 0]], node_features[edges[:, 1]]], axis=1)
    edge_features = np.zeros((len(edges), len(steps), 2 * n_features))
    edge_features[np.arange(len(edges)), direction] = both
    return GraphExample(node_features, edges, edge_features.reshape(len(edges), -1))


def _pixels(image: Any) -> np.ndarray:
    try:
        pixels = np.asarray(image, np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"image is {type(image).__name__}; it must be an array (height, width[, channels])"
        ) from None
    if pixels.ndim == 2:
        pixels = pixels[:, :, None]
    if pixels.ndim != 3 or not pixels.size:
        raise InputError(
            f"image has shape {np.shape(image)}; it must be (height, width) or (height, width, channels)"
        )
    return pixels


def _windows(pixels: np.ndarray, window: int) -> np.ndarray:
    """The window around every pixel, (height, width, (2·window + 1)², channels), row by row."""
    height, width, n_channels = pixels.shape
    padded = np.pad(pixels, ((window, window), (window, window), (0, 0)))
    size = 2 * window + 1
    result = np.empty((height, width, size * size, n_channels))
    for place in range(size * size):
        row, column = divmod(place, size)
        result[:, :, place] = padded[row : row + height, column : column + width]
    return result


def _edges_along(height: int, width: int, down: int, right: int) -> np.ndarray:
    """Pairs of pixels that are one step apart, int64 (n, 2)."""
    numbers = np.arange(height * width).reshape(height, width)
    columns = slice(max(0, -right), width - max(0, right))
    first = numbers[: height - down, columns]
    second = numbers[down:, columns.start + right : columns.stop + right]
    return np.column_stack([first.ravel(), second.ravel()])
