"""What a fitted constituency parser answers: best trees, probabilities of constituents, k best, F1."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from partwise.core.arrays import offsets, positions, ranges
from partwise.core.problem import Problem
from partwise.data.constituents import Span, Tree, fold
from partwise.data.treebank import (
    plain_label,
    plain_spans,
    rooted,
    without_cycles,
    without_functions,
    without_traces,
)
from partwise.errors import InputError
from partwise.estimators.base import n_threads
from partwise.estimators.encoded import Encoded
from partwise.estimators.explain import TopKind, Use, rows_and_columns
from partwise.estimators.labels import warn_of_unknown
from partwise.estimators.model import Excluded
from partwise.estimators.predictions import Predictions, Query
from partwise.features.spans import Sentences
from partwise.scoring.brackets import bracket_scores
from partwise.structures.contract import Shapes
from partwise.tasks.constituents.data import ROOT, as_sentences, as_trees, by_sentence, pieces
from partwise.tasks.constituents.derivations import Derivations, flat_tree, with_outer
from partwise.tasks.constituents.encoder import SpanEncoder, places_of
from partwise.tasks.constituents.explain import TreeExplanation, TreeTerm
from partwise.tasks.constituents.rule_pruning import RulePruner

MOST_SPANS = 200_000  # encoded at a time
MOST_SPANS_WITH_RULES = 10_000  # the same, if anchored rules are parts
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


class ConstituencyPredictions(Predictions):
    """Predictions of an estimator that has `_derivations` and what training found."""

    _encoder: SpanEncoder
    _derivations: Derivations
    _pruner: RulePruner | None
    has_tags_: bool
    fixed_tags_: bool
    functions: bool
    labels_: list[str]
    outer_: str | None
    _words = ("sentence", "tree")
    _has_text_labellings = True
    _n_ranked = 5

    def predict(self, X: Any) -> list[Tree]:
        """The best tree of every sentence; a substitute where the grammar has none (see `Parsed`)."""
        return self.parse(X).trees

    def parse(self, X: Any) -> Parsed:
        """The best tree of every sentence, and which sentences the grammar has no tree of."""
        found = [self._parsed(query) for query in self._queries(X)]
        trees = [tree for parsed in found for tree in parsed.trees]
        return Parsed(trees, np.concatenate([np.zeros(0, bool), *(parsed.fallback for parsed in found)]))

    def predict_marginals(self, X: Any) -> list[dict[Span, float]]:
        """Probability of every constituent ``Span(first, end, label)``, those below 0.0001 left out.

        Probabilities are ∝ exp(β · score), the model that the loss belongs to; for β = ∞ (hinge, perceptron)
        there is none, and the call is refused.
        """
        return self._over(self._marginals, X)

    def predict_kbest(self, X: Any, k: int = 5) -> list[list[tuple[Tree, float]]]:
        """The k best trees of every sentence, best first; fewer where there are fewer, none outside the grammar.

        Returns
        -------
        list of lists of (tree, value)
            The value is the tree's probability; for β = ∞, where there is none, its score.
        """
        return self._ranked(X, k)

    def score(self, X: Any, y: Any) -> float:
        """Labelled F1 of constituents, as evalb counts it with COLLINS.prm.

        Labels that were not in training can never be predicted and count as errors; a warning names them.

        Parameters
        ----------
        X : sequence of sentences, or None for those of the trees
        y : sequence of trees
        """
        trees = as_trees(y).trees
        warn_of_unknown(self._labels_in(X, trees), self._known_labels())  # type: ignore[attr-defined]
        return bracket_scores(trees, self.predict(trees if X is None else X)).f1

    def _labels_in(self, X: Any, y: Any) -> set[Any]:
        """Labels of constituents as evalb compares them, without functions; those of training under their own names."""
        known = {plain_label(label): label for label in (*self.labels_, *filter(None, [self.outer_]))}
        spans = (span for tree in as_trees(y).trees for span in plain_spans(without_traces(tree) or tree))
        found = {known.get(span.label, span.label) for span in spans}
        return found - {self.outer_, ROOT}

    # -- examples and labellings ----------------------------------------------------------------

    def _source(self, X: Any) -> Sentences:
        sentences = as_sentences(X, self.has_tags_)
        if (sentences.lengths == 0).any():
            raise InputError(f"X[{int(np.argmax(sentences.lengths == 0))}] has no words")
        return sentences

    def _pieces(self, source: Sentences) -> Iterable[Sentences]:
        structure: Any = self._model.structure
        return pieces(source, MOST_SPANS_WITH_RULES if structure.anchored else MOST_SPANS)

    def _encode(self, source: Sentences, encoder: SpanEncoder, structure: Any) -> Encoded:
        return encoder.transform(structure, source, self._shapes_of(structure, source))

    def _shapes_of(self, structure: Any, source: Sentences, gold: np.ndarray | None = None) -> Shapes:
        """Shapes of sentences, with the anchored rules that pruning leaves if there are any."""
        if self._pruner is None:
            return structure.shapes(source.lengths)
        return self._pruner.shapes(structure, source, gold)

    def _constrained(self, query: Query, *constraints: Any) -> Query:
        return replace(query, excluded=self._excluded(query.source))

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

    def _parsed(self, query: Query) -> Parsed:
        """Best trees; outside the grammar those with any tags in place of the given ones, else flat ones."""
        n, words = query.scorer.n_examples, by_sentence(query.source, query.source.forms)
        found = self._best_possible(query, np.arange(n), query.excluded)
        fallback = np.array([i not in found for i in range(n)], bool)
        if fallback.any():
            if query.excluded is not None:
                found |= self._best_possible(query, np.flatnonzero(fallback), None)
            tags = self._likely_tags(query)
            label = self._derivations.sentence_label
            for i in range(n):
                if i not in found:
                    found[i] = with_outer(flat_tree(words[i], tags[i], label), self.outer_)
        return Parsed([found[i] for i in range(n)], fallback)

    def _best_possible(
        self, query: Query, examples: np.ndarray, excluded: Excluded | None
    ) -> dict[int, Tree]:
        """Best trees of those sentences that have any."""
        jobs = n_threads(self.n_jobs)
        nodes, values = self._model.best(query.scorer.shard(examples), _only(excluded, examples), jobs)
        examples = examples[values > -np.inf]
        if nodes is None and len(examples):
            nodes, _ = self._model.best(query.scorer.shard(examples), _only(excluded, examples), jobs)
        return dict(zip(examples.tolist(), self._trees(query, examples, nodes), strict=True))

    def _trees(self, query: Query, examples: np.ndarray, nodes: np.ndarray) -> list[Tree]:
        """Trees of derivations, with the tags given where these are fixed."""
        if not len(examples):
            return []
        source, chosen = query.source, examples.tolist()
        words = by_sentence(source, source.forms, chosen)
        trees = self._derivations.trees_of(nodes, words, self.outer_)
        if not self.fixed_tags_ or source.tags is None:
            return trees
        return [
            with_tags(*each) for each in zip(trees, by_sentence(source, source.tags, chosen), strict=True)
        ]

    def _labelling(self, codes: np.ndarray, query: Query, i: int) -> Tree:
        return self._trees(query, np.array([i]), codes)[0]

    def _labellings(self, codes: np.ndarray, query: Query) -> list[Tree]:
        return self._trees(query, np.arange(len(query.lengths)), codes)

    def _likely_tags(self, query: Query) -> list[list[str]]:
        """The tags given, or those that words alone speak for."""
        if query.source.tags is not None:
            return by_sentence(query.source, query.source.tags)
        scores, width = query.scorer.scores(self._model.weights), len(self._derivations.word_tags)
        tags = []
        for start, n in zip(query.scorer.batch.part_ptr.tolist(), query.lengths.tolist(), strict=False):
            own = scores[start : start + n * width].reshape(-1, width).argmax(axis=1)
            tags.append([self._derivations.word_tags[column] for column in own.tolist()])
        return tags

    def _marginals(self, query: Query) -> list[dict[Span, float]]:
        structure: Any = self._model.structure
        counts, log_total = query.counts(self._sharpness(), "all")
        word_labels, labels = self._derivations.word_label_matrix(), self._derivations.label_matrix(structure)
        n_word, width = len(word_labels), len(labels)
        ptr, first, last = structure.spans_of(query.scorer.shapes)
        results = []
        for i, start in enumerate(query.scorer.batch.part_ptr[:-1].tolist()):
            n, rows = int(query.lengths[i]), slice(int(ptr[i]), int(ptr[i + 1]))
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

    def _kbest(self, query: Query, k: int) -> list[list[tuple[Tree, float]]]:
        """Derivations that differ only in what binary form added are one tree, whose probability is their sum."""
        results = []
        for ranked in super()._kbest(query, k):
            found: dict[Tree, float] = {}
            for tree, value in ranked:
                found[tree] = found.get(tree, value) if self._loss.is_hard else found.get(tree, 0.0) + value
            results.append(sorted(found.items(), key=lambda each: -each[1]))
        return results

    # -- scores ---------------------------------------------------------------------------------

    def _with_truth(self, X: Any, y: Any) -> tuple[Sentences, list[Tree]]:
        trees = as_trees(y).trees
        return as_sentences(trees if X is None else X, self.has_tags_), trees

    _score_name = "F1"

    def _score_of(self, true: list[Tree], predicted: list[Tree]) -> float:
        """F1 of constituents."""
        return bracket_scores(true, predicted).f1

    def _score_of_labels(self, problem: Problem, true: np.ndarray, predicted: np.ndarray) -> float:
        words = [["word"] * int(length) for length in problem.lengths]
        both = (self._derivations.trees_of(nodes, words, self.outer_) for nodes in (true, predicted))
        return self._score_of(*both)

    # -- explanations ---------------------------------------------------------------------------

    def _given(self, query: Query, y: Any, name: str) -> tuple[Tree, np.ndarray]:
        """The tree, and its nodes as training would see them."""
        tree = Tree.of(y, name)
        bare = without_traces(tree)
        if bare is None:
            raise InputError(f"{name} has no words")
        bare = bare if self.functions else without_functions(bare)
        binary = self._derivations.form.apply(without_cycles(rooted(bare, ROOT)))
        if binary.words() != query.source.forms:
            raise InputError(f"the words of {name} are not those of x")
        try:
            return tree, self._derivations.nodes_of([binary])
        except KeyError as error:
            raise InputError(f"{name} has a rule that was not in training (symbol or rule {error})") from None

    def _uses(self, query: Query, labels: np.ndarray) -> Iterator[Use]:
        structure: Any = self._model.structure
        shapes = query.encoded.shapes_for(structure)
        parts = structure.encode_all(labels, shapes).part
        own = {kind: places_of(kind, structure, shapes) for kind in self._encoder.features}
        columns, rules = self._columns(), self._derivations.shown_rules()
        for kind, row, column in rows_and_columns(structure, shapes, parts):
            if kind in own:
                place = int(own[kind].first[row]), int(own[kind].last[row]) + 1
                yield Use(kind, row, column, place, columns[kind][column])
        for first, last, _, rule in labels.tolist():
            if rule >= 0:
                yield Use("rule", 0, rule, (first, last + 1), rules[rule], "(rule)")

    def _columns(self) -> dict[str, list[str]]:
        """The symbol of each column of the rows of a kind."""
        structure: Any = self._model.structure
        names, spans = self._derivations.symbols, (*structure.binary_symbols, *structure.unary_symbols)
        columns = {"word": [names[k] for k in structure.word_symbols], "span": [names[k] for k in spans]}
        return columns | {"split": ["split"], "anchored": ["rule at a place"]}

    def _term(self, use: Use, attribute: str, value: float, weight: float) -> TreeTerm:
        first, end = use.position
        return TreeTerm(first, end, attribute, use.label, weight, weight)

    def _place(self, term: TreeTerm) -> tuple[int, int]:
        return term.first, -term.end

    def _explained(
        self, shown: Tree, other: Tree | None, score: float, terms: list[TreeTerm]
    ) -> TreeExplanation:
        return TreeExplanation(shown, other, score, terms)

    def _top_kinds(self) -> Iterator[TopKind]:
        for kind, columns in self._columns().items():
            if kind in self._encoder.features:
                yield TopKind(kind, columns, columns)
        rules = self._derivations.shown_rules()
        yield TopKind("rule", rules, [text.partition(" → ")[0] for text in rules], "(rule)")


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
