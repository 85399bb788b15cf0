"""Second-order spanning trees: an upper bound on the log-partition, and a good tree instead of a best one."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.compiled.dispatch import python_form
from partwise.compiled.simd import LANES, padded
from partwise.errors import InputError
from partwise.structures.contract import Shapes
from partwise.structures.packed import Packed
from partwise.structures.second_order.consensus.bound import MEMORY
from partwise.structures.second_order.consensus.oracle import (
    CONSENSUS,
    ConsensusSpecification,
    ConsensusWorkspace,
)
from partwise.structures.second_order.tables import workspace_for
from partwise.structures.second_order.trees import SecondOrderTrees
from partwise.structures.trees.matrix_tree.sums import SpanningSpecification, spanning_workspace
from partwise.structures.trees.spanning import Spanning


class SecondOrderSpanning(SecondOrderTrees):
    """All trees over the words and the root, whose siblings and grandparents have scores.

    Exact sums and maxima over these trees are NP-hard (McDonald and Satta 2007). Instead,

    - `log_partition` is an upper bound, convex in the scores. `marginals` is its gradient: probabilities on which the
      spanning tree and every word, with its head and modifiers, agree. Training has a certificate for the relaxed
      problem;
    - `argmax` is the spanning tree with the likeliest arcs, improved arc by arc. It is not proved to be best. `kbest`
      ranks trees found in this way.

    `entropy` is that of the relaxation. There are no samples.

    Parameters
    ----------
    single_root : bool
        Whether exactly one word depends on the root, or any number.
    n_relations : int
        Number of relations of an arc, 1 for trees without relations.

    Notes
    -----
    Methods and their arguments are those of :class:`SecondOrderTrees`.

    Examples
    --------
    >>> arcs, pairs = np.zeros((3, 3)), np.zeros((3, 3, 3))
    >>> pairs[0, 1, 2] = 2.0  # the root above 1, and 1 above 2
    >>> SecondOrderSpanning().argmax(arcs, np.zeros((3, 3, 3)), pairs)
    array([0, 1])
    """

    exactness = "relaxation"
    oracle = CONSENSUS
    first_order = Spanning

    def specification(self) -> ConsensusSpecification:
        return ConsensusSpecification(self.n_relations, self.single_root)

    def workspace(self, shapes: Shapes, specification: Any = None) -> Any:
        n, n_arcs, n_slots, n_siblings = self.largest_sizes(shapes)
        own = workspace_for(n, n_arcs, n_slots, n_siblings, self.n_relations)._asdict()
        tree = python_form(spanning_workspace)(SpanningSpecification(1, self.single_root), n)._asdict()
        sizes = {
            **dict.fromkeys(
                ("modifier_score", "head_score", "of_modifiers", "of_heads", "grand_top"), n_arcs
            ),
            "bracket_row": n_slots,
            **dict.fromkeys(("point", "gradient", "old_point", "old_gradient", "direction"), 2 * n_arcs),
            **dict.fromkeys(("steps", "changes"), 2 * n_arcs * MEMORY),
            **dict.fromkeys(("alphas", "curvatures"), MEMORY),
        }
        more: dict[str, Any] = {name: np.zeros(size + LANES) for name, size in sizes.items()}
        more |= {"arc_at": np.zeros((n + 1) * padded(n + 1), np.int64)}
        fields = {**tree, **own, **more}
        return ConsensusWorkspace(**{name: fields[name] for name in ConsensusWorkspace._fields})

    def _sample_heads(self, packed: Packed, heads: np.ndarray, generator: Any) -> float:
        raise InputError(
            "second-order spanning trees have no samples: their probabilities are those of a relaxation"
        )
