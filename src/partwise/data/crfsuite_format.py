r"""CRFsuite's own text format: ``label TAB attribute[:value] TAB ...``, one item per line."""

from __future__ import annotations

import math
import os
import re
import sys
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from partwise.data import read_text, shortened, unix_newlines
from partwise.errors import InputError

_PART = re.compile(r"(?:[^\\:]|\\[\\:]?)+")
_ESCAPED = re.compile(r"\\([\\:])")


@dataclass
class AttributeSequences:
    """Sequences of items that have named, weighted attributes, in flat arrays.

    Attributes
    ----------
    labels : list of str (n_items,)
        One label per item.
    attributes : list of str (n_attributes,)
        Attribute names, item after item.
    values : ndarray of float64 (n_attributes,)
        The value of each attribute; 1 if the file gives none.
    item_ptr : ndarray of int64 (n_items + 1,)
        Attributes of item t are ``item_ptr[t]:item_ptr[t + 1]``.
    sequence_ptr : ndarray of int64 (n_sequences + 1,)
        Items of sequence i are ``sequence_ptr[i]:sequence_ptr[i + 1]``.
    sequence_weights : ndarray of float64 (n_sequences,)
        From ``@weight``; 1 if there is none.
    """

    labels: list[str]
    attributes: list[str]
    values: np.ndarray
    item_ptr: np.ndarray
    sequence_ptr: np.ndarray
    sequence_weights: np.ndarray

    @property
    def n_sequences(self) -> int:
        return len(self.sequence_ptr) - 1

    def label_sequences(self) -> list[list[str]]:
        """The labels as one list per sequence."""
        ptr = self.sequence_ptr.tolist()
        return [self.labels[start:end] for start, end in pairwise(ptr)]

    def feature_sequences(self) -> list[list[dict[str, float]]]:
        """One dict per item. The values of an attribute that an item has twice are added, as in CRFsuite."""
        items = []
        item_ptr, values = self.item_ptr.tolist(), self.values.tolist()
        for start, end in pairwise(item_ptr):
            item: dict[str, float] = {}
            for index in range(start, end):
                name = self.attributes[index]
                item[name] = item.get(name, 0.0) + values[index]
            items.append(item)
        ptr = self.sequence_ptr.tolist()
        return [items[start:end] for start, end in pairwise(ptr)]


def read_crfsuite(path: str | os.PathLike[str]) -> AttributeSequences:
    r"""Read a CRFsuite data file.

    Tabs separate fields and blank lines separate sequences. ``\:`` and ``\\`` stand for a colon
    and a backslash inside a name. ``@weight:2.5`` before the label, on an item's line or on a
    line of its own, is the weight of that sequence.

    Parameters
    ----------
    path : str or path
        UTF-8 text, plain or gzipped; "-" is standard input.

    Returns
    -------
    AttributeSequences
    """
    return parse_crfsuite(read_text(path), path=path)


def parse_crfsuite(text: str, *, path: object = None) -> AttributeSequences:
    """Like `read_crfsuite`, from a string; `path` is only named in errors."""
    labels: list[str] = []
    attributes: list[str] = []
    scaled: dict[int, float] = {}
    item_ends, sequence_ends, weights = [0], [0], []
    weight = 1.0
    # The blank line after the end closes the last sequence.
    for number, line in enumerate([*unix_newlines(text).split("\n"), ""], 1):
        if not line or line.isspace():
            if len(labels) > sequence_ends[-1]:
                sequence_ends.append(len(labels))
                weights.append(weight)
            weight = 1.0
            continue
        try:
            fields = [field for field in line.split("\t") if field]
            while fields and fields[0].startswith("@"):
                weight = _weight(fields.pop(0))
            if not fields:
                continue
            labels.append(_label(fields.pop(0)))
            if ":" in line or "\\" in line:
                for index, field in enumerate(fields):
                    fields[index], value = _attribute(field)
                    if value != 1.0:
                        scaled[len(attributes) + index] = value
        except InputError as error:
            raise InputError(str(error), path, number) from None
        # Most names occur on many lines: keep one copy of each.
        attributes.extend(map(sys.intern, fields))
        item_ends.append(len(attributes))
    if not labels:
        raise InputError("no items in this file" if text else "this file is empty", path)
    values = np.ones(len(attributes))
    values[np.fromiter(scaled, dtype=np.int64, count=len(scaled))] = list(scaled.values())
    pointers = np.array(item_ends, dtype=np.int64), np.array(sequence_ends, dtype=np.int64)
    return AttributeSequences(labels, attributes, values, *pointers, np.array(weights, dtype=np.float64))


def _attribute(field: str) -> tuple[str, float]:
    if ":" not in field and "\\" not in field:
        return field, 1.0
    parts = _split_at_colons(field)
    if len(parts) > 2:
        raise InputError(
            f"attribute {shortened(field)} has more than one ':'; write a colon in a name as '\\:'"
        )
    if not parts[0]:
        raise InputError(f"attribute {shortened(field)} has no name; write a colon in a name as '\\:'")
    return parts[0], 1.0 if len(parts) == 1 or not parts[1] else _number(parts[1], field)


def _label(field: str) -> str:
    parts = _split_at_colons(field)
    if len(parts) > 1:
        raise InputError(f"label {shortened(field)} has a value; write a colon in a label as '\\:'")
    return sys.intern(parts[0])


def _weight(field: str) -> float:
    name, _, value = field.partition(":")
    if name != "@weight":
        raise InputError(f"unknown declaration {shortened(name)}; only '@weight:number' is known")
    weight = _number(value, field)
    if weight < 0:
        raise InputError(f"{shortened(field)}: a weight cannot be negative")
    return weight


def _split_at_colons(field: str) -> list[str]:
    """Split at colons that are not escaped, and remove the escapes."""
    parts, start = [], 0
    while True:
        match = _PART.match(field, start)
        end = match.end() if match else start
        parts.append(_ESCAPED.sub(r"\1", field[start:end]))
        if end == len(field):
            return parts
        start = end + 1


def _number(text: str, field: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{shortened(field)}: {shortened(text)} is not a finite number")
    return value
