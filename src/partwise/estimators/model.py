"""A linear model ready to predict: structure, layout, weights; compact, and the same after loading.

Weights are rounded to single precision and those that become zero are dropped, with the attributes that have
no other, when training ends. What predicts after `fit` is therefore exactly what a model file brings back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from partwise.compiled.examples import Batch, Scratch, make_scratch
from partwise.core.batch_pass import score_pass
from partwise.core.maps import FeatureMap
from partwise.core.predict_pass import counts_pass, decode_pass
from partwise.core.problem import lay_out
from partwise.errors import InputError
from partwise.estimators.encoded import Encoded
from partwise.estimators.encoders import smallest
from partwise.features.vocabulary import AttributeRows
from partwise.storage.checks import expect_array
from partwise.structures.contract import Structure, offsets

_WHOLE = tuple(np.dtype(kind) for kind in ("u1", "u2", "u4"))
_EVERYWHERE_FREE = np.zeros(0, np.int64)


class Pairs(NamedTuple):
    """Weights of (attribute, label) pairs, sorted, none of them zero; dense attributes come first.

    Attributes
    ----------
    attribute, label : int64 arrays, shape (n_pairs,)
    weight : float32 array, shape (n_pairs,)
    """

    attribute: np.ndarray
    label: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(cls, layout: FeatureMap, weights: np.ndarray) -> Pairs:
        """What is left of a group's weights in single precision."""
        attribute, label, index = layout.pairs()
        weight = weights[index].astype(np.float32)
        kept = np.flatnonzero(weight)
        order = kept[np.argsort(attribute[kept] * layout.width + label[kept])]
        return cls(attribute[order], label[order], weight[order])

    def renumbered(self, kept: np.ndarray, n_dense: int) -> Pairs:
        """With sparse attribute ``kept[k]`` called k."""
        sparse = np.searchsorted(kept, self.attribute - n_dense) + n_dense
        return self._replace(attribute=np.where(self.attribute < n_dense, self.attribute, sparse))

    def lay_out(self, width: int, n_dense: int, n_attributes: int) -> tuple[FeatureMap, np.ndarray]:
        """A layout with room for these pairs, and the weights in it."""
        is_sparse = self.attribute >= n_dense
        ids = (self.attribute[is_sparse] - n_dense).astype(np.int32)
        rows = AttributeRows(np.arange(len(ids) + 1), ids)
        layout = FeatureMap.build(width, n_attributes, n_dense, rows, self.label[is_sparse], "observed")
        attribute, label, index = layout.pairs()
        key = attribute * width + label
        order = np.argsort(key)
        places = np.searchsorted(key[order], self.attribute * width + self.label)
        weights = np.zeros(layout.n_weights)
        weights[index[order[places]]] = self.weight
        return layout, weights

    def state(self, prefix: str, n_attributes: int) -> dict[str, np.ndarray]:
        """Arrays for a model file; `n_attributes` counts dense ones too."""
        return {
            f"{prefix}_count": smallest(np.bincount(self.attribute, minlength=n_attributes)),
            f"{prefix}_label": smallest(self.label),
            f"{prefix}_weight": self.weight,
        }

    @classmethod
    def from_state(
        cls, arrays: Mapping[str, np.ndarray], prefix: str, n_attributes: int, width: int
    ) -> Pairs:
        count = expect_array(arrays, f"{prefix}_count", _WHOLE, shape=(n_attributes,))
        weight = expect_array(arrays, f"{prefix}_weight", np.float32)
        label = expect_array(arrays, f"{prefix}_label", _WHOLE, shape=weight.shape, high=width)
        if count.sum(dtype=np.int64) != len(weight):
            raise InputError(f"array '{prefix}_count' does not add up to the number of weights")
        attribute = np.repeat(np.arange(n_attributes), count)
        if (np.diff(attribute * width + label) <= 0).any():
            raise InputError(f"array '{prefix}_label' holds a label twice for one attribute")
        return cls(attribute, label.astype(np.int64), weight)


@dataclass(frozen=True)
class LinearModel:
    """Structure, node and edge layouts, and all weights: nodes, edges, tied block.

    Attributes
    ----------
    weights : ndarray (n_weights,)
        Double precision numbers that single precision can hold.
    """

    structure: Structure
    node_map: FeatureMap
    edge_map: FeatureMap | None
    weights: np.ndarray

    @property
    def n_edge_weights(self) -> int:
        return 0 if self.edge_map is None else self.edge_map.n_weights

    @property
    def node_weights(self) -> np.ndarray:
        return self.weights[: self.node_map.n_weights]

    @property
    def edge_weights(self) -> np.ndarray:
        return self.weights[self.node_map.n_weights :][: self.n_edge_weights]

    @property
    def tied_weights(self) -> np.ndarray:
        return self.weights[len(self.weights) - self.structure.tied_size :]

    @classmethod
    def assemble(
        cls, structure: Structure, sizes: Sizes, node: Pairs, edge: Pairs | None, tied: np.ndarray
    ) -> LinearModel:
        """From weights by pair; the only way models are made, after training and after loading."""
        node_map, node_weights = node.lay_out(structure.node_width, sizes.n_dense, sizes.n_attributes)
        edge_map, edge_weights = None, np.zeros(0)
        if edge is not None:
            edge_map, edge_weights = edge.lay_out(structure.edge_width, 0, sizes.n_edge_attributes)
        weights = np.concatenate([node_weights, edge_weights, tied.astype(np.float32)])
        return cls(structure, node_map, edge_map, np.ascontiguousarray(weights, np.float64))

    def state(self, sizes: Sizes) -> dict[str, np.ndarray]:
        """Arrays for a model file."""
        arrays = Pairs.of(self.node_map, self.node_weights).state("node", sizes.n_dense + sizes.n_attributes)
        if self.edge_map is not None:
            arrays |= Pairs.of(self.edge_map, self.edge_weights).state("edge", sizes.n_edge_attributes)
        return arrays | {"tied_weight": self.tied_weights.astype(np.float32)}

    @classmethod
    def from_state(cls, structure: Structure, sizes: Sizes, arrays: Mapping[str, np.ndarray]) -> LinearModel:
        node = Pairs.from_state(arrays, "node", sizes.n_dense + sizes.n_attributes, structure.node_width)
        edge = None
        if structure.edge_width:
            edge = Pairs.from_state(arrays, "edge", sizes.n_edge_attributes, structure.edge_width)
        tied = expect_array(arrays, "tied_weight", np.float32, shape=(structure.tied_size,))
        return cls.assemble(structure, sizes, node, edge, tied)

    def under(self, structure: Structure) -> LinearModel:
        """The same weights with other masks."""
        return replace(self, structure=structure)

    # -- passes over encoded sequences ----------------------------------------------------------

    def batch(self, encoded: Encoded) -> Batch:
        """Rows bound to the weights' layout; sequences without positions are left out."""
        layouts = encoded.layouts
        if layouts is None:
            layouts = self.structure.layouts(encoded.lengths[encoded.lengths > 0])
        return lay_out(
            self.structure, layouts, self.node_map, encoded.node_rows, encoded.node_dense,
            self.edge_map, encoded.edge_rows,
        )[0]  # fmt: skip

    def best(self, batch: Batch, fixed: np.ndarray | None, n_jobs: int) -> tuple[np.ndarray, np.ndarray]:
        """Best labels (n_positions,) and their scores (n_examples,)."""
        position_ptr = offsets(batch.length)
        labels = np.zeros(int(position_ptr[-1]), np.int64)
        values = np.zeros(len(batch.length))
        fixed = _EVERYWHERE_FREE if fixed is None else fixed

        def work(first: int, last: int, scratch: Scratch) -> None:
            decode_pass(batch, first, last, self.weights, fixed, position_ptr, labels, values, scratch)

        self._share(batch, work, n_jobs)
        return labels, values

    def counts(
        self,
        batch: Batch,
        scale: float,
        cost_scale: float = 0.0,
        fixed: np.ndarray | None = None,
        what: str = "nodes",
        n_jobs: int = 1,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Expected counts of "nodes" (n_positions · L,) or "all" parts, or "nothing"; and log-partitions."""
        n = len(batch.length)
        count_ptr = np.ascontiguousarray(
            batch.part_ptr if what == "all" else batch.node.row_ptr * self.structure.node_width
        )
        counts = np.zeros(0 if what == "nothing" else int(count_ptr[-1]))
        log_total = np.zeros(n)
        fixed = _EVERYWHERE_FREE if fixed is None else fixed

        def work(first: int, last: int, scratch: Scratch) -> None:
            counts_pass(
                batch, first, last, self.weights, scale, cost_scale, fixed, count_ptr, counts, log_total,
                scratch,
            )  # fmt: skip

        self._share(batch, work, n_jobs)
        return counts, log_total

    def scores(self, batch: Batch, n_jobs: int = 1) -> np.ndarray:
        """Scores of all parts, (n_parts,)."""
        scores = np.zeros(int(batch.part_ptr[-1]))

        def work(first: int, last: int, scratch: Scratch) -> None:
            score_pass(batch, first, last, self.weights, scores, scratch)

        self._share(batch, work, n_jobs)
        return scores

    def _share(self, batch: Batch, work: Callable[[int, int, Scratch], None], n_jobs: int) -> None:
        """Run `work(first, last, scratch)` on a share of the examples per thread."""
        n = len(batch.length)
        if n == 0:
            return
        n_shares = max(1, min(n_jobs, n))
        cuts = np.searchsorted(batch.node.row_ptr, np.linspace(0, batch.node.row_ptr[-1], n_shares + 1))
        cuts[0], cuts[-1] = 0, n
        longest = int(batch.length.max())

        def share(k: int) -> None:
            scratch = make_scratch(batch, self.structure.workspace(longest), np.float64)
            work(int(cuts[k]), int(cuts[k + 1]), scratch)

        if n_shares == 1:
            share(0)
        else:
            with ThreadPoolExecutor(n_shares) as pool:
                list(pool.map(share, range(n_shares)))


class Sizes(NamedTuple):
    """How many attributes an encoder has of each kind."""

    n_dense: int
    n_attributes: int
    n_edge_attributes: int

    @classmethod
    def of(cls, encoder: Any) -> Sizes:
        return cls(encoder.n_dense, encoder.n_attributes, encoder.n_edge_attributes)


def compact(
    structure: Structure, encoder: Any, node_map: FeatureMap, edge_map: FeatureMap | None, weights: np.ndarray
) -> tuple[Any, LinearModel]:
    """Encoder and model without what has no weight."""
    n_node = node_map.n_weights
    n_edge = 0 if edge_map is None else edge_map.n_weights
    node = Pairs.of(node_map, weights[:n_node])
    edge = None if edge_map is None else Pairs.of(edge_map, weights[n_node : n_node + n_edge])
    kept = _distinct(node.attribute[node.attribute >= encoder.n_dense]) - encoder.n_dense
    kept_edges = np.zeros(0, np.int64) if edge is None else _distinct(edge.attribute)
    smaller = encoder.keep(kept, kept_edges)
    if smaller.n_attributes != encoder.n_attributes:
        node = node.renumbered(kept, encoder.n_dense)
    if edge is not None and smaller.n_edge_attributes != encoder.n_edge_attributes:
        # The attribute of every edge stays, with or without a weight, as the last.
        kept_edges = np.union1d(kept_edges, [encoder.n_edge_attributes - 1]) if smaller.always else kept_edges
        edge = edge.renumbered(kept_edges, 0)
    tied = weights[n_node + n_edge :]
    return smaller, LinearModel.assemble(structure, Sizes.of(smaller), node, edge, tied)


def _distinct(ordered: np.ndarray) -> np.ndarray:
    """The distinct numbers of an array in ascending order."""
    return ordered[np.diff(ordered, prepend=-1) > 0]
