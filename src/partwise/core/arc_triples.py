"""Pairs of candidate arcs that second-order trees score together: siblings and grandparents.

The *inner sibling* s of an arc h → m is the next modifier of h on the same side, towards h. If there is none, m is the
first modifier of its side. The modifier furthest from h is the last of its side. All three are parts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.core.arcs import Arcs
from partwise.core.arrays import block_of, offsets, positions, ranges

NOBODY = -1  # the sibling of a first modifier; the modifier after a last one


class ArcTriples(NamedTuple):
    """Triples of words, sentence after sentence, arc after arc.

    Attributes
    ----------
    ptr : int64 array (n_sentences + 1,)
    first, head, modifier : int32 arrays (ptr[n_sentences],)
        Positions of the sibling or the grandparent, of the head and of the modifier; `NOBODY` if there is none.
    """

    ptr: np.ndarray
    first: np.ndarray
    head: np.ndarray
    modifier: np.ndarray


def sibling_triples(arcs: Arcs, single_root: bool) -> ArcTriples:
    """All candidate pairs of an arc and its inner sibling.

    For each arc h → m in turn: m is the first of its side; m is the last; then every candidate s between h and m, in
    order of s. With `single_root`, modifiers of the root have no siblings.
    """
    sentence = arcs.sentence
    by_head = np.lexsort((arcs.modifier, arcs.head, sentence))
    place = np.empty(len(by_head), np.int64)
    place[by_head] = np.arange(len(by_head))
    owner = sentence[by_head] * (int(arcs.head.max(initial=0)) + 1) + arcs.head[by_head]
    is_right = arcs.head[by_head] < arcs.modifier[by_head]
    # Modifiers of one head and side are consecutive. Inner ones come first on the right side, last on the left side.
    group = np.cumsum(np.diff(2 * owner + is_right, prepend=-1) != 0) - 1
    begin = np.flatnonzero(np.diff(group, prepend=-1))
    end = np.append(begin[1:], len(group))
    inner = np.where(is_right, begin[group] if len(begin) else 0, np.arange(len(group)) + 1)[place]
    count = np.where(is_right, np.arange(len(group)) - inner[by_head], end[group] - inner[by_head])[place]
    if single_root:
        count[arcs.head == 0] = 0
    ptr = offsets(count + 2)
    first, modifier = np.empty(ptr[-1], np.int32), np.repeat(arcs.modifier, count + 2)
    first[ptr[:-1]], first[ptr[:-1] + 1] = NOBODY, arcs.modifier
    modifier[ptr[:-1] + 1] = NOBODY
    first[ranges(ptr[:-1] + 2, count)] = arcs.modifier[by_head[ranges(inner, count)]]
    return ArcTriples(ptr[arcs.arc_ptr], first, np.repeat(arcs.head, count + 2), modifier)


def grandparent_triples(arcs: Arcs, projective: bool) -> ArcTriples:
    """All candidate pairs of an arc and the arc of its head.

    For each arc h → m in turn: every candidate g → h in order of g, except g = m, and in `projective` trees except g
    between h and m.
    """
    sentence, base = arcs.sentence, int(arcs.modifier.max(initial=0)) + 2
    into = sentence * base + arcs.modifier
    begin = np.searchsorted(into, sentence * base + arcs.head)
    count = np.searchsorted(into, sentence * base + arcs.head, side="right") - begin
    head, modifier = np.repeat(arcs.head, count), np.repeat(arcs.modifier, count)
    first = arcs.head[ranges(begin, count)]
    kept = first != modifier
    if projective:
        kept &= (first < np.minimum(head, modifier)) | (first > np.maximum(head, modifier))
    ptr = offsets(np.bincount(np.repeat(sentence, count)[kept], minlength=len(arcs.arc_ptr) - 1))
    return ArcTriples(ptr, first[kept], head[kept], modifier[kept])


def siblings_of_trees(heads: np.ndarray, sentence_ptr: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The inner sibling of every word, int64 (n_words,), `NOBODY` for the first of a side; and whether the word is the
    last of its side, bool (n_words,)."""
    sentence, word = block_of(sentence_ptr), positions(np.diff(sentence_ptr)) + 1
    base = int(word.max(initial=0)) + 1
    side = (sentence * base + heads) * 2 + (word > heads)
    order = np.lexsort((np.abs(word - heads), side))
    begins = np.diff(side[order], prepend=-1) != 0
    inner, is_last = np.full(len(word), NOBODY, np.int64), np.zeros(len(word), bool)
    inner[order[1:]] = word[order[:-1]]
    inner[order[begins]] = NOBODY
    is_last[order] = np.append(begins[1:], True)[: len(order)]
    return inner, is_last


def true_siblings(heads: np.ndarray, sentence_ptr: np.ndarray) -> ArcTriples:
    """The siblings of trees, one or two triples for each word."""
    inner, is_last = siblings_of_trees(heads, sentence_ptr)
    word = positions(np.diff(sentence_ptr)) + 1
    at = np.repeat(np.arange(len(word)), 1 + is_last)
    is_second = np.diff(at, prepend=-1) == 0
    sizes = np.bincount(block_of(sentence_ptr)[at], minlength=len(sentence_ptr) - 1)
    first, modifier = np.where(is_second, word[at], inner[at]), np.where(is_second, NOBODY, word[at])
    return ArcTriples(
        offsets(sizes), first.astype(np.int32), heads[at].astype(np.int32), modifier.astype(np.int32)
    )


def true_grandparents(heads: np.ndarray, sentence_ptr: np.ndarray) -> ArcTriples:
    """The grandparents of trees, one triple for each word that does not depend on the root."""
    below = np.flatnonzero(heads > 0)
    sentence, word = block_of(sentence_ptr)[below], positions(np.diff(sentence_ptr))[below] + 1
    above = heads[np.asarray(sentence_ptr)[sentence] + heads[below] - 1]
    ptr = offsets(np.bincount(sentence, minlength=len(sentence_ptr) - 1))
    return ArcTriples(ptr, above.astype(np.int32), heads[below].astype(np.int32), word.astype(np.int32))
