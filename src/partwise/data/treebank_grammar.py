"""A treebank grammar: rules and their counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from partwise.data.binary_form import CHAIN, PARENT
from partwise.data.constituents import Tree
from partwise.errors import InputError


@dataclass
class TreebankGrammar:
    """Rules of trees in binary form, with their counts.

    Attributes
    ----------
    symbols : list of str
        Labels of all nodes, the root's first.
    rules, rule_counts : int64 (n_rules, 3) and (n_rules,)
        Parent, left and right child.
    unary_rules, unary_counts : int64 (n_unary, 2) and (n_unary,)
        Parent and child.
    word_symbols, word_symbol_counts : int64 (n_word_symbols,)
        Symbols of nodes that have a word, ascending.
    root_counts : int64 (n_symbols,)
        The number of trees with each symbol at the top.
    lexicon : dict of str to Counter
        Counts of words by tag (the last label of a chain that ends at a word).
    """

    symbols: list[str]
    rules: np.ndarray
    rule_counts: np.ndarray
    unary_rules: np.ndarray
    unary_counts: np.ndarray
    word_symbols: np.ndarray
    word_symbol_counts: np.ndarray
    root_counts: np.ndarray
    lexicon: dict[str, Counter[str]]

    @classmethod
    def read(cls, trees: Iterable[Tree]) -> TreebankGrammar:
        """Count the rules of trees in binary form."""
        found: Counter[tuple[str, ...]] = Counter()
        roots: Counter[str] = Counter()
        lexicon: dict[str, Counter[str]] = {}
        at_words: Counter[str] = Counter()
        for i, tree in enumerate(trees):
            roots[tree.label] += 1
            for node in tree.nodes():
                if node.word is not None:
                    at_words[node.label] += 1
                    lexicon.setdefault(tag_of(node.label), Counter())[node.word] += 1
                elif len(node.children) > 2:
                    raise InputError(
                        f"tree {i}: {node.label!r:.40} has {len(node.children)} children; binarise first"
                    )
                else:
                    rule = (node.label, *(child.label for child in node.children))
                    found[rule] += 1
        if not roots:
            raise InputError("no trees to read a grammar off")
        others = sorted({name for rule in found for name in rule} | set(at_words))
        symbols = list(dict.fromkeys([name for name, _ in roots.most_common()] + others))
        number = {name: k for k, name in enumerate(symbols)}

        def table(width: int) -> tuple[np.ndarray, np.ndarray]:
            chosen = [rule for rule in found if len(rule) == width]
            own = sorted((tuple(number[name] for name in rule), found[rule]) for rule in chosen)
            rules = np.array([rule for rule, _ in own], np.int64).reshape(-1, width)
            return rules, np.array([n for _, n in own], np.int64)

        word_symbols = np.sort(np.array([number[name] for name in at_words], np.int64))
        return cls(
            symbols,
            *table(3),
            *table(2),
            word_symbols,
            np.array([at_words[symbols[k]] for k in word_symbols.tolist()], np.int64),
            np.array([roots[name] for name in symbols], np.int64),
            lexicon,
        )

    @property
    def n_symbols(self) -> int:
        return len(self.symbols)


def tag_of(symbol: str) -> str:
    """The tag of a symbol that has a word: the last label of its chain."""
    return symbol.rsplit(CHAIN, 1)[-1].partition(PARENT)[0]
