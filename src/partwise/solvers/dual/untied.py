"""A chain with tied transitions seen as one whose edges have parts of their own at every position.

The dual of a problem depends on a tied chain's transitions through their sums over positions only, but a solver that
keeps marginals, not potentials, must know them position by position: the sums alone do not say which α they are of.
Every edge row then has one attribute, always present, whose weights are the tied ones; weights lie where they lay.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem
from partwise.features.vocabulary import AttributeRows
from partwise.structures.chain.chain import Chain
from partwise.structures.contract import Layouts, offsets, positions


def untied(problem: Problem) -> Problem:
    """The problem itself unless its structure is a tied chain of order 1; made once for each problem.

    The first ``problem.n_weights`` weights mean the same in both; padding follows.
    """
    structure = problem.structure
    if not isinstance(structure, Chain) or not structure.tied or structure.order > 1:
        return problem
    if "untied" not in problem.views or problem.views["untied"][0] is not problem.batch:
        problem.views["untied"] = problem.batch, _untie(problem, structure)
    _, view = problem.views["untied"]
    return replace(view, l2=problem.l2, loss=problem.loss, n_jobs=problem.n_jobs)


def _untie(problem: Problem, structure: Chain) -> Problem:
    batch, n_labels = problem.batch, structure.n_labels
    apart = Chain(
        n_labels, tied=False, allowed=structure.allowed,
        allowed_start=structure.allowed_start, allowed_end=structure.allowed_end,
    )  # fmt: skip
    layouts = Layouts(batch.layout_ptr, batch.layout)
    edge_ptr, part_ptr = offsets(apart.n_edge_rows(layouts)), offsets(apart.n_parts(layouts))
    edge_map = FeatureMap.build(apart.edge_width, 1)
    edge_rows = AttributeRows(np.arange(edge_ptr[-1] + 1), np.zeros(edge_ptr[-1], np.int32), None)
    is_node = batch.gold_part < np.repeat(batch.length * n_labels, np.diff(batch.gold_ptr))
    gold_ptr, gold_part = apart.encode_all(batch.gold_part[is_node] % n_labels, layouts)
    view = batch._replace(
        specification=apart.specification(),
        edge=edge_map.group(edge_rows, edge_ptr, batch.tied_first),
        tied_first=batch.tied_first + edge_map.n_weights,
        tied_size=0,
        part_ptr=part_ptr,
        gold_ptr=gold_ptr,
        gold_part=gold_part,
        cost=_node_costs(problem, part_ptr),
    )
    n_weights = batch.tied_first + edge_map.n_weights
    return Problem(apart, view, problem.loss, problem.l2, n_weights, problem.node_map, edge_map)


def _node_costs(problem: Problem, part_ptr: np.ndarray) -> np.ndarray:
    """Costs are those of nodes, which come first in either problem."""
    batch, width = problem.batch, problem.structure.n_labels
    if batch.cost.size == 0:
        return batch.cost
    result = np.zeros(part_ptr[-1], np.float32)
    within = (positions(batch.length) * width)[:, None] + np.arange(width)
    old, new = (np.repeat(ptr[:-1], batch.length)[:, None] for ptr in (batch.part_ptr, part_ptr))
    result[new + within] = batch.cost[old + within]
    return result
