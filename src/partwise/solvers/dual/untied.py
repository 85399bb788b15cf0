"""A chain with tied transitions seen as one whose edges have parts of their own at every position.

The dual of a problem depends on a tied chain's transitions through their sums over positions only, but a solver that
keeps marginals, not potentials, must know them position by position: the sums alone do not say which α they are of.
Every edge row then has one attribute, always present, whose weights are the tied ones; weights lie where they lay.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from partwise.core.arrays import positions
from partwise.core.problem import Problem
from partwise.core.rows import AttributeRows
from partwise.core.scorer import Scorer
from partwise.structures.chain.chain import Chain


def untied(problem: Problem) -> Problem:
    """The problem itself unless its structure is a tied chain of order 1; made once for each problem."""
    structure = problem.structure
    if not isinstance(structure, Chain) or not structure.tied or structure.order > 1:
        return problem
    view = problem.kept("untied", lambda: _untie(problem, structure))
    return replace(view, l2=problem.l2, l1=problem.l1, loss=problem.loss)


def _untie(problem: Problem, structure: Chain) -> Problem:
    scorer, n_labels = problem.scorer, structure.n_labels
    apart = Chain(
        n_labels, tied=False, allowed=structure.allowed,
        allowed_start=structure.allowed_start, allowed_end=structure.allowed_end,
    )  # fmt: skip
    nodes, transitions = scorer.kinds
    n_edges = int((problem.lengths - 1).sum())
    always = AttributeRows(np.arange(n_edges + 1), np.zeros(n_edges, np.int32))
    edges = scorer.maps["transition"].bind(always, n_edges, transitions.first_weight)
    maps = {"node": scorer.maps["node"], "edge": scorer.maps["transition"]}
    view = Scorer(apart, scorer.shapes, maps, (nodes, edges), *apart.runs(scorer.shapes), scorer.n_jobs)
    own_gold = apart.encode_all(structure.decode_all(problem.gold, scorer.shapes), scorer.shapes)
    cost = _node_costs(problem, view.batch.part_ptr, n_labels)
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
