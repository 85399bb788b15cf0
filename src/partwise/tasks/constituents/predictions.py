"""What a fitted constituency parser answers: best trees, probabilities of constituents, k best, F1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from partwise.core.arrays import block_of, offsets, positions, ranges
from partwise.core.losses import Loss
from partwise.core.scorer import Scorer
from partwise.data.constituents import Span, Tree, fold
from partwise.errors import InputError
from partwise.estimators.base import n_threads
from partwise.estimators.model import Excluded, LinearModel
from partwise.estimators.probabilities import Probabilities
from partwise.estimators.protocol import not_fitted
from partwise.features.spans import Sentences
from partwise.scoring.brackets import bracket_scores
from partwise.structures.checks import checked_count
from partwise.structures.contract import PartLists
from partwise.tasks.constituents.data import as_sentences, as_trees, by_sentence, pieces
from partwise.tasks.constituents.derivations import Derivations, flat_tree, with_outer
from partwise.tasks.constituents.encoder import SpanEncoder

MOST_SPANS = 200_000  # encoded at a time
_SMALLEST_SHOWN = 1e-4


class Parsed(NamedTuple):
    """Trees of some sentences.

    Attributes
    ----------
    trees : list of Tree
    fallback : bool array (n_sentences,)
        Which sentences are outside the grammar. Where tags were given, their tree is the best one with any tags, and
        has those given put in; else it is a flat one.
    """

    trees: list[Tree]
    fallback: np.ndarray


class SpanQuery(NamedTuple):
    """Some sentences encoded for a model.

    Attributes
    ----------
    words, tags : list of lists of str
        By sentence; `tags` is None where the input has none.
    excluded : Excluded or None
        Symbols of words that do not have the tag given.
    """

    words: list[list[str]]
    tags: list[list[str]] | None
    scorer: Scorer
    excluded: Excluded | None


class ConstituencyMixin(Probabilities):
    """Predictions of an estimator that has `_encoder`, `_model`, `_derivations`, `_loss` and what training found."""

    _encoder: SpanEncoder
    _model: LinearModel
    _derivations: Derivations
    _loss: Loss
    has_tags_: bool
    fixed_tags_: bool
    outer_: str | None
    n_jobs: int | None

    def predict(self, X: Any) -> list[Tree]:
        """The best tree of every sentence; a substitute where the grammar has none (see `Parsed`)."""
        return self.parse(X).trees

    def parse(self, X: Any) -> Parsed:
        """The best tree of every sentence, and which sentences the grammar has no tree of."""
        found = [self._best(query) for query in self._queries(X)]
        trees = [tree for parsed in found for tree in parsed.trees]
        return Parsed(trees, np.concatenate([np.zeros(0, bool), *(parsed.fallback for parsed in found)]))

    def predict_marginals(self, X: Any) -> list[dict[Span, float]]:
        """Probability of every constituent ``Span(first, end, label)``, those below 0.0001 left out.

        Probabilities are ∝ exp(β · score), the model that the loss belongs to; for β = ∞ (hinge, perceptron)
        there is none, and the call is refused.
        """
        self._require_parser()
        beta = self._sharpness()
        return [found for query in self._queries(X) for found in self._marginals(query, beta)]

    def predict_kbest(self, X: Any, k: int = 5) -> list[list[tuple[Tree, float]]]:
        """The k best trees of every sentence, best first; fewer where there are fewer, none outside the grammar.

        Returns
        -------
        list of lists of (tree, value)
            The value is the tree's probability; for β = ∞, where there is none, its score.
        """
        k = checked_count(k, "k")
        return [found for query in self._queries(X) for found in self._kbest(query, k)]

    def score(self, X: Any, y: Any) -> float:
        """Labelled F1 of constituents, as evalb counts it with COLLINS.prm.

        Parameters
        ----------
        X : sequence of sentences, or None for those of the trees
        y : sequence of trees
        """
        trees = as_trees(y).trees
        return bracket_scores(trees, self.predict(trees if X is None else X)).f1

    # -- shared ---------------------------------------------------------------------------------

    def _require_parser(self) -> None:
        if not hasattr(self, "_model"):
            raise not_fitted(self)

    def _queries(self, X: Any) -> Iterator[SpanQuery]:
        """The sentences piece by piece."""
        self._require_parser()
        sentences = as_sentences(X, self.has_tags_)
        lengths = sentences.lengths
        if (lengths == 0).any():
            raise InputError(f"X[{int(np.argmax(lengths == 0))}] has no words")
        structure: Any = self._model.structure
        for piece in pieces(sentences, MOST_SPANS):
            encoded = self._encoder.transform(structure, piece, structure.shapes(piece.lengths))
            words = by_sentence(piece, piece.forms)
            tags = None if piece.tags is None else by_sentence(piece, piece.tags)
            yield SpanQuery(words, tags, self._model.scorer(encoded), self._excluded(piece))

    def _excluded(self, sentences: Sentences) -> Excluded | None:
        """Symbols of words that do not have the tag given; a tag that was not in training excludes none."""
        if not self.fixed_tags_ or sentences.tags is None:
            return None
        names = self._derivations.word_tags
        known = {tag: np.flatnonzero([name != tag for name in names]) for tag in set(names)}
        lists = [known.get(tag, np.zeros(0, np.int64)) for tag in sentences.tags]
        sizes = np.array([len(each) for each in lists], np.int64)
        place = np.repeat(positions(sentences.lengths) * len(names), sizes)
        part = place + np.concatenate([np.zeros(0, np.int64), *lists])
        per_sentence = np.diff(offsets(sizes)[sentences.sentence_ptr])
        return Excluded(offsets(per_sentence), part)

    def _best(self, query: SpanQuery) -> Parsed:
        """Best trees; outside the grammar those with any tags in place of the given ones, else flat ones."""
        n = query.scorer.n_examples
        found = self._best_possible(query, np.arange(n), query.excluded)
        fallback = np.array([i not in found for i in range(n)], bool)
        if fallback.any():
            if query.excluded is not None:
                found |= self._best_possible(query, np.flatnonzero(fallback), None)
            tags = self._likely_tags(query)
            found |= {i: self._flat(query.words[i], tags[i]) for i in range(n) if i not in found}
        return Parsed([found[i] for i in range(n)], fallback)

    def _best_possible(
        self, query: SpanQuery, examples: np.ndarray, excluded: Excluded | None
    ) -> dict[int, Tree]:
        """Best trees of those sentences that have any."""
        jobs = n_threads(self.n_jobs)
        nodes, values = self._model.best(query.scorer.shard(examples), _only(excluded, examples), jobs)
        examples = examples[values > -np.inf]
        if nodes is None and len(examples):
            nodes, _ = self._model.best(query.scorer.shard(examples), _only(excluded, examples), jobs)
        return dict(zip(examples.tolist(), self._trees(query, examples, nodes), strict=True))

    def _trees(self, query: SpanQuery, examples: np.ndarray, nodes: np.ndarray) -> list[Tree]:
        """Trees of derivations, with the tags given where these are fixed."""
        if not len(examples):
            return []
        words = [query.words[i] for i in examples.tolist()]
        trees = self._derivations.trees_of(nodes, words, self.outer_)
        if not self.fixed_tags_ or query.tags is None:
            return trees
        return [with_tags(tree, query.tags[i]) for tree, i in zip(trees, examples.tolist(), strict=True)]

    def _likely_tags(self, query: SpanQuery) -> list[list[str]]:
        """The tags given, or those that words alone speak for."""
        if query.tags is not None:
            return query.tags
        scores, width = query.scorer.scores(self._model.weights), len(self._derivations.word_tags)
        tags = []
        for start, words in zip(query.scorer.batch.part_ptr.tolist(), query.words, strict=False):
            own = scores[start : start + len(words) * width].reshape(-1, width).argmax(axis=1)
            tags.append([self._derivations.word_tags[column] for column in own.tolist()])
        return tags

    def _flat(self, words: Sequence[str], tags: Sequence[str]) -> Tree:
        """All words under one constituent, the one that sentences most often are."""
        return with_outer(flat_tree(words, tags, self._derivations.sentence_label), self.outer_)

    def _marginals(self, query: SpanQuery, beta: float) -> list[dict[Span, float]]:
        structure: Any = self._model.structure
        counts, log_total = self._model.counts(
            query.scorer, beta, excluded=query.excluded, what="all", n_jobs=n_threads(self.n_jobs)
        )
        word_labels, labels = self._derivations.word_label_matrix(), self._derivations.label_matrix(structure)
        n_word, width = len(word_labels), len(labels)
        ptr, first, last = structure.spans_of(query.scorer.shapes)
        results = []
        for i, start in enumerate(query.scorer.batch.part_ptr[:-1].tolist()):
            n, rows = len(query.words[i]), slice(int(ptr[i]), int(ptr[i + 1]))
            n_rows = rows.stop - rows.start
            end = start + n * n_word
            p = counts[end : end + n_rows * width].reshape(n_rows, width) @ labels
            p[:n] += counts[start:end].reshape(n, n_word) @ word_labels
            if log_total[i] == -np.inf:
                p[:] = 0.0
            row, label = np.nonzero(p >= _SMALLEST_SHOWN)
            spans = zip(first[rows][row].tolist(), last[rows][row].tolist(), label.tolist(), strict=True)
            names, values = self._derivations.labels, np.minimum(p[row, label], 1.0).tolist()
            results.append({Span(a, b + 1, names[c]): v for (a, b, c), v in zip(spans, values, strict=True)})
        return results

    def _kbest(self, query: SpanQuery, k: int) -> list[list[tuple[Tree, float]]]:
        structure: Any = self._model.structure
        jobs, scale = n_threads(self.n_jobs), self._scale()
        scores, part_ptr = query.scorer.scores(self._model.weights, jobs), query.scorer.batch.part_ptr
        if query.excluded is not None:
            scores[part_ptr[:-1][block_of(query.excluded.ptr)] + query.excluded.part] = -np.inf
        log_totals = np.zeros(query.scorer.n_examples)
        if not self._loss.is_hard:
            _, log_totals = self._model.counts(
                query.scorer, scale, excluded=query.excluded, what="nothing", n_jobs=jobs
            )
        results = []
        for i in range(query.scorer.n_examples):
            own, shapes = scores[part_ptr[i] : part_ptr[i + 1]], query.scorer.shapes.take(np.array([i]))
            found: dict[Tree, float] = {}
            for parts in structure.kbest_parts(shapes.values, own, k):
                distinct = np.unique(parts)
                nodes = structure.decode_all(PartLists(np.array([0, len(distinct)]), distinct), shapes)
                [tree] = self._trees(query, np.array([i]), nodes)
                value = scale * float(own[parts].sum())
                value = value if self._loss.is_hard else float(np.exp(min(value - log_totals[i], 0.0)))
                # Derivations that differ only in what binary form added are one tree.
                found[tree] = found.get(tree, value) if self._loss.is_hard else found.get(tree, 0.0) + value
            results.append(sorted(found.items(), key=lambda each: -each[1]))
        return results


def _only(excluded: Excluded | None, examples: np.ndarray) -> Excluded | None:
    """What is excluded of some examples."""
    if excluded is None:
        return None
    sizes = np.diff(excluded.ptr)[examples]
    return Excluded(offsets(sizes), excluded.part[ranges(excluded.ptr[:-1][examples], sizes)])


def with_tags(tree: Tree, tags: Sequence[str]) -> Tree:
    """The tree with other tags."""
    own = iter(tags)
    return fold(
        tree, lambda node, below: Tree(node.label, below) if node.word is None else Tree(next(own), node.word)
    )
