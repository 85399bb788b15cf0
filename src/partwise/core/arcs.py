"""Candidate arcs of dependency trees as flat arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.core.arrays import block_of, offsets, positions
from partwise.errors import InputError


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

    @property
    def sentence(self) -> np.ndarray:
        """The number of each arc's sentence, int64 (n_arcs,)."""
        return block_of(self.arc_ptr)


def all_arcs(lengths: np.ndarray) -> Arcs:
    """Every arc that a tree may have: for each modifier 1 … n in turn, all heads 0 … n except the modifier.

    Parameters
    ----------
    lengths : int array (n_sentences,)

    Returns
    -------
    Arcs
        n² arcs for a sentence of n words; the arc (h, m) is number ``(m - 1) * n + h - (h > m)`` of its sentence.
    """
    lengths = np.asarray(lengths, dtype=np.int64)
    arc_ptr = offsets(lengths**2)
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
    """The arcs of trees, one per word."""
    ptr = np.asarray(sentence_ptr, dtype=np.int64)
    modifier = positions(np.diff(ptr)) + 1
    return Arcs(ptr, np.asarray(heads, np.int32), modifier.astype(np.int32))


def checked_arcs(lengths: np.ndarray, arcs: Arcs) -> Arcs:
    """Arcs of sentences of these lengths, checked, in the types that compiled code reads."""
    ptr = np.ascontiguousarray(arcs.arc_ptr, np.int64)
    head, modifier = np.asarray(arcs.head), np.asarray(arcs.modifier)
    if (
        ptr.shape != (len(lengths) + 1,)
        or ptr[0] != 0
        or (np.diff(ptr) < 0).any()
        or head.shape != (ptr[-1],)
        or modifier.shape != head.shape
    ):
        raise InputError(
            f"arc_ptr must have {len(lengths) + 1} offsets from 0 to {len(head)}, the number of arcs"
        )
    n_words = np.repeat(np.asarray(lengths, np.int32), np.diff(ptr))
    wrong = (head < 0) | (head > n_words) | (modifier < 1) | (modifier > n_words) | (head == modifier)
    if wrong.any():
        at = int(wrong.argmax())
        example = int(np.searchsorted(ptr, at, side="right")) - 1
        raise InputError(
            f"arcs: example {example} of {n_words[at]} words has no arc {head[at]} → {modifier[at]}"
        )
    return Arcs(ptr, np.ascontiguousarray(head, np.int32), np.ascontiguousarray(modifier, np.int32))
