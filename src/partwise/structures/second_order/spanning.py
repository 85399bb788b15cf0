"""Second-order spanning trees: sums by a relaxation or loopy belief propagation, and a good tree or the best one."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np

from partwise.compiled.dispatch import python_form
from partwise.compiled.simd import LANES, padded
from partwise.core.exactness import Exactness
from partwise.errors import InputError
from partwise.structures.checks import checked_count, require_possible
from partwise.structures.contract import Shapes
from partwise.structures.graphs.factor_answers import BestLabelling
from partwise.structures.packed import Packed
from partwise.structures.second_order.consensus.bound import MEMORY
from partwise.structures.second_order.consensus.oracle import (
    CONSENSUS,
    ConsensusSpecification,
    ConsensusWorkspace,
)
from partwise.structures.second_order.consensus.search import best_tree
from partwise.structures.second_order.tables import workspace_for
from partwise.structures.second_order.trees import SecondOrderTrees, only
from partwise.structures.trees.matrix_tree.sums import SpanningSpecification, spanning_workspace
from partwise.structures.trees.spanning import Spanning

Engine = Literal["relaxation", "loopy"]


class SecondOrderSpanning(SecondOrderTrees):
    """All trees over the words and the root, whose siblings and grandparents have scores.

    Exact sums and maxima over these trees are NP-hard (McDonald and Satta 2007). Instead,

    - with the engine "relaxation", `log_partition` is an upper bound, convex in the scores. `marginals` is its
      gradient: probabilities on which the spanning tree and every word, with its head and modifiers, agree. Training
      has a certificate for the relaxed problem;
    - with the engine "loopy", `log_partition` is Bethe's value after belief propagation among the tree, the siblings
      of every word and the grandparents (Smith and Eisner 2008). It is no bound, may be below the score of a tree, and
      training has no certificate. `marginals` are the beliefs;
    - `argmax` is found by branch and bound, and `best_labelling` says whether it is proved to be best. Solvers, parsers
      and `kbest` take the spanning tree with the likeliest arcs, improved arc by arc, which is faster and not proved.

    `entropy` is that of the relaxation or of the beliefs. There are no samples.

    Parameters
    ----------
    single_root : bool
        Whether exactly one word depends on the root, or any number.
    n_relations : int
        Number of relations of an arc, 1 for trees without relations.
    engine : {"relaxation", "loopy"}
        How the log-partition is approximated. Best trees do not depend on it, except those of solvers and parsers.

    Notes
    -----
    Methods and their arguments are those of :class:`SecondOrderTrees`.

    Examples
    --------
    >>> arcs, pairs = np.zeros((3, 3)), np.zeros((3, 3, 3))
    >>> pairs[0, 1, 2] = 2.0  # the root above 1, and 1 above 2
    >>> SecondOrderSpanning().argmax(arcs, np.zeros((3, 3, 3)), pairs)
    array([0, 1])
    >>> SecondOrderSpanning().best_labelling(arcs, np.zeros((3, 3, 3)), pairs).proved
    True
    """

    exactness: Exactness = "relaxation"  # type: ignore[misc]
    oracle = CONSENSUS
    first_order = Spanning

    def __init__(self, *, single_root: bool = True, n_relations: int = 1, engine: Engine = "relaxation"):
        super().__init__(single_root=single_root, n_relations=n_relations)
        if engine not in get_args(Engine):
            raise InputError(f"engine must be 'relaxation' or 'loopy', not {engine!r:.40}")
        self.engine = engine
        self.exactness = "approximate" if engine == "loopy" else "relaxation"

    def specification(self) -> ConsensusSpecification:
        return ConsensusSpecification(self.n_relations, self.single_root, self.engine == "loopy")

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

    def argmax(
        self, arc_scores: Any, sibling_scores: Any, grandparent_scores: Any, relation_scores: Any = None
    ) -> Any:
        """The best tree found, or a list of them. See :meth:`best_labelling`."""
        found = self.best_labelling(arc_scores, sibling_scores, grandparent_scores, relation_scores)
        return [each.labels for each in found] if isinstance(found, list) else found.labels

    def best_labelling(
        self,
        arc_scores: Any,
        sibling_scores: Any,
        grandparent_scores: Any,
        relation_scores: Any = None,
        max_nodes: int = 100,
    ) -> Any:
        """The best tree found, with a bound on the score of all: a :class:`BestLabelling`, or a list.

        Parameters
        ----------
        max_nodes : int
            The largest number of sets of trees that the search bounds, give or take one.
        """
        max_nodes = checked_count(max_nodes, "max_nodes")
        packed = self._pack(arc_scores, sibling_scores, grandparent_scores, relation_scores)
        packed = packed._replace(specification=packed.specification._replace(loopy=False))  # for bounds
        results = []
        for i in range(len(packed.lengths)):
            found = best_tree(only(packed, i), max_nodes)
            if found is None:
                require_possible(np.where(np.arange(len(packed.lengths)) == i, -np.inf, 0.0), packed.single)
            else:
                results.append(BestLabelling(self.from_codes(found.codes), *found[1:]))
        return results[0] if packed.single else results

    def _sample_heads(self, packed: Packed, heads: np.ndarray, generator: Any) -> float:
        raise InputError(
            "second-order spanning trees have no samples: their probabilities are not those of trees"
        )
