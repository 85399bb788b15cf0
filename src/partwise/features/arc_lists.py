"""Candidate arcs of dependency trees as flat arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from partwise.errors import InputError

if TYPE_CHECKING:
    from partwise.data.dependency import DependencyCorpus


class Arcs(NamedTuple):
    """Candidate arcs, sentence after sentence.

    Attributes
    ----------
    arc_ptr : int64 array (n_sentences + 1,)
    head : int32 array (n_arcs,)
        Position of the head in its sentence, from 1; 0 is the root.
    modifier : int32 array (n_arcs,)
        Position of the modifier, from 1.
    """

    arc_ptr: np.ndarray
    head: np.ndarray
    modifier: np.ndarray


def all_arcs(lengths: np.ndarray) -> Arcs:
    """Every arc that a tree may have: for each modifier 1 … n in turn all heads 0 … n but itself.

    Parameters
    ----------
    lengths : int array (n_sentences,)

    Returns
    -------
    Arcs
        n² arcs for a sentence of n words; the arc (h, m) is number ``(m - 1) * n + h - (h > m)`` of its sentence.
    """
    lengths = np.asarray(lengths, dtype=np.int64)
    arc_ptr = np.concatenate([[0], np.cumsum(lengths**2)]).astype(np.int64)
    head, modifier = np.empty(arc_ptr[-1], np.int32), np.empty(arc_ptr[-1], np.int32)
    for length in np.unique(lengths):
        n = int(length)
        modifiers, heads = np.divmod(np.arange(n * n, dtype=np.int32), np.int32(max(n, 1)))
        heads += heads > modifiers
        starts = arc_ptr[:-1][lengths == length]
        for start in starts.tolist():
            head[start : start + n * n] = heads
            modifier[start : start + n * n] = modifiers + 1
    return Arcs(arc_ptr, head, modifier)


def gold_arcs(heads: np.ndarray, sentence_ptr: np.ndarray) -> Arcs:
    """The arcs of given trees, one a word."""
    ptr = np.asarray(sentence_ptr, dtype=np.int64)
    modifier = np.arange(len(heads)) - np.repeat(ptr[:-1], np.diff(ptr)) + 1
    return Arcs(ptr, np.asarray(heads, np.int32), modifier.astype(np.int32))


def checked_arcs(corpus: DependencyCorpus, arcs: Arcs | None) -> Arcs:
    """Arcs that fit the corpus, in the types that kernels are compiled for; all arcs for None."""
    if arcs is None:
        return all_arcs(corpus.lengths)
    ptr = np.ascontiguousarray(arcs.arc_ptr, np.int64)
    head, modifier = np.ascontiguousarray(arcs.head, np.int32), np.ascontiguousarray(arcs.modifier, np.int32)
    if len(ptr) != corpus.n_sentences + 1 or ptr[0] != 0 or (np.diff(ptr) < 0).any() or ptr[-1] != len(head):
        raise InputError(f"arc_ptr must have {corpus.n_sentences + 1} offsets from 0 to the number of arcs")
    longest = np.repeat(corpus.lengths, np.diff(ptr))
    if (
        len(modifier) != len(head)
        or not (
            (head >= 0) & (head <= longest) & (modifier >= 1) & (modifier <= longest) & (head != modifier)
        ).all()
    ):
        raise InputError("arcs must go from 0 … n to another word 1 … n of a sentence of n words")
    return Arcs(ptr, head, modifier)
