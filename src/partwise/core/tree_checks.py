"""Checks whether heads of words are dependency trees."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.core.arrays import block_of

UNKNOWN_HEAD = -1


class Fault(NamedTuple):
    """An error in heads: the word, counted over all sentences, and the end of the error message."""

    word: int
    what: str


def find_fault(
    heads: np.ndarray,
    sentence_ptr: np.ndarray,
    *,
    need_heads: bool = True,
    single_root: bool = False,
    projective: bool = False,
) -> Fault | None:
    """The first missing head, or else head outside its sentence, cycle, second root or crossing arc; None for trees.

    Parameters
    ----------
    heads : int array (n_words,)
        Position of the head in the sentence, from 1; 0 is the root, -1 is unknown.
    sentence_ptr : int64 array (n_sentences + 1,)
    need_heads : bool
        Whether an unknown head is an error.
    single_root, projective : bool
        Whether a second root of a sentence, or an arc that crosses another, is an error.
    """
    lengths, sentence_of = np.diff(sentence_ptr), block_of(sentence_ptr)
    missing = np.flatnonzero(heads == UNKNOWN_HEAD)
    if need_heads and len(missing):
        return Fault(int(missing[0]), "has no head")
    outside = np.flatnonzero((heads > lengths[sentence_of]) | (heads < UNKNOWN_HEAD))
    if len(outside):
        word = int(outside[0])
        return Fault(word, f"has head {heads[word]}, but the sentence has {lengths[sentence_of[word]]} words")
    in_cycle = np.flatnonzero(words_in_cycles(heads, sentence_ptr))
    if len(in_cycle):
        begin, end = sentence_ptr[sentence_of[in_cycle[0]]], sentence_ptr[sentence_of[in_cycle[0]] + 1]
        cycle = cycle_through(heads[begin:end], int(in_cycle[0] - begin) + 1)
        path = " → ".join(map(str, [*cycle[:10], *(["…"] if len(cycle) > 10 else []), cycle[0]]))
        return Fault(int(begin) + cycle[0] - 1, f"is in a cycle of heads: {path}")
    several = np.flatnonzero(count_roots(heads, sentence_ptr) > 1)
    if single_root and len(several):
        begin, end = sentence_ptr[several[0]], sentence_ptr[several[0] + 1]
        first, second = np.flatnonzero(heads[begin:end] == 0)[:2]
        return Fault(int(begin + second), f"is a second root (the first is word {first + 1}); one is allowed")
    if projective and (crossing := crossing_words(heads, sentence_ptr)).any():
        word = int(crossing.argmax())
        return Fault(
            word, f"has an arc (from {heads[word]}) that crosses another: the tree is not projective"
        )
    return None


def words_in_cycles(heads: np.ndarray, sentence_ptr: np.ndarray) -> np.ndarray:
    """Which words have no path to the root.

    Parameters
    ----------
    heads : int array (n_words,)
        Position of the head in the sentence, from 1; 0 is the root. A negative head is unknown and counts as the root.
    sentence_ptr : int64 array (n_sentences + 1,)

    Returns
    -------
    bool array (n_words,)
    """
    root, ancestor = _nodes(heads, sentence_ptr)
    longest = int(np.diff(sentence_ptr).max(initial=0))
    for _ in range(longest.bit_length()):  # path doubling: after k rounds, the ancestor 2^k steps up
        ancestor = ancestor[ancestor]
    is_word = np.ones(len(ancestor), dtype=bool)
    is_word[root] = False
    return (is_word & is_word[ancestor])[is_word]


def cycle_through(heads: np.ndarray, word: int) -> list[int]:
    """The cycle at the end of the path of heads from a word of one sentence, as positions from 1."""
    position = word
    for _ in range(len(heads)):
        position = int(heads[position - 1])
    cycle = [position]
    while (position := int(heads[position - 1])) != cycle[0]:
        cycle.append(position)
    smallest = cycle.index(min(cycle))
    return cycle[smallest:] + cycle[:smallest]


def count_roots(heads: np.ndarray, sentence_ptr: np.ndarray) -> np.ndarray:
    """Words with head 0 in each sentence, int64 (n_sentences,)."""
    return np.bincount(block_of(sentence_ptr)[heads == 0], minlength=len(sentence_ptr) - 1)


def crossing_words(heads: np.ndarray, sentence_ptr: np.ndarray) -> np.ndarray:
    """Which words have an arc over a word whose own head lies outside that arc.

    In a tree whose root is before the first word, arcs cross if and only if there is such a word. Of two crossing
    arcs, at least one covers the modifier of the other. Otherwise the path from a word between them would never reach
    the root.

    Parameters
    ----------
    heads : int array (n_words,)
        All known, without cycles.
    sentence_ptr : int64 array (n_sentences + 1,)

    Returns
    -------
    bool array (n_words,)
    """
    root, parent = _nodes(heads, sentence_ptr)
    is_word = np.ones(len(parent), dtype=bool)
    is_word[root] = False
    word = np.flatnonzero(is_word)
    left, right = np.minimum(word, parent[word]), np.maximum(word, parent[word])
    inside = right - left - 1  # words under the arc
    crossed = np.zeros(len(word), dtype=bool)
    lowest, highest, width = parent, parent, 1  # of the heads in a window of that width
    while width <= inside.max(initial=0):
        arcs = np.flatnonzero((inside >= width) & (inside < 2 * width))
        first, second = left[arcs] + 1, right[arcs] - width  # two windows that cover all under the arc
        crossed[arcs] = np.minimum(lowest[first], lowest[second]) < left[arcs]
        crossed[arcs] |= np.maximum(highest[first], highest[second]) > right[arcs]
        if 2 * width > len(parent):
            break
        lowest = np.minimum(lowest[:-width], lowest[width:])
        highest = np.maximum(highest[:-width], highest[width:])
        width *= 2
    return crossed


def _nodes(heads: np.ndarray, sentence_ptr: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes of all sentences, each root before its words: the indices of the roots, and the parent of every node.

    A root is its own parent.
    """
    ptr = np.asarray(sentence_ptr, dtype=np.int64)
    root = ptr[:-1] + np.arange(len(ptr) - 1)
    parent = np.empty(len(heads) + len(root), dtype=np.int64)
    is_word = np.ones(len(parent), dtype=bool)
    is_word[root] = False
    parent[root] = root
    parent[is_word] = root[block_of(ptr)] + np.maximum(heads, 0)
    return root, parent
