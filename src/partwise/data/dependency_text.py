"""The lines of a dependency file: words, sentence boundaries and columns."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from partwise.core.arrays import positions
from partwise.errors import InputError

FORMATS = ("conllu", "conllx", "dp")
NO_VALUE = "_"
BYTE_ORDER_MARK = "\ufeff"
UNIVERSAL_TAGS = frozenset((
    "ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM", "PART", "PRON", "PROPN", "PUNCT", "SCONJ",
    "SYM", "VERB", "X", "_",
))  # fmt: skip
COLUMN_NAMES = ("ID", "FORM", "LEMMA", "tag", "tag", "FEATS", "HEAD", "DEPREL", "column 9", "column 10")
_WIDTHS = {"conllu": (10,), "conllx": (10, 8, 6), "dp": (4, 3)}
_ALL_WIDTHS = {width for widths in _WIDTHS.values() for width in widths}
_LINES_LOOKED_AT = 50
_BLANK, _COMMENT, _WORD, _RANGE, _EMPTY_NODE, _WRONG = range(6)
_NUMBER = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
_RANGE_ID = re.compile(r"([1-9][0-9]{0,8})-([1-9][0-9]{0,8})", re.ASCII)
_EMPTY_NODE_ID = re.compile(r"(0|[1-9][0-9]{0,8})\.([1-9][0-9]{0,8})", re.ASCII)


@dataclass
class DependencyLines:
    """A dependency file cut into lines, and the columns of its words.

    Attributes
    ----------
    lines : list of str
        The lines as they are in the file, without the final line feed.
    word_lines : int64 array (n_words,)
        For each word its index in `lines`.
    first_line : int
        The number of the first line, counted from 1.
    path : object
        The name of the file in errors.
    format : {"conllu", "conllx", "dp"}
    columns : list of list of str, each (n_words,)
        The columns of the words' rows.
    sentence_ptr : int64 array (n_sentences + 1,)
    multiwords : list of (first word, word after the last, form)
        Tokens such as "don't" that are written as one word and analysed as several.
    """

    lines: list[str]
    word_lines: np.ndarray
    first_line: int
    path: object
    format: str
    columns: list[list[str]]
    sentence_ptr: np.ndarray
    multiwords: list[tuple[int, int, str]] = field(default_factory=list)

    def error(self, message: str, word: int) -> InputError:
        """An error at the line of a word."""
        return InputError(message, self.path, self.first_line + int(self.word_lines[word]))


def detect_dependency_format(text: str, path: object = None) -> str:
    """Detect the format of a dependency file from its first 50 lines of words, not from its name.

    3 or 4 columns: "dp". 6, 8 or 10: "conllu" if there are comments, lines such as ``1-2`` or ``1.1``, enhanced
    dependencies, or no coarse tags but the universal ones; "conllx" otherwise.
    """
    lines: list[str] = []
    rows: list[list[str]] = []
    for number, whole in enumerate(text.split("\n"), 1):
        line = whole.removeprefix(BYTE_ORDER_MARK) if number == 1 else whole
        if not line.strip(" \t\r"):
            continue
        lines.append(line)
        if not line.startswith("#"):
            rows.append(line.rstrip("\r").split("\t"))
            if len(rows) == 1 and len(rows[0]) not in _ALL_WIDTHS:
                message = (
                    f"this row has {_plural(len(rows[0]))} separated by tabs; CoNLL-U and CoNLL-X have 10, "
                    "a .dp file has 3 (word, tag, head) or 4"
                )
                raise InputError(message, path, number)
        if len(rows) == _LINES_LOOKED_AT:
            break
    if rows and len(rows[0]) != 10:
        return "dp" if len(rows[0]) in _WIDTHS["dp"] else "conllx"
    full = [row for row in rows if len(row) == 10]
    universal = (
        any(line.startswith("#") for line in lines)
        or any(not row[0].isdigit() or ":" in row[8] for row in full)
        or all(row[3] in UNIVERSAL_TAGS for row in full)
    )
    return "conllu" if universal else "conllx"


def cut_lines(
    text: str, path: object = None, format: str = "auto", first_line: int = 1, allow_empty: bool = False
) -> DependencyLines:
    """Cut a text into sentences and columns; errors name the line.

    Parameters
    ----------
    text : str
    path : object
        The name of the file in errors.
    format : {"auto", "conllu", "conllx", "dp"}
    first_line : int
        The number of the text's first line.
    allow_empty : bool
        Whether a text without words is allowed (at the end of a stream) or an error.

    Returns
    -------
    DependencyLines
    """
    if format not in ("auto", *FORMATS):
        raise InputError(f"format={format!r} is not one of auto, {', '.join(FORMATS)}")
    if format == "auto":
        format = detect_dependency_format(text, path)
    lines = text.split("\n")
    rows = [line.rstrip("\r") for line in lines] if "\r" in text else list(lines)
    rows[0] = rows[0].removeprefix(BYTE_ORDER_MARK)
    kinds = _kinds(rows, format, path, first_line)
    word_lines = np.flatnonzero(kinds == _WORD)
    if not len(word_lines) and not allow_empty:
        raise InputError("no words in this file" if text else "this file is empty", path)
    sentence_ptr, block = _sentences(kinds, word_lines, path, first_line)
    columns = _columns([rows[index] for index in word_lines], word_lines, format, path, first_line)
    cut = DependencyLines(lines, word_lines, first_line, path, format, columns, sentence_ptr)
    if format != "dp":
        _check_ids(cut)
        special = np.flatnonzero((kinds == _RANGE) | (kinds == _EMPTY_NODE))
        if len(special):
            _read_special_lines(cut, rows, special.tolist(), block)
    return cut


def _kinds(rows: list[str], format: str, path: object, first_line: int) -> np.ndarray:
    """The kind of every line, int8 (n_lines,)."""
    if format == "dp":
        return np.array([_WORD if row.strip(" \t") else _BLANK for row in rows], dtype=np.int8)
    first = [row.partition("\t")[0] for row in rows]
    kind_of = {each: _kind(each, format) for each in set(first)}
    kinds = np.fromiter(map(kind_of.__getitem__, first), dtype=np.int8, count=len(first))
    for index in np.flatnonzero(kinds == _BLANK).tolist():
        if rows[index].strip(" \t"):
            kinds[index] = _WRONG
    wrong = np.flatnonzero(kinds == _WRONG)
    if len(wrong):
        index = int(wrong[0])
        hint = "" if "\t" in rows[index] else "; columns are separated by tabs"
        raise InputError(f"{first[index]!r:.40} is not the number of a word{hint}", path, first_line + index)
    return kinds


def _kind(first: str, format: str) -> int:
    if _NUMBER.fullmatch(first):
        return _WORD
    if not first.strip(" "):
        return _BLANK
    if first.startswith("#"):
        return _COMMENT
    if format == "conllu" and _RANGE_ID.fullmatch(first):
        return _RANGE
    if format == "conllu" and _EMPTY_NODE_ID.fullmatch(first):
        return _EMPTY_NODE
    return _WRONG


def _sentences(
    kinds: np.ndarray, word_lines: np.ndarray, path: object, first_line: int
) -> tuple[np.ndarray, np.ndarray]:
    """The first word of each sentence, and for every line the number of blank lines before it."""
    block = np.cumsum(kinds == _BLANK)
    blocks_of_words = block[word_lines]
    starts = np.flatnonzero(np.diff(blocks_of_words, prepend=-1))
    text_lines = np.flatnonzero(kinds != _BLANK)
    empty = ~np.isin(block[text_lines], blocks_of_words[starts])
    if empty.any():
        line = first_line + int(text_lines[empty][0])
        raise InputError("a sentence without words: lines that belong to none", path, line)
    return np.append(starts, len(word_lines)).astype(np.int64), block


def _columns(
    word_rows: list[str], word_lines: np.ndarray, format: str, path: object, first_line: int
) -> list[list[str]]:
    """The columns of the words' rows, all of one width that the format allows."""
    if not word_rows:
        return [[] for _ in range(_WIDTHS[format][0])]
    widths = np.fromiter((row.count("\t") for row in word_rows), dtype=np.int64, count=len(word_rows)) + 1
    width = int(widths[0])
    wrong = np.flatnonzero(widths != width)
    if width not in _WIDTHS[format]:
        allowed = " or ".join(map(str, sorted(_WIDTHS[format])))
        message = f"this row has {_plural(width)} separated by tabs; {format} has {allowed}"
        raise InputError(message, path, first_line + int(word_lines[0]))
    if len(wrong):
        message = (
            f"this row has {_plural(widths[wrong[0]])} separated by tabs, but line "
            f"{first_line + int(word_lines[0])} has {width}"
        )
        raise InputError(message, path, first_line + int(word_lines[wrong[0]]))
    fields = "\t".join(word_rows).split("\t")
    if "" in fields:
        word, column = divmod(fields.index(""), width)
        name = COLUMN_NAMES[column] if format != "dp" else ("word", "tag", "head", "relation")[column]
        message = f"{name} is empty; write _ for no value"
        raise InputError(message, path, first_line + int(word_lines[word]))
    return [fields[column::width] for column in range(width)]


def _check_ids(cut: DependencyLines) -> None:
    """Raise unless words are numbered 1, 2, 3 … in each sentence."""
    number_of = {text: int(text) for text in set(cut.columns[0])}
    ids = np.fromiter(map(number_of.__getitem__, cut.columns[0]), dtype=np.int64)
    expected = positions(np.diff(cut.sentence_ptr)) + 1
    wrong = np.flatnonzero(ids != expected)
    if len(wrong):
        word = int(wrong[0])
        what = f"word number {ids[word]} where {expected[word]} is due"
        if expected[word] > 1 and ids[word] == ids[word - 1]:
            what += " (the number is there twice)"
        elif ids[word] == 1:
            what += " (a blank line must stand between sentences)"
        raise cut.error(what, word)


def _read_special_lines(cut: DependencyLines, rows: list[str], special: list[int], block: np.ndarray) -> None:
    """Check the lines ``1-2`` and ``1.1``, and collect the tokens of several words."""
    blocks_of_sentences = block[cut.word_lines[cut.sentence_ptr[:-1]]]
    n_words_before = np.searchsorted(cut.word_lines, special).tolist()
    sentence_of = np.searchsorted(blocks_of_sentences, block[special]).tolist()
    last_sentence, range_end, last_node = -1, 0, (0, 0)
    for index, before, sentence in zip(special, n_words_before, sentence_of, strict=True):
        begin, end = int(cut.sentence_ptr[sentence]), int(cut.sentence_ptr[sentence + 1])
        if sentence != last_sentence:
            last_sentence, range_end, last_node = sentence, 0, (0, 0)
        fields = rows[index].split("\t")
        message = (
            "" if len(fields) == 10 else f"this row has {_plural(len(fields))} separated by tabs, not 10"
        )
        if match := _RANGE_ID.fullmatch(fields[0]):
            low, high = int(match[1]), int(match[2])
            if low != before - begin + 1 or low > high or low <= range_end or high > end - begin:
                message = (
                    message or f"{fields[0]} does not number words that follow it and are in no other token"
                )
            else:
                range_end = high
                cut.multiwords.append((begin + low - 1, begin + high, fields[1] if len(fields) > 1 else ""))
        elif match := _EMPTY_NODE_ID.fullmatch(fields[0]):
            node = int(match[1]), int(match[2])
            due = (before - begin, last_node[1] + 1 if last_node[0] == before - begin else 1)
            if node != due:
                message = message or f"empty node {fields[0]} where {due[0]}.{due[1]} is due"
            last_node = node
        if message:
            raise InputError(message, cut.path, cut.first_line + index)


def _plural(number: int) -> str:
    return "1 column" if number == 1 else f"{number} columns"
