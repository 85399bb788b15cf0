"""Why a graph is labelled as it is: exact contributions of every feature of nodes, edges and larger factors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from partwise.core.rows import AttributeRows
from partwise.errors import InputError
from partwise.estimators.encoded import OwnRows
from partwise.estimators.explain import Contribution, Explanation, weight_of
from partwise.estimators.model import LinearModel
from partwise.tasks.graphs.data import GraphCorpus
from partwise.tasks.graphs.encoder import GraphEncoder
from partwise.tasks.graphs.given import flat_labels
from partwise.tasks.graphs.labels import NodeLabels


class GraphExplanations:
    """Explanations of an estimator that has `_encoder`, `_model` and `_labels`."""

    _encoder: GraphEncoder
    _model: LinearModel
    _labels: NodeLabels
    _corpus: Any

    def explain(self, x: Any, y: Any = None, against: Any = None) -> Explanation:
        """Contributions to the score of a labelling of one graph; they add up to it.

        A term of an edge stands at the last of its nodes; its label is the tuple of its nodes' labels and its
        attribute begins with the kind and the nodes.

        Parameters
        ----------
        x : one graph, as in X
        y : list of labels, optional
            By default the best labelling.
        against : "runner-up" or list of labels, optional
            Explain the difference to the second best labelling (the best other than `y`; for exact inference), or to
            a given one. A positive contribution speaks for `y`.
        """
        self._require_fitted()  # type: ignore[attr-defined]
        corpus = self._corpus([x])
        rows = self._encoder.transform(corpus)
        labels = self.predict([x])[0].tolist() if y is None else flat_labels([y], corpus.lengths)  # type: ignore[attr-defined]
        other = None
        if isinstance(against, str):
            if against != "runner-up":
                raise InputError(f"against must be 'runner-up' or a list of labels, not {against!r:.60}")
            best = [found.tolist() for found, _ in self.predict_kbest([x], k=2)[0]]  # type: ignore[attr-defined]
            other = next((found for found in best if found != labels), None)
            if other is None:
                raise InputError("this graph has no other labelling to compare with")
        elif against is not None:
            other = flat_labels([against], corpus.lengths, "against")
        terms = self._terms(corpus, rows, labels)
        if other is not None:
            theirs = self._terms(corpus, rows, other)
            shared = {each[:3] for each in terms} & {each[:3] for each in theirs}
            negative = [each._replace(contribution=-each.contribution) for each in theirs]
            terms = [each for each in terms + negative if each[:3] not in shared]
        terms = sorted(terms, key=lambda each: each.position)
        return Explanation(labels, other, math.fsum(each.contribution for each in terms), terms)

    def _terms(self, corpus: GraphCorpus, own: tuple[OwnRows, ...], labels: list[Any]) -> list[Contribution]:
        codes, rows = self._labels.codes(labels, corpus), iter(own)
        terms: list[Contribution] = []
        for name in self._encoder.nodes:
            k = corpus.kinds.index(name) if name in corpus.kinds else -1
            places = np.flatnonzero(corpus.node_kind == k)[:, None]
            terms += self._of_kind(name, places, next(rows), codes[places[:, 0]], labels)
        for kind in self._encoder.factors:
            found = corpus.factors.get(kind.name)
            features = None if kind.tied else next(rows)
            if found is not None:
                scopes, entries = found.scopes[0], np.zeros(len(found.scopes[0]), np.int64)
                for axis, name in enumerate(kind.nodes):
                    entries = entries * len(self._labels.classes[name]) + codes[scopes[:, axis]]
                terms += self._of_kind(kind.name, scopes, features, entries, labels)
        return terms

    def _of_kind(
        self, kind: str, scopes: np.ndarray, rows: OwnRows | None, entries: np.ndarray, labels: list[Any]
    ) -> Iterator[Contribution]:
        """Terms of the nodes or factors of one kind; `rows` is None where they have no features."""
        feature_map, weights = self._model.maps[kind], self._model.weights_of(kind)
        several = len(self._encoder.nodes) > 1
        names = [""] if rows is None else self._encoder.names(kind)
        for k, (scope, entry) in enumerate(zip(scopes.tolist(), entries.tolist(), strict=True)):
            at, own = scope[-1], tuple(labels[node] for node in scope)
            prefix = f"{kind} " if several else ""
            if len(scope) > 1:
                prefix = f"{kind} {'-'.join(map(str, scope))} "
            for attribute, value in [(0, 1.0)] if rows is None else row_of(rows, feature_map.n_dense, k):
                weight = weight_of(feature_map, weights, attribute, entry)
                if weight:
                    name = (prefix + names[attribute]).strip()
                    yield Contribution(
                        at, name, own[0] if len(own) == 1 else own, value, weight, weight * value
                    )

    def top_features(self, n: int = 10, label: Any = None) -> list[tuple[str, Any, float]]:
        """The `n` largest weights by size: (attribute, label, weight), of nodes of one label if given.

        Attributes of edges and larger factors, named behind their kind, have tuples of labels.
        """
        self._require_fitted()  # type: ignore[attr-defined]
        if label is not None and label not in self._labels.every():
            raise InputError(f"label {label!r:.60} was not in training")
        found: list[tuple[str, Any, float]] = []
        nodes = self._encoder.nodes
        for name in nodes:
            prefix = f"{name} " if len(nodes) > 1 else ""
            found += self._largest(name, prefix, (name,), n, label)
        for kind in self._encoder.factors:
            if label is None:
                found += self._largest(kind.name, f"{kind.name} ", kind.nodes, n, None)
        return sorted(found, key=lambda each: -abs(each[2]))[:n]

    def _largest(self, kind: str, prefix: str, nodes: tuple[str, ...], n: int, label: Any) -> list[Any]:
        attribute, entry, index = self._model.maps[kind].pairs()
        weight = self._model.weights_of(kind)[index]
        classes = [self._labels.classes[name].tolist() for name in nodes]
        if label is not None:
            code = classes[0].index(label) if label in classes[0] else -1
            chosen = np.flatnonzero(entry == code)
            attribute, entry, weight = attribute[chosen], entry[chosen], weight[chosen]
        order = np.argsort(-np.abs(weight), kind="stable")[:n]
        names = self._encoder.names(kind) if kind in self._encoder.own else [""]
        sizes = [len(own) for own in classes]
        found = []
        for k in order:
            places = np.unravel_index(int(entry[k]), sizes)
            own = tuple(labels[place] for labels, place in zip(classes, places, strict=True))
            if weight[k]:
                name = (prefix + names[attribute[k]]).strip()
                found.append((name, own[0] if len(own) == 1 else own, float(weight[k])))
        return found


def row_of(rows: OwnRows, n_dense: int, k: int) -> list[tuple[int, float]]:
    """Attributes and values of row k, dense attributes numbered first."""
    row: list[tuple[int, float]] = []
    if rows.dense is not None:
        row += [(j, float(value)) for j, value in enumerate(rows.dense[k]) if value]
    sparse: AttributeRows | None = rows.sparse
    if sparse is not None:
        for j in range(int(sparse.row_ptr[k]), int(sparse.row_ptr[k + 1])):
            value = 1.0 if sparse.values is None else float(np.float32(sparse.values[j]))
            row.append((n_dense + int(sparse.ids[j]), value))
    return row
