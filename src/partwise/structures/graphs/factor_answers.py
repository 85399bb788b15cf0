"""Answers of message passing other than marginals: a diagnosis of its accuracy, and a best labelling with a bound."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from partwise.compiled.simd import LANES
from partwise.structures.graphs.messages.rows import report_of
from partwise.structures.packed import Packed


class Diagnosis(NamedTuple):
    """A comparison of both engines: how accurate message passing is on a graph.

    Attributes
    ----------
    loopy, tree_reweighted : float
        Bethe's value, which is no bound, and the upper bound on the log-partition.
    distance : float
        tree_reweighted − loopy. It is 0 for graphs without cycles, and large if loopy marginals are inaccurate.
    loopy_iterations, tree_reweighted_iterations : int
    loopy_change, tree_reweighted_change : float
        Largest change of a message in the last sweep. Above the tolerance if sweeps did not converge.
    largest_difference : float
        Largest difference between the two engines' marginals of a vertex.
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
    """A labelling, its score, an upper bound on the score of every labelling, and the number of nodes of the search.

    If `bound` equals `score`, the labelling is proved to be a best one.
    """

    labels: np.ndarray
    score: float
    bound: float
    nodes: int

    @property
    def proved(self) -> bool:
        return self.bound - self.score <= 1e-9 * max(1.0, abs(self.bound))


def one_of(packed: Packed, i: int) -> Packed:
    """Example `i` by itself."""
    first, last = packed.part_ptr[i], packed.part_ptr[i + 1]
    return packed._replace(
        shapes=packed.shapes.take(np.array([i])),
        part_ptr=np.array([0, last - first]),
        scores=packed.scores[first : last + LANES],
        single=True,
    )


def answer(packed: Packed, specification: Any, which: str) -> tuple[float, np.ndarray, np.ndarray]:
    """Value, counts and report (see :class:`FactorWorkspace`) of one example."""
    value, counts, work = _pass_messages(packed, specification, which)
    return value, counts, report_of(work)


def entropy(packed: Packed) -> tuple[float, float]:
    """Value of one example, and the entropy of its beliefs in nats."""
    from partwise.compiled.boundary import pack
    from partwise.structures.graphs.messages.entropy import belief_entropy

    value, _, work = _pass_messages(packed, packed.specification, "sums")
    return value, belief_entropy(packed.shapes.values, pack(work)) if value > -np.inf else 0.0


def _pass_messages(packed: Packed, specification: Any, which: str) -> tuple[float, np.ndarray, Any]:
    """Value and counts of one example, and the workspace with its beliefs."""
    from partwise.compiled.background_compile import obtain
    from partwise.compiled.boundary import addresses, pack
    from partwise.compiled.inference import answer_all

    values, counts = np.empty(1), np.empty(packed.part_ptr[-1])
    call, work = addresses([obtain(packed.structure.oracle.task(which))]), packed.room()
    answer_all(
        call,
        pack(specification),
        pack(work),
        1,
        *packed.shapes,
        packed.part_ptr,
        packed.scores,
        counts,
        values,
    )
    return float(values[0]), counts, work
