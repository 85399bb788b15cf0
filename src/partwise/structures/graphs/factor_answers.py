"""What message passing says beside marginals: how far to trust it, and how good a labelling is."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from partwise.compiled.simd import LANES
from partwise.structures.graphs.messages.rows import report_of
from partwise.structures.packed import Packed


class Diagnosis(NamedTuple):
    """How much message passing on a graph is to be trusted.

    Attributes
    ----------
    loopy, tree_reweighted : float
        Bethe's value, which bounds nothing, and the upper bound on the log-partition.
    distance : float
        tree_reweighted − loopy; 0 where the graph has no cycles, large where loopy marginals are far off.
    loopy_iterations, tree_reweighted_iterations : int
    loopy_change, tree_reweighted_change : float
        How much the last sweep would still have changed a message; above the tolerance where it has not converged.
    largest_difference : float
        Between the two engines' marginals of a vertex.
    """

    loopy: float
    tree_reweighted: float
    distance: float
    loopy_iterations: int
    tree_reweighted_iterations: int
    loopy_change: float
    tree_reweighted_change: float
    largest_difference: float


class BestLabelling(NamedTuple):
    """A labelling, its score, an upper bound on every labelling's score, and how many nodes the search took.

    The labelling is proved to be a best one where `bound` is `score`.
    """

    labels: np.ndarray
    score: float
    bound: float
    nodes: int

    @property
    def proved(self) -> bool:
        return self.bound - self.score <= 1e-9 * max(1.0, abs(self.bound))


def one_of(packed: Packed, i: int) -> Packed:
    """One example of several."""
    first, last = packed.part_ptr[i], packed.part_ptr[i + 1]
    return packed._replace(
        shapes=packed.shapes.take(np.array([i])),
        part_ptr=np.array([0, last - first]),
        scores=packed.scores[first : last + LANES],
        single=True,
    )


def answer(packed: Packed, specification: Any, which: str) -> tuple[float, np.ndarray, np.ndarray]:
    """Value, counts and report (see :class:`FactorRoom`) of one example."""
    value, counts, room = _pass_messages(packed, specification, which)
    return value, counts, report_of(room)


def entropy(packed: Packed) -> tuple[float, float]:
    """Value of one example, and the entropy in nats of its beliefs."""
    from partwise.compiled.boundary import pack
    from partwise.structures.graphs.messages.entropy import belief_entropy

    value, _, room = _pass_messages(packed, packed.specification, "sums")
    return value, belief_entropy(packed.shapes.values, pack(room)) if value > -np.inf else 0.0


def _pass_messages(packed: Packed, specification: Any, which: str) -> tuple[float, np.ndarray, Any]:
    """Value and counts of one example, and the workspace with its beliefs."""
    from partwise.compiled.background_compile import obtain
    from partwise.compiled.boundary import addresses, pack
    from partwise.compiled.inference import answer_all

    values, counts = np.empty(1), np.empty(packed.part_ptr[-1])
    call, room = addresses([obtain(packed.structure.oracle.task(which))]), packed.room()
    answer_all(
        call,
        pack(specification),
        pack(room),
        1,
        *packed.shapes,
        packed.part_ptr,
        packed.scores,
        counts,
        values,
    )
    return float(values[0]), counts, room
