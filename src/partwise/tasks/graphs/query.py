"""Graphs encoded for a model: where their nodes' parts lie, and what given labels leave out."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from partwise.core.arrays import block_of, offsets, positions, ranges
from partwise.core.scorer import Scorer
from partwise.errors import InputError
from partwise.estimators.encoded import Encoded
from partwise.estimators.model import Excluded, LinearModel
from partwise.structures.contract import Shapes
from partwise.structures.graphs.layout import blocks_of
from partwise.tasks.graphs.data import GraphCorpus


class GraphQuery:
    """Graphs encoded for a model, with the labels that are given.

    Parameters
    ----------
    fixed : int64 array, shape (n_nodes,), or None
        −1 where a node is free.
    """

    def __init__(self, corpus: GraphCorpus, model: LinearModel, encoded: Encoded, fixed: np.ndarray | None):
        self.corpus, self.model, self.encoded, self.fixed = corpus, model, encoded, fixed

    @cached_property
    def scorer(self) -> Scorer:
        return self.model.scorer(self.encoded)

    @property
    def shapes(self) -> Shapes:
        assert self.encoded.shapes is not None
        return self.encoded.shapes

    @cached_property
    def node_parts(self) -> tuple[np.ndarray, np.ndarray]:
        """First part of every node, within its graph, and how many there are; int64 (n_nodes,)."""
        blocks = blocks_of(self.shapes)
        return blocks.vertex_part, blocks.labels

    @property
    def excluded(self) -> Excluded | None:
        """What `fixed` leaves no labelling."""
        if self.fixed is None:
            return None
        first, labels = self.node_parts
        known = np.flatnonzero(self.fixed >= 0)
        others = labels[known] - 1
        entry = positions(others)
        entry += entry >= np.repeat(self.fixed[known], others)
        graph = np.repeat(block_of(self.corpus.starts())[known], others)
        sizes = np.bincount(graph, minlength=len(self.corpus.lengths))
        return Excluded(offsets(sizes), np.repeat(first[known], others) + entry)

    def require_possible(self, values: np.ndarray) -> None:
        if (values == -np.inf).any():
            raise InputError(f"X: graph {int(np.argmax(values == -np.inf))}: no labelling satisfies fixed")

    def per_node(self, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Entries of all nodes' parts, node after node, and how many each has, from those of all parts."""
        first, labels = self.node_parts
        graph = block_of(self.corpus.starts())
        return counts[ranges(self.scorer.batch.part_ptr[graph] + first, labels)], labels
