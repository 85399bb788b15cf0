"""What a fitted graph model answers: best labels, probabilities of nodes and edges, k best labellings."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import numpy as np

from partwise.core.arrays import block_of, offsets, positions, ranges
from partwise.core.problem import Problem
from partwise.core.rows import AttributeRows
from partwise.data.graphs import GraphExample
from partwise.errors import InputError
from partwise.estimators.base import n_threads
from partwise.estimators.checks import checked_weights
from partwise.estimators.encoded import Encoded, OwnRows
from partwise.estimators.explain import TopKind, Use
from partwise.estimators.labels import share_right
from partwise.estimators.model import Excluded
from partwise.estimators.predictions import Predictions, Query
from partwise.structures.graphs.layout import blocks_of
from partwise.tasks.graphs.data import GraphCorpus
from partwise.tasks.graphs.encoder import GraphEncoder
from partwise.tasks.graphs.given import as_examples, flat_labels
from partwise.tasks.graphs.labels import NodeLabels, place
from partwise.tasks.graphs.structures import fit_exactly, graph_shapes, refusal, shaped, structure_for


class GraphPredictions(Predictions):
    """Predictions of an estimator that has `_labels` and `inference_`.

    `X` is a list of graphs, as for `fit`. Wherever it appears, `fixed` gives per graph a list of labels, None where a
    node is free.
    """

    _encoder: GraphEncoder
    _labels: NodeLabels
    inference: str
    inference_: str
    edges: str
    _words = ("graph", "labelling")
    _impossible = "graph {}: no labelling satisfies fixed"

    def predict(self, X: Any, fixed: Any = None) -> list[np.ndarray]:
        """The best labelling of every graph: arrays (n_nodes,) of labels."""
        return self._over(self._best, X, fixed)

    def predict_single(self, x: Any) -> np.ndarray:
        """The best labelling of one graph."""
        return self.predict([x])[0]

    def predict_marginals_array(self, X: Any, fixed: Any = None) -> list[Any]:
        """Probability of every label of every node.

        Returns
        -------
        list of arrays (n_nodes, n_labels), ordered as `classes_`; with several kinds of nodes list of lists of arrays
        """
        return self._over(self._marginals, X, fixed)

    def _marginals(self, query: Query) -> list[Any]:
        blocks, starts = blocks_of(query.scorer.shapes), query.source.starts()
        counts, first = self._counts(query, "all"), query.scorer.batch.part_ptr[block_of(starts)]
        probabilities = counts[ranges(first + blocks.vertex_part, blocks.labels)]
        if len(self._labels.classes) == 1:
            return np.split(probabilities.reshape(-1, int(blocks.labels[0])), starts[1:-1])
        nodes = np.split(probabilities, offsets(blocks.labels)[1:-1])
        return [nodes[first:last] for first, last in pairwise(starts.tolist())]

    def predict_marginals(self, X: Any, fixed: Any = None) -> list[list[dict[Any, float]]]:
        """Probability of every label of every node: per graph a list of dicts {label: probability}.

        Probabilities are ∝ exp(β · score), the model that the loss belongs to; for β = ∞ (hinge, perceptron) there is
        none, and the call is refused. With `inference_` other than "exact" they are pseudo-marginals: consistent
        along every edge, but not those of the distribution itself.
        """
        X = self._examples(X)
        corpus, arrays = self._corpus(X), self.predict_marginals_array(X, fixed)
        names = [self._labels.classes[kind].tolist() for kind in corpus.kinds]
        kinds = np.split(corpus.node_kind, corpus.starts()[1:-1])
        return [
            [
                dict(zip(names[k], row.tolist(), strict=True))
                for k, row in zip(own.tolist(), rows, strict=True)
            ]
            for own, rows in zip(kinds, arrays, strict=True)
        ]

    def predict_edge_marginals(self, X: Any, fixed: Any = None) -> list[list[np.ndarray]]:
        """Probability of the labels of every edge's two nodes together.

        Returns
        -------
        list of lists of arrays (n_labels, n_labels)
            Per graph one array an edge, and then one a larger factor, with an axis for each of its nodes.
        """
        return self._over(self._edge_marginals, X, fixed)

    def _edge_marginals(self, query: Query) -> list[list[np.ndarray]]:
        untied = self._untied(query)
        counts = self._counts(untied, "all")
        blocks, corpus = blocks_of(untied.scorer.shapes), query.source
        first = untied.scorer.batch.part_ptr[block_of(blocks.factor_ptr)] + blocks.factor_part
        number = np.zeros(len(corpus.lengths), np.int64)
        results: list[list[Any]] = [[None] * int(n) for n in corpus.n_factors]
        for kind in self._encoder.factors:
            shape = tuple(len(self._labels.classes[name]) for name in kind.nodes)
            width = int(np.prod(shape))
            found = corpus.factors.get(kind.name)
            for i, places in enumerate([] if found is None else found.places):
                at = first[blocks.factor_ptr[i] + number[i] :][: len(places)]
                number[i] += len(places)
                # What an edge both ways has twice is written a second time by its mirror image; the first stays.
                for place_, start in zip(places[::-1].tolist(), at[::-1].tolist(), strict=True):
                    results[i][place_] = counts[start : start + width].reshape(shape)
        return results

    def predict_kbest(self, X: Any, k: int = 5, fixed: Any = None) -> list[list[tuple[np.ndarray, float]]]:
        """The k best labellings of every graph, best first; for exact inference.

        Returns
        -------
        list of lists of (labels, value)
            The value is the labelling's probability; for β = ∞, where there is none, its score.
        """
        return self._ranked(X, k, fixed)

    def _kbest_labels(self, query: Query, k: int, scale: float) -> list[list[tuple[np.ndarray, float]]]:
        if query.model.structure.exactness != "exact":
            raise InputError("predict_kbest needs exact inference, for which these graphs are too wide")
        return super()._kbest_labels(query, k, scale)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Share of nodes labelled right.

        Labels that were not in training can never be predicted and count as errors; a warning names them.

        Parameters
        ----------
        y : list of arrays or lists of labels
            May be left out where X has labels of its own, as from ``partwise.data.read_graphs``.
        sample_weight : array_like (n_graphs,), optional
        """
        y, X = own_labels(X, y), self._examples(X)
        corpus = self._corpus(X)
        flat = flat_labels(y, corpus.lengths)
        for at, label in enumerate(flat):
            if not isinstance(label, Hashable):
                raise InputError(f"{place(at, corpus, 'y')} has {label!r:.60}, which cannot be a label")
        predicted = (label for own in self.predict(X) for label in own.tolist())
        weights = np.repeat(checked_weights(sample_weight, len(corpus.lengths), "graphs"), corpus.lengths)
        return share_right(flat, predicted, self._labels.every(), weights)

    # -- examples and labellings ----------------------------------------------------------------

    def _examples(self, X: Any) -> list[GraphExample]:
        """The graphs of X. A subclass may make them of something else; graphs then stay as they are."""
        return as_examples(X)

    def _corpus(self, X: Any) -> GraphCorpus:
        corpus = GraphCorpus.read(self._examples(X))
        return corpus.both_ways() if self.edges == "symmetric" else corpus

    def _over(self, answer: Callable[[Query], list[Any]], X: Any, *constraints: Any) -> list[Any]:
        """The answers for all graphs, in their order."""
        found: dict[int, Any] = {}
        for places, query in self._by_inference(X, *constraints):
            found |= zip(places, answer(query), strict=True)
        return [found[place] for place in range(len(found))]

    def _queries(self, X: Any, *constraints: Any) -> Iterator[Query]:
        return (query for _, query in self._by_inference(X, *constraints))

    def _by_inference(self, X: Any, fixed: Any = None) -> Iterator[tuple[list[int], Query]]:
        """With "auto", the graphs that fit exactly, and then the others; with the places of the graphs."""
        self._require_model()
        examples, codes = self._examples(X), None
        corpus = self._corpus(examples)
        if fixed is not None:
            flat = flat_labels(fixed, corpus.lengths, "fixed")
            codes = self._labels.codes(flat, corpus, "fixed", free=True)
        self._encoder.check(corpus)
        engines = np.full(len(examples), self.inference, object)
        if self.inference == "auto":
            fits = np.array(fit_exactly(self._encoder, self._labels.sizes, corpus), bool)
            engines = np.where(fits, "exact", "tree-reweighted")
        for engine in sorted(set(engines.tolist())):
            places = np.flatnonzero(engines == engine).tolist()
            some, own = corpus, codes
            if len(places) < len(examples):
                some = self._corpus([examples[place] for place in places])
                if codes is not None:
                    split = np.split(codes, corpus.starts()[1:-1])
                    own = np.concatenate([split[place] for place in places])
            yield places, self._under(some, own, engine)

    def _under(self, corpus: GraphCorpus, fixed: np.ndarray | None, engine: str) -> Query:
        """Graphs encoded for a kind of inference, with labels that are given; −1 where a node is free."""
        rows = self._encoder.transform(corpus)
        structure, shapes, _ = shaped(engine, self._encoder, self._labels.sizes, corpus)
        excluded = None if fixed is None else _all_but(fixed, corpus, shapes)
        encoded = Encoded(corpus.lengths, rows, shapes)
        return Query(self._model.under(structure), encoded, n_threads(self.n_jobs), corpus, excluded)

    def _untied(self, query: Query) -> Query:
        """The same with a table for every factor: what is tied becomes rows that all have one attribute."""
        model, corpus = query.model.structure, query.source
        structure = structure_for(
            getattr(model, "engine", "exact"), self._encoder, self._labels.sizes, untied=True
        )
        own = list(query.encoded.own)
        for kind in self._encoder.factors:
            if kind.tied:
                found = corpus.factors.get(kind.name)
                n_rows = 0 if found is None else sum(map(len, found.scopes))
                own.append(OwnRows(AttributeRows(np.arange(n_rows + 1), np.zeros(n_rows, np.int32))))
        shapes = structure.shapes_of(graph_shapes(self._encoder, corpus))
        encoded = Encoded(corpus.lengths, tuple(own), shapes)
        return replace(query, model=query.model.under(structure), encoded=encoded)

    def _source(self, X: Any) -> GraphCorpus:
        return self._corpus(X)

    def _encode(self, source: GraphCorpus, encoder: GraphEncoder, structure: Any) -> Encoded:
        shapes = structure.shapes_of(graph_shapes(encoder, source))
        return Encoded(source.lengths, encoder.transform(source), shapes)

    def _labelling(self, codes: np.ndarray, query: Query, i: int) -> np.ndarray:
        starts, corpus = query.source.starts(), query.source
        return self._labels.named_nodes(codes, corpus.node_kind[starts[i] : starts[i + 1]], corpus.kinds)

    def _labellings(self, codes: np.ndarray, query: Query) -> list[np.ndarray]:
        return self._labels.named(codes, query.source)

    # -- scores ---------------------------------------------------------------------------------

    def _with_truth(self, X: Any, y: Any) -> tuple[GraphCorpus, list[Any]]:
        corpus = self._corpus(X)
        return corpus, flat_labels(own_labels(X, y), corpus.lengths)

    def _score_of(self, true: list[Any], predicted: list[np.ndarray]) -> float:
        """Share of nodes labelled right."""
        found = (label for own in predicted for label in own.tolist())
        return float(np.mean([a == b for a, b in zip(true, found, strict=True)]))

    def _scorer_during_fit(
        self, problem: Problem, encoder: GraphEncoder, X: Any, y: Any
    ) -> Callable[[np.ndarray], float] | None:
        """None where the graphs are too wide for the structure that is trained."""
        graphs = graph_shapes(encoder, self._corpus(X))
        if any(refusal(problem.structure, graph) for graph in graphs):
            return None
        return super()._scorer_during_fit(problem, encoder, X, y)

    # -- explanations ---------------------------------------------------------------------------

    def _given(self, query: Query, y: Any, name: str) -> tuple[list[Any], np.ndarray]:
        labels = flat_labels([y], query.lengths, name)
        return labels, self._labels.codes(labels, query.source)

    def _uses(self, query: Query, labels: np.ndarray) -> Iterator[Use]:
        """A factor stands at the last of its nodes; its label is the tuple of its nodes' labels."""
        corpus, several = query.source, len(self._encoder.nodes) > 1
        [names] = self._labellings(labels, query)
        names = names.tolist()
        for kind in self._encoder.nodes:
            number = corpus.kinds.index(kind) if kind in corpus.kinds else -1
            for row, node in enumerate(np.flatnonzero(corpus.node_kind == number).tolist()):
                yield Use(kind, row, int(labels[node]), node, names[node], f"{kind} " if several else "")
        for factor in self._encoder.factors:
            sizes = [len(self._labels.classes[kind]) for kind in factor.nodes]
            found = corpus.factors.get(factor.name)
            for row, scope in enumerate([] if found is None else found.scopes[0].tolist()):
                column = int(np.ravel_multi_index(labels[scope], sizes))
                shown, prefix = (
                    tuple(names[node] for node in scope),
                    f"{factor.name} {'-'.join(map(str, scope))} ",
                )
                yield Use(
                    factor.name, row, column, scope[-1], shown, prefix.rstrip() if factor.tied else prefix
                )

    def _top_kinds(self) -> Iterator[TopKind]:
        """Attributes of edges and larger factors, named behind their kind, have tuples of labels."""
        classes = {kind: own.tolist() for kind, own in self._labels.classes.items()}
        for kind, own in classes.items():
            yield TopKind(kind, own, own, f"{kind} " if len(classes) > 1 else "")
        for factor in self._encoder.factors:
            shown = list(product(*(classes[kind] for kind in factor.nodes)))
            yield TopKind(factor.name, shown, [None] * len(shown), factor.name + " " * (not factor.tied))


def _all_but(fixed: np.ndarray, corpus: GraphCorpus, shapes: Any) -> Excluded:
    """All labels but those that are given."""
    blocks, known = blocks_of(shapes), np.flatnonzero(fixed >= 0)
    others = blocks.labels[known] - 1
    entry = positions(others)
    entry += entry >= np.repeat(fixed[known], others)
    graph = np.repeat(block_of(corpus.starts())[known], others)
    sizes = np.bincount(graph, minlength=len(corpus.lengths))
    return Excluded(offsets(sizes), np.repeat(blocks.vertex_part[known], others) + entry)


def own_labels(X: Any, y: Any) -> Any:
    """`y`, or the labels that X has itself."""
    if y is not None:
        return y
    labels = getattr(X, "labels", None)
    if labels is None:
        raise InputError("y is missing: a list of labels, one per node, for every graph")
    return labels
