"""Sentences and trees as a constituency parser reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from partwise.core.arrays import offsets
from partwise.data.constituents import Tree
from partwise.data.frames import as_rows, is_frame, unpacked
from partwise.data.treebank import (
    TRACE_TAG,
    Treebank,
    rooted,
    without_cycles,
    without_functions,
    without_traces,
)
from partwise.errors import InputError
from partwise.estimators.checks import check_ordered, training_weights
from partwise.estimators.predictions import blocks
from partwise.features.spans import Sentences

ROOT = "TOP"


class TrainingTrees(NamedTuple):
    """Checked sentences and their trees.

    Attributes
    ----------
    sentences : Sentences
        With tags where the input has them.
    trees : list of Tree
        Under one root, without traces, without function tags unless they are learnt, without cycles.
    outer : str or None
        The label of the outermost bracket that trees had; None where they had none.
    fixed_tags : bool
        Whether the tags of the input are those of the trees.
    weights : float64 array, shape (n_sentences,), or None
    """

    sentences: Sentences
    trees: list[Tree]
    outer: str | None
    fixed_tags: bool
    weights: np.ndarray | None


def as_sentences(X: Any, need_tags: bool | None = None) -> Sentences:
    """Words, and tags where all have them.

    Parameters
    ----------
    X : sequence of sentences
        A sentence is a list of words, or of pairs (word, tag), or a tree, of which words and tags are read.
    need_tags : bool or None
        Whether tags must be there (True), are not looked at (False), or are taken as they come.
    """
    if isinstance(X, Sentences):
        sentences = X
    else:
        X = X.trees if isinstance(X, Treebank) else X
        check_ordered(X, "X", "a list of sentences")
        rows = [_words(sentence, i) for i, sentence in enumerate(unpacked(X))]
        forms = [word for row in rows for word, _ in row]
        tags = [tag for row in rows for _, tag in row if tag is not None]
        if 0 < len(tags) < len(forms):
            raise InputError("X: some words have tags and others have none")
        sentences = Sentences(forms, tags if tags else None, offsets([len(row) for row in rows]))
    if need_tags and sentences.tags is None and sentences.forms:
        raise InputError("this parser was trained on tagged words: sentences must be lists of (word, tag)")
    return sentences._replace(tags=None) if need_tags is False else sentences


def _words(sentence: Any, i: int) -> list[tuple[str, str | None]]:
    if isinstance(sentence, Tree):
        return [pair for pair in sentence.tagged_words() if pair[1] != TRACE_TAG]
    sentence = as_rows(sentence, f"X[{i}]") if is_frame(sentence) else sentence
    check_ordered(sentence, f"X[{i}]", "a list of words")
    words: list[tuple[str, str | None]] = []
    for t, word in enumerate(sentence):
        if isinstance(word, str):
            words.append((word, None))
        elif (
            isinstance(word, (tuple, list)) and len(word) == 2 and all(isinstance(each, str) for each in word)
        ):
            words.append((word[0], word[1]))
        else:
            raise InputError(
                f"X[{i}][{t}] is {word!r:.60}; a word is a string or a pair (word, tag) of strings"
            )
    return words


def as_trees(y: Any) -> Treebank:
    """Trees from a treebank, or a list of trees, brackets or nested tuples."""
    if isinstance(y, Treebank):
        return y
    check_ordered(y, "y", "a list of trees, one per sentence")
    return Treebank([Tree.of(tree, f"y[{i}]") for i, tree in enumerate(y)])


def training_trees(X: Any, y: Any, sample_weight: Any, functions: bool) -> TrainingTrees:
    """Check sentences, trees and weights. If X is None, the sentences are those of the trees, with their tags."""
    bank = as_trees(y).mapped(without_traces)
    sentences = as_sentences(bank.trees if X is None else X)
    lengths = sentences.lengths
    if not len(lengths):
        raise InputError("X has no sentences to train on")
    if len(bank.trees) != len(lengths):
        raise InputError(f"y has {len(bank.trees)} trees, but X has {len(lengths)} sentences")
    if (lengths == 0).any():
        raise InputError(f"X[{int(np.argmax(lengths == 0))}] has no words")
    begin, fixed = 0, sentences.tags is not None
    for i, (tree, n) in enumerate(zip(bank.trees, lengths.tolist(), strict=True)):
        words = tree.tagged_words()
        if [word for word, _ in words] != sentences.forms[begin : begin + n]:
            raise bank.error(f"the words of y[{i}] are not those of X[{i}]", i)
        if fixed and sentences.tags is not None:
            fixed = [tag for _, tag in words] == sentences.tags[begin : begin + n]
        begin += n
    labels = {tree.label for tree in bank.trees}
    outer = "" if "" in labels else ROOT if labels == {ROOT} else None
    if not functions:
        bank = bank.mapped(without_functions)
    trees = [without_cycles(rooted(tree, ROOT)) for tree in bank.trees]
    weights = training_weights(sample_weight, lengths > 0, "sentences")
    return TrainingTrees(sentences, trees, outer, fixed, weights)


def pieces(sentences: Sentences, most_spans: int) -> Iterator[Sentences]:
    """The sentences in pieces with about that many spans, so that memory does not grow with the file."""
    lengths = sentences.lengths
    for first, last in blocks(lengths * (lengths + 1) // 2, most_spans):
        yield subset(sentences, first, last)


def subset(sentences: Sentences, first: int, last: int) -> Sentences:
    """Sentences `first` to `last` - 1."""
    begin, end = int(sentences.sentence_ptr[first]), int(sentences.sentence_ptr[last])
    tags = None if sentences.tags is None else sentences.tags[begin:end]
    return Sentences(sentences.forms[begin:end], tags, sentences.sentence_ptr[first : last + 1] - begin)


def by_sentence(
    sentences: Sentences, flat: list[str], examples: Iterable[int] | None = None
) -> list[list[str]]:
    """A column over all words, sentence by sentence; of some sentences if they are given."""
    ptr = sentences.sentence_ptr
    chosen = range(len(ptr) - 1) if examples is None else examples
    return [flat[ptr[i] : ptr[i + 1]] for i in chosen]
