"""Sentences and trees as a dependency parser reads them: corpora, lists of words, heads with or without relations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from partwise.core.arcs import Arcs
from partwise.core.tree_checks import count_roots
from partwise.data import DependencyCorpus, corpus_from_sentences
from partwise.data.dependency_checks import ProjectiveCount, check_trees, drop_crossing
from partwise.data.frames import as_dicts, is_frame, unpacked
from partwise.errors import InputError
from partwise.estimators.checks import check_choice, check_ordered, refuse_masked, training_weights
from partwise.estimators.predictions import blocks
from partwise.tasks.dependencies.lifting import LiftCount, LiftedTrees, lift

_WORD_FIELDS = {
    "form": "forms", "lemma": "lemmas", "coarse_tag": "coarse_tags", "fine_tag": "fine_tags", "feats": "feats",
}  # fmt: skip


class Tree(NamedTuple):
    """A labelled tree: `heads`, int64 (n,), 0 for the root, and `relations`, a list of n strings."""

    heads: np.ndarray
    relations: list[str]


def as_corpus(X: Any) -> DependencyCorpus:
    """A corpus from what `X` may be.

    Parameters
    ----------
    X : DependencyCorpus, or sequence of sentences
        A sentence is a list of words, a word a string or a dict with ``form`` and perhaps ``lemma``,
        ``coarse_tag``, ``fine_tag`` and ``feats``.
    """
    if isinstance(X, DependencyCorpus):
        return X
    check_ordered(X, "X", "a DependencyCorpus or a list of sentences")
    sentences = [_words(sentence, i) for i, sentence in enumerate(unpacked(X))]
    named = {name for sentence in sentences for word in sentence for name in word}
    columns: dict[str, Any] = {
        _WORD_FIELDS[name]: [[word.get(name, "_") for word in sentence] for sentence in sentences]
        for name in named
    }
    return corpus_from_sentences(**{"forms": [[] for _ in sentences], **columns})


def _words(sentence: Any, i: int) -> list[Mapping[str, str]]:
    sentence = as_dicts(sentence) if is_frame(sentence) else sentence
    check_ordered(sentence, f"X[{i}]", "a list of words")
    words = [{"form": word} if isinstance(word, str) else word for word in sentence]
    for t, word in enumerate(words):
        if not isinstance(word, Mapping) or "form" not in word or not word.keys() <= _WORD_FIELDS.keys():
            raise InputError(
                f"X[{i}][{t}] is {word!r:.60}; a word is a string or a dict of {', '.join(_WORD_FIELDS)}"
            )
    return words


def with_trees(corpus: DependencyCorpus, y: Any) -> DependencyCorpus:
    """The corpus with other trees: per sentence heads, or a pair of heads and relations."""
    if y is None:
        return corpus
    check_ordered(y, "y", "a list of trees, one per sentence")
    trees = list(y)
    if len(trees) != corpus.n_sentences:
        raise InputError(f"y has {len(trees)} trees, but X has {corpus.n_sentences} sentences")
    labelled = [_is_labelled(tree) for tree in trees]
    if len(set(labelled)) > 1:
        raise InputError(f"y[{labelled.index(not labelled[0])}]: some trees have relations and others none")
    heads: list[int] = []
    relations: list[str] = []
    for i, (tree, length) in enumerate(zip(trees, corpus.lengths.tolist(), strict=True)):
        refuse_masked(tree[0] if labelled[0] else tree, f"y[{i}]")
        own = np.asarray(tree[0] if labelled[0] else tree)
        if own.shape != (length,) or (length and own.dtype.kind not in "iu"):
            raise InputError(f"y[{i}] must have {length} heads, whole numbers, one a word")
        heads.extend(np.clip(own, -2, 2**31 - 1).tolist())
        if labelled[0]:
            names = list(tree[1])
            if len(names) != length or not all(isinstance(name, str) for name in names):
                raise InputError(f"y[{i}] must have {length} relations, strings, one a word")
            relations.extend(names)
    return replace(
        corpus, heads=np.array(heads, np.int32), relations=relations if labelled and labelled[0] else None
    )


def _is_labelled(tree: Any) -> bool:
    """Whether a tree is a pair of sequences, not a sequence of heads."""
    return (
        isinstance(tree, (tuple, list))
        and len(tree) == 2
        and all(isinstance(each, (Sequence, np.ndarray)) and not isinstance(each, str) for each in tree)
    )


class TrainingTrees(NamedTuple):
    """Checked sentences with their trees.

    Attributes
    ----------
    trees : LiftedTrees
    single_root : bool
        Whether exactly one word of each sentence depends on the root.
    skipped : ProjectiveCount or None
        How many sentences were left out.
    lifted : LiftCount or None
        How many arcs were lifted.
    weights : float64 array (n_sentences,) or None
    """

    trees: LiftedTrees
    single_root: bool
    skipped: ProjectiveCount | None
    lifted: LiftCount | None
    weights: np.ndarray | None


def training_trees(
    X: Any, y: Any, sample_weight: Any, single_root: bool | str, projective: bool, non_projective: str
) -> TrainingTrees:
    """Check sentences, trees and weights."""
    corpus = with_trees(as_corpus(X), y)
    if corpus.n_sentences == 0:
        raise InputError("X has no sentences to train on")
    if single_root not in (True, False, "auto"):
        raise InputError(f"single_root must be True, False or 'auto', not {single_root!r:.40}")
    check_choice("non_projective", non_projective, ("lift", "skip", "error"))
    refuse_crossing = projective and non_projective == "error"
    check_trees(corpus, single_root=single_root is True, projective=refuse_crossing)
    if single_root == "auto":
        single_root = bool((count_roots(corpus.heads, corpus.sentence_ptr) == 1).all())
    weights = training_weights(sample_weight, corpus.lengths > 0, "sentences")
    skipped = lifted = None
    trees = LiftedTrees(corpus, corpus.heads)
    if projective and non_projective == "lift":
        trees = lift(corpus)
        lifted = trees.lift_count()
    elif projective:
        kept, skipped = drop_crossing(corpus)
        if weights is not None and skipped.n_skipped:
            raise InputError("sample_weight needs all sentences, and non_projective='skip' leaves some out")
        if kept.n_sentences == 0:
            raise InputError("no sentence is left to train on: all have crossing arcs")
        trees = LiftedTrees(kept, kept.heads)
    return TrainingTrees(trees, bool(single_root), skipped, lifted, weights)


def pieces(corpus: DependencyCorpus, most_arcs: int) -> Iterator[DependencyCorpus]:
    """The corpus in pieces with about that many arcs, so that memory does not grow with the file."""
    for first, last in blocks(corpus.lengths**2, most_arcs):
        is_whole = last - first == corpus.n_sentences
        yield corpus if is_whole else corpus.subset(np.arange(first, last))


def words_of(arcs: Arcs, sentence_ptr: np.ndarray) -> np.ndarray:
    """The modifier of every arc as a number over the whole corpus, int64 (n_arcs,)."""
    return np.repeat(sentence_ptr[:-1], np.diff(arcs.arc_ptr)) + arcs.modifier - 1
