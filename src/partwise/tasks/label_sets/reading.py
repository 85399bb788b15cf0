"""Files of examples with sets of labels: libsvm lines ``a,b 1:0.5 3:1``, or JSON lines with features and labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from partwise.data import decode, open_binary, read_text, unix_newlines
from partwise.data.conll import whole_lines
from partwise.data.jsonl import json_object
from partwise.errors import InputError
from partwise.tasks.classes.data import is_attributes
from partwise.tasks.classes.reading import LibsvmReader
from partwise.tasks.options import DataOptions

FORMATS = ("libsvm", "jsonl")
_AT_ONCE = 1000  # lines of a batch: enough to keep all threads busy


@dataclass
class LabelSetFile:
    """Examples as they were read.

    Attributes
    ----------
    X : CSR matrix (n, n_features), array (n, n_features), or list of n dicts or lists of strings
    sets : list of n lists of str
        The labels of each example.
    options : DataOptions
        How the file was read.
    lines : list of str
        The lines of a libsvm file.
    row_lines : list of int
        For each example, the index of its line.
    records : list of dict
        The objects of a file of JSON lines.
    """

    X: Any
    sets: list[list[str]]
    options: DataOptions
    lines: Sequence[str] = ()
    row_lines: Sequence[int] = ()
    records: list[dict[str, Any]] = field(default_factory=list)


class LabelMatrix(np.ndarray):
    """A matrix of 0 and 1 that knows the names of its columns and the sets that it was made of."""

    columns: list[str]
    sets: list[list[str]]

    @classmethod
    def of(cls, sets: list[list[str]], columns: list[str]) -> LabelMatrix:
        """Labels that are no column are left out of the matrix."""
        index = {name: k for k, name in enumerate(columns)}
        found = np.zeros((len(sets), len(columns)), np.int64).view(cls)
        for i, own in enumerate(sets):
            found[i, [index[label] for label in own if label in index]] = 1
        found.columns, found.sets = columns, sets
        return found


def read_label_sets(path: str, options: DataOptions) -> LabelSetFile:
    """Read a whole file, some example of which must have a label."""
    found = _parsed(read_text(path), path, options, 1)
    if not found.sets:
        raise InputError("no examples in this file", path)
    if not any(found.sets):
        raise InputError("no labels in this file: a line is 'label,label index:value ...', or JSON", path)
    return found


def stream_label_sets(path: str, options: DataOptions) -> Iterator[LabelSetFile]:
    """Read a file in batches, with or without labels."""
    number = 1
    with open_binary(path) as handle:
        for block in whole_lines(handle, _AT_ONCE, path):
            text = unix_newlines(decode(block, path, number).removeprefix("\ufeff"))
            if text.strip():
                found = _parsed(text.removesuffix("\n"), path, options, number)
                options = replace(options, format=found.options.format)
                yield found
            number += block.count(b"\n")


def _parsed(text: str, path: str, options: DataOptions, number: int) -> LabelSetFile:
    if options.format == "auto":
        options = replace(options, format="jsonl" if text.lstrip().startswith("{") else "libsvm")
    lines = text.split("\n")
    if options.format == "jsonl":
        return _parsed_json(lines, path, options, number)
    rows = LibsvmReader(path, options, labelled=False).rows(lines, number)
    sets = [_distinct(label.split(",")) for label in rows.labels]
    return LabelSetFile(rows.x, sets, rows.options, lines, rows.row_lines)


def _parsed_json(lines: list[str], path: str, options: DataOptions, number: int) -> LabelSetFile:
    records, X, sets = [], [], []
    for at, line in enumerate(lines, number):
        if not line.strip():
            continue
        try:
            record = json_object(line)
            X.append(_features(record))
            sets.append(_labels(record))
        except InputError as error:
            raise InputError(str(error), path, at) from None
        records.append(record)
    are_numbers = bool(X) and not is_attributes(X)
    if are_numbers and len(set(map(len, X))) > 1:
        raise InputError('"features" have different lengths', path)
    return LabelSetFile(np.array(X, np.float64) if are_numbers else X, sets, options, records=records)


def _features(record: dict[str, Any]) -> Any:
    features = record.get("features")
    if isinstance(features, dict) and is_attributes([features]):
        return features
    if isinstance(features, list):
        if all(isinstance(each, str) for each in features):
            return features
        if all(isinstance(each, (int, float)) and not isinstance(each, bool) for each in features):
            return features
    raise InputError('"features" must be an object of features, a list of strings or a list of numbers')


def _labels(record: dict[str, Any]) -> list[str]:
    labels = record.get("labels")
    labels = [] if labels is None else labels
    if not isinstance(labels, list) or not all(isinstance(label, str) and label for label in labels):
        raise InputError('"labels" must be a list of strings, none of them empty')
    return _distinct(labels)


def _distinct(labels: list[str]) -> list[str]:
    return list(dict.fromkeys(label for label in labels if label))
