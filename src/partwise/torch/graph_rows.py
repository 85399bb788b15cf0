"""The rows that feed the score tensors of graphs. Every batch brings its own edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from partwise.errors import InputError
from partwise.structures.contract import Shapes, Structure
from partwise.structures.graphs.graph import Graph
from partwise.structures.graphs.layout import GraphShape
from partwise.torch.layouts.graphs import GraphLayout
from partwise.torch.rows import FedTensor, Feed

Edges = tuple[tuple[int, int], ...]


class GraphFeed(Feed):
    """Vertices of one kind and edges of one kind, whose table is shared or fed by rows of the edges.

    The outputs of a module are (vertices, edges), or (vertices, edges, activations of edges).
    """

    structure: Graph

    def __init__(self, structure: Graph, edges: Edges = ()):
        if len(structure.vertices) != 1 or len(structure.factors) != 1:
            raise InputError(
                "a head on a graph needs one kind of vertices and one of edges between two of them, as in "
                "Graph({'vertex': 3}, [FactorKind('edge', ('vertex', 'vertex'), tied=True)])"
            )
        ((name, n_labels),), (factor,) = structure.vertices.items(), structure.factors
        if len(factor.vertices) != 2:
            raise InputError(f"a head on a graph needs edges of two vertices, not of {len(factor.vertices)}")
        self.structure, self.edges, self.layout = structure, edges, GraphLayout(structure, edges)
        every = np.arange(n_labels**2)
        self.tensors = (
            FedTensor(name, 0, (n_labels,), every[:n_labels], False),
            FedTensor(factor.name, 1, (n_labels, n_labels), every, factor.tied),
        )

    def axes(self, name: str, longest: int) -> tuple[int, ...]:
        return (longest,) if name == self.tensors[0].name else (len(self.edges),)

    def shapes(self, lengths: np.ndarray) -> Shapes:
        pairs = np.array(self.edges, np.int64).reshape(-1, 2)
        return self.structure.shapes_of([GraphShape(np.zeros(n, np.int64), [pairs]) for n in lengths])

    def of_batch(self, given: tuple[Any, ...]) -> tuple[Feed, tuple[Any, ...]]:
        if len(given) < 2:
            raise InputError("a module for graphs gives activations of vertices, and edges (E, 2)")
        pairs = torch.as_tensor(given[1]).cpu().numpy()
        if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
            raise InputError(f"edges must be whole numbers of shape (E, 2), not {pairs.shape}")
        bound = GraphFeed(self.structure, tuple(map(tuple, pairs.tolist())))
        return bound, (given[0], *given[2:])

    def arguments(self, scores: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        vertex, table = scores
        if table.ndim == 2:
            table = table.expand(len(self.edges), *table.shape)
        return vertex, torch.tensor(self.edges, dtype=torch.int64).reshape(-1, 2), table


def feed_for(structure: Structure) -> Feed:
    """The rows that feed the score tensors of any structure."""
    return GraphFeed(structure) if isinstance(structure, Graph) else Feed(structure)
