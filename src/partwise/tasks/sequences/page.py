"""One sequence on pages: the words that stand for its positions, and what people type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from partwise.data.conll import Columns
from partwise.data.crfsuite_format import parse_crfsuite
from partwise.data.jsonl import is_feature_value
from partwise.data.running_text import Splitter
from partwise.errors import InputError
from partwise.tasks.page import text_or
from partwise.tasks.sequences.reading import SequenceFile

# Names of features that hold the word itself, in dicts and in strings "name=word".
_WORDS = ("word", "token", "form", "text", "w", "word.lower()", "word.lower")
_WORD_STARTS = ("w[0]=", "word[0]=", "word=", "w=", "token=", "form=")
_LOOKED_AT, _EXAMPLE_LENGTHS = (
    1000,
    range(5, 26),
)  # sentences, among which one of so many words is the example
_EXAMPLE = ["the", "old", "man", "saw", "a", "small", "dog"]
_TAGS = ["DT", "JJ", "NN", "VBD", "DT", "JJ", "NN"]


def words_of(x: Any) -> list[str]:
    """A text for every position."""
    return [_word(token, t) for t, token in enumerate(x)]


def _word(token: Any, t: int) -> str:
    if isinstance(token, str):
        return token
    if isinstance(token, Mapping):
        named = next((token[key] for key in _WORDS if isinstance(token.get(key), str)), None)
        written = (key.partition("=")[2] for key in token if key.startswith(_WORD_STARTS))
        return next(written, f"position {t + 1}") if named is None else named
    if isinstance(token, (list, tuple)) and token and isinstance(token[0], str):
        return token[0]
    return f"position {t + 1}"


def other_columns(x: Any) -> list[list[str]]:
    """The columns of each position besides the word; empty if there are none."""
    rows = [list(map(str, token[1:])) if isinstance(token, tuple) else [] for token in x]
    return rows if any(rows) else []


def read_request(request: dict[str, Any], encoder: Any, splitter: Splitter) -> Any:
    """The sequence of a request, in the form that the encoder takes; running text is split into tokens."""
    value = text_or(request, "tokens")
    if encoder.kind == "columns":
        rows = _rows_of_text(request["text"], encoder, splitter) if value is None else value
        return _checked_rows(rows, encoder.node.n_columns)
    if value is None and encoder.kind == "attributes":
        sequences = parse_crfsuite(_with_labels(request["text"])).feature_sequences()
        return one_of_many(sequences, "sequence")
    if value is None:
        value = [line.replace(",", " ").split() for line in request["text"].splitlines() if line.strip()]
    return _checked_features(value) if encoder.kind == "attributes" else _checked_matrix(value)


def expected_text(encoder: Any) -> dict[str, str]:
    """How a person writes a sequence, and an example."""
    if encoder.kind == "columns":
        n = encoder.node.n_columns
        if n == 1:
            return {"format": "text", "example": " ".join(_EXAMPLE)}
        names = encoder.node.column_names
        return {
            "format": f"one word a line, {n} columns with tabs or spaces between them: {', '.join(names)}",
            "example": "\n".join(
                "\t".join((word, tag, *["_"] * n)[:n]) for word, tag in zip(_EXAMPLE, _TAGS, strict=True)
            ),
        }
    if encoder.kind == "attributes":
        names = [name.replace("\\", "\\\\").replace(":", "\\:") for name in encoder.names()[:3]] or ["a"]
        return {
            "format": "one position a line, its features with tabs between them, as CRFsuite has them",
            "example": "\n".join("\t".join(names[: k + 1]) for k in range(2)),
        }
    row = " ".join(["0.5"] * int(encoder.n_dense))
    return {"format": f"one position a line, {encoder.n_dense} numbers each", "example": f"{row}\n{row}"}


def facts_of(data: SequenceFile) -> dict[str, Any]:
    """What a model file keeps of its training data: how text was split into tokens, and a sentence as an example."""
    columns = data.x
    if not isinstance(columns, Columns) or not columns.columns:
        return {}
    found: dict[str, Any] = {"text": Splitter.learned(columns.columns[0]).as_dict()}
    lengths, labels = columns.lengths, columns.labels or []
    for i in range(min(columns.n_sequences, _LOOKED_AT)):
        first, end = columns.sequence_ptr[i : i + 2]
        own = set(labels[first:end])
        if lengths[i] in _EXAMPLE_LENGTHS and (len(own) > 2 or i == 0):
            rows = zip(*(column[first:end] for column in columns.columns), strict=True)
            separator = " " if len(columns.columns) == 1 else "\n"
            return {**found, "example": separator.join(map("\t".join, rows))}
    return found


def one_of_many(found: Sequence[Any], what: str) -> Any:
    """The example, or an error if there are several."""
    if len(found) != 1:
        raise InputError(f"one {what} at a time; these are {len(found)}")
    return found[0]


def _with_labels(text: str) -> str:
    """Lines of features as lines of CRFsuite, whose first field is a label."""
    return "\n".join("?\t" + line if line.strip() else line for line in text.strip("\n").splitlines())


def _rows_of_text(text: str, encoder: Any, splitter: Splitter) -> list[Any]:
    n = encoder.node.n_columns
    if n == 1:
        return [token.text for token in splitter.tokens(text)]
    lines = [line for line in text.splitlines() if line.strip()]
    rows = [line.split("\t") if "\t" in line else line.split() for line in lines]
    for number, row in enumerate(rows, 1):
        if len(row) != n:
            names = ", ".join(encoder.node.column_names)
            raise InputError(f"{len(row)} columns; the model needs {n}: {names}", "text", number)
    return rows


def _checked_rows(rows: Any, n_columns: int) -> list[Any]:
    if not isinstance(rows, list) or not rows:
        raise InputError('"tokens" must be a list of words with at least one entry')
    checked: list[Any] = []
    for t, row in enumerate(rows):
        cells = [row] if isinstance(row, str) else row
        if not isinstance(cells, list) or not all(isinstance(cell, str) and cell for cell in cells):
            raise InputError(f'"tokens"[{t}] must be a string, or a list of strings, none of them empty')
        if len(cells) != n_columns:
            raise InputError(f'"tokens"[{t}] has {len(cells)} columns; the model needs {n_columns}')
        checked.append(tuple(cells) if n_columns > 1 else cells[0])
    return checked


def _checked_features(value: Any) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise InputError('"tokens" must be a list of features, one entry a position')
    for t, token in enumerate(value):
        is_list = isinstance(token, list) and all(isinstance(each, str) for each in token)
        is_dict = isinstance(token, dict) and all(map(is_feature_value, token.values()))
        if not (is_list or is_dict):
            raise InputError(f'"tokens"[{t}] must be an object or a list of strings')
    return value


def _checked_matrix(value: Any) -> np.ndarray:
    try:
        matrix = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        matrix = np.zeros(0)
    if matrix.ndim != 2 or not len(matrix):
        raise InputError('"tokens" must be a matrix of numbers, one row a position')
    return matrix
