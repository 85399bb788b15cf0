"""Checks of dependency trees: heads inside their sentences, no cycles, one root, no crossing arcs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from partwise.core.arrays import block_of, locate
from partwise.core.tree_checks import crossing_words, find_fault
from partwise.errors import InputError

if TYPE_CHECKING:
    from partwise.data.dependency import DependencyCorpus


@dataclass(frozen=True)
class ProjectiveCount:
    """The result of `keep_projective`.

    Attributes
    ----------
    n_sentences, n_words : int
        In the whole corpus.
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
            f"{self.n_words:,} words) have crossing arcs and are left out"
        )


def check_trees(
    corpus: DependencyCorpus, *, need_heads: bool = True, single_root: bool = False, projective: bool = False
) -> None:
    """Raise at heads outside their sentence, at cycles and, on request, at missing heads and second roots.

    Errors name file and line if the corpus was read from a file, and otherwise the sentence.
    """
    fault = find_fault(
        corpus.heads,
        corpus.sentence_ptr,
        need_heads=need_heads,
        single_root=single_root,
        projective=projective,
    )
    if fault is not None:
        sentence, position = locate(fault.word, corpus.lengths)
        place = corpus.where(fault.word)
        prefix = "" if place else f"sentence {sentence}: "
        form = corpus.forms[fault.word]
        raise InputError(f"{prefix}word {position + 1} {form!r:.30} {fault.what}", **place)


def is_projective(heads: np.ndarray, sentence_ptr: np.ndarray | None = None) -> np.ndarray:
    """Whether each tree can be drawn above its words without crossing arcs, arcs from the root included.

    Parameters
    ----------
    heads : int array (n_words,)
        Heads of one sentence, or of all of them one after another; all known, without cycles.
    sentence_ptr : int64 array (n_sentences + 1,), or None for one sentence

    Returns
    -------
    bool array (n_sentences,)
    """
    heads = np.asarray(heads)
    ptr = np.array([0, len(heads)]) if sentence_ptr is None else np.asarray(sentence_ptr)
    crossed = block_of(ptr)[crossing_words(heads, ptr)]
    return np.bincount(crossed, minlength=len(ptr) - 1) == 0


def keep_projective(
    corpus: DependencyCorpus, non_projective: str = "skip"
) -> tuple[DependencyCorpus, ProjectiveCount]:
    """Drop the sentences with crossing arcs, or raise at the first of them.

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
    check_trees(corpus, projective=non_projective == "error")
    return drop_crossing(corpus)


def drop_crossing(corpus: DependencyCorpus) -> tuple[DependencyCorpus, ProjectiveCount]:
    """Drop the sentences with crossing arcs from a corpus of checked trees."""
    crossing = crossing_words(corpus.heads, corpus.sentence_ptr)
    sentence_of = block_of(corpus.sentence_ptr)
    skipped = np.bincount(sentence_of[crossing], minlength=corpus.n_sentences) > 0
    count = ProjectiveCount(
        corpus.n_sentences,
        corpus.n_words,
        int(skipped.sum()),
        int(corpus.lengths[skipped].sum()),
        int(crossing.sum()),
    )
    return corpus.subset(~skipped) if count.n_skipped else corpus, count
