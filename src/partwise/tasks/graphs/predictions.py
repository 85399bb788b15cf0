"""What a fitted graph model answers: best labels, probabilities of nodes and edges, k best labellings."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from partwise.core.arrays import block_of, offsets
from partwise.core.losses import Loss
from partwise.core.rows import AttributeRows
from partwise.data.graphs import GraphExample
from partwise.errors import InputError
from partwise.estimators.base import n_threads
from partwise.estimators.checks import checked_weights
from partwise.estimators.encoded import Encoded, OwnRows
from partwise.estimators.model import LinearModel
from partwise.estimators.probabilities import Probabilities
from partwise.estimators.protocol import not_fitted
from partwise.structures.checks import checked_count
from partwise.structures.contract import PartLists, Shapes
from partwise.structures.graphs.layout import blocks_of
from partwise.tasks.graphs.data import GraphCorpus
from partwise.tasks.graphs.encoder import GraphEncoder
from partwise.tasks.graphs.given import as_examples, flat_labels
from partwise.tasks.graphs.labels import NodeLabels, place
from partwise.tasks.graphs.query import GraphQuery
from partwise.tasks.graphs.structures import fit_exactly, graph_shapes, shaped, structure_for


class GraphPredictions(Probabilities):
    """Predictions of an estimator that has `_encoder`, `_model`, `_loss`, `_labels` and `inference_`.

    `X` is a list of graphs, as for `fit`. Wherever it appears, `fixed` gives per graph a list of labels, None where a
    node is free.
    """

    _encoder: GraphEncoder
    _model: LinearModel
    _loss: Loss
    _labels: NodeLabels
    inference: str
    inference_: str
    edges: str
    n_jobs: int | None

    def predict(self, X: Any, fixed: Any = None) -> list[np.ndarray]:
        """The best labelling of every graph: arrays (n_nodes,) of labels."""
        return self._over(X, fixed, self._best)

    def _best(self, query: GraphQuery) -> list[np.ndarray]:
        codes, values = query.model.best(query.scorer, query.excluded, n_threads(self.n_jobs))
        query.require_possible(values)
        return self._labels.named(codes, query.corpus)

    def predict_single(self, x: Any) -> np.ndarray:
        """The best labelling of one graph."""
        return self.predict([x])[0]

    def predict_marginals_array(self, X: Any, fixed: Any = None) -> list[Any]:
        """Probability of every label of every node.

        Returns
        -------
        list of arrays (n_nodes, n_labels), ordered as `classes_`; with several kinds of nodes list of lists of arrays
        """
        return self._over(X, fixed, self._marginals)

    def _marginals(self, query: GraphQuery) -> list[Any]:
        probabilities, labels = query.per_node(self._counts(query))
        if len(self._labels.classes) == 1:
            return np.split(probabilities.reshape(-1, int(labels[0])), query.corpus.starts()[1:-1])
        nodes = np.split(probabilities, offsets(labels)[1:-1])
        starts = query.corpus.starts().tolist()
        return [nodes[first:last] for first, last in pairwise(starts)]

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
        return self._over(X, fixed, self._edge_marginals)

    def _edge_marginals(self, query: GraphQuery) -> list[list[np.ndarray]]:
        untied = self._untied(query)
        counts = self._counts(untied)
        blocks, corpus = blocks_of(untied.shapes), query.corpus
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
        checked_count(k, "k")
        return self._over(X, fixed, partial(self._kbest, k=k))

    def _kbest(self, query: GraphQuery, k: int) -> list[list[tuple[np.ndarray, float]]]:
        if query.model.structure.exactness != "exact":
            raise InputError("predict_kbest needs exact inference, for which these graphs are too wide")
        scale = self._scale()
        scores = scale * query.scorer.scores(query.model.weights, n_threads(self.n_jobs))
        part_ptr, shapes = query.scorer.batch.part_ptr, query.shapes
        if query.excluded is not None:
            graph = block_of(query.excluded.ptr)
            scores[part_ptr[graph] + query.excluded.part] = -np.inf
        log_totals = np.zeros(len(query.corpus.lengths))
        if not self._loss.is_hard:
            _, log_totals = query.model.counts(
                query.scorer, scale, excluded=query.excluded, what="nothing", n_jobs=n_threads(self.n_jobs)
            )
        results = []
        for i in range(len(log_totals)):
            own, shape = scores[part_ptr[i] : part_ptr[i + 1]], shapes.take(np.array([i]))
            found = query.model.structure.kbest_parts(shape.values, own, k)
            results.append(
                [self._ranked(query, i, shape, own, parts, float(log_totals[i])) for parts in found]
            )
        return results

    def _ranked(
        self,
        query: GraphQuery,
        i: int,
        shape: Shapes,
        scores: np.ndarray,
        parts: np.ndarray,
        log_total: float,
    ) -> tuple[np.ndarray, float]:
        distinct = np.unique(parts)
        codes = query.model.structure.decode_all(PartLists(np.array([0, len(distinct)]), distinct), shape)
        value = float(scores[parts].sum())
        if not self._loss.is_hard:
            value = float(np.exp(min(value - log_total, 0.0)))
        starts = query.corpus.starts()
        kinds = query.corpus.node_kind[starts[i] : starts[i + 1]]
        return self._labels.named_nodes(codes, kinds, query.corpus.kinds), value

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
        unknown = set(flat) - {None, *self._labels.every()}
        if unknown:
            names = ", ".join(sorted(map(repr, unknown))[:5])
            warnings.warn(
                f"y has labels that were not in training and so count as errors: {names}", stacklevel=2
            )
        predicted = [label for own in self.predict(X) for label in own.tolist()]
        right = np.array([a == b for a, b in zip(flat, predicted, strict=True)], bool)
        counted = np.array([label is not None for label in flat], bool)
        weights = (
            np.repeat(checked_weights(sample_weight, len(corpus.lengths), "graphs"), corpus.lengths) * counted
        )
        total = float(weights.sum())
        return float(weights @ right / total) if total else 0.0

    # -- shared ---------------------------------------------------------------------------------

    def _examples(self, X: Any) -> list[GraphExample]:
        """The graphs of X. A subclass may make them of something else; graphs then stay as they are."""
        return as_examples(X)

    def _corpus(self, X: Any) -> GraphCorpus:
        corpus = GraphCorpus.read(self._examples(X))
        return corpus.both_ways() if self.edges == "symmetric" else corpus

    def _over(self, X: Any, fixed: Any, answer: Callable[[GraphQuery], list[Any]]) -> list[Any]:
        """Answers for all graphs; "auto" asks about those that fit exactly, and then about the others."""
        if not hasattr(self, "_model"):
            raise not_fitted(self)
        examples, codes = self._examples(X), None
        corpus = self._corpus(examples)
        if fixed is not None:
            flat = flat_labels(fixed, corpus.lengths, "fixed")
            codes = self._labels.codes(flat, corpus, "fixed", free=True)
        if self.inference != "auto":
            return answer(self._query(corpus, codes, self.inference))
        self._encoder.check(corpus)
        exact = np.array(fit_exactly(self._encoder, self._labels.sizes, corpus), bool)
        if exact.all() or not exact.any():
            return answer(self._query(corpus, codes, "exact" if exact.all() else "tree-reweighted"))
        results: list[Any] = [None] * len(exact)
        own = np.split(codes, corpus.starts()[1:-1]) if codes is not None else None
        for engine, places in (("exact", np.flatnonzero(exact)), ("tree-reweighted", np.flatnonzero(~exact))):
            some = self._corpus([examples[place] for place in places])
            their = None if own is None else np.concatenate([own[place] for place in places])
            for at, found in zip(places, answer(self._query(some, their, engine)), strict=True):
                results[at] = found
        return results

    def _query(self, corpus: GraphCorpus, fixed: np.ndarray | None, engine: str) -> GraphQuery:
        rows = self._encoder.transform(corpus)
        structure, shapes, _ = shaped(engine, self._encoder, self._labels.sizes, corpus)
        return GraphQuery(corpus, self._model.under(structure), Encoded(corpus.lengths, rows, shapes), fixed)

    def _untied(self, query: GraphQuery) -> GraphQuery:
        """The same with a table for every factor: what is tied becomes rows that all have one attribute."""
        model = query.model.structure
        structure = structure_for(
            getattr(model, "engine", "exact"), self._encoder, self._labels.sizes, untied=True
        )
        own = list(query.encoded.own)
        for kind in self._encoder.factors:
            if kind.tied:
                found = query.corpus.factors.get(kind.name)
                n_rows = 0 if found is None else sum(map(len, found.scopes))
                own.append(OwnRows(AttributeRows(np.arange(n_rows + 1), np.zeros(n_rows, np.int32))))
        shapes = structure.shapes_of(graph_shapes(self._encoder, query.corpus))
        encoded = Encoded(query.corpus.lengths, tuple(own), shapes)
        return GraphQuery(query.corpus, query.model.under(structure), encoded, query.fixed)

    def _counts(self, query: GraphQuery) -> np.ndarray:
        """Expected counts of all parts, (n_parts,)."""
        counts, log_totals = query.model.counts(
            query.scorer,
            self._sharpness(),
            excluded=query.excluded,
            what="all",
            n_jobs=n_threads(self.n_jobs),
        )
        query.require_possible(log_totals)
        return counts


def own_labels(X: Any, y: Any) -> Any:
    """`y`, or the labels that X has itself."""
    if y is not None:
        return y
    labels = getattr(X, "labels", None)
    if labels is None:
        raise InputError("y is missing: a list of labels, one per node, for every graph")
    return labels
