"""Second-order projective trees, exactly."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.structures.contract import Shapes
from partwise.structures.packed import Packed
from partwise.structures.second_order.grand_siblings.oracle import (
    GRAND_SIBLING,
    GrandSiblingSpecification,
    sample_grand_siblings,
)
from partwise.structures.second_order.tables import workspace_for
from partwise.structures.second_order.trees import SecondOrderTrees
from partwise.structures.trees.projective import Projective


class SecondOrderProjective(SecondOrderTrees):
    """Trees without crossing arcs whose siblings and grandparents have scores (Koo and Collins 2010, model 1).

    Parameters
    ----------
    single_root : bool
        Whether exactly one word depends on the root, or any number.
    n_relations : int
        Number of relations of an arc, 1 for trees without relations.

    Notes
    -----
    Methods and their arguments are those of :class:`SecondOrderTrees`. With A candidate arcs, at most K of them into
    one word, the time is at most proportional to A · K² · n. With all arcs it is proportional to n⁴.

    Examples
    --------
    >>> arcs, pairs = np.zeros((3, 3)), np.zeros((3, 3, 3))
    >>> pairs[0, 1, 2] = 2.0  # the root above 1, and 1 above 2
    >>> SecondOrderProjective().argmax(arcs, np.zeros((3, 3, 3)), pairs)
    array([0, 1])
    """

    projective = True
    oracle = GRAND_SIBLING
    first_order = Projective

    def specification(self) -> GrandSiblingSpecification:
        return GrandSiblingSpecification(self.n_relations, self.single_root)

    def workspace(self, shapes: Shapes, specification: Any = None) -> Any:
        return workspace_for(*self.largest_sizes(shapes), self.n_relations)

    def _sample_heads(self, packed: Packed, heads: np.ndarray, generator: Any) -> float:
        uniforms = generator.random((len(heads), 4 * heads.shape[1] + 4))
        counts = np.empty(len(packed.scores))
        return sample_grand_siblings(
            packed.specification, packed.shapes.values, packed.scores, counts, uniforms, heads, packed.room()
        )
