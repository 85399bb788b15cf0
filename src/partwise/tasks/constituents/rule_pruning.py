"""Which anchored rules are parts: those whose nodes are likely enough under the PCFG of the training trees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from partwise.core.arrays import offsets
from partwise.data.pcfg import PCFG
from partwise.data.treebank_grammar import TreebankGrammar
from partwise.errors import InputError
from partwise.estimators.predictions import blocks
from partwise.features.spans import Sentences
from partwise.storage.checks import expect_array
from partwise.structures import Grammar, prune_rules
from partwise.structures.contract import Shapes
from partwise.tasks.constituents.data import by_sentence, subset
from partwise.tasks.constituents.derivations import Derivations

MOST_RULES = 1_000_000  # of training sentences, about 100 MB; "auto" prunes if there may be more
LEAST = 1e-4  # the probability of nodes that "auto" keeps
_MOST_CELLS = 2e7  # symbols over spans of the PCFG's charts at a time: 160 MB
_COUNTS = ("rule_counts", "unary_counts", "word_symbol_counts", "root_counts")


def most_rules(derivations: Derivations, lengths: np.ndarray) -> float:
    """An upper bound on the anchored rules of sentences."""
    n = lengths.astype(np.float64)
    binary, unary = len(derivations.rules) * (n**3 - n) / 6, len(derivations.unaries) * (n**2 + n) / 2
    return float((binary + unary).sum())


class RulePruner:
    """Lists the anchored rules of sentences that a PCFG leaves.

    Parameters
    ----------
    derivations : Derivations
    counts : TreebankGrammar
        Of the same trees.
    least : float
        Probability of a node under the PCFG from which its rules are parts. The nodes of the PCFG's best tree stay in
        any case, so that a tree is left.
    uses_tags : bool
        Whether tags are given, which the PCFG's trees then have. If it has no such tree, they may have any tags.
    """

    def __init__(self, derivations: Derivations, counts: TreebankGrammar, least: float, uses_tags: bool):
        self.counts, self.least, self.uses_tags = counts, least, uses_tags
        self.pcfg, self.plain = PCFG(counts, rare_are_unknown=True), derivations.structure(splits=False)
        self._rules = np.concatenate([self.pcfg.rule, self.pcfg.unary])

    def shapes(self, anchored: Grammar, sentences: Sentences, gold: np.ndarray | None = None) -> Shapes:
        """Shapes of `anchored` for these sentences; the rules of derivations in `gold` stay in any case."""
        found = [np.zeros(0, np.int32)]
        sizes: list[np.ndarray] = [np.zeros(0, np.int64)]
        lengths = sentences.lengths
        node_ptr = None if gold is None else self.plain._node_ptr(gold, self.plain.shapes(lengths))
        for first, last in blocks(lengths * (lengths + 1) // 2 * self.plain.n_symbols, int(_MOST_CELLS)):
            own = None if gold is None or node_ptr is None else gold[node_ptr[first] : node_ptr[last]]
            shapes = self._shapes(anchored, subset(sentences, first, last), own)
            found.append(shapes.values)
            sizes.append(np.diff(shapes.ptr))
        return Shapes(offsets(np.concatenate(sizes)), np.concatenate(found))

    def _shapes(self, anchored: Grammar, sentences: Sentences, gold: np.ndarray | None) -> Shapes:
        words = list(self._word_scores(sentences))
        packed = self.plain.pack(words, self._rules)
        impossible = np.flatnonzero(packed.log_partition() == -np.inf).tolist()
        for i in impossible:  # any tag over any word
            words[i][:, self.plain.word_symbols] = self.pcfg.at_word
        packed = self.plain.pack(words, self._rules) if impossible else packed
        values, counts = packed.answers("sums")
        _, best = packed.answers("best")
        for i in np.flatnonzero(values == -np.inf):  # the grammar has no tree of so many words
            counts[packed.part_ptr[i] : packed.part_ptr[i + 1]] = 0.0
            best[packed.part_ptr[i] : packed.part_ptr[i + 1]] = 0.0
        np.copyto(counts, 1.0, where=best > 0.5)
        return prune_rules(self.plain, packed.shapes, counts, self.least, anchored, gold=gold)

    def _word_scores(self, sentences: Sentences) -> Iterator[np.ndarray]:
        words = by_sentence(sentences, sentences.forms)
        has_tags = self.uses_tags and sentences.tags is not None
        tags: list[Any] = by_sentence(sentences, sentences.tags or []) if has_tags else [None] * len(words)
        for own, given in zip(words, tags, strict=True):
            yield self.pcfg.word_scores(own, given)

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Header and arrays of a model file."""
        lexicon = {tag: dict(words) for tag, words in self.counts.lexicon.items()}
        header = {"least": self.least, "uses_tags": self.uses_tags, "lexicon": lexicon}
        return header, {name: getattr(self.counts, name).astype(np.int64) for name in _COUNTS}

    @classmethod
    def from_state(
        cls, stored: Any, arrays: Mapping[str, np.ndarray], derivations: Derivations
    ) -> RulePruner:
        """Rebuild from what `state` returned, everything checked."""
        least, uses_tags, lexicon = (stored.get(name) for name in ("least", "uses_tags", "lexicon"))
        is_number = isinstance(least, float) and 0.0 <= least < 1.0
        if not is_number or not isinstance(uses_tags, bool) or not _is_lexicon(lexicon):
            raise InputError("the grammar that prunes rules is damaged")
        sizes = (
            len(derivations.rules), len(derivations.unaries), len(derivations.word_symbols),
            len(derivations.symbols),
        )  # fmt: skip
        counts = [
            expect_array(arrays, name, np.int64, shape=(size,), low=0 if name == "root_counts" else 1)
            for name, size in zip(_COUNTS, sizes, strict=True)
        ]
        if set(lexicon) != set(derivations.word_tags) or not counts[3].any():
            raise InputError("the grammar that prunes rules is of other trees")
        grammar = TreebankGrammar(
            derivations.symbols, derivations.rules, counts[0], derivations.unaries, counts[1],
            derivations.word_symbols, counts[2], counts[3], {tag: Counter(own) for tag, own in lexicon.items()},
        )  # fmt: skip
        return cls(derivations, grammar, least, uses_tags)


def _is_lexicon(lexicon: Any) -> bool:
    """Whether these are counts of words by tag."""
    if not isinstance(lexicon, dict):
        return False
    return all(
        isinstance(words, dict) and words and all(isinstance(n, int) and n > 0 for n in words.values())
        for words in lexicon.values()
    )
