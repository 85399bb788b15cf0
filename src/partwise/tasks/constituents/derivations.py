"""Between trees and the derivations of a grammar: symbols, rules, labels of nodes and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from partwise.data.binary_form import CHAIN, MARK, PARENT, BinaryForm
from partwise.data.constituents import Tree, tree_from_lists
from partwise.data.treebank_grammar import TreebankGrammar, tag_of
from partwise.errors import InputError
from partwise.features.anchored import RuleNames
from partwise.storage.checks import expect_array, expect_text, expect_texts
from partwise.structures import Grammar
from partwise.tasks.constituents.data import ROOT


class Derivations:
    """The grammar of some trees in binary form, and what its symbols stand for.

    Attributes
    ----------
    form : BinaryForm
    symbols : list of str
        The root is number 0.
    rules, unaries : int64 (n_rules, 3) and (n_unaries, 2)
    word_symbols : int64 (n_word_symbols,)
    sentence_label : str
        The label that most trees have under their root.
    labels : list of str
        Labels of constituents, in alphabetical order.
    word_tags : list of str (n_word_symbols,)
    """

    def __init__(
        self,
        form: BinaryForm,
        symbols: list[str],
        rules: np.ndarray,
        unaries: np.ndarray,
        word_symbols: np.ndarray,
        sentence_label: str,
    ):
        self.form, self.symbols, self.sentence_label = form, symbols, sentence_label
        self.rules, self.unaries, self.word_symbols = rules, unaries, word_symbols
        found = {name for symbol in self._built() for name in labels_in(symbols[symbol])}
        found |= {name for symbol in word_symbols.tolist() for name in labels_in(symbols[symbol])[:-1]}
        self.labels = sorted(found - {ROOT})
        self.word_tags = [tag_of(symbols[symbol]) for symbol in word_symbols.tolist()]

    @classmethod
    def read(cls, trees: Sequence[Tree], form: BinaryForm) -> Derivations:
        """The grammar of trees in binary form."""
        found = TreebankGrammar.read(trees)
        parent, child = found.unary_rules.T
        tops = found.unary_counts * ((parent == 0) & ~np.isin(child, found.word_symbols))
        best = child[int(tops.argmax())] if tops.any() else 0
        label = next(iter(labels_in(found.symbols[int(best)])), ROOT)
        return cls(form, found.symbols, found.rules, found.unary_rules, found.word_symbols, label)

    def _built(self) -> list[int]:
        return np.unique(np.concatenate([self.rules[:, 0], self.unaries[:, 0]])).tolist()

    def structure(self, splits: bool, anchored: bool = False) -> Grammar:
        return Grammar(
            len(self.symbols),
            self.rules,
            0,
            unaries=self.unaries,
            word_symbols=self.word_symbols,
            splits=splits,
            anchored=anchored,
        )

    def rule_names(self) -> RuleNames:
        """The rules for templates of anchored rules."""
        parent, left, right = np.concatenate(
            [self.rules, np.insert(self.unaries, 2, -1, axis=1).astype(np.int64)]
        ).T
        return RuleNames(self.shown_rules(), self.symbols, parent, left, right)

    def nodes_of(self, trees: Sequence[Tree]) -> np.ndarray:
        """Labels of trees in binary form as the structure reads them, int64 (n_nodes, 4)."""
        number = {name: k for k, name in enumerate(self.symbols)}
        rule_number = {tuple(rule): k for k, rule in enumerate(self.rules.tolist())}
        rule_number |= {tuple(rule): k for k, rule in enumerate(self.unaries.tolist(), len(self.rules))}
        rows: list[list[int]] = []
        for tree in trees:
            n_words = 0
            open_rows: list[tuple[Tree, int]] = [(tree, -1)]
            while open_rows:
                node, row = open_rows.pop()
                if row >= 0:
                    rows[row][1] = n_words - 1
                    continue
                symbol = number[node.label]
                if node.word is not None:
                    rows.append([n_words, n_words, symbol, -1])
                    n_words += 1
                    continue
                names = (symbol, *(number[child.label] for child in node.children))
                rows.append([n_words, -1, symbol, rule_number[names]])
                open_rows.append((node, len(rows) - 1))
                open_rows.extend((child, -1) for child in reversed(node.children))
        return np.array(rows, np.int64).reshape(-1, 4)

    def trees_of(self, nodes: np.ndarray, words: Sequence[Sequence[str]], outer: str | None) -> list[Tree]:
        """Trees, no longer in binary form, from nodes of derivations of these sentences."""
        symbols, rules = nodes[:, 2].tolist(), nodes[:, 3].tolist()
        n_binary, at, trees = len(self.rules), 0, []
        for own in words:
            labels: list[str] = []
            leaves: list[str | None] = []
            sizes: list[int] = []
            n_words = 0
            while n_words < len(own):
                rule = rules[at]
                labels.append(self.symbols[symbols[at]])
                leaves.append(own[n_words] if rule < 0 else None)
                sizes.append(0 if rule < 0 else 2 if rule < n_binary else 1)
                n_words += rule < 0
                at += 1
            trees.append(with_outer(self.form.restore(tree_from_lists(labels, leaves, sizes)), outer))
        return trees

    def label_matrix(self, structure: Grammar) -> np.ndarray:
        """Which labels a column of rows of kind "span" stands for, float64 (n_columns, n_labels)."""
        symbols = [*structure.binary_symbols.tolist(), *structure.unary_symbols.tolist()]
        return self._matrix([labels_in(self.symbols[symbol]) for symbol in symbols])

    def word_label_matrix(self) -> np.ndarray:
        """Which labels, beside the tag, a column of rows of kind "word" stands for, float64 (n_columns, n_labels)."""
        return self._matrix([labels_in(self.symbols[symbol])[:-1] for symbol in self.word_symbols.tolist()])

    def _matrix(self, names: list[list[str]]) -> np.ndarray:
        place = {name: k for k, name in enumerate(self.labels)}
        result = np.zeros((len(names), len(self.labels)))
        for row, own in enumerate(names):
            for name in own:
                if name in place:
                    result[row, place[name]] = 1.0
        return result

    def shown_rules(self) -> list[str]:
        """All rules for people, ``NP → DT NN``, in the order of their numbers."""
        names = ([self.symbols[k] for k in rule] for rule in [*self.rules.tolist(), *self.unaries.tolist()])
        return [f"{parent} → {' '.join(children)}" for parent, *children in names]

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Header and arrays of a model file."""
        arrays = {"rules": self.rules, "unaries": self.unaries, "word_symbols": self.word_symbols}
        header = {"symbols": self.symbols, "sentence_label": self.sentence_label}
        return header, {name: array.astype(np.int32) for name, array in arrays.items()}

    @classmethod
    def from_state(
        cls, stored: Mapping[str, Any], arrays: Mapping[str, np.ndarray], form: BinaryForm
    ) -> Derivations:
        """Rebuild what `state` returned, everything checked."""
        symbols = expect_texts(stored, "symbols", distinct=True)
        if not symbols or symbols[0] != ROOT or any(not name for name in symbols):
            raise InputError("the symbols of the grammar are damaged")
        n = len(symbols)
        rules = expect_array(arrays, "rules", np.int32, shape=(None, 3), low=0, high=n)
        unaries = expect_array(arrays, "unaries", np.int32, shape=(None, 2), low=0, high=n)
        words = expect_array(arrays, "word_symbols", np.int32, low=0, high=n)
        if not len(words) or (np.diff(words) <= 0).any():
            raise InputError("the symbols of words are damaged")
        label = expect_text(stored, "sentence_label")
        rules, unaries, words = (array.astype(np.int64) for array in (rules, unaries, words))
        return cls(form, symbols, rules, unaries, words, label)


def labels_in(symbol: str) -> list[str]:
    """The labels that a symbol stands for, from the top; of a node that only binary form has, none."""
    if symbol.startswith(MARK):
        return []
    return [piece.partition(PARENT)[0] for piece in symbol.split(CHAIN)]


def flat_tree(words: Sequence[str], tags: Sequence[str], label: str) -> Tree:
    """A substitute for a tree, under the root: all words under one constituent."""
    leaves = [Tree(tag, word) for word, tag in zip(words, tags, strict=True)]
    return Tree(ROOT, leaves if len(leaves) == 1 else [Tree(label, leaves)])


def with_outer(tree: Tree, outer: str | None) -> Tree:
    """The tree with the outermost bracket that trees in training had."""
    if outer is not None:
        return Tree(outer, tree.children)
    return tree.children[0] if len(tree.children) == 1 else Tree("", tree.children)
