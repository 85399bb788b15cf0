"""Graphs of one form: `vertex_scores` (B, V, S), `edges` (E, 2), `edge_scores` (E, S, S) or (B, E, S, S)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from partwise.core.arrays import offsets
from partwise.errors import InputError
from partwise.structures.contract import Shapes
from partwise.structures.costs import cost_matrix
from partwise.structures.graphs.graph import Graph
from partwise.structures.graphs.layout import check_scopes
from partwise.structures.graphs.scores import TableGraph
from partwise.torch.layouts.arrangement import Arrangement
from partwise.torch.layouts.base import Layout, on_host, require_tensor, unpadded, whole_numbers
from partwise.torch.layouts.part_map import PartMap


class GraphLayout(Layout):
    """All graphs of a batch have the same edges. A batch of labellings is int64 (B, V)."""

    names = ("vertex_scores", "edge_scores")
    structure: Graph

    def __init__(self, structure: Graph, edges: tuple[tuple[int, int], ...] = ()):
        super().__init__(structure)
        self.edges = edges

    def _key(self) -> tuple[Any, ...]:
        return id(self.structure), self.edges

    def batch(self, scores: tuple[Any, ...], lengths: Any, validate: bool | None) -> Any:
        if lengths is not None:
            raise InputError("graphs of a batch have one form: lengths are not taken")
        if len(scores) != 3:
            raise InputError("a graph takes vertex_scores, edges and edge_scores")
        pairs = on_host(whole_numbers(scores[1], "edges"))
        if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
            raise InputError(f"edges must be whole numbers of shape (E, 2), not {pairs.shape}")
        layout = GraphLayout(self.structure, tuple(map(tuple, pairs.tolist())))
        return Layout.batch(layout, (scores[0], scores[2]), None, validate)

    def read(self, scores: tuple[Any, ...]) -> tuple[tuple[torch.Tensor, ...], int, bool]:
        vertex = require_tensor(scores[0], "vertex_scores", (None,) * 3, "(batch, vertices, labels)")
        (n, V, S), E, edge = vertex.shape, len(self.edges), scores[1]
        check_scopes(np.array(self.edges, np.int64).reshape(-1, 2), V, "edges")
        if isinstance(edge, torch.Tensor) and edge.ndim == 4:
            return (
                (vertex, require_tensor(edge, "edge_scores", (n, E, S, S), f"({n}, {E}, {S}, {S})")),
                n,
                False,
            )
        what = f"({E}, {S}, {S}) or ({n}, {E}, {S}, {S})"
        return (vertex, require_tensor(edge, "edge_scores", (E, S, S), what)), n, True

    def arrange(self, sizes: tuple[tuple[int, ...], ...], lengths: np.ndarray) -> Arrangement:
        (n, V, S), E = sizes[0], len(self.edges)
        pairs = np.array(self.edges, np.int64).reshape(-1, 2)
        row = self.structure.row_of_tables(TableGraph(np.full(V, S), np.full(E, 2), pairs.reshape(-1)))
        shapes = Shapes(np.arange(n + 1) * len(row), np.tile(row, n))
        n_vertex, n_edge, example = V * S, E * S * S, np.arange(n)[:, None]
        part_ptr = offsets(np.full(n, n_vertex + n_edge))
        places = tuple(
            PartMap.of(
                (part_ptr[:-1, None] + start + np.arange(size)).ravel(),
                (example * size + np.arange(size)).ravel(),
            )
            for start, size in ((0, n_vertex), (n_vertex, n_edge))
        )
        return Arrangement(self.structure, self.structure.specification(), shapes, part_ptr, places)

    def flat_labels(self, target: Any, lengths: np.ndarray) -> np.ndarray:
        return unpadded(target, lengths)

    def costs(self, arrangement: Arrangement, labels: Any, cost: Any) -> np.ndarray:
        n, first = len(arrangement.part_ptr) - 1, arrangement.part_ptr[:-1]
        width = int(len(arrangement.maps[0].pairs()[0]) // max(len(labels), 1))
        matrix, per_graph = cost_matrix(cost, width), len(labels) // max(n, 1)
        result = np.zeros(int(arrangement.part_ptr[-1]))
        start = np.repeat(first, per_graph) + np.tile(np.arange(per_graph) * width, n)
        result[start[:, None] + np.arange(width)] = matrix[labels]
        return result

    def labels(self, found: Any, lengths: np.ndarray, device: torch.device) -> torch.Tensor:
        n_vertices = int(lengths[0]) if len(lengths) else 0
        return torch.from_numpy(np.asarray(found, np.int64).reshape(len(lengths), n_vertices)).to(device)

    def example(self, arrays: list[np.ndarray], i: int, length: int) -> tuple[Any, ...]:
        return arrays[0][i], np.array(self.edges, np.int64).reshape(-1, 2), arrays[1][i]

    def stacked(self, given: list[Any], lengths: np.ndarray, device: torch.device) -> torch.Tensor:
        return self.labels(np.concatenate([np.zeros(0, np.int64), *given]), lengths, device)
