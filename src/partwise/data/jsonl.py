"""JSON lines: one object per sequence, with tokens or features and, if known, labels."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from typing import Any, NoReturn

from partwise.data import read_text
from partwise.errors import InputError

_KNOWN = {"tokens", "features", "labels"}
Features = str | dict[str, Any] | list[str]
Label = str | frozenset[str] | dict[str, float] | None


@dataclass
class JsonSequences:
    """Sequences read from JSON lines.

    Attributes
    ----------
    inputs : list of list
        Per sequence one entry per position: a string (from "tokens"), or a dict or a list of
        strings (from "features").
    labels : list of list of (str, None, frozenset of str or dict of str to float), or None
        Per sequence one label per position, None if it is not observed, a set of possible labels, or weights of
        labels; None instead of the list if no line of the file has labels.
    others : list of dict
        Per sequence the other entries of its line, such as an identifier.
    """

    inputs: list[list[Features]]
    labels: list[list[Label]] | None
    others: list[dict[str, Any]]


def read_jsonl(path: str | os.PathLike[str]) -> JsonSequences:
    """Read a JSON lines file.

    Each line is ``{"tokens": ["a", ...]}`` or ``{"features": [{"word": "a", "size": 2.5},
    ["word=a", "short"], ...]}``, with an optional ``"labels": ["X", null, ["X", "Y"], {"X": 2, "Y": 1}, ...]`` of
    the same length: labels, null for what was not observed, lists of possible labels, and weights of labels, such as
    votes. Other keys are kept in `others`, blank lines skipped.

    Parameters
    ----------
    path : str or path
        UTF-8 text, plain or gzipped; "-" is standard input.

    Returns
    -------
    JsonSequences
    """
    return parse_jsonl(read_text(path), path=path)


def parse_jsonl(text: str, *, path: object = None) -> JsonSequences:
    """Like `read_jsonl`, from a string; `path` is only named in errors."""
    inputs: list[list[Features]] = []
    labels: list[list[Label] | None] = []
    others: list[dict[str, Any]] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = json_object(line)
            inputs.append(_inputs(record))
            labels.append(_labels(record, len(inputs[-1])))
            others.append({key: value for key, value in record.items() if key not in _KNOWN})
        except InputError as error:
            raise InputError(str(error), path, number) from None
    if not inputs:
        raise InputError("no sequences in this file" if text else "this file is empty", path)
    if all(sequence is None for sequence in labels):
        return JsonSequences(inputs, None, others)
    unobserved: list[list[Label]] = [[None] * len(items) for items in inputs]
    filled = [blank if known is None else known for known, blank in zip(labels, unobserved, strict=True)]
    return JsonSequences(inputs, filled, others)


def json_object(line: str) -> dict[str, Any]:
    """The object on a line; raises :class:`InputError` if the line is no object."""
    try:
        record = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InputError(_reason(error)) from None
    if not isinstance(record, dict):
        raise InputError(f"a JSON object is needed, not {json_kind(record)}")
    return record


def _inputs(record: dict[str, Any]) -> list[Features]:
    if ("tokens" in record) == ("features" in record):
        raise InputError('the object needs either "tokens" or "features"')
    name = "tokens" if "tokens" in record else "features"
    items = record[name]
    if not isinstance(items, list) or not items:
        raise InputError(f'"{name}" must be a list with at least one entry')
    for position, item in enumerate(items):
        if name == "tokens":
            if not isinstance(item, str):
                raise InputError(f'"tokens"[{position}] must be a string, not {json_kind(item)}')
        elif isinstance(item, dict):
            for key, value in item.items():
                if not is_feature_value(value):
                    where = f'"features"[{position}][{json.dumps(key)}]'
                    raise InputError(f"{where} must be a string, a boolean or a finite number")
        elif not isinstance(item, list) or not all(isinstance(attribute, str) for attribute in item):
            raise InputError(f'"features"[{position}] must be an object or a list of strings')
    return items


def _labels(record: dict[str, Any], length: int) -> list[Label] | None:
    labels = record.get("labels")
    if labels is None:
        return None
    if not isinstance(labels, list) or len(labels) != length:
        found = f"{len(labels)} entries" if isinstance(labels, list) else json_kind(labels)
        raise InputError(f'"labels" must be a list of {length} entries, one for each position, not {found}')
    return [_label(label, f'"labels"[{position}]') for position, label in enumerate(labels)]


def _label(label: Any, name: str) -> Label:
    if label is None or isinstance(label, str):
        return label
    if isinstance(label, list) and label and all(isinstance(each, str) for each in label):
        return frozenset(label)
    weights = list(label.values()) if isinstance(label, dict) else []
    if weights and all(_is_weight(each) for each in weights) and any(weights):
        return {each: float(weight) for each, weight in label.items()}
    if isinstance(label, dict):
        raise InputError(f"{name} must have weights of labels that are at least 0, one of them above 0")
    if isinstance(label, list):
        raise InputError(f"{name} must have at least one label, all of them strings")
    raise InputError(f"{name} must be a string, null, a list of strings or an object, not {json_kind(label)}")


def _is_weight(value: object) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and is_feature_value(value)
        and value >= 0
    )


def is_feature_value(value: object) -> bool:
    """Whether a value of a token's or a node's features is a string, a boolean or a finite number."""
    if isinstance(value, int | float):
        try:
            return math.isfinite(value)
        except OverflowError:
            return False
    return isinstance(value, str)


def _refuse_constant(name: str) -> NoReturn:
    raise InputError(f"{name} is not a finite number")


def _reason(error: Exception) -> str:
    if isinstance(error, InputError):
        return str(error)
    if isinstance(error, json.JSONDecodeError):
        return f"not valid JSON: {error.msg} at column {error.colno}"
    return (
        "not valid JSON: nested too deeply"
        if isinstance(error, RecursionError)
        else f"not valid JSON: {error}"
    )


def json_kind(value: object) -> str:
    """The kind of a JSON value, in words."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
