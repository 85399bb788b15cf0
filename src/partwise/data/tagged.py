"""Tagged text: one sentence per line, every word written ``word/TAG``."""

from __future__ import annotations

import os
import re

import numpy as np

from partwise.data import read_text, shortened, unix_newlines
from partwise.data.conll import Columns
from partwise.errors import InputError

_FIELD = re.compile(r"[^ \t\r]+")


def read_tagged(path: str | os.PathLike[str]) -> Columns:
    r"""Read ``word/TAG`` text.

    The last slash separates word and tag. A slash written ``\/`` belongs to the word, which is
    returned with a plain slash (``1\/2/CD`` is the word ``1/2``).

    Parameters
    ----------
    path : str or path
        UTF-8 text, plain or gzipped; "-" is standard input. Blank lines are skipped.

    Returns
    -------
    Columns
        With one input column, the words, and the tags as labels.
    """
    return parse_tagged(read_text(path), path=path)


def parse_tagged(text: str, *, path: object = None) -> Columns:
    """Like `read_tagged`, from a string; `path` is only named in errors."""
    words: list[str] = []
    tags: list[str] = []
    ends = [0]
    for number, line in enumerate(unix_newlines(text).split("\n"), 1):
        for field in _FIELD.findall(line):
            pair = _word_and_tag(field)
            if pair is None:
                raise InputError(f"{shortened(field)} is not word/TAG", path, number)
            words.append(pair[0])
            tags.append(pair[1])
        if len(words) > ends[-1]:
            ends.append(len(words))
    if not words:
        raise InputError("no tokens in this file" if text else "this file is empty", path)
    return Columns(
        [words], tags, np.array(ends, dtype=np.int64), np.array([0, len(ends) - 1], dtype=np.int64)
    )


def words_of_lines(text: str) -> list[list[str]]:
    """The words of each line that is not blank; tags are dropped on lines on which every word has one."""
    sentences = []
    for line in unix_newlines(text).split("\n"):
        fields = _FIELD.findall(line)
        pairs = [_word_and_tag(field) for field in fields]
        if fields:
            sentences.append(
                [pair[0] for pair in pairs if pair]
                if all(pairs)
                else [field.replace("\\/", "/") for field in fields]
            )
    return sentences


def as_tagged(word: str, tag: str) -> str:
    """A word with its tag, as `read_tagged` reads it."""
    return word.replace("/", "\\/") + "/" + tag


def _word_and_tag(field: str) -> tuple[str, str] | None:
    word, slash, tag = field.rpartition("/")
    if not slash or not word or not tag or word.endswith("\\"):
        return None
    return word.replace("\\/", "/"), tag
