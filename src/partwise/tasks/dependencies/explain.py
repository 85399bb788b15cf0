"""Why a parser chose a tree: the terms of its score, or of its difference to another tree."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np

from partwise.core.arcs import all_arcs
from partwise.errors import InputError
from partwise.estimators.base import n_threads
from partwise.estimators.explain import Contribution, Explanation, weight_of
from partwise.estimators.model import LinearModel
from partwise.tasks.dependencies.arc_encoder import ArcEncoder
from partwise.tasks.dependencies.arc_pruning import ArcPruner
from partwise.tasks.dependencies.data import as_corpus, relation_codes, with_trees


class ParsingExplanations:
    """Explanations of an estimator that has `_encoder`, `_pruner`, `_model` and `relations_`."""

    _encoder: ArcEncoder
    _pruner: ArcPruner | None
    _model: LinearModel
    relations_: list[str]
    n_jobs: int | None

    def explain(self, x: Any, y: Any = None, against: Any = None) -> Explanation:
        """Contributions to the score of a tree of one sentence; they add up to it.

        Parameters
        ----------
        x : one sentence, as in X, or a corpus of one sentence
        y : tree, optional
            By default the best one.
        against : "runner-up" or tree, optional
            Explain the difference to the second best tree (the best other than `y`), or to a given one. A positive
            contribution speaks for `y`.

        Returns
        -------
        Explanation
            A term stands at the modifier of its arc, its label is the relation, or the kind of part ("arc",
            "sibling", "grandparent"). Labels are (head, relation), relations None where there are none.
        """
        parser: Any = self
        corpus = as_corpus(x if hasattr(x, "sentence_ptr") else [x])
        if corpus.n_sentences != 1:
            raise InputError(f"x must be one sentence, not {corpus.n_sentences}")
        tree = parser.predict(corpus)[0] if y is None else y
        other = against
        if isinstance(against, str):
            if against != "runner-up":
                raise InputError(f"against must be 'runner-up' or a tree, not {against!r:.40}")
            mine = self._labels(corpus, tree)
            ranked = (found for found, _ in parser.predict_kbest(corpus, 2)[0])
            other = next((found for found in ranked if self._labels(corpus, found) != mine), None)
            if other is None:
                raise InputError("this sentence has no other tree to compare with")
        terms = self._terms(corpus, tree)
        if other is not None:
            theirs = self._terms(corpus, other)
            mine_only, theirs_only = Counter(terms) - Counter(theirs), Counter(theirs) - Counter(terms)
            negative = (term._replace(contribution=-term.contribution) for term in theirs_only.elements())
            terms = [*mine_only.elements(), *negative]  # counted, since a tree may have a term twice
        ordered = sorted(terms, key=lambda term: term.position)
        compared = None if other is None else self._labels(corpus, other)
        total = math.fsum(term.contribution for term in ordered)
        return Explanation(self._labels(corpus, tree), compared, total, ordered)

    def _labels(self, corpus: Any, tree: Any) -> list[Any]:
        with_tree = with_trees(corpus, [tree])
        relations: Any = with_tree.relations if self.relations_ else None
        return list(zip(with_tree.heads.tolist(), relations or [None] * corpus.n_words, strict=True))

    def _terms(self, corpus: Any, tree: Any) -> list[Contribution]:
        """Terms of the scores of a tree's parts."""
        with_tree = with_trees(corpus, [tree])
        structure: Any = self._model.structure
        labels = with_tree.heads.astype(np.int64) * structure.n_relations
        if structure.labelled:
            if with_tree.relations is None or not set(with_tree.relations) <= set(self.relations_):
                raise InputError("the tree must have relations, all of which were in training")
            labels = labels + relation_codes(with_tree, self.relations_)
        arcs = all_arcs(corpus.lengths)
        if self._pruner is not None:
            arcs, _ = self._pruner.prune(corpus, n_jobs=n_threads(self.n_jobs))
        encoded = self._encoder.transform(structure, corpus, arcs)
        shapes = encoded.shapes_for(structure)
        parts = structure.parts_of_trees(labels, shapes).part
        modifiers = [arcs.modifier] * (1 + structure.labelled)
        if structure.order == 2:
            modifiers += [
                np.where(triples.modifier < 0, triples.first, triples.modifier)
                for triples in structure.triples(arcs)
            ]
        terms: list[Contribution] = []
        first = 0
        kinds = zip(structure.kinds, structure.row_counts(shapes), encoded.own, modifiers, strict=False)
        for kind, count, own, words in kinds:
            end = first + int(count[0]) * kind.width
            for part in parts[(parts >= first) & (parts < end)].tolist():
                row, column = divmod(part - first, kind.width)
                terms += self._of_row(kind.name, own.sparse, row, column, int(words[row]) - 1)
            first = end
        return terms

    def _of_row(self, kind: str, rows: Any, row: int, column: int, word: int) -> list[Contribution]:
        """Terms of one row for one of its parts."""
        own = slice(int(rows.row_ptr[row]), int(rows.row_ptr[row + 1]))
        ids = rows.ids[own].tolist()
        values = [1.0] * len(ids) if rows.values is None else rows.values[own].tolist()
        label = self.relations_[column] if kind == "relation" else kind
        features, weights = self._encoder.named()[kind], self._model.weights_of(kind)
        terms = []
        for attribute, name, value in zip(ids, features.names(ids), values, strict=True):
            weight = weight_of(self._model.maps[kind], weights, attribute, column)
            if weight:
                terms.append(Contribution(word, name, label, value, weight, weight * value))
        return terms
