"""What a fitted parser answers: best trees, probabilities of arcs, k best, scores against the truth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from partwise.core.arcs import all_arcs
from partwise.core.arrays import ranges
from partwise.data import DependencyCorpus
from partwise.errors import InputError
from partwise.estimators.base import n_threads
from partwise.estimators.encoded import Encoded
from partwise.estimators.explain import TopKind, Use, rows_and_columns
from partwise.estimators.predictions import Predictions, Query
from partwise.scoring.attachment import attachment_scores
from partwise.tasks.dependencies.arc_encoder import ArcEncoder
from partwise.tasks.dependencies.arc_pruning import MOST_ARCS, ArcPruner, PruningRecord
from partwise.tasks.dependencies.data import Tree, as_corpus, pieces, with_trees
from partwise.tasks.dependencies.lifting import ArcLabels, LiftedTrees, lift


class ParserPredictions(Predictions):
    """Predictions of an estimator that has `_pruner`, `relations_` and `_labels`.

    `X` is a DependencyCorpus, whose own trees are not looked at, or a list of sentences.
    """

    _encoder: ArcEncoder
    _pruner: ArcPruner | None
    relations_: list[str]
    _labels: ArcLabels
    _words = ("sentence", "tree")

    def predict(self, X: Any) -> list[Any]:
        """The best tree of every sentence.

        Returns
        -------
        list of int64 arrays (n,), or of Tree
            Heads, counted from 1 with 0 for the root; with relations a pair ``(heads, relations)``.
        """
        return self._over(self._best, X)

    def parse(self, X: Any) -> DependencyCorpus:
        """The corpus with the best trees in place of its own, ready for ``write_dependencies``."""
        corpus = as_corpus(X)
        trees = self.predict(corpus)
        heads = [tree.heads if self.relations_ else tree for tree in trees]
        relations = [name for tree in trees for name in tree.relations] if self.relations_ else None
        flat = np.concatenate([np.zeros(0, np.int64), *heads])
        return replace(corpus, heads=flat.astype(np.int32), relations=relations)

    def predict_marginals(self, X: Any) -> list[np.ndarray]:
        """Probability of every arc: arrays (n + 1, n + 1) by [head, modifier], zero where pruned.

        Probabilities are ∝ exp(β · score), the model that the loss belongs to; for β = ∞ (hinge, perceptron)
        there is none, and the call is refused. A lifted arc counts for the head to which the best tree puts it back.
        """
        return self._over(self._marginals, X)

    def _marginals(self, query: Query) -> list[np.ndarray]:
        if not self._labels.lifts:
            return _matrices(query, self._counts(query), 0.0)
        structure: Any = query.model.structure
        counts, n_arcs = self._counts(query, "all"), structure.n_arcs(query.scorer.shapes)
        first = query.scorer.batch.part_ptr[:-1]
        arcs = _matrices(query, counts[ranges(first, n_arcs)], 0.0)
        own = counts[ranges(first + n_arcs, n_arcs * structure.n_relations)]
        labels = _matrices(query, own.reshape(-1, structure.n_relations), 0.0)
        best = np.split(query.best()[0], np.cumsum(query.lengths)[:-1])
        for arc, label, codes in zip(arcs, labels, best, strict=True):
            self._labels.move_back(arc, label, *np.divmod(codes, structure.n_relations))
        return arcs

    def arc_probabilities(self, X: Any, heads: Any) -> np.ndarray:
        """Probability of the arc from each word's given head, float64 (n_words,)."""
        found = self.predict_marginals(X)
        n_words = sum(len(matrix) - 1 for matrix in found)
        flat, first, result = np.asarray(heads), 0, []
        if flat.shape != (n_words,) or (n_words and flat.dtype.kind not in "iu"):
            raise InputError(f"heads must be {n_words} whole numbers, one a word, sentence after sentence")
        for matrix in found:
            n = len(matrix) - 1
            own = flat[first : first + n]
            if n and not 0 <= own.min() <= own.max() <= n:
                raise InputError(
                    f"heads[{first}:{first + n}]: heads of a sentence of {n} words are from 0 to {n}"
                )
            result.append(matrix[own, np.arange(1, n + 1)])
            first += n
        return np.concatenate([np.zeros(0), *result])

    def predict_kbest(self, X: Any, k: int = 5) -> list[list[tuple[Any, float]]]:
        """The k best trees of every sentence, best first.

        Returns
        -------
        list of lists of (tree, value)
            Trees as from `predict`. The value is the tree's probability; for β = ∞, where there is none, its
            score. If several trees are the same after their lifts are undone, only the best of them is there.
        """
        return self._ranked(X, k)

    def _kbest(self, query: Query, k: int) -> list[list[tuple[Any, float]]]:
        found = super()._kbest(query, k)
        return [_distinct(trees) for trees in found] if self._labels.lifts else found

    def score(self, X: Any, y: Any = None) -> float:
        """Unlabelled attachment score: the share of words with the right head, punctuation included.

        Parameters
        ----------
        y : sequence of trees, or None for those of the corpus
        """
        corpus = with_trees(as_corpus(X), y)
        return attachment_scores(corpus, self.parse(corpus).heads).uas

    def pruning_recall(self, X: Any) -> PruningRecord | None:
        """How many arcs of sentences with known trees pruning leaves, and how many true ones; None without."""
        self._require_model()
        corpus = as_corpus(X)
        return None if self._pruner is None else self._pruner.prune(corpus, n_jobs=n_threads(self.n_jobs))[1]

    # -- examples and labellings ----------------------------------------------------------------

    def _source(self, X: Any) -> DependencyCorpus:
        corpus = as_corpus(X)
        if corpus.n_sentences and (corpus.lengths == 0).any():
            raise InputError(f"X: sentence {int(np.argmax(corpus.lengths == 0))} has no words")
        return corpus

    def _pieces(self, source: DependencyCorpus) -> Iterable[DependencyCorpus]:
        return pieces(source, MOST_ARCS)

    def _encode(self, source: DependencyCorpus, encoder: ArcEncoder, structure: Any) -> Encoded:
        """Rows of the arcs that pruning leaves."""
        arcs = all_arcs(source.lengths)
        if self._pruner is not None:
            arcs, _ = self._pruner.prune(source, n_jobs=n_threads(self.n_jobs))
        return encoder.transform(structure, source, arcs)

    def _labelling(self, codes: np.ndarray, query: Query | None, i: int) -> Any:
        """Heads, or heads and relations, from heads · n_labels + labels."""
        if not self.relations_:
            return codes
        heads, labels = self._labels.put_back(*np.divmod(codes, len(self._labels)))
        return Tree(heads, [self.relations_[code] for code in labels.tolist()])

    def _kbest_labels(self, query: Query, k: int, scale: float) -> list[list[tuple[np.ndarray, float]]]:
        structure: Any = self._model.structure
        if structure.order == 2:
            found = structure.kbest_of(query.packed(scale), k)
        else:
            parts, first = query.scores(scale), query.scorer.batch.part_ptr[:-1]
            n_arcs = structure.n_arcs(query.scorer.shapes)
            is_arc = np.zeros(len(parts), bool)
            is_arc[ranges(first, n_arcs)] = True
            scores = [_matrices(query, parts[is_arc], -np.inf)]
            if structure.labelled:
                scores.append(_matrices(query, parts[~is_arc].reshape(-1, structure.n_relations), -np.inf))
            found = structure.kbest(*scores, k=k)
        if not structure.labelled:
            return found
        n_relations = structure.n_relations
        return [[(heads * n_relations + names, value) for (heads, names), value in own] for own in found]

    # -- scores ---------------------------------------------------------------------------------

    def _with_truth(self, X: Any, y: Any) -> tuple[DependencyCorpus, DependencyCorpus]:
        """y is None where X has the true trees."""
        corpus = with_trees(as_corpus(X), y)
        if self.relations_ and corpus.relations is None:
            raise InputError(
                "dev data need relations, since the parser learns them: give them, or labelled=False"
            )
        return corpus, corpus

    @property
    def _score_name(self) -> str:
        return "LAS" if self.relations_ else "UAS"

    def _score_of(self, true: DependencyCorpus, predicted: list[Any]) -> float:
        """LAS, or UAS without relations, punctuation included."""
        heads = [each.heads if self.relations_ else each for each in predicted]
        right = np.concatenate(heads) == true.heads
        if self.relations_:
            relations = [name for each in predicted for name in each.relations]
            right &= np.array(relations, object) == np.array(true.relations, object)
        return float(right.mean())

    # -- explanations ---------------------------------------------------------------------------

    def _alone(self, x: Any) -> DependencyCorpus:
        corpus = as_corpus(x if hasattr(x, "sentence_ptr") else [x])
        if corpus.n_sentences != 1:
            raise InputError(f"x must be one sentence, not {corpus.n_sentences}")
        return corpus

    def _given(self, query: Query, y: Any, name: str) -> tuple[list[Any], np.ndarray]:
        """Pairs (head, relation), relations None where there are none; and codes."""
        tree, structure = with_trees(query.source, [y]), self._model.structure
        trees = lift(tree) if self._labels.lifts else LiftedTrees(tree, tree.heads)
        labels = trees.corpus.heads.astype(np.int64)
        if structure.labelled:  # type: ignore[attr-defined]
            if tree.relations is None or not set(tree.relations) <= set(self.relations_):
                raise InputError("the tree must have relations, all of which were in training")
            labels = labels * len(self._labels) + self._labels.codes(trees)
        relations: Any = tree.relations if self.relations_ else None
        return list(zip(tree.heads.tolist(), relations or [None] * tree.n_words, strict=True)), labels

    def _uses(self, query: Query, labels: np.ndarray) -> Iterator[Use]:
        """A part stands at the modifier of its arc; its label is the relation, or else the kind of part."""
        structure: Any = self._model.structure
        shapes = query.encoded.shapes_for(structure)
        arcs, parts = structure.arcs_of(shapes), structure.parts_of_trees(labels, shapes).part
        words = {"arc": arcs.modifier, "relation": arcs.modifier}
        if structure.order == 2:
            for kind, triples in zip(("sibling", "grandparent"), structure.triples(arcs), strict=True):
                words[kind] = np.where(triples.modifier < 0, triples.first, triples.modifier)
        names = self._labels.names
        for kind, row, column in rows_and_columns(structure, shapes, parts):
            label = names[column] if kind == "relation" else kind
            yield Use(kind, row, column, int(words[kind][row]) - 1, label)

    def _top_kinds(self) -> list[TopKind]:
        names = self._labels.names
        relation = TopKind("relation", names, names)
        return [
            relation if kind == "relation" else TopKind(kind, [kind], [None])
            for kind in self._encoder.features
        ]


def _distinct(trees: list[tuple[Tree, float]]) -> list[tuple[Tree, float]]:
    """The first of all trees that are equal."""
    first: dict[Any, tuple[Tree, float]] = {}
    for tree, value in trees:
        first.setdefault((tuple(tree.heads.tolist()), tuple(tree.relations)), (tree, value))
    return list(first.values())


def _matrices(query: Query, values: np.ndarray, fill: float) -> list[np.ndarray]:
    """Values of arcs (n_arcs, …) as one array (n + 1, n + 1, …) a sentence, by [head, modifier]."""
    structure: Any = query.model.structure
    arcs, found = structure.arcs_of(query.scorer.shapes), []
    for i, n in enumerate(query.lengths.tolist()):
        own = slice(arcs.arc_ptr[i], arcs.arc_ptr[i + 1])
        matrix = np.full((n + 1, n + 1, *values.shape[1:]), fill)
        matrix[arcs.head[own], arcs.modifier[own]] = values[own]
        found.append(matrix)
    return found
