"""The structure that labels graphs: exact where its tables fit, else a convex relaxation or loopy messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from partwise.errors import InputError
from partwise.structures.contract import Shapes
from partwise.structures.graphs.layout import FactorKind, GraphShape
from partwise.tasks.graphs.data import GraphCorpus
from partwise.tasks.graphs.encoder import GraphEncoder

INFERENCE = ("auto", "exact", "tree-reweighted", "loopy")


def structure_for(
    inference: str, encoder: GraphEncoder, n_labels: Sequence[int], untied: bool = False
) -> Any:
    """Graphs of these kinds.

    Parameters
    ----------
    inference : {"exact", "tree-reweighted", "loopy"}
    n_labels : sequence of int
        Labels of each kind of nodes.
    untied : bool
        Give every factor a table of its own, so that each has its own marginals.
    """
    from partwise.structures import FactorGraph, Graph

    vertices = dict(zip(encoder.nodes, n_labels, strict=True))
    factors = [FactorKind(kind.name, kind.nodes, kind.tied and not untied) for kind in encoder.factors]
    if inference == "exact":
        return Graph(vertices, factors)
    return FactorGraph(vertices, factors, engine=inference)


def graph_shapes(encoder: GraphEncoder, corpus: GraphCorpus) -> list[GraphShape]:
    """What a structure must know of the graphs of a corpus, all of whose kinds the encoder knows."""
    number = np.array([encoder.nodes.index(name) for name in corpus.kinds], np.int64)
    kinds = np.split(number[corpus.node_kind], corpus.starts()[1:-1])
    found = [corpus.factors.get(kind.name) for kind in encoder.factors]
    empty = [np.zeros((0, len(kind.nodes)), np.int64) for kind in encoder.factors]
    return [
        GraphShape(
            own, [none if each is None else each.scopes[i] for each, none in zip(found, empty, strict=True)]
        )
        for i, own in enumerate(kinds)
    ]


def shaped(
    inference: str, encoder: GraphEncoder, n_labels: Sequence[int], corpus: GraphCorpus
) -> tuple[Any, Shapes, str]:
    """A structure for a corpus, its shapes, and why "auto" did not choose the exact one, if so."""
    graphs = graph_shapes(encoder, corpus)
    if inference in ("auto", "exact"):
        structure = structure_for("exact", encoder, n_labels)
        reasons = [refusal(structure, graph) for graph in graphs]
        too_wide = [f"X[{i}]: {why}" for i, why in enumerate(reasons) if why]
        if not too_wide:
            return structure, structure.shapes_of(graphs), ""
        if inference == "exact":
            raise InputError(f"{too_wide[0]}: use inference='auto' or 'tree-reweighted'")
        inference = "tree-reweighted"
        why = f"{too_wide[0]} ({len(too_wide)} of {len(graphs)} graphs)"
        structure = structure_for(inference, encoder, n_labels)
        return structure, structure.shapes_of(graphs), why
    structure = structure_for(inference, encoder, n_labels)
    return structure, structure.shapes_of(graphs), ""


def fit_exactly(encoder: GraphEncoder, n_labels: Sequence[int], corpus: GraphCorpus) -> list[bool]:
    """For each graph whether exact inference fits it."""
    structure = structure_for("exact", encoder, n_labels)
    return [not refusal(structure, graph) for graph in graph_shapes(encoder, corpus)]


def refusal(structure: Any, graph: GraphShape) -> str:
    """Why a structure refuses a graph, whose kinds are right, so that only its tables may be too large."""
    try:
        structure.shapes_of([graph])
    except InputError as error:
        return str(error).removeprefix("graph: ").split("; use")[0]
    return ""
