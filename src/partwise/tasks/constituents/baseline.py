"""A parser whose weights are log-probabilities read off the treebank: what a trained parser is compared with."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.data.binary_form import BinaryForm
from partwise.data.pcfg import PCFG
from partwise.data.treebank_grammar import TreebankGrammar
from partwise.errors import InputError
from partwise.tasks.constituents.data import as_sentences, by_sentence, training_trees
from partwise.tasks.constituents.derivations import Derivations, flat_tree, with_outer
from partwise.tasks.constituents.predictions import Parsed


class PCFGParser:
    """The most probable tree of the grammar of some trees.

    Parameters
    ----------
    direction, horizontal, vertical
        See ``partwise.data.BinaryForm``.
    """

    def __init__(self, direction: str = "right", horizontal: int | None = 0, vertical: int = 1):
        self.form = BinaryForm(direction, horizontal, vertical, "one")

    def fit(self, X: Any, y: Any) -> PCFGParser:
        """Count; `X` and `y` as for `ConstituencyParser.fit`."""
        data = training_trees(X, y, None, functions=False)
        binary = [self.form.apply(tree) for tree in data.trees]
        self.derivations_ = Derivations.read(binary, self.form)
        self.pcfg_ = PCFG(TreebankGrammar.read(binary))
        self.structure_ = self.derivations_.structure(splits=False)
        self.outer_, self.has_tags_ = data.outer, data.sentences.tags is not None
        return self

    def parse(self, X: Any) -> Parsed:
        """The most probable tree of every sentence; flat ones outside the grammar."""
        sentences = as_sentences(X, self.has_tags_)
        rules, ptr = np.concatenate([self.pcfg_.rule, self.pcfg_.unary]), sentences.sentence_ptr.tolist()
        trees, fallback = [], np.zeros(len(ptr) - 1, bool)
        for i, words in enumerate(by_sentence(sentences, sentences.forms)):
            tags = None if sentences.tags is None else sentences.tags[ptr[i] : ptr[i + 1]]
            scores = self.pcfg_.word_scores(words, tags)
            try:
                nodes = self.structure_.labels_of(self.structure_.argmax(scores, rules))
                [tree] = self.derivations_.trees_of(nodes, [words], self.outer_)
            except InputError:
                fallback[i] = True
                own = self.derivations_.word_tags
                best = scores[:, self.derivations_.word_symbols].argmax(axis=1).tolist()
                likely = tags if tags is not None else [own[column] for column in best]
                tree = with_outer(flat_tree(words, likely, self.derivations_.sentence_label), self.outer_)
            trees.append(tree)
        return Parsed(trees, fallback)
