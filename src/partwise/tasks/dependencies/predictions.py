"""What a fitted parser answers: best trees, probabilities of arcs, k best, scores against the truth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from partwise.compiled.simd import LANES
from partwise.core.arcs import Arcs, all_arcs
from partwise.core.losses import Loss
from partwise.core.scorer import Scorer
from partwise.data import DependencyCorpus
from partwise.errors import InputError
from partwise.estimators.base import n_threads
from partwise.estimators.model import LinearModel
from partwise.estimators.probabilities import Probabilities
from partwise.estimators.protocol import not_fitted
from partwise.scoring.attachment import attachment_scores
from partwise.structures.packed import Packed
from partwise.tasks.dependencies.arc_encoder import ArcEncoder
from partwise.tasks.dependencies.arc_pruning import MOST_ARCS, ArcPruner, PruningRecord
from partwise.tasks.dependencies.data import Tree, as_corpus, pieces, with_trees


class ParserQuery(NamedTuple):
    """Some sentences encoded for a model, with the arcs that pruning left."""

    lengths: np.ndarray
    arcs: Arcs
    scorer: Scorer

    def matrices(self, values: np.ndarray, fill: float) -> list[np.ndarray]:
        """Values of arcs (n_arcs, …) as one array (n + 1, n + 1, …) a sentence, by [head, modifier]."""
        result = []
        for i, n in enumerate(self.lengths.tolist()):
            own = slice(self.arcs.arc_ptr[i], self.arcs.arc_ptr[i + 1])
            matrix = np.full((n + 1, n + 1, *values.shape[1:]), fill)
            matrix[self.arcs.head[own], self.arcs.modifier[own]] = values[own]
            result.append(matrix)
        return result


class ParsingMixin(Probabilities):
    """Predictions of an estimator that has `_encoder`, `_pruner`, `_model`, `_loss` and `relations_`.

    `X` is a DependencyCorpus, whose own trees are not looked at, or a list of sentences.
    """

    _encoder: ArcEncoder
    _pruner: ArcPruner | None
    _model: LinearModel
    _loss: Loss
    relations_: list[str]
    n_jobs: int | None

    def predict(self, X: Any) -> list[Any]:
        """The best tree of every sentence.

        Returns
        -------
        list of int64 arrays (n,), or of Tree
            Heads, counted from 1 with 0 for the root; with relations a pair ``(heads, relations)``.
        """
        parsed = self.parse(X)
        heads = np.split(parsed.heads.astype(np.int64), parsed.sentence_ptr[1:-1])
        if parsed.relations is None:
            return heads if parsed.n_sentences else []
        relations = map(list, parsed.split(parsed.relations))
        return [Tree(*each) for each in zip(heads, relations, strict=False)]

    def parse(self, X: Any) -> DependencyCorpus:
        """The corpus with the best trees in place of its own, ready for ``write_dependencies``."""
        corpus = as_corpus(X)
        codes = [
            self._model.best(query.scorer, None, n_threads(self.n_jobs))[0] for query in self._queries(X)
        ]
        flat = np.concatenate([np.zeros(0, np.int64), *codes])
        n_relations, relations = max(len(self.relations_), 1), None
        if self.relations_:
            relations = [self.relations_[code] for code in (flat % n_relations).tolist()]
        return replace(corpus, heads=(flat // n_relations).astype(np.int32), relations=relations)

    def predict_marginals(self, X: Any) -> list[np.ndarray]:
        """Probability of every arc: arrays (n + 1, n + 1) by [head, modifier], zero where pruned.

        Probabilities are ∝ exp(β · score), the model that the loss belongs to; for β = ∞ (hinge, perceptron)
        there is none, and the call is refused.
        """
        beta = self._sharpness()
        return [
            matrix
            for query in self._queries(X)
            for matrix in query.matrices(self._marginals(query, beta), 0.0)
        ]

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
            score.
        """
        return [found for query in self._queries(X) for found in self._kbest(query, k)]

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
        self._require_parser()
        corpus = as_corpus(X)
        return None if self._pruner is None else self._pruner.prune(corpus, n_jobs=n_threads(self.n_jobs))[1]

    # -- shared ---------------------------------------------------------------------------------

    def _require_parser(self) -> None:
        if not hasattr(self, "_model"):
            raise not_fitted(self)

    def _queries(self, X: Any) -> Iterator[ParserQuery]:
        """The sentences piece by piece."""
        self._require_parser()
        corpus, jobs = as_corpus(X), n_threads(self.n_jobs)
        if corpus.n_sentences and (corpus.lengths == 0).any():
            raise InputError(f"X: sentence {int(np.argmax(corpus.lengths == 0))} has no words")
        for piece in pieces(corpus, MOST_ARCS):
            arcs = all_arcs(piece.lengths)
            if self._pruner is not None:
                arcs, _ = self._pruner.prune(piece, n_jobs=jobs)
            encoded = self._encoder.transform(self._model.structure, piece, arcs)
            yield ParserQuery(piece.lengths, arcs, self._model.scorer(encoded))

    def _marginals(self, query: ParserQuery, beta: float) -> np.ndarray:
        return self._model.counts(query.scorer, beta, n_jobs=n_threads(self.n_jobs))[0]

    def _kbest(self, query: ParserQuery, k: int) -> list[list[tuple[Any, float]]]:
        scale = self._scale()
        parts = scale * query.scorer.scores(self._model.weights, n_threads(self.n_jobs))
        found, log_totals = self._ranked(query, parts, k)
        results = []
        for i, trees in enumerate(found):
            values = [
                v if log_totals is None else float(np.exp(min(v - log_totals[i], 0.0))) for _, v in trees
            ]
            results.append([(self._named(tree), v) for (tree, _), v in zip(trees, values, strict=True)])
        return results

    def _ranked(self, query: ParserQuery, parts: np.ndarray, k: int) -> tuple[Any, Any]:
        """The k best trees of every sentence with their scores, and log-partitions where there are probabilities."""
        structure: Any = self._model.structure
        if structure.order == 2:
            packed = packed_scores(query.scorer, parts)
            return structure.kbest_of(packed, k), None if self._loss.is_hard else packed.log_partition()
        n_arcs = np.diff(query.arcs.arc_ptr)
        is_arc = np.zeros(len(parts), bool)
        first = query.scorer.batch.part_ptr[:-1]
        is_arc[np.repeat(first - query.arcs.arc_ptr[:-1], n_arcs) + np.arange(n_arcs.sum())] = True
        scores = [query.matrices(parts[is_arc], -np.inf)]
        if structure.labelled:
            scores.append(query.matrices(parts[~is_arc].reshape(-1, structure.n_relations), -np.inf))
        found = structure.kbest(*scores, k=k)
        return found, None if self._loss.is_hard else structure.log_partition(*scores).tolist()

    def _named(self, tree: Any) -> Any:
        """A structure's tree with the names of its relations."""
        if not self.relations_:
            return tree
        if len(self.relations_) == 1:
            return Tree(tree, self.relations_ * len(tree))
        return Tree(tree[0], [self.relations_[code] for code in tree[1].tolist()])


def packed_scores(scorer: Scorer, parts: np.ndarray) -> Packed:
    """Scores of all parts of some sentences as the structure's own methods read them."""
    structure, flat = scorer.structure, np.append(parts, np.zeros(LANES))
    return Packed(structure, structure.specification(), scorer.shapes, scorer.batch.part_ptr, flat, False)
