"""`GraphLabeler`: labels of the nodes of any graphs, for any loss of the family, with a certificate of training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from partwise.core.losses import Loss
from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem
from partwise.errors import InputError
from partwise.estimators.checks import check_choice, training_weights
from partwise.estimators.encoded import Encoded
from partwise.estimators.influence import InfluenceMixin
from partwise.estimators.labels import classes_array
from partwise.estimators.linear import CompactModel
from partwise.estimators.saving import check_labels_can_be_saved, stored_part
from partwise.estimators.warm_start import WarmStarting
from partwise.features.vocabulary import check_vocabulary_settings
from partwise.storage.checks import expect_text
from partwise.tasks.graphs.data import GraphCorpus, LabelledGraphs
from partwise.tasks.graphs.encoder import GraphEncoder
from partwise.tasks.graphs.given import flat_labels
from partwise.tasks.graphs.labels import NodeLabels
from partwise.tasks.graphs.predictions import GraphPredictions, own_labels
from partwise.tasks.graphs.structures import INFERENCE, shaped, structure_for

if TYPE_CHECKING:
    from typing_extensions import Self


# Most entries of a table in a model file. Weights and several arrays of the same size are made from it.
_MOST_ENTRIES = 2**28


@dataclass(eq=False, repr=False, kw_only=True)
class GraphLabeler(GraphPredictions, InfluenceMixin, CompactModel, WarmStarting):
    """Markov random field over the nodes of given graphs: CRF, max-margin, and all losses between.

    Parameters
    ----------
    inference : {"auto", "exact", "tree-reweighted", "loopy"}
        "exact" by junction trees, refused where a table would be too large. "tree-reweighted" bounds the sum over
        labellings from above: certificates are true, of that relaxed problem. "loopy" estimates it, without a
        certificate. "auto" is exact where that fits all training graphs, else tree-reweighted; new graphs are
        labelled exactly where that fits them.
    edges : {"directed", "symmetric"}
        Whether the order of an edge's two nodes matters, where they are of one kind. A symmetric edge is scored in
        both orders, by one table.
    pairs : {"all", "observed"}
        Which (attribute, label) pairs have a weight: all, or those seen in training.
    cost : "hamming", ndarray (n_labels, n_labels), or dict of them by kind of nodes or factors
        Cost [true, predicted] of a wrong label, or of the wrong labels of a factor, for losses with γ > 0.
    classes : list, dict of lists by kind of nodes, or None
        All labels there will ever be; None for those of the training data.
    min_count, hash_size
        For features given as dicts or lists of strings.

    Attributes
    ----------
    classes_ : ndarray (n_labels,), or dict of them by kind of nodes where there are several
    inference_ : {"exact", "tree-reweighted", "loopy"}
        What training used.
    coef_ : ndarray (n_weights,)
        All weights: of nodes, of factors with features, and of those without, kind after kind.
    certificate_kind_ : {"exact", "relaxation", "approximate"}
        What the certificate is of.

    Examples
    --------
    >>> from partwise import GraphLabeler
    >>> triangle = ([["red"], ["red"], ["blue"]], [[0, 1], [1, 2], [2, 0]])
    >>> GraphLabeler().fit([triangle], [["a", "a", "b"]]).predict([triangle])[0].tolist()
    ['a', 'a', 'b']
    """

    _task = "graphs"
    _requires_y = True
    inference: Literal["auto", "exact", "tree-reweighted", "loopy"] = "auto"
    edges: Literal["directed", "symmetric"] = "directed"
    pairs: Literal["observed", "all"] = "all"
    cost: Any = "hamming"
    classes: Any = None
    min_count: int = 1
    hash_size: int | None = None

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train.

        Parameters
        ----------
        X : iterable of graphs, or Graphs
            A graph is a tuple ``(node_features, edges[, edge_features])``, a dict with these names, or a
            ``partwise.data.GraphExample``, which says what else there may be.
        y : iterable of arrays or lists of labels
            One label a node; arrays of several axes are read row by row. May be left out where X has labels of its
            own, as from ``partwise.data.read_graphs``.
        sample_weight : array_like (n_graphs,), optional
        """
        return super().fit(X, y, sample_weight)

    def _check_parameters(self) -> Loss:
        loss = super()._check_parameters()
        check_choice("inference", self.inference, INFERENCE)
        check_choice("edges", self.edges, ("directed", "symmetric"))
        check_choice("pairs", self.pairs, ("all", "observed"))
        check_vocabulary_settings(self.min_count, self.hash_size)
        return loss

    def _read(self, X: Any, y: Any, sample_weight: Any) -> LabelledGraphs:
        corpus = self._corpus(X)
        flat = flat_labels(own_labels(X, y), corpus.lengths)
        return LabelledGraphs(corpus, flat, training_weights(sample_weight, corpus.lengths > 0, "graphs"))

    def _build(self, data: LabelledGraphs) -> tuple[Problem, GraphEncoder]:
        corpus = data.corpus
        labels = self._labels = NodeLabels.of(data.labels, corpus, self.classes)
        codes = labels.codes(data.labels, corpus)
        encoder, rows = GraphEncoder.fit(corpus, self.min_count, self.hash_size)
        structure, shapes, why = shaped(self.inference, encoder, labels.sizes, corpus)
        self.inference_ = "exact" if structure.exactness == "exact" else _engine(self.inference)
        self._why_inference = why
        if why and self.verbose:
            print(self._training_notes()[0])
        self._begin_compiling(structure.oracle)
        encoded = Encoded(corpus.lengths, rows, shapes)
        problem = self._bound(
            structure,
            codes,
            shapes,
            encoded.rows(structure, self._maps(structure, encoder, rows, corpus, codes)),
            cost=self.cost,
            example_weight=data.weights,
        )
        self.classes_ = labels.as_attribute()
        return problem, encoder

    def _maps(
        self, structure: Any, encoder: GraphEncoder, rows: Any, corpus: GraphCorpus, codes: np.ndarray
    ) -> dict[str, FeatureMap]:
        """Where the weights of each kind that has features lie."""
        true = [codes[corpus.node_kind == k] for k in range(len(corpus.kinds))]
        for kind in encoder.factors:
            if not kind.tied:
                scopes, entry = corpus.flat_scopes(kind.name), 0
                for axis, name in enumerate(kind.nodes):
                    entry = entry * len(self._labels.classes[name]) + codes[scopes[:, axis]]
                true.append(np.asarray(entry))
        own = [kind for kind in structure.kinds if not kind.tied]
        return {
            kind.name: FeatureMap.build(
                kind.width, size.n_sparse, size.n_dense, each.sparse, entries, self.pairs
            )
            for kind, size, each, entries in zip(own, encoder.sizes, rows, true, strict=True)
        }

    def _label_state(self) -> list[Any]:
        labels = [own.tolist() for own in self._labels.classes.values()]
        check_labels_can_be_saved([label for own in labels for label in own])
        return labels

    def _structure_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        structure = {"name": "graph", "inference": self.inference_, "why": self._why_inference}
        return {"structure": structure, "encoder": self._encoder.state()}, {}

    def _structure_from(
        self, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
    ) -> tuple[Any, GraphEncoder]:
        encoder, shape = GraphEncoder.from_state(header.get("encoder")), stored_part(header, "structure")
        self._labels = NodeLabels(_classes(header["labels"], encoder.nodes))
        self.inference_ = expect_text(shape, "inference", INFERENCE[1:])
        self._why_inference = expect_text(shape, "why")
        sizes = dict(zip(encoder.nodes, self._labels.sizes, strict=True))
        for kind in encoder.factors:
            if np.prod([float(sizes[name]) for name in kind.nodes]) > _MOST_ENTRIES:
                raise InputError(f"the tables of kind {kind.name!r:.60} are too large")
        self.classes_ = self._labels.as_attribute()
        return structure_for(self.inference_, encoder, self._labels.sizes), encoder

    # -- what commands and pages ask ------------------------------------------------------------

    def _known_labels(self) -> list[Any]:
        return self._labels.every()

    def _labels_in(self, X: Any, y: Any) -> set[Any]:
        labels = (own.tolist() if isinstance(own, np.ndarray) else own for own in own_labels(X, y))
        return {label for own in labels for label in own}

    def _shown_settings(self) -> dict[str, Any]:
        return {"inference": self.inference_, "edges": self.edges, "pairs": self.pairs}

    def _shown_sizes(self) -> dict[str, Any]:
        sizes: dict[str, Any] = {}
        for name, own in self._labels.classes.items():
            sizes[f"labels of {name}"] = len(own)
        for name, own in self._encoder.own.items():
            sizes[f"attributes of {name}"] = sum(map(sum, own.sizes))
        for kind in self._encoder.factors:
            if kind.tied:
                sizes[f"attributes of {kind.name}"] = 0
        return sizes | {"non-zero weights": int(np.count_nonzero(self.coef_))}

    def _training_facts(self) -> dict[str, Any]:
        return {"inference": self.inference_, "why": self._why_inference} if self._why_inference else {}

    def _training_notes(self) -> list[str]:
        if not self._why_inference:
            return []
        return [f"{self.inference_} inference, as exact inference does not fit: {self._why_inference}"]


def _classes(stored: Any, kinds: list[str]) -> dict[str, np.ndarray]:
    right = isinstance(stored, list) and len(stored) == len(kinds)
    if not right or not all(isinstance(own, list) and own and len(set(own)) == len(own) for own in stored):
        raise InputError("the labels of a kind are missing, or one is there twice")
    return {name: classes_array(own) for name, own in zip(kinds, stored, strict=True)}


def _engine(inference: str) -> str:
    return "tree-reweighted" if inference == "auto" else inference
