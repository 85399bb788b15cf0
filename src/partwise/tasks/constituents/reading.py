"""Sentences for a constituency parser: trees, text, or word/TAG, as a file has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from partwise.data import Tree, decode, readable
from partwise.data.treebank import parse_trees
from partwise.errors import InputError

FORMATS = ("brackets", "export", "text", "tagged")
_EXPORT_STARTS = ("#BOS", "#FORMAT", "#BOT", "%%")


class SentenceBatch(NamedTuple):
    """Sentences as the parser takes them, and their true trees if the file has trees."""

    sentences: list[Any]
    trees: list[Tree] | None = None
    format: str = "brackets"


def stream_sentences(handle: BinaryIO, path: str, format: str, has_tags: bool) -> Iterator[SentenceBatch]:
    """The sentences of a file: trees at once, text line by line as it arrives."""
    with readable(path):
        head = handle.peek(512)[:512].lstrip()  # type: ignore[attr-defined]
    if format == "auto":
        start = head.decode("utf-8", "replace").removeprefix("\ufeff").lstrip()
        format = (
            "export" if start.startswith(_EXPORT_STARTS) else "brackets" if start.startswith("(") else "text"
        )
        if format == "text" and has_tags:
            format = "tagged"
    if format in ("brackets", "export"):
        with readable(path):
            text = decode(handle.read(), path).removeprefix("\ufeff")
        trees = parse_trees(text, path, format, traces=False).trees
        yield SentenceBatch(trees, trees, format)
        return
    number, rest = 0, b""
    while True:
        with readable(path):
            data = handle.read1(1 << 16)  # type: ignore[attr-defined]
        whole, newline, rest = (rest + data).rpartition(b"\n") if data else (rest, b"", b"")
        lines = decode(whole, path, number + 1).split("\n") if whole or newline else []
        sentences = [_words(line, format, has_tags, path, number + k) for k, line in enumerate(lines, 1)]
        number += len(lines)
        if any(sentences):
            yield SentenceBatch([words for words in sentences if words])
        if not data:
            return


def _words(line: str, format: str, has_tags: bool, path: str, number: int) -> list[Any]:
    """The words of a line, or of word/TAG the pairs."""
    fields = line.removeprefix("\ufeff").split()
    if format == "text":
        if has_tags and fields:
            raise InputError("this parser needs tags: give words as word/TAG", path, number)
        return fields
    pairs = [field.rsplit("/", 1) for field in fields]
    for pair in pairs:
        if len(pair) != 2 or not all(pair):
            raise InputError(f"{'/'.join(pair)!r:.40} has no tag; this parser needs word/TAG", path, number)
    return [(word, tag) for word, tag in pairs]
