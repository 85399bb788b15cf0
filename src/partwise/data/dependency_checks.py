"""Which trees may pass: heads inside their sentences, no cycles, one root, no crossing arcs where asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from partwise.data.dependency_trees import (
    count_roots,
    crossing_words,
    cycle_through,
    sentence_of_words,
    words_in_cycles,
)
from partwise.errors import InputError

if TYPE_CHECKING:
    from partwise.data.dependency import DependencyCorpus

UNKNOWN_HEAD = -1


@dataclass(frozen=True)
class ProjectiveCount:
    """What `keep_projective` found.

    Attributes
    ----------
    n_sentences, n_words : int
        In the corpus given.
    n_skipped, n_skipped_words : int
        Sentences that are not projective, and the words in them.
    n_crossing : int
        Words whose arc covers a word with its head outside.
    """

    n_sentences: int
    n_words: int
    n_skipped: int
    n_skipped_words: int
    n_crossing: int

    def __str__(self) -> str:
        return (
            f"{self.n_skipped:,} of {self.n_sentences:,} sentences ({self.n_skipped_words:,} of "
            f"{self.n_words:,} words) have crossing arcs"
        )


def check_trees(corpus: DependencyCorpus, *, need_heads: bool = True, single_root: bool = False) -> None:
    """Refuse heads outside their sentence, cycles and, where asked, missing heads and second roots.

    The errors name file and line where the corpus was read from one, and otherwise the sentence.
    """
    heads, ptr = corpus.heads, corpus.sentence_ptr
    sentence_of = sentence_of_words(ptr)
    missing = np.flatnonzero(heads == UNKNOWN_HEAD)
    if need_heads and len(missing):
        raise _tree_error(corpus, int(missing[0]), "has no head")
    outside = np.flatnonzero((heads > corpus.lengths[sentence_of]) | (heads < UNKNOWN_HEAD))
    if len(outside):
        word = int(outside[0])
        length = corpus.lengths[sentence_of[word]]
        what = f"has head {heads[word]}, but the sentence has {length} words"
        raise _tree_error(corpus, word, what)
    in_cycle = np.flatnonzero(words_in_cycles(heads, ptr))
    if len(in_cycle):
        begin, end = ptr[sentence_of[in_cycle[0]]], ptr[sentence_of[in_cycle[0]] + 1]
        cycle = cycle_through(heads[begin:end], int(in_cycle[0] - begin) + 1)
        path = " → ".join(map(str, [*cycle[:10], *(["…"] if len(cycle) > 10 else []), cycle[0]]))
        raise _tree_error(corpus, int(begin) + cycle[0] - 1, f"is in a cycle of heads: {path}")
    if single_root:
        several = np.flatnonzero(count_roots(heads, ptr) > 1)
        if len(several):
            roots = np.flatnonzero(heads[ptr[several[0]] : ptr[several[0] + 1]] == 0) + 1
            word = int(ptr[several[0]] + roots[1]) - 1
            raise _tree_error(
                corpus, word, f"is a second root (the first is word {roots[0]}); one is allowed"
            )


def keep_projective(
    corpus: DependencyCorpus, non_projective: str = "skip"
) -> tuple[DependencyCorpus, ProjectiveCount]:
    """Drop the sentences whose arcs cross, or refuse them.

    Parameters
    ----------
    corpus : DependencyCorpus
        All heads known.
    non_projective : {"skip", "error"}

    Returns
    -------
    DependencyCorpus
        The corpus itself if nothing is dropped.
    ProjectiveCount
    """
    if non_projective not in ("skip", "error"):
        raise InputError(f"non_projective={non_projective!r} is not 'skip' or 'error'")
    check_trees(corpus)
    crossing = crossing_words(corpus.heads, corpus.sentence_ptr)
    sentence_of = sentence_of_words(corpus.sentence_ptr)
    if non_projective == "error" and crossing.any():
        word = int(np.flatnonzero(crossing)[0])
        what = f"has an arc (from {corpus.heads[word]}) that crosses another: the tree is not projective"
        raise _tree_error(corpus, word, what)
    skipped = np.bincount(sentence_of[crossing], minlength=corpus.n_sentences) > 0
    count = ProjectiveCount(
        corpus.n_sentences,
        corpus.n_words,
        int(skipped.sum()),
        int(corpus.lengths[skipped].sum()),
        int(crossing.sum()),
    )
    return corpus.subset(~skipped) if count.n_skipped else corpus, count


def _tree_error(corpus: DependencyCorpus, word: int, what: str) -> InputError:
    sentence = int(np.searchsorted(corpus.sentence_ptr, word, side="right")) - 1
    position = word - int(corpus.sentence_ptr[sentence]) + 1
    place = corpus.where(word)
    prefix = "" if place else f"sentence {sentence}: "
    return InputError(f"{prefix}word {position} {corpus.forms[word]!r:.30} {what}", **place)
