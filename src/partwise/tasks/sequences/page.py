"""Labelled sequences, position by position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from partwise.data.crfsuite_format import parse_crfsuite
from partwise.data.jsonl import is_feature_value
from partwise.errors import InputError
from partwise.estimators.encoders import ColumnEncoder
from partwise.scoring.labelling import labelling_scores
from partwise.scoring.metrics import confusion
from partwise.tasks.page import (
    Evidence,
    Explorer,
    LabelRow,
    Parts,
    difference,
    percent,
    ranked,
    shortened,
    shown_terms,
    term_of,
    text_or,
)

_WORDS = ("word", "token", "form", "text", "w", "word.lower()", "word.lower")
_WORD_STARTS = ("w[0]=", "word[0]=", "word=", "w=", "token=", "form=")
_EXAMPLE = ["the", "old", "man", "saw", "a", "small", "dog"]
_TAGS = ["DT", "JJ", "NN", "VBD", "DT", "JJ", "NN"]


class SequenceExplorer(Explorer):
    """Labels of positions, their probabilities, the best labellings and what speaks for them."""

    kind = "sequences"

    def answer(self, x: Any, truth: Any = None, kbest: int = 3) -> dict[str, Any]:
        labels = self._labels([x])[0]
        found: dict[str, Any] = {"kind": self.kind, "tokens": words_of(x), "labels": labels}
        others = other_columns(x)
        if others:
            found["columns"] = others
        if truth is not None:
            found["truth"] = [str(label) for label in truth]
        if self.has_probabilities:
            found["marginals"] = ranked(self._names(), self._arrays([x])[0])
        found["kbest"] = self._kbest(x, kbest)
        found |= self._why(x)
        return found

    def _labels(self, inputs: Any) -> list[list[str]]:
        return [list(map(str, labels)) for labels in self.estimator.predict(inputs)]

    def _names(self) -> list[str]:
        return [str(label) for label in self.estimator.classes_.tolist()]

    def _arrays(self, inputs: Any) -> list[np.ndarray]:
        """Probabilities (length, n_labels) of every sequence, ordered as `_names`."""
        return self.estimator.predict_marginals_array(inputs)

    def _kbest(self, x: Any, k: int) -> list[dict[str, Any]]:
        return [
            {"labels": list(map(str, labels)), self.value_name(): float(value)}
            for labels, value in self.estimator.predict_kbest([x], k=k)[0]
        ]

    def _why(self, x: Any) -> dict[str, Any]:
        """Terms of the answer's score, and of its lead over the next one."""
        explained = self.estimator.explain(x)
        found: dict[str, Any] = {
            "score": explained.score,
            "terms": shown_terms(map(term_of, explained.contributions)),
        }
        with suppress(InputError):  # where there is no other labelling
            other = self.estimator.explain(x, against="runner-up")
            labels = list(map(str, other.against or []))
            found["against"] = difference(labels, other.score, map(term_of, other.contributions))
        return found

    # -- labelled data --------------------------------------------------------------------------

    def evidence(self, inputs: Any, truths: Any) -> Evidence:
        predicted = self._labels(inputs)
        true = [list(map(str, labels)) for labels in truths]
        errors = [
            sum(a != b for a, b in zip(own, other, strict=True))
            for own, other in zip(true, predicted, strict=True)
        ]
        found = labelled_evidence(true, predicted, np.array(errors, np.int64))
        if self.has_probabilities:
            found.predicted, found.every = label_parts(self._names(), self._arrays(inputs), true)
        return found

    # -- what people write ----------------------------------------------------------------------

    def _tokens(self) -> Any:
        return self.estimator._encoder

    def read(self, request: dict[str, Any]) -> Any:
        encoder, value = self._tokens(), text_or(request, "tokens")
        if encoder.kind == "columns":
            columns: ColumnEncoder = encoder
            rows = _rows_of_text(request["text"], columns) if value is None else value
            return _checked_rows(rows, columns.node.n_columns)
        if value is None and encoder.kind == "attributes":
            sequences = parse_crfsuite(_with_labels(request["text"])).feature_sequences()
            return one_of_many(sequences, "sequence")
        if value is None:
            value = [line.replace(",", " ").split() for line in request["text"].splitlines() if line.strip()]
        return _checked_features(value) if encoder.kind == "attributes" else _checked_matrix(value)

    def expects(self) -> dict[str, str]:
        encoder = self._tokens()
        if encoder.kind == "columns":
            n = encoder.node.n_columns
            if n == 1:
                return {"format": "words, with spaces between them", "example": " ".join(_EXAMPLE)}
            names = encoder.node.column_names
            return {
                "format": f"one word a line, {n} columns with tabs or spaces between them: {', '.join(names)}",
                "example": "\n".join(
                    "\t".join((word, tag, *["_"] * n)[:n]) for word, tag in zip(_EXAMPLE, _TAGS, strict=True)
                ),
            }
        if encoder.kind == "attributes":
            names = [name.replace("\\", "\\\\").replace(":", "\\:") for name in encoder.names()[:3]] or ["a"]
            example = "\n".join("\t".join(names[: k + 1]) for k in range(2))
            return {
                "format": "one position a line, its features with tabs between them, as CRFsuite has them",
                "example": example,
            }
        row = " ".join(["0.5"] * int(encoder.n_dense))
        return {
            "format": f"one position a line, {encoder.n_dense} numbers each",
            "example": f"{row}\n{row}",
        }


# -- what a token is shown as -------------------------------------------------------------------------


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
    """Of every position the columns beside the word; nothing where there are none."""
    rows = [list(map(str, token[1:])) if isinstance(token, tuple) else [] for token in x]
    return rows if any(rows) else []


# -- what a request is read as --------------------------------------------------------------------------


def one_of_many(found: Sequence[Any], what: str) -> Any:
    """The only one of some examples."""
    if len(found) != 1:
        raise InputError(f"one {what} at a time; these are {len(found)}")
    return found[0]


def _with_labels(text: str) -> str:
    """Lines of features as lines of CRFsuite, whose first field is a label."""
    return "\n".join("?\t" + line if line.strip() else line for line in text.strip("\n").splitlines())


def _rows_of_text(text: str, encoder: ColumnEncoder) -> list[Any]:
    n = encoder.node.n_columns
    if n == 1:
        return text.split()
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


# -- scores ---------------------------------------------------------------------------------------------


def labelled_evidence(true: list[list[str]], predicted: list[list[str]], errors: np.ndarray) -> Evidence:
    """Scores of labels."""
    scores = labelling_scores(true, predicted)
    kind = "F1 of chunks" if scores.f1_kind == "chunk" else "F1, mean over labels"
    shown = [
        ("accuracy", percent(scores.accuracy)),
        (kind, percent(scores.f1)),
        ("precision", percent(scores.precision)),
        ("recall", percent(scores.recall)),
        ("labels", f"{scores.n_labels:,}"),
        ("examples without an error", f"{int((errors == 0).sum()):,} of {len(errors):,}"),
    ]
    rows = [LabelRow(shortened(str(row.label)), *row[1:]) for row in scores.per_label]
    names, matrix = confusion(true, predicted)
    return Evidence(shown, rows, ([shortened(str(name)) for name in names], matrix), errors)


def label_parts(
    names: list[str], arrays: Sequence[np.ndarray], true: list[list[str]]
) -> tuple[Parts | None, Parts | None]:
    """Probabilities of the labels beside the truth: of the most probable ones, and of all."""
    rows = [np.asarray(array, np.float64) for array in arrays if len(array)]
    if not rows:
        return None, None
    flat, index = np.concatenate(rows), {name: k for k, name in enumerate(names)}
    codes = np.array([index.get(label, -1) for labels in true for label in labels], np.int64)
    best = flat.argmax(axis=1)
    is_true = codes[:, None] == np.arange(len(names))
    return (flat[np.arange(len(flat)), best], best == codes), (flat.reshape(-1), is_true.reshape(-1))
