"""Pseudo-projective parsing: arcs that cross are lifted for training and put back after parsing.

Nivre and Nilsson (2005): while an arc covers a word that does not descend from its head, the shortest such arc moves
up to the head's own head. The label of a lifted arc names the relation of the word that was its head (their encoding
"Head"). After parsing, each lifted word is given to the first word with that relation below its head, breadth first.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from partwise.core.arrays import block_of
from partwise.core.tree_checks import crossing_words
from partwise.data import DependencyCorpus
from partwise.errors import InputError
from partwise.features.vocabulary import check_strings

_LEAST_MOVED = 1e-4  # lifted arcs below this probability stay where they are: moving them takes time


class LiftCount(NamedTuple):
    """How many arcs were lifted, in how many sentences.

    Attributes
    ----------
    n_sentences, n_words : int
        In the whole corpus.
    n_lifted_sentences, n_lifted : int
        Sentences with lifted arcs, and lifted arcs.
    """

    n_sentences: int
    n_words: int
    n_lifted_sentences: int
    n_lifted: int

    def __str__(self) -> str:
        return (
            f"{self.n_lifted_sentences:,} of {self.n_sentences:,} sentences have crossing arcs: "
            f"{self.n_lifted:,} of {self.n_words:,} arcs were lifted"
        )


class LiftedTrees(NamedTuple):
    """A corpus whose arcs do not cross, and the heads that it had."""

    corpus: DependencyCorpus
    true_heads: np.ndarray

    @property
    def is_lifted(self) -> np.ndarray:
        """Whether each word's arc was lifted, bool (n_words,)."""
        return self.corpus.heads != self.true_heads

    def lift_count(self) -> LiftCount:
        lifted, sentence = self.is_lifted, block_of(self.corpus.sentence_ptr)
        corpus = self.corpus
        return LiftCount(
            corpus.n_sentences, corpus.n_words, len(np.unique(sentence[lifted])), int(lifted.sum())
        )


def lift(corpus: DependencyCorpus) -> LiftedTrees:
    """Lift arcs of a corpus of checked trees until none cross."""
    heads, ptr = corpus.heads.copy(), corpus.sentence_ptr
    for i in np.unique(block_of(ptr)[crossing_words(heads, ptr)]).tolist():
        _lift_sentence(heads[ptr[i] : ptr[i + 1]])
    return LiftedTrees(replace(corpus, heads=heads), corpus.heads)


def _lift_sentence(heads: np.ndarray) -> None:
    """Lift the arcs of one sentence in place."""
    n = len(heads)
    head = [0, *heads.tolist()]
    below = np.eye(n + 1, dtype=bool)  # [ancestor, word]
    for word in range(1, n + 1):
        above = word
        while above:
            above = head[above]
            below[above, word] = True

    def crosses(word: int) -> bool:
        first, last = sorted((word, head[word]))
        return not below[head[word], first + 1 : last].all()

    waiting = [(abs(word - head[word]), word) for word in range(1, n + 1) if crosses(word)]
    heapq.heapify(waiting)
    while waiting:
        length, word = heapq.heappop(waiting)
        old = head[word]
        if length != abs(word - old) or not crosses(word):
            continue  # the entry is of an earlier head
        head[word] = head[old]
        below[old, below[word]] = False
        siblings = [other for other in range(1, n + 1) if head[other] == old]
        for other in (word, *siblings):  # only arcs of these may cross now that did not before
            if crosses(other):
                heapq.heappush(waiting, (abs(other - head[other]), other))
    heads[:] = head[1:]


@dataclass(frozen=True)
class ArcLabels:
    """The labels of a parser's arcs: the relations, and after them the lifted ones.

    Attributes
    ----------
    relations : list of str
    lifts : list of (int, int)
        The relation of a lifted arc, and the relation of the word that was its head.
    """

    relations: list[str]
    lifts: list[tuple[int, int]]

    @classmethod
    def of(cls, trees: LiftedTrees) -> ArcLabels:
        """All labels of a corpus with relations."""
        names = sorted(set(trees.corpus.relations or ()))
        check_strings(names)
        own, target = ArcLabels(names, [])._pairs(trees)
        lifted = trees.is_lifted
        return cls(names, sorted(set(zip(own[lifted].tolist(), target[lifted].tolist(), strict=True))))

    def __len__(self) -> int:
        return len(self.relations) + len(self.lifts)

    @property
    def names(self) -> list[str]:
        """Labels as explanations show them; those of lifted arcs also name the relation of the former head."""
        return self.relations + [f"{self.relations[own]}↑{self.relations[to]}" for own, to in self.lifts]

    def codes(self, trees: LiftedTrees) -> np.ndarray:
        """The number of every word's label, int64 (n_words,); a lift that training has not seen has its relation's."""
        own, target = self._pairs(trees)
        known = {pair: len(self.relations) + k for k, pair in enumerate(self.lifts)}
        for word in np.flatnonzero(trees.is_lifted).tolist():
            own[word] = known.get((int(own[word]), int(target[word])), own[word])
        return own

    def _pairs(self, trees: LiftedTrees) -> tuple[np.ndarray, np.ndarray]:
        """Relations of all words and of their true heads, which is any where the head is the root."""
        corpus, index = trees.corpus, {name: k for k, name in enumerate(self.relations)}
        assert corpus.relations is not None
        own = np.fromiter(map(index.__getitem__, corpus.relations), np.int64, corpus.n_words)
        first = np.repeat(corpus.sentence_ptr[:-1], corpus.lengths)
        return own, own[first + np.maximum(trees.true_heads - 1, 0)]

    def put_back(self, heads: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The heads and relations of one sentence after its lifts are undone; both (n,)."""
        n_plain = len(self.relations)
        lifted = np.flatnonzero(labels >= n_plain)
        if not len(lifted):
            return heads, labels
        head, relation, wanted = [0, *heads.tolist()], [-1, *labels.tolist()], {}
        for word in (lifted + 1).tolist():
            relation[word], wanted[word] = self.lifts[relation[word] - n_plain]
        for word in _breadth_first(head, 0):
            if word in wanted:
                head[word] = _new_head(head, relation, word, head[word], wanted[word])
        return np.array(head[1:], heads.dtype), np.array(relation[1:], labels.dtype)

    def move_back(self, arcs: np.ndarray, labels: np.ndarray, heads: np.ndarray, best: np.ndarray) -> None:
        """Move the probabilities of lifted arcs to the heads to which a tree puts them back, in place.

        Parameters
        ----------
        arcs, labels : float64 arrays (n + 1, n + 1), (n + 1, n + 1, n_labels)
            Probabilities by [head, modifier].
        heads, best : int64 arrays (n,)
            The tree: heads and labels.
        """
        tree, probability = self.put_back(heads, best), labels[:, :, len(self.relations) :]
        head, relation = [0, *tree[0].tolist()], [-1, *tree[1].tolist()]
        for top, word, k in np.argwhere(probability >= _LEAST_MOVED).tolist():
            to = _new_head(head, relation, word, top, self.lifts[k][1])
            arcs[to, word] += probability[top, word, k]
            arcs[top, word] -= probability[top, word, k]

    @classmethod
    def from_state(cls, header: Mapping[str, Any], relations: list[str]) -> ArcLabels:
        """From what a model file holds; files from before there were lifts do not have any."""
        stored, n = header.get("lifts", []), len(relations)
        if not isinstance(stored, list) or not all(
            isinstance(pair, list) and len(pair) == 2 and all(type(k) is int and 0 <= k < n for k in pair)
            for pair in stored
        ):
            raise InputError("the lifted relations are damaged")
        return cls(relations, [(own, to) for own, to in stored])


def _new_head(head: list[int], relation: list[int], word: int, top: int, wanted: int) -> int:
    """The first word below `top` that has the wanted relation and is not below `word`; `top` if there is none."""
    below = _breadth_first(head, top, without=word)
    return next((each for each in below if relation[each] == wanted), top)


def _breadth_first(head: list[int], top: int, without: int = -1) -> list[int]:
    """The words below `top` level by level, from left to right; `without` and all below it left out."""
    modifiers: list[list[int]] = [[] for _ in head]
    for word in range(1, len(head)):
        if word != without:
            modifiers[head[word]].append(word)
    found = [top]
    for word in found:
        found.extend(modifiers[word])
    return found[1:]
