"""Write treebanks with new heads and relations; every other byte stays as it was read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, TextIO

import numpy as np

from partwise.data.dependency_checks import check_trees
from partwise.data.dependency_text import NO_VALUE, DependencyLines
from partwise.errors import InputError

if TYPE_CHECKING:
    from partwise.data.dependency import DependencyCorpus

_BAD_IN_A_FIELD = re.compile(r"[\t\n\r]|^$")


def write_dependencies(
    handle: TextIO,
    corpus: DependencyCorpus,
    heads: np.ndarray | None = None,
    relations: Sequence[str] | None = None,
) -> None:
    """Write a corpus with other heads and relations; every other byte stays as it was read.

    Parameters
    ----------
    handle : text file
        Opened with ``newline=""``, so that line ends stay as they are; flushed at the end.
    corpus : DependencyCorpus
        A corpus without a source is written as CoNLL-U.
    heads : int array (n_words,), or None for the corpus's own
    relations : sequence of str (n_words,), or None for the corpus's own
        They are not written to a file without a column for relations, except that CoNLL-X of 6 columns gets both.
    """
    heads = corpus.heads if heads is None else np.asarray(heads)
    relations = corpus.relations if relations is None else relations
    for name, column in (("heads", heads), ("relations", relations)):
        if column is not None and len(column) != corpus.n_words:
            raise InputError(f"{len(column)} {name} for {corpus.n_words} words")
    if heads.dtype.kind not in "iu" and len(heads):
        raise InputError(f"heads are of type {heads.dtype}; they must be whole numbers")
    check_trees(replace(corpus, heads=np.asarray(heads, dtype=np.int32)), need_heads=False)
    _check_fields(relations or ())
    texts = [NO_VALUE if head < 0 else str(head) for head in heads.tolist()]
    named = [NO_VALUE] * corpus.n_words if relations is None else relations
    if corpus.source is None:
        handle.write("".join(_fresh_lines(corpus, texts, named)))
    else:
        handle.write("\n".join(_rewritten(corpus.source, texts, named, relations is not None)))
    handle.flush()


def _fresh_lines(corpus: DependencyCorpus, heads: list[str], relations: Sequence[str]) -> Iterator[str]:
    columns = (corpus.forms, corpus.lemmas, corpus.coarse_tags, corpus.fine_tags, corpus.feats)
    for column in columns:
        _check_fields(column)
    rows = list(zip(*columns, heads, relations, strict=True))
    for begin, end in pairwise(corpus.sentence_ptr.tolist()):
        for number, row in enumerate(rows[begin:end], 1):
            yield f"{number}\t" + "\t".join(row) + "\t_\t_\n"
        yield "\n"


def _check_fields(column: Sequence[str]) -> None:
    for text in set(column):
        if not isinstance(text, str) or _BAD_IN_A_FIELD.search(text):
            raise InputError(f"{text!r:.40} cannot be written in a column")


def _rewritten(source: DependencyLines, heads: list[str], relations: Sequence[str], named: bool) -> list[str]:
    lines = list(source.lines)
    width, place = len(source.columns), 2 if source.format == "dp" else 6
    for index, head, relation in zip(source.word_lines.tolist(), heads, relations, strict=True):
        line = lines[index]
        row = line.rstrip("\r")
        fields = row.split("\t")
        if width <= place:
            fields += [head, relation]
        else:
            fields[place] = head
            if named and width > place + 1:
                fields[place + 1] = relation
        lines[index] = "\t".join(fields) + line[len(row) :]
    return lines
