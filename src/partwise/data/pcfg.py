"""Probabilities of a treebank grammar, the baseline of all parsers, with classes of unknown words."""

from __future__ import annotations

from collections import Counter

import numpy as np

from partwise.core.word_classes import coarse_class, word_class
from partwise.data.treebank_grammar import TreebankGrammar, tag_of

# Words with at most this many occurrences in training also count as unknown words of their class.
MOST_RARE = 1


class PCFG:
    """Log-probabilities of a treebank grammar, with classes of unknown words.

    Parameters
    ----------
    grammar : TreebankGrammar
    rare_are_unknown : bool
        Whether words seen once have the scores of their class only, so that sentences of the training trees are treated
        as others are.

    Attributes
    ----------
    rule, unary : float64 (n_rules,) and (n_unary,)
        log P(children | parent).
    at_word : float64 (n_word_symbols,)
        log P(some word | symbol).
    root : float64 (n_symbols,)
        log P(symbol at the top), -inf if it never was.
    """

    def __init__(self, grammar: TreebankGrammar, rare_are_unknown: bool = False):
        self.grammar, n = grammar, grammar.n_symbols
        self._rare_are_unknown = rare_are_unknown
        total = np.bincount(grammar.rules[:, 0], grammar.rule_counts, n)
        total += np.bincount(grammar.unary_rules[:, 0], grammar.unary_counts, n)
        total += np.bincount(grammar.word_symbols, grammar.word_symbol_counts, n)
        self.rule = np.log(grammar.rule_counts / total[grammar.rules[:, 0]])
        self.unary = np.log(grammar.unary_counts / total[grammar.unary_rules[:, 0]])
        self.at_word = np.log(grammar.word_symbol_counts / total[grammar.word_symbols])
        with np.errstate(divide="ignore"):
            self.root = np.log(grammar.root_counts / grammar.root_counts.sum())
        self._tags = list(grammar.lexicon)
        self._total = {tag: sum(words.values()) for tag, words in grammar.lexicon.items()}
        self._known: dict[str, dict[str, float]] = {}
        self._classes = self._read_words()
        tag_number = {tag: k for k, tag in enumerate(self._tags)}
        ends = [tag_of(grammar.symbols[k]) for k in grammar.word_symbols.tolist()]
        self._tag_of_symbol = np.array([tag_number[tag] for tag in ends], np.int64)

    def _read_words(self) -> dict[str, dict[str, float]]:
        """Fill in the known words; returns log P(class | tag) by class and tag."""
        lexicon = self.grammar.lexicon
        classes: dict[str, Counter[str]] = {}
        n_seen: Counter[str] = Counter()
        for words in lexicon.values():
            n_seen.update(words)
        for tag, words in lexicon.items():
            for word, n in words.items():
                self._known.setdefault(word, {})[tag] = np.log(n / self._total[tag])
                if n_seen[word] <= MOST_RARE:
                    if self._rare_are_unknown:
                        del self._known[word]
                    fine = word_class(word)
                    for name in (fine, coarse_class(fine), ""):
                        classes.setdefault(name, Counter())[tag] += n
        found = {
            name: {tag: float(np.log(n / self._total[tag])) for tag, n in tags.items()}
            for name, tags in classes.items()
        }
        # If there are no rare words, any tag may have an unknown word.
        return {"": {tag: -float(np.log(self._total[tag] + 1)) for tag in self._tags}} | found

    def tag_scores(self, word: str, is_first: bool = False) -> dict[str, float]:
        """log P(word | tag) of the tags that a word may have; of its class if the word is unknown."""
        if word in self._known:
            return self._known[word]
        if is_first and word.lower() in self._known:
            return self._known[word.lower()]
        fine = word_class(word, is_first)
        for name in (fine, fine.replace("first", "capital", 1), coarse_class(fine)):
            if name in self._classes:
                return self._classes[name]
        return self._classes[""]

    def word_scores(self, words: list[str], tags: list[str] | None = None) -> np.ndarray:
        """Score of every symbol at every word, float64 (n, n_symbols); -inf if it is impossible.

        Parameters
        ----------
        tags : list of str or None
            If tags are known, the grammar generates them and ignores the words. A tag that was not in training may
            be any tag.
        """
        scores = np.full((len(words), self.grammar.n_symbols), -np.inf)
        number = {tag: k for k, tag in enumerate(self._tags)}
        for t, word in enumerate(words):
            of_tag = np.full(len(self._tags), -np.inf)
            if tags is None:
                for tag, value in self.tag_scores(word, t == 0).items():
                    of_tag[number[tag]] = value
            elif tags[t] in number:
                of_tag[number[tags[t]]] = 0.0
            else:
                of_tag[:] = 0.0
            scores[t, self.grammar.word_symbols] = self.at_word + of_tag[self._tag_of_symbol]
        return scores
