"""Scores of the sequences of a query, as the methods of `Chain` take them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from partwise.estimators.model import LinearModel
from partwise.estimators.predictions import Query
from partwise.structures import Chain


def chain_of_model(model: LinearModel) -> Chain:
    assert isinstance(model.structure, Chain)
    return model.structure


def chain_scores(query: Query, scale: float) -> tuple[list[np.ndarray], Any]:
    """Node and edge scores of the sequences that have positions, as `Chain` reads them."""
    chain, parts, lengths = chain_of_model(query.model), query.scores(scale), query.scorer.shapes.lengths
    n_labels, nodes, edges = chain.n_labels, [], []
    bounds = pairwise(query.scorer.batch.part_ptr.tolist())
    for (first, last), length in zip(bounds, lengths.tolist(), strict=True):
        middle = first + length * n_labels
        nodes.append(parts[first:middle].reshape(length, n_labels))
        edges.append(parts[middle:last])
    if not chain.tied:
        return nodes, [edge.reshape(-1, n_labels, n_labels) for edge in edges]
    shape = (n_labels,) * 2 if chain.order == 1 else (n_labels + 1,) * chain.order + (n_labels,)
    return nodes, (scale * query.model.tied_weights).reshape(shape)


def history_scores(query: Query) -> list[tuple[np.ndarray, np.ndarray]]:
    """Scores of each sequence that has positions: nodes (length, L), and labels behind histories (length, H, L).

    A history is the labels before, as many as the order, in base L + 1; the number L is "before the start". Scores are
    −inf if a mask forbids the label.
    """
    chain, (nodes, edges) = chain_of_model(query.model), chain_scores(query, 1.0)
    n_labels, found = chain.n_labels, []
    mask = np.ones((n_labels + 1, n_labels), bool)
    mask[:-1] = True if chain.allowed is None else chain.allowed
    mask[-1] = True if chain.allowed_start is None else chain.allowed_start
    for i, own in enumerate(nodes):
        own = own.copy()
        own[-1, [] if chain.allowed_end is None else ~chain.allowed_end] = -np.inf
        if chain.order > 1:
            table = edges.reshape(-1, n_labels)[None]
        else:
            table = np.zeros((1 if chain.tied else len(own), n_labels + 1, n_labels))
            table[0 if chain.tied else slice(1, None), :-1] = edges if chain.tied else edges[i]
        allowed = mask[np.arange(table.shape[1]) % (n_labels + 1)]
        table = np.where(allowed, table, -np.inf)
        found.append((own, np.broadcast_to(table, (len(own), *table.shape[1:]))))
    return found
