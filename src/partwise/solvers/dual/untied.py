"""A chain with tied transitions seen as one whose edges have parts of their own at every position.

The dual of a problem depends on a tied chain's transitions through their sums over positions only. A solver that keeps
marginals, not potentials, must know them position by position: the sums alone do not determine α. Every edge row then
has one attribute, always present, whose weights are the tied ones. The weights stay in the same places.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from partwise.core.arrays import positions
from partwise.core.problem import Problem
from partwise.core.rows import AttributeRows
from partwise.core.scorer import Scorer
from partwise.structures.contract import Structure


def untied(problem: Problem) -> Problem:
    """The problem of the structure's untied form; the problem itself if there is none. Made once for each problem."""
    apart = problem.structure.untied()
    if apart is problem.structure:
        return problem
    view = problem.kept("untied", lambda: _untie(problem, apart))
    return replace(view, l2=problem.l2, l1=problem.l1, loss=problem.loss)


def _untie(problem: Problem, apart: Structure) -> Problem:
    """A problem with one kind of own rows and one tied kind, which have the widths of the kinds of `apart`."""
    scorer, structure = problem.scorer, problem.structure
    (node, edge), (nodes, transitions) = apart.kinds, scorer.kinds
    n_edges = int(apart.row_counts(scorer.shapes)[1].sum())
    always = AttributeRows(np.arange(n_edges + 1), np.zeros(n_edges, np.int32))
    tied = scorer.maps[structure.kinds[1].name]
    edges = tied.bind(always, n_edges, transitions.first_weight)
    maps = {node.name: scorer.maps[node.name], edge.name: tied}
    view = Scorer(apart, scorer.shapes, maps, (nodes, edges), *apart.runs(scorer.shapes), scorer.n_jobs)
    own_gold = apart.encode_all(structure.decode_all(problem.gold, scorer.shapes), scorer.shapes)
    cost = _node_costs(problem, view.batch.part_ptr, node.width)
    return Problem(view, own_gold, cost, problem.example_weight, problem.loss, problem.l2)


def _node_costs(problem: Problem, part_ptr: np.ndarray, width: int) -> np.ndarray:
    """Costs are those of nodes, which come first in either problem."""
    if problem.cost.size == 0:
        return problem.cost
    lengths, result = problem.lengths, np.zeros(part_ptr[-1], np.float32)
    within = (positions(lengths) * width)[:, None] + np.arange(width)
    old, new = (np.repeat(ptr[:-1], lengths)[:, None] for ptr in (problem.batch.part_ptr, part_ptr))
    result[new + within] = problem.cost[old + within]
    return result
