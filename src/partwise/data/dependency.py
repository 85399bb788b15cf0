"""Dependency treebanks: CoNLL-U, CoNLL-X and .dp files read into flat columns."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, BinaryIO, TypeVar

import numpy as np

from partwise.core.arrays import offsets, ranges
from partwise.core.tree_checks import UNKNOWN_HEAD
from partwise.data import decode, open_binary, readable
from partwise.data.conll import whole_sequences
from partwise.data.dependency_checks import check_trees
from partwise.data.dependency_text import NO_VALUE, DependencyLines, cut_lines
from partwise.errors import InputError

Item = TypeVar("Item")

_HEAD = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)


@dataclass
class DependencyCorpus:
    """Sentences with their dependency trees, as flat columns over all words.

    ``_`` stands for a missing value, also in every word of a column that the file does not have.

    Attributes
    ----------
    forms, lemmas, coarse_tags, fine_tags, feats : list of str, each (n_words,)
        Coarse and fine tags are UPOS and XPOS in CoNLL-U, CPOSTAG and POSTAG in CoNLL-X; the one tag of a .dp file
        is the fine one. `feats` are the features of a word, ``Case=Nom|Number=Sing``.
    heads : int32 array (n_words,)
        Position of the head in the sentence, from 1; 0 is the root, -1 is unknown.
    relations : list of str (n_words,), or None
        None if the file has no column for them.
    sentence_ptr : int64 array (n_sentences + 1,)
        Words of sentence i are ``sentence_ptr[i]:sentence_ptr[i + 1]``.
    source : DependencyLines or None
        The file's lines. `write_dependencies` copies from them what is not in the columns.
    """

    forms: list[str]
    lemmas: list[str]
    coarse_tags: list[str]
    fine_tags: list[str]
    feats: list[str]
    heads: np.ndarray
    relations: list[str] | None
    sentence_ptr: np.ndarray
    source: DependencyLines | None = None

    @property
    def n_words(self) -> int:
        return int(self.sentence_ptr[-1])

    @property
    def n_sentences(self) -> int:
        return len(self.sentence_ptr) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Words per sentence, int64 (n_sentences,)."""
        return np.diff(self.sentence_ptr)

    @property
    def has_heads(self) -> bool:
        """Whether every word's head is known."""
        return bool((self.heads >= 0).all())

    @property
    def multiwords(self) -> list[tuple[int, int, str]]:
        """Tokens of several words: (first word, word after the last, form)."""
        return [] if self.source is None else self.source.multiwords

    def split(self, flat: Sequence[Item]) -> list[Sequence[Item]]:
        """Cut a flat sequence over all words into one slice per sentence."""
        if len(flat) != self.n_words:
            raise InputError(f"{len(flat)} values for {self.n_words} words")
        return [flat[begin:end] for begin, end in pairwise(self.sentence_ptr.tolist())]

    def subset(self, sentences: np.ndarray) -> DependencyCorpus:
        """The sentences with these numbers (or of a mask), in that order, without their source."""
        chosen = np.asarray(sentences)
        chosen = np.flatnonzero(chosen) if chosen.dtype == bool else chosen.astype(np.int64)
        lengths = self.lengths[chosen]
        words = ranges(self.sentence_ptr[chosen], lengths)
        places = words.tolist()

        def pick(column: list[str]) -> list[str]:
            return [column[place] for place in places]

        return DependencyCorpus(
            pick(self.forms),
            pick(self.lemmas),
            pick(self.coarse_tags),
            pick(self.fine_tags),
            pick(self.feats),
            self.heads[words],
            None if self.relations is None else pick(self.relations),
            offsets(lengths),
        )

    def where(self, word: int) -> dict[str, Any]:
        """Path and line of a word for an `InputError`, if the file is known."""
        if self.source is None:
            return {}
        line = self.source.first_line + int(self.source.word_lines[word])
        return {"path": self.source.path, "line": line}


def read_dependencies(
    path: str | os.PathLike[str],
    format: str = "auto",
    *,
    need_heads: bool = True,
    single_root: bool = False,
) -> DependencyCorpus:
    """Read a dependency treebank.

    Parameters
    ----------
    path : str or path
        UTF-8 text, plain or gzipped; "-" is standard input.
    format : {"auto", "conllu", "conllx", "dp"}
        CoNLL-U; CoNLL-X with 10, 8 or 6 columns; or word, tag, head and perhaps relation, one word per line. "auto"
        looks at the first lines, never at the file's name (see `detect_dependency_format`).
    need_heads : bool
        Whether a missing head is an error; False for sentences to be parsed.
    single_root : bool
        Whether two words with head 0 in one sentence are an error.

    Returns
    -------
    DependencyCorpus
    """
    with open_binary(path) as handle, readable(path):
        data = handle.read()
    text = decode(data, path)
    return parse_dependencies(text, format, path=path, need_heads=need_heads, single_root=single_root)


def parse_dependencies(
    text: str,
    format: str = "auto",
    *,
    path: object = None,
    need_heads: bool = True,
    single_root: bool = False,
) -> DependencyCorpus:
    """Like `read_dependencies`, from a string; `path` is only named in errors."""
    corpus = _corpus(cut_lines(text, path, format))
    check_trees(corpus, need_heads=need_heads, single_root=single_root)
    return corpus


def stream_dependencies(
    handle: BinaryIO, format: str = "auto", *, path: object = "<stream>", batch_size: int = 1000
) -> Iterator[DependencyCorpus]:
    """Read sentences to be parsed as they arrive; heads may be missing.

    Parameters
    ----------
    handle : binary file
        From `open_binary`, or any object with ``read1`` or ``read``.
    format : {"auto", "conllu", "conllx", "dp"}
        "auto" is decided by the first sentences that arrive.
    path : object
        The name of the file in errors.
    batch_size : int
        The most sentences in one batch.

    Yields
    ------
    DependencyCorpus
        Whole sentences with their source; a corpus of no sentences if the text holds only blank lines.
    """
    first_line = 1
    for block in whole_sequences(handle, batch_size, path):
        text = decode(block, path, first_line)
        cut = cut_lines(text, path, format, first_line, allow_empty=True)
        if len(cut.word_lines):
            format = cut.format
        corpus = _corpus(cut)
        check_trees(corpus, need_heads=False)
        yield corpus
        first_line += len(cut.lines) - 1


def corpus_from_sentences(
    forms: Sequence[Sequence[str]],
    *,
    lemmas: Sequence[Sequence[str]] | None = None,
    coarse_tags: Sequence[Sequence[str]] | None = None,
    fine_tags: Sequence[Sequence[str]] | None = None,
    feats: Sequence[Sequence[str]] | None = None,
    heads: Sequence[Sequence[int]] | None = None,
    relations: Sequence[Sequence[str]] | None = None,
) -> DependencyCorpus:
    """Build a corpus from lists, one inner list per sentence; columns left out are unknown.

    Parameters
    ----------
    forms, lemmas, coarse_tags, fine_tags, feats, relations : sequence of sequences of str
    heads : sequence of sequences of int
        From 1; 0 is the root, -1 is unknown.

    Returns
    -------
    DependencyCorpus
    """
    lengths = [len(sentence) for sentence in forms]
    if 0 in lengths:
        raise InputError(f"sentence {lengths.index(0)} has no words")

    def flat(name: str, column: Sequence[Sequence[str]] | None) -> list[str]:
        if column is None:
            return [NO_VALUE] * sum(lengths)
        _check_lengths(name, column, lengths)
        values = list(chain.from_iterable(column))
        wrong = [each for each in set(values) if not isinstance(each, str)]
        if wrong:
            raise InputError(f"{name} holds {wrong[0]!r:.60}, which is not a string")
        return values

    n_words = sum(lengths)
    flat_heads = np.full(n_words, UNKNOWN_HEAD, dtype=np.int32)
    if heads is not None:
        _check_lengths("heads", heads, lengths)
        values = np.array(list(chain.from_iterable(heads))) if n_words else np.zeros(0, int)
        if values.dtype.kind not in "iu":
            raise InputError("heads must be whole numbers: 0 for the root, -1 for not known")
        flat_heads = np.clip(values, -2, 2**31 - 1).astype(np.int32)
    corpus = DependencyCorpus(
        flat("forms", forms),
        flat("lemmas", lemmas),
        flat("coarse_tags", coarse_tags),
        flat("fine_tags", fine_tags),
        flat("feats", feats),
        flat_heads,
        None if relations is None else flat("relations", relations),
        offsets(lengths),
    )
    if heads is not None:
        check_trees(corpus, need_heads=False)
    return corpus


def _corpus(cut: DependencyLines) -> DependencyCorpus:
    """Name the columns, and read the heads."""
    n_words = len(cut.word_lines)
    none = [NO_VALUE] * n_words
    if cut.format == "dp":
        forms, fine_tags, heads, *rest = cut.columns
        lemmas = coarse_tags = feats = none
    else:
        _, forms, lemmas, coarse_tags, fine_tags, feats, *rest = cut.columns
        heads, *rest = rest or [none]
    numbers = {text: int(text) for text in set(heads) if _HEAD.fullmatch(text)}
    numbers[NO_VALUE] = UNKNOWN_HEAD
    wrong = set(heads) - numbers.keys()
    if wrong:
        word = next(word for word, text in enumerate(heads) if text in wrong)
        raise cut.error(
            f"the head {heads[word]!r:.40} is not a whole number (0 for the root, _ for none)", word
        )
    values = np.fromiter(map(numbers.__getitem__, heads), dtype=np.int32, count=n_words)
    relations = rest[0] if rest else None
    return DependencyCorpus(
        forms, lemmas, coarse_tags, fine_tags, feats, values, relations, cut.sentence_ptr, cut
    )


def _check_lengths(name: str, column: Sequence[Sequence[Any]], lengths: list[int]) -> None:
    if len(column) != len(lengths):
        raise InputError(f"{name} has {len(column)} sentences, but forms has {len(lengths)}")
    for number, (values, length) in enumerate(zip(column, lengths, strict=True)):
        if isinstance(values, str) or len(values) != length:
            found = "a string" if isinstance(values, str) else f"{len(values)} values"
            raise InputError(f"sentence {number}: {name} has {found}, but there are {length} words")
